package server

import (
	"net/http"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
)

// GetHealthz tells whether seid may run.
func (s *Server) GetHealthz(w http.ResponseWriter, _ *http.Request, _ api.GetHealthzParams) {
	s.mayRun(w)
}

// GetStartupz is GetHealthz.
func (s *Server) GetStartupz(w http.ResponseWriter, _ *http.Request, _ api.GetStartupzParams) {
	s.mayRun(w)
}

func (s *Server) mayRun(w http.ResponseWriter) {
	switch state := s.opts.Consent.State(); {
	case state.Wanted():
		w.WriteHeader(http.StatusOK)
	case state.Held:
		refuse(w, http.StatusServiceUnavailable, api.ReasonHeld, true, "the node is held")
	default:
		refuse(w, http.StatusServiceUnavailable, api.ReasonNotApproved, true, "the node is not approved to run")
	}
}

// GetLivez tells that the process answers. It reads nothing: a full or a dead disk
// is not cured by a restart.
func (s *Server) GetLivez(w http.ResponseWriter, _ *http.Request, _ api.GetLivezParams) {
	w.WriteHeader(http.StatusOK)
}

// GetStatus tells everything.
func (s *Server) GetStatus(w http.ResponseWriter, _ *http.Request, _ api.GetStatusParams) {
	node, state := s.opts.Node.Node(), s.opts.Consent.State()
	hold := holdOf(state)
	status := api.Status{
		Status:   api.StatusInitializing,
		Approved: state.Approved, Approval: approvalOf(state).Approval,
		Held: hold.Held, HeldSince: hold.Since, HeldBy: hold.By, HeldReason: hold.Reason,
		Seid: node.Seid, Upgrade: node.Upgrade, Config: node.Config,
		NodeID: node.NodeID, SigningPublicKey: node.SigningPublicKey, SignHeight: node.SignHeight,
		SignGuard: node.SignGuard, Height: node.Height,
		FreeBytes: node.FreeBytes, TotalBytes: node.TotalBytes,
		Problems: append(s.opts.Problems(), node.Problems...),
	}
	if state.Wanted() {
		status.Status = api.StatusReady
	}
	for _, p := range state.Problems {
		status.Problems = append(status.Problems, api.Problem{Reason: p.Reason, Message: p.Message})
	}
	answer(w, http.StatusOK, status)
}

// GetNodeID tells the p2p identity of the node.
func (s *Server) GetNodeID(w http.ResponseWriter, _ *http.Request, _ api.GetNodeIDParams) {
	node := s.opts.Node.Node()
	if node.NodeID == "" {
		refuse(w, http.StatusInternalServerError, api.ReasonNodeIDUnknown, true, "the node id is not known: "+node.NodeIDProblem)
		return
	}
	answer(w, http.StatusOK, api.NodeID{NodeID: node.NodeID})
}

// GetMetrics returns the metrics.
func (s *Server) GetMetrics(w http.ResponseWriter, r *http.Request, _ api.GetMetricsParams) {
	s.metrics.ServeHTTP(w, r)
}

func approvalOf(state consent.State) api.ApprovalEvent {
	e := api.ApprovalEvent{Approved: state.Approved}
	if a := state.Approval; a != nil {
		e.Approval = api.Approval{NodeUID: a.NodeUID, PublicKey: a.PublicKey, NodeID: a.NodeID}
	}
	return e
}

func holdOf(state consent.State) api.HoldEvent {
	e := api.HoldEvent{Held: state.Held}
	if h := state.Hold; h != nil {
		e.Since, e.By, e.Reason = h.Since, h.TaskID, h.Reason
	}
	return e
}
