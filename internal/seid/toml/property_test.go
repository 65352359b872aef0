package toml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A few names, so that keys and tables often meet.
var names = rapid.SampledFrom([]string{"a", "b", "c-d", "e_f", `"q.q"`, "'s s'", `""`})

func drawScalar(t *rapid.T) any {
	return rapid.OneOf(
		rapid.String().AsAny(), rapid.Bool().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(),
	).Draw(t, "scalar")
}

func drawValue(t *rapid.T) any {
	if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
		return drawScalar(t)
	}
	items := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
	for i := range items {
		items[i] = drawScalar(t)
	}
	return items
}

func drawKey(t *rapid.T, longest int) string {
	return strings.Join(rapid.SliceOfN(names, 1, longest).Draw(t, "key"), ".")
}

// drawLiteral is a value as people write it, layout included.
func drawLiteral(t *rapid.T, eol string, depth int) string {
	switch kind := rapid.IntRange(0, 6).Draw(t, "literal"); {
	case kind == 0 && depth > 0:
		return "[" + eol + "  " + drawLiteral(t, eol, 0) + ", # ]" + eol + drawLiteral(t, eol, depth-1) + eol + "]"
	case kind == 1 && depth > 0:
		var items []string
		for range rapid.IntRange(0, 3).Draw(t, "pairs") {
			items = append(items, drawKey(t, 2)+" = "+drawLiteral(t, eol, depth-1))
		}
		return "{ " + strings.Join(items, ", ") + " }"
	case kind == 2:
		return `"""` + eol + "[t]" + eol + `a = 1 # no comment"""`
	case kind == 3:
		return rapid.SampledFrom([]string{"1_000", "0x1F", "+1.5e3", "inf", "'lit # eral'", "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z"}).Draw(t, "odd")
	default:
		return Format(drawScalar(t))
	}
}

// drawDocument is a document in any layout. Most are valid; the others are
// skipped by the properties.
func drawDocument(t *rapid.T) string {
	eol := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "eol")
	var b strings.Builder
	for range rapid.IntRange(0, 8).Draw(t, "lines") {
		switch rapid.IntRange(0, 7).Draw(t, "line") {
		case 0:
			fmt.Fprintf(&b, "# a = 1 [x]%s", eol)
		case 1:
			fmt.Fprintf(&b, "[%s] # header%s", drawKey(t, 3), eol)
		case 2:
			fmt.Fprintf(&b, "[[%s]]%s", drawKey(t, 2), eol)
		case 3:
			b.WriteString(eol)
		default:
			fmt.Fprintf(&b, "  %s\t=%s # note%s", drawKey(t, 3), drawLiteral(t, eol, 2), eol)
		}
	}
	if rapid.Bool().Draw(t, "no newline at the end") {
		return strings.TrimSuffix(b.String(), eol)
	}
	return b.String()
}

func drawPath(t *rapid.T) Path {
	name := rapid.SampledFrom([]string{"a", "b", "c-d", "e_f", "q.q", "s s", "", "new"})
	return rapid.SliceOfN(name, 1, 4).Draw(t, "path")
}

func drawAssignments(t *rapid.T) []Assignment {
	var set []Assignment
	for range rapid.IntRange(1, 4).Draw(t, "assignments") {
		set = append(set, Assignment{Path: drawPath(t), Value: drawValue(t)})
	}
	return set
}

// checkEdit holds for every document and every set of assignments. It says
// whether the edit was made.
func checkEdit(t interface{ Fatalf(string, ...any) }, src string, set []Assignment) bool {
	doc, err := Decode([]byte(src))
	if err != nil {
		return false
	}
	out, changes, err := Edit([]byte(src), set)
	if err != nil {
		if _, ok := errors.AsType[*PathError](err); !ok {
			t.Fatalf("not a PathError: %v\n%s", err, src)
		}
		return false
	}
	want := doc
	for _, a := range set {
		value, err := normalize(a.Value)
		if err != nil {
			t.Fatalf("accepted: %v", err)
		}
		want = merged(want, a.Path, value)
	}
	got, err := Decode(out)
	if err != nil {
		t.Fatalf("the result is not TOML: %v\n%s\n->\n%s", err, src, out)
	}
	if !equal(got, want) {
		t.Fatalf("the result decodes to\n%v\nnot\n%v\n%s\n->\n%s", got, want, src, out)
	}
	if len(changes) == 0 && string(out) != src {
		t.Fatalf("no change, but another text\n%s\n->\n%s", src, out)
	}
	again, changes, err := Edit(out, set)
	if err != nil || len(changes) > 0 || string(again) != string(out) {
		t.Fatalf("a second time: %v, %v\n%s\n->\n%s", changes, err, out, again)
	}
	return true
}

func TestEditProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkEdit(t, drawDocument(t), drawAssignments(t))
	})
}

// In a document without arrays of tables there is a place for every key, and
// nothing that is not asked for is touched.
func TestEditPropertyNeverRefusesPlainDocuments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		table := rapid.SampledFrom([]string{"", "p2p", "p2p.deep", "rpc"})
		key := rapid.SampledFrom([]string{"k1", "k-2", "k_3"})
		seen := map[string]bool{}
		tables := rapid.SliceOfDistinct(table, rapid.ID).Draw(t, "tables")
		if len(tables) > 0 && tables[0] != "" {
			b.WriteString("# first\n")
		}
		for i, name := range tables {
			if name == "" && i > 0 {
				continue
			}
			if name != "" {
				fmt.Fprintf(&b, "# about %s\n[%s]\n", name, name)
			}
			for _, k := range rapid.SliceOfDistinct(key, rapid.ID).Draw(t, "keys") {
				fmt.Fprintf(&b, "# about %s\n%s = %s # note\n", k, k, Format(drawValue(t)))
				seen[name+"."+k] = true
			}
		}
		src := b.String()
		var set []Assignment
		for _, name := range rapid.SliceOfNDistinct(table, 1, 3, rapid.ID).Draw(t, "targets") {
			path := Path{key.Draw(t, "target")}
			if name != "" {
				path = append(strings.Split(name, "."), path...)
			}
			set = append(set, Assignment{Path: path, Value: drawValue(t)})
		}
		if !checkEdit(t, src, set) {
			_, _, err := Edit([]byte(src), set)
			t.Fatalf("refused: %v\n%s", err, src)
		}
		out, _, _ := Edit([]byte(src), set)
		rest := string(out)
		for line := range strings.Lines(src) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") {
				continue
			}
			_, after, ok := strings.Cut(rest, line)
			if !ok {
				t.Fatalf("the line %q is lost or moved\n%s\n->\n%s", line, src, out)
			}
			rest = after
		}
	})
}

func FuzzEdit(f *testing.F) {
	f.Add("a = 1\n[t]\nb = [\n1, # x\n]\n", "t\x00b", "v", int64(0))
	f.Add("a.b = 1\n[[l]]\nx = {y = 1}\n", "a\x00c", "v", int64(5))
	f.Add("x = {y.z = 1,\r\n}\r\n", "x\x00y\x00n", "", int64(-1))
	f.Add("\"\" = 1\n[a.b]\n", "a", "\"", int64(1))
	// What another parser of positions refused, though it decodes.
	f.Add("1.a = 1\nb = \"\\e\\x41\"\nc = 07:32\n", "1\x00b", "v", int64(0))
	f.Fuzz(func(t *testing.T, src, path, text string, number int64) {
		var value any = text
		switch number % 4 {
		case 1:
			value = number
		case 2:
			value = []string{text}
		case 3:
			value = float64(number) / 3
		}
		checkEdit(t, src, []Assignment{
			{Path: strings.Split(path, "\x00"), Value: value},
			{Path: Path{"fuzz", "new"}, Value: number},
		})
	})
}
