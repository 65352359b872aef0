package kube

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// withoutEndpoints are the controllers that make endpoints. Those must not be
// loopback addresses: where pods have no others, these would fail for every
// Service, again and again.
var withoutEndpoints = []string{"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"}

// withoutControllers are of no use here. Everything else runs as in any cluster.
var withoutControllers = []string{
	// There are no machines to join, to give networks to, or to attach disks to.
	"bootstrap-signer-controller", "token-cleaner-controller", "node-ipam-controller", "ttl-controller",
	"persistentvolume-attach-detach-controller",
	"certificatesigningrequest-signing-controller", "certificatesigningrequest-approving-controller",
	"certificatesigningrequest-cleaner-controller",
	// There are no metrics to scale by.
	"horizontal-pod-autoscaler-controller",
}

func controllerManagerSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	// KWOK renews the nodes' leases every second: a node that fell silent is noticed
	// in seconds, and a busy machine does not lose one by accident.
	without, patience := slices.Concat(withoutControllers, withoutEndpoints), "6s"
	if n.routed {
		// A kubelet has more to do.
		without, patience = withoutControllers, "20s"
	}
	return process.Spec{
		Name: "kube-controller-manager",
		Path: b.Kubernetes.Path("kube-controller-manager"),
		Log:  p.log("kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + p.kubeconfigOf("kube-controller-manager"),
			"--bind-address=" + n.Host().String(), "--secure-port=" + strconv.Itoa(portControllerManager),
			"--tls-cert-file=" + p.crt("kube-controller-manager"), "--tls-private-key-file=" + p.key("kube-controller-manager"),
			"--leader-elect=false",
			"--controllers=*,-" + strings.Join(without, ",-"),
			"--service-account-private-key-file=" + p.key("service-accounts"),
			"--root-ca-file=" + p.crt("ca"),
			"--node-monitor-period=1s", "--node-monitor-grace-period=" + patience,
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	}
}
