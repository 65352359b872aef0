package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
)

// flat is the way to the engine. The evidence of a block that comes back is a list, as
// with seid; the engine puts that list into an object.
type flat struct{ http.RoundTripper }

// RoundTrip implements the way.
func (f flat) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK { // A websocket has no body.
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return nil, err
	}
	body = flatEvidence(body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return response, nil
}

// flatEvidence is pure. Answers without such a block stay as they are.
func flatEvidence(body []byte) []byte {
	var envelope, result, block, evidence map[string]json.RawMessage
	if json.Unmarshal(body, &envelope) != nil || json.Unmarshal(envelope["result"], &result) != nil ||
		json.Unmarshal(result["block"], &block) != nil || json.Unmarshal(block["evidence"], &evidence) != nil {
		return body
	}
	list, there := evidence["evidence"]
	if !there {
		return body
	}
	if bytes.Equal(list, []byte("null")) {
		list = []byte("[]")
	}
	block["evidence"] = list
	var err error
	for _, one := range []struct {
		outer map[string]json.RawMessage
		key   string
		inner map[string]json.RawMessage
	}{{result, "block", block}, {envelope, "result", result}} {
		if one.outer[one.key], err = json.Marshal(one.inner); err != nil {
			return body
		}
	}
	if flattened, err := json.Marshal(envelope); err == nil {
		return flattened
	}
	return body
}
