package kube

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Health is the state of one part of a cluster; Err is nil if it is healthy.
type Health struct {
	Name string
	Err  error
}

// Check asks every component and every node of a cluster.
func Check(ctx context.Context, info Info) ([]Health, error) {
	network, err := networkOf(info)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", info.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's kubeconfig: %w", err)
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	health := []Health{
		{"etcd", etcdHealthy(ctx, network, paths{info.Dir})},
		{"kube-apiserver", apiServerReady(ctx, client)},
	}
	for _, name := range slices.Sorted(maps.Keys(info.Health)) {
		health = append(health, Health{name, Healthy(ctx, info.Health[name])})
	}
	return append(health, checkNodes(ctx, client, info.Nodes)...), nil
}

func checkNodes(ctx context.Context, client kubernetes.Interface, names []string) []Health {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return []Health{{"nodes", err}}
	}
	var health []Health
	for _, name := range names {
		found := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Name == name })
		if found < 0 {
			health = append(health, Health{name, fmt.Errorf("%s has been deleted", name)})
			continue
		}
		health = append(health, Health{name, nodeReady(&nodes.Items[found])})
	}
	return health
}

func networkOf(info Info) (*Network, error) {
	prefix, err := netip.ParsePrefix(info.Network)
	if err != nil {
		return nil, fmt.Errorf("the cluster's network is not one: %w", err)
	}
	return &Network{number: prefix.Addr().As4()[1]}, nil
}

// etcdHealthy shows the API server's certificate, without which etcd answers nobody.
func etcdHealthy(ctx context.Context, n *Network, p paths) error {
	certificate, err := tls.LoadX509KeyPair(p.crt("etcd-client"), p.key("etcd-client"))
	if err != nil {
		return err
	}
	client := newProber(certificate)
	return healthyWith(ctx, client, "https://"+n.Address(portEtcd)+"/health")
}

// newProber makes a client for health endpoints. They are on loopback and tell
// nothing secret, so that it does not matter who answers.
func newProber(certificates ...tls.Certificate) *http.Client {
	return &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: certificates},
			DisableKeepAlives: true,
		},
	}
}
