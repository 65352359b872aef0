package e2e_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/test/live"
)

// TestStories tells the stories that need a chain and leave it as it was. They share
// one, and are told one after the other: the machine is small, and a gap that is
// measured while something else happens tells nothing.
func TestStories(t *testing.T) {
	s := newStage(t, "stories")
	for _, one := range []struct {
		name string
		tell func(*testing.T)
	}{
		{"bootstrap of all modes", s.bootstrap},
		{"state sync", s.stateSync},
		{"seed 000: a deleted StatefulSet comes back with its volume", s.statefulSetDeleted},
		{"seed 001: a StatefulSet deleted without its pod", s.statefulSetOrphaned},
		{"seed 001: another StatefulSet in the place of the tracked one", s.impostor},
		{"seed 000: a Job measures the volume of a paused node", s.paused},
		{"seed 003: a changed template rolls the pod", s.templateDrift},
		{"seed 004: ten restarts in place against one pod deleted", s.restarts},
		{"an override changed and restarted at once keeps the new value", s.overrideAndRestart},
		{"a sidecar is killed", s.sidecarKilled},
		{"a pod deleted while the operator is down", s.podDeletedWithoutOperator},
		{"two SeiNodes with one signing key", s.twins},
		{"those who may not touch a node", s.access},
		{"certificates and their authority are replaced under calls", s.rotation},
		{"a pod comes back without what its proxy needs", s.withoutProxy},
		{"an image that cannot be pulled, then corrected", s.imageCorrected},
		{"seed 002: from image A to B to A", s.thereAndBack},
		{"a volume retained over deletion and re-creation", s.retained},
		{"a stop in the middle of state sync", s.stopInStateSync},
		{"a ruined volume is brought back by ResyncNode", s.ruined},
		{"scale and rolling update of a fleet", s.fleet},
		{"the operator killed twenty times in mid-plan", s.operatorKilled},
		{"the kubelet is restarted", s.restarted("kubelet")},
		{"the API server is restarted", s.restarted("kube-apiserver")},
		{"etcd is restarted", s.restarted("etcd")},
		{"seeds 000 and 003: an operator with another sidecar", s.newSidecar},
		{"a seid that ignores SIGTERM", s.deaf},
		{"seed 002: an upgrade halt of the whole chain", s.upgrade},
	} {
		s.story(t, one.name, one.tell)
	}
}

// The validators and the two providers start from genesis, a seed and a replayer join.
func (s *stage) bootstrap(t *testing.T) {
	seedKey := must(s.NewNodeKey(t.Context(), "seed"))(t)
	s.create(t, s.Node("seed", func(spec *v1alpha1.SeiNodeSpec) {
		spec.Overrides = nil // A seed is there to exchange peers.
		spec.Seed = &v1alpha1.SeedSpec{NodeKey: v1alpha1.KeySource{Secret: &v1alpha1.KeySecret{SecretName: seedKey.Secret}}}
	}))
	check(t, s.Start(t.Context()))
	check(t, s.watcher.Signs(t.Context(), 1, s.ValidatorNames()...))
	check(t, s.watcher.Snapshot(t.Context()))
	s.create(t, s.Node("replayer", func(spec *v1alpha1.SeiNodeSpec) {
		spec.Replayer = &v1alpha1.ReplayerSpec{Snapshot: &v1alpha1.SnapshotSource{
			StateSync: &v1alpha1.StateSyncSource{}, RPCServers: []string{"archive:26657", "provider:26657"},
		}}
	}))
	s.ready(t, "replayer")
	s.follows(t, "archive", "provider", "replayer")
	seed := s.ready(t, "seed")
	if seed.Status.NodeID != seedKey.ID {
		t.Errorf("the seed is %q, its key says %q", seed.Status.NodeID, seedKey.ID)
	}
	s.servesPeers(t, seed)
	s.remove(t, seed.Name)
}

// servesPeers brings up a node that knows nobody but a seed, and waits until it knows
// all those that the seed does. It connects to nobody else: with many peers the exchange
// of Tendermint can lock up (see live.Chain.Spec).
func (s *stage) servesPeers(t *testing.T, seed *v1alpha1.SeiNode) {
	t.Helper()
	const name = "guest"
	guest := s.Node(name, func(spec *v1alpha1.SeiNodeSpec) {
		spec.FullNode = &v1alpha1.FullNodeSpec{}
		address := fmt.Sprintf("%s@%s.%s:26656", seed.Status.NodeID, seed.Name, seed.Namespace)
		spec.Peers = []v1alpha1.PeerSource{{Static: &v1alpha1.StaticPeers{Addresses: []string{address}}}}
		spec.Overrides = v1alpha1.Overrides{"config.p2p.max-outgoing-connections": "1"}
	})
	guest.Labels = nil // Nobody finds it by them.
	s.create(t, guest)
	if seed.Status.ResolvedPeers == nil || len(seed.Status.ResolvedPeers.Addresses) == 0 {
		t.Fatal("the seed knows nobody")
	}
	check(t, live.Poll(t.Context(), "the peers that the seed knows", func() (bool, error) {
		answer, err := s.RPC(t.Context(), name, "net_info")
		for _, peer := range seed.Status.ResolvedPeers.Addresses {
			id, _, _ := strings.Cut(peer, "@")
			if err == nil && !bytes.Contains(answer, []byte(id)) {
				err = fmt.Errorf("%s was not told of %s", name, peer)
			}
		}
		return err == nil, err
	}))
	s.remove(t, name)
}

func (s *stage) stateSync(t *testing.T) {
	s.syncedNode(t, "full")
	if first := s.earliest(t, "full"); first == "1" {
		t.Error("the node has all blocks: it did not begin with a snapshot")
	}
	if first := s.earliest(t, "provider"); first != "1" {
		t.Errorf("the first block of a node from genesis is %s", first)
	}
}

// notRestarted asserts that no container of a pod was restarted.
func (s *stage) notRestarted(t *testing.T, before, now *corev1.Pod) {
	t.Helper()
	containers := func(pod *corev1.Pod) []corev1.ContainerStatus {
		return append(slices.Clone(pod.Status.ContainerStatuses), pod.Status.InitContainerStatuses...)
	}
	for i, is := range containers(now) {
		if containers(before)[i].ContainerID != is.ContainerID {
			t.Errorf("the container %s of %s was restarted", is.Name, now.Name)
		}
	}
}

func (s *stage) paused(t *testing.T) {
	before, first := s.identity(t, "full"), s.earliest(t, "full")
	check(t, s.Pause(t.Context(), "full"))
	check(t, s.PodGone(t.Context(), "full"))
	sizes := must(s.MeasureState(t.Context(), "full"))(t)
	if sizes["data"] == 0 || sizes["config"] == 0 {
		t.Errorf("the Job found %v", sizes)
	}
	must(s.Unpause(t.Context(), "full"))(t)
	s.follows(t, "full")
	s.same(t, "full", before)
	s.sameBlocks(t, "full", first)
}

func (s *stage) restarts(t *testing.T) {
	const name = "validator-2"
	s.ready(t, name)
	before, pod := s.identity(t, name), s.pod(t, name)
	seen := s.watchPods(t, client.MatchingLabels{v1alpha1.LabelNode: name})
	const times = 10
	missed := 0
	for i := range times {
		height, seid := s.watcher.LastSigned(name), s.seid(t, pod)
		task := must(s.RestartSeid(t.Context(), name))(t)
		if s.seid(t, pod) == seid {
			t.Errorf("seid was not restarted by restart %d", i+1)
		}
		gap := s.gap(t, name, height)
		note("restart %2d in place: RPC away for %s s; %s", i+1, task.Status.Outputs.RestartGapSeconds, gap)
		missed += gap.Missed
	}
	now := s.pod(t, name)
	if now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	s.notRestarted(t, pod, now)
	// Whoever uses the node through its Service does not lose it, ten times in a row.
	seen(func(_ watch.EventType, pod *corev1.Pod) {
		if !live.PodReady(pod) {
			t.Errorf("with restarts in place the pod was not ready: %v", pod.Status.Conditions)
		}
	}, now)

	height := s.watcher.LastSigned(name)
	check(t, s.Client.Delete(t.Context(), pod))
	must(s.NewPod(t.Context(), name, pod))(t)
	deleted := s.gap(t, name, height)
	note("the pod deleted:      %s", deleted)
	if missed >= times*deleted.Missed {
		t.Errorf("%d restarts in place cost %d blocks, deleting the pod %d", times, missed, deleted.Missed)
	}
	s.ready(t, name)
	s.same(t, name, before)
}

// The moniker is what a node calls itself, so the chain can be asked for it.
func (s *stage) overrideAndRestart(t *testing.T) {
	const name, moniker = "provider", "changed at once"
	pod := s.pod(t, name)
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Overrides["config.moniker"] = moniker })
	for range 2 {
		must(s.RestartSeid(t.Context(), name))(t)
		s.ready(t, name)
		if now := s.moniker(t, name); now != moniker {
			t.Errorf("the node calls itself %q", now)
		}
	}
	if s.pod(t, name).UID != pod.UID {
		t.Error("the pod was replaced for a change of configuration")
	}
}

func (s *stage) sidecarKilled(t *testing.T) {
	const name = "validator-0"
	before, pod := s.identity(t, name), s.pod(t, name)
	seid := s.seid(t, pod)
	killed := must(live.Processes(pod, "sei-sidecar"))(t)
	check(t, s.Kill(pod, "sei-sidecar"))
	check(t, s.Another(t.Context(), pod, "sei-sidecar", killed))
	must(live.Until(t.Context(), s.Cluster, s.Key(pod.Name), "a sidecar that is ready", func(pod *corev1.Pod) bool {
		for _, container := range pod.Status.InitContainerStatuses {
			if container.Name == "sei-sidecar" {
				return container.Ready
			}
		}
		return false
	}))(t)
	s.ready(t, name)
	check(t, s.watcher.Grow(t.Context(), 4))
	s.same(t, name, before)
	if now := s.seid(t, s.pod(t, name)); now != seid {
		t.Errorf("seid was process %d and is %d", seid, now)
	}
}

func (s *stage) podDeletedWithoutOperator(t *testing.T) {
	const name = "validator-1"
	before, pod := s.identity(t, name), s.pod(t, name)
	check(t, s.StopOperator(t.Context()))
	defer func() { check(t, s.StartOperator(t.Context())) }()
	height := s.watcher.LastSigned(name)
	check(t, s.Client.Delete(t.Context(), pod))
	must(s.NewPod(t.Context(), name, pod))(t)
	note("without the operator, the pod deleted: %s", s.gap(t, name, height))
	s.same(t, name, before)
}

// Somebody copies a validator, and its key into another Secret.
func (s *stage) twins(t *testing.T) {
	twin, remove, err := s.Twin(t.Context(), 0)
	check(t, err)
	check(t, s.watcher.Grow(t.Context(), 6))
	check(t, s.PodGone(t.Context(), twin.Name))
	check(t, remove(t.Context()))
}

func (s *stage) imageCorrected(t *testing.T) {
	const name = "validator-3"
	before, height := s.identity(t, name), s.watcher.LastSigned(name)
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Image = live.ImageMissing })
	s.has(t, name, v1alpha1.ConditionReady, v1alpha1.ReasonImagePullBackOff)
	s.edit(t, name, func(spec *v1alpha1.SeiNodeSpec) { spec.Image = live.ImageV1 })
	s.ready(t, name)
	s.same(t, name, before)
	note("an image that was corrected: %s", s.gap(t, name, height))
}

func (s *stage) thereAndBack(t *testing.T) {
	before, first := s.identity(t, "full"), s.earliest(t, "full")
	for _, to := range []struct{ image, version string }{{live.ImageV2, "v2"}, {live.ImageV1, "v1"}} {
		s.edit(t, "full", func(spec *v1alpha1.SeiNodeSpec) { spec.Image = to.image })
		s.withImage(t, "full", to.image)
		if now := s.version(t, "full"); now != to.version {
			t.Errorf("seid %s runs, not %s", now, to.version)
		}
	}
	s.follows(t, "full")
	s.same(t, "full", before)
	s.sameBlocks(t, "full", first)
}

// withImage waits until a node is ready with an image.
func (s *stage) withImage(t *testing.T, name, image string) {
	t.Helper()
	must(s.Wait(t.Context(), name, "the node with the image "+image, func(node *v1alpha1.SeiNode) bool {
		return live.IsReady(node) && node.Status.CurrentImage == image
	}))(t)
}

func (s *stage) retained(t *testing.T) {
	before, first := s.identity(t, "replayer"), s.earliest(t, "replayer")
	check(t, s.Again(t.Context(), "replayer"))
	s.ready(t, "replayer")
	s.follows(t, "replayer")
	s.same(t, "replayer", before)
	s.sameBlocks(t, "replayer", first)
	s.remove(t, "replayer")
}
