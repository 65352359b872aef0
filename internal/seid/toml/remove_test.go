package toml

import (
	"errors"
	"testing"
)

func TestRemove(t *testing.T) {
	for name, c := range map[string]struct{ src, path, want string }{
		"its line goes, the others stay": {"a = 1\nb = 2 # two\nc = 3\n", "b", "a = 1\nc = 3\n"},
		"from a table":                   {"[t]\n# about x\nx = 1\ny = 2\n", "t.x", "[t]\n# about x\ny = 2\n"},
		"the last key of a table":        {"[t]\nx = 1\n", "t.x", "[t]\n"},
		"an array over several lines":    {"a = [\n  1,\n  2,\n]\nb = 2\n", "a", "b = 2\n"},
		"without a line end":             {"a = 1\nb = 2", "b", "a = 1\n"},
		"with carriage returns":          {"a = 1\r\nb = 2\r\n", "a", "b = 2\r\n"},
		"one of several dotted keys":     {"t.x = 1\nt.y = 2\n", "t.x", "t.y = 2\n"},
		"what is not there":              {"a = 1\n", "b", "a = 1\n"},
		"what is not there, in no table": {"a = 1\n", "t.b", "a = 1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := ParsePath(c.path)
			if err != nil {
				t.Fatal(err)
			}
			got, changes, err := Edit([]byte(c.src), []Assignment{{Path: path, Value: Absent}})
			if err != nil || string(got) != c.want {
				t.Fatalf("got %q (%v), want %q", got, err, c.want)
			}
			if removed := c.src != c.want; removed != (len(changes) == 1) || removed && changes[0].New != nil {
				t.Errorf("changes: %+v", changes)
			}
		})
	}
}

// TestRemoveRefuses names what is left to people: taking these away would change
// more than the key.
func TestRemoveRefuses(t *testing.T) {
	for name, c := range map[string]struct{ src, path string }{
		"a key in braces":                        {"t = {x = 1, y = 2}\n", "t.x"},
		"a table":                                {"[t]\nx = 1\n", "t"},
		"the dotted key that its table lives by": {"t.x = 1\n", "t.x"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := ParsePath(c.path)
			if err != nil {
				t.Fatal(err)
			}
			var refused *PathError
			if got, _, err := Edit([]byte(c.src), []Assignment{{Path: path, Value: Absent}}); !errors.As(err, &refused) {
				t.Errorf("expected a PathError, got %q and %v", got, err)
			}
		})
	}
}
