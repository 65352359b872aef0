package seid

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// maxBody bounds an answer. The largest we ask for is a block.
const maxBody = 4 << 20

// RPCError is an error that seid's RPC answered with, usually inside an HTTP 200.
type RPCError struct {
	Code    int64
	Message string
	Data    string
}

func (e *RPCError) Error() string {
	if e.Data == "" {
		return fmt.Sprintf("seid answered: %s (%d)", e.Message, e.Code)
	}
	return fmt.Sprintf("seid answered: %s (%d): %s", e.Message, e.Code, e.Data)
}

// HTTPError is an answer with a status that is not one of seid's RPC.
type HTTPError struct {
	URL        string
	StatusCode int
}

func (e *HTTPError) Error() string {
	return fmt.Sprintf("%s answered HTTP %d %s: is this the RPC of seid?", e.URL, e.StatusCode, http.StatusText(e.StatusCode))
}

// get asks for a path and decodes the answer into result. The status it returns
// is 200 or 417, which is how /lag_status says that the node lags.
func (c *Client) get(ctx context.Context, path string, query url.Values, result any) (int, error) {
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("cannot ask %s: %w", target.Redacted(), err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, fmt.Errorf("cannot ask seid: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return 0, fmt.Errorf("the answer of %s broke off: %w", target.Redacted(), err)
	}
	if len(body) > maxBody {
		return 0, fmt.Errorf("the answer of %s is larger than %d bytes", target.Redacted(), maxBody)
	}
	ok := response.StatusCode == http.StatusOK || response.StatusCode == http.StatusExpectationFailed
	err = decodeAnswer(body, result)
	if refusal, isRPC := errors.AsType[*RPCError](err); isRPC {
		return 0, refusal
	}
	if !ok {
		return 0, &HTTPError{URL: target.Redacted(), StatusCode: response.StatusCode}
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w: %w", target.Redacted(), ErrIncomplete, err)
	}
	return response.StatusCode, nil
}

// decodeAnswer takes both shapes: the bare result or error that seid answers a GET
// with, and the JSON-RPC envelope of a POST, of other nodes and of proxies.
func decodeAnswer(body []byte, result any) error {
	var envelope struct {
		Version *string         `json:"jsonrpc"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
		Code    json.RawMessage `json:"code"`
		Message json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return err
	}
	switch {
	case envelope.Version != nil && present(envelope.Error):
		return decodeError(envelope.Error)
	case envelope.Version != nil:
		if !present(envelope.Result) {
			return errors.New("there is neither a result nor an error in it")
		}
		return json.Unmarshal(envelope.Result, result)
	case present(envelope.Code) && present(envelope.Message):
		return decodeError(body)
	default:
		return json.Unmarshal(body, result)
	}
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// decodeError never fails: an error in an odd shape is still an error.
func decodeError(raw []byte) *RPCError {
	var body struct {
		Code    wireInt
		Message string
		Data    json.RawMessage
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return &RPCError{Message: string(raw)}
	}
	out := &RPCError{Code: int64(body.Code), Message: body.Message}
	if present(body.Data) && json.Unmarshal(body.Data, &out.Data) != nil {
		out.Data = string(body.Data)
	}
	return out
}

// wireInt is a 64-bit integer as Tendermint writes it: in a string, because
// JavaScript would round it. Some fields and some versions write a number.
type wireInt int64

func (i *wireInt) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(raw) > 1 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is no integer", raw)
	}
	*i = wireInt(value)
	return nil
}
