package derived

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// Service keeps the Service of the node.
func Service(ctx context.Context, s *scope.Scope) error {
	w := wanted[corev1ac.ServiceApplyConfiguration, *corev1ac.ServiceApplyConfiguration]{
		kind: "Service", want: s.Want.Service, meta: s.Want.Service.ObjectMetaApplyConfiguration, empty: &corev1.Service{},
		owned: s.Seen.Owned.Service(s.Seen.Service),
	}
	return ensure(ctx, s, w, liveOrNil(s.Seen.Service))
}

// ProxyConfig keeps the ConfigMap of the proxy in front of the sidecar, where there
// is one.
func ProxyConfig(ctx context.Context, s *scope.Scope) error {
	if s.Want.ProxyConfig == nil {
		return nil
	}
	return configMap(ctx, s, s.Want.ProxyConfig, s.Seen.ProxyConfig)
}

// Certificate keeps the Secret with the certificate of that proxy, where the operator
// issues it. It is replaced in time, and nothing restarts for that.
func Certificate(ctx context.Context, s *scope.Scope) error {
	if gate := plan.AccessTrouble(s.Input); gate != nil {
		s.RequeueIn(gate.After)
		if !plan.PodReady(s.Seen.Pod) {
			s.InTrouble(gate) // that may be why; a pod that runs has what it needs
		}
		return nil
	}
	step := plan.Issue(s.Input)
	s.RequeueIn(step.After)
	if !step.Issue {
		return nil
	}
	replaced := s.Seen.Access.Certificate != nil
	if err := s.Access.Issue(ctx, s.Input); err != nil {
		return outcome(s, "Secret", render.AccessSecretName(s.Node), err)
	}
	if replaced {
		s.Report.Event(s.Node, scope.Event{Reason: "CertificateRenewed", Message: step.Message + " It has a new one."})
	}
	return nil
}

// NodeConfig makes the ConfigMap with the node's configuration say what the spec
// wants now. It is for plans; between plans assertNodeConfig keeps it.
func NodeConfig(ctx context.Context, s *scope.Scope) error {
	return writeDocument(ctx, s, plan.WantedDocument(s.Input))
}

// assertNodeConfig keeps what was last admitted.
func assertNodeConfig(ctx context.Context, s *scope.Scope) error {
	document, known := plan.AssertedDocument(s.Input)
	if !known {
		return nil
	}
	return writeDocument(ctx, s, document)
}

func writeDocument(ctx context.Context, s *scope.Scope, document seid.Intent) error {
	if err := configMap(ctx, s, render.NodeConfig(s.Node, document, plan.SigningEntry(s.Input)), s.Seen.NodeConfig); err != nil {
		return err
	}
	status := &s.Node.Status
	status.ConfigHash, status.ConfigSerial = seid.Hash(document), document.Serial
	if status.Plan == nil && plan.BootsWith(s.Input) {
		status.AppliedConfigHash = status.ConfigHash
	}
	return nil
}

func configMap(ctx context.Context, s *scope.Scope, want *corev1ac.ConfigMapApplyConfiguration, found *corev1.ConfigMap) error {
	w := wanted[corev1ac.ConfigMapApplyConfiguration, *corev1ac.ConfigMapApplyConfiguration]{
		kind: "ConfigMap", want: want, meta: want.ObjectMetaApplyConfiguration, empty: &corev1.ConfigMap{},
		owned: s.Seen.Owned.ConfigMap(found),
	}
	return ensure(ctx, s, w, liveOrNil(found))
}

// liveOrNil keeps a nil pointer from becoming an interface that is not nil.
func liveOrNil[T any, P interface {
	*T
	live
}](object P,
) live {
	if object == nil {
		return nil
	}
	return object
}

// Document is the configuration in the ConfigMap as it is now.
func Document(ctx context.Context, s *scope.Scope) (seid.Intent, error) {
	found := &corev1.ConfigMap{}
	key := s.Key()
	key.Name = render.NodeConfigName(s.Node)
	if err := s.Kube.Get(ctx, key, found); err != nil {
		return seid.Intent{}, fmt.Errorf("reading the configuration of node %s: %w", s.Key(), err)
	}
	return render.Document(found)
}
