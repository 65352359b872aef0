package tasks

import (
	"errors"
	"syscall"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// Why tasks fail. (T) is terminal: the same task fails again until somebody does
// something. The others may pass.
const (
	// ReasonHeld (T): the node is held, and only a release ends that.
	ReasonHeld = api.ReasonHeld
	// ReasonNotHeld (T): what was asked for is only done to a held node.
	ReasonNotHeld = "NotHeld"
	// ReasonNotApproved (T): the node may not run.
	ReasonNotApproved = api.ReasonNotApproved
	// ReasonSuperseded (T): a hold came after the release, and it stays.
	ReasonSuperseded = "Superseded"
	// ReasonKeyIdentityChanged (T): the keys are not those that were expected.
	ReasonKeyIdentityChanged = "KeyIdentityChanged"

	// ReasonNotSafeToStop: stopping seid was not safe in time; it still runs.
	ReasonNotSafeToStop = "NotSafeToStop"
	// ReasonStillRunning: seid was told to end, and has not ended in time.
	ReasonStillRunning = "StillRunning"
	// ReasonProcessNotStarted: there is no new seid process.
	ReasonProcessNotStarted = "ProcessNotStarted"
	// ReasonRPCNotAnswering: the new seid process lives, and its RPC does not answer.
	ReasonRPCNotAnswering = "RPCNotAnswering"
	// ReasonUpgradeNeeded (T): seid halted for an upgrade of the chain.
	ReasonUpgradeNeeded = "UpgradeNeeded"
	// ReasonSeidRunning: there is a seid process.
	ReasonSeidRunning = "SeidRunning"
	// ReasonSupervisorUnreachable: nobody can tell whether there is a seid process.
	ReasonSupervisorUnreachable = "SupervisorUnreachable"

	// ReasonSigningKeyPresent (T): there is, or may be, a key on this volume that has
	// signed, and what was asked for would make seid forget what.
	ReasonSigningKeyPresent = "SigningKeyPresent"
	// ReasonUnexpectedLayout (T): the volume is not laid out as seid does it.
	ReasonUnexpectedLayout = "UnexpectedLayout"
	// ReasonVolumeHasData (T): the volume holds data of the chain.
	ReasonVolumeHasData = "VolumeHasData"
	// ReasonVolumeError: a file on the volume cannot be read or written.
	ReasonVolumeError = "VolumeError"

	// ReasonGenesisMissing: the genesis file is not where it was said to be.
	ReasonGenesisMissing = "GenesisMissing"
	// ReasonInvalidGenesis (T): the file is no genesis file.
	ReasonInvalidGenesis = "InvalidGenesis"
	// ReasonChainIDMismatch (T): it belongs to another chain.
	ReasonChainIDMismatch = "ChainIDMismatch"
	// ReasonChecksumMismatch (T): it is not the file that was meant.
	ReasonChecksumMismatch = "ChecksumMismatch"
	// ReasonTooLarge (T): it is larger than any genesis file should be.
	ReasonTooLarge = "TooLarge"
	// ReasonDownloadFailed: a download broke off or was refused.
	ReasonDownloadFailed = "DownloadFailed"

	// ReasonInvalidConfiguration (T): seid would not start with it, or not run as
	// wanted.
	ReasonInvalidConfiguration = "InvalidConfiguration"
	// ReasonTooFewWitnesses: fewer than two RPC servers answer.
	ReasonTooFewWitnesses = "TooFewWitnesses"
	// ReasonNoCommonBlock: there is no block that all of them have.
	ReasonNoCommonBlock = "NoCommonBlock"
	// ReasonWitnessesDisagree (T): they have different blocks at one height.
	ReasonWitnessesDisagree = "WitnessesDisagree"

	// ReasonDeadlineExceeded (T for await-condition): it was not done in time.
	ReasonDeadlineExceeded = api.ReasonDeadlineExceeded
)

// volumeError is a failure of the disk.
func volumeError(err error) error { return engine.Retryable(ReasonVolumeError, "%w", err) }

// configFailure tells trouble with the volume, which may pass, from a configuration
// that has to be corrected.
func configFailure(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return volumeError(err)
	}
	return engine.Terminal(ReasonInvalidConfiguration, "%w", err)
}

// refusal is the reason for which the supervisor refused; empty for none.
func refusal(err error) supervisor.Reason {
	if e, ok := errors.AsType[*supervisor.Error](err); ok {
		return e.Reason
	}
	return ""
}
