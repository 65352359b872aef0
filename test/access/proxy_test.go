package access

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
)

func TestOurs(t *testing.T) {
	program := built(t, ours)
	t.Run("attempts", func(t *testing.T) { try(t, ours, program) })
	t.Run("streams", func(t *testing.T) { streams(t, program) })
	t.Run("certificates", func(t *testing.T) { certificates(t, program) })
	t.Run("the sidecar is away", func(t *testing.T) { sidecarAway(t, program) })
	t.Run("the API server is away", func(t *testing.T) { apiServerAway(t, program) })
	t.Run("the pod may not ask", func(t *testing.T) { mayNotAsk(t, program) })
	t.Run("answers are kept for a moment", func(t *testing.T) { keptAnswers(t, program) })
}

// TestTheirs has the golden standard answer the same attempts: whatever we render has
// to be understood by it too.
func TestTheirs(t *testing.T) {
	program := built(t, theirs)
	t.Run("attempts", func(t *testing.T) { try(t, theirs, program) })
	t.Run("streams", func(t *testing.T) { streams(t, program) })
}

// loopbackCalls are those of a seid that was taken over: it can connect, and does not
// have the certificate.
func loopbackCalls(t *testing.T, n *node) {
	t.Helper()
	forged := map[string]string{
		api.ActionHeader: api.ActionRead, api.CallerHeader: "system:admin", "X-Remote-Groups": "system:masters",
	}
	for _, scheme := range []string{"http", "https"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+n.sidecar+"/v0/status", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range forged {
			request.Header.Set(name, value)
		}
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		response, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			if scheme == "https" && !strings.Contains(err.Error(), "certificate required") {
				t.Errorf("refused for another reason: %v", err)
			}
			continue
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if scheme == "https" || response.StatusCode != http.StatusBadRequest {
			t.Errorf("by %s it was answered %d: %s", scheme, response.StatusCode, body)
		}
	}
}

// withToken is how the operator's client sends its token.
type withToken struct {
	token string
	next  http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// client is the operator's, through the proxy.
func (n *node) client(token string) *client.Client {
	n.t.Helper()
	transport := n.http().Transport
	c, err := client.New(client.Options{
		BaseURL: n.url(), NodeUID: nodeUID, HTTPClient: &http.Client{Transport: withToken{token: token, next: transport}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// streams reads events as they happen, and waits for a task, through a proxy. The
// stream would never end, so every event read proves that nothing was held back.
func streams(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	operator := n.client(n.caller(n.namespace, "operator", may("get,create,delete", everything, nodeName)))
	n.protect(program...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id := uuid.New()
	for event, err := range operator.Events(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if event.Kind == api.EventReset {
			n.until("the task is taken", func(ctx context.Context) bool {
				_, err := operator.Submit(ctx, api.TaskRequest{ID: id, Type: "release-hold"})
				return err == nil
			})
		}
		if event.Kind == api.EventTask && strings.Contains(string(event.Data), id.String()) {
			break
		}
	}
	if result, err := operator.Wait(ctx, id, patience); err != nil || result.Status == api.TaskRunning {
		t.Errorf("waiting for the task: %+v, %v", result, err)
	}
	if err := operator.Delete(ctx, id); err != nil {
		t.Error(err)
	}
	if _, err := operator.Get(ctx, id); !client.NotFound(err) {
		t.Errorf("the deleted task: %v", err)
	}
}

// certificates are renewed while calls are made, each by a new connection.
func certificates(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	viewer := n.client(n.caller(n.namespace, "viewer", may("get", "sidecar")))
	n.protect(program...)
	// The last call is not cut short, so no call has an excuse.
	ctx := t.Context()
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	var made atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ; stopped.Err() == nil; made.Add(1) {
			if _, err := viewer.NodeID(ctx); client.Reason(err) != api.ReasonNodeIDUnknown {
				t.Errorf("call %d: %v", made.Load(), err)
				return
			}
		}
	}()
	for range 5 {
		before := made.Load()
		serial := n.certify()
		n.until("the new certificate is shown", func(ctx context.Context) bool {
			return n.shown(ctx) == serial
		})
		// One may have begun before.
		n.until("a call is made with it", func(context.Context) bool { return made.Load() > before+1 || t.Failed() })
	}
	stop()
	<-ended
}

// shown is the serial number of the certificate that the proxy shows, if it is valid.
func (n *node) shown(ctx context.Context) int64 {
	n.t.Helper()
	dialer := &tls.Dialer{Config: n.http().Transport.(*http.Transport).TLSClientConfig}
	connection, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(n.url(), "https://"))
	if err != nil {
		n.t.Errorf("the certificate is not valid: %v", err)
		return 0
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

func sidecarAway(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	viewer := n.client(n.caller(n.namespace, "viewer", may("get", "sidecar")))
	n.protect(program...)
	n.stop()
	_, err := viewer.Status(t.Context())
	if client.Reason(err) != api.ReasonSidecarUnavailable || !strings.Contains(err.Error(), "502") {
		t.Errorf("without a sidecar: %v", err)
	}
	// The next container finds the certificates that the proxy uses.
	n.serve(n.sidecar)
	if _, err := viewer.Status(t.Context()); err != nil {
		t.Errorf("with the next sidecar: %v", err)
	}
}

func apiServerAway(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	viewer := n.client(n.caller(n.namespace, "viewer", may("get", "sidecar")))
	n.kubeconfig("https://" + n.host + ":6443") // nobody listens there
	n.protect(program...)                       // which waits for an open path
	_, err := viewer.Status(t.Context())
	if client.Reason(err) != api.ReasonAccessUnchecked || !strings.Contains(err.Error(), "503") {
		t.Errorf("without an API server: %v", err)
	}
}

func mayNotAsk(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	viewer := n.client(n.caller(n.namespace, "viewer", may("get", "sidecar")))
	n.kubeconfigOf(n.cluster.PersonConfig(t).Host, "default")
	n.protect(program...)
	_, err := viewer.Status(t.Context())
	if client.Reason(err) != api.ReasonAccessUnchecked || !strings.Contains(err.Error(), "may not create tokenreviews") {
		t.Errorf("without the right to ask: %v", err)
	}
}

// keptAnswers counts the questions that a burst of calls costs the API server.
func keptAnswers(t *testing.T, program []string) {
	t.Helper()
	n := newNode(t)
	viewer := n.client(n.caller(n.namespace, "viewer", may("get", "sidecar")))
	n.protect(program...)
	began := time.Now()
	const calls = 30
	for range calls {
		if _, err := viewer.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]int{}
	for _, event := range n.cluster.Audit(t, "system:serviceaccount:"+n.namespace+":"+podUser, began.Add(-time.Second)) {
		asked[event.Resource]++
	}
	for _, resource := range []string{"tokenreviews", "subjectaccessreviews"} {
		if asked[resource] == 0 || asked[resource] > calls/3 {
			t.Errorf("%d calls cost %d %s", calls, asked[resource], resource)
		}
	}
}
