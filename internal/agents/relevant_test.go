package agents

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// Every field of a status is classified here: does a change of it wake the
// reconciler? A new field fails this test until somebody decides.
var wakes = map[string]bool{
	"Approval.NodeID": true, "Approval.NodeUID": true, "Approval.PublicKey": true, "Approved": true,
	"Config.Hash": true, "Config.Serial": true,
	"Held": true, "HeldBy": true, "HeldReason": true, "HeldSince": true,
	"NodeID": true, "SigningPublicKey": true, "Status": true,
	"Problems.Message": true, "Problems.Reason": true,
	"Seid.Instance": true, "Seid.LastExit.Cause": true, "Seid.LastExit.Code": true, "Seid.LastExit.Signal": true, "Seid.LastExit.Message": true,
	"Seid.LastExit.Time": true, "Seid.Message": true, "Seid.ParkedBecause": true, "Seid.Pid": true, "Seid.Progress": true, "Seid.RPC": true,
	// The sidecar sees to it that they change rarely.
	"Seid.Readiness.Message": true, "Seid.Readiness.Ready": true, "Seid.Readiness.Reason": true,
	"Seid.SafeToStop": true, "Seid.Since": true, "Seid.State": true, "Seid.UnsafeBecause": true,
	"Upgrade.Halted": true, "Upgrade.Height": true, "Upgrade.Info": true, "Upgrade.Name": true, "Upgrade.Rounded": true,

	"SignGuard.Decided": true, "SignGuard.Reason": true, "SignGuard.Message": true,

	// They change with every block; what matters of them is whether it is nearly full.
	"FreeBytes": false, "TotalBytes": false, "SignHeight": false, "Height": false,
}

func TestEveryFieldOfAStatusIsClassified(t *testing.T) {
	seen := map[string]bool{}
	// The disk is far from full, so that one byte changes no verdict.
	base := api.Status{FreeBytes: 500, TotalBytes: 1000, Problems: []api.Problem{{}}}
	eachLeaf(reflect.TypeFor[api.Status](), nil, nil, func(path string, index [][]int) {
		seen[path] = true
		want, classified := wakes[path]
		if !classified {
			t.Errorf("%s is new: decide whether a change of it wakes the reconciler", path)
			return
		}
		changed := base
		changed.Problems = []api.Problem{{}}
		value := reflect.ValueOf(&changed).Elem()
		for i, step := range index {
			if value = value.FieldByIndex(step); value.Kind() == reflect.Slice && i < len(index)-1 {
				value = value.Index(0)
			}
		}
		alter(t, path, value)
		if got := !reflect.DeepEqual(relevant(base), relevant(changed)); got != want {
			t.Errorf("a change of %s wakes: %t", path, got)
		}
	})
	for path := range wakes {
		if !seen[path] {
			t.Errorf("%s does not exist any more", path)
		}
	}
}

// eachLeaf visits the fields that have no fields of their own.
func eachLeaf(in reflect.Type, names []string, index [][]int, visit func(string, [][]int)) {
	for field := range in.Fields() {
		path, place, inner := append(slices.Clip(names), field.Name), append(slices.Clip(index), field.Index), field.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			eachLeaf(inner, path, place, visit)
			continue
		}
		visit(strings.Join(path, "."), place)
	}
}

// alter gives a field another value.
func alter(t *testing.T, path string, value reflect.Value) {
	t.Helper()
	switch v := value.Addr().Interface().(type) {
	case *time.Time:
		*v = v.Add(time.Hour)
	case **int64:
		*v = new(int64(1))
	default:
		switch value.Kind() {
		case reflect.String:
			value.SetString("another")
		case reflect.Bool:
			value.SetBool(!value.Bool())
		case reflect.Int, reflect.Int64:
			value.SetInt(value.Int() + 1)
		default:
			t.Fatalf("%s has a kind that this test does not know: %s", path, value.Kind())
		}
	}
}

func TestEachPercentMattersWhereSpaceIsScarce(t *testing.T) {
	for name, c := range map[string]struct {
		free, total, want int64
	}{
		"not known":           {0, 0, scarce},
		"empty":               {1000, 1000, scarce},
		"a tenth free":        {100, 1000, 10},
		"less":                {99, 1000, 9},
		"full":                {0, 1000, 0},
		"a very large volume": {1 << 60, 1 << 62, scarce},
	} {
		if got := freeSpace(api.Status{FreeBytes: c.free, TotalBytes: c.total}); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
	with := func(free int64) matters { return relevant(api.Status{FreeBytes: free, TotalBytes: 1000}) }
	if reflect.DeepEqual(with(100), with(99)) || !reflect.DeepEqual(with(200), with(900)) || !reflect.DeepEqual(with(99), with(91)) {
		t.Error("exactly a change of a percent matters")
	}
}

func TestAProblemThatOnlyGetsOlderWakesNobody(t *testing.T) {
	with := func(message string) matters {
		return relevant(api.Status{Problems: []api.Problem{{Reason: "SeidNotAsWanted", Message: message}}})
	}
	if !reflect.DeepEqual(with("stopping seid for 12s now"), with("stopping seid for 13s now")) {
		t.Error("a second more matters")
	}
	if reflect.DeepEqual(with("stopping seid for 12s now"), with("starting seid for 12s now")) {
		t.Error("another problem does not matter")
	}
}
