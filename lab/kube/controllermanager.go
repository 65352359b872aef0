package kube

import (
	"strconv"
	"strings"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// withoutControllers are of no use here. Everything else runs as in any cluster.
var withoutControllers = []string{
	// Endpoints must not be loopback addresses, and pods have no others here:
	// these would fail for every Service, again and again.
	"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller",
	// There are no machines to join, to give networks to, or to attach disks to.
	"bootstrap-signer-controller", "token-cleaner-controller", "node-ipam-controller", "ttl-controller",
	"persistentvolume-attach-detach-controller",
	"certificatesigningrequest-signing-controller", "certificatesigningrequest-approving-controller",
	"certificatesigningrequest-cleaner-controller",
	// There are no metrics to scale by.
	"horizontal-pod-autoscaler-controller",
}

func controllerManagerSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	return process.Spec{
		Name: "kube-controller-manager",
		Path: b.Kubernetes.Path("kube-controller-manager"),
		Log:  p.log("kube-controller-manager"),
		Args: []string{
			"--kubeconfig=" + p.kubeconfigOf("kube-controller-manager"),
			"--bind-address=" + n.Host().String(), "--secure-port=" + strconv.Itoa(portControllerManager),
			"--tls-cert-file=" + p.crt("kube-controller-manager"), "--tls-private-key-file=" + p.key("kube-controller-manager"),
			"--leader-elect=false",
			"--controllers=*,-" + strings.Join(withoutControllers, ",-"),
			"--service-account-private-key-file=" + p.key("service-accounts"),
			"--root-ca-file=" + p.crt("ca"),
			// KWOK renews the nodes' leases every second: a node that fell silent is
			// noticed in seconds, and a busy machine does not lose one by accident.
			"--node-monitor-period=1s", "--node-monitor-grace-period=6s",
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	}
}
