package search

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"

	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
)

// sabotage is a fault that the product does not have, to show that the search finds it.
type sabotage int

const (
	none sabotage = iota
	// forgetStops: requests do not say of which stops their caller knew.
	forgetStops
	// restartStarts: a restart starts a seid where none lives.
	restartStarts
)

// faults are what each of them makes of a request on its way to a container.
var faults = map[sabotage]func(*container) func([]byte) []byte{
	none:        func(*container) func([]byte) []byte { return nil },
	forgetStops: func(*container) func([]byte) []byte { return withoutAsOf },
	restartStarts: func(c *container) func([]byte) []byte {
		return func(request []byte) []byte { return c.startInstead(request) }
	},
}

// asOf is what a start and a restart say of the stops they know of.
var asOf = regexp.MustCompile(`,"asOf":\d+`)

// withoutAsOf puts spaces in its place.
func withoutAsOf(request []byte) []byte {
	return asOf.ReplaceAllFunc(request, func(found []byte) []byte { return bytes.Repeat([]byte(" "), len(found)) })
}

// startInstead makes a start of a restart that arrives where no seid lives.
func (c *container) startInstead(request []byte) []byte {
	if c.lives() || !bytes.HasPrefix(request, []byte("POST /restart ")) {
		return request
	}
	parsed, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(request)))
	if err != nil {
		return request
	}
	defer parsed.Body.Close()
	var restart supervisor.RestartRequest
	if json.NewDecoder(parsed.Body).Decode(&restart) != nil {
		return request
	}
	start, err := json.Marshal(supervisor.StartRequest{Approval: restart.Approval})
	if err != nil {
		return request
	}
	return fmt.Appendf(nil, "POST /start HTTP/1.1\r\nHost: supervisor\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(start), start)
}

func (c *container) lives() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.nodes) > 0 && c.nodes[len(c.nodes)-1].lives()
}
