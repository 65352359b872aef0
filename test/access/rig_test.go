// Package access tries to get into a node: a real sidecar, behind our access proxy and
// behind kube-rbac-proxy, which ask a real API server. Both are started with the same
// flags and the same config file, so either can be used.
package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/serve"
	"github.com/sei-operator/sei-operator/test/cluster"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const (
	nodeName = "alpha"
	nodeUID  = "5f0c7c1e-0000-4000-8000-000000000001"
	podUser  = "node" // the ServiceAccount of the node's pod

	// patience ends a test that would otherwise hang.
	patience = 30 * time.Second
)

// node is a pod with access control, as far as it can be had without a kubelet.
type node struct {
	t         *testing.T
	cluster   *cluster.Cluster
	namespace string
	dir       string
	log       *fakeseid.Output // what the sidecar writes
	sidecar   string           // where the sidecar listens on loopback
	host      string           // where the proxy listens
	authority *authority
	stop      func()
}

// newNode makes everything but the proxy.
func newNode(t *testing.T) *node {
	t.Helper()
	c := cluster.Get(t)
	n := &node{
		t: t, cluster: c, namespace: c.Namespace(t), dir: t.TempDir(), log: &fakeseid.Output{},
		host: fakeseid.Host(t), authority: newAuthority(t),
	}
	for _, dir := range []string{"home", "loopback", "access"} {
		if err := os.Mkdir(filepath.Join(n.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.account(n.namespace, podUser)
	n.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "access-" + n.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: n.namespace, Name: podUser}},
	})
	rendered := n.rendered()
	for name, content := range rendered.ProxyConfig.Data {
		n.write(name, content)
	}
	n.certify()
	n.kubeconfig(c.PersonConfig(t).Host)
	n.serve("127.0.0.1:0")
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(name, content string) {
	n.t.Helper()
	if err := os.WriteFile(n.path(name), []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// create makes an object as those do who set the rules of a cluster.
func (n *node) create(object client.Object) {
	n.t.Helper()
	if err := n.cluster.Admin(n.t).Create(n.t.Context(), object); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) account(namespace, name string) {
	n.t.Helper()
	n.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// caller makes a ServiceAccount with some rights on SeiNodes in its namespace, and
// returns a token of it.
func (n *node) caller(namespace, name string, rules ...rbacv1.PolicyRule) string {
	n.t.Helper()
	n.account(namespace, name)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	n.create(&rbacv1.Role{ObjectMeta: meta, Rules: rules})
	n.create(&rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
	})
	return n.cluster.Token(n.t, namespace, name, audience(n.namespace))
}

// audience is whom tokens for the proxies of a namespace are for.
func audience(namespace string) string { return "sei-sidecar." + namespace }

// may is a rule for one node.
func may(verbs, subresources string, nodes ...string) rbacv1.PolicyRule {
	rule := rbacv1.PolicyRule{APIGroups: []string{"sei.io"}, Verbs: strings.Split(verbs, ","), ResourceNames: nodes}
	for subresource := range strings.SplitSeq(subresources, ",") {
		rule.Resources = append(rule.Resources, strings.TrimSuffix("seinodes/"+subresource, "/"))
	}
	return rule
}

// kubeconfig is how the proxy reaches an API server, as the pod's ServiceAccount.
func (n *node) kubeconfig(server string) {
	n.t.Helper()
	n.kubeconfigOf(server, podUser)
}

func (n *node) kubeconfigOf(server, account string) {
	n.t.Helper()
	connection := rest.AnonymousClientConfig(n.cluster.PersonConfig(n.t))
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: connection.CAData}
	config.AuthInfos["pod"] = &clientcmdapi.AuthInfo{Token: n.cluster.Token(n.t, n.namespace, account)}
	config.Contexts["pod"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "pod"}
	config.CurrentContext = "pod"
	if err := clientcmd.WriteToFile(*config, n.path("kubeconfig")); err != nil {
		n.t.Fatal(err)
	}
}

// serve starts the sidecar; n.stop ends it.
func (n *node) serve(listen string) {
	n.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(n.t.Context()))
	ended, listening := make(chan error, 1), make(chan net.Addr, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Config{
			Home: seid.Home(n.path("home")), NodeUID: nodeUID, Listen: listen, LoopbackDir: n.path("loopback"),
			Socket: n.path("socket"), RPC: n.host + ":26657", Metrics: n.host + ":26660",
			Log: slog.New(slog.NewTextHandler(n.log, nil)),
		}, func(address net.Addr) { listening <- address })
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("the sidecar ended: %v", err)
		}
	})
	n.t.Cleanup(n.stop)
	select {
	case address := <-listening:
		n.sidecar = address.String()
	case err := <-ended:
		n.t.Fatalf("the sidecar ended: %v", err)
	}
}

// authority signs the certificates of the way in.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{certificate: certificate, key: key, serial: 1}
}

// certify puts a new certificate in the place of the last one, in two steps, as bad as
// it can come, and returns its serial number.
func (n *node) certify() int64 {
	n.t.Helper()
	a := n.authority
	a.serial++
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{nodeName + "." + n.namespace},
	}, a.certificate, key.Public(), a.key)
	if err != nil {
		n.t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write("access/tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	n.write("access/tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})))
	return a.serial
}

// http is a client that trusts the authority, and makes a new connection for each call.
func (n *node) http() *http.Client {
	roots := x509.NewCertPool()
	roots.AddCert(n.authority.certificate)
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: roots, ServerName: nodeName + "." + n.namespace},
		DisableKeepAlives: true,
	}}
}

func (n *node) url() string { return "https://" + net.JoinHostPort(n.host, "8443") }

// protect starts a proxy, a program with the flags that are rendered, and returns when
// it lets the sidecar answer.
func (n *node) protect(program ...string) {
	n.t.Helper()
	arguments := append(program[1:], n.arguments()...)
	command := exec.CommandContext(context.WithoutCancel(n.t.Context()), program[0], append(arguments, "--kubeconfig="+n.path("kubeconfig"))...)
	said := &fakeseid.Output{}
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait()
	}()
	n.t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if n.t.Failed() {
			n.t.Logf("the proxy said:\n%s", said)
		}
	})
	n.until("the proxy answers", func(ctx context.Context) bool {
		select {
		case <-ended:
			n.t.Fatalf("the proxy ended:\n%s", said)
		default:
		}
		status, _, err := n.do(ctx, call{method: http.MethodGet, path: "/v0/livez"})
		return err == nil && status == http.StatusOK
	})
}

// rendered is what the operator makes of a node behind an access proxy.
func (n *node) rendered() render.Desired {
	n.t.Helper()
	settings := platform.Default()
	settings.AccessControl.Enabled = true
	want, err := render.Node(&v1alpha1.SeiNode{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: nodeName, UID: nodeUID},
		Spec:       v1alpha1.SeiNodeSpec{ChainID: "testnet-1", Image: "registry.example.com/seid:v1", FullNode: &v1alpha1.FullNodeSpec{}},
	}, settings)
	if err != nil {
		n.t.Fatal(err)
	}
	return want
}

// arguments are those that the operator renders, with places of this machine instead of
// those of a pod: a flag or a key that is wrong there is noticed here, by both proxies.
func (n *node) arguments() []string {
	n.t.Helper()
	places := strings.NewReplacer(
		"0.0.0.0:8443", net.JoinHostPort(n.host, "8443"),
		"127.0.0.1:7777", n.sidecar,
		"/run/sei-loopback", n.path("loopback"),
		"/etc/sei/rbac-proxy", n.dir,
		"/etc/sei/access", n.path("access"),
		// Who tests a renewal does not wait for it.
		"--tls-reload-interval=10s", "--tls-reload-interval=10ms",
	)
	for _, container := range n.rendered().StatefulSet.Spec.Template.Spec.InitContainers {
		if *container.Name != render.ContainerProxy {
			continue
		}
		var found []string
		// The first one chooses the program, in the sidecar's image.
		for _, argument := range container.Args[1:] {
			found = append(found, places.Replace(argument))
		}
		return found
	}
	n.t.Fatal("no access proxy is rendered")
	return nil
}

// until asks again and again: what is asked are other processes.
func (n *node) until(what string, met func(context.Context) bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !met(ctx) {
		select {
		case <-look.C:
		case <-ctx.Done():
			n.t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// call is one to the sidecar, through the proxy.
type call struct {
	method, path, body string
	token              string
	headers            map[string]string
}

// do makes a call, and returns the status and the body of the answer.
func (n *node) do(ctx context.Context, c call) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, c.method, n.url()+c.path, strings.NewReader(c.body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set(api.NodeUIDHeader, nodeUID)
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	response, err := n.http().Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// action is the header in which a call says what it does.
func action(of string) map[string]string { return map[string]string{api.ActionHeader: of} }

// task is the body that submits one.
func task(kind, id string) string { return fmt.Sprintf(`{"type":%q,"id":%q,"params":{}}`, kind, id) }

// The two programs that can stand in front of a sidecar.
const (
	ours   = "sei-rbac-proxy"
	theirs = "kube-rbac-proxy"
)

// built is how to start a proxy, which is built first.
func built(t *testing.T, name string) []string {
	t.Helper()
	module, packages, command := "../..", []string{"./cmd/sei-sidecar", "./cmd/sei-rbac-proxy"}, []string{"sei-sidecar", "rbac-proxy"}
	if name == theirs {
		module, packages, command = "../../lab/build/kube-rbac-proxy", []string{"github.com/brancz/kube-rbac-proxy/cmd/kube-rbac-proxy"}, []string{theirs}
	}
	dir := t.TempDir()
	arguments := append([]string{"build", "-C", module, "-trimpath", "-ldflags=-s -w", "-o", dir}, packages...)
	if output, err := exec.CommandContext(t.Context(), "go", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("building %v: %v\n%s", packages, err, output)
	}
	command[0] = filepath.Join(dir, command[0])
	return command
}
