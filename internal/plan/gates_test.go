package plan

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// lookAgain is when a gate is looked at again that nothing watches.
const lookAgain = 10 * time.Second

var allKeys = usable(SigningKey, NodeKey, OperatorKeyring)

func missing(kind KeyKind) edit {
	return key(kind, Key{Problem: v1alpha1.ReasonSecretNotFound, Message: "The Secret does not exist."})
}

func malformed(kind KeyKind) edit {
	return key(kind, Key{Problem: v1alpha1.ReasonKeyMalformed, Message: "It holds no key."})
}

func TestGatesOfABootstrap(t *testing.T) {
	t.Parallel()
	foreign := controlledBy("node", "HelmRelease", "theirs", otherUID)
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"all are open in an empty namespace": {in: fresh()},
		"all are open for a converged node":  {in: running()},
		"all are open for a validator with its keys": {
			in: fresh(validator, allKeys),
		},
		"a StatefulSet of somebody else": {
			in: fresh(hasSet(func(s *appsv1.StatefulSet) { s.ObjectMeta = foreign }), tracks(claimUID)),
			want: wantGate{
				reason: v1alpha1.ReasonForeignStatefulSet, stalled: true, says: []string{"StatefulSet node", "HelmRelease theirs"},
			},
		},
		"a Service of somebody else": {
			in:   fresh(func(in *Input) { in.Seen.Service = &corev1.Service{ObjectMeta: foreign} }),
			want: wantGate{reason: v1alpha1.ReasonForeignObject, stalled: true, says: []string{"Service node", "HelmRelease theirs"}},
		},
		"a Service that an earlier node of this name left": {
			in: fresh(func(in *Input) {
				in.Seen.Service = &corev1.Service{ObjectMeta: controlledBy("node", "SeiNode", "node", otherUID)}
			}),
			want: wantGate{reason: v1alpha1.ReasonForeignObject, says: []string{"Service node", "earlier SeiNode"}},
		},
		"a ConfigMap of somebody else with the name of the configuration": {
			in:   fresh(func(in *Input) { in.Seen.NodeConfig = &corev1.ConfigMap{ObjectMeta: foreign} }),
			want: wantGate{reason: v1alpha1.ReasonForeignObject, stalled: true, says: []string{"ConfigMap node", "HelmRelease theirs"}},
		},
		"a ConfigMap of somebody else with the name of the proxy's": {
			in:   fresh(func(in *Input) { in.Seen.ProxyConfig = &corev1.ConfigMap{ObjectMeta: foreign} }),
			want: wantGate{reason: v1alpha1.ReasonForeignObject, stalled: true, says: []string{"ConfigMap node", "HelmRelease theirs"}},
		},
		"a lost volume comes before the keys": {
			in:   fresh(validator, tracks(claimUID)),
			want: wantGate{reason: v1alpha1.ReasonDataVolumeLost, stalled: true},
		},
		"a volume that another pod uses": {
			in:   fresh(hasClaim(), usedBy("job-1")),
			want: wantGate{reason: v1alpha1.ReasonVolumeInUse, says: []string{"job-1"}},
		},
		"a key that nobody looked at": {
			in:   fresh(validator, usable(SigningKey, OperatorKeyring)),
			want: wantGate{reason: v1alpha1.ReasonWaiting, after: lookAgain, says: []string{"node key", "not looked at"}},
		},
		"a key that is not there": {
			in:   fresh(seed, missing(NodeKey)),
			want: wantGate{reason: v1alpha1.ReasonSecretNotFound, says: []string{"The Secret does not exist."}},
		},
		"a key that is none": {
			in:   fresh(validator, allKeys, malformed(OperatorKeyring)),
			want: wantGate{reason: v1alpha1.ReasonKeyMalformed, stalled: true, says: []string{"It holds no key."}},
		},
		"one witness only": {
			in: fresh(stateSync("https://a.example.com:443")),
			want: wantGate{
				reason: v1alpha1.ReasonTooFewWitnesses, stalled: true,
				says: []string{"at least 2", "has 1", "snapshot.rpcServers", "pacific-1"},
			},
		},
		"two witnesses": {in: fresh(stateSync("https://a.example.com:443", "https://b.example.com:443"))},
		"no witness, and none is needed on the volume of an earlier node": {
			in: fresh(stateSync(), hasClaim(marked(otherUID))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, ShutGate(test.in, v1alpha1.PlanBootstrap))
		})
	}
}

func TestGatesOfAnUpdate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"all are open":                           {in: running()},
		"another pod uses the volume":            {in: running(usedBy("job-1"))},
		"there are too few witnesses by now":     {in: running(stateSync())},
		"the volume is lost":                     {in: running(noClaim), want: wantGate{reason: v1alpha1.ReasonDataVolumeLost, stalled: true}},
		"a key is not there":                     {in: running(seed, hasClaim(), missing(NodeKey)), want: wantGate{reason: v1alpha1.ReasonSecretNotFound}},
		"the StatefulSet is somebody else's now": {in: running(hasSet(ownedBy("HelmRelease", "theirs")), noClaim), want: wantGate{reason: v1alpha1.ReasonForeignStatefulSet, stalled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, ShutGate(test.in, v1alpha1.PlanNodeUpdate))
		})
	}
}

// TestWhatReplacesNoPodHasFewGates: they protect the volume, which the pod that is there
// has, and the keys, which a node is approved with.
func TestWhatReplacesNoPodHasFewGates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind v1alpha1.PlanType
		in   Input
		want wantGate
	}{
		"a configuration, whatever is missing": {
			kind: v1alpha1.PlanConfigUpdate, in: running(validator, noClaim, usedBy("job-1")),
		},
		"an approval on a volume that is lost and used": {
			kind: v1alpha1.PlanReapprove, in: running(noClaim, usedBy("job-1")),
		},
		"an approval with a key that nobody looked at": {
			kind: v1alpha1.PlanReapprove, in: running(validator), want: wantGate{reason: v1alpha1.ReasonWaiting, after: lookAgain},
		},
		"an approval with a key that is not there": {
			kind: v1alpha1.PlanReapprove, in: running(validator, allKeys, missing(NodeKey)), want: wantGate{reason: v1alpha1.ReasonSecretNotFound},
		},
		"an approval with keys that are there": {
			kind: v1alpha1.PlanReapprove, in: running(validator, allKeys),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, ShutGate(test.in, test.kind))
		})
	}
}
