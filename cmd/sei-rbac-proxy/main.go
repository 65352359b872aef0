// Command sei-rbac-proxy is the way into the pod of a node when access control is on.
// It is in the sidecar's image, which starts it as "sei-sidecar rbac-proxy".
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sei-operator/sei-operator/internal/rbacproxy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sei-rbac-proxy:", err)
		os.Exit(1)
	}
}

// command has the flags that are rendered for kube-rbac-proxy, by its names.
func command() *cobra.Command {
	var o rbacproxy.Options
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	command := &cobra.Command{
		Use:           "sei-rbac-proxy",
		Short:         "Let those call the sidecar who may, as the API server says",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			return rbacproxy.Run(command.Context(), o, log, func(address net.Addr) {
				log.Info("Listening", "address", address.String())
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.SecureListenAddress, "secure-listen-address", "", "where to listen, host:port")
	flags.StringVar(&o.Upstream, "upstream", "", "URL of the sidecar")
	flags.StringVar(&o.UpstreamCAFile, "upstream-ca-file", "", "authority of the sidecar's certificate")
	flags.StringVar(&o.UpstreamClientCertFile, "upstream-client-cert-file", "", "certificate to show to the sidecar")
	flags.StringVar(&o.UpstreamClientKeyFile, "upstream-client-key-file", "", "its key")
	flags.StringVar(&o.ConfigFile, "config-file", "", "what to ask the API server about a caller")
	flags.StringVar(&o.TLSCertFile, "tls-cert-file", "", "certificate to show to callers")
	flags.StringVar(&o.TLSPrivateKeyFile, "tls-private-key-file", "", "its key")
	flags.DurationVar(&o.TLSReloadInterval, "tls-reload-interval", time.Minute, "how often to look for a renewed certificate")
	flags.StringSliceVar(&o.AuthTokenAudiences, "auth-token-audiences", nil, "audiences of which a token has to be for one")
	flags.StringSliceVar(&o.IgnorePaths, "ignore-paths", nil, "paths that are open to everybody")
	flags.BoolVar(&o.AuthHeaderFields, "auth-header-fields-enabled", false, "tell the sidecar who calls")
	flags.StringVar(&o.Kubeconfig, "kubeconfig", "", "how to reach the API server; default: as a pod does")
	return command
}
