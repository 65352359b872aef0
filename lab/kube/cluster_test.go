package kube

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func statefulSet(name string, spec corev1.PodSpec) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: name,
			Selector:    &metav1.LabelSelector{MatchLabels: labels},
			Template:    corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
}

func TestStatefulSetHasAPodThatIsReached(t *testing.T) {
	ns := namespace(t)
	_, err := client.AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet("seid", podSpec("seid:v1")), metav1.CreateOptions{})
	must(t, err)
	pod := waitPod(t, ns, "seid-0", "ready", ready)

	address, err := netip.ParseAddr(pod.Status.PodIP)
	must(t, err)
	if !netip.MustParsePrefix(cluster.Info.PodNetwork).Contains(address) {
		t.Errorf("%s is not in %s", address, cluster.Info.PodNetwork)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", net.JoinHostPort(pod.Status.PodIP, "7777"))
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "this is ", pod.Name)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	defer func() {
		_ = server.Close()
		<-done
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+pod.Status.PodIP+":7777/", nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	if string(body) != "this is seid-0" {
		t.Errorf("%q", body)
	}
}

func TestStatefulSetReplacesADeletedPod(t *testing.T) {
	ns := namespace(t)
	_, err := client.AppsV1().StatefulSets(ns).Create(t.Context(), statefulSet("seid", podSpec("seid:v1")), metav1.CreateOptions{})
	must(t, err)
	seen := map[string]bool{}
	// Each new pod has the name of the one before: none may be taken for it.
	for range 5 {
		pod := waitPod(t, ns, "seid-0", "another pod that is ready", func(p *corev1.Pod) bool {
			return ready(p) && p.DeletionTimestamp == nil && !seen[string(p.UID)]
		})
		seen[string(pod.UID)] = true
		must(t, client.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	}
}

func TestDeletedOwnerTakesItsDependentsAlong(t *testing.T) {
	ns := namespace(t)
	configMaps := client.CoreV1().ConfigMaps(ns)
	owner, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	must(t, err)
	_, err = configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name:            "dependent",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}},
	}}, metav1.CreateOptions{})
	must(t, err)
	must(t, configMaps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	eventually(t, "dependent gone", func(ctx context.Context) (bool, error) {
		_, err := configMaps.Get(ctx, "dependent", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}, func(gone bool) bool { return gone })
}

func TestVersion(t *testing.T) {
	version, err := client.Discovery().ServerVersion()
	must(t, err)
	if version.GitVersion != cluster.Info.Version || version.Major != "1" {
		t.Errorf("the server calls itself %+v, not %s", version, cluster.Info.Version)
	}
}

func TestAnonymousIsRefused(t *testing.T) {
	anonymous, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(config))
	must(t, err)
	if err := apiServerReady(t.Context(), anonymous); !apierrors.IsUnauthorized(err) {
		t.Errorf("error: %v", err)
	}
}

func TestServiceAccountHasNoRightsUntilGranted(t *testing.T) {
	ns := namespace(t)
	token, err := client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	account := rest.AnonymousClientConfig(config)
	account.BearerToken = token.Status.Token
	as, err := kubernetes.NewForConfig(account)
	must(t, err)
	who, err := as.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	if want := "system:serviceaccount:" + ns + ":default"; who.Status.UserInfo.Username != want {
		t.Errorf("%s, want %s", who.Status.UserInfo.Username, want)
	}
	if _, err := as.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("error: %v", err)
	}
}

func TestAuditLogNamesWhoWroteWhat(t *testing.T) {
	ns := namespace(t)
	_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "audited"}}, metav1.CreateOptions{})
	must(t, err)
	eventually(t, "a line in the audit log", func(context.Context) (string, error) {
		content, err := os.ReadFile(cluster.Info.AuditLog)
		for line := range bytes.Lines(content) {
			if bytes.Contains(line, []byte(`"namespace":"`+ns+`","name":"audited"`)) {
				return string(line), err
			}
		}
		return "", err
	}, func(line string) bool {
		return strings.Contains(line, `"verb":"create"`) && strings.Contains(line, `"username":"admin"`)
	})
}

func TestEverythingIsHealthy(t *testing.T) {
	health, err := Check(t.Context(), cluster.Info)
	must(t, err)
	for _, h := range health {
		if h.Err != nil {
			t.Errorf("%s: %v", h.Name, h.Err)
		}
	}
	if len(health) != len(cluster.Info.Components)+len(cluster.Info.Nodes) {
		t.Errorf("checked %v", health)
	}
}
