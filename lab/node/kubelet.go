package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

// labels are what tools expect to find on a node.
var labels = []string{
	"topology.kubernetes.io/zone=zone-0",
	"topology.kubernetes.io/region=lab",
}

func (w *worker) kubeletSpec(c *kube.Cluster) (process.Spec, error) {
	n := c.Network()
	kubeconfig, err := c.Kubeconfig("kubelet", "system:node:"+nodeName, "system:nodes")
	if err != nil {
		return process.Spec{}, err
	}
	certificate, key, err := c.Certificate(nodeName, n.Node(0))
	if err != nil {
		return process.Spec{}, err
	}
	config, err := writeConfig(c, "kubelet.yaml", fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: %[1]s
healthzBindAddress: %[2]s
healthzPort: %[3]d
tlsCertFile: %[4]s
tlsPrivateKeyFile: %[5]s
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: %[6]s}}
authorization: {mode: Webhook}
containerRuntimeEndpoint: %[7]s
cgroupDriver: cgroupfs
cgroupRoot: /%[8]s
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
oomScoreAdj: 0
clusterDomain: cluster.local
clusterDNS: [%[1]s]
resolvConf: ""
volumePluginDir: /var/lib/kubelet/volume-plugins
# They stay when the cluster ends: whoever looks for what went wrong needs them.
podLogsDir: %[9]s
# It shares the machine with everything else: what other programs use is no reason
# to evict a pod.
evictionHard: {memory.available: 50Mi, nodefs.available: 100Mi, imagefs.available: 100Mi, nodefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
# Renewed after a quarter of it.
nodeLeaseDurationSeconds: 8
maxPods: 250
`, n.Node(0), n.Host(), portKubelet, quote(certificate), quote(key), quote(c.CertificateAuthority()),
		quote("unix://"+containerdSocket), w.cgroup, quote(filepath.Join(filepath.Dir(c.Log("kubelet")), "pods"))))
	if err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Name: "kubelet",
		Path: c.Kubernetes().Path("kubelet"),
		Log:  c.Log("kubelet"),
		Env:  []string{"PATH=" + searchPath},
		Args: []string{
			"--config=" + config,
			"--kubeconfig=" + kubeconfig,
			"--hostname-override=" + nodeName,
			"--node-ip=" + n.Node(0).String(),
			"--node-labels=" + strings.Join(labels, ","),
		},
	}, nil
}

func (w *worker) proxySpec(c *kube.Cluster) (process.Spec, error) {
	n := c.Network()
	kubeconfig, err := c.Kubeconfig("kube-proxy", "system:kube-proxy")
	if err != nil {
		return process.Spec{}, err
	}
	// Limits on connections are settings of the whole machine: zero leaves them alone.
	config, err := writeConfig(c, "kube-proxy.yaml", fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: %[1]s}
hostnameOverride: %[2]s
bindAddress: %[3]s
healthzBindAddress: %[4]s
metricsBindAddress: ""
clusterCIDR: %[5]s
detectLocalMode: ClusterCIDR
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nftables: {minSyncPeriod: 10ms}
`, quote(kubeconfig), nodeName, n.Node(0), quote(n.Address(portKubeProxy)), n.Pods()))
	if err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Name: "kube-proxy",
		Path: c.Kubernetes().Path("kube-proxy"),
		Log:  c.Log("kube-proxy"),
		Env:  []string{"PATH=" + searchPath},
		Args: []string{"--config=" + config},
	}, nil
}

// dnsSpec is a process of the node, and not a pod, so that names work as soon as
// pods do. It knows the cluster's names and no others: there is no way out.
func (w *worker) dnsSpec(c *kube.Cluster) (process.Spec, error) {
	n := c.Network()
	kubeconfig, err := c.Kubeconfig("coredns", "lab:coredns", "system:masters")
	if err != nil {
		return process.Spec{}, err
	}
	config, err := writeConfig(c, "Corefile", fmt.Sprintf(`.:53 {
    bind %s
    ready %s
    errors
    kubernetes cluster.local in-addr.arpa {
        kubeconfig %s
        pods verified
        ttl 1
    }
}
`, n.Node(0), n.Address(portDNSReady), kubeconfig))
	if err != nil {
		return process.Spec{}, err
	}
	return process.Spec{
		Name: "coredns",
		Path: w.runtime.CoreDNS.Path("coredns"),
		Log:  c.Log("coredns"),
		Env:  []string{"HOME=" + os.TempDir()},
		Args: []string{"-conf=" + config},
	}, nil
}
