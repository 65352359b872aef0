package supervisor

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/sei-operator/sei-operator/internal/signing"
)

// Config is what a supervisor needs. Zero values mean the defaults.
type Config struct {
	// Socket is the path of the unix socket. The directory must outlive the
	// container, so that the next supervisor knows how the last seid ended.
	Socket string
	// Home is seid's home directory.
	Home string
	// Command is the program and its arguments.
	Command []string
	// Env is seid's environment; nil means that of this process.
	Env []string

	// Stdout and Stderr get seid's output; nil means those of this process.
	Stdout, Stderr io.Writer
	// Log gets what the supervisor itself has to say; nil means nothing.
	Log *slog.Logger

	Endpoints Endpoints
	Timing    Timing
	// DoubleSignCheckHeight is how many blocks seid searches for signatures of its
	// own key when it is guarded.
	DoubleSignCheckHeight int

	// Reap makes the supervisor collect every orphan of the container, and give memory
	// back as soon as it only waits. That is a matter of the whole process, so only a
	// process that does nothing else may ask for it.
	Reap bool

	// Clock is the clock of everything but the rhythm of probes; nil means the real
	// one.
	Clock Clock

	// What follows is how the supervisor reaches the world; nil means the operating
	// system.

	// Launcher starts seid.
	Launcher Launcher
	// Listen opens the socket; what it returns gives it free again.
	Listen func(context.Context) (net.Listener, func(), error) `json:"-"`
	// Dial reaches seid, to probe it.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
	// Signals are those from outside.
	Signals chan os.Signal `json:"-"`
}

// Endpoints are where seid listens, as host:port.
type Endpoints struct {
	RPC, Metrics, P2P, REST, GRPC, GRPCWeb string
}

// Timing is how long things take.
type Timing struct {
	// Grace is how long a request waits for the end of a seid that was signalled. Then
	// it is answered with StillRunning, and seid goes on closing: it may take minutes
	// to write a large database down. It is what a pod has, too.
	Grace time.Duration
	// Insist is how long a seed has until it gets a second signal.
	Insist time.Duration
	// HoldBack is how long a termination from outside waits until stopping is safe.
	HoldBack time.Duration
	// BootLimit is how long a seid may be without its signal handler.
	BootLimit time.Duration
	// ServiceStart is how long seid waits after opening each of its services
	// before it goes on.
	ServiceStart time.Duration
	// Settle is added to every estimate of when the signal handler is in place.
	Settle time.Duration
	// Poll is how often a seid that has not settled is probed; more often while it
	// is very young, a tenth as often once it is older than BootLimit.
	Poll time.Duration
	// Flush is how long an ending supervisor waits for slow readers.
	Flush time.Duration
}

// Clock is what of time the supervisor needs.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type realClock struct{}

func (realClock) Now() time.Time                         { return time.Now() }
func (realClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c Config) withDefaults() Config {
	defaults(&c.Endpoints.RPC, "127.0.0.1:26657")
	defaults(&c.Endpoints.Metrics, "127.0.0.1:26660")
	defaults(&c.Endpoints.P2P, "127.0.0.1:26656")
	defaults(&c.Endpoints.REST, "127.0.0.1:1317")
	defaults(&c.Endpoints.GRPC, "127.0.0.1:9090")
	defaults(&c.Endpoints.GRPCWeb, "127.0.0.1:9091")
	defaults(&c.Timing.Grace, 10*time.Minute)
	defaults(&c.Timing.Insist, 45*time.Second)
	defaults(&c.Timing.HoldBack, 480*time.Second)
	defaults(&c.Timing.BootLimit, 60*time.Second)
	defaults(&c.Timing.ServiceStart, 5*time.Second)
	defaults(&c.Timing.Settle, time.Second)
	defaults(&c.Timing.Poll, 100*time.Millisecond)
	defaults(&c.Timing.Flush, 2*time.Second)
	defaults(&c.DoubleSignCheckHeight, signing.Window)
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = realClock{}
	}
	if c.Launcher == nil {
		c.Launcher = launcher{env: c.Env, stdout: c.Stdout, stderr: c.Stderr}
	}
	if c.Listen == nil {
		c.Listen = func(ctx context.Context) (net.Listener, func(), error) { return listen(ctx, c.Socket) }
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	return c
}

func defaults[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}
