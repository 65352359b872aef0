package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// reader reads the lines of a stream.
type reader struct {
	tb     testing.TB
	lines  *bufio.Reader
	cancel context.CancelFunc
	body   io.Closer
}

func (r *rig) serve(tb testing.TB) string {
	tb.Helper()
	s := httptest.NewServer(r.Handler())
	tb.Cleanup(s.Close)
	return s.URL
}

func read(tb testing.TB, client *http.Client, url, lastID string, headers ...string) *reader {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v0/events", nil)
	if err != nil {
		tb.Fatal(err)
	}
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := client.Do(request) //nolint:bodyclose // the reader closes it
	if err != nil {
		tb.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		tb.Fatalf("%s, %s", response.Status, response.Header)
	}
	r := &reader{tb: tb, lines: bufio.NewReader(response.Body), cancel: cancel, body: response.Body}
	tb.Cleanup(r.close)
	return r
}

func (r *reader) close() {
	r.cancel()
	_ = r.body.Close()
}

// next returns the id of the next event, and the event without it.
func (r *reader) next() (id, rest string) {
	r.tb.Helper()
	var lines []string
	for {
		line, err := r.lines.ReadString('\n')
		if err != nil {
			r.tb.Fatal(err)
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			break
		}
		lines = append(lines, line)
	}
	return strings.TrimPrefix(lines[0], "id: "), strings.Join(lines[1:], " ")
}

func (r *reader) expect(want string) (id string) {
	r.tb.Helper()
	id, got := r.next()
	if got != want {
		r.tb.Fatalf("got %q, want %q", got, want)
	}
	return id
}

func (r *rig) tell(n int) {
	r.bus.Task(engine.Change{Task: store.Task{ID: uuid.UUID{byte(n)}, Type: "a", Status: store.Running, Run: n}})
}

func told(n int) string {
	return fmt.Sprintf(`event: task data: {"id":"%s","run":%d,"status":"running","type":"a"}`, uuid.UUID{byte(n)}, n)
}

const reset = "event: reset data: {}"

func TestAStreamGoesOnWhereItEnded(t *testing.T) {
	r := newRig(t, settings{ring: 3})
	url := r.serve(t)
	r.tell(1)
	first := read(t, http.DefaultClient, url, "")
	begin := first.expect(reset) // who knows nothing has to read everything
	r.tell(2)
	second := first.expect(told(2))
	first.close()
	r.tell(3)
	r.tell(4)

	again := read(t, http.DefaultClient, url, begin)
	for n := 2; n <= 4; n++ {
		again.expect(told(n))
	}
	again.close()
	again = read(t, http.DefaultClient, url, second)
	again.expect(told(3))
	last := again.expect(told(4))
	again.close()

	again = read(t, http.DefaultClient, url, last)
	r.tell(5)
	again.expect(told(5))
	again.close()
	// What was missed is gone by now.
	again = read(t, http.DefaultClient, url, begin)
	r.tell(6)
	again.expect(reset)
	again.expect(told(6))
	again.close()
}

func TestIDsThatSayNothing(t *testing.T) {
	r := newRig(t, settings{})
	url := r.serve(t)
	r.tell(1)
	first := read(t, http.DefaultClient, url, "")
	id := first.expect(reset)
	first.close()
	boot, _, _ := strings.Cut(id, "-")
	for _, bad := range []string{
		"x", "-", "-1", boot, boot + "-", boot + "-x", boot + "--1", boot + "-2", boot + "-18446744073709551616", boot + "-1-1",
		"0123456789abcdef0123456789abcdef-1", strings.ToUpper(boot) + "-1", strings.Repeat("x", 10000),
	} {
		again := read(t, http.DefaultClient, url, bad)
		if got := again.expect(reset); got != id {
			t.Errorf("the stream begins at %s, want %s", got, id)
		}
		again.close()
	}
}

func FuzzLastEventID(f *testing.F) {
	f.Add("")
	f.Add("00-1")
	f.Add("-18446744073709551615")
	r := newRig(f, settings{ring: 2})
	f.Fuzz(func(t *testing.T, id string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the stream ends after its beginning
		request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v0/events", nil)
		request.Header["Last-Event-Id"] = []string{id}
		answer := httptest.NewRecorder()
		r.Handler().ServeHTTP(answer, request)
		if answer.Code != 200 || !strings.Contains(answer.Body.String(), "event: reset\n") {
			t.Errorf("%d %s", answer.Code, answer.Body)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	r := newRig(t, settings{clock: fake})
	stream := read(t, http.DefaultClient, r.serve(t), "")
	stream.expect(reset)
	for range 3 {
		fake.Step(15 * time.Second)
		if id, rest := stream.next(); id != ":" || rest != "" {
			t.Errorf("the heartbeat is %q %q", id, rest)
		}
	}
}

func TestReadersAreBounded(t *testing.T) {
	r := newRig(t, settings{})
	url := r.serve(t)
	var streams []*reader
	for range 32 {
		streams = append(streams, read(t, http.DefaultClient, url, ""))
	}
	answer := r.do(t, "GET", "/v0/events", "")
	if got := decode[api.Error](t, answer.Body); answer.Code != 503 || got.Reason != api.ReasonTooManyStreams {
		t.Errorf("%d %+v", answer.Code, got)
	}
	for _, s := range streams {
		s.close()
	}
}

// Who may read cannot keep the operator from it.
func TestReadersOfOneNameAreBounded(t *testing.T) {
	r, _ := guarded(t)
	url := r.serve(t)
	for range 8 {
		read(t, http.DefaultClient, url, "", as("ann", api.ActionRead)...)
	}
	answer := r.do(t, "GET", "/v0/events", "", as("ann", api.ActionRead)...)
	if got := decode[api.Error](t, answer.Body); answer.Code != 503 || got.Reason != api.ReasonTooManyStreams || !strings.Contains(got.Error, "ann") {
		t.Errorf("%d %+v", answer.Code, got)
	}
	read(t, http.DefaultClient, url, "", as("operator", api.ActionRead)...)
}

// A reader that takes nothing is cut off, and nobody waits for it.
func TestASlowReaderIsCutOff(t *testing.T) {
	r := newRig(t, settings{ring: 64, adapt: func(o *server.Options) { o.StallTimeout = 10 * time.Millisecond }})
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		defer close(ended)
		r.Handler().ServeHTTP(w, request)
	}))
	defer s.Close()
	stream := read(t, http.DefaultClient, s.URL, "")
	defer stream.close()
	long := strings.Repeat("x", 10000)
	for n := 0; ; n++ {
		select {
		case <-ended:
			return
		default:
			r.bus.Task(engine.Change{Task: store.Task{Type: long, Run: n}})
		}
	}
}

// pipes is a network inside the process, whose time is that of the bubble.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
}

func newPipes() *pipes {
	return &pipes{connections: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }
func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.connections <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run serves on a network of its own, and returns its client and what stops it.
func (r *rig) run(t *testing.T) (*http.Client, func() error) {
	t.Helper()
	network := newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, network) }()
	transport := &http.Transport{DialContext: network.dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}, func() error {
		cancel()
		return <-done
	}
}

func TestChangesOfTheNodeAreEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, settings{})
		client, stop := r.run(t)
		stream := read(t, client, "http://sidecar", "")
		stream.expect(reset)
		r.node.set(func(n *server.Node) { n.Seid = api.Seid{State: api.SeidStarting, Pid: 7} })
		stream.expect(`event: seid data: {"pid":7,"rpc":false,"safeToStop":false,"state":"starting"}`)
		r.node.set(func(n *server.Node) { n.Upgrade = api.Upgrade{Name: "v7", Height: 101, Halted: true} })
		stream.expect(`event: upgrade data: {"halted":true,"height":101,"name":"v7"}`)
		r.node.set(func(n *server.Node) { n.FreeBytes = 1 }) // changes all the time
		if err := r.consent.Approve("key", "node", 0); err != nil {
			t.Fatal(err)
		}
		stream.expect(`event: approval data: {"approval":{"nodeId":"node","nodeUid":"` + uid + `","publicKey":"key"},"approved":true}`)
		if err := r.consent.Hold("task", "because", 1); err != nil {
			t.Fatal(err)
		}
		since := r.consent.State().Hold.Since.Format(time.RFC3339Nano)
		stream.expect(`event: hold data: {"by":"task","held":true,"reason":"because","since":"` + since + `"}`)
		if err := r.consent.Release(consent.Release{Sequence: 1}); err != nil {
			t.Fatal(err)
		}
		stream.expect(`event: hold data: {"held":false}`)
		stream.close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The limits on a call are not limits on a stream.
func TestAStreamLivesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, settings{})
		client, stop := r.run(t)
		stream := read(t, client, "http://sidecar", "")
		stream.expect(reset)
		begin := time.Now()
		for range 40 {
			if id, _ := stream.next(); id != ":" {
				t.Fatalf("got %q", id)
			}
		}
		if lived := time.Since(begin); lived != 10*time.Minute {
			t.Errorf("40 heartbeats in %s", lived)
		}
		stream.close()
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownEndsStreamsAndLongPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, settings{})
		client, stop := r.run(t)
		id := r.submit(t, `{"type":"slow"}`)
		stream := read(t, client, "http://sidecar", "")
		stream.expect(reset)
		polled := make(chan string)
		go func() {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://sidecar/v0/tasks/"+id.String()+"?wait=60s", nil)
			if err != nil {
				polled <- err.Error()
				return
			}
			response, err := client.Do(request)
			if err != nil {
				polled <- err.Error()
				return
			}
			defer func() { _ = response.Body.Close() }()
			body, _ := io.ReadAll(response.Body)
			polled <- string(body)
		}()
		rest := make(chan string)
		go func() {
			all, _ := io.ReadAll(stream.lines)
			rest <- string(all)
		}()
		synctest.Wait()
		begin := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := <-rest; got != "" {
			t.Errorf("the stream ended with %q", got)
		}
		if body := <-polled; !strings.Contains(body, `"status":"running"`) {
			t.Errorf("the long poll got %s", body)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the shutdown took %s", took)
		}
	})
}
