package supervisor

import (
	"fmt"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// evidence is what a seid left behind when it ended.
type evidence struct {
	code int
	// asked is why it was signalled, empty when it was not.
	asked Cause
	// upgrade is proof of a halt from this seid's own life: its output, or the file
	// it wrote.
	upgrade *Upgrade
	// ruined: its output said that the volume cannot be started from.
	ruined bool
	// fatal is a panic of which its output says what is wrong.
	fatal *seid.FatalLine
}

// fatals are the causes of the panics that tell.
var fatals = map[seid.Fatal]Cause{
	seid.TooNew: BinaryTooNew, seid.TooOld: BinaryTooOld, seid.SignedElsewhere: SignedElsewhere,
}

// parkings are why seid stays down after an end that the same binary would repeat.
// Another image means another pod, and a container that crash-loops hides why.
var parkings = map[Cause]Parking{
	UpgradeNeeded: ParkedUpgrade, BinaryTooNew: ParkedTooNew, BinaryTooOld: ParkedTooOld,
}

// causeOf tells why a seid ended. Every panic exits with 2, so a code alone
// proves nothing; and a seid that ended well did not halt, whatever it printed.
func causeOf(e evidence) Cause {
	switch {
	case e.code != 0 && e.upgrade != nil:
		return UpgradeNeeded
	case e.code != 0 && e.fatal != nil && parkings[fatals[e.fatal.Reason]] != "":
		return fatals[e.fatal.Reason]
	case e.asked != "":
		return e.asked
	case e.code != 0 && e.ruined:
		return VolumeRuined
	case e.code != 0 && e.fatal != nil:
		return fatals[e.fatal.Reason]
	default:
		return Crashed
	}
}

// mismatch says in a sentence how the keys that were found differ from those
// that were approved; nothing means that they do not. It names public values
// only.
func mismatch(approved Approval, found Identity) string {
	var parts []string
	compare := func(what, file, want, have string) {
		if want == "" || want == have {
			return
		}
		if have == "" {
			have = "none"
		}
		parts = append(parts, fmt.Sprintf("%s in %s: approved is %s, found is %s", what, file, want, have))
	}
	compare("public key", signingKeyFile, approved.PublicKey, found.PublicKey)
	compare("node id", nodeKeyFile, approved.NodeID, found.NodeID)
	return strings.Join(parts, "; ")
}

// unnamed says in a sentence what an approval lacks under which a validator would
// sign with whichever key it finds; nothing means that it lacks nothing.
func unnamed(approved Approval, found Identity, validator bool) string {
	if !validator || approved.PublicKey != "" {
		return ""
	}
	have := found.PublicKey
	if have == "" {
		have = "none"
	}
	return fmt.Sprintf("a validator signs, so approve it again with the public key in %s (found is %s)", signingKeyFile, have)
}

// parkedMessage says in a sentence which binary seid needs.
func parkedMessage(because Parking, upgrade string) string {
	switch because {
	case ParkedTooNew:
		return "The binary is too new: it has the upgrade " + upgrade + ", which the chain has not executed yet."
	case ParkedTooOld:
		return "The binary is too old: it lacks the upgrade " + upgrade + ", which the chain has executed."
	default:
		return "The chain needs the upgrade " + upgrade + "."
	}
}
