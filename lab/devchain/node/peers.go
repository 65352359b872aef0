package node

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tendermint/tendermint/libs/service"
	"github.com/tendermint/tendermint/proto/tendermint/blocksync"
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
	known, ok := reflect.TypeAssert[interface{ Peers() []types.NodeID }](surroundings.FieldByName("PeerManager"))
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
			if told, ok := reflect.TypeAssert[interface{ GetHeight() int64 }](found[0]); ok {
				peer.height = max(0, told.GetHeight()-1)
			}
			live = append(live, peer)
		}
		return live
	}, nil
}

// heightInterval is how often seid asks its peers for their heights.
const heightInterval = 10 * time.Second

// askHeights goes on asking the peers for their heights. The engine stops when block
// sync is over, so a node that is stuck later would never learn how far it is behind.
// The question is sent the way the engine sends it.
func askHeights(ctx context.Context, engine service.Service) error {
	reactor, err := blockSyncOf(engine)
	if err != nil {
		return err
	}
	out, err := field(reactor, "blockSyncOutBridgeCh")
	if err != nil {
		return err
	}
	question := reflect.New(out.Type().Elem()).Elem()
	question.FieldByName("Broadcast").SetBool(true)
	question.FieldByName("Message").Set(reflect.ValueOf(&blocksync.StatusRequest{}))
	go func() {
		ticker := time.NewTicker(heightInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				// It waits for ever when the engine has stopped, as then everything ends.
				out.Send(question)
			}
		}
	}()
	return nil
}

// fillPEX gives an engine without the exchange of peers one that does nothing: it
// would end with a panic otherwise when it is told to stop.
func fillPEX(engine service.Service) error {
	exchange, err := field(reflect.ValueOf(engine).Elem(), "pexReactor")
	if err != nil || !exchange.IsNil() {
		return err
	}
	nothing := &noExchange{}
	nothing.BaseService = *service.NewBaseService(nil, "PEX", nothing)
	exchange.Set(reflect.ValueOf(nothing))
	return nil
}

type noExchange struct{ service.BaseService }
