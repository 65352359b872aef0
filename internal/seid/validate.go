package seid

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid/toml"
)

// Severity says what a finding means for the node.
type Severity string

// The severities.
const (
	// SeverityError is for what seid does not start with, or not usefully run with.
	SeverityError Severity = "Error"
	// SeverityWarning is for what seid takes without a word but does not do.
	SeverityWarning Severity = "Warning"
)

// Finding is something that is wrong with a configuration.
type Finding struct {
	Key      Key
	Problem  string
	Severity Severity
}

func (f Finding) String() string {
	if f.Key.Path == "" {
		return fmt.Sprintf("%s: %s", f.Key.File, f.Problem)
	}
	return fmt.Sprintf("%s: %s", f.Key, f.Problem)
}

// Validate finds what seid would refuse at its start or silently ignore. The
// chain id is that of the genesis file; empty means that it is not known.
func Validate(files Files, chainID string) []Finding {
	v := validator{docs: map[File]map[string]any{}}
	for _, file := range allFiles {
		doc, err := toml.Decode(files[file])
		if err != nil {
			v.add(Key{File: file}, SeverityError, "it is not valid TOML: %v", err)
			continue
		}
		v.docs[file] = doc
		v.types(file, "", doc)
	}
	v.base()
	v.peers()
	v.stateSync()
	v.application()
	v.client(chainID)
	slices.SortStableFunc(v.findings, func(a, b Finding) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
	return v.findings
}

type validator struct {
	docs     map[File]map[string]any
	findings []Finding
}

func (v *validator) add(key Key, severity Severity, format string, args ...any) {
	v.findings = append(v.findings, Finding{Key: key, Severity: severity, Problem: fmt.Sprintf(format, args...)})
}

// types looks at every value of a table: is the key one of seid's, and does seid
// understand its value.
func (v *validator) types(file File, prefix string, table map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := Key{file, prefix + name}
		if inner, ok := table[name].(map[string]any); ok {
			v.types(file, key.Path+".", inner)
			continue
		}
		kind := schema[file][key.Path]
		if kind == kindUnknown {
			v.unknown(key)
			continue
		}
		if problem := typeProblem(kind, table[name]); problem != "" {
			v.add(key, SeverityError, "it is %s, but %s", toml.Format(table[name]), problem)
		}
	}
}

func (v *validator) unknown(key Key) {
	for known := range schema[key.File] {
		if sameButSpelling(known, key.Path) {
			v.add(key, SeverityWarning, "seid ignores it; the key is called %s", Key{key.File, known})
			return
		}
	}
	v.add(key, SeverityWarning, "no known version of seid has this key; seid ignores keys it does not know")
}

// sameButSpelling says whether two paths differ only in hyphens and underscores.
// seid uses hyphens in most tables and underscores in some, and its relatives the
// other way round.
func sameButSpelling(a, b string) bool {
	return strings.EqualFold(strings.ReplaceAll(a, "_", "-"), strings.ReplaceAll(b, "_", "-"))
}

// typeProblem is what is wrong with a value, or nothing. seid reads values
// loosely: a number in quotes is a number.
func typeProblem(kind kind, value any) string {
	_, isList := value.([]any)
	switch {
	case kind == kindDuration:
		return durationProblem(value)
	case kind == kindBool && !isBool(value):
		return "it takes true or false"
	case kind == kindInt && !isInt(value):
		return "it takes an integer"
	case kind == kindFloat && !isNumber(value):
		return "it takes a number"
	case kind == kindList && !isList:
		return "it takes a list, for example [\"a\", \"b\"]"
	case kind == kindString && isList:
		return "it takes a string"
	default:
		return ""
	}
}

func isBool(value any) bool {
	if text, ok := value.(string); ok {
		_, err := strconv.ParseBool(text)
		return err == nil
	}
	_, ok := value.(bool)
	return ok
}

func isInt(value any) bool {
	if text, ok := value.(string); ok {
		_, err := strconv.ParseInt(text, 0, 64)
		return err == nil
	}
	n, ok := number(value)
	return ok && n == math.Trunc(n)
}

func isNumber(value any) bool {
	_, ok := number(value)
	return ok
}

func durationProblem(value any) string {
	if n, ok := value.(int64); ok {
		if n == 0 {
			return ""
		}
		return "seid takes a bare number as nanoseconds; write a duration with its unit, for example \"10s\""
	}
	text, _ := value.(string)
	duration, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return "it takes a duration with its unit, for example \"10s\""
	case duration < 0:
		return "it cannot be negative"
	default:
		return ""
	}
}

// number is a number, also one in quotes.
func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case string:
		f, err := strconv.ParseFloat(n, 64)
		return f, err == nil
	default:
		return 0, false
	}
}

// text is a value as text. A key that is not there is empty, and so is one of the
// wrong type: that has a finding of its own.
func (v *validator) text(key Key) (string, bool) {
	text, ok := v.value(key).(string)
	return text, ok
}

func (v *validator) number(key Key) float64 {
	n, _ := number(v.value(key))
	return n
}

func (v *validator) flag(key Key) bool {
	value := v.value(key)
	return value == true || value == "true"
}

func (v *validator) value(key Key) any {
	value, _ := toml.Lookup(v.docs[key.File], strings.Split(key.Path, "."))
	return value
}
