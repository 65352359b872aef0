package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// long is longer than anything that is told.
var long = strings.Repeat("a long story ", 100)

// muchToTell is a validator from a snapshot in mid-bootstrap behind a proxy, about
// which everything has a long story to tell.
func muchToTell(in *Input) {
	validator(in)
	for _, kind := range []plan.KeyKind{plan.SigningKey, plan.NodeKey, plan.OperatorKeyring} {
		key(kind, plan.Key{Problem: v1alpha1.ReasonKeyIdentityChanged, Message: long})(in)
	}
	in.Trouble = []plan.Gate{{Reason: v1alpha1.ReasonRetainedVolumeMismatch, Message: long, Stalled: true}}
	in.Seen.Sidecar = plan.Sidecar{Connected: true, Status: api.Status{
		Held: true, HeldReason: long, Upgrade: api.Upgrade{Halted: true, Name: long, Height: 1 << 40},
	}}
	in.Seen.Claim.UID, in.Node.Generation = "another", 1_000_000
	p := &v1alpha1.Plan{
		ID: strings.Repeat("x", 36), Type: v1alpha1.PlanBootstrap, Reason: string(v1alpha1.ReasonBootstrapping),
		Message:  "The node is brought up for the first time. The configuration that is wanted changed since the last plan was made.",
		Progress: "Bootstrap 13/15", Generation: 1_000_000, TemplateHash: strings.Repeat("x", 16), ConfigHash: strings.Repeat("x", 64),
		StartTime: metav1.NewTime(now),
	}
	for i := range 15 {
		p.Tasks = append(p.Tasks, v1alpha1.PlanTask{
			Type: fmt.Sprintf("validate-operator-keyrin%d", i%10), Status: v1alpha1.PlanTaskComplete, StartTime: new(metav1.NewTime(now)),
		})
	}
	// A task that runs, and one that had something to say when it ended.
	p.Tasks[14].Status, p.Tasks[14].Retries, p.Tasks[14].RetryTime = v1alpha1.PlanTaskRunning, 100, new(metav1.NewTime(now))
	p.Tasks[14].Message, p.Tasks[9].Message = long[:256], long[:256]
	in.Node.Status.Plan = p
}

// TestPlanAndConditionsStaySmall: whatever there is to tell, and it is told as fully
// as there is room.
func TestPlanAndConditionsStaySmall(t *testing.T) {
	t.Parallel()
	in := running(muchToTell)
	Set(in)
	text, err := json.Marshal(v1alpha1.SeiNodeStatus{Plan: in.Node.Status.Plan, Conditions: in.Node.Status.Conditions})
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 6000 || len(text) < 5000 {
		t.Errorf("plan and conditions are %d bytes", len(text))
	}
	for _, c := range in.Node.Status.Conditions {
		if len(c.Message) > 320 {
			t.Errorf("%s says %q", c.Type, c.Message)
		}
	}
	ready := find(t, in, v1alpha1.ConditionReady)
	if len(ready.Message) < 80 || !strings.HasSuffix(ready.Message, "...") {
		t.Errorf("Ready says %q", ready.Message)
	}
}

// TestAPlanThatFillsAllRoomLeavesMessagesReadable: there is an end to cutting.
func TestAPlanThatFillsAllRoomLeavesMessagesReadable(t *testing.T) {
	t.Parallel()
	in := running(muchToTell, func(in *Input) { in.Node.Status.Plan.Message = strings.Repeat("x", 6000) })
	Set(in)
	if got := find(t, in, v1alpha1.ConditionReady).Message; len(got) != 80 {
		t.Errorf("Ready says %q", got)
	}
}

func TestAMessageAloneIsCutAt320(t *testing.T) {
	t.Parallel()
	in := running(trouble(plan.Gate{Reason: v1alpha1.ReasonAPIRefused, Message: long}))
	Set(in)
	if got := find(t, in, v1alpha1.ConditionReady).Message; len(got) != 320 {
		t.Errorf("Ready says %q", got)
	}
}

func TestAKeptMessageIsNotCutAgain(t *testing.T) {
	t.Parallel()
	in := running(muchToTell, func(in *Input) {
		in.Seen.Sidecar = plan.Sidecar{}
		kept := condition(v1alpha1.ConditionHeld, yes, v1alpha1.ReasonHeld, long[:300])
		kept.LastTransitionTime = metav1.NewTime(now.Add(-time.Hour))
		in.Node.Status.Conditions = []metav1.Condition{kept}
	})
	Set(in)
	if got := find(t, in, v1alpha1.ConditionHeld).Message; got != long[:300] {
		t.Errorf("Held says %q", got)
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":             "",
		"ten bytes.":   "ten bytes.",
		"eleven byte":  "eleven ...",
		"six66é789xx":  "six66é...",
		"sevens7éxxx":  "sevens7...",
		"sevens€xxxxx": "sevens...",
	} {
		got := shortened(text, 10)
		if got != want || len(got) > 10 || !utf8.ValidString(got) {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if got := shortened("\x80\x80\x80\x80\x80\x80", 5); got != "..." {
		t.Errorf("nonsense becomes %q", got)
	}
}
