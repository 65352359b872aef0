package supervisor

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// Launcher starts seid. There is one that starts processes; a test that needs thousands
// of seids has others.
type Launcher interface {
	// Launch starts one, and tells found what its output says.
	Launch(args []string, found func(seid.OutputFinding)) (Process, error)
}

// Process is a seid that was started.
type Process interface {
	PID() int
	// Signal goes to seid alone. That it has ended already is not an error.
	Signal(sig syscall.Signal)
	// Wait returns how it ended: the exit code, for a signal 128 and its number, and the
	// name of the signal.
	Wait() (code int, signal string)
	// Drain is called after its end, and returns when all that it wrote was found, or
	// when the patience is over.
	Drain(patience <-chan time.Time)
}

// launcher starts processes of the operating system.
type launcher struct {
	env            []string
	stdout, stderr io.Writer
}

// osProcess is one of them.
type osProcess struct {
	process *os.Process
	streams []*stream
}

func (l launcher) Launch(args []string, found func(seid.OutputFinding)) (Process, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		return nil, err
	}
	// seid reads nothing, and a closed descriptor 0 would be given to the first
	// file it opens.
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	files := []*os.File{null}
	defer func() {
		for _, file := range files {
			_ = file.Close() // Ours; seid has its own copy.
		}
	}()
	p := &osProcess{}
	for _, to := range []io.Writer{l.stdout, l.stderr} {
		s, writer, err := newStream(to, seid.NewOutputWatcher(found))
		if err != nil {
			p.closeStreams()
			return nil, err
		}
		p.streams = append(p.streams, s)
		files = append(files, writer)
	}
	p.process, err = os.StartProcess(path, args, &os.ProcAttr{
		Env:   l.env,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		p.closeStreams()
		return nil, err
	}
	for _, s := range p.streams {
		go s.carry()
	}
	return p, nil
}

func (p *osProcess) closeStreams() {
	for _, s := range p.streams {
		_ = s.from.Close() // Nothing was read from it.
	}
}

func (p *osProcess) PID() int { return p.process.Pid }

func (p *osProcess) Signal(sig syscall.Signal) { _ = p.process.Signal(sig) }

func (p *osProcess) Wait() (code int, signal string) {
	state, err := p.process.Wait()
	if err != nil {
		// Somebody else waited for our child: nobody knows how it ended.
		return 1, ""
	}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), unix.SignalName(status.Signal())
	}
	return status.ExitStatus(), ""
}

func (p *osProcess) Drain(patience <-chan time.Time) { endStreams(p.streams, patience) }
