package rbacproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// groupsHeader is where the upstream is told the groups of the caller, beside the
// caller in api.CallerHeader. The names are kube-rbac-proxy's.
const groupsHeader = "X-Remote-Groups"

// bodyTimeout is how long a caller may take to send what belongs to a call.
const bodyTimeout = 30 * time.Second

// stalled is how long somebody may take nothing of an answer before the call ends.
const stalled = 30 * time.Second

// gate lets calls through to the upstream, or refuses them.
type gate struct {
	audiences   []string
	ignorePaths []string
	question    question
	tokens      authenticator.Token
	rights      authorizer.Authorizer
	clock       clock.PassiveClock
	log         *slog.Logger
	upstream    http.Handler
}

// callerKey is that of the caller in the context of a call that was let through.
type callerKey struct{}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if r.ContentLength != 0 {
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	if !g.ignores(r.URL.Path) {
		caller := g.authenticate(w, r)
		if caller == nil || !g.authorize(w, r, caller) {
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
	}
	g.upstream.ServeHTTP(&patient{ResponseWriter: w, control: control}, r)
}

func (g *gate) ignores(asked string) bool {
	for _, pattern := range g.ignorePaths {
		if matched, err := path.Match(pattern, asked); err == nil && matched {
			return true
		}
	}
	return false
}

// authenticate finds out who calls. If it is nobody, that has been answered.
func (g *gate) authenticate(w http.ResponseWriter, r *http.Request) user.Info {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, api.ReasonUnauthenticated,
			fmt.Sprintf("there is no bearer token; send one for the audience %q", g.audiences))
		return nil
	}
	found, ok, err := g.tokens.AuthenticateToken(authenticator.WithAudiences(r.Context(), g.audiences), token)
	switch {
	case err != nil:
		g.unchecked(w, r, "who calls", err)
		return nil
	case !ok:
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		refuse(w, http.StatusUnauthorized, api.ReasonUnauthenticated, whyRefused(token, g.audiences, g.clock.Now()))
		return nil
	}
	return found.User
}

// authorize finds out whether the caller may do this. If not, that has been answered.
func (g *gate) authorize(w http.ResponseWriter, r *http.Request, caller user.Info) bool {
	about, err := g.question.about(caller, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, api.ReasonActionRequired, err.Error())
		return false
	}
	decision, reason, err := g.rights.Authorize(r.Context(), about)
	switch {
	case err != nil:
		g.unchecked(w, r, "whether "+caller.GetName()+" may do this", err)
		return false
	case decision == authorizer.DecisionAllow:
		return true
	}
	message := fmt.Sprintf("%s may not %s %s/%s of %s/%s in the API group %s; a Role with that rule would allow it",
		caller.GetName(), about.Verb, about.Resource, about.Subresource, about.Namespace, about.Name, about.APIGroup)
	if reason != "" {
		message += " (" + reason + ")"
	}
	g.log.Info("A call was refused", "caller", caller.GetName(), "verb", about.Verb, "subresource", about.Subresource, "from", r.RemoteAddr)
	refuse(w, http.StatusForbidden, api.ReasonForbidden, message)
	return false
}

// unchecked answers when the API server could not be asked. The reason goes to the log
// only: it names addresses, and the caller may be anybody.
func (g *gate) unchecked(w http.ResponseWriter, r *http.Request, what string, err error) {
	if r.Context().Err() == nil {
		g.log.Error("The API server could not be asked "+what, "error", err)
	}
	refuse(w, http.StatusServiceUnavailable, api.ReasonAccessUnchecked, "the API server could not be asked "+what+
		": it does not answer, or this pod's ServiceAccount may not create tokenreviews and subjectaccessreviews; the log of the proxy says which")
}

// newUpstream passes calls on, and answers as they come: events are a stream.
func newUpstream(target *url.URL, transport http.RoundTripper, tellCaller bool, log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		// What a caller declares to be of this hop only is removed before Rewrite, so
		// nobody can have our headers removed.
		Rewrite: func(call *httputil.ProxyRequest) {
			call.SetURL(target)
			call.Out.Header.Del("Authorization") // the token is not the upstream's business
			call.Out.Header.Del(api.CallerHeader)
			call.Out.Header.Del(groupsHeader)
			if caller, ok := call.In.Context().Value(callerKey{}).(user.Info); ok && tellCaller {
				call.Out.Header.Set(api.CallerHeader, caller.GetName())
				call.Out.Header.Set(groupsHeader, strings.Join(caller.GetGroups(), "|"))
			}
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.Warn("The sidecar does not answer", "error", err)
			}
			message := "the sidecar does not answer; its container may be starting"
			if errors.Is(err, context.Canceled) {
				message = "the call was given up"
			}
			refuse(w, http.StatusBadGateway, api.ReasonSidecarUnavailable, message)
		},
	}
}

// refuse answers in the shape in which the sidecar refuses. Who is refused for what may
// change soon may try again.
func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(api.Error{Error: message, Reason: reason, Retryable: status >= http.StatusInternalServerError}) // the caller is gone
}

// patient gives every piece of an answer its own time. An answer as a whole may take for
// ever, as events do.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p *patient) Write(content []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(stalled))
	return p.ResponseWriter.Write(content)
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
