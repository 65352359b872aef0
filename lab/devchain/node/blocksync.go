package node

import (
	"fmt"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/tendermint/tendermint/libs/service"
)

// minPeers is how many peers seid wants before it believes that it has caught up.
// The engine is content with one, and after a minute without progress with none.
const minPeers = 2

// silence is after how long without progress seid complains.
const silence = 180 * time.Second

// blockSync makes block sync wait for its peers as that of seid does: with fewer
// than two it follows and never ends. That is why a network of two validators
// never starts, and why a node with one peer is for ever catching up.
//
// The engine cannot be told so, and the rule is one of the few in which seid's fork
// differs from it. It asks once a second whether it has caught up, and logs before
// and after it asked; in between, a pool with too few peers is made to look like
// one with none, and like one that has just made progress.
type blockSync struct {
	log func(message string, keyvals ...any)

	pool        reflect.Value
	peers       reflect.Value
	lastAdvance *time.Time
	height      *int64
	lock        sync.Locker
	hidden      reflect.Value

	// since is when the height was seen first.
	since  time.Time
	atSeen int64
}

// field is a field of a struct that may not be exported, so that it can be read and set.
func field(of reflect.Value, name string) (reflect.Value, error) {
	f := of.FieldByName(name)
	if !f.IsValid() {
		return reflect.Value{}, fmt.Errorf("the engine has no %s in %s", name, of.Type())
	}
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), nil
}

// blockSyncOf is the part of a node that syncs blocks.
func blockSyncOf(engine service.Service) (reflect.Value, error) {
	reactor, err := field(reflect.ValueOf(engine).Elem(), "bcReactor")
	if err != nil {
		return reflect.Value{}, err
	}
	return reactor.Elem().Elem(), nil
}

// attach finds the pool in a node.
func (b *blockSync) attach(engine service.Service) error {
	reactor, err := blockSyncOf(engine)
	if err != nil {
		return err
	}
	pointer, err := field(reactor, "pool")
	if err != nil {
		return err
	}
	b.pool = pointer.Elem()
	found := map[string]reflect.Value{}
	for _, name := range []string{"peers", "lastAdvance", "height", "mtx"} {
		if found[name], err = field(b.pool, name); err != nil {
			return err
		}
	}
	b.peers = found["peers"]
	b.lastAdvance = found["lastAdvance"].Addr().Interface().(*time.Time)
	b.height = found["height"].Addr().Interface().(*int64)
	b.lock = found["mtx"].Addr().Interface().(sync.Locker)
	b.since = time.Now()
	return nil
}

// advanced is called when a block was executed. The engine counts from where it took the
// block, and looks at that before it says that it will ask: a block that took a minute
// would be the reason to go on without peers.
func (b *blockSync) advanced([]any) {
	if !b.pool.IsValid() {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	*b.lastAdvance = time.Now()
}

// before is called before the engine asks whether it has caught up.
func (b *blockSync) before([]any) {
	if !b.pool.IsValid() {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	if *b.height != b.atSeen {
		b.atSeen, b.since = *b.height, time.Now()
	}
	stuck := time.Since(b.since) > silence
	if stuck {
		b.log("no progress since last advance", "last_advance", b.since)
	}
	*b.lastAdvance = time.Now()
	if b.peers.Len() >= minPeers {
		return
	}
	b.hidden = reflect.MakeMap(b.peers.Type())
	b.move(b.hidden, b.peers)
	b.peers.Set(reflect.MakeMap(b.peers.Type()))
}

// after is called after it asked.
func (b *blockSync) after([]any) {
	if !b.hidden.IsValid() {
		return
	}
	b.lock.Lock()
	defer b.lock.Unlock()
	// A peer that came in between is newer than what was hidden.
	b.move(b.hidden, b.peers)
	b.peers.Set(b.hidden)
	b.hidden = reflect.Value{}
}

func (b *blockSync) move(to, from reflect.Value) {
	for entry := from.MapRange(); entry.Next(); {
		to.SetMapIndex(entry.Key(), entry.Value())
	}
}
