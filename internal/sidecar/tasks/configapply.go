package tasks

import (
	"context"
	"errors"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/configure"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// ConfigApply makes seid's configuration files what a document says, or writes the
// peers alone. A seid that runs reads the files when it is restarted.
type ConfigApply struct {
	Document *seid.Intent `json:"document,omitempty"`
	// DryRun writes nothing. It looks for what seid would refuse or ignore: in the files
	// as they would be with the document, or as they are without one.
	DryRun bool `json:"dryRun,omitempty"`
	// Peers are of the form nodeId@host:port. They are written beside the document that is
	// applied, whose serial and hash stay. None is a set, too.
	Peers []string `json:"peers,omitzero"`
}

// Validate bounds the params.
func (p *ConfigApply) Validate() error {
	switch {
	case p.Peers != nil && (p.Document != nil || p.DryRun):
		return errors.New("peers go alone: a document has its own, and a dry run writes none")
	case p.Peers != nil:
		return checkPeers(p.Peers)
	case p.Document != nil:
		return checkDocument(p.Document)
	case !p.DryRun:
		return errors.New("document is missing")
	}
	return nil
}

// ConfigApplyResult tells what is applied and what that changed.
type ConfigApplyResult struct {
	Changed bool     `json:"changed"`
	Serial  int64    `json:"serial"`
	Hash    string   `json:"hash"`
	Changes []Change `json:"changes"`
	// Omitted is how many changes are not listed, for want of room.
	Omitted int    `json:"omitted,omitempty"`
	Note    string `json:"note,omitempty"`
}

func (t *tasks) configApply(_ context.Context, _ engine.Execution, p ConfigApply) (any, error) {
	if p.Peers != nil {
		return t.writePeers(p.Peers)
	}
	if p.Document != nil {
		// First, because what it refuses is wrong whatever the files say.
		if _, err := seid.Desired(*p.Document); err != nil {
			return nil, engine.Terminal(ReasonInvalidConfiguration, "%w", err)
		}
	}
	if p.DryRun {
		return t.dryRun(p.Document)
	}
	var outcome configure.Outcome
	err := t.do("configuration", func() (err error) {
		outcome, err = t.Config.Apply(*p.Document)
		return err
	})
	if errors.Is(err, configure.ErrOlder) {
		return t.newerApplied(err)
	}
	if err != nil {
		return nil, configFailure(err)
	}
	result := ConfigApplyResult{Changed: len(outcome.Changes) > 0, Serial: outcome.Serial, Hash: outcome.Hash, Note: shortened(seid.NotKnownMessage(outcome.NotKnown))}
	result.Changes, result.Omitted = listed(outcome.Changes)
	return result, nil
}

// newerApplied is a success: documents are ordered, and what the older one wanted
// is not wanted any more.
func (t *tasks) newerApplied(older error) (any, error) {
	record, err := t.Config.Record()
	if err != nil {
		return nil, configFailure(err)
	}
	return ConfigApplyResult{Serial: record.Serial, Hash: record.Hash, Changes: []Change{}, Note: older.Error()}, nil
}

// Change is a value that was changed, as TOML writes it; empty where there was or
// is none.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
}

// maxListed changes of maxShown bytes fit into a result.
const (
	maxListed = 200
	maxShown  = 1024
)

// listed is what a result says of changes, and how many it leaves out.
func listed(changes []seid.Change) ([]Change, int) {
	out := []Change{}
	for _, change := range changes[:min(len(changes), maxListed)] {
		out = append(out, Change{Key: change.Key.String(), Old: shortened(change.Old), New: shortened(change.New)})
	}
	return out, len(changes) - len(out)
}

func shortened(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}

// edit changes single values of the files.
func (t *tasks) edit(changes seid.Changes) (done []seid.Change, err error) {
	err = t.do("configuration", func() (err error) {
		done, err = t.Config.Edit(changes)
		return err
	})
	if err != nil {
		return nil, configFailure(err)
	}
	return done, nil
}
