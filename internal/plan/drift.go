package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
	"github.com/sei-operator/sei-operator/internal/seid"
)

// Drift is a difference between a node that runs and what is wanted of it.
type Drift struct {
	// Plan is the one that puts it right.
	Plan    v1alpha1.PlanType
	Reason  v1alpha1.ConditionReason
	Message string
}

// drifts are asked in this order, so that of several differences the one is told
// that a person would name first. What needs a new pod comes before what does not:
// the new pod brings the configuration with it.
var drifts = []func(Input) *Drift{imageDrift, sidecarImageDrift, templateDrift, foreignTemplate, keyDrift, failedUpdate, configDrift}

// FindDrift is the first difference; nil: there is none.
func FindDrift(in Input) *Drift {
	if in.Seen.StatefulSet == nil || StatefulSet(in).Action != Assert {
		return nil // it is made from the current spec, or is none of our business
	}
	for _, check := range drifts {
		if found := check(in); found != nil {
			return found
		}
	}
	return nil
}

func nodeUpdate(reason v1alpha1.ConditionReason, format string, args ...any) *Drift {
	return &Drift{Plan: v1alpha1.PlanNodeUpdate, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// template is what the node's pod is made from: that of the pod that is there, or
// the one that the next pod gets.
func template(in Input) corev1.PodTemplateSpec {
	if pod := in.Seen.Pod; pod != nil && pod.DeletionTimestamp == nil {
		return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
	}
	return in.Seen.StatefulSet.Spec.Template
}

func imageOf(spec *corev1.PodSpec, container string) string {
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

func imageDrift(in Input) *Drift {
	current := template(in)
	if has := imageOf(&current.Spec, render.ContainerSeid); has != in.Want.SeidImage {
		return nodeUpdate(v1alpha1.ReasonImageChanged, "The image of seid goes from %s to %s.", has, in.Want.SeidImage)
	}
	return nil
}

func sidecarImageDrift(in Input) *Drift {
	current := template(in)
	if has := imageOf(&current.Spec, render.ContainerSidecar); has != in.Want.SidecarImage {
		return nodeUpdate(v1alpha1.ReasonSidecarImageChanged, "The image of the sidecar goes from %s to %s.", has, in.Want.SidecarImage)
	}
	return nil
}

// templateDrift is about everything else in the pod. A pod from before templates had
// a hash is left as it is: a new version of the operator is no reason to replace it.
func templateDrift(in Input) *Drift {
	hash := template(in).Annotations[v1alpha1.AnnotationTemplateHash]
	if madeFromTemplate(in) {
		// Somebody may have edited the annotation of the pod, which makes it no other pod.
		hash = in.Seen.StatefulSet.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	}
	if hash == "" {
		hash = in.Node.Status.PodTemplateHash
	}
	if hash != "" && hash != in.Want.TemplateHash {
		return nodeUpdate(v1alpha1.ReasonTemplateChanged, "The template of the pod goes from %s to %s.", hash, in.Want.TemplateHash)
	}
	return nil
}

// foreignTemplate finds a StatefulSet whose template is not the one of the pod that
// is there: the next pod would be another one. It is what somebody else's edit leaves
// behind, or a plan that was superseded halfway.
func foreignTemplate(in Input) *Drift {
	set := in.Seen.StatefulSet
	stamped := set.Spec.Template.Annotations[v1alpha1.AnnotationTemplateHash]
	if stamped == "" && template(in).Annotations[v1alpha1.AnnotationTemplateHash] == "" {
		return nil // from before the hash
	}
	if stamped != in.Want.TemplateHash || !OwnsTemplate(in) {
		return nodeUpdate(v1alpha1.ReasonTemplateChanged, "The template of the StatefulSet %s is not the one that is wanted; somebody else may have edited it.", set.Name)
	}
	return nil
}

// OwnsTemplate tells whether the template is as we applied it, and the one that is
// wanted: what somebody else changes is no longer ours.
func OwnsTemplate(in Input) bool {
	owns, err := in.Seen.Owned.StatefulSet(in.Seen.StatefulSet).Is("template", in.Want.TemplateHash, func(owned *appsv1ac.StatefulSetApplyConfiguration) bool {
		return owned.Spec != nil && equality.Semantic.DeepEqual(owned.Spec.Template, in.Want.StatefulSet.Spec.Template)
	})
	return err == nil && owns
}

// failedUpdate finds a node whose new pod did not come up in time. Nothing of the pod
// differs from what is wanted, and yet the update is not done: it still takes its
// place, and is tried again until it is. A pod that gets ready needs no other try.
func failedUpdate(in Input) *Drift {
	last, held := in.Node.Status.LastPlan, in.Node.Status.Slot
	if last == nil || last.Type != v1alpha1.PlanNodeUpdate || last.Outcome != v1alpha1.PlanOutcomeFailed || PodReady(in.Seen.Pod) {
		return nil
	}
	if held == nil || !equality.Semantic.DeepEqual(held, last.Slot) {
		return nil // it was ready since, or is made anew for another reason
	}
	if binaryRefused(in) {
		return nil // another try would find the same pod, and call the update complete
	}
	return nodeUpdate(v1alpha1.ReasonTemplateChanged, "The last update failed, and the pod is not ready.")
}

// binaryRefused tells whether seid is parked because its binary does not fit the data. Only
// another image helps, and that is another drift.
func binaryRefused(in Input) bool {
	why := v1alpha1.ConditionReason(in.Seen.Sidecar.Status.Seid.ParkedBecause)
	return in.Seen.Sidecar.Connected && (why == v1alpha1.ReasonBinaryTooNew || why == v1alpha1.ReasonBinaryTooOld)
}

// keyDrift is about a pod that has keys which it must not start with, while the
// Secrets have the right ones.
func keyDrift(in Input) *Drift {
	if in.Seen.Pod == nil || !hasOtherKeys(in) {
		return nil
	}
	return nodeUpdate(v1alpha1.ReasonKeyIdentityChanged, "The pod %s does not have the keys of the Secrets, and seid does not run in it.", in.Seen.Pod.Name)
}

// configDrift is about the configuration, which reaches the pod that is there.
func configDrift(in Input) *Drift {
	// What counts is what seid was started with, not what is in the ConfigMap: a plan
	// may have come no further than that.
	if in.Node.Status.AppliedConfigHash == in.Want.ConfigHash {
		return nil
	}
	message := "The configuration changed."
	if live, err := liveDocument(in); err == nil {
		message = "The configuration changed: " + strings.Join(differences(live, in.Want.Intent), ", ") + "."
	}
	return &Drift{Plan: v1alpha1.PlanConfigUpdate, Reason: v1alpha1.ReasonConfigChanged, Message: message}
}

// maxDifferences bounds what is told of a changed configuration or template.
const maxDifferences = 8

// differences names what differs between two configurations.
func differences(has, wants seid.Intent) []string {
	var names []string
	if has.ExternalAddress != wants.ExternalAddress {
		names = append(names, "externalAddress")
	}
	if !equality.Semantic.DeepEqual(has.SnapshotGeneration, wants.SnapshotGeneration) {
		names = append(names, "snapshotGeneration")
	}
	if has.Mode != wants.Mode {
		names = append(names, "mode")
	}
	all := maps.Clone(has.Overrides)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, wants.Overrides)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, was := has.Overrides[key]
		after, is := wants.Overrides[key]
		if was != is || before != after {
			names = append(names, key)
		}
	}
	return few(names)
}

// few are as many as a person would read.
func few(names []string) []string {
	if len(names) > maxDifferences {
		names = append(names[:maxDifferences:maxDifferences], fmt.Sprintf("and %d more", len(names)-maxDifferences))
	}
	return names
}
