package fakeseid

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/seid"
)

func TestMain(m *testing.M) {
	Main()
	goleak.VerifyTestMain(m)
}

func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), Executable(t), args...)
	cmd.Env = env
	return cmd
}

func TestVersion(t *testing.T) {
	out, err := command(t, Env(), "version").Output()
	if err != nil || string(out) != Version+"\n" {
		t.Fatalf("%q, %v", out, err)
	}
}

// The product's own reader understands what the fake writes and answers.
func TestInitLooksLikeSeid(t *testing.T) {
	home := seid.Home(t.TempDir())
	args := []string{"init", "m", "--chain-id", "test-1", "--mode", "validator", "--home", string(home)}
	if out, err := command(t, Env(), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	key, err := seid.ReadSigningKey(home.SigningKey())
	if err != nil {
		t.Error(err)
	}
	if _, err := seid.ReadNodeID(home.NodeKey()); err != nil {
		t.Error(err)
	}
	if state, err := seid.ReadSignState(home.SignState()); err != nil || !state.Fresh() {
		t.Errorf("%+v, %v", state, err)
	}
	if genesis, err := seid.ReadGenesis(home.Genesis()); err != nil || genesis.Check("test-1", "") != nil {
		t.Errorf("%+v, %v", genesis, err)
	}
	out, err := command(t, Env(), args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "already exist") {
		t.Errorf("a second init: %s, %v", out, err)
	}
	if out, err := command(t, Env(), append(args, "--overwrite")...).CombinedOutput(); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if again, err := seid.ReadSigningKey(home.SigningKey()); err != nil || again != key {
		t.Errorf("the key changed: %v", err)
	}
}

// startNode starts a fake seid that the test controls.
func startNode(t *testing.T, home string, steps ...Step) (*exec.Cmd, *Process) {
	t.Helper()
	control := NewControl(t)
	cmd := command(t, control.Env(steps...), "start", "--home", home)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := control.Next(t)
	if p.PID != cmd.Process.Pid || p.Args[1] != "start" {
		t.Errorf("%d %q", p.PID, p.Args)
	}
	return cmd, p
}

func TestAnswers(t *testing.T) {
	home := seid.Home(t.TempDir())
	if err := os.Mkdir(home.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, p := startNode(t, string(home), Tell(Facts{ChainID: "test-1", NodeID: "id", Height: 5, Peers: 2}))
	address := p.Open(t, RPC, "127.0.0.1:0")
	client, err := seid.NewClient(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+address)
	if err != nil {
		t.Fatal(err)
	}
	p.Do(t, Block(2), Sign(9))
	if status, err := client.Status(t.Context()); err != nil || status.LatestBlockHeight != 7 || status.Network != "test-1" {
		t.Errorf("%+v, %v", status, err)
	}
	if net, err := client.NetInfo(t.Context()); err != nil || len(net.Connected) != 2 {
		t.Errorf("%+v, %v", net, err)
	}
	if state, err := seid.ReadSignState(home.SignState()); err != nil || state.Height != 9 {
		t.Errorf("%+v, %v", state, err)
	}
	p.Do(t, Exit(0))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// terminate sends SIGTERM to a fake seid that catches it.
func terminate(t *testing.T, cmd *exec.Cmd, p *Process) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := p.Signal(t); got != "SIGTERM" {
		t.Error(got)
	}
}

// homeWithData is a home in which seid can open its stores.
func homeWithData(t *testing.T) string {
	t.Helper()
	home := seid.Home(t.TempDir())
	if err := os.Mkdir(home.Data(), 0o700); err != nil {
		t.Fatal(err)
	}
	return string(home)
}

func TestTheFirstSignalIsHandled(t *testing.T) {
	for name, closing := range map[string]Closing{"at once": AtOnce, "when told": WhenTold} {
		t.Run(name, func(t *testing.T) {
			home := homeWithData(t)
			cmd, p := startNode(t, home, Catch(closing))
			if StoresClean(t, home) {
				t.Error("the stores of a seid that runs are closed")
			}
			terminate(t, cmd, p)
			if closing == WhenTold {
				p.Do(t, CloseStores())
			}
			p.AwaitExit(t)
			if err := cmd.Wait(); err != nil || !StoresClean(t, home) {
				t.Errorf("%v, clean: %t", err, StoresClean(t, home))
			}
		})
	}
}

// TestTheSecondSignalIsNot: with seid's own handler the first signal takes it away.
func TestTheSecondSignalIsNot(t *testing.T) {
	home := homeWithData(t)
	cmd, p := startNode(t, home, Catch(WhenTold))
	terminate(t, cmd, p)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.AwaitExit(t)
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM || StoresClean(t, home) {
		t.Errorf("%v, clean: %t", cmd.ProcessState, StoresClean(t, home))
	}
}

func TestHostsAreDistinct(t *testing.T) {
	if a, b := Host(t), Host(t); a == b {
		t.Errorf("both are %s", a)
	}
}

func TestServingScript(t *testing.T) {
	steps := Serving(Addresses("127.0.0.1"), Facts{Height: 1})
	text, err := json.Marshal(steps)
	if err != nil || !strings.Contains(string(text), "127.0.0.1:26657") || steps[len(steps)-1].Do != "catch" {
		t.Errorf("%s, %v", text, err)
	}
}
