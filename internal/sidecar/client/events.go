package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Bounds of what is read of a stream.
const (
	maxLine  = 64 << 10
	maxEvent = 1 << 20
)

var (
	// ErrStreamEnded means that the sidecar ended the stream: it shuts down, or we
	// were too slow. Connect again with the id of the last event.
	ErrStreamEnded = errors.New("the sidecar ended the stream of events")
	// ErrStreamSilent means that not even heartbeats came any more.
	ErrStreamSilent = errors.New("the stream of events went silent")
	// ErrStreamMalformed means that what came was not a stream of events.
	ErrStreamMalformed = errors.New("the stream of events is malformed")
)

// Event is a change of the node. Kinds that are not known have to be ignored; on
// api.EventReset everything has to be read anew.
type Event struct {
	ID   string
	Kind api.EventKind
	Data json.RawMessage
}

// Events connects and yields events until the connection or the context ends, and
// the last thing it yields is why: an *Error if the sidecar refused. It does not
// connect again by itself; the id of the last event makes the next call go on
// behind it.
func (c *Client) Events(ctx context.Context, lastID string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		idle := time.AfterFunc(c.opts.IdleTimeout, func() { cancel(ErrStreamSilent) })
		defer idle.Stop()

		err := c.stream(ctx, lastID, func() { idle.Reset(c.opts.IdleTimeout) }, func(e Event) bool { return yield(e, nil) })
		if err == nil {
			return
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		yield(Event{}, err)
	}
}

// stream returns nil when yield wants no more.
func (c *Client) stream(ctx context.Context, lastID string, alive func(), yield func(Event) bool) error {
	response, err := c.api.StreamEvents(ctx, &api.StreamEventsParams{LastEventID: lastID})
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxLine))
		return asError(response.StatusCode, body)
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("%w: its type is %q", ErrStreamMalformed, kind)
	}
	events := newParser(response.Body)
	for {
		event, err := events.next(alive)
		if err != nil {
			return err
		}
		if !yield(event) {
			return nil
		}
	}
}

// parser reads server-sent events.
type parser struct {
	lines *bufio.Reader
}

// usualLine is more than nearly every line has. An operator keeps a stream open for
// every node, so a buffer for the longest line would cost it 64 KiB each.
const usualLine = 1 << 10

func newParser(r io.Reader) *parser {
	return &parser{lines: bufio.NewReaderSize(r, usualLine)}
}

// line returns the next line with its end. It is valid until the next call.
func (p *parser) line() ([]byte, error) {
	line, err := p.lines.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	var long []byte
	for errors.Is(err, bufio.ErrBufferFull) {
		if long = append(long, line...); len(long) >= maxLine {
			return nil, fmt.Errorf("%w: a line has more than %d bytes", ErrStreamMalformed, maxLine)
		}
		line, err = p.lines.ReadSlice('\n')
	}
	return append(long, line...), err
}

// next returns the next event. It calls alive for every line, comments included.
func (p *parser) next(alive func()) (Event, error) {
	var e Event
	var data []byte
	for {
		line, err := p.line()
		switch {
		case errors.Is(err, io.EOF):
			// What was begun and not ended is not an event.
			return Event{}, ErrStreamEnded
		case err != nil:
			return Event{}, err
		}
		alive()
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if data == nil {
				e = Event{} // nothing to tell, for example after a comment
				continue
			}
			if !json.Valid(data) {
				return Event{}, fmt.Errorf("%w: the data of %q is not JSON", ErrStreamMalformed, e.Kind)
			}
			e.Data = data
			return e, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			e.ID = string(value)
		case "event":
			e.Kind = api.EventKind(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			if data = append(data, value...); data == nil {
				data = []byte{}
			}
			if len(data) > maxEvent {
				return Event{}, fmt.Errorf("%w: an event has more than %d bytes", ErrStreamMalformed, maxEvent)
			}
		}
	}
}
