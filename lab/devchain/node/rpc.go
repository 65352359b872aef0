package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// maxRequest bounds a request, as seid does.
const maxRequest = 1000000

// front is the RPC as seid has it, in front of that of the engine: a GET is answered
// with the bare result, and an error with HTTP 200; a POST with an envelope.
type front struct {
	facts  *facts
	client *http.Client
	proxy  *httputil.ReverseProxy
	server *http.Server
}

// engineURL is where the engine's RPC is; the transport knows better.
var engineURL = &url.URL{Scheme: "http", Host: "engine"}

func newFront(engineSocket string, f *facts) *front {
	path := strings.TrimPrefix(engineSocket, "unix://")
	transport := flat{&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "unix", path)
	}}}
	r := &front{facts: f, client: &http.Client{Transport: transport}}
	f.ask = r.ask
	r.proxy = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(engineURL) },
	}
	r.server = &http.Server{Handler: r, ReadTimeout: 10 * time.Second, ReadHeaderTimeout: 10 * time.Second}
	return r
}

func (r *front) listen(address string) error {
	listener, err := listenTCP(address)
	if err != nil {
		return err
	}
	go func() { _ = r.server.Serve(listener) }()
	return nil
}

// listenTCP takes addresses with and without a scheme.
func listenTCP(address string) (net.Listener, error) {
	_, host, found := strings.Cut(address, "://")
	if !found {
		host = address
	}
	return net.Listen("tcp", host) //nolint:noctx // it listens for as long as the process lives
}

// rpcError is an error as JSON-RPC has it.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data,omitempty"`
}

func (e *rpcError) Error() string { return e.Message + ": " + e.Data }

// answer is what a method of our own says: a status of HTTP, and a body.
type answer func(context.Context) (int, any, error)

// own are the methods that seid answers otherwise than the engine does.
func (r *front) own(method string) answer {
	switch method {
	case "status":
		return r.facts.status
	case "lag_status":
		return r.facts.lagStatus
	case "net_info":
		return r.facts.netInfo
	case "abci_info":
		return r.facts.abciInfo
	default:
		return nil
	}
}

func (r *front) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch {
	case request.URL.Path == "/websocket":
		r.proxy.ServeHTTP(w, request)
	case request.Method == http.MethodPost:
		r.post(w, request)
	default:
		r.get(w, request)
	}
}

func (r *front) get(w http.ResponseWriter, request *http.Request) {
	code := http.StatusOK
	var body any
	var err error
	if own := r.own(strings.Trim(request.URL.Path, "/")); own != nil {
		code, body, err = own(request.Context())
	} else {
		body, err = r.ask(request.Context(), request.URL.Path, request.URL.RawQuery)
	}
	if unknown, is := err.(notFound); is { //nolint:errorlint // never wrapped
		http.Error(w, string(unknown), http.StatusNotFound)
		return
	}
	if err != nil {
		code, body = http.StatusOK, flatError(err)
	}
	writeJSON(w, code, body)
}

func flatError(err error) *rpcError {
	if refused, is := err.(*rpcError); is { //nolint:errorlint // never wrapped
		return refused
	}
	return &rpcError{Code: -32603, Message: "Internal error", Data: err.Error()}
}

func writeJSON(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// notFound is a path that the engine does not know.
type notFound string

func (notFound) Error() string { return "404 page not found" }

// ask asks the engine and takes the answer out of its envelope.
func (r *front) ask(ctx context.Context, path, query string) (json.RawMessage, error) {
	target := *engineURL
	target.Path, target.RawQuery = path, query
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	err = json.Unmarshal(body, &envelope)
	switch {
	case response.StatusCode == http.StatusNotFound, path != "/" && err != nil:
		return nil, notFound("404 page not found")
	case err != nil:
		return nil, err
	case envelope.Error != nil:
		return nil, envelope.Error
	default:
		return envelope.Result, nil
	}
}

// post answers what seid answers otherwise, and leaves the rest to the engine.
func (r *front) post(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxRequest))
	if err != nil {
		http.Error(w, fmt.Sprintf("cannot read the request: %v", err), http.StatusBadRequest)
		return
	}
	var call struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &call) == nil {
		if own := r.own(call.Method); own != nil {
			envelope := map[string]any{"jsonrpc": "2.0", "id": call.ID}
			if _, result, err := own(request.Context()); err != nil {
				envelope["error"] = flatError(err)
			} else {
				envelope["result"] = result
			}
			writeJSON(w, http.StatusOK, envelope)
			return
		}
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	request.ContentLength = int64(len(body))
	r.proxy.ServeHTTP(w, request)
}
