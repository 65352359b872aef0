package nodetask

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// The steps of ResyncNode, in order.
const (
	resyncCheck     = "check-witnesses"
	resyncHold      = "hold"
	resyncReset     = "reset-data"
	resyncStateSync = "configure-state-sync"
	resyncRelease   = "release-hold"
)

// heldForResync begins the reason of a hold that a ResyncNode placed. Another one may
// go on from there; every other hold is a person's, and stays.
const heldForResync = "ResyncNode "

// ResyncNode removes the chain's data and has it synced anew. Before anything is lost
// the servers that the new data is verified against are asked; while it is removed the
// node is held; and a failure leaves it held.
var _ = register(Kind{
	Name: v1alpha1.TaskKindResyncNode, Timeout: 90 * time.Minute, Mutates: true, KeepsPod: true,
	HasPayload: func(spec *v1alpha1.SeiNodeTaskSpec) bool { return spec.ResyncNode != nil },
	Refuses: func(in Input) string {
		node, witnesses := in.Node, in.Witnesses
		if node.Spec.FullNode == nil {
			return fmt.Sprintf("The node %s is not a full node, and only the data of full nodes may be removed.", node.Name)
		}
		if len(witnesses) < plan.MinWitnesses {
			return fmt.Sprintf("State sync needs at least %d RPC servers and the node %s has %d: set fullNode.snapshot.rpcServers, or give the platform witnesses for the chain %s.",
				plan.MinWitnesses, node.Name, len(witnesses), node.Spec.ChainID)
		}
		return ""
	},
	Steps: []Step{
		{Name: resyncCheck, Task: tasks.TypeConfigureStateSync, Params: stateSyncParams(true)},
		{
			Name: resyncHold, Task: tasks.TypeMarkNotReady, Learn: heldByUs,
			Params: func(_ context.Context, w World) (any, error) {
				return tasks.MarkNotReady{Reason: heldForResync + w.Task().Name}, nil
			},
		},
		stopSeid,
		{Name: resyncReset, Task: tasks.TypeResetData, Params: func(context.Context, World) (any, error) { return tasks.ResetData{}, nil }},
		{Name: resyncStateSync, Task: tasks.TypeConfigureStateSync, Params: stateSyncParams(false)},
		{Name: resyncRelease, Task: tasks.TypeReleaseHold, Params: releaseOwnHold},
	},
	Aftermath: func(step string) string {
		switch step {
		case resyncCheck:
			return "Nothing was changed."
		case resyncHold:
			return "No data was removed. The node may be held; its condition Held tells."
		case stopSeid.Name:
			return "No data was removed. The node stays held: release it with a SeiNodeTask of kind ReleaseHold, or try again with another ResyncNode."
		case resyncReset:
			return "Data may have been removed. The node stays held: try again with another ResyncNode."
		case resyncStateSync:
			return "The data was removed. The node stays held: try again with another ResyncNode; released now it would sync block by block."
		}
		return "The data was removed and state sync is configured. The node stays held: release it with a SeiNodeTask of kind ReleaseHold."
	},
})

func stateSyncParams(checkOnly bool) func(context.Context, World) (any, error) {
	return func(_ context.Context, w World) (any, error) {
		params := tasks.ConfigureStateSync{RPCServers: w.Witnesses(), CheckOnly: checkOnly}
		if snapshot := w.Node().Spec.FullNode.Snapshot; snapshot != nil {
			params.TrustPeriod, params.BackfillBlocks = snapshot.TrustPeriod, snapshot.BackfillBlocks
		}
		return params, nil
	}
}

// heldByUs sees to it that the hold is not somebody else's, who may keep the node just
// as it is for a reason.
func heldByUs(ctx context.Context, w World, result json.RawMessage, _ *v1alpha1.TaskOutputs) error {
	var found tasks.MarkNotReadyResult
	if err := json.Unmarshal(result, &found); err == nil && found.Changed {
		return nil
	}
	why, err := w.HeldReason(ctx)
	if err != nil || strings.HasPrefix(why, heldForResync) {
		return err
	}
	return fails(v1alpha1.ReasonTaskFailed, "Held: the node was held before (%q), by somebody who may want it to stay as it is. Release that hold first.", why)
}

// releaseOwnHold ends the hold of this task and no later one.
func releaseOwnHold(_ context.Context, w World) (any, error) {
	return tasks.ReleaseHold{Hold: StepID(w.Task(), resyncHold)}, nil
}
