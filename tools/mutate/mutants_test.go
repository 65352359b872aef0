package main

import (
	"fmt"
	"go/format"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sample = `package sample

const limit = 7

var list = []string{"a", "b"}

func small(n int, name string) (bool, string) {
	if n < limit && name != "" {
		return true, name
	}
	switch {
	case n == 9:
		n++
	}
	return !big(n), ""
}

func pointer() *int {
	return new(1)
}
`

func TestEveryKindOfBreakIsFound(t *testing.T) {
	t.Parallel()
	found, err := mutantsOf("sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		what, _, _ := strings.Cut(m.what, " in `")
		got = append(got, what)
	}
	slices.Sort(got)
	want := []string{
		"declarations: `\"a\"` becomes nothing",
		"declarations: `\"b\"` becomes nothing",
		"declarations: `7` becomes `8`",
		"pointer: `1` becomes `2`",
		"pointer: `new(1)` becomes `nil`",
		"pointer: `return new(1)` becomes nothing",
		"small: `!big(n)` becomes `big(n)`",
		"small: `9` becomes `10`",
		"small: `case n == 9: n++` becomes nothing",
		"small: `if n < limit && name != \"\" { return true, name }` becomes nothing",
		"small: `n < limit && name != \"\"` becomes `!(n < limit && name != \"\")`",
		"small: `n < limit && name != \"\"` becomes `n < limit || name != \"\"`",
		"small: `n < limit` becomes `n <= limit`",
		"small: `n < limit` becomes `n >= limit`",
		"small: `n == 9` becomes `n != 9`",
		"small: `n++` becomes nothing",
		"small: `name != \"\"` becomes `name == \"\"`",
		"small: `name` becomes `\"\"`",
		"small: `return !big(n), \"\"` becomes nothing",
		"small: `return true, name` becomes nothing",
		"small: `switch { case n == 9: n++ }` becomes nothing",
		"small: `true` becomes `false`",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mutants (-want +got):\n%s", diff)
	}
}

// TestAllMutantsGoIntoOneFile: the file stays Go, every copy is reached from its
// function, and a complaint of the compiler leads to the copy that it is about.
func TestAllMutantsGoIntoOneFile(t *testing.T) {
	t.Parallel()
	found, err := mutantsOf("sample.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var joined []*mutant
	for i, m := range found {
		if m.id = i + 1; m.joins() {
			joined = append(joined, m)
		}
	}
	content, lines := combined(found[0].file, joined)
	if _, err := format.Source(content); err != nil {
		t.Fatalf("%s\n%s", err, content)
	}
	if len(lines) != len(joined) {
		t.Errorf("%d of %d mutants have a line", len(lines), len(joined))
	}
	text := strings.Split(string(content), "\n")
	for line, m := range lines {
		if !strings.HasPrefix(text[line-1], "func "+m.copyName()+"(") {
			t.Errorf("%s is said to begin with %q", m.copyName(), text[line-1])
		}
		if strings.Count(string(content), m.copyName()+"(") != 2 {
			t.Errorf("%s is not called exactly once", m.copyName())
		}
		broken := map[*mutant]bool{}
		complaint := fmt.Sprintf("internal/sample.go:%d:3: declared and not used: x", line+1)
		if blame(complaint, map[string]map[int]*mutant{"sample.go": lines}, broken) != 1 || !broken[m] {
			t.Errorf("%q is blamed on %v", complaint, broken)
		}
	}
}
