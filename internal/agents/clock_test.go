package agents

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// stage is what a test with a clock of its own plays on.
type stage struct {
	*testing.T
	sidecar *script
	fleet   *rig
}

// play runs a test in which time passes only when everybody waits: a scripted
// sidecar, and a fleet that follows it.
func play(t *testing.T, test func(stage)) {
	t.Helper()
	playWith(t, func(*script) {}, test)
}

// playWith sets the sidecar up before anybody follows it.
func playWith(t *testing.T, setUp func(*script), test func(stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n, s := &network{}, newScript()
		setUp(s)
		address, end := n.serve("alpha", s)
		defer end()
		r := newRig(t, n.transport())
		defer r.end()
		r.Follow(target(alpha, address))
		test(stage{T: t, sidecar: s, fleet: r})
	})
}

// pass lets time pass.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestOnlyChangesThatMatterWake(t *testing.T) {
	play(t, func(t stage) {
		s, r := t.sidecar, t.fleet
		synctest.Wait()
		if view := r.View(alpha); !view.Connected || view.Problem != "" || r.woken() != 1 {
			t.Fatalf("the view of a sidecar that answers at once is %+v", view)
		}
		s.set(func(status *api.Status) { status.SignHeight = new(int64(7)) })
		s.events <- "seid"
		synctest.Wait()
		if view := r.View(alpha); view.Status.SignHeight == nil || *view.Status.SignHeight != 7 || r.woken() != 0 {
			t.Errorf("a signed block woke somebody, or is not seen: %+v", view)
		}
		s.set(func(status *api.Status) { status.Approved = true })
		s.events <- "approval"
		synctest.Wait()
		if view := r.View(alpha); !view.Status.Approved || r.woken() != 1 {
			t.Errorf("an approval woke nobody, or is not seen: %+v", view)
		}
		s.events <- "task"
		synctest.Wait()
		if r.woken() != 1 {
			t.Error("a changed task woke nobody")
		}
		s.events <- "of-a-later-version"
		synctest.Wait()
		if r.woken() != 0 {
			t.Error("an event without a change woke somebody")
		}
	})
}

func TestWhoIsWokenForATaskSeesWhatItDid(t *testing.T) {
	play(t, func(t stage) {
		s, r := t.sidecar, t.fleet
		synctest.Wait()
		r.woken()
		release := s.hang("/v0/status")
		s.events <- "task"
		synctest.Wait()
		if r.woken() != 0 {
			t.Error("somebody was woken who would have seen the old status")
		}
		s.set(func(status *api.Status) { status.Approved = true })
		release()
		synctest.Wait()
		if r.woken() != 1 || !r.View(alpha).Status.Approved {
			t.Error("nobody was woken once")
		}
	})
}

func TestABurstOfEventsCostsTwoReads(t *testing.T) {
	play(t, func(t stage) {
		s := t.sidecar
		synctest.Wait()
		before, _ := s.counts()
		release := s.hang("/v0/status")
		for range 100 {
			s.events <- "task"
		}
		synctest.Wait()
		if reads, _ := s.counts(); reads != before+1 {
			t.Errorf("%d reads are in flight", reads-before)
		}
		release()
		synctest.Wait()
		if reads, _ := s.counts(); reads != before+2 {
			t.Errorf("a burst cost %d reads", reads-before)
		}
	})
}

func TestWhatHasNoEventIsPolled(t *testing.T) {
	half := func(s *script) {
		s.set(func(status *api.Status) { status.FreeBytes, status.TotalBytes = 500, 1000 })
	}
	playWith(t, half, func(t stage) {
		s, r := t.sidecar, t.fleet
		synctest.Wait()
		r.woken()
		s.set(func(status *api.Status) { status.FreeBytes = 400 })
		before, _ := s.counts()
		pass(time.Hour)
		reads, streams := s.counts()
		if reads -= before; reads < 60 || reads > 80 || streams != 1 {
			t.Errorf("%d reads on %d streams in an hour", reads, streams)
		}
		if free := r.View(alpha).Status.FreeBytes; free != 400 || r.woken() != 0 {
			t.Errorf("%d bytes are free, or a disk with room woke somebody", free)
		}
		s.set(func(status *api.Status) { status.FreeBytes = 99 })
		pass(pollEvery)
		if r.View(alpha).Status.FreeBytes != 99 || r.woken() != 1 {
			t.Error("a disk that is nearly full woke nobody")
		}
	})
}

func TestAWedgedSidecarIsNotConnected(t *testing.T) {
	for _, path := range []string{"/v0/events", "/v0/status"} {
		var release func()
		playWith(t, func(s *script) { release = s.hang(path) }, func(t stage) {
			r := t.fleet
			synctest.Wait()
			if view := r.View(alpha); view.Connected || view.Problem != problemNew {
				t.Errorf("%s hangs, and before the time is over the view is %+v", path, view)
			}
			pass(5 * time.Second)
			want := "the sidecar accepts connections and does not answer"
			if view := r.View(alpha); view.Connected || view.Problem != want || view.PodUID != "pod-alpha" {
				t.Errorf("%s hangs, and the view is %+v", path, view)
			}
			pass(time.Hour)
			if view := r.View(alpha); view.Connected || view.Problem != want || r.woken() != 1 {
				t.Errorf("%s hangs for an hour, and the view is %+v", path, view)
			}
			release()
			pass(maxPause + 5*time.Second)
			if view := r.View(alpha); !view.Connected || view.Problem != "" || r.woken() != 1 {
				t.Errorf("%s answers again, and the view is %+v", path, view)
			}
		})
	}
}

func TestPausesBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Time
		n := &network{}
		address, end := n.serve("alpha", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			attempts = append(attempts, time.Now())
			w.WriteHeader(http.StatusBadGateway)
		}))
		defer end()
		r := newRig(t, n.transport())
		defer r.end()
		r.Follow(target(alpha, address))
		pass(3 * time.Minute)
		want := firstPause
		for i := 1; i < len(attempts); i++ {
			if pause := attempts[i].Sub(attempts[i-1]); pause > want || pause < want*3/4 {
				t.Errorf("pause %d is %s, want at most %s", i, pause, want)
			}
			want = min(2*want, maxPause)
		}
		if len(attempts) < 15 || r.woken() != 1 {
			t.Errorf("%d attempts", len(attempts))
		}
	})
}

func TestPausesStartAnewAfterAConnectionThatLived(t *testing.T) {
	play(t, func(t stage) {
		s, r := t.sidecar, t.fleet
		// reconnect breaks the connection and returns how long it took to come back.
		reconnect := func() time.Duration {
			begin := time.Now()
			s.breakStreams()
			r.until(t, alpha, "the end of the connection", func(v View) bool { return !v.Connected })
			r.until(t, alpha, "a connection", isConnected)
			return time.Since(begin)
		}
		synctest.Wait()
		var took time.Duration
		for range 5 {
			took = reconnect()
		}
		if took < 8*firstPause {
			t.Errorf("a sidecar that breaks every connection at once is asked again after %s", took)
		}
		pass(longLived + time.Second)
		if took := reconnect(); took > firstPause {
			t.Errorf("after a long connection it took %s", took)
		}
	})
}

func TestACallThatIsNotAnsweredDelaysOneCallerOnce(t *testing.T) {
	id := uuid.New()
	for name, call := range map[string]struct {
		path string
		do   func(context.Context, *rig) error
		want time.Duration
	}{
		"submit": {"/v0/tasks", func(ctx context.Context, r *rig) error {
			return r.Submit(ctx, alpha, api.TaskRequest{ID: id, Type: "mark-ready"})
		}, 5 * time.Second},
		"task": {"/v0/tasks/" + id.String(), func(ctx context.Context, r *rig) error {
			_, err := r.Task(ctx, alpha, id, 20*time.Second)
			return err
		}, 25 * time.Second},
		"refresh": {"/v0/status", func(ctx context.Context, r *rig) error {
			view, err := r.Refresh(ctx, alpha)
			if view.Connected {
				return errors.New("the view is still connected")
			}
			return err
		}, 5 * time.Second},
	} {
		play(t, func(t stage) {
			s, r := t.sidecar, t.fleet
			synctest.Wait()
			release := s.hang(call.path)
			defer release()
			begin := time.Now()
			if err := call.do(t.Context(), r); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != call.want {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
			begin = time.Now()
			if err := call.do(t.Context(), r); !errors.Is(err, ErrNotConnected) || time.Since(begin) != 0 {
				t.Errorf("%s, the next one: after %s: %v", name, time.Since(begin), err)
			}
		})
	}
}

func TestALateDeletionIsNoProofAgainstTheSidecar(t *testing.T) {
	play(t, func(t stage) {
		s, r := t.sidecar, t.fleet
		id := uuid.New()
		synctest.Wait()
		defer s.hang("/v0/tasks/" + id.String())()
		if err := r.Delete(t.Context(), alpha, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended with %v", err)
		}
		pass(10 * time.Second)
		if !r.View(alpha).Connected {
			t.Error("the sidecar waits for a task to end, and is thought to be dead")
		}
		// A sidecar that answers nothing at all is found out without another caller.
		defer s.hang("/v0/status")()
		_ = r.Delete(t.Context(), alpha, id)
		pass(5 * time.Second)
		if r.View(alpha).Connected {
			t.Error("the sidecar answers nothing, and is thought to be connected")
		}
	})
}

func TestACallerWhoGivesUpBlamesNobody(t *testing.T) {
	play(t, func(t stage) {
		s, r := t.sidecar, t.fleet
		synctest.Wait()
		defer s.hang("/v0/tasks")()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Submit(ctx, alpha, api.TaskRequest{ID: uuid.New(), Type: "mark-ready"})
		if !errors.Is(err, context.DeadlineExceeded) || !r.View(alpha).Connected {
			t.Errorf("%v, and the view is %+v", err, r.View(alpha))
		}
	})
}

func TestACallEndsWithItsConnection(t *testing.T) {
	for name, lose := range map[string]func(*script, *rig){
		"the stream breaks":     func(s *script, _ *rig) { s.breakStreams() },
		"the node is forgotten": func(_ *script, r *rig) { r.Forget(alpha) },
		"another pod comes": func(_ *script, r *rig) {
			next := target(alpha, "http://elsewhere")
			next.PodUID = "pod-2"
			r.Follow(next)
		},
	} {
		play(t, func(t stage) {
			s, r := t.sidecar, t.fleet
			id := uuid.New()
			synctest.Wait()
			defer s.hang("/v0/tasks/" + id.String())()
			begin, ended := time.Now(), make(chan error, 1)
			go func() {
				_, err := r.Task(t.Context(), alpha, id, 30*time.Second)
				ended <- err
			}()
			synctest.Wait()
			lose(s, r)
			if err := <-ended; !errors.Is(err, errLost) || time.Since(begin) != 0 {
				t.Errorf("%s: after %s: %v", name, time.Since(begin), err)
			}
		})
	}
}

func TestASilentStreamIsNotConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		address, end := n.serve("alpha", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v0/status" {
				_, _ = w.Write([]byte("{}"))
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("event: reset\ndata: {}\n\n"))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		defer end()
		r := newRig(t, n.transport())
		defer r.end()
		r.Follow(target(alpha, address))
		synctest.Wait()
		if !r.View(alpha).Connected {
			t.Fatal("it is not connected")
		}
		<-time.After(45 * time.Second)
		synctest.Wait()
		if view := r.View(alpha); view.Connected || view.Problem != "the sidecar went silent; the pod may be on an unreachable node" {
			t.Errorf("without heartbeats the view is %+v", view)
		}
	})
}

// The rule that everything here is for.
func TestOneBlackHoleSlowsNothingButItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		r := newRig(t, n.transport())
		defer r.end()
		black, wedged := types.NamespacedName{Name: "black"}, types.NamespacedName{Name: "wedged"}
		r.Follow(target(black, "http://black-hole"))
		hanging := newScript()
		defer hanging.hang("/v0/events")()
		address, end := n.serve("wedged", hanging)
		defer end()
		r.Follow(target(wedged, address))
		var others []types.NamespacedName
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			address, end := n.serve(name, newScript())
			defer end()
			others = append(others, types.NamespacedName{Name: name})
			r.Follow(target(others[len(others)-1], address))
		}
		synctest.Wait()
		begin := time.Now()
		for _, node := range slices.Concat([]types.NamespacedName{black, wedged}, others) {
			err := r.Submit(t.Context(), node, api.TaskRequest{ID: uuid.New(), Type: "mark-ready"})
			if answers := slices.Contains(others, node); answers != (err == nil) || !answers && !errors.Is(err, ErrNotConnected) {
				t.Errorf("%s: %v", node.Name, err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("all calls together took %s", took)
		}
	})
}
