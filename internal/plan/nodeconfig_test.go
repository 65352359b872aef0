package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/seid"
)

func knowsPeers(addresses ...string) edit {
	return func(in *Input) {
		in.Node.Status.ResolvedPeers = &v1alpha1.ResolvedPeers{Count: int32(len(addresses)), Addresses: addresses}
	}
}

// remembers is the serial in the status.
func remembers(serial int64) edit {
	return func(in *Input) { in.Node.Status.ConfigSerial = serial }
}

// sidecarHas is the serial that the sidecar applied last.
func sidecarHas(serial int64) edit {
	return sidecar(func(s *Sidecar) { s.Status.Config.Serial = serial })
}

// sidecarHasHash is the configuration that the sidecar applied last.
func sidecarHasHash(hash string) edit {
	return sidecar(func(s *Sidecar) { s.Status.Config.Hash = hash })
}

// foreignText is a document that somebody else wrote.
var foreignText = seid.Intent{Serial: 5, ChainID: "pacific-1", Mode: seid.ModeFullNode, Overrides: map[string]string{"app.x": "theirs"}}

func TestWantedDocument(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in     Input
		serial int64
		peers  []string
	}{
		"the first one":                                                  {in: fresh(), serial: 1},
		"the first one, with peers":                                      {in: fresh(knowsPeers("id@a:26656")), serial: 1, peers: []string{"id@a:26656"}},
		"nothing changed":                                                {in: running(), serial: 1},
		"nothing changed, with peers":                                    {in: running(hasDocument(1, "id@a:26656"), knowsPeers("id@a:26656")), serial: 1, peers: []string{"id@a:26656"}},
		"the spec changed":                                               {in: running(override("y")), serial: 2},
		"the peers changed":                                              {in: running(knowsPeers("id@a:26656")), serial: 2, peers: []string{"id@a:26656"}},
		"the ConfigMap has the highest serial":                           {in: running(override("y"), applied(foreignText)), serial: 6},
		"the status has the highest serial":                              {in: running(override("y"), remembers(8)), serial: 9},
		"the sidecar has the highest serial":                             {in: running(override("y"), sidecarHas(11)), serial: 12},
		"the ConfigMap is gone":                                          {in: running(noDocument, remembers(3)), serial: 4},
		"the ConfigMap is unreadable":                                    {in: running(garbage, remembers(3)), serial: 4},
		"it is equal to a newer one than we remember":                    {in: running(hasDocument(9)), serial: 9},
		"it is equal to one that is older than what we remember":         {in: running(remembers(4)), serial: 5},
		"the sidecar has another one of the same serial":                 {in: running(sidecarHasHash("another")), serial: 2},
		"the sidecar has this very one":                                  {in: running(func(in *Input) { sidecarHasHash(in.Want.ConfigHash)(in) }), serial: 1},
		"the sidecar has another one that is older":                      {in: running(hasDocument(2), sidecarHasHash("another")), serial: 2},
		"it is equal to one that is older than what the sidecar applied": {in: running(sidecarHas(7)), serial: 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := document(&test.in, test.serial, test.peers...)
			if diff := cmp.Diff(want, WantedDocument(test.in)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// TestThePeersOfADocumentAreACopy: what is written must not change with the status.
func TestThePeersOfADocumentAreACopy(t *testing.T) {
	t.Parallel()
	in := fresh(knowsPeers("id@a:26656"))
	got := WantedDocument(in)
	in.Node.Status.ResolvedPeers.Addresses[0] = "id@b:26656"
	if got.Peers[0] != "id@a:26656" {
		t.Error("the document changed with the status")
	}
}

func TestAssertedDocument(t *testing.T) {
	t.Parallel()
	edited := override("ours")
	original := running().Want.Intent
	originalWith := func(serial int64) func(*Input) seid.Intent {
		return func(*Input) seid.Intent {
			content := original
			content.Serial = serial
			return content
		}
	}
	wantedWith := func(serial int64, peers ...string) func(*Input) seid.Intent {
		return func(in *Input) seid.Intent { return document(in, serial, peers...) }
	}
	stopped := func(in *Input) {
		hasSet(scaled(0))(in)
		noPod(in)
	}
	for name, test := range map[string]struct {
		in Input
		// want is nil when nothing can be said without a plan.
		want func(*Input) seid.Intent
	}{
		"no configuration was ever admitted": {in: fresh()},
		"none was admitted, but there is one": {
			in: running(func(in *Input) { in.Node.Status.ConfigHash = "" }),
		},
		"the spec cannot be rendered": {in: running(unrenderable)},
		"all is well":                 {in: running(), want: wantedWith(1)},
		"the spec was edited, and only a plan may follow": {
			in: running(edited), want: originalWith(1),
		},
		"new peers are known, and only a plan may follow": {
			in: running(knowsPeers("id@a:26656")), want: wantedWith(1),
		},
		"somebody edited it": {
			in: running(tampered(foreignText)), want: wantedWith(6),
		},
		"somebody emptied it": {
			in: running(tampered(foreignText), garbage), want: wantedWith(2),
		},
		"somebody took it over and left it as it was": {
			in: running(func(in *Input) { tampered(document(in, 1))(in) }), want: wantedWith(1),
		},
		"somebody edited it, and the spec was edited": {
			in: running(tampered(foreignText), edited),
		},
		"somebody deleted it: it comes back as it was": {
			in: running(noDocument), want: wantedWith(1),
		},
		"somebody deleted it, and the peers are known": {
			in: running(noDocument, knowsPeers("id@a:26656")), want: wantedWith(1, "id@a:26656"),
		},
		"somebody deleted it, and the sidecar has a newer one": {
			in: running(noDocument, sidecarHas(4)), want: wantedWith(5),
		},
		"somebody deleted it, and the spec was edited": {
			in: running(noDocument, edited),
		},
		"the spec was edited and there is no pod": {
			in: running(edited, stopped), want: wantedWith(2),
		},
		"the spec was edited, there is no pod, and the document is gone": {
			in: running(edited, stopped, noDocument), want: wantedWith(2),
		},
		"there is no pod and nothing was edited": {
			in: running(stopped), want: wantedWith(1),
		},
		"the managed fields cannot be read": {
			in: running(func(in *Input) {
				in.Seen.NodeConfig = in.Seen.NodeConfig.DeepCopy()
				in.Seen.NodeConfig.ManagedFields[0].FieldsV1.SetRawBytes([]byte(`{"nonsense":{}}`))
			}, knowsPeers("id@a:26656")),
			want: wantedWith(2, "id@a:26656"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, known := AssertedDocument(test.in)
			if known != (test.want != nil) {
				t.Fatalf("known is %t: %+v", known, got)
			}
			var want seid.Intent
			if test.want != nil {
				want = test.want(&test.in)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhetherAPlanBroughtItsConfigurationToSeid(t *testing.T) {
	t.Parallel()
	updates := func(in *Input) {
		updating(in)
		in.Node.Status.Plan.StartTime = metav1.NewTime(now.Add(time.Millisecond))
	}
	made := func(when time.Time) edit {
		return onPod(func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(when) })
	}
	knows := func(in *Input) { sidecarHasHash(in.Want.ConfigHash)(in) }
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"bringing it up":                        {in: fresh(at(TaskMarkReady)), want: true},
		"a change of the configuration":         {in: running(updates, func(in *Input) { in.Node.Status.Plan.Type = v1alpha1.PlanConfigUpdate }), want: true},
		"a new approval":                        {in: running(reapproving)},
		"an update with a pod from before":      {in: running(updates, made(now.Add(-time.Second)), knows)},
		"an update with a pod from after":       {in: running(updates, made(now.Add(time.Second))), want: true},
		"an update with a pod of the moment":    {in: running(updates, made(now))},
		"an update with a pod that has read it": {in: running(updates, made(now), knows), want: true},
		"an update that left no pod":            {in: running(updates, noPod)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Reconfigured(test.in); got != test.want {
				t.Errorf("it did: %t", got)
			}
		})
	}
}

func TestWhetherTheNextStartReadsTheConfigMap(t *testing.T) {
	t.Parallel()
	if BootsWith(running()) || !BootsWith(running(noPod)) || !BootsWith(running(onPod(endingPod))) {
		t.Error("exactly when there is no pod, or one that ends")
	}
}
