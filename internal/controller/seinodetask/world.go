package seinodetask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/nodetask"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

const (
	// quick is how long a worker waits for a task of a sidecar: most are done by then.
	// Whatever takes longer wakes the controller when it ends.
	quick = 200 * time.Millisecond
	// sidecarPause is when a sidecar is asked again that had no answer.
	sidecarPause = time.Second
)

// world is what the steps of one task act on.
type world struct {
	*Reconciler

	node *v1alpha1.SeiNode
	task *v1alpha1.SeiNodeTask
	// looks: before something is sent to the node, it has to be made sure that no plan is
	// about to stop seid.
	looks bool
}

var _ nodetask.World = (*world)(nil)

func keyOf(node *v1alpha1.SeiNode) types.NamespacedName {
	return types.NamespacedName{Namespace: node.Namespace, Name: node.Name}
}

func (w *world) Task() *v1alpha1.SeiNodeTask { return w.task }
func (w *world) Node() *v1alpha1.SeiNode     { return w.node }
func (w *world) Now() time.Time              { return w.Clock.Now() }

// Witnesses are those of the node's spec, or those that the platform has for its chain.
func (w *world) Witnesses() []string {
	if w.node == nil {
		return nil
	}
	if snapshot := w.node.Spec.Snapshot(); snapshot != nil && len(snapshot.RPCServers) > 0 {
		return slices.Clone(snapshot.RPCServers)
	}
	return slices.Clone(w.Platform.Witnesses[w.node.Spec.ChainID])
}

func (w *world) Keys(ctx context.Context) (nodetask.Identity, error) {
	in, err := w.keys.Approval(ctx, w.Kube, w.Agents, w.node, w.Now())
	if err != nil {
		return nodetask.Identity{}, err
	}
	switch gate := plan.MayApprove(in); {
	case gate == nil:
	case gate.Reason == v1alpha1.ReasonWaiting:
		return nodetask.Identity{}, &nodetask.NotYet{Message: gate.Message}
	default:
		return nodetask.Identity{}, &nodetask.Failure{Reason: v1alpha1.ReasonTaskFailed, Message: string(gate.Reason) + ": " + gate.Message}
	}
	return nodetask.Identity{PublicKey: plan.SigningIdentity(in), NodeID: in.Seen.Keys[plan.NodeKey].NodeID}, nil
}

func (w *world) FindPeers(ctx context.Context) (nodetask.Peers, error) {
	var prior []string
	if known := w.node.Status.ResolvedPeers; known != nil {
		prior = known.Addresses
	}
	found := w.Peers.Resolve(ctx, w.node, func(namespace string, labels map[string]string) ([]v1alpha1.SeiNode, error) {
		return w.Kube.SeiNodes(ctx, namespace, labels)
	}, prior)
	after := w.node.DeepCopy()
	after.Status.ResolvedPeers = nil
	if found.Count > 0 {
		after.Status.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: int32(found.Count), Addresses: found.Addresses}
	}
	if !slices.Equal(prior, found.Addresses) {
		if err := w.Kube.PatchStatus(ctx, w.node.DeepCopy(), after); err != nil {
			return nodetask.Peers{}, err
		}
	}
	return nodetask.Peers{Addresses: found.Addresses, Count: int32(found.Count), Problems: found.Problems}, nil
}

func (w *world) HeldReason(ctx context.Context) (string, error) {
	view, err := w.Agents.Refresh(ctx, keyOf(w.node))
	if err != nil || !view.Status.Held {
		return "", err
	}
	return view.Status.HeldReason, nil
}

func (w *world) Others(ctx context.Context, labels map[string]string) ([]v1alpha1.SeiNode, error) {
	return w.Kube.SeiNodes(ctx, w.task.Namespace, labels)
}

func (w *world) PatchImage(ctx context.Context, image string) error {
	err := w.Kube.PatchImage(ctx, w.node, image)
	if apierrors.IsInvalid(err) {
		return &nodetask.Failure{Reason: v1alpha1.ReasonInvalidPayload, Message: "The API server refuses the image: " + err.Error()}
	}
	return err
}

// OnSidecar has a sidecar carry out a task. The id follows from what is persisted, and
// the sidecar is asked for it before it is submitted; so it is submitted once, also
// when an answer was lost or another operator goes on.
func (w *world) OnSidecar(ctx context.Context, node *v1alpha1.SeiNode, id uuid.UUID, taskType string, params func() (any, error)) (nodetask.Answer, error) {
	key := keyOf(node)
	result, err := w.Agents.Task(ctx, key, id, 0)
	if agents.NotFound(err) {
		answer, err := w.submit(ctx, node, id, taskType, params)
		if err != nil || answer.Waits != "" || answer.Reason != "" {
			return answer, err
		}
		result, err := w.Agents.Task(ctx, key, id, quick)
		return answerOf(node, result, err), nil
	}
	return answerOf(node, result, err), nil
}

func answerOf(node *v1alpha1.SeiNode, result api.TaskResult, err error) nodetask.Answer {
	if err != nil {
		return unanswered(node, err)
	}
	answer := nodetask.Answer{Result: result.Result}
	switch result.Status {
	case api.TaskCompleted:
	case api.TaskFailed:
		answer.Reason, answer.Message = result.Reason, result.Error
	default:
		answer.Waits = "The sidecar is at " + result.Type + "."
	}
	return answer
}

// submit sends a task to a sidecar that does not know it.
func (w *world) submit(ctx context.Context, node *v1alpha1.SeiNode, id uuid.UUID, taskType string, params func() (any, error)) (nodetask.Answer, error) {
	if w.looks {
		if err := w.planFirst(ctx); err != nil {
			return nodetask.Answer{}, err
		}
	}
	wanted, err := params()
	if err != nil {
		return nodetask.Answer{}, err
	}
	content, err := json.Marshal(wanted)
	if err != nil {
		return nodetask.Answer{}, fmt.Errorf("preparing a %s for node %s: %w", taskType, keyOf(node), err)
	}
	err = w.Agents.Submit(ctx, keyOf(node), api.TaskRequest{ID: id, Type: taskType, Params: content})
	refusal, refused := errors.AsType[*agents.Refusal](err)
	switch {
	case refused && refusal.Reason == api.ReasonIDConflict:
		return nodetask.Answer{}, nil // it came through before, and that is the one to follow
	case refused && !refusal.Retryable && refusal.Reason != api.ReasonWrongNode:
		return nodetask.Answer{Reason: refusal.Reason, Message: refusal.Message}, nil
	case err != nil:
		return unanswered(node, err), nil
	}
	return nodetask.Answer{}, nil
}

// planFirst looks once more at the node, without a cache, before anything is done to
// it. A plan that was written down before this task was may not have been seen; one
// that comes later sees this task. See plan.TaskGate.
func (w *world) planFirst(ctx context.Context) error {
	now := &v1alpha1.SeiNode{}
	if err := w.Kube.GetLive(ctx, keyOf(w.node), now); err != nil {
		return err
	}
	switch {
	case now.UID != w.node.UID, now.DeletionTimestamp != nil:
		return fmt.Errorf("the node %s was deleted a moment ago", keyOf(w.node))
	case plan.StopAhead(now.Status.Plan):
		return &nodetask.PlanFirst{Message: fmt.Sprintf("Waits for the plan %s of the node %s, which stops seid.", now.Status.Plan.Type, now.Name)}
	}
	return nil
}

// unanswered is for a call that had no answer, or none that says anything about the
// task. When the stream of the sidecar is back, it wakes us; otherwise we ask again.
func unanswered(node *v1alpha1.SeiNode, err error) nodetask.Answer {
	refusal, refused := errors.AsType[*agents.Refusal](err)
	switch {
	case node.Spec.Paused:
		return nodetask.Answer{Waits: "The node is paused; it goes on when spec.paused is false."}
	case errors.Is(err, agents.ErrNotConnected):
		return nodetask.Answer{Waits: fmt.Sprintf("Waits for the sidecar of the node %s to answer.", node.Name)}
	case refused && refusal.Reason != api.ReasonWrongNode:
		return nodetask.Answer{Waits: "The sidecar cannot do it now: " + refusal.Message, After: sidecarPause}
	}
	// What went wrong on the way differs each time, and would be a write each time.
	return nodetask.Answer{Waits: "The sidecar did not answer in time.", After: sidecarPause}
}
