package operator_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/operator"
	"github.com/sei-operator/sei-operator/test/cluster"
)

func podUIDs(r *rig, names []string) map[string]types.UID {
	r.t.Helper()
	uids := map[string]types.UID{}
	for _, name := range names {
		pod := &corev1.Pod{}
		r.get(name+"-0", pod)
		uids[name] = pod.UID
	}
	return uids
}

func setImage(image string) func(*v1alpha1.SeiNodeDeployment) {
	return func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Template.Spec.Image = image }
}

// fleetEvents are the reasons of the events about a fleet.
func (r *rig) fleetEvents(fleet string) []string {
	r.t.Helper()
	var list eventsv1.EventList
	if err := r.person.List(r.t.Context(), &list, client.InNamespace(r.namespace)); err != nil {
		r.t.Fatal(err)
	}
	var reasons []string
	for i := range list.Items {
		if list.Items[i].Regarding.Kind == "SeiNodeDeployment" && list.Items[i].Regarding.Name == fleet {
			reasons = append(reasons, list.Items[i].Reason)
		}
	}
	return reasons
}

// A fleet that is deleted lets its nodes go untouched, also when it is deleted in the
// foreground, and one of the same name takes them back untouched.
func TestNodesOutliveTheirFleetAndAreTakenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	fleet := r.deployment("fleet", 3)
	r.create(fleet.DeepCopy())
	r.fleetReady("fleet")
	names := nodeNames("fleet", 3)
	pods := podUIDs(r, names)

	live := &v1alpha1.SeiNodeDeployment{}
	r.get("fleet", live)
	r.delete(live, client.PropagationPolicy(metav1.DeletePropagationForeground))
	cluster.Gone[*v1alpha1.SeiNodeDeployment](t, r.person, r.key("fleet"), "the fleet is deleted")
	for _, name := range names {
		node := &v1alpha1.SeiNode{}
		r.get(name, node)
		if len(node.OwnerReferences) != 0 || node.DeletionTimestamp != nil || node.Labels[v1alpha1.LabelDeployment] != "fleet" {
			t.Errorf("%s was not let go: %+v", name, node.ObjectMeta)
		}
	}
	service := &corev1.Service{}
	r.get("fleet-internal", service)
	if len(service.OwnerReferences) != 0 {
		t.Error("the Service still has an owner")
	}

	r.create(fleet.DeepCopy())
	r.fleetReady("fleet")
	if now := podUIDs(r, names); !mapsEqual(now, pods) {
		t.Errorf("pods were replaced: %v, before %v", now, pods)
	}
	r.editFleet("fleet", setImage(image2))
	r.fleetReady("fleet")
	for _, name := range names {
		r.until(name, "what the fleet wants", func(n *v1alpha1.SeiNode) bool { return n.Status.CurrentImage == image2 })
	}
}

func mapsEqual(a, b map[string]types.UID) bool {
	for name, uid := range a {
		if b[name] != uid {
			return false
		}
	}
	return len(a) == len(b)
}

// A fleet with the policy Delete goes with its nodes; their volumes follow their own policy.
func TestAFleetIsDeletedWithItsNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.deployment("fleet", 2, func(f *v1alpha1.SeiNodeDeployment) { f.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete }))
	live := r.fleetReady("fleet")
	r.delete(live)
	for _, name := range nodeNames("fleet", 2) {
		cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key(name), "the fleet is deleted with its nodes")
		r.claim(name)
	}
	cluster.Gone[*v1alpha1.SeiNodeDeployment](t, r.person, r.key("fleet"), "its nodes are gone")
}

// A SeiNode of a name that the fleet needs and that somebody else made is told of and left
// alone; the others come up. Labels and annotations of others on nodes of the fleet stay.
func TestWhatBelongsToOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.fullNode("fleet-1"))
	foreign := r.ready("fleet-1")
	// The foreign one counts as one that is not there.
	r.create(r.deployment("fleet", 3, maxUnavailable("2")))
	r.fleetUntil("fleet", "the foreign node to be told of", func(f *v1alpha1.SeiNodeDeployment) bool {
		return fleetHas(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonForeignNode)(f) && f.Status.AvailableReplicas == 2
	})
	r.edit("fleet-0", func(n *v1alpha1.SeiNode) {
		n.Labels["example.com/mark"] = "mine"
		n.Annotations = map[string]string{"example.com/note": "mine"}
	})
	w.forget()
	for i := range 10 {
		// Each is another reconcile, that writes another label to every node of the fleet.
		f := r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) {
			f.Spec.Template.Metadata = &v1alpha1.TemplateMetadata{Labels: map[string]v1alpha1.LabelValue{"round": v1alpha1.LabelValue('a' + rune(i))}}
		})
		r.fleetUntil("fleet", "the label to reach the nodes", func(now *v1alpha1.SeiNodeDeployment) bool {
			return now.Status.ObservedGeneration == f.Generation && now.Status.UpdatedReplicas == 2
		})
	}
	node := &v1alpha1.SeiNode{}
	r.get("fleet-0", node)
	if node.Labels["example.com/mark"] != "mine" || node.Annotations["example.com/note"] != "mine" || node.Labels["round"] != "j" {
		t.Errorf("fleet-0 has %v %v", node.Labels, node.Annotations)
	}
	r.get("fleet-1", node)
	if node.UID != foreign.UID || node.Generation != foreign.Generation || len(node.OwnerReferences) != 0 {
		t.Errorf("the foreign node was touched: %+v", node.ObjectMeta)
	}
	if deleted := w.of("delete", "Pod"); len(deleted) != 0 {
		t.Errorf("for labels pods were deleted: %v", deleted)
	}
}

// A fix that is no change of the image reaches nodes that are all down, whatever the budget.
func TestAFixReachesNodesThatAreAllDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const count = 4
	r.create(r.deployment("fleet", count, func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.Template.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("100000")}}
	}))
	for _, name := range nodeNames("fleet", count) {
		r.until(name, "the node to be down", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonUnschedulable))
	}
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.Template.Spec.Resources.Requests[corev1.ResourceCPU] = quantity("1m")
	})
	r.fleetReady("fleet")
}

// A new default of the platform rolls a fleet within its own budget, although that of the
// chain would allow more, and who waits says so.
func TestAPlatformDefaultRollsAFleetWithinItsBudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *operator.Config) { c.Platform.MaxConcurrentUpdates = 5 })
	const count, budget = 20, 2
	r.create(r.deployment("fleet", count, maxUnavailable("2")))
	r.fleetReady("fleet")
	seen := r.watchAvailability("fleet", count)
	r.stop()
	r.config.Platform.SidecarImage = newSidecar
	r.start()
	r.fleetUntil("fleet", "nodes to be rolled", func(f *v1alpha1.SeiNodeDeployment) bool { return !fleetIsReady(f) })
	for _, name := range nodeNames("fleet", count) {
		r.until(name, "the node to have the new sidecar", func(n *v1alpha1.SeiNode) bool {
			return isReady(n) && n.Status.CurrentSidecarImage == newSidecar && n.Status.Slot == nil
		})
	}
	r.fleetReady("fleet")
	most, looks := seen.End()
	t.Logf("at most %d of %d pods were down at once, seen in %d observations", most, count, looks)
	if most > budget || most == 0 {
		t.Errorf("%d were down at once: %v", most, seen.History)
	}
	waited := 0
	for _, name := range nodeNames("fleet", count) {
		if slices.Contains(r.events(name), string(v1alpha1.ReasonWaitingForBudget)) {
			waited++
		}
	}
	if waited < count/2 {
		t.Errorf("%d of %d nodes said that they wait", waited, count)
	}
}

// pauseOnFailure stops a rollout at the first node that fails, says which and why, and goes
// on with a template that works.
func TestARolloutStopsAtTheFirstFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const count = 4
	r.create(r.deployment("fleet", count, maxUnavailable("2"), func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.UpdateStrategy.RollingUpdate.PauseOnFailure = true
	}))
	first := r.fleetReady("fleet")
	r.editFleet("fleet", setImage("registry.example.com/seid:crash-loops"))
	stopped := r.fleetUntil("fleet", "the rollout to stop", fleetHas(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonRolloutStopped))
	message := meta.FindStatusCondition(stopped.Status.Conditions, string(v1alpha1.ConditionStalled)).Message
	if !contains(message, "fleet-") || !contains(message, "CrashLoopBackOff") {
		t.Errorf("it says %q", message)
	}
	untouched := 0
	for _, node := range stopped.Status.Nodes {
		if node.Revision == first.Status.CurrentRevision {
			untouched++
		}
	}
	if untouched < count-2 {
		t.Errorf("only %d nodes were left alone: %+v", untouched, stopped.Status.Nodes)
	}
	// A node that is added now is made from the template that works.
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(count + 1)) })
	added := r.ready("fleet-4")
	if added.Spec.Image != image || added.Labels[v1alpha1.LabelRevision] != first.Status.CurrentRevision {
		t.Errorf("the node that was added wants %s", added.Spec.Image)
	}
	r.editFleet("fleet", setImage(image2))
	r.fleetReady("fleet")
	for _, reason := range []string{"RolloutStarted", "NodeUpdateStarted", "RolloutStopped", "RolloutSuperseded", "RolloutFinished"} {
		each(t, "the event "+reason, func() bool { return slices.Contains(r.fleetEvents("fleet"), reason) })
	}
}

// A pause reaches all nodes in the middle of a rollout, and its end too; a node that somebody
// else paused stays so. What was edited meanwhile is what they start with.
func TestAFleetIsPausedInTheMiddleOfARollout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const count = 3
	r.create(r.deployment("fleet", count))
	r.fleetReady("fleet")
	r.edit("fleet-0", func(n *v1alpha1.SeiNode) { n.Spec.Paused = true })
	r.until("fleet-0", "one node to be paused", has(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
	r.editFleet("fleet", setImage("registry.example.com/seid:pull-fails"))
	r.until("fleet-2", "the rollout to hang", has(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonImagePullBackOff))
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = true })
	r.fleetUntil("fleet", "all to be stopped", fleetHas(v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.ReasonPaused))
	images := r.watchImages("fleet-1")
	r.editFleet("fleet", setImage(image2))
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Paused = false })
	for _, name := range []string{"fleet-1", "fleet-2"} {
		r.until(name, "the node to run what was edited", func(n *v1alpha1.SeiNode) bool { return isReady(n) && n.Status.CurrentImage == image2 })
	}
	if seen := images(); !equal(seen, []string{image2}) {
		t.Errorf("fleet-1 was started with %v", seen)
	}
	one := r.until("fleet-0", "the node that somebody else paused", func(n *v1alpha1.SeiNode) bool { return n.Spec.Image == image2 })
	if !one.Spec.Paused {
		t.Error("the node that somebody else paused was started")
	}
	r.edit("fleet-0", func(n *v1alpha1.SeiNode) { n.Spec.Paused = false })
	r.fleetReady("fleet")
}

// partition holds lower ordinals back, also one that is deleted and comes back; scaling
// removes the highest, down to none.
func TestPartitionAndScale(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.deployment("fleet", 3, maxUnavailable("3"), func(f *v1alpha1.SeiNodeDeployment) { f.Spec.UpdateStrategy.RollingUpdate.Partition = 2 }))
	r.fleetReady("fleet")
	r.editFleet("fleet", setImage(image2))
	r.fleetReady("fleet")
	r.until("fleet-2", "the canary", func(n *v1alpha1.SeiNode) bool { return n.Status.CurrentImage == image2 })
	node := &v1alpha1.SeiNode{}
	r.get("fleet-0", node)
	r.delete(node)
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("fleet-0"), "a person deleted it")
	back := r.ready("fleet-0")
	if back.Spec.Image != image {
		t.Errorf("below the partition a node came back with %s", back.Spec.Image)
	}
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(2)) })
	cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key("fleet-2"), "it is one too many")
	r.fleetReady("fleet")
	r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.Replicas = new(int32(0)) })
	for _, name := range nodeNames("fleet", 2) {
		cluster.Gone[*v1alpha1.SeiNode](t, r.person, r.key(name), "none is wanted")
		r.claim(name)
	}
	r.fleetReady("fleet")
}

// The Service leads to the pods of the fleet, and the disruption budget lets as many go as
// the fleet can do without.
func TestServiceAndDisruptionBudgetOfAFleet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.create(r.deployment("fleet", 3))
	fleet := r.fleetReady("fleet")
	if at := fleet.Status.Endpoint; at == nil || !contains(at.TendermintRPC, "http://fleet-internal."+r.namespace+".svc:26657") {
		t.Errorf("the endpoint is %+v", at)
	}
	for _, node := range fleet.Status.Nodes {
		if node.State != v1alpha1.FleetNodeAvailable || node.Endpoint == nil || node.Endpoint.EVMWS == "" {
			t.Errorf("the node is %+v", node)
		}
	}
	cluster.Eventually(t, r.person, r.key("fleet"), "one disruption to be allowed", func(b *policyv1.PodDisruptionBudget) bool {
		return b.Status.DisruptionsAllowed == 1 && b.Status.CurrentHealthy == 3
	})
	service := &corev1.Service{}
	r.get("fleet-internal", service)
	r.delete(service)
	again := cluster.Eventually(t, r.person, r.key("fleet-internal"), "the Service to come back", func(s *corev1.Service) bool { return s.UID != service.UID })
	if len(again.Spec.Ports) != 3 || again.Spec.PublishNotReadyAddresses {
		t.Errorf("the Service is %+v", again.Spec)
	}
}

// What is declared is found again in what the API server has, whatever it made of it: a
// fleet at rest is looked at and not written, also by an operator that has just started.
func TestAFleetAtRestIsNotWritten(t *testing.T) {
	t.Parallel()
	w := &writes{}
	r := newRig(t, w.record)
	r.create(r.deployment("fleet", 2, func(f *v1alpha1.SeiNodeDeployment) {
		f.Spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
		f.Spec.Template.Metadata = &v1alpha1.TemplateMetadata{
			Labels: map[string]v1alpha1.LabelValue{"example.com/tier": "public"}, Annotations: map[string]string{"example.com/note": "all of us"},
		}
		spec := &f.Spec.Template.Spec
		spec.Overrides = v1alpha1.Overrides{"config.p2p.max-connections": "50"}
		spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("1000m"), corev1.ResourceMemory: quantity("1024Mi")}}
		spec.ExtraEnv = []corev1.EnvVar{{Name: "ONE", Value: "1"}, {Name: "TWO", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
		spec.Scheduling = &v1alpha1.SchedulingSpec{Tolerations: []corev1.Toleration{{Key: "example.com/chain", Operator: corev1.TolerationOpExists}}}
		spec.DataVolume = &v1alpha1.DataVolumeSpec{Size: new(quantity("1024Mi"))}
		spec.Peers = []v1alpha1.PeerSource{{Label: &v1alpha1.LabelPeers{Selector: map[string]v1alpha1.LabelValue{v1alpha1.LabelChain: "testnet-1"}}}}
	}))
	r.fleetReady("fleet")
	r.stop()
	w.forget()
	r.start()
	edited := r.editFleet("fleet", func(f *v1alpha1.SeiNodeDeployment) { f.Spec.MinReadySeconds = 1 })
	r.fleetUntil("fleet", "the edit to be noticed", func(f *v1alpha1.SeiNodeDeployment) bool {
		return f.Status.ObservedGeneration == edited.Generation && fleetIsReady(f)
	})
	for _, write := range w.all() {
		if write.Kind != "SeiNodeDeployment" || write.Subresource != "status" {
			t.Errorf("a fleet at rest was written: %s", write)
		}
	}
}
