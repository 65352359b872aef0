package client

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Whatever comes over the network, reading it ends, and what it yields is bounded.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"id: 1\nevent: task\ndata: {}\n\n", ":\n\n", "data\n\n", "data: 1\ndata: 2\n\n", "data: \"\\ud800\"\r\n\r\n", "\n\n\n", "event: task\n", "id: 1\x00\ndata: 1\n\n",
		"data: \"" + strings.Repeat("x", 3000) + "\"\n\ndata: 1\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		events := newParser(bytes.NewReader(stream))
		lines := 0
		for {
			event, err := events.next(func() { lines++ })
			if err != nil {
				break
			}
			if !json.Valid(event.Data) || len(event.Data) > maxEvent {
				t.Errorf("%q", event.Data)
			}
		}
		if lines > bytes.Count(stream, []byte("\n")) {
			t.Errorf("%d lines were read", lines)
		}
	})
}
