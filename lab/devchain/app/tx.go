package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// PlanKey is the key whose value schedules an upgrade of the chain; an empty value
// cancels it. A later plan takes the place of an earlier one.
const PlanKey = "upgrade/plan"

// Bounds of a transaction.
const (
	maxKey   = 256
	maxValue = 64 << 10
)

// SetTx is the transaction that sets a key.
func SetTx(key, value string) []byte { return []byte(key + "=" + value) }

// PlanTx is the transaction that schedules an upgrade.
func PlanTx(plan Plan) ([]byte, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	return SetTx(PlanKey, string(text)), nil
}

// tx is a transaction that makes sense by itself.
type tx struct {
	key   string
	value []byte
	// plan is set if this is about an upgrade; cancel says that there shall be none.
	plan   *Plan
	cancel bool
}

func parseTx(raw []byte) (tx, error) {
	key, value, found := bytes.Cut(raw, []byte("="))
	if !found || len(key) == 0 {
		return tx{}, errors.New(`a transaction is written as "key=value"`)
	}
	if len(key) > maxKey || len(value) > maxValue {
		return tx{}, fmt.Errorf("a key has at most %d bytes and a value at most %d", maxKey, maxValue)
	}
	parsed := tx{key: string(key), value: bytes.Clone(value)}
	if parsed.key != PlanKey {
		return parsed, nil
	}
	if len(value) == 0 {
		parsed.cancel = true
		return parsed, nil
	}
	parsed.plan = &Plan{}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(parsed.plan); err != nil {
		return tx{}, fmt.Errorf("this is no plan of an upgrade: %w", err)
	}
	if parsed.plan.Name == "" || parsed.plan.Height < 1 {
		return tx{}, errors.New("the plan of an upgrade needs a name and a height")
	}
	return parsed, nil
}
