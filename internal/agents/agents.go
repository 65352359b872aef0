// Package agents is the operator's conversation with the sidecars of all nodes. One
// pod that does not answer slows nothing but itself: what is known of a sidecar is
// read from memory, only a sidecar whose stream of events is open is called, and
// every call has a deadline.
package agents

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// ErrNotConnected means that the sidecar was not called, because its stream of
// events is not open.
var ErrNotConnected = errors.New("the sidecar is not connected")

// Target is the sidecar of one node's pod.
type Target struct {
	Node    types.NamespacedName
	NodeUID types.UID
	PodUID  types.UID
	Address string // http(s)://<pod ip>:<port>
	// ServerName is the name in the certificate of the access proxy in front of it;
	// empty when there is none.
	ServerName string
}

// View is what is known of a sidecar without asking it.
type View struct {
	// PodUID is that of the pod that the view is about; empty when nobody is followed.
	PodUID types.UID
	// New tells that the first attempt is still under way: nobody knows whether the
	// sidecar answers.
	New bool
	// Lost is when the last connection broke; zero when there was none.
	Lost time.Time
	// Connected tells that the stream is open and Status is of this connection.
	Connected bool
	// Problem is why it is not connected, for people. It is stable: it has no parts
	// that change with every attempt.
	Problem string
	// Status is what the sidecar of this pod said last, also while it is not
	// connected; zero if it never said anything.
	Status api.Status
}

// Methods of a Call.
const (
	MethodSubmit = "submit"
	MethodDelete = "delete"
)

// Call is a call that changes something on a node.
type Call struct {
	Node     types.NamespacedName
	Method   string
	TaskType string // of a submission
	// Params are those of a submission. The type alone does not tell a dry run from an apply.
	Params json.RawMessage
	TaskID uuid.UUID
}

// Options make a Fleet.
type Options struct {
	// HTTPClient sends the calls to sidecars without an access proxy; default one with
	// Transport.
	HTTPClient *http.Client
	// Access is how to get past an access proxy; without it nobody behind one is called.
	Access *Access
	// Wake is called whenever the view of a node changed in a way that matters, and
	// whenever a task of it changed. It must not block.
	Wake func(types.NamespacedName)
	// Clock is for the pauses between attempts and for the fallback poll; default
	// real. Deadlines of calls are always real.
	Clock clock.WithTickerAndDelayedExecution
	Log   logr.Logger
	// Around is called around every call that changes something; nil in production.
	// Tests count calls, and fail before and after them.
	Around func(ctx context.Context, call Call, do func(context.Context) error) error
	// CallTimeout bounds every call, and how long a sidecar may take to begin the
	// stream; default 5 s.
	CallTimeout time.Duration
}
