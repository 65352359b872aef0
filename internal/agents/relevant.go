package agents

import (
	"regexp"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// scarce is the share of free space, in percent, below which each percent matters.
const scarce = 15

// freeSpace is how much of the data volume is free, in percent, where it is scarce.
func freeSpace(status api.Status) int64 {
	if status.TotalBytes < 100 {
		return scarce // not known
	}
	return min(status.FreeBytes/(status.TotalBytes/100), scarce)
}

// matters is the part of a status that a reconciler could act on or report.
type matters struct {
	status    api.Status
	freeSpace int64
}

var number = regexp.MustCompile(`[0-9]+`)

// relevant leaves out what changes all the time on a healthy node, with every block
// for example. A difference in it wakes the reconciler of the node.
func relevant(status api.Status) matters {
	m := matters{status: status, freeSpace: freeSpace(status)}
	m.status.FreeBytes, m.status.TotalBytes, m.status.SignHeight, m.status.Height = 0, 0, nil, 0
	// Messages of problems say how long something takes by now. Taken literally, a
	// reconciler that refreshes the view would wake itself without end.
	m.status.Problems = nil
	for _, p := range status.Problems {
		p.Message = number.ReplaceAllString(p.Message, "0")
		m.status.Problems = append(m.status.Problems, p)
	}
	return m
}
