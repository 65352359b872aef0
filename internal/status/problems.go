package status

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/scope"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// passing are problems that come and go with every plan. toldElsewhere are those that the
// kubelet reports sooner: a container that starts has no supervisor for a moment.
var (
	passing       = map[string]bool{api.ProblemApprovalOfAnother: true, api.ProblemNotAsWanted: true}
	toldElsewhere = map[string]bool{api.ProblemSupervisorUnreachable: true}
)

// slowStep is how long seid may take to stop or to start before that is a problem. Closing
// and opening the stores of a large chain takes minutes, and is no reason for a warning.
const slowStep = 10 * time.Minute

// validReason is what the API server takes as the reason of a condition.
var validReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// sidecarHealthy shows the problems that a sidecar reports. Nothing is decided by it. The
// last report holds while the sidecar is not connected.
func sidecarHealthy(in Input) metav1.Condition {
	kind := v1alpha1.ConditionSidecarHealthy
	if !in.Seen.Sidecar.Connected {
		if before := lastKnown(in, kind); before != nil {
			return *before
		}
		return condition(kind, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "The sidecar has not reported yet.")
	}
	var reason v1alpha1.ConditionReason
	var messages []string
	for _, problem := range in.Seen.Sidecar.Status.Problems {
		if toldElsewhere[problem.Reason] || passing[problem.Reason] && underway(in) {
			continue
		}
		if reason == "" {
			reason = reasonOf(problem)
		}
		messages = append(messages, fmt.Sprintf("%s: %s", problem.Reason, strings.TrimSuffix(problem.Message, ".")))
	}
	if reason == "" {
		return condition(kind, metav1.ConditionTrue, v1alpha1.ReasonNoProblems, "The sidecar reports no problem.")
	}
	return condition(kind, metav1.ConditionFalse, reason, strings.Join(messages, ". ")+".")
}

// underway tells whether the node is on its way to what is wanted: by a plan, or because
// seid starts, or stops for a hold, which needs no plan. A seid that still runs although the
// node is held is not: it waits for something that a person should know of.
func underway(in Input) bool {
	sidecar := in.Seen.Sidecar.Status
	moves := sidecar.Seid.State == api.SeidStarting || sidecar.Held && sidecar.Seid.State == api.SeidStopping
	return in.Node.Status.Plan != nil || moves && in.Seen.Now.Sub(sidecar.Seid.Since) < slowStep
}

// reasonOf is the reason of a problem. A newer sidecar may have any.
func reasonOf(problem api.Problem) v1alpha1.ConditionReason {
	if !validReason.MatchString(problem.Reason) {
		return v1alpha1.ReasonSidecarProblem
	}
	return v1alpha1.ConditionReason(problem.Reason)
}

// problemCame is the event of a problem that is new.
func problemCame(before, after *v1alpha1.SeiNodeStatus) *scope.Event {
	kind := string(v1alpha1.ConditionSidecarHealthy)
	was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
	if is == nil || is.Status != metav1.ConditionFalse || was != nil && was.Reason == is.Reason {
		return nil
	}
	return told(true, is.Reason, "%s", is.Message)
}
