package plan

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// made says that the StatefulSet made the pod from the template that it has.
func made(in *Input) {
	hasSet(func(s *appsv1.StatefulSet) {
		s.Generation, s.Status.ObservedGeneration, s.Status.UpdateRevision = 2, 2, "revision"
	})(in)
	onPod(func(p *corev1.Pod) {
		p.Generation = 1
		p.Labels[appsv1.StatefulSetRevisionLabel] = "revision"
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "node", UID: setUID, Controller: new(true)}}
	})(in)
}

// stands says that seid is in this state in a pod with the keys of somebody else.
func stands(state api.SeidState) edit {
	return func(in *Input) {
		approvedWith(publicKey, nodeID)(in)
		podHas(otherPublicKey, nodeID)(in)
		in.Seen.Sidecar.Status.Seid.State = state
	}
}

func edited(change func(*corev1.Pod)) edit {
	return onPod(func(p *corev1.Pod) {
		p.Generation++
		change(p)
	})
}

func TestWhichPodIsStale(t *testing.T) {
	t.Parallel()
	oldSeid, oldSidecar := runsImage(render.ContainerSeid, "old"), runsImage(render.ContainerSidecar, "older")
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"the wanted one":           {in: signer(made)},
		"of another revision":      {in: signer(made, onPod(func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetRevisionLabel] = "old" })), want: true},
		"without a revision":       {in: signer(made, onPod(func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetRevisionLabel) }))},
		"of somebody else":         {in: signer(made, onPod(func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetRevisionLabel], p.OwnerReferences = "old", nil }))},
		"with an edited image":     {in: signer(made, edited(func(p *corev1.Pod) { oldSeid(&p.Spec) })), want: true},
		"with an edited sidecar":   {in: signer(made, edited(func(p *corev1.Pod) { oldSidecar(&p.Spec) })), want: true},
		"with an edited something": {in: signer(made, edited(func(*corev1.Pod) {}))},
		// Whoever rewrites images does it to every pod.
		"with an image that was rewritten when it was made": {in: signer(made, onPod(func(p *corev1.Pod) { oldSeid(&p.Spec) }))},
		"parked with another key":                           {in: signer(made, stands(api.SeidParked)), want: true},
		"never approved, with another key":                  {in: signer(made, stands(api.SeidWaiting)), want: true},
		"parked with another node key":                      {in: signer(made, stands(api.SeidParked), podHas(publicKey, otherNodeID)), want: true},
		"parked with the right keys":                        {in: signer(made, stands(api.SeidParked), podHas(publicKey, nodeID))},
		"parked with keys that are not known":               {in: signer(made, stands(api.SeidParked), podHas("", ""))},
		"running with another key":                          {in: signer(made, stands(api.SeidRunning))},
		"held, with another key":                            {in: signer(made, stands(api.SeidWaiting), sidecar(func(s *Sidecar) { s.Status.Held = true }))},
		"parked, and the sidecar is silent":                 {in: signer(made, stands(api.SeidParked), sidecar(func(s *Sidecar) { s.Connected = false }))},
		"parked, and the Secret holds the other key too":    {in: signer(made, signs(otherPublicKey, otherAddress), stands(api.SeidParked), podHas("public-3", nodeID))},
		"parked without keys in Secrets":                    {in: running(made, stands(api.SeidParked), signs(publicKey, address))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Stale(test.in); got != test.want {
				t.Errorf("stale: %t", got)
			}
		})
	}
}

// A pod with keys that it must not start with is replaced when the Secret is right
// again, by a plan that says so, and without waiting for others.
func TestAPodWithOtherKeysIsReplaced(t *testing.T) {
	t.Parallel()
	in := signer(made, stands(api.SeidParked))
	decision := Decide(in)
	if decision.Step != Start || decision.Plan.Type != v1alpha1.PlanNodeUpdate || decision.Reason != v1alpha1.ReasonKeyIdentityChanged || decision.Slot != nil {
		t.Errorf("decided was %+v", decision)
	}
	saysAll(t, decision.Message, []string{"node-0", "keys"})
	if drift := FindDrift(signer(made, stands(api.SeidParked), func(in *Input) { in.Seen.Pod = nil })); drift != nil {
		t.Errorf("there is no pod, and yet %+v", drift)
	}
}

// Somebody's edit of the hash on a pod makes it no other pod.
func TestTheAnnotationOfAPodIsEdited(t *testing.T) {
	t.Parallel()
	other := onPod(func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationTemplateHash] = "edited" })
	for name, test := range map[string]struct {
		in     Input
		drifts bool
	}{
		"made from the template":                 {in: running(made, other)},
		"made from another":                      {in: running(made, other, onPod(func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetRevisionLabel] = "old" })), drifts: true},
		"made by somebody else":                  {in: running(made, other, onPod(func(p *corev1.Pod) { p.OwnerReferences = nil })), drifts: true},
		"the template was not taken note of yet": {in: running(made, other, hasSetting(func(s *appsv1.StatefulSet) { s.Status.ObservedGeneration = 1 })), drifts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if drift := FindDrift(test.in); (drift != nil) != test.drifts {
				t.Errorf("drift: %+v", drift)
			}
		})
	}
}

// hasSetting changes the StatefulSet that is there.
func hasSetting(change func(*appsv1.StatefulSet)) edit {
	return func(in *Input) {
		in.Seen.StatefulSet = in.Seen.StatefulSet.DeepCopy()
		change(in.Seen.StatefulSet)
	}
}
