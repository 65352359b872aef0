package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// StreamEvents tells of changes as they happen. A reader that cannot keep up is cut
// off, and begins anew when it comes back.
func (s *Server) StreamEvents(w http.ResponseWriter, r *http.Request, params api.StreamEventsParams) {
	from := ""
	if s.opts.AccessControl {
		from = caller(r)
	}
	if full := s.readers.enter(from); full != "" {
		refuse(w, http.StatusServiceUnavailable, api.ReasonTooManyStreams, true, full)
		return
	}
	defer s.readers.leave(from)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	stream := stream{w: w, control: http.NewResponseController(w), stall: s.opts.StallTimeout}

	place, ok := s.opts.Bus.resume(params.LastEventID)
	if !ok {
		stream.add(s.opts.Bus.id(place), event{kind: api.EventReset, data: []byte("{}")})
	}
	beat := s.opts.Clock.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		events, more, ok := s.opts.Bus.after(place)
		if !ok {
			return
		}
		for _, e := range events {
			place++
			stream.add(s.opts.Bus.id(place), e)
		}
		if stream.flush() != nil {
			return
		}
		select {
		case <-more:
		case <-beat.C():
			stream.buffer.WriteString(":\n\n")
		case <-s.stopping:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// stream writes events to one reader.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	buffer  bytes.Buffer
}

// add puts an event into the buffer. The data is JSON and so has no line breaks.
func (s *stream) add(id string, e event) {
	fmt.Fprintf(&s.buffer, "id: %s\nevent: %s\ndata: %s\n\n", id, e.kind, e.data)
}

// flush sends the buffer, also an empty one: the reader waits for the headers.
func (s *stream) flush() error {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.stall))
	if _, err := s.w.Write(s.buffer.Bytes()); err != nil {
		return err
	}
	s.buffer.Reset()
	return s.control.Flush()
}

// watcher notes how things are now, and returns what publishes every change of it.
func (s *Server) watcher() func(context.Context) {
	consentChanged, nodeChanged := s.opts.Consent.Changed(), s.opts.Node.Changed()
	told := map[api.EventKind][]byte{}
	look := func(publish bool) {
		state, node := s.opts.Consent.State(), s.opts.Node.Node()
		for _, now := range []event{
			{api.EventApproval, encode(approvalOf(state))},
			{api.EventHold, encode(holdOf(state))},
			{api.EventSeid, encode(node.Seid)},
			{api.EventUpgrade, encode(node.Upgrade)},
		} {
			if publish && !bytes.Equal(told[now.kind], now.data) {
				s.opts.Bus.publish(now.kind, now.data)
			}
			told[now.kind] = now.data
		}
	}
	look(false)
	return func(ctx context.Context) {
		for {
			select {
			case <-consentChanged:
				consentChanged = s.opts.Consent.Changed()
			case <-nodeChanged:
				nodeChanged = s.opts.Node.Changed()
			case <-ctx.Done():
				return
			}
			look(true)
		}
	}
}
