package nodes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// proxyContainer is the access proxy in a node's pod.
const proxyContainer = "rbac-proxy"

// The proxy's certificate and key, and what its port is.
const (
	proxyDir  = "/etc/sei/access"
	proxyPort = 8443
)

// gatekeeper plays the access proxies: it asks the API server who a caller is and what
// the caller may do. What a request does it sees for itself.
type gatekeeper struct {
	admin client.Client

	mu      sync.Mutex
	callers map[string]authenticationv1.UserInfo // by audience and token
	allowed map[string]bool
}

// pass tells whether a request may go through, and else why not.
func (g *gatekeeper) pass(ctx context.Context, node types.NamespacedName, r *http.Request, action string) (status int, reason string) {
	token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !found {
		return http.StatusUnauthorized, "no token"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	audience := "sei-sidecar." + node.Namespace
	caller, known := g.callers[audience+" "+token]
	if !known {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
		if err := g.admin.Create(ctx, review); err != nil || !review.Status.Authenticated || !slices.Contains(review.Status.Audiences, audience) {
			return http.StatusUnauthorized, fmt.Sprintf("the token is not accepted: %v %s", err, review.Status.Error)
		}
		caller = review.Status.User
		g.callers[audience+" "+token] = caller
	}
	verb := map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodDelete: "delete"}[r.Method]
	question := fmt.Sprintf("%s may %s %s of %s", caller.Username, verb, action, node)
	if !g.allowed[question] {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: caller.Username, Groups: caller.Groups, UID: caller.UID,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "sei.io", Version: "v1alpha1", Resource: "seinodes", Subresource: action, Verb: verb, Namespace: node.Namespace, Name: node.Name,
			},
		}}
		if err := g.admin.Create(ctx, review); err != nil || !review.Status.Allowed {
			return http.StatusForbidden, fmt.Sprintf("not true: %s: %v", question, err)
		}
		g.allowed[question] = true
	}
	return 0, ""
}

// guarded lets only those pass who may.
func (s *sidecar) guarded(next http.Handler) http.Handler {
	if s.life.pod.certificate == nil {
		return next
	}
	f := s.node.fleet
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		action, err := s.action(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if said := r.Header.Get(api.ActionHeader); said != action {
			f.refused(fmt.Sprintf("%s %s of %s says that it is %q and is %q", r.Method, r.URL.Path, s.node.key, said, action))
			http.Error(w, "another action", http.StatusForbidden)
			return
		}
		if status, reason := f.gatekeeper.pass(r.Context(), s.node.key, r, action); status != 0 {
			if r.Context().Err() == nil {
				f.refused(fmt.Sprintf("%s %s of %s: %s", r.Method, r.URL.Path, s.node.key, reason))
			}
			http.Error(w, reason, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// action is what a request does.
func (s *sidecar) action(r *http.Request) (string, error) {
	switch r.Method {
	case http.MethodPost:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return "", err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		var request api.TaskRequest
		return request.Type, json.Unmarshal(body, &request)
	case http.MethodDelete:
		id, err := uuid.Parse(path.Base(r.URL.Path))
		if err != nil {
			return "", err
		}
		task, err := s.engine.Get(r.Context(), id)
		return task.Type, err
	default:
		return api.ActionRead, nil
	}
}

// certificates follow the Secret as a mounted directory does, only sooner. What was
// mounted stays when the Secret is gone.
type certificates struct {
	life *life
	mu   sync.Mutex
	last *tls.Certificate
}

func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && c.life.node.isLate() {
		return c.last, nil
	}
	f, namespace, pod := c.life.node.fleet, c.life.node.key.Namespace, c.life.pod
	certificate, err := f.read(c.life.ctx, namespace, pod.certificate)
	if err != nil {
		return nil, err
	}
	key, err := f.read(c.life.ctx, namespace, pod.certificateKey)
	if err != nil {
		return nil, err
	}
	if pair, err := tls.X509KeyPair(certificate, key); err == nil {
		c.last = &pair
	}
	if c.last == nil {
		return nil, fmt.Errorf("the pod of %s has no certificate", c.life.node.key)
	}
	return c.last, nil
}

// KeepCertificate makes the pod go on with the certificate that it has, as a kubelet does
// that is late.
func (n *Node) KeepCertificate() (undo func()) {
	n.change(func() { n.late = true })
	return sync.OnceFunc(func() { n.change(func() { n.late = false }) })
}

func (n *Node) isLate() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late
}

// proxyFacts are what the proxy learns from its pod.
func proxyFacts(pod *corev1.Pod, facts *podFacts) {
	if proxy := container(pod, proxyContainer); proxy != nil {
		facts.certificate = mountedAt(pod, proxy, path.Join(proxyDir, corev1.TLSCertKey))
		facts.certificateKey = mountedAt(pod, proxy, path.Join(proxyDir, corev1.TLSPrivateKeyKey))
	}
}

// Refusals are the calls that no access proxy let pass, and why.
func (f *Fleet) Refusals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.refusals)
}

func (f *Fleet) refused(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusals = append(f.refusals, what)
}
