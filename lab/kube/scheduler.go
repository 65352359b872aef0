package kube

import (
	"strconv"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

func schedulerSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	return process.Spec{
		Name: "kube-scheduler",
		Path: b.Kubernetes.Path("kube-scheduler"),
		Log:  p.log("kube-scheduler"),
		Args: []string{
			"--kubeconfig=" + p.kubeconfigOf("kube-scheduler"),
			"--bind-address=" + n.Host().String(), "--secure-port=" + strconv.Itoa(portScheduler),
			"--tls-cert-file=" + p.crt("kube-scheduler"), "--tls-private-key-file=" + p.key("kube-scheduler"),
			"--leader-elect=false",
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	}
}
