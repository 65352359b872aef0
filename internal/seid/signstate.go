package seid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// What can be wrong with a signing state. None of them may be answered by
// writing a fresh one while the key may have signed: seid would sign the same
// heights again, without complaint.
var (
	ErrSignStateMissing = errors.New("the signing state does not exist")
	ErrSignStateEmpty   = errors.New("the signing state is empty")
	ErrSignStateTorn    = errors.New("the signing state is damaged")
)

// SignState is the last thing a validator signed, or is about to have signed:
// seid writes it before it releases a signature.
type SignState struct {
	Height int64
	Round  int64
	// Step is 0 for nothing, 1 for a proposal, 2 for a prevote, 3 for a precommit.
	Step int64
}

// Fresh says that nothing was ever signed with this state.
func (s SignState) Fresh() bool { return s == SignState{} }

// FreshSignState is the content of the signing state of a key that never signed,
// as "seid init" writes it.
func FreshSignState() []byte { return []byte(`{"height":"0","round":0,"step":0}` + "\n") }

// ReadSignState reads a priv_validator_state.json. Its errors are
// ErrSignStateMissing, ErrSignStateEmpty, ErrSignStateTorn, or of the disk.
func ReadSignState(path string) (SignState, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return SignState{}, fmt.Errorf("%s: %w", path, ErrSignStateMissing)
	}
	if err != nil {
		return SignState{}, fmt.Errorf("cannot read the signing state: %w", err)
	}
	state, err := parseSignState(content)
	if err != nil {
		return SignState{}, fmt.Errorf("%s: %w", path, err)
	}
	return state, nil
}

func parseSignState(content []byte) (SignState, error) {
	if len(bytes.TrimSpace(content)) == 0 {
		return SignState{}, ErrSignStateEmpty
	}
	// A field that is missing must not read as zero, because zero means "may sign
	// anything".
	var file struct{ Height, Round, Step *wireInt }
	if err := json.Unmarshal(content, &file); err != nil {
		return SignState{}, fmt.Errorf("%w: %w", ErrSignStateTorn, err)
	}
	if file.Height == nil || file.Round == nil || file.Step == nil {
		return SignState{}, fmt.Errorf("%w: height, round or step is missing", ErrSignStateTorn)
	}
	state := SignState{Height: int64(*file.Height), Round: int64(*file.Round), Step: int64(*file.Step)}
	if state.Height < 0 || state.Round < 0 || state.Step < 0 || state.Step > 3 {
		return SignState{}, fmt.Errorf("%w: height %d, round %d, step %d is not possible", ErrSignStateTorn, state.Height, state.Round, state.Step)
	}
	return state, nil
}
