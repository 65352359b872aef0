package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestATaskIsKeptAsItIs(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	want := put(t, s, Task{
		Type: "a", Status: Failed, Run: 3, Error: "e", Reason: "R", Retryable: true,
		// Numbers that a float64 does not hold, and characters that JSON in HTML escapes.
		Params:      raw(`{"height":9007199254740993,"wei":123456789012345678901234567890,"text":"<&>"}`),
		Result:      raw(`{"exact":0.1000000000000000000001}`),
		SubmittedAt: time.Unix(1, 1).UTC(), StartedAt: time.Unix(2, 2).UTC(), CompletedAt: time.Now().UTC().Round(0), Deadline: time.Unix(4, 4).UTC(),
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(want.ID); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a closed store answered %v", err)
	}

	got, err := open(t, dir, Options{}).Get(want.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another task came back (-want +got):\n%s", diff)
	}
}

func TestTasksKeepTheOrderOfSubmission(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var all []Task
	for range 5 {
		all = append(all, put(t, s, Task{Status: Running, Run: 1}))
	}
	all[1].Status = Completed
	put(t, s, all[1])
	// A new run is a new submission.
	all[2].Seq, all[2].Run = 0, 2
	put(t, s, all[2])
	if err := s.Delete(all[0].ID); err != nil {
		t.Fatal(err)
	}

	unfinished, err := s.Unfinished()
	if err != nil {
		t.Fatal(err)
	}
	if want := []uuid.UUID{all[3].ID, all[4].ID, all[2].ID}; !slices.Equal(ids(unfinished), want) {
		t.Errorf("unfinished: %v, want %v", ids(unfinished), want)
	}
	newest, err := s.List(3)
	if err != nil {
		t.Fatal(err)
	}
	if want := []uuid.UUID{all[2].ID, all[4].ID, all[3].ID}; !slices.Equal(ids(newest), want) {
		t.Errorf("list: %v, want %v", ids(newest), want)
	}
	if _, err := s.Get(all[0].ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted task: %v", err)
	}
	if err := s.Delete(all[0].ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestAListOfLargeTasksIsShort(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	large := raw(`{"x":"` + strings.Repeat("x", maxListBytes/2-100) + `"}`)
	for range 4 {
		put(t, s, Task{Status: Running, Run: 1, Params: large})
	}
	found, err := s.List(100)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Errorf("%d large tasks in a list, want 2", len(found))
	}
}

func TestACheckpointGoesWithItsRun(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	task := put(t, s, Task{Status: Running, Run: 1})
	load := func(run int) string {
		t.Helper()
		data, err := s.LoadCheckpoint(task.ID, run)
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		return string(data)
	}
	save := func(data string) {
		t.Helper()
		if err := s.SaveCheckpoint(task, raw(data)); err != nil {
			t.Fatal(err)
		}
	}
	if got := load(1); got != "" {
		t.Errorf("a new run has the checkpoint %s", got)
	}
	save(`1`)
	save(`{"instance":12345678901234567890}`)
	task.StartedAt = time.Unix(1, 0)
	task = put(t, s, task)
	if got := load(1); got != `{"instance":12345678901234567890}` {
		t.Errorf("the checkpoint is %q", got)
	}
	task.Run, task.Seq = 2, 0
	task = put(t, s, task)
	if got := load(2); got != "" {
		t.Errorf("the next run has the checkpoint %s", got)
	}
	save(`2`)
	task.Status = Completed
	put(t, s, task)
	if got := load(2); got != "" {
		t.Errorf("a run that ended has the checkpoint %s", got)
	}
}

func TestOldTasksAreCollected(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		age     time.Duration
		want    int
	}{
		"too many":  {options: Options{Keep: 10}, want: 10},
		"too old":   {options: Options{MaxAge: time.Hour}, age: time.Hour + time.Second, want: 1},
		"too large": {options: Options{MaxBytes: 1000}, want: 10},
		"all well":  {options: Options{}, want: 20},
	} {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
			c.options.Clock = now
			dir := t.TempDir()
			s := open(t, dir, c.options)
			running := put(t, s, Task{Status: Running, Run: 1})
			var last Task
			for range 19 {
				last = put(t, s, Task{Status: Completed, CompletedAt: now.Now(), Params: raw(fmt.Sprintf("%q", strings.Repeat("x", 98)))})
			}
			now.SetTime(now.Now().Add(c.age))
			// Opening looks for old tasks too, at the first one that ends.
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, c.options)
			last = put(t, s, Task{Status: Failed, CompletedAt: now.Now(), Params: last.Params})

			left, err := s.List(1000)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != c.want+1 {
				t.Errorf("%d finished tasks are left, want %d", len(left)-1, c.want)
			}
			if left[0].ID != last.ID || left[len(left)-1].ID != running.ID {
				t.Error("the newest task or the running one is gone")
			}
		})
	}
}

func TestASecondSidecarIsRefusedAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home", ".sei-sidecar")
	first := open(t, dir, Options{})
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second store opened with %v", err)
	}
	put(t, first, Task{Status: Running})
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, open(t, dir, Options{}), Task{Status: Running})
}
