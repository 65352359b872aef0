package operator_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
	shared "github.com/sei-operator/sei-operator/test/rig"
)

const day = 24 * time.Hour

func TestANodeBehindAccessControl(t *testing.T) {
	begin := time.Now()
	r := newControlledRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	secret := r.certificate("alpha", "the certificate", exists)
	node := &v1alpha1.SeiNode{}
	r.get("alpha", node)
	if secret.Type != corev1.SecretTypeTLS || !metav1.IsControlledBy(secret, node) {
		t.Errorf("its Secret is of type %s, its owners are %v", secret.Type, secret.OwnerReferences)
	}
	// Everything that a person may have done goes through the proxy too.
	for i, kind := range []v1alpha1.SeiNodeTaskKind{
		v1alpha1.TaskKindRestartSeid, v1alpha1.TaskKindHoldNode, v1alpha1.TaskKindReleaseHold, v1alpha1.TaskKindMarkReady, v1alpha1.TaskKindDiscoverPeers,
	} {
		name := fmt.Sprintf("task-%d", i)
		r.task(name, kind)
		r.taskUntil(name, "the end of it", func(task *v1alpha1.SeiNodeTask) bool { return task.Status.Phase == v1alpha1.TaskPhaseComplete })
	}
	r.ready("alpha")
	r.settled("alpha")
	rest := time.Now()
	r.settled("alpha")
	for _, e := range r.cluster.Audit(t, cluster.OperatorUser, rest) {
		if e.Resource == "secrets" || e.Resource == "subjectaccessreviews" || e.Resource == "serviceaccounts" {
			t.Errorf("at rest the operator asked for: %s %s %s/%s", e.Verb, e.Resource, e.Namespace, e.Name)
		}
	}
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("alpha"), "it is deleted")
	// There is one watch of Secrets, that of their metadata. A second one would be a cache
	// with their data, which writing them must not begin.
	watches := 0
	for _, e := range r.cluster.Audit(t, cluster.OperatorUser, begin) {
		if e.Verb == "watch" && e.Resource == "secrets" && e.Namespace == r.namespace {
			watches++
		}
	}
	if watches != 1 {
		t.Errorf("Secrets are watched %d times", watches)
	}
}

// Whoever switches access control on or off replaces pods, and until then talks to the
// pods that are there as they want to be talked to.
func TestAccessControlIsSwitchedOnAndOff(t *testing.T) {
	r := newRig(t)
	r.bind()
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	for _, enabled := range []bool{true, false} {
		before := r.pod("alpha", "a pod", func(*corev1.Pod) bool { return true })
		r.stop()
		r.config.Platform.AccessControl.Enabled = enabled
		r.start()
		after := r.pod("alpha", "another pod", func(p *corev1.Pod) bool { return p.UID != before.UID })
		if got := len(after.Spec.InitContainers) == 4; got != enabled {
			t.Errorf("there is a proxy: %v", got)
		}
		r.until("alpha", "the node to be ready with it", func(n *v1alpha1.SeiNode) bool {
			return isReady(n) && n.Status.PodTemplateHash == after.Annotations[v1alpha1.AnnotationTemplateHash]
		})
	}
	if refused := r.sidecars.Refusals(); len(refused) > 0 {
		t.Errorf("the operator was refused: %v", refused)
	}
}

func TestProxiesThatMayNotAskAreAGate(t *testing.T) {
	r := newRig(t, controlled)
	r.create(r.fullNode("alpha"))
	node := r.until("alpha", "the gate", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccessNotGranted))
	for _, part := range []string{"ServiceAccount default", r.namespace, "tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io", "config/access/proxy.yaml"} {
		if message := ready(node).Message; !contains(message, part) {
			t.Errorf("it says %q, which lacks %q", message, part)
		}
	}
	r.create(r.fullNode("beta", func(n *v1alpha1.SeiNode) { n.Spec.ServiceAccountName = "nobody" }))
	node = r.until("beta", "the gate", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAccessNotGranted))
	if message := ready(node).Message; !contains(message, "ServiceAccount nobody does not exist") {
		t.Errorf("it says %q", message)
	}
	r.bind()
	r.look("alpha")
	r.ready("alpha")
}

// A certificate is replaced long before it ends, while the operator calls, and no pod is
// replaced for it.
func TestACertificateIsRenewedUnderCalls(t *testing.T) {
	moved := &clock{}
	r := newControlledRig(t, moved.use)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	pod := r.pod("alpha", "a pod", func(*corev1.Pod) bool { return true })
	secret := r.certificate("alpha", "a certificate", exists)
	for i := range 3 {
		moved.advance(41*day, r, "alpha")
		name := fmt.Sprintf("restart-%d", i)
		r.task(name, v1alpha1.TaskKindRestartSeid)
		secret = r.certificate("alpha", "another certificate", otherThan(secret))
		r.ends(name, v1alpha1.ReasonTaskComplete, "")
		// The first certificate would be of no use any more from the second round on.
		r.reconnect("alpha")
	}
	if now := r.pod("alpha", "a pod", func(*corev1.Pod) bool { return true }); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	r.told("alpha", "CertificateRenewed", "near its end")
}

// A new authority issues from the moment it is there. Proxies that have the certificate
// of the one before are trusted on.
func TestTheAuthorityIsRotatedWithOverlap(t *testing.T) {
	moved := &clock{}
	r := newControlledRig(t, moved.use)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	before := r.authority("an authority", exists)
	secret := r.certificate("alpha", "a certificate", exists)
	// Another test may have left one that is older.
	for range 5 {
		moved.advance(41*day, r, "alpha")
		secret = r.certificate("alpha", "another certificate", otherThan(secret))
	}
	// The pod takes up the certificate that it has when somebody connects.
	r.reconnect("alpha")
	keep := r.sidecars.Node(r.namespace, "alpha").KeepCertificate()
	moved.advance(40*day, r, "alpha")
	after := r.authority("another authority", func(s *corev1.Secret) bool { return !bytes.Equal(s.Data["ca.crt"], before.Data["ca.crt"]) })
	if !bytes.Contains(after.Data["previous.crt"], before.Data["ca.crt"]) {
		t.Error("the one before is not trusted any more")
	}
	secret = r.certificate("alpha", "one of the new authority", otherThan(secret))
	r.reconnect("alpha")
	keep()
	r.reconnect("alpha")
	if secret.Annotations[v1alpha1.AnnotationCertificateIssuer] == "" {
		t.Error("nobody knows who issued it")
	}
}

// Operators on different machines have different clocks.
func TestAClockOneHourOff(t *testing.T) {
	off := &clock{ahead: -time.Hour}
	r := newControlledRig(t, off.use)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		r.stop()
		r.config.Clock = &clock{ahead: ahead}
		r.start()
		r.task("restart"+fmt.Sprint(int(ahead.Hours())+1), v1alpha1.TaskKindRestartSeid)
		r.taskUntil("restart"+fmt.Sprint(int(ahead.Hours())+1), "the end", func(task *v1alpha1.SeiNodeTask) bool { return task.Status.Phase == v1alpha1.TaskPhaseComplete })
	}
}

// What people do to Secrets is put right, and nobody loses the way in.
func TestSecretsOfTheWayIn(t *testing.T) {
	r := newControlledRig(t)
	r.create(r.fullNode("alpha"))
	r.ready("alpha")
	first := r.certificate("alpha", "a certificate", exists)
	r.delete(first)
	second := r.certificate("alpha", "another one", func(s *corev1.Secret) bool { return s.UID != first.UID })
	r.reconnect("alpha")

	edited := second.DeepCopy()
	edited.Data[corev1.TLSCertKey], edited.Data[corev1.TLSPrivateKeyKey] = first.Data[corev1.TLSCertKey], first.Data[corev1.TLSPrivateKeyKey]
	if err := r.person.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	r.certificate("alpha", "a third one", func(s *corev1.Secret) bool { return otherThan(first)(s) && otherThan(second)(s) })
	r.told("alpha", "CertificateRenewed", "Somebody changed")
	r.reconnect("alpha")

	authority := r.authority("an authority", exists)
	if err := r.cluster.Admin(t).Delete(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	back := r.authority("the authority to be back", func(s *corev1.Secret) bool { return s.UID != authority.UID })
	if !bytes.Equal(back.Data["ca.key"], authority.Data["ca.key"]) {
		t.Error("it is another one")
	}
	r.reconnect("alpha")
}

// Somebody else's Secret is not overwritten, and an authority that is none is told of.
func TestSecretsThatAreInTheWay(t *testing.T) {
	r := newControlledRig(t)
	theirs := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "alpha-access"}, StringData: map[string]string{"password": "theirs"},
	}
	r.create(theirs)
	r.create(r.fullNode("alpha"))
	r.until("alpha", "the gate", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonForeignObject))
	r.get("alpha-access", theirs)
	if string(theirs.Data["password"]) != "theirs" || len(theirs.Data) != 1 {
		t.Errorf("it now holds %d entries", len(theirs.Data))
	}
	r.delete(theirs)
	r.ready("alpha")

	r.stop()
	admin := r.cluster.Admin(t)
	authority := r.authority("an authority", exists)
	broken := authority.DeepCopy()
	broken.Data["ca.key"] = []byte("nonsense")
	if err := admin.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.create(r.fullNode("beta"))
	node := r.until("beta", "the gate", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAuthorityInvalid))
	if message := ready(node).Message; !contains(message, "sei-system/sei-operator-ca") || !contains(message, "ca.key") {
		t.Errorf("it says %q", message)
	}
	broken.Data["ca.key"] = authority.Data["ca.key"]
	if err := admin.Update(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	r.ready("beta")
}

// Certificates that others bring: the operator trusts who issued them, waits for them,
// and issues none.
func TestCertificatesThatAreBrought(t *testing.T) {
	theirs, err := access.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := theirs.Data()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	r := newControlledRig(t, func(c *operator.Config) { c.Platform.AccessControl.CAFile = file })
	r.create(r.fullNode("alpha"))
	node := r.until("alpha", "the gate", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSecretNotFound))
	if message := ready(node).Message; !contains(message, "alpha-access") || !contains(message, "alpha."+r.namespace) {
		t.Errorf("it says %q", message)
	}
	made, err := theirs.Issue("alpha."+r.namespace, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "alpha-access"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: made.Certificate, corev1.TLSPrivateKeyKey: made.Key},
	})
	r.ready("alpha")
	for _, e := range r.cluster.Audit(t, cluster.OperatorUser, node.CreationTimestamp.Time) {
		if e.Write() && e.Resource == "secrets" && e.Namespace == r.namespace {
			t.Errorf("the operator wrote the Secret %s/%s", e.Namespace, e.Name)
		}
	}
}

// Everything that is rendered is admitted where the restricted Pod Security Standard is
// enforced.
func TestPodsAreRestricted(t *testing.T) {
	r := newControlledRig(t)
	namespace := &corev1.Namespace{}
	admin := r.cluster.Admin(t)
	if err := admin.Get(t.Context(), client.ObjectKey{Name: r.namespace}, namespace); err != nil {
		t.Fatal(err)
	}
	before := namespace.DeepCopy()
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "pod-security.kubernetes.io/enforce", "restricted")
	if err := admin.Patch(t.Context(), namespace, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	root := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "root"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "root", Image: image}}},
	}
	if err := r.person.Create(t.Context(), root); err == nil {
		t.Fatal("the standard is not enforced: any pod is admitted")
	}
	r.createKeys("validator")
	r.create(r.validator("validator"))
	r.create(shared.NodeSecret(t, r.key("identity"), shared.NewKey(t)))
	for name, change := range map[string]func(*v1alpha1.SeiNodeSpec){
		"full":    func(s *v1alpha1.SeiNodeSpec) { s.FullNode = &v1alpha1.FullNodeSpec{} },
		"archive": func(s *v1alpha1.SeiNodeSpec) { s.Archive = &v1alpha1.ArchiveSpec{} },
		"seed": func(s *v1alpha1.SeiNodeSpec) {
			s.Seed = &v1alpha1.SeedSpec{NodeKey: v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: "identity"}}}
		},
	} {
		r.create(r.fullNode(name, func(n *v1alpha1.SeiNode) {
			n.Spec.FullNode = nil
			change(&n.Spec)
		}))
	}
	for _, name := range []string{"validator", "full", "archive", "seed"} {
		r.ready(name)
	}
}
