package node

import (
	"fmt"
	"reflect"

	"github.com/tendermint/tendermint/libs/service"
	"github.com/tendermint/tendermint/types"
)

// connection is a peer that the node is connected to.
type connection struct {
	id     string
	height int64 // of its last block
}

// livePeers finds the way to the connections of a node: consensus keeps the state of
// those peers alone. The engine's RPC tells the same, but waits for the block that is
// being executed, and a node that is stuck has to answer.
func livePeers(engine service.Service) (func() []connection, error) {
	method := reflect.ValueOf(engine).MethodByName("RPCEnvironment")
	if !method.IsValid() {
		return nil, fmt.Errorf("%T does not tell its surroundings", engine)
	}
	surroundings := method.Call(nil)[0].Elem()
	known, ok := surroundings.FieldByName("PeerManager").Interface().(interface{ Peers() []types.NodeID })
	state := surroundings.FieldByName("ConsensusReactor").MethodByName("GetPeerState")
	if !ok || !state.IsValid() {
		return nil, fmt.Errorf("%T does not tell its peers", engine)
	}
	return func() []connection {
		var live []connection
		for _, id := range known.Peers() {
			found := state.Call([]reflect.Value{reflect.ValueOf(id)})
			if !found[1].Bool() {
				continue
			}
			peer := connection{id: string(id)}
			// A peer tells the height it works on; nothing yet is none.
			if told, ok := found[0].Interface().(interface{ GetHeight() int64 }); ok {
				peer.height = max(0, told.GetHeight()-1)
			}
			live = append(live, peer)
		}
		return live
	}, nil
}
