package node

import (
	"reflect"

	"github.com/tendermint/tendermint/libs/service"
)

// queueRoom is how many messages to a peer may wait, where the engine has room for 32.
const queueRoom = 256

// widenQueues gives messages to peers more room. The engine's queue "simple-priority",
// which is seid's default, loses one whenever half of its room is taken (seen in v0.35.9:
// it takes the message from its heap to offer it, and does not put it back), and twenty
// blocks that somebody asks for are more than that. Block sync waits a quarter of a minute
// for a lost one, and then asks others for all that came from that peer: a node that was
// far behind came back in bursts, or never. A queue that blocks instead would stop all
// that a peer sends while one of its readers is held.
func widenQueues(engine service.Service) error {
	router, err := field(reflect.ValueOf(engine).Elem(), "router")
	if err != nil {
		return err
	}
	factory, err := field(router.Elem(), "queueFactory")
	if err != nil {
		return err
	}
	original := reflect.New(factory.Type()).Elem()
	original.Set(factory)
	factory.Set(reflect.MakeFunc(factory.Type(), func(size []reflect.Value) []reflect.Value {
		return original.Call([]reflect.Value{reflect.ValueOf(max(queueRoom, int(size[0].Int())))})
	}))
	return nil
}
