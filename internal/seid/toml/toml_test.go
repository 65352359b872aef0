package toml

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func set(path string, value any) Assignment {
	return Assignment{Path: strings.Split(path, "."), Value: value}
}

func TestEdit(t *testing.T) {
	tests := []struct {
		name string
		src  string
		set  []Assignment
		want string
	}{
		{
			name: "a value in place, its comments kept",
			src:  "# top\na = 1 # one\n\n[t] # table\n# about b\nb   =   \"x\"\t# two\n# end\n",
			set:  []Assignment{set("t.b", "y"), set("a", int64(2))},
			want: "# top\na = 2 # one\n\n[t] # table\n# about b\nb   =   \"y\"\t# two\n# end\n",
		},
		{
			name: "a value that is written differently but equal stays as written",
			src:  "a = 1_000\nb = 'x'\nc = 0x10\n",
			set:  []Assignment{set("a", int64(1000)), set("b", "x"), set("c", int64(16))},
			want: "a = 1_000\nb = 'x'\nc = 0x10\n",
		},
		{
			name: "an array over several lines, with comments in it",
			src:  "a = [\n  \"x\", # ]\n  # \"y\",\n]\nb = 1\n",
			set:  []Assignment{set("a", []string{"p", "q"})},
			want: "a = [\"p\", \"q\"]\nb = 1\n",
		},
		{
			name: "a string over several lines",
			src:  "a = \"\"\"\nx = 1\n[t]\n\"\"\"\nx = 2\n",
			set:  []Assignment{set("x", int64(3)), set("a", "")},
			want: "a = \"\"\nx = 3\n",
		},
		{
			name: "a new key after the last one of its table, indented alike",
			src:  "[t]\n  a = 1\n\n# about u\n[u]\nb = 2\n",
			set:  []Assignment{set("t.c", true)},
			want: "[t]\n  a = 1\n  c = true\n\n# about u\n[u]\nb = 2\n",
		},
		{
			name: "a new key in a table that is empty",
			src:  "[t]   # nothing here\n\n[u]\n",
			set:  []Assignment{set("t.c", 0.5), set("u.d", "x")},
			want: "[t]   # nothing here\nc = 0.5\n\n[u]\nd = \"x\"\n",
		},
		{
			name: "a new key at the top, after the last one there",
			src:  "a = 1\n# about t\n[t]\n",
			set:  []Assignment{set("b", int64(2))},
			want: "a = 1\nb = 2\n# about t\n[t]\n",
		},
		{
			name: "a new key at the top of a document that begins with a table",
			src:  "# about t\n[t]\n",
			set:  []Assignment{set("b", int64(2))},
			want: "b = 2\n# about t\n[t]\n",
		},
		{
			name: "a new key in an empty document, and in one of comments",
			src:  "# nothing",
			set:  []Assignment{set("b", int64(2))},
			want: "# nothing\nb = 2\n",
		},
		{
			name: "new tables at the end, and keys in them",
			src:  "a = 1",
			set:  []Assignment{set("t.u.x", "1"), set("t.u.y", "2"), set("t.z", "3")},
			want: "a = 1\n\n[t.u]\nx = \"1\"\ny = \"2\"\n\n[t]\nz = \"3\"\n",
		},
		{
			name: "a table that only its sub-table implies gets a header",
			src:  "[t.u]\nx = 1\n",
			set:  []Assignment{set("t.y", int64(2))},
			want: "[t.u]\nx = 1\n\n[t]\ny = 2\n",
		},
		{
			name: "the line ends of the document are used",
			src:  "a = 1\r\n[t]\r\nb = 2",
			set:  []Assignment{set("c", int64(3)), set("t.d", int64(4)), set("u.e", int64(5)), set("a", int64(9))},
			want: "a = 9\r\nc = 3\r\n[t]\r\nb = 2\r\nd = 4\r\n\r\n[u]\r\ne = 5\r\n",
		},
		{
			name: "dotted keys are set, and new ones are written like them",
			src:  "a.b.c = 1\na.d = 2\n[t]\nu.v = 3\n",
			set:  []Assignment{set("a.b.c", int64(9)), set("a.b.x", int64(8)), set("a.y", int64(7)), set("t.u.w", int64(6)), set("a.n.m", int64(5))},
			want: "a.b.c = 9\na.b.x = 8\na.d = 2\na.y = 7\na.n.m = 5\n[t]\nu.v = 3\nu.w = 6\n",
		},
		{
			name: "inline tables are set and added to",
			src:  "a = { b = 1, c = { d = \"x\" } }\ne = {}\n",
			set:  []Assignment{set("a.b", int64(2)), set("a.c.d", "y"), set("a.c.n", true), set("a.m.o", int64(3)), set("e.f", int64(4))},
			want: "a = { b = 2, c = { d = \"y\", n = true }, m.o = 3 }\ne = {f = 4}\n",
		},
		{
			name: "an inline table with a comma and a comment at its end",
			src:  "a = {\n  b = 1, # one\n}\n",
			set:  []Assignment{set("a.c", int64(2))},
			want: "a = {\n  b = 1, c = 2, # one\n}\n",
		},
		{
			name: "quoted keys, with what would be syntax in them",
			src:  "\"a=b\" = 1\n'c.d' = 2\n[\"x]y\".'z # z']\n\"\\u0041\" = 3\n",
			set: []Assignment{
				{Path{"a=b"}, int64(9)},
				{Path{"c.d"}, int64(8)},
				{Path{"x]y", "z # z", "A"}, int64(7)},
				{Path{"x]y", "z # z", "new key"}, int64(6)},
			},
			want: "\"a=b\" = 9\n'c.d' = 8\n[\"x]y\".'z # z']\n\"\\u0041\" = 7\n\"new key\" = 6\n",
		},
		{
			name: "next to an array of tables",
			src:  "[[l]]\na = 1\n[[l]]\na = 2\n[t]\na = 3\n",
			set:  []Assignment{set("t.a", int64(4)), set("t.b", int64(5)), set("x.y", int64(6))},
			want: "[[l]]\na = 1\n[[l]]\na = 2\n[t]\na = 4\nb = 5\n\n[x]\ny = 6\n",
		},
		{
			name: "the type may change",
			src:  "a = 1\n",
			set:  []Assignment{set("a", "1")},
			want: "a = \"1\"\n",
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, changes, err := Edit([]byte(tc.src), tc.set)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(out)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (len(changes) == 0) != (tc.src == tc.want) {
				t.Errorf("%d changes reported", len(changes))
			}
			again, changes, err := Edit(out, tc.set)
			if err != nil || len(changes) != 0 || string(again) != string(out) {
				t.Errorf("a second time: %d changes, %v\n%s", len(changes), err, again)
			}
		})
	}
}

func TestEditReportsOldAndNew(t *testing.T) {
	_, changes, err := Edit([]byte("a = 1\nb = 2\n"), []Assignment{set("a", int64(1)), set("b", int64(3)), set("c", []string{"x"})})
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{Path: Path{"b"}, Old: int64(2), New: int64(3)},
		{Path: Path{"c"}, Old: nil, New: []any{"x"}},
	}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEditRefuses(t *testing.T) {
	tests := []struct {
		name, src string
		set       []Assignment
		want      string
	}{
		{"a table", "[t]\na = 1\n", []Assignment{set("t", int64(1))}, "cannot set t: it is a table"},
		{"a key below a value", "a = 1\n", []Assignment{set("a.b", int64(1))}, "cannot set a.b: a is an integer, not a table"},
		{"a key in an array of tables", "[[l]]\na = 1\n", []Assignment{set("l.a", int64(1))}, "cannot set l.a: l is an array, not a table"},
		{"an array of tables", "[[l]]\na = 1\n", []Assignment{set("l", []string{"x"})}, "cannot set l: it is an array of tables"},
		{"an array of inline tables", "l = [[{a = 1}]]\n", []Assignment{set("l", []string{"x"})}, "cannot set l: it is an array of tables"},
		{"the same key twice", "a = 1\n", []Assignment{set("a", int64(1)), set("a", int64(2))}, "cannot set a: it is set twice"},
		{"two wishes that exclude each other", "", []Assignment{set("a", int64(1)), set("a.b", int64(2))}, "cannot set a.b: a is an integer"},
		{"no path", "", []Assignment{{nil, "x"}}, "the path is empty"},
		{"text that is not UTF-8", "", []Assignment{set("a", "\xff")}, "not UTF-8"},
		{"an element that is not UTF-8", "", []Assignment{set("a", []string{"\xff"})}, "not UTF-8"},
		{"a type that TOML does not have", "", []Assignment{set("a", struct{}{})}, "type struct {} cannot be written"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			out, _, err := Edit([]byte(tc.src), tc.set)
			if _, ok := errors.AsType[*PathError](err); !ok {
				t.Fatalf("not a PathError: %v", err)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q does not contain %q", err, tc.want)
			}
			if out != nil {
				t.Error("there is a result")
			}
		})
	}
}

func TestSyntaxError(t *testing.T) {
	for _, src := range []string{"a = 1\nb = \n", "a = 1\na = 2\n", "[t]\n[t]\n", "a = 1 b = 2\n", "\x00"} {
		_, _, err := Edit([]byte(src), nil)
		if _, ok := errors.AsType[*SyntaxError](err); !ok {
			t.Errorf("%q: not a SyntaxError: %v", src, err)
		}
		if _, _, err := Get([]byte(src), Path{"a"}); err == nil {
			t.Errorf("Get reads %q", src)
		}
	}
	_, err := Decode([]byte("a = 1\nb = \n"))
	if err == nil || !strings.HasPrefix(err.Error(), "line 2, column ") {
		t.Errorf("the error does not say where: %v", err)
	}
}

func TestGet(t *testing.T) {
	src := []byte("a = 1\n[t]\nb.c = [\"x\"]\n")
	tests := []struct {
		path string
		want any
		ok   bool
	}{
		{"a", int64(1), true},
		{"t.b.c", []any{"x"}, true},
		{"t.b", map[string]any{"c": []any{"x"}}, true},
		{"t.x", nil, false},
		{"a.b", nil, false},
	}
	for _, tc := range tests {
		path, err := ParsePath(tc.path)
		if err != nil {
			t.Fatal(err)
		}
		got, ok, err := Get(src, path)
		if err != nil || ok != tc.ok || !cmp.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v, %v", tc.path, got, ok, err)
		}
	}
}

func TestParsePath(t *testing.T) {
	for _, bad := range []string{"", ".", "a.", ".a", "a..b"} {
		if path, err := ParsePath(bad); err == nil {
			t.Errorf("%q is read as %v", bad, path)
		}
	}
	if got := (Path{"a", "b c", ""}).String(); got != `a."b c".""` {
		t.Error(got)
	}
}

func TestFormat(t *testing.T) {
	tests := []struct {
		value any
		want  string
	}{
		{"a\"b\\c\n\r\t\x01\x7fä", `"a\"b\\c\n\r\t\u0001\u007Fä"`},
		{1.0, "1.0"},
		{1e30, "1e+30"},
		{math.Inf(-1), "-inf"},
		{math.Inf(1), "inf"},
		{math.NaN(), "nan"},
		{int64(-3), "-3"},
		{true, "true"},
		{[]string{}, "[]"},
		{[]any{int64(1), []any{"x", false}}, `[1, ["x", false]]`},
	}
	for _, tc := range tests {
		got := Format(tc.value)
		if got != tc.want {
			t.Errorf("%v: %s, not %s", tc.value, got, tc.want)
		}
		out, _, err := Edit(nil, []Assignment{{Path{"x"}, tc.value}})
		if err != nil || string(out) != "x = "+got+"\n" {
			t.Errorf("%s cannot be written: %q, %v", got, out, err)
		}
		if _, changes, err := Edit(out, []Assignment{{Path{"x"}, tc.value}}); err != nil || len(changes) > 0 {
			t.Errorf("%s is set again: %v, %v", got, changes, err)
		}
	}
}
