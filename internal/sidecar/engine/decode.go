package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Strict is a decoder for params of type P. Unknown fields are refused, and so is
// what P's own Validate() error, if it has one, refuses.
func Strict[P any](params json.RawMessage) (any, error) {
	var p P
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return nil, err
	}
	if err := atEnd(decoder); err != nil {
		return nil, err
	}
	if v, ok := any(&p).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Typed makes a Run for params that Strict[P] decodes.
func Typed[P any](run func(context.Context, Execution, P) (any, error)) func(context.Context, Execution) (any, error) {
	return func(ctx context.Context, x Execution) (any, error) {
		return run(ctx, x, x.Payload().(P))
	}
}

// decode finds the definition of a type and has it decode params.
func (e *Engine) decode(kind string, params json.RawMessage) (def *Definition, payload any, failure *Failure) {
	def = e.defs[kind]
	if def == nil {
		return nil, nil, Terminal(api.ReasonUnknownTaskType, "this sidecar knows no task type %q", kind)
	}
	// A decoder that panics must not take the sidecar with it, least of all when it
	// meets the same row again at every start.
	defer func() {
		if r := recover(); r != nil {
			failure = Terminal(api.ReasonInvalidParams, "the params of %s cannot be decoded: %v", kind, r)
		}
	}()
	payload, err := def.Decode(params)
	if err != nil {
		return nil, nil, Terminal(api.ReasonInvalidParams, "invalid params for %s: %w", kind, err)
	}
	return def, payload, nil
}

// canonical returns a JSON object in the one form in which objects are compared:
// keys in order, no space, numbers exactly as they were written. No params are {}.
func canonical(params json.RawMessage) (json.RawMessage, error) {
	params = bytes.TrimSpace(params)
	if len(params) == 0 || string(params) == "null" {
		return json.RawMessage("{}"), nil
	}
	if !utf8.Valid(params) {
		return nil, errors.New("they are not UTF-8")
	}
	decoder := json.NewDecoder(bytes.NewReader(params))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, err
	}
	if err := atEnd(decoder); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

func atEnd(decoder *json.Decoder) error {
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("there is more after the end of the JSON object")
	}
	return nil
}
