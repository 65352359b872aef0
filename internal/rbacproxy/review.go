package rbacproxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"
)

// How long an answer of the API server counts. Calls come in bursts, while a plan
// works on the node, and a burst is to cost one question. What was taken from somebody
// has to be gone within seconds: these are operations on validators. Who was refused
// and has been given the role since does not want to wait either.
const (
	tokenCounts   = 10 * time.Second
	allowedCounts = 10 * time.Second
	deniedCounts  = 5 * time.Second
)

// reviewTimeout bounds one question. With retries it stays below the ten seconds that
// callers wait, so that they are told why.
const reviewTimeout = 2 * time.Second

// again is how often, and when, a question is asked again that the API server could
// not answer.
var again = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// Bounds of what the proxy of one node asks, so that a flood of bad tokens stays that
// node's trouble.
const (
	questionsPerSecond = 50
	questionsAtOnce    = 100
)

// reviewers ask the API server who somebody is and what they may do.
//
// The first is the token authenticator of which k8s.io/apiserver's delegating one is
// made, without the union around it: that one gives the same error for a token that is
// refused and for an API server that cannot be asked.
func reviewers(config *rest.Config) (authenticator.Token, authorizer.Authorizer, error) {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS, config.Burst = reviewTimeout, questionsPerSecond, questionsAtOnce
	config.UserAgent = "sei-rbac-proxy"
	reviews, err := authenticationv1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	access, err := authorizationv1.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a client of the API server: %w", err)
	}
	// No audiences are implied: an API server that does not say for which audience a
	// token is good has not looked.
	tokens, err := webhook.NewFromInterface(reviews, nil, again, 0, webhook.AuthenticatorMetrics{
		RecordRequestTotal:   func(context.Context, string) {},
		RecordRequestLatency: func(context.Context, string, float64) {},
	})
	if err != nil {
		return nil, nil, err
	}
	rights, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: access, AllowCacheTTL: allowedCounts, DenyCacheTTL: deniedCounts, WebhookRetryBackoff: &again,
	}.New()
	if err != nil {
		return nil, nil, err
	}
	return cache.New(tokens, false, tokenCounts, tokenCounts), rights, nil
}

// whyRefused says what is probably wrong with a token that the API server refused, from
// what the token says of itself. Nothing is decided by it.
func whyRefused(token string, audiences []string, now time.Time) string {
	const otherwise = "the API server does not accept this token"
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return otherwise
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return otherwise
	}
	var claims struct {
		Audiences manyOrOne `json:"aud"`
		Expires   int64     `json:"exp"`
	}
	if json.Unmarshal(content, &claims) != nil {
		return otherwise
	}
	if !slices.ContainsFunc(audiences, func(wanted string) bool { return slices.Contains(claims.Audiences, wanted) }) {
		return fmt.Sprintf("this token is for the audience %q, and has to be for %q", []string(claims.Audiences), audiences)
	}
	if expires := time.Unix(claims.Expires, 0); claims.Expires != 0 && now.After(expires) {
		return "this token has expired at " + expires.UTC().Format(time.RFC3339)
	}
	return otherwise + ": it may have expired, or whom it belongs to may be gone"
}

// manyOrOne is a list that is a string when it has one entry.
type manyOrOne []string

// UnmarshalJSON reads either.
func (m *manyOrOne) UnmarshalJSON(content []byte) error {
	var one string
	if json.Unmarshal(content, &one) == nil {
		*m = manyOrOne{one}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(m))
}
