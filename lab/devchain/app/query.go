package app

import (
	"encoding/binary"
	"encoding/json"

	abci "github.com/tendermint/tendermint/abci/types"
)

// currentPlanPath is where the plan is asked for by "/abci_query" on a node without REST.
const currentPlanPath = "/cosmos.upgrade.v1beta1.Query/CurrentPlan"

// Query reads a key of the last block, or the plan as seid answers it.
func (a *Application) Query(request abci.RequestQuery) abci.ResponseQuery {
	a.mu.Lock()
	defer a.mu.Unlock()
	plan := a.store.head.Plan
	if request.Path == currentPlanPath {
		return abci.ResponseQuery{Value: encodePlan(plan), Height: a.store.head.Height}
	}
	value, err := a.store.get(string(request.Data))
	if string(request.Data) == PlanKey && plan != nil {
		value, err = json.Marshal(plan)
	}
	if err != nil {
		return abci.ResponseQuery{Code: 1, Log: err.Error()}
	}
	return abci.ResponseQuery{Key: request.Data, Value: value, Height: a.store.head.Height}
}

// encodePlan writes the answer in the format of protocol buffers: a message whose field 1 is
// the plan. Without a plan it is empty.
func encodePlan(plan *Plan) []byte {
	if plan == nil {
		return nil
	}
	const varint, length = 0, 2
	tag := func(to []byte, field, kind uint64) []byte { return binary.AppendUvarint(to, field<<3|kind) }
	text := func(to []byte, field uint64, value []byte) []byte {
		if len(value) == 0 {
			return to
		}
		to = binary.AppendUvarint(tag(to, field, length), uint64(len(value)))
		return append(to, value...)
	}
	number := func(to []byte, field uint64, value int64) []byte {
		return binary.AppendUvarint(tag(to, field, varint), uint64(value))
	}
	// The time is no longer used and always there: that of the year 1.
	const yearOne = -62135596800
	message := text(nil, 1, []byte(plan.Name))
	message = text(message, 2, number(nil, 1, yearOne))
	message = number(message, 3, plan.Height)
	message = text(message, 4, []byte(plan.Info))
	return text(nil, 1, message)
}
