package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// DryRunResult is what was found; it is kept when the task fails, too.
type DryRunResult struct {
	Findings []Finding `json:"findings"`
	// Omitted is how many are not listed, for want of room.
	Omitted int `json:"omitted,omitempty"`
}

// Finding is something that is wrong with a configuration.
type Finding struct {
	Key      string        `json:"key"`
	Problem  string        `json:"problem"`
	Severity seid.Severity `json:"severity"`
}

func (t *tasks) dryRun(document *seid.Intent) (any, error) {
	files, _, err := t.Config.Preview(document)
	if err != nil {
		return nil, configFailure(err)
	}
	chainID, genesisFindings, err := t.genesisChainID()
	if err != nil {
		return nil, err
	}
	var result DryRunResult
	var wrong []string
	result.Findings = []Finding{}
	for _, finding := range append(genesisFindings, seid.Validate(files, chainID)...) {
		if finding.Severity == seid.SeverityError {
			wrong = append(wrong, finding.String())
		}
		if len(result.Findings) == maxListed {
			result.Omitted++
			continue
		}
		result.Findings = append(result.Findings, describe(finding))
	}
	if len(wrong) > 0 {
		return result, engine.Terminal(ReasonInvalidConfiguration, "seid would not start or not run as wanted: %s", shortened(strings.Join(wrong, "; ")))
	}
	return result, nil
}

func describe(f seid.Finding) Finding {
	key := f.Key.String()
	if f.Key.Path == "" {
		key = string(f.Key.File)
	}
	return Finding{Key: key, Problem: shortened(f.Problem), Severity: f.Severity}
}

// genesisChainID is the chain's id, or a finding that says why it is not known: seid
// crashes without a genesis file, and does not say why.
func (t *tasks) genesisChainID() (string, []seid.Finding, error) {
	path := t.Home.Genesis()
	current, err := t.currentGenesis()
	switch {
	case err != nil:
		return "", nil, err
	case current == nil:
		err = fmt.Errorf("it is missing: %w", fs.ErrNotExist)
	case current.err != nil:
		err = errors.Unwrap(current.err)
	default:
		return current.ChainID, nil, nil
	}
	return "", []seid.Finding{{Key: seid.Key{File: seid.File(filepath.Base(path))}, Problem: err.Error(), Severity: seid.SeverityError}}, nil
}
