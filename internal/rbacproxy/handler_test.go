package rbacproxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// known is an API server that knows one token.
type known struct{}

func (known) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	audiences, limited := authenticator.AudiencesFrom(ctx)
	if !limited || len(audiences) != 1 || audiences[0] != "sei-sidecar" {
		return nil, false, errors.New("asked for no audience")
	}
	switch token {
	case "ann":
		return &authenticator.Response{User: &user.DefaultInfo{Name: "ann", Groups: []string{"a", "b"}}}, true, nil
	case "trouble":
		return nil, false, errors.New("dial tcp 10.0.0.1:443: refused")
	default:
		return nil, false, nil
	}
}

// newGate is a gate in front of an upstream; the authorizer allows one action.
func newGate(t *testing.T, upstream http.Handler) *gate {
	t.Helper()
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := read(t, good)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	log := slog.New(slog.DiscardHandler)
	return &gate{
		audiences: []string{"sei-sidecar"}, ignorePaths: []string{"/v0/livez"}, question: asked, tokens: known{},
		rights: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			switch a.GetSubresource() {
			case "sidecar":
				return authorizer.DecisionAllow, "", nil
			case "trouble":
				// An answer that comes with an error is none.
				return authorizer.DecisionAllow, "", errors.New("dial tcp 10.0.0.1:443: refused")
			default:
				return authorizer.DecisionNoOpinion, "", nil
			}
		}),
		clock: clock.RealClock{}, log: log, upstream: newUpstream(target, transport, true, log),
	}
}

// send makes a call, with headers in pairs.
func send(t *testing.T, g *gate, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, request)
	return answer
}

func TestWhoIsLetThrough(t *testing.T) {
	reached := 0
	g := newGate(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	const authorization, action = "Authorization", api.ActionHeader
	for name, c := range map[string]struct {
		path    string
		headers []string
		status  int
		reason  string
	}{
		"a token and a right":        {"/v0/status", []string{authorization, "Bearer ann", action, "sidecar"}, 200, ""},
		"in small letters":           {"/v0/status", []string{authorization, "bearer  ann ", action, "sidecar"}, 200, ""},
		"an open path":               {"/v0/livez", nil, 200, ""},
		"below an open path":         {"/v0/livez/x", nil, 401, api.ReasonUnauthenticated},
		"nothing":                    {"/v0/status", nil, 401, api.ReasonUnauthenticated},
		"no token":                   {"/v0/status", []string{authorization, "Bearer", action, "sidecar"}, 401, api.ReasonUnauthenticated},
		"another scheme":             {"/v0/status", []string{authorization, "Basic ann", action, "sidecar"}, 401, api.ReasonUnauthenticated},
		"another token":              {"/v0/status", []string{authorization, "Bearer bob", action, "sidecar"}, 401, api.ReasonUnauthenticated},
		"no answer about the token":  {"/v0/status", []string{authorization, "Bearer trouble", action, "sidecar"}, 503, api.ReasonAccessUnchecked},
		"another right":              {"/v0/status", []string{authorization, "Bearer ann", action, "hold"}, 403, api.ReasonForbidden},
		"no answer about the right":  {"/v0/status", []string{authorization, "Bearer ann", action, "trouble"}, 503, api.ReasonAccessUnchecked},
		"no action":                  {"/v0/status", []string{authorization, "Bearer ann"}, 400, api.ReasonActionRequired},
		"an allowed action and more": {"/v0/status", []string{authorization, "Bearer ann", action, "sidecar", action, "hold"}, 400, api.ReasonActionRequired},
	} {
		before := reached
		answer := send(t, g, c.path, c.headers...)
		var refusal api.Error
		if c.status != http.StatusOK {
			if err := json.Unmarshal(answer.Body.Bytes(), &refusal); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if strings.Contains(refusal.Error, "10.0.0.1") {
				t.Errorf("%s: strangers are told where things are: %s", name, refusal.Error)
			}
		}
		if answer.Code != c.status || refusal.Reason != c.reason || refusal.Retryable != (c.status == 503) {
			t.Errorf("%s: %d %+v", name, answer.Code, refusal)
		}
		if (reached > before) != (c.status == http.StatusOK) {
			t.Errorf("%s: the sidecar was reached %d times", name, reached-before)
		}
	}
}

func TestWhatTheSidecarIsTold(t *testing.T) {
	var got http.Header
	g := newGate(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	forged := []string{
		api.CallerHeader, "admin", "X-Remote-Groups", "system:masters", "x-remote-user", "root",
		"Connection", "X-Remote-User, X-Remote-Groups",
	}
	send(t, g, "/v0/status", append([]string{"Authorization", "Bearer ann", api.ActionHeader, "sidecar"}, forged...)...)
	if caller, groups := got.Values(api.CallerHeader), got.Values(groupsHeader); len(caller) != 1 || caller[0] != "ann" || len(groups) != 1 || groups[0] != "a|b" {
		t.Errorf("the caller is %q with the groups %q", caller, groups)
	}
	if got.Get("Authorization") != "" || got.Get(api.ActionHeader) != "sidecar" {
		t.Errorf("the sidecar got %v", got)
	}
	send(t, g, "/v0/livez", append([]string{"Authorization", "Bearer ann"}, forged[:6]...)...)
	if got.Get(api.CallerHeader) != "" || got.Get(groupsHeader) != "" || got.Get("Authorization") != "" {
		t.Errorf("on an open path the sidecar got %v", got)
	}
}

func TestWhyATokenWasRefused(t *testing.T) {
	now := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	token := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	const unknown = "does not accept this token"
	for text, says := range map[string]string{
		"":                         unknown,
		"rubbish":                  unknown,
		"a.b.c":                    unknown,
		"a.!.c":                    unknown,
		token("[]"):                unknown,
		token(`{"aud":1}`):         unknown,
		token(`{}`):                `has to be for ["sei-sidecar"]`,
		token(`{"aud":"other"}`):   `for the audience ["other"]`,
		token(`{"aud":["a","b"]}`): `for the audience ["a" "b"]`,
		token(`{"aud":"sei-sidecar","exp":1767323045}`):       "may be gone",
		token(`{"aud":["x","sei-sidecar"],"exp":1767323044}`): "expired at 2026-01-02T03:04:04Z",
		token(`{"aud":["sei-sidecar"]}`):                      "may be gone",
	} {
		if why := whyRefused(text, []string{"sei-sidecar"}, now); !strings.Contains(why, says) {
			t.Errorf("%s: %s", text, why)
		}
	}
}
