package tasks

import (
	"encoding/json"
	"errors"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// Types that config-apply does now. They are still taken: a volume may hold one that is
// not finished, and an operator that was not updated yet, or was put back, asks for them.
// Who was granted one of them may do no more with it than before. They go, with all of
// this file, in the release after the next one.
const (
	TypeConfigValidate = "config-validate"
	TypeDiscoverPeers  = "discover-peers"
)

// configValidate were the params of a dry run.
type configValidate struct {
	Document *seid.Intent `json:"document,omitempty"`
}

func (p configValidate) now() ConfigApply { return ConfigApply{Document: p.Document, DryRun: true} }

// discoverPeers were the params of peers alone.
type discoverPeers struct {
	Peers []string `json:"peers"`
}

// Validate names what is missing in the words of the caller.
func (p discoverPeers) Validate() error {
	if p.Peers == nil {
		return errors.New("peers is missing")
	}
	return nil
}

func (p discoverPeers) now() ConfigApply { return ConfigApply{Peers: p.Peers} }

// retired decodes params of a type that config-apply does now.
func retired[P interface{ now() ConfigApply }](params json.RawMessage) (any, error) {
	old, err := engine.Strict[P](params)
	if err != nil {
		return nil, err
	}
	p := old.(P).now()
	return p, p.Validate()
}

// Before is a request in the words of a sidecar that does not know it yet, and refuses
// its params. It is false for a request that always had these.
func Before(request api.TaskRequest) (api.TaskRequest, bool) {
	var p ConfigApply
	if request.Type != TypeConfigApply || json.Unmarshal(request.Params, &p) != nil {
		return request, false
	}
	var params any
	switch {
	case p.DryRun:
		request.Type, params = TypeConfigValidate, configValidate{p.Document}
	case p.Peers != nil:
		request.Type, params = TypeDiscoverPeers, discoverPeers{p.Peers}
	default:
		return request, false
	}
	content, err := json.Marshal(params)
	request.Params = content
	return request, err == nil
}
