package plan

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/sidecar/api"
)

// happenings are what can happen to a node and its world, in any number and order.
var happenings = map[string]func(*rapid.T) edit{
	"paused":        always(paused),
	"deleted":       always(deleted),
	"unrenderable":  always(unrenderable),
	"edited image":  always(newImage),
	"edited config": always(override("y")),
	"validator":     always(validator),
	"seed":          always(seed),
	"imports":       always(imports),
	"no claim":      always(noClaim),
	"no set":        always(noSet),
	"forgotten":     always(forgotten),
	"no pod":        always(noPod),
	"no document":   always(noDocument),
	"no status":     always(emptied),
	"reapproving":   always(reapproving),
	"snapshot": func(*rapid.T) edit {
		return spec(func(s *v1alpha1.SeiNodeSpec) {
			if s.FullNode != nil {
				s.FullNode.Snapshot = &v1alpha1.SnapshotSource{StateSync: &v1alpha1.StateSyncSource{}}
			}
		})
	},
	"no witnesses": always(func(in *Input) { in.Want.Witnesses = nil }),
	"new template": always(func(in *Input) { in.Want.TemplateHash = "another" }),
	"phase": func(t *rapid.T) edit {
		return phase(rapid.SampledFrom([]v1alpha1.SeiNodePhase{
			"", v1alpha1.PhasePending, v1alpha1.PhaseInitializing, v1alpha1.PhaseRunning, v1alpha1.PhaseFailed, v1alpha1.PhaseTerminating,
		}).Draw(t, "phase"))
	},
	"bootstrapping": func(t *rapid.T) edit {
		task := rapid.SampledFrom([]string{TaskEnsureDataPVC, TaskApplyService, TaskApplyStatefulSet, TaskMarkReady, "unknown"}).Draw(t, "task")
		return at(task)
	},
	"another spec was admitted": always(func(in *Input) { in.Node.Status.AdmittedSpecHash = "another" }),
	"last plan":                 anyRecord,
	"retry": func(t *rapid.T) edit {
		return annotated(v1alpha1.AnnotationRetry, rapid.StringN(-1, -1, 300).Draw(t, "retry"))
	},
	"accepts a loss": func(t *rapid.T) edit { return acceptsLossOf(string(anyUID(t))) },
	"claim": func(t *rapid.T) edit {
		claim := hasClaim(claimed(anyUID(t)))
		if rapid.Bool().Draw(t, "marked") {
			claim = hasClaim(claimed(anyUID(t)), marked(anyUID(t)))
		}
		return claim
	},
	"claim ends":      always(func(in *Input) { onClaim(in, terminatingClaim) }),
	"claim unbound":   always(func(in *Input) { onClaim(in, unbound) }),
	"claim mislabels": always(func(in *Input) { onClaim(in, func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }) }),
	"tracks":          func(t *rapid.T) edit { return tracks(anyUID(t)) },
	"used": func(t *rapid.T) edit {
		return usedBy(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 2).Draw(t, "pods")...)
	},
	"set": func(t *rapid.T) edit {
		changes := rapid.SliceOfN(rapid.SampledFrom([]func(*appsv1.StatefulSet){
			uncontrolled, terminatingSet, scaled(0), scaled(1), scaled(2), ownedBy("HelmRelease", "theirs"),
			selecting(nil), func(s *appsv1.StatefulSet) { s.UID = otherUID }, func(s *appsv1.StatefulSet) { s.Spec.Selector, s.Spec.Replicas = nil, nil },
		}), 0, 3).Draw(t, "changes of the StatefulSet")
		return hasSet(changes...)
	},
	"foreign Service": always(foreignService),
	"pod ends":        always(func(in *Input) { hasPod(endingPod)(in) }),
	"document":        func(t *rapid.T) edit { return hasDocument(rapid.Int64Range(0, 9).Draw(t, "serial")) },
	"tampered":        always(tampered(foreignText)),
	"emptied document": always(func(in *Input) {
		tampered(foreignText)(in)
		garbage(in)
	}),
	"peers": func(t *rapid.T) edit {
		return knowsPeers(rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,8}`), 0, 3).Draw(t, "peers")...)
	},
	"no config admitted": always(func(in *Input) { in.Node.Status.ConfigHash = "" }),
	"serial":             func(t *rapid.T) edit { return remembers(rapid.Int64Range(0, 9).Draw(t, "remembered serial")) },
	"sidecar": func(t *rapid.T) edit {
		found := Sidecar{Connected: rapid.Bool().Draw(t, "connected"), New: rapid.Bool().Draw(t, "new"), Status: api.Status{
			Approved: rapid.Bool().Draw(t, "approved"), Held: rapid.Bool().Draw(t, "held"),
			Approval: api.Approval{NodeUID: rapid.SampledFrom([]string{"", "node-uid", "other-uid"}).Draw(t, "approval")},
			Config:   api.Config{Serial: rapid.Int64Range(0, 9).Draw(t, "applied serial")},
		}}
		return sidecar(func(s *Sidecar) { *s = found })
	},
	"keys": func(t *rapid.T) edit {
		found := rapid.SampledFrom([]edit{allKeys, missing(SigningKey), malformed(NodeKey), usable(SigningKey), usable(NodeKey, SigningKey)})
		return found.Draw(t, "keys")
	},
	"known keys": func(t *rapid.T) edit {
		public, id, of := anyPublicKey(t), anyNodeID(t), rapid.SampledFrom([]string{address, otherAddress}).Draw(t, "address")
		return func(in *Input) {
			signs(public, of)(in)
			identifies(id)(in)
			usable(OperatorKeyring)(in)
		}
	},
	"keys of the pod": func(t *rapid.T) edit {
		return rapid.SampledFrom([]func(public, id string) edit{podHas, approvedWith}).Draw(t, "keys of the pod")(anyPublicKey(t), anyNodeID(t))
	},
	"accepts keys":         func(t *rapid.T) edit { return acceptsKey(anyPublicKey(t) + "," + anyNodeID(t)) },
	"signing key reserved": anyReservation(v1alpha1.ReservationSigningKey, anyPublicKey),
	"node key reserved":    anyReservation(v1alpha1.ReservationNodeKey, anyNodeID),
	"volume reserved":      anyReservation(v1alpha1.ReservationDataVolume, func(t *rapid.T) string { return string(anyUID(t)) }),
	"reservations to come": always(unpersisted),
	"deletes its volume":   always(policy(v1alpha1.DeletionPolicyDelete)),
	"retained volume":      always(reclaims(corev1.PersistentVolumeReclaimRetain)),
	"gives up a volume":    func(t *rapid.T) edit { return givesUp(string(anyUID(t))) },
	"data of others":       always(claimOf("other")),
	"claim of another":     always(claim(func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{v1alpha1.LabelNode: "other"} })),
	"claim of another key": always(claim(func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataLabel(&c.ObjectMeta, v1alpha1.LabelConsensusAddress, otherAddress)
	})),
	"claim only to be read": always(claim(accessible(corev1.ReadOnlyMany))),
	"claim grows":           always(claim(grows("10Gi", "20Gi"))),
	"larger volume": always(func(in *Input) {
		sized("20Gi")(in)
		refused(in)
	}),
	"disk":          func(t *rapid.T) edit { return diskOf(1000, rapid.Int64Range(0, 1000).Draw(t, "free")) },
	"old reference": always(stillPersisted),
	"updating": func(t *rapid.T) edit {
		kind := rapid.SampledFrom([]v1alpha1.PlanType{v1alpha1.PlanNodeUpdate, v1alpha1.PlanConfigUpdate}).Draw(t, "update")
		return func(in *Input) {
			updating(in)
			in.Node.Status.Plan.Type = kind
		}
	},
	"slot":           always(has(v1alpha1.UpdateSlot{Cause: v1alpha1.UpdateCauseOperator, TemplateHash: "another"})),
	"unsafe":         always(unsafe("state sync")),
	"skip safe stop": always(skipsSafeStop("true")),
	"stop requested": func(t *rapid.T) edit {
		return wantsStop(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "stop requested")))
	},
	"leaves a pause": always(func(in *Input) {
		for i := range in.Node.Status.Conditions {
			in.Node.Status.Conditions[i].Reason = string(v1alpha1.ReasonStopping)
		}
	}),
}

func always(change edit) func(*rapid.T) edit { return func(*rapid.T) edit { return change } }

func onClaim(in *Input, change func(*corev1.PersistentVolumeClaim)) {
	if in.Seen.Claim != nil {
		change(in.Seen.Claim)
	}
}

func anyUID(t *rapid.T) types.UID {
	return rapid.SampledFrom([]types.UID{nodeUID, claimUID, otherUID, ""}).Draw(t, "uid")
}

func anyPublicKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{publicKey, otherPublicKey}).Draw(t, "public key")
}

func anyNodeID(t *rapid.T) string {
	return rapid.SampledFrom([]string{nodeID, otherNodeID}).Draw(t, "node id")
}

// anyLease draws a Lease of a key or a volume.
func anyLease(t *rapid.T) Lease {
	lease := Lease{Holder: anyUID(t), HolderName: "elsewhere/holder", Bootstrapped: anyUID(t)}
	lease.Abandoned = lease.Holder != nodeUID && rapid.Bool().Draw(t, "abandoned")
	if rapid.Bool().Draw(t, "recorded by others") {
		lease.Recorded = []string{"sei/other"}
	}
	return lease
}

// anyReservation draws a Lease, or none, and whether the node has it in its status.
func anyReservation(kind v1alpha1.ReservationKind, identity func(*rapid.T) string) func(*rapid.T) edit {
	return func(t *rapid.T) edit {
		of, edits := identity(t), []edit(nil)
		if rapid.Bool().Draw(t, "leased") {
			edits = append(edits, leased(kind, of, anyLease(t)))
		}
		if rapid.Bool().Draw(t, "in the status") {
			edits = append(edits, records(kind, of))
		}
		return all(edits...)
	}
}

// all makes one edit of several.
func all(edits ...edit) edit {
	return func(in *Input) {
		for _, change := range edits {
			change(in)
		}
	}
}

func anyRecord(t *rapid.T) edit {
	kind := rapid.SampledFrom([]v1alpha1.PlanType{v1alpha1.PlanBootstrap, v1alpha1.PlanReapprove, v1alpha1.PlanNodeUpdate}).Draw(t, "type of the last plan")
	outcome := rapid.SampledFrom([]v1alpha1.PlanOutcome{
		v1alpha1.PlanOutcomeFailed, v1alpha1.PlanOutcomeComplete, v1alpha1.PlanOutcomeSuperseded,
	}).Draw(t, "outcome of the last plan")
	ago := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "age of the last plan"))
	return ended(kind, outcome, ago, rapid.Int32Min(-1).Draw(t, "failures"))
}

// anyWorld draws what happened, and builds the same world as often as asked.
func anyWorld(t *rapid.T) func() Input {
	names := slices.Sorted(maps.Keys(happenings))
	story := rapid.SliceOfN(rapid.SampledFrom(names), 0, 10).Draw(t, "story")
	start := rapid.SampledFrom([]string{"fresh", "running"}).Draw(t, "start")
	edits := make([]edit, len(story))
	for i, name := range story {
		edits[i] = happenings[name](t)
	}
	return func() Input {
		if start == "fresh" {
			return fresh(edits...)
		}
		return running(edits...)
	}
}
