package hostile_test

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/test/rig"
)

// operation is what a person wants of a node, with all moments of it.
type operation struct {
	name string
	// shape changes the node before it is made.
	shape func(*v1alpha1.SeiNode)
	// prepare brings the node to where the operation begins; nil: there is none yet.
	prepare func(*story)
	begin   func(*story)
	moments []moment
	// goal is how it ends when nobody disturbs it.
	goal goal
}

// goal is how an operation ends.
type goal string

const (
	running goal = "running"
	paused  goal = "paused"
	deleted goal = "deleted"
)

// Writes of the operator.
var (
	makesClaim      = written{"create", "PersistentVolumeClaim", ""}
	marksClaim      = written{"patch", "PersistentVolumeClaim", ""}
	deletesClaim    = written{"delete", "PersistentVolumeClaim", ""}
	reserves        = written{"create", "Lease", ""}
	letsGo          = written{"delete", "Lease", ""}
	appliesConfig   = written{"apply", "ConfigMap", ""}
	appliesService  = written{"apply", "Service", ""}
	appliesSet      = written{"apply", "StatefulSet", ""}
	deletesPod      = written{"delete", "Pod", ""}
	writesStatus    = written{"patch", "SeiNode", "status"}
	writesFinalizer = written{"patch", "SeiNode", ""}
)

// bringUp makes the node with everything that a bootstrap can have to do.
func bringUp(s *story) { s.ready() }

func withStateSync(n *v1alpha1.SeiNode) {
	n.Spec.Validator.Snapshot = &v1alpha1.SnapshotSource{
		StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"a.example.com:26657", "b.example.com:26657"},
	}
}

func setImage(image string) func(*story) {
	return func(s *story) { s.edit(func(n *v1alpha1.SeiNode) { n.Spec.Image = image }) }
}

func override(n *v1alpha1.SeiNode) {
	n.Spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "77"}
}

// correct replaces an image that cannot be pulled, unless somebody has.
func correct(s *story) {
	s.edit(func(n *v1alpha1.SeiNode) {
		if n.Spec.Image == brokenImage {
			n.Spec.Image = otherImage
		}
	})
}

func setPaused(is bool) func(*story) {
	return func(s *story) { s.edit(func(n *v1alpha1.SeiNode) { n.Spec.Paused = is }) }
}

func isPaused(n *v1alpha1.SeiNode) bool {
	return rig.Has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused)(n)
}

func waitsForSafeStop(n *v1alpha1.SeiNode) bool {
	return rig.Has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop)(n)
}

func deleteNode(s *story) { s.delete(s.name, &v1alpha1.SeiNode{}) }

func operations() []operation {
	brokenFirst := before(plan.TaskReplacePod, deletesPod)
	brokenFirst.begin = func(s *story) {
		s.create(s.validator(func(n *v1alpha1.SeiNode) {
			withStateSync(n)
			n.Spec.Image = brokenImage
		}))
		s.until("the image to be told of", rig.Has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImagePullBackOff))
		correct(s)
	}
	everything := func(m moment) moment {
		m.begin = func(s *story) {
			s.edit(func(n *v1alpha1.SeiNode) {
				override(n)
				n.Spec.Image, n.Spec.Sidecar = otherImage, &v1alpha1.SidecarSpec{Port: 7800}
			})
		}
		return m
	}
	cannotPull := when(plan.TaskObserveImage, v1alpha1.ConditionReady, v1alpha1.ReasonImagePullBackOff, correct)
	cannotPull.begin = setImage(brokenImage)
	return []operation{
		{
			name: "bootstrap", shape: withStateSync, goal: running,
			begin: nil, // the node is made
			moments: []moment{
				before(plan.TaskEnsureDataPVC, makesClaim), after(plan.TaskEnsureDataPVC+", made", makesClaim),
				before(plan.TaskValidateSigningKey, reserves), after(plan.TaskValidateSigningKey+", reserved", reserves),
				before(plan.TaskApplyNodeConfig, appliesConfig), before(plan.TaskApplyService, appliesService),
				before(plan.TaskApplyStatefulSet, appliesSet), after(plan.TaskApplyStatefulSet+", made", appliesSet),
				brokenFirst,
				atTask(plan.TaskConfigureGenesis), pendingPeer(), atTask(plan.TaskConfigApply), atTask(plan.TaskConfigureStateSync),
				atTask(plan.TaskConfigValidate), atTask(plan.TaskMarkReady), before(plan.TaskMarkReady+", approved", marksClaim),
			},
		},
		{
			name: "NodeUpdate", prepare: bringUp, begin: setImage(otherImage), goal: running,
			moments: []moment{
				after(plan.TaskValidateSigningKey, writesStatus), unsafeToStop(waitsForSafeStop),
				everything(before(plan.TaskApplyNodeConfig, appliesConfig)), before(plan.TaskApplyStatefulSet, appliesSet),
				everything(before(plan.TaskApplyService, appliesService)),
				before(plan.TaskReplacePod, deletesPod), after(plan.TaskReplacePod+", deleted", deletesPod), terminating(),
				cannotPull, atTask(plan.TaskMarkReady),
			},
		},
		{
			name: "ConfigUpdate", prepare: bringUp, begin: func(s *story) { s.edit(override) }, goal: running,
			moments: []moment{
				atTask(plan.TaskConfigValidate), before(plan.TaskApplyNodeConfig, appliesConfig),
				atTask(plan.TaskConfigApply), unsafeToStop(waitsForSafeStop), atTask(plan.TaskRestartSeid),
			},
		},
		{
			name: "pause", prepare: bringUp, begin: setPaused(true), goal: paused,
			moments: []moment{
				unsafeToStop(rig.Has(v1alpha1.ConditionPaused, metav1.ConditionFalse, v1alpha1.ReasonWaitingForSafeStop)),
				before("scaled down", appliesSet), terminating(),
				{name: "paused", hold: func(s *story) (reached, release func()) {
					return func() { s.until("the node to be paused", isPaused) }, func() {}
				}},
			},
		},
		{
			name: "unpause", begin: setPaused(false), goal: running,
			prepare: func(s *story) {
				s.ready()
				setPaused(true)(s)
				s.until("the node to be paused", isPaused)
			},
			moments: []moment{before("scaled up", appliesSet), after("scaled up, done", appliesSet)},
		},
		{
			name: "deletion", prepare: bringUp, begin: deleteNode, goal: deleted,
			moments: []moment{
				unsafeToStop(func(n *v1alpha1.SeiNode) bool { return n.Status.StopRequestedTime != nil }),
				before("scaled down", appliesSet), terminating(), before("keys released", letsGo), before("let go", writesFinalizer),
			},
		},
		{
			name: "deletion with volume", prepare: bringUp, begin: deleteNode, goal: deleted,
			shape: func(n *v1alpha1.SeiNode) {
				n.Spec.DataVolume = &v1alpha1.DataVolumeSpec{DeletionPolicy: v1alpha1.DeletionPolicyDelete}
			},
			moments: []moment{before("volume deleted", deletesClaim), after("volume deleted, done", deletesClaim)},
		},
	}
}
