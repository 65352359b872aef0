// Package node runs a real Kubernetes node on this machine: kubelet, containerd,
// runc, CNI plugins, kube-proxy and CoreDNS, next to the control plane of package
// kube, with volumes that are directories.
//
// All of it, the control plane included, lives in namespaces of its own: processes,
// mounts, network, host name. The kernel ends what is in them when their first
// process ends, so nothing has to be stopped, unmounted or taken down in the right
// order, and a lab that is killed leaves no process, mount, link or rule behind:
// only a directory and empty cgroups, which the next "up", "down" or "run" removes.
// It has a root file system of its own too, in which the machine's directories are
// read-only, and no way out of its network.
//
// One process outside (Run) holds the ports at which the cluster is reached from
// the machine and hands them in; the first process inside (Init) makes the root file
// system and the network, and waits for orphans; the second one (Inside) is an
// ordinary supervisor of a cluster.
package node
