package server

import (
	"fmt"
	"net/http"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// openPaths are those that the proxy lets everybody ask, so nothing was checked.
var openPaths = map[string]bool{"/v0/healthz": true, "/v0/startupz": true, "/v0/livez": true}

// guardReads refuses to tell anything to who may not read. Calls that act are guarded
// where it is known what they do.
func (s *Server) guardReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reads(r) && !openPaths[r.URL.Path] && !s.mayDo(w, r, api.ActionRead) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

func reads(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// mayDo refuses a call that does something else than what the proxy has asked the API
// server about: the proxy only knows what the header says.
func (s *Server) mayDo(w http.ResponseWriter, r *http.Request, action string) bool {
	if !s.opts.AccessControl {
		return true
	}
	said := r.Header.Values(api.ActionHeader)
	if len(said) == 1 && said[0] == action {
		return true
	}
	refuse(w, http.StatusForbidden, api.ReasonActionMismatch, false,
		fmt.Sprintf("this call needs the permission for %q, and the header %s asked for %q", action, api.ActionHeader, said))
	return false
}

// mayAct is mayDo for a call that changes something. Such a call is written down with
// its caller, so there has to be one: a caller could make a proxy drop the header.
func (s *Server) mayAct(w http.ResponseWriter, r *http.Request, action string) bool {
	if !s.mayDo(w, r, action) {
		return false
	}
	if !s.opts.AccessControl || caller(r) != "" {
		return true
	}
	refuse(w, http.StatusForbidden, api.ReasonCallerUnknown, false,
		"the proxy did not say who calls, in the header "+api.CallerHeader)
	return false
}

// caller is who calls, as the proxy says.
func caller(r *http.Request) string {
	if named := r.Header.Values(api.CallerHeader); len(named) == 1 {
		return named[0]
	}
	return ""
}

// writeDown logs who did what.
func (s *Server) writeDown(r *http.Request, did, action string, id fmt.Stringer) {
	if s.opts.AccessControl {
		s.opts.Log.InfoContext(r.Context(), did, "task", action, "id", id.String(), "caller", caller(r))
	}
}
