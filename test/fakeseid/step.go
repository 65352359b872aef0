package fakeseid

import (
	"fmt"
	"syscall"
	"time"
)

// Version is what "seid version" prints and /abci_info answers.
const Version = "v6.6.2"

// Endpoint is one of the ports of seid.
type Endpoint string

// The endpoints.
const (
	RPC     Endpoint = "rpc"
	P2P     Endpoint = "p2p"
	Metrics Endpoint = "metrics"
	REST    Endpoint = "rest"
	GRPC    Endpoint = "grpc"
	GRPCWeb Endpoint = "grpc-web"
)

// Port is the endpoint's usual port.
func (e Endpoint) Port() string {
	switch e {
	case RPC:
		return "26657"
	case P2P:
		return "26656"
	case Metrics:
		return "26660"
	case REST:
		return "1317"
	case GRPC:
		return "9090"
	case GRPCWeb:
		return "9091"
	default:
		return "0"
	}
}

// Facts are what the endpoints answer.
type Facts struct {
	ChainID       string `json:"chainId,omitempty"`
	NodeID        string `json:"nodeId,omitempty"`
	Height        int64  `json:"height,omitempty"`
	Earliest      int64  `json:"earliest,omitempty"`
	MaxPeerHeight int64  `json:"maxPeerHeight,omitempty"`
	CatchingUp    bool   `json:"catchingUp,omitempty"`
	// Peers is the number of connections, Known that of addresses beside them at which
	// nobody answers.
	Peers int `json:"peers,omitempty"`
	Known int `json:"known,omitempty"`
	// BlockTime is the time in the last block; zero: the first of January of 2026.
	BlockTime time.Time `json:"blockTime,omitzero"`
	// Validators are the addresses of the validators, Validator is that of the node's own
	// key; empty: it is none.
	Validators []string `json:"validators,omitempty"`
	Validator  string   `json:"validator,omitempty"`
	// StateSyncing is the metric of that name, which is absent until seid sets it.
	StateSyncing *int `json:"stateSyncing,omitempty"`
	// PlanName and PlanHeight are an upgrade that is scheduled.
	PlanName   string `json:"planName,omitempty"`
	PlanHeight int64  `json:"planHeight,omitempty"`
}

// Step is one thing a fake seid does. Its fields are those of the function that
// makes it.
type Step struct {
	Do       string        `json:"do"`
	Endpoint Endpoint      `json:"endpoint,omitempty"`
	Address  string        `json:"address,omitempty"`
	Count    int           `json:"count,omitempty"`
	Height   int64         `json:"height,omitempty"`
	Stream   string        `json:"stream,omitempty"`
	Text     []byte        `json:"text,omitempty"`
	Name     string        `json:"name,omitempty"`
	Info     string        `json:"info,omitempty"`
	Line     bool          `json:"line,omitempty"`
	File     bool          `json:"file,omitempty"`
	Facts    *Facts        `json:"facts,omitempty"`
	For      time.Duration `json:"for,omitempty"`
}

// Open listens. An address with port 0 takes any port, which Process.Open tells.
func Open(endpoint Endpoint, address string) Step {
	return Step{Do: "open", Endpoint: endpoint, Address: address}
}

// Close stops listening.
func Close(endpoint Endpoint) Step {
	return Step{Do: "close", Endpoint: endpoint}
}

// Closing is how a seid ends that was told to.
type Closing int

// The ways.
const (
	// AtOnce: it closes its stores and exits with 0.
	AtOnce Closing = iota
	// WhenTold: it goes on writing until the test says CloseStores. A node with much
	// data takes minutes; a seed of v6.6.2 hangs.
	WhenTold
)

// Catch installs the signal handler. It is that of seid: it takes one SIGTERM or
// SIGINT, and is gone with it. The next one, and any other signal at any time, does
// what it does to a process that has no handler.
func Catch(closing Closing) Step {
	return Step{Do: "catch", Count: int(closing)}
}

// CloseStores ends the closing of a seid that was told to end: its stores are whole,
// and it exits with 0.
func CloseStores() Step {
	return Step{Do: "close-stores"}
}

// Linger makes a stop that is under way take this long.
func Linger(d time.Duration) Step {
	return Step{Do: "linger", For: d}
}

// Tell replaces what the endpoints answer.
func Tell(facts Facts) Step {
	return Step{Do: "facts", Facts: &facts}
}

// Block adds blocks to the height.
func Block(count int) Step {
	return Step{Do: "block", Count: count}
}

// Print writes text to "stdout" or "stderr".
func Print(stream, text string) Step {
	return Step{Do: "print", Stream: stream, Text: []byte(text), Count: 1}
}

// Flood writes text many times over.
func Flood(stream, text string, count int) Step {
	return Step{Do: "print", Stream: stream, Text: []byte(text), Count: count}
}

// Plan is an upgrade of the chain.
type Plan struct {
	Name   string
	Height int64
	Info   string
	// Line and File are the two traces a halt leaves: the UPGRADE line in the
	// output, data/upgrade-info.json in the home.
	Line, File bool
}

// Halt leaves the traces of an upgrade and exits with 2, as seid does.
func Halt(plan Plan) Step {
	return Step{Do: "halt", Name: plan.Name, Height: plan.Height, Info: plan.Info, Line: plan.Line, File: plan.File}
}

// TooNew ends seid as a binary does whose upgrade the chain has not executed yet.
func TooNew(name string) Step {
	return Step{Do: "panic", Text: fmt.Appendf(nil, "BINARY UPDATED BEFORE TRIGGER! UPGRADE %q - in binary but not executed on chain", name)}
}

// TooOld ends seid as a binary does that lacks an upgrade which the chain has executed.
func TooOld(name string) Step {
	return Step{Do: "panic", Text: fmt.Appendf(nil, "Wrong app version 0, upgrade handler is missing for %s upgrade plan", name)}
}

// Exit ends the process with a code, no matter what.
func Exit(code int) Step {
	return Step{Do: "exit", Count: code}
}

// Die ends the process by a signal that nothing handles.
func Die(signal syscall.Signal) Step {
	return Step{Do: "die", Count: int(signal)}
}

// Grandchild starts a process that keeps stdout and stderr open, says so on
// stdout, and lives until the test ends.
func Grandchild() Step {
	return Step{Do: "grandchild"}
}

// Sign writes a sign state of this height.
func Sign(height int64) Step {
	return Step{Do: "sign", Height: height}
}

// RefuseDoubleSign ends seid, as seid does, when it was started with a
// double-sign check: the key still signs elsewhere.
func RefuseDoubleSign() Step {
	return Step{Do: "refuse-double-sign"}
}

// Delay waits. It is for scripts that nobody controls.
func Delay(d time.Duration) Step {
	return Step{Do: "delay", For: d}
}

// FailInit makes "seid init" stop with 1 after it wrote this many files.
func FailInit(files int) Step {
	return Step{Do: "fail-init", Count: files}
}

// Serving is the script of a healthy node: all of these endpoints are open, the
// signal handler is in place.
func Serving(addresses map[Endpoint]string, facts Facts) []Step {
	steps := []Step{Tell(facts)}
	for _, endpoint := range []Endpoint{P2P, Metrics, RPC, REST, GRPC, GRPCWeb} {
		if address, ok := addresses[endpoint]; ok {
			steps = append(steps, Open(endpoint, address))
		}
	}
	return append(steps, Catch(AtOnce))
}
