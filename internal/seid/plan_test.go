package seid

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Answers as seid encodes them: a message with the plan in it, the plan with a name, the
// time that nobody uses any more, the height and the info.
const (
	planV9 = "0a25" + "0a06" + "76392e392e39" + "120b088092b8c398feffffff01" + "18c1e5f754" + "2209" + "7b2261223a2262227d"
	planV6 = "0a0a" + "0a04" + "76362e36" + "186a" + "2200"
)

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCurrentPlan(t *testing.T) {
	tests := map[string]struct {
		answer string
		want   *Upgrade
		wrong  bool
	}{
		"at a height of mainnet": {answer: value(unhex(t, planV9)), want: &Upgrade{Name: "v9.9.9", Height: 178123457, Info: `{"a":"b"}`}},
		"young":                  {answer: value(unhex(t, planV6)), want: &Upgrade{Name: "v6.6", Height: 106}},
		"in an envelope":         {answer: `{"jsonrpc":"2.0","id":1,"result":` + value(unhex(t, planV6)) + `}`, want: &Upgrade{Name: "v6.6", Height: 106}},
		"none":                   {answer: `{"response":{"height":"7"}}`},
		"none, and null":         {answer: `{"response":{"code":0,"value":null,"height":"7"}}`},
		"no such question":       {answer: `{"response":{"code":6,"log":"unknown query path: unknown request","codespace":"sdk"}}`, wrong: true},
		"an error of RPC":        {answer: `{"code":-32603,"message":"Internal error","data":"x"}`, wrong: true},
		"something else":         {answer: `{}`, wrong: true},
		"torn":                   {answer: value(unhex(t, planV9[:20])), wrong: true},
		"a plan without a name":  {answer: value(unhex(t, "0a02186a")), wrong: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/abci_query" || r.URL.Query().Get("path") != `"/cosmos.upgrade.v1beta1.Query/CurrentPlan"` {
					http.NotFound(w, r)
					return
				}
				fmt.Fprint(w, tc.answer)
			}))
			defer server.Close()
			client, err := NewClient(server.Client(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.CurrentPlan(t.Context())
			if diff := cmp.Diff(tc.want, got); diff != "" || (err != nil) != tc.wrong {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func value(raw []byte) string {
	return `{"response":{"value":"` + base64.StdEncoding.EncodeToString(raw) + `","height":"7"}}`
}

func TestAnyAnswerIsReadWithoutAPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan, err := decodePlan(rapid.SliceOf(rapid.Byte()).Draw(t, "answer"))
		if err == nil && plan != nil && (plan.Name == "" || plan.Height < 1) {
			t.Fatalf("%+v", plan)
		}
	})
}
