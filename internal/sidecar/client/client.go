// Package client is how the operator talks to the sidecar of one node.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// maxAnswer is more than any answer of a sidecar has.
const maxAnswer = 32 << 20

// Error is a refusal by a sidecar, or by something that answers in its place.
type Error struct {
	StatusCode int
	Reason     string // CamelCase; "UnexpectedAnswer" if it was not a sidecar that spoke
	Message    string
	Retryable  bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("the sidecar answered %d %s: %s", e.StatusCode, e.Reason, e.Message)
}

// NotFound tells whether a sidecar said that there is no such task.
func NotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.StatusCode == http.StatusNotFound && e.Reason == api.ReasonNotFound
}

// Reason returns the reason in an error of a sidecar, and "" for any other error.
func Reason(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

// Options make a client.
type Options struct {
	// BaseURL is where the sidecar is, for example http://10.0.0.7:7777.
	BaseURL string
	// HTTPClient sends the calls. Its Timeout has to be 0, or it ends the events.
	HTTPClient *http.Client
	// NodeUID is that of the SeiNode that is meant; a sidecar of another refuses.
	NodeUID string
	// Timeout bounds a call whose context has no deadline; default 10 s.
	Timeout time.Duration
	// IdleTimeout is how long events may be silent, heartbeats included, before the
	// connection counts as dead; default 45 s, that is three heartbeats.
	IdleTimeout time.Duration
}

// Client talks to one sidecar. It is safe for concurrent use.
type Client struct {
	opts Options
	api  *api.Client
}

// New makes a client.
func New(o Options) (*Client, error) {
	if o.BaseURL == "" || o.HTTPClient == nil || o.NodeUID == "" {
		return nil, errors.New("a client of a sidecar needs its address, an HTTP client and the uid of the node")
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 45 * time.Second
	}
	generated, err := api.NewClient(o.BaseURL, api.WithHTTPClient(o.HTTPClient), api.WithRequestEditorFn(
		func(_ context.Context, r *http.Request) error {
			r.Header.Set(api.NodeUIDHeader, o.NodeUID)
			r.Header.Set(api.ActionHeader, api.ActionRead)
			return nil
		}))
	if err != nil {
		return nil, err
	}
	return &Client{opts: o, api: generated}, nil
}

// Submit starts a task, or joins the one with the same id, and returns the id.
func (c *Client) Submit(ctx context.Context, request api.TaskRequest) (uuid.UUID, error) {
	submitted, err := call[api.TaskSubmitted](ctx, c, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.SubmitTask(ctx, &api.SubmitTaskParams{XSeiNodeUID: c.opts.NodeUID}, request, acts(request.Type))
	})
	return submitted.ID, err
}

// Get returns a task as it is now.
func (c *Client) Get(ctx context.Context, id uuid.UUID) (api.TaskResult, error) {
	return c.Wait(ctx, id, 0)
}

// Wait returns a task when it has ended, or as it is after the wait. The sidecar
// bounds the wait at a minute.
func (c *Client) Wait(ctx context.Context, id uuid.UUID, wait time.Duration) (api.TaskResult, error) {
	params := &api.GetTaskParams{}
	if wait > 0 {
		params.Wait = wait.String()
	}
	return call[api.TaskResult](ctx, c, wait, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetTask(ctx, id, params)
	})
}

// List returns the newest tasks, newest first.
func (c *Client) List(ctx context.Context) ([]api.TaskResult, error) {
	return call[[]api.TaskResult](ctx, c, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.ListTasks(ctx, &api.ListTasksParams{})
	})
}

// acts says what a call does, if it does more than read.
func acts(taskType string) api.RequestEditorFn {
	return func(_ context.Context, r *http.Request) error {
		r.Header.Set(api.ActionHeader, taskType)
		return nil
	}
}

// Delete cancels a task and has it forgotten.
func (c *Client) Delete(ctx context.Context, id uuid.UUID) error {
	// Who may cancel depends on what is cancelled, so that has to be said.
	task, err := c.Get(ctx, id)
	if err != nil {
		return err
	}
	// The sidecar waits a while for the task to end before it answers.
	_, err = call[none](ctx, c, 10*time.Second, func(ctx context.Context) (*http.Response, error) {
		return c.api.DeleteTask(ctx, id, &api.DeleteTaskParams{XSeiNodeUID: c.opts.NodeUID}, acts(task.Type))
	})
	return err
}

// Status returns everything the sidecar knows.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return call[api.Status](ctx, c, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetStatus(ctx, &api.GetStatusParams{})
	})
}

// NodeID returns the p2p identity of the node.
func (c *Client) NodeID(ctx context.Context) (string, error) {
	answer, err := call[api.NodeID](ctx, c, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetNodeID(ctx, &api.GetNodeIDParams{})
	})
	return answer.NodeID, err
}

// Healthz returns nil when seid may run. Otherwise the reason of the *Error is Held
// or NotApproved.
func (c *Client) Healthz(ctx context.Context) error {
	_, err := call[none](ctx, c, 0, func(ctx context.Context) (*http.Response, error) {
		return c.api.GetHealthz(ctx, &api.GetHealthzParams{})
	})
	return err
}

// none is an answer without a body.
type none struct{}

// call sends a request and reads the answer, within a time that is always bounded.
func call[T any](ctx context.Context, c *Client, extra time.Duration, send func(context.Context) (*http.Response, error)) (T, error) {
	var value T
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opts.Timeout+extra)
		defer cancel()
	}
	response, err := send(ctx)
	if err != nil {
		return value, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return value, fmt.Errorf("read the answer of the sidecar: %w", err)
	}
	if len(body) > maxAnswer {
		return value, fmt.Errorf("the answer of the sidecar has more than %d bytes", maxAnswer)
	}
	if response.StatusCode/100 != 2 {
		return value, asError(response.StatusCode, body)
	}
	if _, empty := any(value).(none); empty {
		return value, nil
	}
	if err := json.Unmarshal(body, &value); err != nil {
		return value, fmt.Errorf("the answer of the sidecar is not understood: %w", err)
	}
	return value, nil
}

// asError reads a refusal. What is not one of a sidecar comes from something between
// us and it, and then only the status is known.
func asError(status int, body []byte) *Error {
	var said api.Error
	if json.Unmarshal(body, &said) == nil && said.Reason != "" {
		return &Error{StatusCode: status, Reason: said.Reason, Message: said.Error, Retryable: said.Retryable}
	}
	text := strings.ToValidUTF8(string(body[:min(len(body), 200)]), "?")
	return &Error{
		StatusCode: status, Reason: "UnexpectedAnswer", Message: strings.TrimSpace(text),
		Retryable: status >= 500 || status == http.StatusTooManyRequests,
	}
}
