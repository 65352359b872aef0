package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/test/live"
)

// Somebody deletes the certificate of a validator, and somebody replaces the authority,
// while a person and the operator call the node. Nobody is turned away, nothing is
// restarted, and in the end the proxy shows what the new authority issued.
func (s *stage) rotation(t *testing.T) {
	const name = "validator-3"
	s.account(t, s.ID, "reader", rbacv1.RoleRef{Kind: "ClusterRole", Name: "sei-view"})
	reached, pod := live.Condition(s.ready(t, name), v1alpha1.ConditionSidecarReady), s.pod(t, name)
	seid := s.seid(t, pod)
	authority, certificate := &corev1.Secret{}, &corev1.Secret{}
	check(t, s.Client.Get(t.Context(), types.NamespacedName{Namespace: live.OperatorNamespace, Name: access.SecretName}, authority))
	check(t, s.Client.Get(t.Context(), s.Key(name+"-access"), certificate))
	next := must(must(access.NewAuthority(time.Now()))(t).Data())(t)
	next["previous.crt"] = slices.Concat(authority.Data["ca.crt"], authority.Data["previous.crt"])

	calls := s.newCalls(t, name, pool(next["ca.crt"], next["previous.crt"]))
	first := calls.shown(t, "a certificate", func(*x509.Certificate) bool { return true })
	check(t, s.Client.Delete(t.Context(), certificate))
	calls.shown(t, "another certificate", func(now *x509.Certificate) bool { return !now.Equal(first) })
	authority.Data = next
	check(t, s.Client.Update(t.Context(), authority))
	calls.shown(t, "a certificate of the new authority", func(now *x509.Certificate) bool {
		_, err := now.Verify(x509.VerifyOptions{Roots: pool(next["ca.crt"])})
		return err == nil
	})
	calls.end(t)
	if now := live.Condition(s.ready(t, name), v1alpha1.ConditionSidecarReady); now != reached {
		t.Errorf("the operator did not reach the sidecar all the time: %+v, and before %+v", now, reached)
	}

	now := s.pod(t, name)
	if now.UID != pod.UID || s.seid(t, now) != seid {
		t.Error("the pod or seid was replaced for the sake of a certificate")
	}
	s.notRestarted(t, pod, now)
	// Who knows nothing but what is in the Secret by now gets in as well.
	check(t, s.StopOperator(t.Context()))
	check(t, s.StartOperator(t.Context()))
	check(t, s.discoverPeers(t, name))
}

// pool is who is trusted.
func pool(certificates ...[]byte) *x509.CertPool {
	trusted := x509.NewCertPool()
	for _, one := range certificates {
		trusted.AppendCertsFromPEM(one)
	}
	return trusted
}

// discoverPeers has the operator call a node, which restarts nothing.
func (s *stage) discoverPeers(t *testing.T, node string) error {
	task, err := s.Task(t.Context(), node, v1alpha1.SeiNodeTaskSpec{Kind: v1alpha1.TaskKindDiscoverPeers, DiscoverPeers: &v1alpha1.DiscoverPeersPayload{}})
	if err == nil && task.Status.Phase != v1alpha1.TaskPhaseComplete {
		err = fmt.Errorf("the operator could not call %s: %s", node, task.Status.Message)
	}
	return err
}

// calls are made one after the other: by a person over a connection that stays, by a
// person over a new one, and by the operator.
type calls struct {
	stop chan struct{}
	done sync.WaitGroup

	mu       sync.Mutex
	count    int
	failures []error
	// last is the certificate that a new connection was shown last.
	last *x509.Certificate
}

// newCalls begins to call a node.
func (s *stage) newCalls(t *testing.T, node string, trusted *x509.CertPool) *calls {
	t.Helper()
	c := &calls{stop: make(chan struct{})}
	request := s.request(t, node, attempt{token: s.token(t, s.ID, "reader", audience(s.ID)), action: api.ActionRead})
	transport := func(once bool, see func(*x509.Certificate)) http.RoundTripper {
		return &http.Transport{DisableKeepAlives: once, TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, RootCAs: trusted, ServerName: node + "." + s.ID,
			VerifyConnection: func(state tls.ConnectionState) error { see(state.PeerCertificates[0]); return nil },
		}}
	}
	call := func(over http.RoundTripper, address string) error {
		to := request.Clone(t.Context())
		to.URL.Host = address
		status, said, err := ask(over, to)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, said)
		}
		return err
	}
	connections := 0
	staying := transport(false, func(*x509.Certificate) { connections++ })
	address, hangUp, err := s.Forward(t.Context(), node, proxyPort)
	check(t, err)
	anew := func() error {
		address, hangUp, err := s.Forward(t.Context(), node, proxyPort)
		if err != nil {
			return err
		}
		defer hangUp()
		return call(transport(true, c.see), address)
	}
	c.done.Go(func() {
		defer hangUp()
		for {
			c.made("over a connection that stays", call(staying, address))
			c.made("over a new connection", anew())
			c.made("by the operator", s.discoverPeers(t, node))
			select {
			case <-c.stop:
				if connections != 1 {
					c.made("over a connection that stays", fmt.Errorf("there were %d of them", connections))
				}
				return
			case <-t.Context().Done():
				return
			default:
			}
		}
	})
	return c
}

func (c *calls) see(certificate *x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = certificate
}

func (c *calls) made(how string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	if err != nil {
		c.failures = append(c.failures, fmt.Errorf("call %d, %s: %w", c.count, how, err))
	}
}

// shown waits until a new connection is shown a certificate. The kubelet brings one into a
// pod about once a minute.
func (c *calls) shown(t *testing.T, what string, ok func(*x509.Certificate) bool) *x509.Certificate {
	t.Helper()
	var found *x509.Certificate
	began := time.Now()
	check(t, live.Poll(t.Context(), what, func() (bool, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		found = c.last
		return found != nil && ok(found), nil
	}))
	note("access: %s is shown after %.1f s", what, time.Since(began).Seconds())
	return found
}

// end makes no more calls, and asserts that none failed.
func (c *calls) end(t *testing.T) {
	t.Helper()
	close(c.stop)
	c.done.Wait()
	for _, failure := range c.failures {
		t.Error(failure)
	}
	note("access: %d calls while certificates were replaced, %d failed", c.count, len(c.failures))
}
