package likeness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/lab/devchain/home"
)

// A node without peers lives at height 0 and says nothing of it: it catches up, and lags
// behind nobody. What it leaves behind is a block store that was opened and holds nothing:
// files are there, and none of them has data.
func TestWithoutPeers(t *testing.T) {
	t.Parallel()
	local := newChain(t, 4)
	n := local.Nodes[0]
	p := start(t, n, v1)
	until(t, "it answers", func(ctx context.Context) bool { return open(ctx, port(n, "26657")) })
	untilLogged(t, n, `msg="not caught up yet"`, 3)
	for path, parts := range map[string][]string{
		"/status":     {`"latest_block_height":"0"`, `"latest_block_hash":""`, `"catching_up":true`, `"latest_block_time":"1970-01-01T00:00:00Z"`},
		"/lag_status": {`"current_height":"0"`, `"max_peer_height":"0"`, `"lag":"0"`},
		"/net_info":   {`"n_peers":"3"`, `"peer_connections":null`},
		"/health":     {"{}"},
	} {
		code, body := get(t.Context(), t, n.RPC()+path)
		for _, part := range parts {
			if code != 200 || !strings.Contains(body, part) {
				t.Errorf("%s: %d, no %s: %s", path, code, part, body)
			}
		}
	}
	untilSignals(t, n)
	signal(t, p, syscall.SIGTERM)
	ends(t, p, 0)
	store := filepath.Join(n.Home.Data(), "tendermint", "blockstore.db")
	files, err := os.ReadDir(store)
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no block store: %v", err)
	}
	for _, file := range files {
		info, err := file.Info()
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(file.Name()) {
		case ".ldb":
			t.Errorf("%s has data", file.Name())
		case ".log":
			if info.Size() > 0 {
				t.Errorf("%s has %d bytes", file.Name(), info.Size())
			}
		}
	}
}

// The last line of defence against signing twice is one file. One that is ahead of the chain
// keeps a validator from signing, and it says so in its log alone; one of zeros lets it sign
// at once.
func TestTheSignStateIsTheOnlyGuard(t *testing.T) {
	t.Parallel()
	_, n := newSole(t)
	p := start(t, n, v1)
	untilHeight(t, n, 2)
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	write := func(state string) {
		t.Helper()
		if err := os.WriteFile(n.Home.SignState(), []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(home.FreshSignState, `"0"`, `"999999"`, 1))
	p = start(t, n, v1)
	untilLogged(t, n, "height regression. Got ", 1)
	stands, err := n.Status(t.Context())
	if err != nil || stands.CatchingUp {
		t.Errorf("%+v, %v", stands, err)
	}
	untilLogged(t, n, "height regression. Got ", 2)
	if now, err := n.Status(t.Context()); err != nil || now.Height != stands.Height {
		t.Errorf("%+v, then %+v, %v", stands, now, err)
	}
	signal(t, p, syscall.SIGKILL)
	ends(t, p, 137)
	write(home.FreshSignState)
	start(t, n, v1)
	untilHeight(t, n, stands.Height+2)
}
