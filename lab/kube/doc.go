// Package kube runs a real Kubernetes control plane on the loopback interface:
// etcd, API server, controller-manager and scheduler as they are, KWOK in place
// of kubelets, and stand-ins for the parts that would need a real machine
// (volumes, the last word of a kubelet on a deleted pod).
//
// It is made for tests: a cluster starts in seconds, needs no privileges, shares
// nothing with another cluster on the same machine, and leaves nothing behind,
// however it ends.
package kube
