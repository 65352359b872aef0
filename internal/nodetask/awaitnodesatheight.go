package nodetask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

const (
	awaitNodesStep = "await-nodes"
	// maxNodes is how many nodes the outputs tell of.
	maxNodes = 64
)

// AwaitNodesAtHeight waits until the node, and all others that the selector chooses at
// that moment, have reached a height. It changes nothing.
var _ = register(Kind{
	Name: v1alpha1.TaskKindAwaitNodesAtHeight, Timeout: awaitTimeout,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.AwaitNodesAtHeight != nil },
	Steps:      []Step{{Name: awaitNodesStep, Do: awaitNodes, Cancel: cancelNodes}},
})

// chosen are the nodes to wait for, by name.
func chosen(ctx context.Context, w World) ([]v1alpha1.SeiNode, error) {
	nodes := []v1alpha1.SeiNode{*w.Node()}
	if wanted := w.Task().Spec.AwaitNodesAtHeight.Selector; len(wanted) > 0 {
		labels := make(map[string]string, len(wanted))
		for key, value := range wanted {
			labels[key] = string(value)
		}
		others, err := w.Others(ctx, labels)
		if err != nil {
			return nil, err
		}
		for i := range others {
			if others[i].UID != w.Node().UID && others[i].DeletionTimestamp == nil {
				nodes = append(nodes, others[i])
			}
		}
	}
	slices.SortFunc(nodes, func(a, b v1alpha1.SeiNode) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}

func awaitNodes(ctx context.Context, w World, outputs *v1alpha1.TaskOutputs) (Outcome, error) {
	nodes, err := chosen(ctx, w)
	if err != nil {
		return Outcome{}, err
	}
	target := w.Task().Spec.AwaitNodesAtHeight.TargetHeight
	reached, lowest := 0, int64(0)
	var heights []v1alpha1.NodeHeight
	outcome := Outcome{}
	for i := range nodes {
		answer, err := w.OnSidecar(ctx, &nodes[i], nodeID(w.Task(), awaitNodesStep, nodes[i].UID), tasks.TypeAwaitCondition, func() (any, error) {
			return tasks.AwaitCondition{Height: &tasks.AwaitHeight{TargetHeight: target}, TimeoutSeconds: secondsLeft(w)}, nil
		})
		one, err := OutcomeOf(answer, err)
		if err != nil {
			return Outcome{}, err
		}
		if one.verdict == failed {
			one.failure.Message = fmt.Sprintf("Node %s: %s", nodes[i].Name, one.failure.Message)
		}
		outcome = worse(outcome, one)
		height := heightIn(answer.Result)
		if one.verdict == done {
			reached++
		}
		if i == 0 || height < lowest {
			lowest = height
		}
		heights = append(heights, v1alpha1.NodeHeight{Name: nodes[i].Name, Height: height})
	}
	outputs.Height, outputs.Nodes = lowest, heights[:min(len(heights), maxNodes)]
	switch outcome.verdict {
	case done:
		return Done(fmt.Sprintf("All of %d nodes have reached the height %d.", len(nodes), target)), nil
	case waiting:
		return Waits(outcome.after, "%d of %d nodes have reached the height %d.", reached, len(nodes), target), nil
	case failed, forestall:
	}
	return outcome, nil
}

// weight orders what is found of several nodes: as long as one is waited for, all are;
// then one that failed is reason enough to fail.
var weight = map[verdict]int{done: 1, failed: 2, waiting: 3}

// worse is what counts of two. Of two that wait the one counts that is due first.
func worse(a, b Outcome) Outcome {
	if weight[a.verdict] != weight[b.verdict] {
		if weight[a.verdict] > weight[b.verdict] {
			return a
		}
		return b
	}
	if a.after == 0 || b.after > 0 && b.after < a.after {
		return b
	}
	return a
}

func heightIn(result json.RawMessage) int64 {
	var found tasks.AwaitConditionResult
	if err := json.Unmarshal(result, &found); err != nil {
		return 0
	}
	return found.Height
}

func cancelNodes(ctx context.Context, w World) error {
	nodes, err := chosen(ctx, w)
	if err != nil {
		return err
	}
	var errs []error
	for i := range nodes {
		errs = append(errs, w.Cancel(ctx, &nodes[i], nodeID(w.Task(), awaitNodesStep, nodes[i].UID)))
	}
	return errors.Join(errs...)
}
