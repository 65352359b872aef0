package supervisor

import (
	"encoding/json"
	"os"

	"github.com/sei-operator/sei-operator/internal/durable"
)

// record is what one supervisor leaves for the next, in a file beside the socket:
// the directory outlives the container.
type record struct {
	LastExit *Exit         `json:"lastExit,omitempty"`
	Upgrade  *Upgrade      `json:"upgrade,omitempty"`
	Restarts map[Cause]int `json:"restarts,omitempty"`
}

func recordPath(socket string) string { return socket + ".last" }

// recall reads what the predecessor left. It is a help, not a truth: without it,
// or when it is torn, the supervisor just knows less.
func recall(socket string) (record, error) {
	var r record
	text, err := os.ReadFile(recordPath(socket))
	if os.IsNotExist(err) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return record{}, err
	}
	return r, nil
}

func (r record) keep(socket string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return durable.Replace(recordPath(socket), text, 0o600)
}
