package supervisor

import "time"

// Danger is why stopping seid now would be unsafe.
type Danger string

// The dangers.
const (
	// Booting: seid has no signal handler yet; a signal would kill it uncaught.
	Booting Danger = "Booting"
	// StateSyncing: seid is restoring a snapshot.
	StateSyncing Danger = "StateSyncing"
	// AwaitingBlock: state sync is over and no block was executed after it. Whoever
	// ends seid here ruins the volume for good.
	AwaitingBlock Danger = "AwaitingBlock"
)

// Observation is what is known of a seid that runs.
type Observation struct {
	Now     time.Time
	Started time.Time
	// Answered is when RPC, on a seed the p2p port, answered first.
	Answered time.Time

	// Services are those that seid opens after RPC, one after the other, each
	// followed by a fixed wait; the signal handler comes last.
	Services []Service

	// SyncExpected: state sync is on, and nothing rules out that this seid does
	// one.
	SyncExpected bool
	// SyncSeen: its metrics said that it does.
	SyncSeen bool

	// Closing: it restarts itself, and has not begun to come up. It closes its stores
	// first, which may take minutes.
	Closing bool

	// Searching: no snapshot was found so far, and the volume is empty.
	Searching bool

	// FirstHeight is the height of the first answer, Height that of the latest.
	FirstHeight, Height int64
}

// Service is a listener that seid opens on its way to the signal handler.
type Service struct {
	Name string
	// Opened is when it was seen open first; zero means not yet.
	Opened time.Time
}

func (o Observation) synced() bool { return o.SyncExpected || o.SyncSeen }

// awaitsBlock tells whether it may be that no block was executed after a state sync. The
// height that seid tells is that of its store, and a block is stored before it is
// executed: only the next one proves that it was.
func (o Observation) awaitsBlock() bool { return o.synced() && o.Height < o.FirstHeight+2 }

// SafeToStop tells what makes it dangerous to stop a seid; nothing means that it
// is safe.
func SafeToStop(o Observation, t Timing) Danger {
	switch {
	case o.Searching && o.Answered.IsZero():
		return "" // It dies of the signal, and leaves nothing behind.
	case o.synced() && o.Answered.IsZero():
		return StateSyncing // RPC stays closed until state sync is over.
	case o.awaitsBlock():
		return AwaitingBlock
	case !handlesSignals(o, t, o.synced()):
		return Booting
	default:
		return ""
	}
}

// handlesSignals estimates whether the signal handler is in place. No estimate
// keeps a seid that hangs while it boots from ever being stopped: after BootLimit
// it counts as in place, unless a state sync turns up after that. The boot goes on after a state sync, however long that
// took, so then the limit counts from its end.
func handlesSignals(o Observation, t Timing, synced bool) bool {
	boot := o.Started
	if synced {
		boot = o.Answered
	}
	limit := t.BootLimit
	if o.Closing {
		limit = t.Grace
	}
	if o.Now.Sub(boot) >= limit {
		return true
	}
	if o.Answered.IsZero() {
		return false
	}
	ready := o.Answered
	for _, service := range o.Services {
		if service.Opened.IsZero() {
			return false
		}
		if after := service.Opened.Add(t.ServiceStart); after.After(ready) {
			ready = after
		}
	}
	return !o.Now.Before(ready.Add(t.Settle))
}
