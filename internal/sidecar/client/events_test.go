package client

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
)

// A line may have any length up to the bound, whatever the buffer holds and however
// the network cuts it.
func TestLinesOfEveryLength(t *testing.T) {
	const frame = len("data: \"\"\n")
	for _, length := range []int{frame, usualLine - 1, usualLine, usualLine + 1, 2 * usualLine, 5000, maxLine - 1, maxLine} {
		value := `"` + strings.Repeat("x", length-frame) + `"`
		stream := fmt.Sprintf("id: 1\ndata: %s\n\nid: 2\ndata: 2\n\n", value)
		for name, reader := range map[string]*parser{
			"at once":      newParser(strings.NewReader(stream)),
			"byte by byte": newParser(iotest.OneByteReader(strings.NewReader(stream))),
		} {
			lines := 0
			first, err := reader.next(func() { lines++ })
			if err != nil || first.ID != "1" || string(first.Data) != value {
				t.Errorf("%d bytes, %s: event %q with %d bytes of data, %v", length, name, first.ID, len(first.Data), err)
				continue
			}
			second, err := reader.next(func() { lines++ })
			if err != nil || second.ID != "2" || string(second.Data) != "2" || lines != 6 {
				t.Errorf("%d bytes, %s: then event %+v after %d lines, %v", length, name, second, lines, err)
			}
		}
	}
	tooLong := newParser(strings.NewReader("data: \"" + strings.Repeat("x", maxLine-frame+1) + "\"\n\n"))
	if _, err := tooLong.next(func() {}); !errors.Is(err, ErrStreamMalformed) {
		t.Errorf("a line one byte too long: %v", err)
	}
}

// An operator follows hundreds of nodes, and nearly always nothing is said.
func TestASilentStreamCostsLittle(t *testing.T) {
	if size := newParser(strings.NewReader("")).lines.Size(); size > 1<<10 {
		t.Errorf("the buffer of a stream has %d bytes before anything was read", size)
	}
}
