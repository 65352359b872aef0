package seid

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// ValueError is a value that does not fit the type of its key.
type ValueError struct {
	Key   Key
	Value string
	// Want is what the key takes, in words.
	Want string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s cannot be %q: it takes %s", e.Key, e.Value, e.Want)
}

var (
	errWantBool     = errors.New("true or false")
	errWantInt      = errors.New("an integer")
	errWantFloat    = errors.New("a number")
	errWantDuration = errors.New("a duration with its unit, for example 10s or 1m30s")
	errWantStrings  = errors.New(`a list of strings, for example a,b or ["a", "b"]`)
	errWantList     = errors.New(`a list, for example a,b or ["a", "b"]`)
)

// coerce gives a text the type of the value it replaces. Where there is none, the
// key's own type counts, and of an unknown key the look of the text. The error is
// what would fit, in words.
func coerce(old any, kind kind, text string) (any, error) {
	switch old := old.(type) {
	case nil:
		return coerceNew(kind, text)
	case string:
		return coerceString(kind, text)
	case bool:
		return parseBool(text)
	case int64:
		if n, err := parseInt(text); err == nil || kind != kindFloat {
			return n, err
		}
		// The file has 1 where a fraction is possible too.
		return parseFloat(text)
	case float64:
		return parseFloat(text)
	case []any:
		return parseList(old, text)
	case map[string]any:
		return nil, errors.New("no value, because it is a table; set the keys in it")
	default:
		return nil, errors.New("a date or time, which cannot be set")
	}
}

// coerceString gives the text for a value that is in quotes. seid's own files have
// some numbers and booleans so, and they stay so.
func coerceString(kind kind, text string) (any, error) {
	switch kind {
	case kindString, kindList:
		return text, nil
	case kindUnknown:
		if value, ok := parseLiteral(text); ok {
			if quoted, isString := value.(string); isString {
				return quoted, nil
			}
		}
		return text, nil
	default:
		text = strings.TrimSpace(text)
		_, err := coerceNew(kind, text)
		return text, err
	}
}

func coerceNew(kind kind, text string) (any, error) {
	switch kind {
	case kindString:
		return text, nil
	case kindDuration:
		if _, err := time.ParseDuration(text); err != nil {
			return nil, errWantDuration
		}
		return text, nil
	case kindBool:
		return parseBool(text)
	case kindInt:
		return parseInt(text)
	case kindFloat:
		if n, err := parseInt(text); err == nil {
			return n, nil
		}
		return parseFloat(text)
	case kindList:
		return parseList(nil, text)
	default:
		if value, ok := parseLiteral(text); ok {
			return value, nil
		}
		return text, nil
	}
}

// The following take what TOML takes, so that a value that was added by its look
// can be set again by the same text.

func parseBool(text string) (any, error) {
	if value, ok := parseLiteral(text); ok {
		if _, isBool := value.(bool); isBool {
			return value, nil
		}
	}
	return nil, errWantBool
}

func parseInt(text string) (any, error) {
	if value, ok := parseLiteral(text); ok {
		if _, isInt := value.(int64); isInt {
			return value, nil
		}
	}
	return nil, errWantInt
}

func parseFloat(text string) (any, error) {
	if value, ok := parseLiteral(text); ok {
		switch n := value.(type) {
		case float64:
			return n, nil
		case int64:
			return float64(n), nil
		}
	}
	return nil, errWantFloat
}

func parseList(old []any, text string) (any, error) {
	items, ok := splitList(text)
	if !ok {
		return nil, errWantList
	}
	other := func(item any) bool { _, isString := item.(string); return !isString }
	if len(old) > 0 && !slices.ContainsFunc(old, other) && slices.ContainsFunc(items, other) {
		return nil, errWantStrings
	}
	return items, nil
}

// splitList reads an array as TOML or JSON writes it, or text with commas.
func splitList(text string) ([]any, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return []any{}, true
	}
	if strings.HasPrefix(text, "[") {
		if value, ok := parseLiteral(text); ok {
			items, isList := value.([]any)
			return items, isList
		}
		var plain []string
		if json.Unmarshal([]byte(text), &plain) != nil {
			return nil, false
		}
		return toAny(plain), true
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		if parts[i] = strings.TrimSpace(part); parts[i] == "" {
			return nil, false
		}
	}
	return toAny(parts), true
}

func toAny(items []string) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

// parseLiteral reads a boolean, a finite number, a quoted string or an array as
// TOML writes them. Between brackets on one line a comment or a second key in the
// text makes the whole thing invalid, so nothing can be smuggled in.
func parseLiteral(text string) (any, bool) {
	doc, err := toml.Decode([]byte("x = [" + text + "]"))
	if err != nil || len(doc) != 1 {
		return nil, false
	}
	items, ok := doc["x"].([]any)
	if !ok || len(items) != 1 {
		return nil, false
	}
	return items[0], writable(items[0])
}

func writable(value any) bool {
	switch v := value.(type) {
	case bool, int64, string:
		return true
	case float64:
		return !math.IsNaN(v) && !math.IsInf(v, 0)
	case []any:
		return !slices.ContainsFunc(v, func(item any) bool { return !writable(item) })
	default:
		return false
	}
}
