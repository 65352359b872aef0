// Package fakeseid is a seid for tests: a real process with real ports, signals,
// files and exit codes that does what a test tells it, when the test tells it.
//
// A test binary becomes seid by calling Main at the top of its TestMain:
//
//	func TestMain(m *testing.M) {
//		fakeseid.Main()
//		os.Exit(m.Run())
//	}
//
// and by running itself (Executable) with the environment of Control.Env. What it does comes
// from a script, a list of steps that it carries out when it starts, and from
// the test, which sends more of the same steps over a socket and hears of every
// signal that arrived. Nothing happens by time unless a step says so.
//
// Like seid it has no signal handler until the step Catch, answers GET requests
// flat, and keeps its keys and its sign state in the home directory.
package fakeseid

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// The environment that makes a process a fake seid.
const (
	envRole    = "FAKESEID"
	envScript  = "FAKESEID_SCRIPT"
	envControl = "FAKESEID_CONTROL"

	roleSeid       = "seid"
	roleGrandchild = "grandchild"
)

// Main turns this process into a fake seid and ends it, when the environment
// says so; otherwise it returns at once.
func Main() {
	switch os.Getenv(envRole) {
	case roleSeid:
		os.Exit(run(os.Args[1:]))
	case roleGrandchild:
		os.Exit(linger())
	}
}

// Executable is the path to run as seid: this test binary.
func Executable(tb testing.TB) string {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// Env is the environment of a fake seid that follows a script and that nobody
// controls.
func Env(steps ...Step) []string {
	return environment(roleSeid, "", steps)
}

func environment(role, control string, steps []Step) []string {
	script, err := json.Marshal(steps)
	if err != nil {
		panic(err) // A step is plain data.
	}
	env := []string{
		envRole + "=" + role, envScript + "=" + string(script),
		// The race detector keeps a process that exits for a second.
		"GORACE=" + strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0"),
	}
	if control != "" {
		env = append(env, envControl+"="+control)
	}
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, envRole) && !strings.HasPrefix(entry, "GORACE=") {
			env = append(env, entry)
		}
	}
	return env
}

func run(args []string) int {
	var script []Step
	if text := os.Getenv(envScript); text != "" {
		if err := json.Unmarshal([]byte(text), &script); err != nil {
			return fail("fakeseid: %s: %v", envScript, err)
		}
	}
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "start":
		return start(args[1:], script)
	case "init":
		return initialise(args[1:], script)
	case "version":
		fmt.Println(Version)
		return 0
	default:
		return fail("Error: unknown command %q for \"seid\"", command)
	}
}

func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	return 1
}

// flag returns the value of --name value or --name=value, the last if there are
// several, and none after "--": that is how seid reads its arguments.
func flag(args []string, name string) (value string, found bool) {
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if given, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			value, found = given, true
			continue
		}
		if arg != "--"+name {
			continue
		}
		value, found = "", true
		if i+1 < len(args) && !strings.HasPrefix(args[i+1], "--") {
			value = args[i+1]
		}
	}
	return value, found
}
