package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// statuses of the reasons that the engine gives for refusing a call.
var statuses = map[string]int{
	api.ReasonNotFound:         http.StatusNotFound,
	api.ReasonUnknownTaskType:  http.StatusBadRequest,
	api.ReasonInvalidParams:    http.StatusBadRequest,
	api.ReasonIDConflict:       http.StatusConflict,
	api.ReasonStoreUnavailable: http.StatusServiceUnavailable,
	api.ReasonStillRunning:     http.StatusServiceUnavailable,
	api.ReasonDeleting:         http.StatusServiceUnavailable,
	api.ReasonShuttingDown:     http.StatusServiceUnavailable,
}

// fail answers with an error of the engine.
func fail(w http.ResponseWriter, err error) {
	f, ok := errors.AsType[*engine.Failure](err)
	if !ok {
		f = &engine.Failure{Reason: api.ReasonInternalError, Message: err.Error()}
	}
	status := statuses[f.Reason]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	refuse(w, status, f.Reason, f.Retryable, f.Message)
}

// badParameter answers when a parameter cannot be understood.
func badParameter(w http.ResponseWriter, _ *http.Request, err error) {
	if f, ok := errors.AsType[*api.InvalidParamFormatError](err); ok && f.ParamName == "id" {
		refuse(w, http.StatusBadRequest, api.ReasonInvalidID, false, "the id of a task is a UUID")
		return
	}
	refuse(w, http.StatusBadRequest, api.ReasonInvalidRequest, false, err.Error())
}

func refuse(w http.ResponseWriter, status int, reason string, retryable bool, message string) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	answer(w, status, api.Error{Error: message, Reason: reason, Retryable: retryable})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // the caller is gone
}
