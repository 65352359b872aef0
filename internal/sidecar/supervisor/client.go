package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lookAfter is how often a client that has lost its supervisor looks for the
	// socket of the next one. Looking costs one system call, connecting a hundred
	// times as much; so it connects only to a socket that it has not tried, or
	// when retryAfter has passed. Watching the directory would cost nothing while
	// nothing happens, but the kernel's watches are few and shared by all pods of a
	// user id.
	lookAfter  = 50 * time.Millisecond
	retryAfter = time.Second
	// maxState bounds an answer.
	maxState = 1 << 20
)

// Client talks to a supervisor. It holds no connection between calls, so it
// needs no closing and survives supervisors.
type Client struct {
	socket string
	http   *http.Client
}

// NewClient makes a client for a socket. Nobody needs to listen there yet.
func NewClient(socket string) *Client {
	var dialer net.Dialer
	c := NewClientOver(func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "unix", socket) })
	c.socket = socket
	return c
}

// NewClientOver makes a client that reaches its supervisor in another way. It looks for
// the next one only every retryAfter.
func NewClientOver(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{http: &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}}}
}

// State asks for the state.
func (c *Client) State(ctx context.Context) (State, error) {
	return c.call(ctx, http.MethodGet, "/state", nil)
}

// Start makes seid run. It does nothing when seid runs.
func (c *Client) Start(ctx context.Context, request StartRequest) (State, error) {
	return c.call(ctx, http.MethodPost, "/start", request)
}

// Stop makes seid not run, and returns when it has ended. A stop that has
// signalled goes on when the context ends.
func (c *Client) Stop(ctx context.Context, request StopRequest) (State, error) {
	return c.call(ctx, http.MethodPost, "/stop", request)
}

// Restart makes another seid run, and returns when it was started. A restart
// that has signalled goes on when the context ends.
func (c *Client) Restart(ctx context.Context, request RestartRequest) (State, error) {
	return c.call(ctx, http.MethodPost, "/restart", request)
}

// Watch gives the state, and again whenever it changed, for as long as the
// context lives and the caller wants more. When no supervisor answers it gives an
// error, once, and goes on with the next supervisor as soon as there is one.
func (c *Client) Watch(ctx context.Context) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		for told := false; ; {
			tried := c.look()
			err := c.follow(ctx, func(state State) bool {
				told = false
				return yield(state, nil)
			})
			if err == nil || ctx.Err() != nil {
				return // The caller has had enough.
			}
			if !told && !yield(State{}, err) {
				return
			}
			told = true
			if !c.awaitNext(ctx, tried) {
				return
			}
		}
	}
}

// socketStamp tells one supervisor's socket from the next one's.
type socketStamp struct {
	inode uint64
	time  unix.Timespec
}

func (c *Client) look() socketStamp {
	var info unix.Stat_t
	if unix.Lstat(c.socket, &info) != nil {
		return socketStamp{}
	}
	return socketStamp{inode: info.Ino, time: info.Mtim}
}

// awaitNext waits until connecting is worth another try. It gives up with the
// context.
func (c *Client) awaitNext(ctx context.Context, tried socketStamp) bool {
	retry := time.After(retryAfter)
	ticker := time.NewTicker(lookAfter)
	defer ticker.Stop()
	for {
		if found := c.look(); found != tried && found != (socketStamp{}) {
			return true
		}
		select {
		case <-ticker.C:
		case <-retry:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// follow reads one watch to its end, which is an error, or until the caller has
// had enough.
func (c *Client) follow(ctx context.Context, yield func(State) bool) error {
	response, err := c.send(ctx, http.MethodGet, "/watch", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return failure(response)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxState)
	for lines.Scan() {
		var state State
		if err := json.Unmarshal(lines.Bytes(), &state); err != nil {
			return unreachable(fmt.Errorf("the supervisor answered nonsense: %w", err))
		}
		if !yield(state) {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return unreachable(err)
	}
	return unreachable(io.EOF)
}

func (c *Client) call(ctx context.Context, method, path string, request any) (State, error) {
	response, err := c.send(ctx, method, path, request)
	if err != nil {
		return State{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return State{}, failure(response)
	}
	var state State
	if err := json.NewDecoder(io.LimitReader(response.Body, maxState)).Decode(&state); err != nil {
		return State{}, unreachable(err)
	}
	return state, nil
}

func (c *Client) send(ctx context.Context, method, path string, request any) (*http.Response, error) {
	var body bytes.Buffer
	if request != nil {
		if err := json.NewEncoder(&body).Encode(request); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://supervisor"+path, &body)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, unreachable(err)
	}
	return response, nil
}

// failure is the typed error of an answer.
func failure(response *http.Response) error {
	var e Error
	if err := json.NewDecoder(io.LimitReader(response.Body, maxState)).Decode(&e); err != nil || e.Reason == "" {
		return unreachable(fmt.Errorf("the supervisor answered HTTP %d", response.StatusCode))
	}
	return &e
}

func unreachable(err error) *Error {
	return &Error{Reason: ReasonUnreachable, Message: fmt.Sprintf("no answer from the supervisor: %v", err), cause: err}
}
