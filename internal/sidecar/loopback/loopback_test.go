package loopback

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sei-operator/sei-operator/internal/durable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ensured makes the material in a new directory.
func ensured(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(content)
	}
	return found
}

// listening serves with the material of a directory.
func listening(t *testing.T, dir string) string {
	t.Helper()
	config, err := ServerConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "hello")
	}))
	server.Config.ErrorLog = nil
	server.Listener = tls.NewListener(server.Listener, config)
	server.Start()
	t.Cleanup(server.Close)
	return "https://" + server.Listener.Addr().String()
}

// ask calls a server, and returns what it said.
func ask(t *testing.T, url string, config *tls.Config) (string, error) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func TestOnlyWhoHasTheMaterialIsAnswered(t *testing.T) {
	dir := ensured(t)
	url := listening(t, dir)
	own, err := ClientConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := ask(t, url, own); err != nil || said != "hello" {
		t.Errorf("with the certificate: %q, %v", said, err)
	}
	other, err := ClientConfig(ensured(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true},
		"one of another pod": {
			InsecureSkipVerify: true, Certificates: other.Certificates,
		},
		"that of the server": func() *tls.Config {
			server, err := ServerConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			return &tls.Config{InsecureSkipVerify: true, Certificates: server.Certificates}
		}(),
	} {
		if said, err := ask(t, url, config); err == nil {
			t.Errorf("%s: was answered %q", name, said)
		}
	}
	// The other way round: seid may take the port while the sidecar is away, and must
	// not be believed.
	if _, err := ask(t, listening(t, ensured(t)), own); err == nil {
		t.Error("a server of another authority was believed")
	}
	if said, err := ask(t, strings.Replace(url, "https", "http", 1), nil); err == nil && said == "hello" {
		t.Error("was answered without TLS")
	}
}

func TestAWrongClockChangesNothing(t *testing.T) {
	dir := ensured(t)
	config, err := ClientConfig(dir)
	if err != nil {
		t.Fatal(err)
	}
	url := listening(t, dir)
	for _, clock := range []time.Duration{-50 * 365 * 24 * time.Hour, -time.Hour, time.Hour, 1000 * 24 * time.Hour} {
		config.Time = func() time.Time { return time.Now().Add(clock) }
		if _, err := ask(t, url, config); err != nil {
			t.Errorf("a clock that is %s off: %v", clock, err)
		}
	}
}

func TestTheMaterialIsKept(t *testing.T) {
	dir := ensured(t)
	before := contents(t, dir)
	if err := Ensure(dir); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Errorf("the next sidecar made other material than the proxy has read: %s", diff)
	}
	for name, content := range before {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o400 {
			t.Errorf("%s has the mode %s", name, info.Mode())
		}
		if strings.Contains(content, "PRIVATE KEY") != strings.HasSuffix(name, ".key") {
			t.Errorf("%s is not what its name says", name)
		}
	}
	if len(before) != 5 {
		t.Errorf("there are %d files", len(before))
	}
}

func TestTornMaterialIsMadeAnew(t *testing.T) {
	for name, tear := range map[string]func(dir string) error{
		"a file is missing":       func(dir string) error { return os.Remove(filepath.Join(dir, clientKeyFile)) },
		"the authority is gone":   func(dir string) error { return os.Remove(filepath.Join(dir, caFile)) },
		"a file is empty":         func(dir string) error { return write(filepath.Join(dir, caFile), nil) },
		"half a file":             func(dir string) error { return write(filepath.Join(dir, serverKeyFile), []byte("-----BEGIN PRIV")) },
		"left by an interruption": func(dir string) error { return os.WriteFile(filepath.Join(dir, "."+caFile+".new"), nil, 0o400) },
		"of two authorities": func(dir string) error {
			content, err := os.ReadFile(filepath.Join(ensured(t), caFile))
			if err != nil {
				return err
			}
			return write(filepath.Join(dir, caFile), content)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ensured(t)
			if err := tear(dir); err != nil {
				t.Fatal(err)
			}
			if err := Ensure(dir); err != nil {
				t.Fatal(err)
			}
			config, err := ClientConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ask(t, listening(t, dir), config); err != nil {
				t.Error(err)
			}
		})
	}
	if err := Ensure(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("there is no such directory")
	}
}

func write(path string, content []byte) error { return durable.Replace(path, content, 0o400) }
