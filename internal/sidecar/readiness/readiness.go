// Package readiness decides whether a node serves what its clients expect: the state of
// the chain as it is now. The kubelet's probe and the sidecar ask the same function, so
// that a pod's condition and what a SeiNode says of it have one cause.
package readiness

import (
	"fmt"
	"time"
)

// MaxBlockAge is how old the last block of a ready node may be while the chain goes on.
const MaxBlockAge = 5 * time.Minute

// syncDistance is how far below its best peer a node may stay for ever: block sync checks
// a block with the commit in the next one, so the best peer's last block is out of reach.
const syncDistance = 1

// Reason is the cause of a verdict, for programs.
type Reason string

// The reasons. Only the first two are those of a ready node.
const (
	// Following: the node follows the chain.
	Following Reason = "Following"
	// NetworkStalled: the node has the newest block there is, and that is old.
	NetworkStalled Reason = "NetworkStalled"
	// NotAnswering: seid's RPC does not answer.
	NotAnswering Reason = "NotAnswering"
	// NoBlocks: the node has no block.
	NoBlocks Reason = "NoBlocks"
	// CatchingUp: seid itself says that it is too many blocks behind its best peer.
	CatchingUp Reason = "CatchingUp"
	// NoPeers: the node is connected with nobody.
	NoPeers Reason = "NoPeers"
	// BlockTooOld: the last block is old, and others have newer ones, or nobody has told
	// yet whether there are any.
	BlockTooOld Reason = "BlockTooOld"
)

// Facts are what is known of a node at one moment.
type Facts struct {
	Height int64
	// BlockAge is the age of the last block by the clock of this machine and the time in
	// the block. One that is from the future has the age 0.
	BlockAge time.Duration
	// Unmoved is for how long the height was watched and did not change, which no clock
	// that is set wrong can falsify; 0 where nobody watched. Moves says that it was seen to change within MaxBlockAge.
	Unmoved time.Duration
	Moves   bool
	// Lagging is seid's own word that it is too far behind Peer.
	Lagging bool
	// Peer and Witness are the highest blocks that a peer and a witness claim to have; 0:
	// nobody says.
	Peer, Witness int64
	// Connected is the number of connections, Known that of addresses.
	Connected, Known int
	// Sole: the node is the only validator of its chain, and needs nobody. It is asked for
	// where MayBeSole says so.
	Sole bool
}

// Verdict says whether a node is ready, and why.
type Verdict struct {
	Ready   bool
	Reason  Reason
	Message string
}

// Old tells whether the last block is so old that others have to be asked for theirs.
func (f Facts) Old() bool { return max(f.BlockAge, f.Unmoved) > MaxBlockAge }

// MayBeSole tells whether it matters that the node is the only validator of its chain. Such
// a node asks no peer for its height, however many are connected.
func (f Facts) MayBeSole() bool { return f.Height > 0 && (f.Connected == 0 || f.Peer == 0) }

// highest is the highest block that anybody claims to have, and who does.
func (f Facts) highest() (height int64, who string) {
	if f.Witness > f.Peer {
		return f.Witness, "witness"
	}
	return f.Peer, "peer"
}

// Judge decides.
//
// An old block alone takes no node out of a Service: when the whole chain stands still,
// the newest block there is is what clients should get. That others have newer ones is
// their own claim, and one claim is enough: of two mistakes, serving old state as the
// newest is the worse one, and a false claim changes something only while the chain
// stands still, or as far as seid's own lag believes the same peer.
//
// That there is no newer block is known only from a peer or witness that told its height.
// seid asks each peer for it when it connects and every ten seconds after that, also while
// the chain stands still. A node that was down for long is connected a moment before the first answer.
func Judge(f Facts) Verdict {
	highest, who := f.highest()
	switch {
	case f.Height < 1:
		return not(NoBlocks, "height 0: seid has no block yet; %s", connections(f))
	case f.Lagging:
		return not(CatchingUp, "at height %d the node is %d blocks behind its best peer", f.Height, f.Peer-f.Height)
	case f.Connected < 1 && !f.Sole:
		return not(NoPeers, "%s; own height %d", connections(f), f.Height)
	case f.Old() && highest > f.Height+syncDistance:
		return not(BlockTooOld, "%s, %s height %d, own %d", old(f), who, highest, f.Height)
	case f.Old() && !f.Moves && highest == 0 && !f.Sole:
		return not(BlockTooOld, "%s, and no peer or witness has told its height yet; own height %d; %s", old(f), f.Height, connections(f))
	case f.Old() && !f.Moves:
		return Verdict{Ready: true, Reason: NetworkStalled, Message: fmt.Sprintf("%s, and nobody who answers has a newer one than %d; %s", old(f), f.Height, connections(f))}
	}
	return Verdict{Ready: true, Reason: Following, Message: fmt.Sprintf("at height %d; %s", f.Height, connections(f))}
}

// Silent is the verdict on a node whose RPC does not answer.
func Silent(err error) Verdict { return not(NotAnswering, "%v", err) }

func not(reason Reason, format string, args ...any) Verdict {
	return Verdict{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

func old(f Facts) string {
	return fmt.Sprintf("the last block is %s old", max(f.BlockAge, f.Unmoved).Round(time.Second))
}

func connections(f Facts) string {
	switch {
	case f.Connected == 1:
		return "1 connection to a peer"
	case f.Connected > 1:
		return fmt.Sprintf("%d connections to peers", f.Connected)
	case f.Sole:
		return "the only validator of its chain"
	}
	return fmt.Sprintf("no connection to a peer; %s known", counted(f.Known, "address", "addresses"))
}

func counted(count int, one, many string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, many)
}
