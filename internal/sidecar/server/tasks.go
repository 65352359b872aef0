package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// SubmitTask starts a task or joins it.
func (s *Server) SubmitTask(w http.ResponseWriter, r *http.Request, _ api.SubmitTaskParams) {
	var request api.TaskRequest
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, api.MaxBodyBytes))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&request)
	if err == nil {
		if _, err = decoder.Token(); err == nil {
			err = errors.New("there is more after the end of the JSON object")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		refuse(w, http.StatusRequestEntityTooLarge, api.ReasonBodyTooLarge, false, "a task may have at most 1 MiB")
		return
	}
	if err == nil && request.Type == "" {
		err = errors.New("a task needs a type")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, api.ReasonInvalidRequest, false, "this is not a task: "+err.Error())
		return
	}
	if !s.mayAct(w, r, request.Type) {
		return
	}
	id, err := s.opts.Engine.Submit(r.Context(), engine.Request{ID: request.ID, Type: request.Type, Params: request.Params})
	if err != nil {
		fail(w, err)
		return
	}
	s.writeDown(r, "Task submitted", request.Type, id)
	answer(w, http.StatusCreated, api.TaskSubmitted{ID: id})
}

// ListTasks returns the newest tasks.
func (s *Server) ListTasks(w http.ResponseWriter, _ *http.Request, _ api.ListTasksParams) {
	found, err := s.opts.Engine.List(api.MaxListed)
	if err != nil {
		fail(w, err)
		return
	}
	results := make([]api.TaskResult, len(found))
	for i, t := range found {
		results[i] = result(t)
	}
	answer(w, http.StatusOK, results)
}

// GetTask returns a task, if asked for when it has ended.
func (s *Server) GetTask(w http.ResponseWriter, r *http.Request, id uuid.UUID, params api.GetTaskParams) {
	var t store.Task
	var err error
	switch wait, parseErr := parseWait(params.Wait); {
	case parseErr != nil:
		refuse(w, http.StatusBadRequest, api.ReasonInvalidWait, false, "wait is a duration, for example 30s")
		return
	case wait == 0:
		t, err = s.opts.Engine.Get(r.Context(), id)
	default:
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + writeTimeout))
		ctx, cancel := s.until(r.Context(), wait)
		defer cancel()
		t, err = s.opts.Engine.Wait(ctx, id)
	}
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, result(t))
}

func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err == nil && wait < 0 {
		err = errors.New("negative")
	}
	return min(wait, maxWait), err
}

// until ends after a while, and at a shutdown.
func (s *Server) until(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := s.opts.Clock.AfterFunc(wait, cancel)
	go func() {
		defer timer.Stop()
		select {
		case <-s.stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// DeleteTask cancels and forgets a task.
func (s *Server) DeleteTask(w http.ResponseWriter, r *http.Request, id uuid.UUID, _ api.DeleteTaskParams) {
	t, err := s.opts.Engine.Get(r.Context(), id)
	if err != nil {
		fail(w, err)
		return
	}
	if !s.mayAct(w, r, t.Type) {
		return
	}
	s.writeDown(r, "Task cancelled", t.Type, id)
	if err := s.opts.Engine.Delete(r.Context(), id); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func result(t store.Task) api.TaskResult {
	return api.TaskResult{
		ID: t.ID, Type: t.Type, Status: api.TaskStatus(t.Status), Run: t.Run,
		Params: t.Params, Result: t.Result, Error: t.Error, Reason: t.Reason, Retryable: t.Retryable,
		SubmittedAt: t.SubmittedAt, StartedAt: t.StartedAt, CompletedAt: t.CompletedAt, Deadline: t.Deadline,
	}
}
