// Package scope holds one node during one reconcile: what was seen of it, what is
// wanted, and what is found out on the way. It is filled once, by observe; the
// packages derived and task act on it, and status is computed from it at the end.
package scope

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/access"
	"github.com/sei-operator/sei-operator/internal/agents"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/peers"
	"github.com/sei-operator/sei-operator/internal/plan"
)

// Tools are what the work on a node is done with.
type Tools struct {
	Kube   *kube.Client
	Agents *agents.Fleet
	Peers  *peers.Resolver
	Access *access.Keeper
	Report Reporter
}

// Reporter tells people and dashboards what happened.
type Reporter interface {
	// Event tells of something that was done to a node and cannot be seen in the
	// change of its status.
	Event(node *v1alpha1.SeiNode, event Event)
	// TaskEnded counts a run of a task.
	TaskEnded(taskType, outcome string, took time.Duration)
	// Recreated counts a StatefulSet that is made anew.
	Recreated(node *v1alpha1.SeiNode)
}

// Event is something that happened to a node.
type Event struct {
	Warning bool
	Reason  string
	Message string
}

// Scope is one node during one reconcile. Input.Node carries the status that is
// worked on.
type Scope struct {
	plan.Input
	Tools
	// Decision is what was decided about plans.
	Decision plan.Decision
	// Trouble is what the API server refused, or what belongs to someone else: things
	// that no further try puts right by itself.
	Trouble []plan.Gate

	requeue time.Duration
}

// Key names the node.
func (s *Scope) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Node.Namespace, Name: s.Node.Name}
}

// RequeueIn asks for another reconcile after at most this time.
func (s *Scope) RequeueIn(after time.Duration) {
	if after > 0 && (s.requeue == 0 || after < s.requeue) {
		s.requeue = after
	}
}

// Requeue is when the next reconcile is asked for; 0: when something happens.
func (s *Scope) Requeue() time.Duration { return s.requeue }

// TellForcedStop tells that seid is stopped at a moment at which that is not safe.
func (s *Scope) TellForcedStop() {
	s.Report.Event(s.Node, Event{Warning: true, Reason: "StopForced", Message: fmt.Sprintf(
		"seid is stopped although that is not safe at this moment (%s).", s.Seen.Sidecar.Status.Seid.UnsafeBecause)})
}

// InTrouble notes a trouble.
func (s *Scope) InTrouble(gate *plan.Gate) {
	s.Trouble = append(s.Trouble, *gate)
}
