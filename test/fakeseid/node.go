package fakeseid

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// node is a fake seid that runs.
type node struct {
	home   string
	args   []string
	linger time.Duration
	report func(event)

	mu        sync.Mutex
	facts     Facts
	listeners map[Endpoint]net.Listener
}

// event is what a fake seid tells the test, one JSON document per line.
type event struct {
	Role    string   `json:"role,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Args    []string `json:"args,omitempty"`
	Signal  string   `json:"signal,omitempty"`
	Done    bool     `json:"done,omitempty"`
	Address string   `json:"address,omitempty"`
	Error   string   `json:"error,omitempty"`
}

func start(args []string, script []Step) int {
	home, _ := flag(args, "home")
	n := &node{home: home, args: args, listeners: map[Endpoint]net.Listener{}, report: func(event) {}}
	if err := openStores(home); err != nil {
		return fail("panic: %v", err)
	}
	conn, err := call(roleSeid)
	if err != nil {
		return fail("fakeseid: %v", err)
	}
	if conn != nil {
		var mu sync.Mutex
		encoder := json.NewEncoder(conn)
		n.report = func(e event) {
			mu.Lock()
			defer mu.Unlock()
			_ = encoder.Encode(e) // A test that is gone needs no reports.
		}
	}
	for _, step := range script {
		if _, err := n.do(step); err != nil {
			return fail("fakeseid: script: %s: %v", step.Do, err)
		}
	}
	if conn == nil {
		select {} // The script installed a handler, or the default action of a signal ends it.
	}
	return n.obey(conn)
}

// obey carries out what the test sends until the test is gone.
func (n *node) obey(conn net.Conn) int {
	n.report(event{Role: roleSeid, PID: os.Getpid(), Args: os.Args})
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var step Step
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			return fail("fakeseid: %v", err)
		}
		answer := event{Done: true}
		address, err := n.do(step)
		if err != nil {
			answer.Error = err.Error()
		}
		answer.Address = address
		n.report(answer)
	}
	// The connection is the life line: no test, no seid.
	return 0
}

// call connects to the test, when there is one that controls.
func call(role string) (net.Conn, error) {
	path := os.Getenv(envControl)
	if path == "" {
		return nil, nil
	}
	//nolint:noctx // there is no context before main, and the socket is local
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("%s: no test: %w", role, err)
	}
	return conn, nil
}

func (n *node) do(step Step) (string, error) {
	switch step.Do {
	case "open":
		return n.open(step.Endpoint, step.Address)
	case "close":
		return "", n.close(step.Endpoint)
	case "facts":
		n.change(func(f *Facts) { *f = *step.Facts })
	case "block":
		n.change(func(f *Facts) { f.Height += int64(step.Count) })
	case "catch":
		n.catch(Closing(step.Count))
	case "linger":
		n.linger = step.For
	case "delay":
		<-time.After(step.For)
	case "sign":
		return "", writeSignState(n.home, step.Height)
	case "grandchild":
		return "", grandchild()
	case "print":
		return "", write(step.Stream, strings.Repeat(string(step.Text), step.Count))
	default:
		return "", n.end(step)
	}
	return "", nil
}

// end carries out the steps that end the process.
func (n *node) end(step Step) error {
	switch step.Do {
	case "exit":
		os.Exit(step.Count)
	case "die":
		signal.Reset()
		return syscall.Kill(os.Getpid(), syscall.Signal(step.Count))
	case "halt":
		if err := n.halt(step); err != nil {
			return err
		}
		os.Exit(2)
	case "close-stores":
		if err := closeStores(n.home); err != nil {
			return err
		}
		os.Exit(0)
	case "panic":
		die(string(step.Text))
	case "refuse-double-sign":
		if height, ok := flag(n.args, "consensus.double-sign-check-height"); ok && height != "0" {
			die("critical task failed: name=state.Run, service=Consensus: found signature from the same key")
		}
	default:
		return fmt.Errorf("unknown step %q", step.Do)
	}
	return nil
}

func (n *node) halt(step Step) error {
	if step.File {
		text, err := json.Marshal(map[string]any{"name": step.Name, "height": step.Height, "info": step.Info})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(n.home, "data", "upgrade-info.json"), text, 0o600); err != nil {
			return err
		}
	}
	if step.Line {
		line := fmt.Sprintf("UPGRADE %q NEEDED at height: %d: %s", step.Name, step.Height, step.Info)
		_ = write("stdout", fmt.Sprintf("time=now level=ERROR msg=%q logger=cosmos/x/upgrade\n", line))
		_ = write("stderr", line+"\n")
	}
	return write("stderr", "goroutine 1 [running]:\n")
}

// die panics as seid does: the text, the stack, the code 2.
func die(text string) {
	_ = write("stderr", "panic: "+text+"\n\ngoroutine 1 [running]:\n")
	os.Exit(2)
}

// catch installs the signal handler.
func (n *node) catch(closing Closing) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGTERM, unix.SIGINT)
	go func() {
		sig := <-caught
		// Before anything is closed: from here on another one ends the process where it
		// stands.
		signal.Stop(caught)
		n.report(event{Signal: unix.SignalName(sig.(syscall.Signal))})
		_ = write("stdout", "time=now level=INFO msg=\"Stopping Node\"\n")
		if closing != AtOnce {
			keepWriting(n.home)
		}
		<-time.After(n.linger)
		if err := closeStores(n.home); err != nil {
			os.Exit(fail("fakeseid: %v", err))
		}
		os.Exit(0)
	}()
}

func (n *node) open(endpoint Endpoint, address string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[endpoint] != nil {
		return "", fmt.Errorf("%s is open already", endpoint)
	}
	//nolint:noctx // a process without a context
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	n.listeners[endpoint] = listener
	switch endpoint {
	case RPC, Metrics, REST:
		server := &http.Server{Handler: n.handler(endpoint), ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(listener) }()
	default:
		go accept(listener)
	}
	return listener.Addr().String(), nil
}

func (n *node) close(endpoint Endpoint) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	listener := n.listeners[endpoint]
	if listener == nil {
		return fmt.Errorf("%s is not open", endpoint)
	}
	delete(n.listeners, endpoint)
	return listener.Close()
}

// accept takes connections and drops them, which is all a port probe needs.
func accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}

func (n *node) change(edit func(*Facts)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	edit(&n.facts)
}

func write(stream, text string) error {
	out := os.Stdout
	if stream == "stderr" {
		out = os.Stderr
	}
	_, err := out.WriteString(text)
	return err
}

// grandchild starts a process that inherits stdout and stderr.
func grandchild() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	//nolint:forbidigo // it outlives this process, and nobody waits for it here
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = environment(roleGrandchild, os.Getenv(envControl), nil)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Start()
}

// linger is the life of a grandchild: it ends with the test.
func linger() int {
	conn, err := call(roleGrandchild)
	if err != nil {
		return fail("fakeseid: %v", err)
	}
	if conn == nil {
		select {}
	}
	signal.Ignore(syscall.SIGPIPE)
	_ = json.NewEncoder(conn).Encode(event{Role: roleGrandchild, PID: os.Getpid()})
	_, _ = bufio.NewReader(conn).ReadByte()
	return 0
}
