// Package rbacproxy is the way into a pod: it speaks TLS, finds out by TokenReview who
// calls and by SubjectAccessReview whether they may, and passes the call on to the
// sidecar. It has those flags and that config file of kube-rbac-proxy that we render,
// so that either can stand in front of a sidecar.
package rbacproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 90 * time.Second
	maxHeaderBytes    = 32 << 10
	// The upstream closes a connection that was idle for a minute. Ours are closed
	// before, or a call could be sent into one that is just being closed.
	upstreamIdleTimeout = 30 * time.Second
	upstreamDialTimeout = 5 * time.Second
	// grace is how long calls may take to end at a shutdown. Streams do not end by
	// themselves and are cut off.
	grace = 5 * time.Second
)

// Options are the flags.
type Options struct {
	SecureListenAddress    string
	Upstream               string
	UpstreamCAFile         string
	UpstreamClientCertFile string
	UpstreamClientKeyFile  string
	ConfigFile             string
	TLSCertFile            string
	TLSPrivateKeyFile      string
	TLSReloadInterval      time.Duration
	AuthTokenAudiences     []string
	IgnorePaths            []string
	AuthHeaderFields       bool
	Kubeconfig             string
}

// Run is the proxy until the context ends.
func Run(ctx context.Context, o Options, log *slog.Logger, listening func(net.Addr)) error {
	if len(o.AuthTokenAudiences) == 0 {
		// A token for the API server itself would do, and whoever gets it could use it
		// there.
		return errors.New("--auth-token-audiences is missing: tokens have to be for somebody")
	}
	target, err := url.Parse(o.Upstream)
	if err != nil || target.Scheme != "https" || target.Host == "" {
		return fmt.Errorf("--upstream has to be a URL that begins with https://, and is %q", o.Upstream)
	}
	shown := &certificate{
		certFile: o.TLSCertFile, keyFile: o.TLSPrivateKeyFile, every: o.TLSReloadInterval, clock: clock.RealClock{}, log: log,
	}
	asked, err := awaitQuestion(ctx, o.ConfigFile, log)
	if err != nil {
		return err
	}
	apiServer, err := connection(o.Kubeconfig)
	if err != nil {
		return err
	}
	tokens, rights, err := reviewers(apiServer)
	if err != nil {
		return err
	}
	transport := newTransport(o)
	defer transport.CloseIdleConnections()
	handler := &gate{
		audiences: o.AuthTokenAudiences, ignorePaths: o.IgnorePaths, question: asked,
		tokens: tokens, rights: rights, clock: clock.RealClock{}, log: log,
		upstream: newUpstream(target, transport, o.AuthHeaderFields, log),
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.SecureListenAddress)
	if err != nil {
		return fmt.Errorf("the proxy cannot listen at %s: %w", o.SecureListenAddress, err)
	}
	listening(listener.Addr())
	return serve(ctx, listener, handler, shown, log)
}

// configInterval is how often a config file is looked at that cannot be read.
const configInterval = time.Second

// awaitQuestion waits for a config file that says what to ask. Nobody is let in before,
// but seid is started after the proxy, and must not be kept down by a ConfigMap that
// somebody deleted or spoiled.
func awaitQuestion(ctx context.Context, path string, log *slog.Logger) (question, error) {
	said := ""
	for {
		asked, err := readQuestion(path)
		if err == nil {
			return asked, nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Error("Nobody is let in before this is put right", "error", err)
		}
		select {
		case <-ctx.Done():
			return question{}, err
		case <-time.After(configInterval):
		}
	}
}

// connection is how the API server is reached: from inside the pod, if nothing else
// is said.
func connection(kubeconfig string) (*rest.Config, error) {
	config, err := rest.InClusterConfig()
	if kubeconfig != "" {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy does not know how to reach the API server: %w", err)
	}
	return config, nil
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler, shown *certificate, log *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: shown.get},
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Whoever scans ports would fill the log.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serve: %w", err), server.Close())
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := server.Shutdown(ending)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close()
	}
	<-served
	return err
}

// newTransport is the way to the upstream. The certificates are read for every new
// connection: there are few, and so it never matters which container started first.
func newTransport(o Options) *http.Transport {
	dialer := &net.Dialer{Timeout: upstreamDialTimeout}
	return &http.Transport{
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := upstreamConfig(o)
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext(ctx, network, address)
		},
		IdleConnTimeout:     upstreamIdleTimeout,
		MaxIdleConnsPerHost: 8,
	}
}

func upstreamConfig(o Options) (*tls.Config, error) {
	authority, err := os.ReadFile(o.UpstreamCAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", o.UpstreamCAFile)
	}
	pair, err := tls.LoadX509KeyPair(o.UpstreamClientCertFile, o.UpstreamClientKeyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{pair}}, nil
}
