package kube

import (
	"os"
	"strconv"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// issuer is what kubeadm uses too.
const issuer = "https://kubernetes.default.svc.cluster.local"

// auditPolicy records who did what to which object: enough to count the writes
// of a program from outside it.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
`

func writeAuditPolicy(p paths) error {
	return os.WriteFile(p.config("audit-policy.yaml"), []byte(auditPolicy), 0o600)
}

func apiServerSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	spec := process.Spec{
		Name: "kube-apiserver",
		Path: b.Kubernetes.Path("kube-apiserver"),
		Log:  p.log("kube-apiserver"),
		Args: []string{
			"--etcd-servers=https://" + n.Address(portEtcd),
			"--etcd-cafile=" + p.crt("etcd-ca"),
			"--etcd-certfile=" + p.crt("etcd-client"), "--etcd-keyfile=" + p.key("etcd-client"),
			"--secure-port=" + strconv.Itoa(portAPIServer),
			"--tls-cert-file=" + p.crt("kube-apiserver"), "--tls-private-key-file=" + p.key("kube-apiserver"),
			"--client-ca-file=" + p.crt("ca"),
			"--anonymous-auth=false",
			"--authorization-mode=Node,RBAC",
			"--service-account-issuer=" + issuer,
			"--service-account-key-file=" + p.key("service-accounts"),
			"--service-account-signing-key-file=" + p.key("service-accounts"),
			"--service-cluster-ip-range=" + n.Services().String(),
			"--allow-privileged=true",
			"--audit-policy-file=" + p.config("audit-policy.yaml"),
			"--audit-log-path=" + p.audit(),
		},
	}
	if n.routed {
		// Pods reach it by the Service "kubernetes", whose endpoint is the node's address.
		spec.Args = append(spec.Args,
			"--bind-address=0.0.0.0", "--advertise-address="+n.Node(0).String(),
			"--kubelet-certificate-authority="+p.crt("ca"),
			"--kubelet-client-certificate="+p.crt("kubelet-client"), "--kubelet-client-key="+p.key("kubelet-client"),
			"--enable-admission-plugins=NodeRestriction",
			// Nobody here knows the node by its name.
			"--kubelet-preferred-address-types=InternalIP",
		)
	} else {
		spec.Args = append(spec.Args,
			"--bind-address="+n.Host().String(), "--advertise-address="+n.Host().String(),
			// The endpoints of the API server itself would be a loopback address,
			// which the API server refuses.
			"--endpoint-reconciler-type=none",
		)
	}
	return spec
}
