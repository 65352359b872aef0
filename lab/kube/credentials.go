package kube

import (
	"crypto/x509/pkix"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// paths are the files of one cluster. Everything but the logs is under state,
// which is removed when the cluster ends.
type paths struct{ dir string }

func (p paths) lock() string                 { return filepath.Join(p.dir, "lock") }
func (p paths) logs() string                 { return filepath.Join(p.dir, "logs") }
func (p paths) state() string                { return filepath.Join(p.dir, "state") }
func (p paths) audit() string                { return filepath.Join(p.logs(), "audit.log") }
func (p paths) log(name string) string       { return filepath.Join(p.logs(), name+".log") }
func (p paths) etcdData() string             { return filepath.Join(p.state(), "etcd") }
func (p paths) pki() string                  { return filepath.Join(p.state(), "pki") }
func (p paths) crt(name string) string       { return filepath.Join(p.pki(), name+".crt") }
func (p paths) key(name string) string       { return filepath.Join(p.pki(), name+".key") }
func (p paths) config(name string) string    { return filepath.Join(p.state(), name) }
func (p paths) kubeconfig() string           { return p.config("kubeconfig") }
func (p paths) kubeconfigOf(n string) string { return p.config(n + ".kubeconfig") }
func (p paths) kubectlCache() string         { return p.config("kubectl-cache") }
func (p paths) control() string              { return p.config("control") }

// masters is the group that may do everything.
const masters = "system:masters"

// writeCredentials makes everything the daemons and the administrator need to
// trust each other. It returns the cluster's authority, which workers get theirs
// from, and the configuration of our own client.
func writeCredentials(p paths, n *Network) (*authority, *rest.Config, error) {
	cluster, err := newAuthority("cluster")
	if err != nil {
		return nil, nil, err
	}
	database, err := newAuthority("etcd")
	if err != nil {
		return nil, nil, err
	}
	for name, content := range map[string][]byte{"ca": cluster.pem, "etcd-ca": database.pem} {
		if err := os.WriteFile(p.crt(name), content, 0o600); err != nil {
			return nil, nil, err
		}
	}
	if err := writeCertificates(p, n, cluster, database); err != nil {
		return nil, nil, err
	}
	if err := writeServiceAccountKey(p); err != nil {
		return nil, nil, err
	}
	if err := writeKubeconfigs(p, n, cluster); err != nil {
		return nil, nil, err
	}
	own, err := cluster.issue(pkix.Name{CommonName: "lab:supervisor", Organization: []string{masters}}, nil)
	if err != nil {
		return nil, nil, err
	}
	return cluster, clientConfig(n, cluster, own), nil
}

// writeCertificates makes the certificates that daemons serve with, and the one
// that opens the database.
func writeCertificates(p paths, n *Network, cluster, database *authority) error {
	host := net.IP(n.Host().AsSlice())
	firstService := net.IP(n.Services().Addr().Next().AsSlice())
	serviceNames := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	for _, f := range []struct {
		name      string
		authority *authority
		subject   pkix.Name
		hosts     []string
		addresses []net.IP
	}{
		{"etcd", database, pkix.Name{CommonName: "etcd"}, nil, []net.IP{host}},
		{"etcd-client", database, pkix.Name{CommonName: "kube-apiserver"}, nil, nil},
		{"kube-apiserver", cluster, pkix.Name{CommonName: "kube-apiserver"}, serviceNames, []net.IP{host, net.IP(n.Node(0).AsSlice()), firstService}},
		{"kubelet-client", cluster, pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{masters}}, nil, nil},
		// Only to serve their health; made here because they would make RSA keys themselves.
		{"kube-controller-manager", cluster, pkix.Name{CommonName: "kube-controller-manager"}, nil, []net.IP{host}},
		{"kube-scheduler", cluster, pkix.Name{CommonName: "kube-scheduler"}, nil, []net.IP{host}},
	} {
		id, err := f.authority.issue(f.subject, f.hosts, f.addresses...)
		if err != nil {
			return err
		}
		if err := id.write(p.pki(), f.name); err != nil {
			return err
		}
	}
	return nil
}

func writeServiceAccountKey(p paths) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(p.key("service-accounts"), encoded, 0o600)
}

func writeKubeconfigs(p paths, n *Network, cluster *authority) error {
	for path, subject := range map[string]pkix.Name{
		// The controllers share one identity (making a ServiceAccount with a token
		// for each of them costs seconds), so it must be allowed what all of them do.
		p.kubeconfigOf("kube-controller-manager"): {CommonName: "system:kube-controller-manager", Organization: []string{masters}},
		p.kubeconfigOf("kube-scheduler"):          {CommonName: "system:kube-scheduler"},
		p.kubeconfigOf("kwok"):                    {CommonName: "lab:kwok", Organization: []string{masters}},
		p.kubeconfig():                            {CommonName: "admin", Organization: []string{masters}},
	} {
		id, err := cluster.issue(subject, nil)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(path, n, cluster, id); err != nil {
			return err
		}
	}
	return nil
}

// clientConfig has no rate limit: a hidden one in the set-up of a test only makes it slow.
func clientConfig(n *Network, a *authority, id *identity) *rest.Config {
	return &rest.Config{
		Host:            n.APIServer(),
		TLSClientConfig: rest.TLSClientConfig{CAData: a.pem, CertData: id.certificate, KeyData: id.key},
		QPS:             -1,
	}
}

func writeKubeconfig(path string, n *Network, a *authority, id *identity) error {
	const name = "lab"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: n.APIServer(), CertificateAuthorityData: a.pem}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: id.certificate, ClientKeyData: id.key}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
