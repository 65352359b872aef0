package engine

import (
	"errors"
	"fmt"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/store"
)

// Failure is why a task failed or a call was refused, for people and programs.
type Failure struct {
	Reason    string // CamelCase and stable
	Message   string
	Retryable bool // whether the same thing may succeed later
	Cause     error
}

func (f *Failure) Error() string { return f.Message }

func (f *Failure) Unwrap() error { return f.Cause }

// Retryable is a failure that may pass. The format is that of fmt.Errorf.
func Retryable(reason, format string, args ...any) *Failure {
	cause := fmt.Errorf(format, args...)
	return &Failure{Reason: reason, Message: cause.Error(), Retryable: true, Cause: cause}
}

// Terminal is a failure that stays. The format is that of fmt.Errorf.
func Terminal(reason, format string, args ...any) *Failure {
	cause := fmt.Errorf(format, args...)
	return &Failure{Reason: reason, Message: cause.Error(), Cause: cause}
}

// asFailure returns the failure in an error. What wraps it stays in the message.
func asFailure(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return &Failure{Reason: f.Reason, Message: err.Error(), Retryable: f.Retryable, Cause: err}
	}
	return &Failure{Reason: api.ReasonTaskFailed, Message: err.Error(), Retryable: true, Cause: err}
}

// storeFailure says of an error of the store what a caller can do with it.
func storeFailure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrNotFound):
		return &Failure{Reason: api.ReasonNotFound, Message: err.Error(), Cause: err}
	default:
		return &Failure{Reason: api.ReasonStoreUnavailable, Message: err.Error(), Retryable: true, Cause: err}
	}
}
