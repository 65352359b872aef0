package supervisor

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// Supervisor runs seid. Make one with New.
type Supervisor struct {
	cfg    Config
	home   seid.Home
	reaper *reaper

	// over gets the code to end with.
	over chan int
	// closing is closed when the last state has been published.
	closing chan struct{}
	work    sync.WaitGroup

	mu    sync.Mutex
	state State
	// changed is closed, and replaced, when the state changes.
	changed chan struct{}
	// child is the seid that lives.
	child *child
	// wishes are what requests want, the latest last.
	wishes wishes
	// failure is why seid could not be run at all.
	failure error
}

// New makes a supervisor, which does nothing before Run.
func New(cfg Config) *Supervisor {
	cfg = cfg.withDefaults()
	s := &Supervisor{
		cfg:     cfg,
		home:    seid.Home(cfg.Home),
		reaper:  newReaper(),
		over:    make(chan int, 1),
		closing: make(chan struct{}),
		changed: make(chan struct{}),
	}
	s.state = State{State: Waiting, Since: cfg.Clock.Now(), SafeToStop: true, Stops: rand.IntN(maxFirstStop)}
	return s
}

// maxFirstStop leaves room to count, also for those who read numbers as floating-point.
const maxFirstStop = 1 << 50

// terminating are the signals that end the supervisor, and seid with it.
var terminating = []os.Signal{unix.SIGTERM, unix.SIGINT}

// dropped are signals that people send to make a program do something. seid handles
// none of them: each would end it, or freeze it, in the middle of a write. SIGPIPE is
// among them because whoever reads our output may go away without ending seid. They are
// caught and not ignored, because seid would inherit that.
var dropped = []os.Signal{
	unix.SIGPIPE,
	unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM, unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP,
}

// Run serves the socket until seid ends by itself or a signal ends both, and
// returns the code to exit with. An ending context is like SIGTERM. An error
// comes with a code too: seid never ran.
func (s *Supervisor) Run(ctx context.Context) (int, error) {
	if s.cfg.Socket == "" || s.cfg.Home == "" || len(s.cfg.Command) == 0 {
		return 1, errors.New("a supervisor needs a socket, a home directory and a command")
	}
	if err := checkCommand(s.cfg.Command); err != nil {
		return 1, err
	}
	if s.cfg.Signals == nil {
		s.cfg.Signals = make(chan os.Signal, 32)
		signal.Notify(s.cfg.Signals, slices.Concat(terminating, dropped)...)
		defer signal.Stop(s.cfg.Signals)
	}
	listener, release, err := s.cfg.Listen(ctx)
	if err != nil {
		return 1, err
	}
	defer release()
	if err := noCores(); err != nil {
		s.cfg.Log.Warn("a seid that crashes may write its memory, and its keys, to a file", "error", err)
	}
	s.remember()

	done := make(chan struct{})
	if s.cfg.Reap {
		if err := adopt(); err != nil {
			s.cfg.Log.Warn("orphans of seid will not be collected", "error", err)
		}
		s.work.Go(func() { s.reaper.run(done) })
	}
	end := s.serve(ctx, listener)
	code := s.attendSignals(ctx)
	close(s.closing)
	end()
	close(done)
	s.work.Wait()
	return code, s.failure
}

// noCores keeps seid, which inherits it, from writing a core file: its memory holds the
// keys.
func noCores() error {
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

// attendSignals acts on signals until the supervisor is to end.
func (s *Supervisor) attendSignals(ctx context.Context) int {
	ending := ctx.Done()
	for {
		select {
		case sig := <-s.cfg.Signals:
			s.handle(ctx, sig.(syscall.Signal))
		case <-ending:
			ending = nil
			s.terminate(context.WithoutCancel(ctx))
		case code := <-s.over:
			return code
		}
	}
}

func (s *Supervisor) handle(ctx context.Context, sig syscall.Signal) {
	switch sig {
	case unix.SIGTERM, unix.SIGINT:
		s.cfg.Log.Info("asked to end", "signal", unix.SignalName(sig))
		s.terminate(context.WithoutCancel(ctx))
	case unix.SIGPIPE:
	default:
		s.cfg.Log.Info("seid does not handle this signal and would end, so it does not get it", "signal", unix.SignalName(sig))
	}
}

// remember takes over what the predecessor left.
func (s *Supervisor) remember() {
	last, err := recall(s.cfg.Socket)
	if err != nil {
		s.cfg.Log.Warn("cannot tell how the last seid ended", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.LastExit, s.state.Upgrade, s.state.Restarts = last.LastExit, last.Upgrade, last.Restarts
	s.look()
}

// look reads the identity and the sign height. The lock is held.
func (s *Supervisor) look() {
	s.state.Identity, s.state.SignHeight = identity(s.home), signHeight(s.home)
}

// snapshot is the state, and a channel that is closed when it is out of date.
func (s *Supervisor) snapshot() (State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.clone(), s.changed
}

// current is the state with what the files say now.
func (s *Supervisor) current() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look()
	return s.state.clone()
}

// publish tells watchers. The lock is held.
func (s *Supervisor) publish() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// enter changes the phase and tells watchers. The lock is held.
func (s *Supervisor) enter(phase Phase) {
	s.state.State, s.state.Since = phase, s.cfg.Clock.Now()
	s.cfg.Log.Info("seid is "+string(phase), "instance", s.state.Instance, "pid", s.state.PID)
	s.publish()
}

// finish ends the supervisor with a code. The lock is held.
func (s *Supervisor) finish(code int) {
	s.state.Terminating = true
	s.publish()
	select {
	case s.over <- code:
	default: // It is ending already.
	}
}
