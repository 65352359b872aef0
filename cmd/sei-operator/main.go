// Command sei-operator runs Sei nodes on Kubernetes: it keeps SeiNodes as their
// specs want them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/internal/platform"
)

// version is set when a release is built.
var version = "dev"

// garbagePercent is how much garbage there may be, of what is in use. That is caches
// for the most part, which only grow with the fleet: half of them is plenty.
const garbagePercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "sei-operator:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var settings, kubeconfig string
	config := operator.Config{Metrics: metrics.Registry}
	command := &cobra.Command{
		Use: "sei-operator", Short: "Run Sei nodes on Kubernetes", Version: version,
		SilenceUsage: true, SilenceErrors: true, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Log = logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, nil))
			log.SetLogger(config.Log)
			var err error
			if config.Platform, err = platform.Load(settings, os.Getenv); err != nil {
				return err
			}
			if config.Kubernetes, err = kubernetes(kubeconfig); err != nil {
				return err
			}
			return operator.Run(command.Context(), config)
		},
	}
	flags := command.Flags()
	flags.StringVar(&settings, "platform", os.Getenv("SEI_PLATFORM_FILE"), "file with the settings of the platform; none is needed (SEI_PLATFORM_FILE)")
	flags.StringVar(&kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig to use outside of a cluster (KUBECONFIG)")
	flags.StringVar(&config.MetricsAddress, "metrics-address", ":8080", "where metrics are served; 0 for nowhere")
	flags.StringVar(&config.HealthAddress, "health-address", ":8081", "where /healthz and /readyz are served; 0 for nowhere")
	flags.BoolVar(&config.LeaderElection, "leader-election", true, "wait until no other operator is at work")
	flags.StringVar(&config.Namespace, "namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), "sei-system"), "the operator's own namespace; reservations of keys are there (POD_NAMESPACE)")
	flags.StringVar(&config.ServiceAccount, "service-account", cmp.Or(os.Getenv("SEI_SERVICE_ACCOUNT"), "sei-operator"), "the operator's own ServiceAccount; it is known to the access proxies of nodes by tokens of it (SEI_SERVICE_ACCOUNT)")
	flags.StringVar(&config.WatchNamespace, "watch-namespace", "", "the one namespace whose nodes are looked after; all without it")
	return command
}

// kubernetes is how to reach the API server: as a pod does, unless a file says how.
func kubernetes(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
