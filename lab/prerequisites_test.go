//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// bare is a machine with nothing but what a test puts on it.
type bare struct{ bin string }

func newBare(t *testing.T, programs ...string) bare {
	t.Helper()
	b := bare{t.TempDir()}
	// A test's own directory is for its owner alone, and nobody has to come in, too.
	if err := os.Chmod(filepath.Dir(b.bin), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, program := range programs {
		b.has(t, program, "exit 0")
	}
	return b
}

// has puts a program on the machine.
func (b bare) has(t *testing.T, program, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.bin, program), []byte("#!"+where(t, "bash")+"\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func where(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (b bare) command(t *testing.T, root bool, program string, arguments ...string) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), where(t, program), arguments...)
	command.Env = []string{"PATH=" + b.bin}
	switch {
	case os.Geteuid() == 0 && !root:
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}}
	case os.Geteuid() != 0 && root:
		t.Skip("needs root")
	}
	return command
}

// look runs the script, and gives what it says.
func (b bare) look(t *testing.T, root bool, wantCode int, arguments ...string) string {
	t.Helper()
	command := b.command(t, root, "bash", append([]string{"-s", "--"}, arguments...)...)
	command.Stdin = strings.NewReader(string(prerequisites))
	output, code := finish(t, command)
	if code != wantCode {
		t.Errorf("%q: exit code %d\n%s", arguments, code, output)
	}
	return output
}

func wantSaid(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("it said\n%s\ninstead of\n%s", got, want)
	}
}

// all is what the script has to find on a machine.
var all = []string{"gcc", "nft", "pkg-config"}

func TestWhatIsMissingIsOneLineToCopy(t *testing.T) {
	t.Run("root without anything", func(t *testing.T) {
		b := newBare(t, "apt-get")
		wantSaid(t, b.look(t, true, 1), "apt-get update && apt-get install -y gcc libc6-dev nftables pkg-config libseccomp-dev"+
			"  # missing here: a C compiler, nft, pkg-config, the headers of libseccomp\n")
	})
	t.Run("a compiler without the headers of libc, a pkg-config without those of libseccomp", func(t *testing.T) {
		b := newBare(t, append(all, "apt-get")...)
		b.has(t, "gcc", "exit 1")
		b.has(t, "pkg-config", "exit 1")
		wantSaid(t, b.look(t, true, 1), "apt-get update && apt-get install -y gcc libc6-dev libseccomp-dev  # missing here: a C compiler, the headers of libseccomp\n")
	})
	t.Run("another distribution", func(t *testing.T) {
		b := newBare(t, "gcc", "pkg-config")
		wantSaid(t, b.look(t, true, 1, "--install"), "install nft with the package manager of your distribution  # Debian's packages: nftables\n")
	})
	t.Run("somebody who wants a real node", func(t *testing.T) {
		b := newBare(t, all...)
		wantSaid(t, b.look(t, false, 1, "--install", "make", "demo"), "sudo env \"PATH=$PATH\" make demo  # real pods need root\n")
	})
	t.Run("somebody who wants to test what needs no root", func(t *testing.T) {
		b := newBare(t, "apt-get")
		wantSaid(t, b.look(t, false, 1, "--install", "--without-root", "make", "test"),
			"sudo apt-get update && sudo apt-get install -y gcc libc6-dev  # missing here: a C compiler\n")
	})
}

func TestWhereNothingIsMissingNothingIsSaid(t *testing.T) {
	t.Run("root", func(t *testing.T) { wantSaid(t, newBare(t, all...).look(t, true, 0, "--install", "make", "demo"), "") })
	t.Run("somebody", func(t *testing.T) {
		wantSaid(t, newBare(t, "gcc").look(t, false, 0, "--install", "--without-root", "make", "test"), "")
	})
}

func TestWhatIsMissingIsInstalled(t *testing.T) {
	b := newBare(t)
	asked := filepath.Join(t.TempDir(), "asked")
	// The names of the packages are not those of the programs.
	b.has(t, "apt-get", `echo "$DEBIAN_FRONTEND $*" >>`+asked+`
if [[ $1 == install ]]; then for program in gcc nft pkg-config; do echo "#!$BASH" >`+b.bin+`/$program; `+where(t, "chmod")+` +x `+b.bin+`/$program; done; fi`)
	wantSaid(t, b.look(t, true, 0, "--install", "make", "test"),
		"installing gcc libc6-dev nftables pkg-config libseccomp-dev  # missing here: a C compiler, nft, pkg-config, the headers of libseccomp\n")
	wantSaid(t, read(t, asked), "noninteractive update -qq\nnoninteractive install -y -qq gcc libc6-dev nftables pkg-config libseccomp-dev\n")
}

func TestWhatCannotBeInstalledIsSaid(t *testing.T) {
	for name, script := range map[string]string{"no network": "exit 100", "a package without its program": "exit 0"} {
		t.Run(name, func(t *testing.T) {
			b := newBare(t, "gcc", "pkg-config")
			b.has(t, "apt-get", script)
			wantSaid(t, b.look(t, true, 1, "--install", "make", "test"), "installing nftables  # missing here: nft\n"+
				"apt-get update && apt-get install -y nftables  # missing here: nft\n")
		})
	}
}

// Without Go on the machine, nothing that is compiled could begin.
func TestMakeLooksBeforeItCompiles(t *testing.T) {
	for _, target := range []string{"test", "demo", "stories", "chaos", "lab-up"} {
		t.Run(target, func(t *testing.T) {
			b := newBare(t, "gcc", "pkg-config", "git")
			for _, program := range []string{"bash", "env", "id", "awk"} {
				if err := os.Symlink(where(t, program), filepath.Join(b.bin, program)); err != nil {
					t.Fatal(err)
				}
			}
			output, code := finish(t, b.command(t, true, "make", "--no-print-directory", "-C", "..", target))
			line, _, _ := strings.Cut(output, "\n")
			wantSaid(t, line, "install nft with the package manager of your distribution  # Debian's packages: nftables")
			if code != 2 || strings.Contains(output, "go: ") {
				t.Errorf("exit code %d\n%s", code, output)
			}
		})
	}
}
