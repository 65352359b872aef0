package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/supervisor"
	"github.com/sei-operator/sei-operator/internal/sidecar/tasks"
)

// definitions are those of the real sidecar, carried out on what stands in for a node.
func (s *sidecar) definitions() []engine.Definition {
	runs := map[string]func(context.Context, engine.Execution) (any, error){
		tasks.TypeMarkReady:          engine.Typed(s.markReady),
		tasks.TypeMarkNotReady:       engine.Typed(s.markNotReady),
		tasks.TypeReleaseHold:        engine.Typed(s.releaseHold),
		tasks.TypeStopSeid:           engine.Typed(s.stopSeid),
		tasks.TypeRestartSeid:        engine.Typed(s.restartSeid),
		tasks.TypeResetData:          engine.Typed(s.resetData),
		tasks.TypeConfigureGenesis:   engine.Typed(s.configureGenesis),
		tasks.TypeConfigApply:        engine.Typed(s.configApply),
		tasks.TypeConfigValidate:     engine.Typed(s.configApply),
		tasks.TypeConfigureStateSync: engine.Typed(s.configureStateSync),
		tasks.TypeDiscoverPeers:      engine.Typed(s.configApply),
		tasks.TypeAwaitCondition:     engine.Typed(s.awaitCondition),
	}
	definitions := tasks.Rules()
	for i, def := range definitions {
		definitions[i].Run = s.scripted(def.Type, runs[def.Type])
		if s.life.pod.before && def.Type == tasks.TypeConfigApply {
			definitions[i].Decode = applyBefore
		}
	}
	return definitions
}

// applyBefore refuses what config-apply did not take before.
func applyBefore(params json.RawMessage) (any, error) {
	if _, err := engine.Strict[struct {
		Document any `json:"document"`
	}](params); err != nil {
		return nil, err
	}
	return engine.Strict[tasks.ConfigApply](params)
}

// scripted writes a run down and does what the test wants of it before the run itself.
func (s *sidecar) scripted(taskType string, run func(context.Context, engine.Execution) (any, error)) func(context.Context, engine.Execution) (any, error) {
	return func(ctx context.Context, x engine.Execution) (any, error) {
		task, err := s.volume.tasks.Get(x.ID())
		if err != nil {
			return nil, err
		}
		task.Type = nameOf(taskType, x.Payload())
		if entry, first := s.volume.began(task); first {
			s.node.change(func() { s.node.begun = append(s.node.begun, entry) })
		}
		if err := s.node.perform(ctx, task.Type); err != nil {
			return nil, err
		}
		return run(ctx, x)
	}
}

// nameOf is what a run is called in ledgers and scripts. What config-apply does besides
// applying a document has the name there that it has in plans.
func nameOf(taskType string, payload any) string {
	switch p, _ := payload.(tasks.ConfigApply); {
	case p.DryRun:
		return plan.TaskConfigValidate
	case p.Peers != nil:
		return plan.TaskDiscoverPeers
	}
	return taskType
}

func held() error { return engine.Terminal(tasks.ReasonHeld, "%w", consent.ErrHeld) }

func (s *sidecar) markReady(_ context.Context, _ engine.Execution, p tasks.MarkReady) (any, error) {
	before, seen := s.consent.State(), s.identity()
	if before.Held {
		return nil, held()
	}
	if p.PublicKey != "" && p.PublicKey != seen.PublicKey || p.NodeID != "" && p.NodeID != seen.NodeID {
		return nil, engine.Terminal(tasks.ReasonKeyIdentityChanged,
			"the node was not approved: signing key %q and node id %q are expected, seid has %q and %q", p.PublicKey, p.NodeID, seen.PublicKey, seen.NodeID)
	}
	if s.volume.mode() == seid.ModeValidator && p.PublicKey == "" {
		if p.PublicKey = seen.PublicKey; p.PublicKey == "" {
			return nil, engine.Terminal(tasks.ReasonKeyIdentityChanged, "the node was not approved: it is a validator, and seid has no signing key that can be read")
		}
	}
	switch err := s.consent.Approve(p.PublicKey, seen.NodeID, s.signer.Height()); {
	case errors.Is(err, consent.ErrHeld):
		return nil, held()
	case err != nil:
		return nil, engine.Retryable(tasks.ReasonVolumeError, "%w", err)
	}
	s.seid.settle()
	same := before.Approved && before.Approval.PublicKey == p.PublicKey && before.Approval.NodeID == seen.NodeID
	return tasks.MarkReadyResult{Changed: !same, PublicKey: p.PublicKey, NodeID: seen.NodeID}, nil
}

func (s *sidecar) markNotReady(_ context.Context, x engine.Execution, p tasks.MarkNotReady) (any, error) {
	before := s.consent.State()
	if err := s.consent.Hold(x.ID().String(), p.Reason, x.Sequence()); err != nil {
		return nil, engine.Retryable(tasks.ReasonVolumeError, "%w", err)
	}
	s.seid.settle()
	result := tasks.MarkNotReadyResult{Changed: !before.Held}
	if hold := s.consent.State().Hold; hold != nil {
		result.HeldSince = hold.Since
	}
	return result, nil
}

func (s *sidecar) releaseHold(_ context.Context, x engine.Execution, p tasks.ReleaseHold) (any, error) {
	before := s.consent.State()
	switch err := s.consent.Release(p.Of(x)); {
	case errors.Is(err, consent.ErrHeldLater):
		return nil, engine.Terminal(tasks.ReasonSuperseded, "%w", err)
	case err != nil:
		return nil, engine.Retryable(tasks.ReasonVolumeError, "%w", err)
	}
	s.seid.settle()
	return tasks.ReleaseHoldResult{Changed: before.Held}, nil
}

// safe returns when seid may be stopped.
func (s *sidecar) safe(ctx context.Context, force bool) error {
	for {
		changed := s.node.changes()
		if force || s.seid.Node().Seid.SafeToStop {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return engine.Retryable(tasks.ReasonNotSafeToStop, "seid was not stopped: %w", context.Cause(ctx))
		}
	}
}

func (s *sidecar) stopSeid(ctx context.Context, _ engine.Execution, p tasks.StopSeid) (any, error) {
	if !s.consent.State().Held {
		return nil, engine.Terminal(tasks.ReasonNotHeld, "seid was not stopped: the node is not held, so it would be started again at once; hold it first")
	}
	if err := s.safe(ctx, p.Force); err != nil {
		return nil, err
	}
	seen := s.seid.Node().Seid
	result := tasks.StopSeidResult{Instance: seen.Instance}
	if seen.Instance != "" {
		result.Changed, result.Exit = true, &tasks.Exit{How: supervisor.Clean}
	}
	return result, nil
}

func (s *sidecar) restartSeid(ctx context.Context, _ engine.Execution, p tasks.RestartSeid) (any, error) {
	switch state := s.consent.State(); {
	case state.Held:
		return nil, held()
	case !state.Approved:
		return nil, engine.Terminal(tasks.ReasonNotApproved, "the node is not approved to run; approve it first")
	}
	if err := s.safe(ctx, p.Force); err != nil {
		return nil, err
	}
	if err := s.applyMounted(); err != nil {
		return nil, engine.Terminal(tasks.ReasonInvalidConfiguration, "seid was not restarted: %w", err)
	}
	before, after, pid := s.seid.restart()
	s.node.change(func() {})
	switch seen := s.seid.Node().Seid; {
	case s.consent.State().Held:
		return nil, held()
	case seen.ParkedBecause == string(supervisor.ParkedKeys):
		return nil, engine.Terminal(tasks.ReasonKeyIdentityChanged, "seid was not started: %s", seen.Message)
	case seen.ParkedBecause == string(supervisor.ParkedUpgrade):
		return nil, engine.Terminal(tasks.ReasonUpgradeNeeded, "seid was restarted and halted again: %s", seen.Message)
	case pid == 0:
		return nil, engine.Retryable(tasks.ReasonProcessNotStarted, "there is no new seid")
	}
	return tasks.RestartSeidResult{Changed: true, OldInstance: before, NewInstance: after, PID: pid, How: supervisor.Clean}, nil
}

func (s *sidecar) resetData(_ context.Context, _ engine.Execution, _ tasks.ResetData) (any, error) {
	state := s.consent.State()
	if !state.Held {
		return nil, engine.Terminal(tasks.ReasonNotHeld, "nothing was removed: the node is not held, so seid might start meanwhile; hold it first")
	}
	if state.Approval != nil && state.Approval.PublicKey != "" || state.ApprovalDoubtful || s.volume.mode() == seid.ModeValidator {
		return nil, engine.Terminal(tasks.ReasonSigningKeyPresent, "nothing was removed: a signing key whose state is lost can sign twice")
	}
	s.seid.settle()
	if pid := s.seid.Node().Seid.Pid; pid != 0 {
		return nil, engine.Retryable(tasks.ReasonSeidRunning, "seid runs (pid %d); stop it first", pid)
	}
	return tasks.ResetDataResult{Changed: s.volume.setData(false), Removed: []string{}, Kept: []string{"config"}}, nil
}

func (s *sidecar) writePeers(found []string) (any, error) {
	var peers []string
	for _, peer := range found {
		if !slices.Contains(peers, peer) {
			peers = append(peers, peer)
		}
	}
	return tasks.PeersResult{Changed: s.volume.setPeers(peers), Count: len(peers)}, nil
}

func (s *sidecar) configureStateSync(_ context.Context, _ engine.Execution, p tasks.ConfigureStateSync) (any, error) {
	s.volume.mu.Lock()
	defer s.volume.mu.Unlock()
	if s.volume.hasData && !p.CheckOnly {
		return tasks.ConfigureStateSyncResult{Note: "the volume holds data of the chain, so seid goes on from there and does no state sync"}, nil
	}
	// The witnesses are believed: there is no chain behind them.
	return tasks.ConfigureStateSyncResult{Changed: !p.CheckOnly, TrustHeight: 1000, TrustHash: strings.Repeat("A", 64), Servers: p.RPCServers}, nil
}

// awaitCondition is met at once: there is no chain to wait for.
func (s *sidecar) awaitCondition(_ context.Context, _ engine.Execution, p tasks.AwaitCondition) (any, error) {
	result := tasks.AwaitConditionResult{Met: true, Height: 1000, MaxPeerHeight: 1000}
	if p.Height != nil {
		result.Height = p.Height.TargetHeight
	}
	return result, nil
}

func (s *sidecar) configApply(_ context.Context, _ engine.Execution, p tasks.ConfigApply) (any, error) {
	switch {
	case p.Peers != nil:
		return s.writePeers(p.Peers)
	case p.DryRun:
		return s.dryRun(p.Document)
	}
	changed, err := s.volume.apply(*p.Document)
	applied := s.volume.applied()
	result := tasks.ConfigApplyResult{Changed: changed, Serial: applied.Serial, Hash: applied.Hash, Changes: []tasks.Change{}}
	switch {
	case errors.Is(err, errOlder):
		result.Note = err.Error()
	case err != nil:
		return nil, engine.Terminal(tasks.ReasonInvalidConfiguration, "%w", err)
	}
	return result, nil
}

func (s *sidecar) dryRun(document *seid.Intent) (any, error) {
	if document == nil {
		s.volume.mu.Lock()
		document = s.volume.document
		s.volume.mu.Unlock()
	}
	result := tasks.DryRunResult{Findings: []tasks.Finding{}}
	if document == nil {
		return result, nil
	}
	files, err := filesOf(*document)
	if err != nil {
		return nil, engine.Terminal(tasks.ReasonInvalidConfiguration, "%w", err)
	}
	var wrong []string
	for _, f := range seid.Validate(files, document.ChainID) {
		result.Findings = append(result.Findings, tasks.Finding{Key: f.Key.String(), Problem: f.Problem, Severity: f.Severity})
		if f.Severity == seid.SeverityError {
			wrong = append(wrong, f.String())
		}
	}
	if len(wrong) > 0 {
		return result, engine.Terminal(tasks.ReasonInvalidConfiguration, "seid would not start or not run as wanted: %s", strings.Join(wrong, "; "))
	}
	return result, nil
}

func (s *sidecar) configureGenesis(ctx context.Context, _ engine.Execution, p tasks.ConfigureGenesis) (any, error) {
	sum := strings.ToLower(p.SHA256)
	if p.File != "" {
		found, err := s.mountedGenesis(ctx, p)
		if err != nil {
			return nil, err
		}
		sum = found.SHA256
	}
	s.volume.mu.Lock()
	defer s.volume.mu.Unlock()
	given := p.File != "" || p.URL != ""
	changed := given && s.volume.genesis != sum
	if changed && s.volume.hasData {
		return nil, engine.Terminal(tasks.ReasonVolumeHasData, "the genesis file was not replaced: the volume holds data that was made from another one")
	}
	if changed {
		s.volume.genesis = sum
	}
	return tasks.ConfigureGenesisResult{Changed: changed, ChainID: p.ChainID, SHA256: s.volume.genesis}, nil
}

// mountedGenesis reads the file as it is in the cluster now. What comes by a URL is
// believed instead.
func (s *sidecar) mountedGenesis(ctx context.Context, p tasks.ConfigureGenesis) (seid.Genesis, error) {
	if s.life.pod.genesis == nil {
		return seid.Genesis{}, engine.Terminal(tasks.ReasonGenesisMissing, "no ConfigMap with a genesis file is mounted, so there is no file %s", p.File)
	}
	content, err := s.node.fleet.read(ctx, s.node.key.Namespace, s.life.pod.genesis(p.File))
	switch {
	case err != nil:
		return seid.Genesis{}, engine.Retryable(tasks.ReasonVolumeError, "%w", err)
	case content == nil:
		return seid.Genesis{}, engine.Retryable(tasks.ReasonGenesisMissing, "the ConfigMap with the genesis file has no file %s", p.File)
	}
	found, err := seid.ParseGenesis(strings.NewReader(string(content)))
	if err != nil {
		return found, engine.Terminal(tasks.ReasonInvalidGenesis, "what was given as genesis file is none: %w", err)
	}
	switch err := found.Check(p.ChainID, p.SHA256); {
	case err != nil && found.ChainID != p.ChainID:
		return found, engine.Terminal(tasks.ReasonChainIDMismatch, "%w", err)
	case err != nil:
		return found, engine.Terminal(tasks.ReasonChecksumMismatch, "%w", err)
	}
	return found, nil
}
