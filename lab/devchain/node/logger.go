package node

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/tendermint/tendermint/libs/log"
)

// hooks are called when the engine has logged a message, by the goroutine that logs it
// and before it goes on. The engine has few other places to hold on to.
type hooks map[string]func(keyvals []any)

// logger writes as seid does: to stdout, one line of key=value for each message.
type logger struct {
	to    *slog.Logger
	hooks hooks
	words *words
}

// newLogger takes the level of config.toml. The format is told by the environment
// alone: seid does not care what the configuration says about it.
func newLogger(out io.Writer, level string, hooks hooks) (*logger, error) {
	if other := os.Getenv("SEI_LOG_LEVEL"); other != "" {
		level = other
	}
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("failed to parse log level (%s): %w", level, err)
	}
	options := &slog.HandlerOptions{Level: parsed}
	var handler slog.Handler = slog.NewTextHandler(out, options)
	if os.Getenv("SEI_LOG_FORMAT") == "json" {
		handler = slog.NewJSONHandler(out, options)
	}
	if strings.EqualFold(level, "error") {
		handler = slog.DiscardHandler // Observed: this level silences everything.
	}
	return &logger{to: slog.New(handler), hooks: hooks, words: &words{}}, nil
}

func (l *logger) hook(message string, keyvals []any) {
	if hook := l.hooks[message]; hook != nil {
		hook(keyvals)
	}
}

// Debug implements the engine's logger.
func (l *logger) Debug(message string, keyvals ...any) {
	l.to.Debug(message, named(keyvals)...)
	l.hook(message, keyvals)
}

// Info implements the engine's logger.
func (l *logger) Info(message string, keyvals ...any) {
	said, about := l.words.translate(message, keyvals)
	l.to.Info(said, named(about)...)
	l.hook(message, keyvals)
}

func (l *logger) Error(message string, keyvals ...any) {
	l.to.Error(message, named(keyvals)...)
	l.hook(message, keyvals)
}

// With implements the engine's logger.
func (l *logger) With(keyvals ...any) log.Logger {
	return &logger{to: l.to.With(named(keyvals)...), hooks: l.hooks, words: l.words}
}

// named calls the part of the engine that logs as seid calls it.
func named(keyvals []any) []any {
	out := make([]any, len(keyvals))
	copy(out, keyvals)
	for i := 0; i+1 < len(out); i += 2 {
		if out[i] == "module" {
			out[i] = "logger"
		}
		if printed, ok := out[i+1].(fmt.Stringer); ok {
			out[i+1] = later{printed}
		}
	}
	return out
}

// later is written as text, and only if it is written at all.
type later struct{ fmt.Stringer }

// LogValue implements a value that is worked out when it is needed.
func (l later) LogValue() slog.Value { return slog.StringValue(l.String()) }

// value is that of a key among the keys and values of a message.
func value(keyvals []any, key string) any {
	for i := 0; i+1 < len(keyvals); i += 2 {
		if keyvals[i] == key {
			return keyvals[i+1]
		}
	}
	return nil
}
