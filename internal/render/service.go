package render

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// The ports of seid. The operator keeps them where they are.
const (
	portREST    = 1317
	portEVMRPC  = 8545
	portEVMWS   = 8546
	portGRPC    = 9090
	portP2P     = 26656
	portRPC     = 26657
	portMetrics = 26660
)

// The ports of the sidecar's API.
const (
	DefaultSidecarPort = 7777
	// ProxyPort is that of the access proxy in front of it.
	ProxyPort   = 8443
	apiPortName = "api"
)

type port struct {
	name   string
	number int32
	// protocol is what a load balancer or a mesh has to know; empty for plain TCP.
	protocol string
	// public is false for what every mode serves.
	public bool
}

var seidPorts = []port{
	{name: "evm-rpc", number: portEVMRPC, public: true},
	{name: "evm-ws", number: portEVMWS, public: true},
	{name: "grpc", number: portGRPC, protocol: "kubernetes.io/h2c", public: true},
	{name: "rest", number: portREST, public: true},
	{name: "p2p", number: portP2P},
	{name: "rpc", number: portRPC, public: true},
	{name: "metrics", number: portMetrics},
}

// portsOf are the ports of seid that can be reached in a mode: a validator keeps
// its RPC on loopback, and a seed has none.
func portsOf(mode v1alpha1.Mode) []port {
	if mode != v1alpha1.ModeValidator && mode != v1alpha1.ModeSeed {
		return seidPorts
	}
	return slices.DeleteFunc(slices.Clone(seidPorts), func(p port) bool { return p.public })
}

// apiPort is where the sidecar's API is reached from outside the pod.
func (p pod) apiPort() port {
	if p.settings.AccessControl.Enabled {
		return port{name: apiPortName, number: ProxyPort}
	}
	return port{name: apiPortName, number: p.sidecarPort()}
}

func (p pod) sidecarPort() int32 {
	if sidecar := p.spec.Sidecar; sidecar != nil && sidecar.Port != 0 {
		return sidecar.Port
	}
	return DefaultSidecarPort
}

// service gives the pod a name. Not-ready addresses are published: a node that
// catches up needs its peers, and they need to find it.
func (p pod) service() *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithClusterIP(corev1.ClusterIPNone).
		WithPublishNotReadyAddresses(true).
		WithSelector(selector(p.node))
	for _, served := range append(slices.Clone(portsOf(p.mode)), p.apiPort()) {
		rendered := corev1ac.ServicePort().WithName(served.name).WithPort(served.number).WithProtocol(corev1.ProtocolTCP)
		if served.protocol != "" {
			rendered.WithAppProtocol(served.protocol)
		}
		spec.WithPorts(rendered)
	}
	return corev1ac.Service(ServiceName(p.node), p.node.Namespace).
		WithLabels(labels(p.node)).
		WithOwnerReferences(owner(p.node)).
		WithSpec(spec)
}

func selectorOf(node *v1alpha1.SeiNode) *metav1ac.LabelSelectorApplyConfiguration {
	return metav1ac.LabelSelector().WithMatchLabels(selector(node))
}

// endpoint says where the node's services are found inside the cluster.
func endpoint(node *v1alpha1.SeiNode) v1alpha1.Endpoint {
	at := func(number int) string {
		return net.JoinHostPort(fmt.Sprintf("%s.%s.svc", ServiceName(node), node.Namespace), strconv.Itoa(number))
	}
	where := v1alpha1.Endpoint{P2P: at(portP2P)}
	if mode := node.Spec.Mode(); mode == v1alpha1.ModeValidator || mode == v1alpha1.ModeSeed {
		return where
	}
	where.TendermintRPC = "http://" + at(portRPC)
	where.TendermintREST = "http://" + at(portREST)
	where.GRPC = at(portGRPC)
	where.EVMJSONRPC = "http://" + at(portEVMRPC)
	where.EVMWS = "ws://" + at(portEVMWS)
	return where
}
