package e2e_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/live"
)

// Ports of a node's pod.
const (
	proxyPort   = 8443
	sidecarPort = 7777
)

// audience is whom tokens for the proxies of a namespace are for.
func audience(namespace string) string { return "sei-sidecar." + namespace }

// attempt is a call to a node, and the answer it must get.
type attempt struct {
	name, token, action string
	// task is what is asked for; empty: the status.
	task   string
	path   string
	status int
	says   string
}

// Whoever may not touch a validator cannot, from outside or from its own pod.
func (s *stage) access(t *testing.T) {
	const name = "validator-3"
	pod := s.pod(t, name)
	before := must(live.Processes(pod, "seid"))(t)

	s.account(t, s.ID, "viewer", rbacv1.RoleRef{Kind: "ClusterRole", Name: "sei-view"})
	check(t, s.Client.Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "may-hold"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"sei.io"}, Resources: []string{"seinodes/mark-not-ready"}, Verbs: []string{"create"}}},
	}))
	s.account(t, s.ID, "holder", rbacv1.RoleRef{Kind: "Role", Name: "may-hold"})
	s.account(t, metav1.NamespaceDefault, "stranger", rbacv1.RoleRef{})
	own := audience(s.ID)
	viewer, holder := s.token(t, s.ID, "viewer", own), s.token(t, s.ID, "holder", own)

	for _, a := range []attempt{
		{name: "health, by anybody", path: "/v0/livez", status: 200},
		{name: "no token", action: api.ActionRead, status: 401, says: "no bearer token"},
		{name: "no token, for metrics", path: "/v0/metrics", action: api.ActionRead, status: 401},
		{name: "a token for the API server", token: s.token(t, s.ID, "viewer"), action: api.ActionRead, status: 401, says: own},
		{name: "a token that proxies of another namespace get to see", token: s.token(t, s.ID, "viewer", audience("elsewhere")), action: api.ActionRead, status: 401, says: own},
		{name: "an expired token", token: cluster.Aged(t, s.Info.Dir, viewer, 3*time.Hour), action: api.ActionRead, status: 401, says: "has expired at"},
		{name: "an account of another namespace", token: s.token(t, metav1.NamespaceDefault, "stranger", own), action: api.ActionRead, status: 403, says: "may not get"},
		{name: "a viewer reads", token: viewer, action: api.ActionRead, status: 200},
		{name: "a viewer acts", token: viewer, task: "restart-seid", action: "restart-seid", status: 403, says: "may not create seinodes/restart-seid"},
		{name: "an action that the role does not name", token: holder, task: "restart-seid", action: "restart-seid", status: 403, says: "may not create"},
		{name: "another action than was asked about", token: holder, task: "restart-seid", action: "mark-not-ready", status: 403, says: "ActionMismatch"},
	} {
		s.try(t, name, a)
	}
	s.loopback(t, name)
	s.seidSees(t, pod)

	// What is made for sidecars is of no use at the API server.
	config := rest.AnonymousClientConfig(s.Config)
	config.BearerToken = viewer
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.Config.Host+"/api/v1/namespaces/"+s.ID+"/pods", nil))(t)
	if status, _, err := ask(must(rest.TransportFor(config))(t), request); status != http.StatusUnauthorized {
		t.Errorf("a token for sidecars at the API server: %d, %v", status, err)
	}
	if after := must(live.Processes(pod, "seid"))(t); !slices.Equal(before, after) {
		t.Error("seid was restarted by somebody who may not")
	}
}

// What only callers need keeps no validator down: without certificate and configuration of
// its proxy a pod comes back and signs, also while there is no operator. When there is one
// again, it gets in again, and replaces nothing for it.
func (s *stage) withoutProxy(t *testing.T) {
	const name = "validator-3"
	before := s.pod(t, name)
	check(t, s.StopOperator(t.Context()))
	check(t, s.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name + "-access"}}))
	check(t, s.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name + "-rbac-proxy"}}))
	check(t, s.Client.Delete(t.Context(), before))
	pod := must(s.NewPod(t.Context(), name, before))(t)
	check(t, s.watcher.Signs(t.Context(), s.watcher.Height(), name))
	seid := s.seid(t, pod)
	check(t, s.StartOperator(t.Context()))
	// The operator has to get in for it.
	must(s.Wait(t.Context(), name, "a sidecar that is reached", func(node *v1alpha1.SeiNode) bool {
		return live.Condition(node, v1alpha1.ConditionSidecarReady).Status == metav1.ConditionTrue
	}))(t)
	s.ready(t, name)
	if now := s.pod(t, name); now.UID != pod.UID || s.seid(t, now) != seid {
		t.Error("the pod or seid was replaced for the sake of the proxy")
	}
}

// account makes a ServiceAccount, with a role in the chain's namespace.
func (s *stage) account(t *testing.T, namespace, name string, role rbacv1.RoleRef) {
	t.Helper()
	check(t, s.Client.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	if role.Name == "" {
		return
	}
	check(t, s.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name}, RoleRef: role,
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}))
}

func (s *stage) token(t *testing.T, namespace, name string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	check(t, s.Client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// try makes an attempt. Each has a way of its own into the pod: kubectl ends one over which
// a connection was cut off.
func (s *stage) try(t *testing.T, node string, a attempt) {
	t.Helper()
	address, stop, err := s.Forward(t.Context(), node, proxyPort)
	check(t, err)
	defer stop()
	request := s.request(t, node, a)
	request.URL.Host = address
	status, said, err := ask(credulous(), request)
	if err != nil || status != a.status || !strings.Contains(said, a.says) {
		t.Errorf("%s: %d, %s, %v", a.name, status, said, err)
	}
	if status < 400 {
		said = "" // It is the refusals that are told.
	}
	note("access: %-38s %d %s", a.name, status, said)
}

// request is that of an attempt; where to is not known yet.
func (s *stage) request(t *testing.T, node string, a attempt) *http.Request {
	t.Helper()
	method, path, body := http.MethodGet, "/v0/status", ""
	if a.path != "" {
		path = a.path
	}
	if a.task != "" {
		method, path, body = http.MethodPost, "/v0/tasks", fmt.Sprintf(`{"id":%q,"type":%q,"params":{}}`, uuid.New(), a.task)
	}
	request := must(http.NewRequestWithContext(t.Context(), method, "https://"+node+path, strings.NewReader(body)))(t)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(api.NodeUIDHeader, string(s.ready(t, node).UID))
	if a.action != "" {
		request.Header.Set(api.ActionHeader, a.action)
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	return request
}

// credulous believes whoever answers: here it is about who asks.
func credulous() http.RoundTripper {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // see above
}

func ask(transport http.RoundTripper, request *http.Request) (status int, said string, err error) {
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(content)), err
}

// loopback tries to get past the proxy, from where seid is.
func (s *stage) loopback(t *testing.T, node string) {
	t.Helper()
	for scheme, refused := range map[string]string{"http": "400", "https": "certificate required"} {
		address, stop, err := s.Forward(t.Context(), node, sidecarPort)
		check(t, err)
		request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+address+"/v0/status", nil))(t)
		request.Header.Set(api.ActionHeader, api.ActionRead)
		request.Header.Set(api.CallerHeader, "system:serviceaccount:sei-system:sei-operator")
		status, said, err := ask(credulous(), request)
		stop()
		// Not any failure will do: something has to be there that refuses.
		if !strings.Contains(fmt.Sprint(status, " ", err), refused) {
			t.Errorf("a forged caller over loopback, by %s: %d, %s, %v", scheme, status, said, err)
		}
		note("access: a forged caller over loopback, by %s: %d %s %v", scheme, status, said, err)
	}
}

// seidSees asserts that nothing in the container of seid leads to the sidecar or to the
// API server: neither files nor processes of others.
func (s *stage) seidSees(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, secret := range []string{"/run/sei-loopback", "/etc/sei/access", "/etc/sei/rbac-proxy", "/var/run/secrets"} {
		if _, err := os.Stat(must(s.File(pod, "seid", secret))(t)); !os.IsNotExist(err) {
			t.Errorf("seid has %s: %v", secret, err)
		}
	}
	// The same places in the proxy, or the check above says nothing.
	for _, secret := range []string{"/run/sei-loopback/client.key", "/etc/sei/access/tls.key", "/var/run/secrets/kubernetes.io/serviceaccount/token"} {
		if _, err := os.Stat(must(s.File(pod, "sei-rbac-proxy", secret))(t)); err != nil {
			t.Errorf("the proxy has no %s: %v", secret, err)
		}
	}
	seen := must(filepath.Glob(filepath.Join(must(s.File(pod, "seid", "/proc"))(t), "[0-9]*", "cmdline")))(t)
	if len(seen) == 0 {
		t.Error("seid sees no process, not even itself")
	}
	for _, path := range seen {
		if line, err := os.ReadFile(path); err == nil && (bytes.Contains(line, []byte("rbac-proxy")) || bytes.Contains(line, []byte("serve"))) {
			t.Errorf("seid sees the process %q", line)
		}
	}
}
