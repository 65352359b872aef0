// Package render makes of a SeiNode and the platform's settings the objects that
// the node is made of. It is pure: the same input gives the same objects and the
// same hashes, and nothing else is looked at.
//
// Every field that is rendered is rendered as the API server stores it, without
// empty values and with the defaults of lists and of what is compared as a whole.
// So what the operator owns in a live object equals what it renders, and at rest
// nothing is written.
package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// FieldManager is the one with which the operator applies what it renders.
const FieldManager = "sei-operator"

// Desired is what a node is made of, as its spec and the platform want it now.
type Desired struct {
	// StatefulSet has one replica; none is the business of whoever pauses it.
	StatefulSet *appsv1ac.StatefulSetApplyConfiguration
	Service     *corev1ac.ServiceApplyConfiguration
	// ProxyConfig is nil when access control is off.
	ProxyConfig *corev1ac.ConfigMapApplyConfiguration
	// DataVolume is nil when the spec imports a claim.
	DataVolume *corev1.PersistentVolumeClaim
	ClaimName  string
	// Intent is the configuration, without serial and peers.
	Intent seid.Intent

	// SpecHash identifies the spec without what is no edit of the node itself.
	SpecHash string
	// TemplateHash identifies the pod template. It is stamped on it.
	TemplateHash string
	// ConfigHash identifies the configuration.
	ConfigHash string

	SeidImage, SidecarImage string
	Endpoint                v1alpha1.Endpoint
	// Witnesses are the RPC servers of state sync: the spec's, else the platform's
	// for the chain. Nil when the node does not state-sync; empty, not nil, when it
	// does and nobody named any.
	Witnesses []string
	// RPCServers are all that people named for the chain, in the spec or for the platform,
	// as addresses. They may have seen what a validator's key signed elsewhere.
	RPCServers []string
}

// Node renders a node. The error is for people: the spec asks for something that
// cannot be had safely, and says what to change.
func Node(node *v1alpha1.SeiNode, settings platform.Settings) (Desired, error) {
	p := pod{node: node, spec: &node.Spec, mode: node.Spec.Mode(), settings: settings}
	if err := p.check(); err != nil {
		return Desired{}, fmt.Errorf("the SeiNode %s/%s cannot be rendered: %w", node.Namespace, node.Name, err)
	}
	template, err := p.template()
	if err != nil {
		return Desired{}, fmt.Errorf("the SeiNode %s/%s cannot be rendered: %w", node.Namespace, node.Name, err)
	}
	hash, err := stamp(template)
	if err != nil {
		return Desired{}, err
	}
	rendered, err := convert[corev1.PodTemplateSpec](template)
	if err != nil {
		return Desired{}, err
	}
	if err := checkSafe(*rendered, p.keys()); err != nil {
		return Desired{}, fmt.Errorf("the pod of the SeiNode %s/%s would not be safe: %w", node.Namespace, node.Name, err)
	}
	specHash, err := SpecHash(node.Spec)
	if err != nil {
		return Desired{}, err
	}
	want := Desired{
		StatefulSet:  statefulSet(node, template),
		Service:      p.service(),
		ClaimName:    ClaimName(node),
		Intent:       intent(node),
		SpecHash:     specHash,
		TemplateHash: hash,
		SeidImage:    node.Spec.Image,
		SidecarImage: p.sidecarImage(),
		Endpoint:     endpoint(node),
		Witnesses:    witnesses(&node.Spec, settings),
		RPCServers:   rpcServers(&node.Spec, settings),
	}
	want.ConfigHash = seid.Hash(want.Intent)
	if settings.AccessControl.Enabled {
		want.ProxyConfig = proxyConfig(node)
	}
	if !imports(node) {
		want.DataVolume = p.claim()
	}
	return want, nil
}

// witnesses are the RPC servers of state sync.
func witnesses(spec *v1alpha1.SeiNodeSpec, settings platform.Settings) []string {
	snapshot := spec.Snapshot()
	if snapshot == nil || snapshot.StateSync == nil {
		return nil
	}
	if len(snapshot.RPCServers) > 0 {
		return slices.Clone(snapshot.RPCServers)
	}
	return append([]string{}, settings.Witnesses[spec.ChainID]...)
}

// rpcServers are those of the spec and of the platform, with a scheme, as seid would add it.
func rpcServers(spec *v1alpha1.SeiNodeSpec, settings platform.Settings) []string {
	var servers []string
	if snapshot := spec.Snapshot(); snapshot != nil {
		servers = slices.Clone(snapshot.RPCServers)
	}
	servers = append(servers, settings.Witnesses[spec.ChainID]...)
	for i, server := range servers {
		if !strings.Contains(server, "://") {
			servers[i] = "http://" + server
		}
	}
	slices.Sort(servers)
	return slices.Compact(servers)
}

// intent is the configuration that the spec asks for.
func intent(node *v1alpha1.SeiNode) seid.Intent {
	want := seid.Intent{
		ChainID:         node.Spec.ChainID,
		Mode:            seid.Mode(node.Spec.Mode()),
		Overrides:       maps.Clone(node.Spec.Overrides),
		ExternalAddress: node.Spec.ExternalAddress,
	}
	if generation := snapshotGeneration(&node.Spec); generation != nil {
		want.SnapshotGeneration = &seid.SnapshotGeneration{
			Interval:   generation.Interval,
			KeepRecent: int64(generation.KeepRecent),
		}
	}
	return want
}

func snapshotGeneration(spec *v1alpha1.SeiNodeSpec) *v1alpha1.SnapshotGeneration {
	switch {
	case spec.FullNode != nil:
		return spec.FullNode.SnapshotGeneration
	case spec.Archive != nil:
		return spec.Archive.SnapshotGeneration
	default:
		return nil
	}
}

// statefulSet is what keeps the pod. When the pod dies is decided by the operator
// alone, so it updates on deletion only; and it makes no claims, because a claim
// of its own could be deleted with it.
func statefulSet(node *v1alpha1.SeiNode, template *corev1ac.PodTemplateSpecApplyConfiguration) *appsv1ac.StatefulSetApplyConfiguration {
	return appsv1ac.StatefulSet(StatefulSetName(node), node.Namespace).
		WithLabels(labels(node)).
		WithOwnerReferences(owner(node)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(ServiceName(node)).
			WithPodManagementPolicy("OrderedReady").
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType("OnDelete")).
			WithSelector(selectorOf(node)).
			WithTemplate(template))
}
