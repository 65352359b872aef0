package fakeseid

import (
	"bytes"
	"sync"
)

// Output is what a process writes; it is read while it is written.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *Output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
