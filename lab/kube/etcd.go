package kube

import (
	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

func etcdSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	client, peer := "https://"+n.Address(portEtcd), "https://"+n.Address(portEtcdPeer)
	return process.Spec{
		Name: "etcd",
		Path: b.Etcd.Path("server"),
		Log:  p.log("etcd"),
		Args: []string{
			"--name=lab",
			"--data-dir=" + p.etcdData(),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
			"--initial-cluster=lab=" + peer,
			"--cert-file=" + p.crt("etcd"), "--key-file=" + p.key("etcd"),
			"--trusted-ca-file=" + p.crt("etcd-ca"), "--client-cert-auth",
			"--peer-cert-file=" + p.crt("etcd"), "--peer-key-file=" + p.key("etcd"),
			"--peer-trusted-ca-file=" + p.crt("etcd-ca"), "--peer-client-cert-auth",
			// The data is thrown away with the cluster: nothing is worth waiting for the disk.
			"--unsafe-no-fsync",
			// A single member elects itself after a few ticks: short ticks, short start.
			"--heartbeat-interval=20", "--election-timeout=200",
			"--log-level=warn",
		},
	}
}
