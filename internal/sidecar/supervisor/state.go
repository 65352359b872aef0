package supervisor

import (
	"fmt"
	"maps"
	"time"

	"github.com/sei-operator/sei-operator/internal/signing"
)

// Phase is what the supervisor and its seid are doing.
type Phase string

// The phases. That a process exists is told by State.PID; that its RPC has
// answered is what distinguishes running from starting.
const (
	// Waiting: nobody has asked for a start since the supervisor began.
	Waiting Phase = "waiting"
	// Starting: the process lives; its RPC, on a seed its p2p port, has not
	// answered yet.
	Starting Phase = "starting"
	// Running: it has answered.
	Running Phase = "running"
	// Stopping: it was asked to end and has not ended yet.
	Stopping Phase = "stopping"
	// Stopped: it ended.
	Stopped Phase = "stopped"
	// Parked: it must not run as things are; State.ParkedBecause says why.
	Parked Phase = "parked"
)

// Parking is why seid must not run.
type Parking string

// The reasons to park.
const (
	// ParkedUpgrade: the chain needs another binary.
	ParkedUpgrade Parking = "UpgradeNeeded"
	// ParkedTooNew: the binary has an upgrade that the chain has not executed yet.
	ParkedTooNew Parking = "BinaryTooNew"
	// ParkedTooOld: the binary lacks an upgrade that the chain has executed.
	ParkedTooOld Parking = "BinaryTooOld"
	// ParkedKeys: the key files are not those that were approved.
	ParkedKeys Parking = "KeyIdentityChanged"
)

// NeedsBinary tells whether the same binary would end the same way again.
func (p Parking) NeedsBinary() bool {
	return p == ParkedUpgrade || p == ParkedTooNew || p == ParkedTooOld
}

// Cause is why seid ended.
type Cause string

// The causes.
const (
	// Requested: a stop or restart over the socket.
	Requested Cause = "Requested"
	// Terminated: a signal to the supervisor from outside.
	Terminated Cause = "Terminated"
	// Crashed: nobody asked for it.
	Crashed Cause = "Crashed"
	// UpgradeNeeded: it halted for an upgrade, which is proven.
	UpgradeNeeded Cause = "UpgradeNeeded"
	// VolumeRuined: its data can never be started from again.
	VolumeRuined Cause = "VolumeRuined"
	// BinaryTooNew: it has an upgrade that the chain has not executed yet.
	BinaryTooNew Cause = "BinaryTooNew"
	// BinaryTooOld: it lacks an upgrade that the chain has executed.
	BinaryTooOld Cause = "BinaryTooOld"
	// SignedElsewhere: it found signatures of its own key in the last blocks, so the key
	// may be in use elsewhere. Each start looks again, and the chain moves on.
	SignedElsewhere Cause = "SignedElsewhere"
)

// How is which way a stop went.
type How string

// The ways.
const (
	// Clean: it was safe, and the first signal was enough.
	Clean How = "Clean"
	// SecondSignal: it was safe, and took a second signal.
	SecondSignal How = "SecondSignal"
	// Unsafe: it was not safe yet, or seid died of the signal without handling it.
	Unsafe How = "Unsafe"
)

// State is all there is to know about the supervisor.
type State struct {
	State    Phase     `json:"state"`
	Instance string    `json:"instance,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Since    time.Time `json:"since"`

	SafeToStop    bool   `json:"safeToStop"`
	UnsafeBecause Danger `json:"unsafeBecause,omitempty"`

	ParkedBecause Parking `json:"parkedBecause,omitempty"`
	// Message says in a sentence why seid is parked.
	Message string `json:"message,omitempty"`
	// Upgrade is what the last seid halted for; a later start clears it.
	Upgrade *Upgrade `json:"upgrade,omitempty"`

	// SnapshotSearch is since when this seid searches for a snapshot to sync from, in
	// vain. seid asks each peer once, when it connects. A stop is safe meanwhile.
	SnapshotSearch *time.Time `json:"snapshotSearch,omitempty"`
	// RestoreAbandoned: before that it gave the restore of a snapshot up, and a part of it
	// may be on the volume. Another start would go on over that.
	RestoreAbandoned bool `json:"restoreAbandoned,omitempty"`

	LastExit *Exit `json:"lastExit,omitempty"`
	// Restarts counts how seids ended, by cause, over all supervisors of the pod.
	Restarts map[Cause]int `json:"restarts,omitempty"`

	// Identity and SignHeight are read from seid's files: at every start and end
	// of seid, and for every answer to a request for the state.
	Identity   Identity `json:"identity"`
	SignHeight int64    `json:"signHeight"`

	// Stops goes up with every stop that this supervisor grants. It begins at a number of
	// chance, so that what was known of another supervisor's stops never fits. A start or
	// restart says which its caller knew of.
	Stops int `json:"stops,omitempty"`

	// Terminating: the supervisor is about to end and starts nothing any more.
	Terminating bool `json:"terminating"`
}

func (s State) clone() State {
	s.Restarts = maps.Clone(s.Restarts)
	return s
}

// Exit is how a seid ended.
type Exit struct {
	Instance string `json:"instance"`
	// Code is the exit code; for a signal 128 and its number.
	Code   int       `json:"code"`
	Signal string    `json:"signal,omitempty"`
	Time   time.Time `json:"time"`
	Cause  Cause     `json:"cause"`
	// How is set for a stop that was asked for.
	How How `json:"how,omitempty"`
	// Message is the line of seid that proves the cause, where one does, and UpgradeName
	// the upgrade that a binary has too early or lacks.
	Message     string `json:"message,omitempty"`
	UpgradeName string `json:"upgradeName,omitempty"`
}

// Upgrade is the upgrade that a chain halted for.
type Upgrade struct {
	Name   string `json:"name"`
	Height int64  `json:"height"`
	Info   string `json:"info,omitempty"`
}

// Identity is who a node is: the public parts of its two keys.
type Identity struct {
	// PublicKey is the base64 of the signing key's public half.
	PublicKey string `json:"publicKey,omitempty"`
	// NodeID is the 40 hex digits by which peers know the node.
	NodeID string `json:"nodeId,omitempty"`
}

// Approval is the identity under which seid may run, and what its sign state is held
// against. An empty value expects nothing.
type Approval struct {
	PublicKey string `json:"publicKey,omitempty"`
	NodeID    string `json:"nodeId,omitempty"`
	// Signing decides whether seid has to look for its own signatures first.
	Signing signing.Limits `json:"signing"`
}

// StartRequest asks that seid runs.
type StartRequest struct {
	Approval Approval `json:"approval"`
	// Parked starts also a seid that needs another binary: somebody means it.
	Parked bool `json:"parked,omitempty"`
	// AsOf is State.Stops as the caller knew it when it decided. A request that was under
	// way while somebody stopped seid, and believes it stopped, starts nothing. Nothing
	// means that the caller does not mind.
	AsOf *int `json:"asOf,omitempty"`
}

// StopRequest asks that seid does not run.
type StopRequest struct {
	// Instance is the one that is meant; empty means whichever runs.
	Instance string `json:"instance,omitempty"`
	// SafeWait is how long to wait until stopping is safe.
	SafeWait Duration `json:"safeWait"`
	// Force goes ahead when it is still not safe.
	Force bool `json:"force,omitempty"`
}

// RestartRequest asks that the seid that runs stops and another one starts. Where none
// runs it is refused: whoever may start one asks for a start.
type RestartRequest struct {
	StopRequest

	Approval Approval `json:"approval"`
	// AsOf is as in a StartRequest.
	AsOf *int `json:"asOf,omitempty"`
}

// maxSafeWait bounds what a request may wait for.
const maxSafeWait = 24 * time.Hour

// Duration is a time.Duration that reads as "1m30s" on the wire.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration like 1m30s", text)
	}
	if parsed < 0 || parsed > maxSafeWait {
		return fmt.Errorf("%s is not between 0 and %s", parsed, maxSafeWait)
	}
	*d = Duration(parsed)
	return nil
}

// Reason is what a caller can act on.
type Reason string

// The reasons of errors.
const (
	// ReasonInvalid: the request could not be understood.
	ReasonInvalid Reason = "InvalidRequest"
	// ReasonTerminating: the supervisor is about to end.
	ReasonTerminating Reason = "Terminating"
	// ReasonParked: seid needs another binary; only a start that says so starts this one
	// again.
	ReasonParked Reason = "Parked"
	// ReasonKeys: the key files are not those that were approved.
	ReasonKeys Reason = "KeyIdentityChanged"
	// ReasonNotSafe: stopping was not safe within the wait; seid is untouched.
	ReasonNotSafe Reason = "NotSafeToStop"
	// ReasonStillRunning: seid was signalled and did not end within the grace. It is still
	// closing.
	ReasonStillRunning Reason = "StillRunning"
	// ReasonSuperseded: a later request asked for the opposite.
	ReasonSuperseded Reason = "Superseded"
	// ReasonEnded: there is no seid that could be restarted.
	ReasonEnded Reason = "Ended"
	// ReasonStartFailed: the program could not be run at all.
	ReasonStartFailed Reason = "StartFailed"
	// ReasonUnreachable: no supervisor answers.
	ReasonUnreachable Reason = "Unreachable"
)

// Error is a refusal or failure with a reason.
type Error struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`

	cause error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

func refuse(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
