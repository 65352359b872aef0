package plan

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// forbidden says why a plan with this task must not begin; empty: nothing is known against
// it. It reads the objects themselves and asks nothing of what it is an oracle for. It is
// about what people fear: data that is lost, a key that signs twice, what belongs to
// others, and a node that a person put aside.
func forbidden(in Input, task string) string {
	if why := putAside(in); why != "" {
		return why
	}
	rules := map[string][]func(Input) string{
		TaskEnsureDataPVC:           {volumeNotOurs, volumeInUse},
		TaskReplacePod:              {stopLosesData, volumeNotOurs, keysNotOurs, volumeKeyNotOurs},
		TaskMarkReady:               {keysNotOurs, volumeKeyNotOurs},
		TaskValidateSigningKey:      {keysNotOurs, volumeKeyNotOurs},
		TaskValidateNodeKey:         {keysNotOurs, volumeKeyNotOurs},
		TaskApplyStatefulSet:        {othersStatefulSet},
		TaskApplyService:            {func(in Input) string { return controlledByOther(in, orNil(in.Seen.Service)) }},
		TaskConfigureGenesis:        {broughtUpBefore},
		TaskConfigureStateSync:      {broughtUpBefore, tooFewWitnesses},
		TaskApplyRBACProxyConfig:    nil,
		TaskValidateOperatorKeyring: nil,
		TaskApplyNodeConfig:         nil,
		TaskDiscoverPeers:           nil,
		TaskConfigApply:             nil,
		TaskConfigValidate:          nil,
		TaskObserveImage:            nil,
		TaskObserveSeid:             nil,
		TaskRestartSeid:             nil,
	}
	of, known := rules[task]
	if !known {
		return "the oracle has no rules for this task"
	}
	for _, rule := range of {
		if why := rule(in); why != "" {
			return why
		}
	}
	return ""
}

// putAside: nothing at all is begun.
func putAside(in Input) string {
	switch {
	case in.Node.DeletionTimestamp != nil:
		return "the node is being deleted"
	case in.Node.Spec.Paused:
		return "the node is paused"
	case in.RenderProblem != "":
		return "the spec cannot be rendered"
	}
	return ""
}

// volumeNotOurs: the volume with the data of this node is lost, being deleted, or owned by another node.
func volumeNotOurs(in Input) string {
	claim, had := in.Seen.Claim, in.Node.Status.DataVolume
	if had != nil && in.Node.Annotations[v1alpha1.AnnotationAcceptNewVolume] != string(had.UID) && (claim == nil || claim.UID != had.UID) {
		return "the volume with the data is lost, and no person accepted a new one"
	}
	if claim == nil {
		return ""
	}
	imports := in.Node.Spec.DataVolume != nil && in.Node.Spec.DataVolume.Import != nil
	switch {
	case claim.DeletionTimestamp != nil:
		return "the claim is being deleted"
	case !imports && (claim.Labels[v1alpha1.LabelNode] != in.Node.Name || claim.Labels[v1alpha1.LabelChain] != in.Node.Spec.ChainID):
		return "the claim is of another node"
	case imports && in.Seen.ClaimOwner != "":
		return "the claim holds the data of another SeiNode"
	}
	if leaseOfOther(in, wishOf(v1alpha1.ReservationDataVolume, string(claim.UID)).Name) {
		return "another node has the volume"
	}
	return ""
}

// gaveUpVolume: a person gave up the volume that the node was on, and nothing runs on it.
func gaveUpVolume(in Input) bool {
	had, claim, pod := in.Node.Status.DataVolume, in.Seen.Claim, in.Seen.Pod
	return had != nil && in.Node.Annotations[v1alpha1.AnnotationAcceptNewVolume] == string(had.UID) &&
		(claim == nil || claim.UID != had.UID) && (pod == nil || pod.Status.Phase == corev1.PodPending)
}

func volumeInUse(in Input) string {
	if in.Seen.Claim != nil && len(in.Seen.OtherPods) > 0 {
		return "another pod uses the claim"
	}
	return ""
}

// stopLosesData: the pod is all that keeps a claim which is being deleted.
func stopLosesData(in Input) string {
	claim, pod := in.Seen.Claim, in.Seen.Pod
	if claim != nil && claim.DeletionTimestamp != nil && pod != nil && pod.DeletionTimestamp == nil && !givenUp(in) {
		return "the pod keeps the data"
	}
	return ""
}

// keysNotOurs: a key that the spec names was not looked at, cannot be used, or is
// another node's.
func keysNotOurs(in Input) string {
	names := map[KeyKind]bool{}
	if v := in.Node.Spec.Validator; v != nil {
		names[SigningKey], names[NodeKey], names[OperatorKeyring] = v.SigningKey != nil, v.NodeKey != nil, v.OperatorKeyring != nil
	}
	if in.Node.Spec.Seed != nil {
		names[NodeKey] = true
	}
	for kind, named := range names {
		key, looked := in.Seen.Keys[kind]
		switch {
		case named && (!looked || key.Problem != ""):
			return "the " + string(kind) + " cannot be used"
		case named && key.PublicKey != "" && leaseOfOther(in, wishOf(v1alpha1.ReservationSigningKey, key.PublicKey).Name):
			return "another node has the signing key"
		case named && key.NodeID != "" && leaseOfOther(in, wishOf(v1alpha1.ReservationNodeKey, key.NodeID).Name):
			return "another node has the node key"
		}
	}
	return ""
}

// volumeKeyNotOurs: the validator signs with a key on its volume, which may be a clone, and
// that key is another node's.
func volumeKeyNotOurs(in Input) string {
	onVolume := in.Node.Spec.Validator != nil && in.Node.Spec.Validator.SigningKey == nil && in.Seen.Sidecar.Connected
	if public := in.Seen.Sidecar.Status.SigningPublicKey; onVolume && public != "" && leaseOfOther(in, wishOf(v1alpha1.ReservationSigningKey, public).Name) {
		return "another node has the key on the volume"
	}
	return ""
}

// leaseOfOther: another node that exists holds it, or runs by it.
func leaseOfOther(in Input, name string) bool {
	lease, exists := in.Seen.Leases[name]
	own := slices.ContainsFunc(in.Persisted.Reservations, func(r v1alpha1.Reservation) bool { return r.Name == name })
	return exists && (len(lease.Recorded) > 0 || lease.Holder != in.Node.UID && !lease.Abandoned && !own)
}

func othersStatefulSet(in Input) string { return controlledByOther(in, orNil(in.Seen.StatefulSet)) }

func controlledByOther(in Input, object metav1.Object) string {
	if object == nil {
		return ""
	}
	if owner := metav1.GetControllerOf(object); owner != nil && owner.UID != in.Node.UID {
		return object.GetName() + " belongs to " + owner.Kind + " " + owner.Name
	}
	return ""
}

// broughtUpBefore: there is a chain's data, and what is done once must not be done again.
func broughtUpBefore(in Input) string {
	imports := in.Node.Spec.DataVolume != nil && in.Node.Spec.DataVolume.Import != nil
	if claim := in.Seen.Claim; claim != nil && !imports && claim.Annotations[v1alpha1.AnnotationBootstrapped] != "" {
		return "a node was brought up on this volume"
	}
	return ""
}

func tooFewWitnesses(in Input) string {
	if len(in.Want.Witnesses) < 2 {
		return "no RPC server verifies the snapshot"
	}
	return ""
}

// TestTheOracleForbids, each rule once, what it is there for, and no node that is well.
func TestTheOracleForbids(t *testing.T) {
	t.Parallel()
	other, runsByIt := Lease{Holder: otherUID}, Lease{Holder: nodeUID, Recorded: []string{"sei/other"}}
	keyOnVolume := spec(func(s *v1alpha1.SeiNodeSpec) { s.Validator.SigningKey = nil })
	labeled := func(label string) edit {
		return hasClaim(func(c *corev1.PersistentVolumeClaim) { c.Labels[label] = "other" })
	}
	for name, c := range map[string]struct {
		in   Input
		task string
		want string // empty: it is allowed
	}{
		"a node that is well":          {running(), TaskReplacePod, ""},
		"a validator that is well":     {signer(), TaskMarkReady, ""},
		"one with its key on a volume": {signer(keyOnVolume, podHas(publicKey, nodeID)), TaskMarkReady, ""},
		"a new one":                    {fresh(), TaskEnsureDataPVC, ""},
		"a claim that another had":     {fresh(hasClaim(), claimOf("other")), TaskEnsureDataPVC, ""},
		"deleted":                      {running(deleted), TaskApplyNodeConfig, "is being deleted"},
		"paused":                       {running(paused), TaskApplyNodeConfig, "is paused"},
		"unrenderable":                 {running(unrenderable), TaskApplyNodeConfig, "cannot be rendered"},
		"the claim is gone":            {running(noClaim), TaskEnsureDataPVC, "with the data is lost"},
		"another claim":                {running(hasClaim(claimed(otherUID))), TaskReplacePod, "with the data is lost"},
		"the claim ends":               {running(claim(terminatingClaim)), TaskEnsureDataPVC, "the claim is being deleted"},
		"the claim ends under a pod":   {running(claim(terminatingClaim)), TaskReplacePod, "the pod keeps the data"},
		"the claim names another node": {fresh(labeled(v1alpha1.LabelNode)), TaskEnsureDataPVC, "the claim is of another node"},
		"the claim is of a chain":      {fresh(labeled(v1alpha1.LabelChain)), TaskEnsureDataPVC, "the claim is of another node"},
		"an import of another's claim": {fresh(imports, hasClaim(), claimOf("other")), TaskEnsureDataPVC, "the data of another SeiNode"},
		"others use the claim":         {fresh(hasClaim(), usedBy("x")), TaskEnsureDataPVC, "another pod uses"},
		"another has the volume":       {running(leased(v1alpha1.ReservationDataVolume, string(claimUID), other)), TaskReplacePod, "another node has the volume"},
		"another has the key":          {signer(leased(v1alpha1.ReservationSigningKey, publicKey, runsByIt)), TaskMarkReady, "another node has the signing key"},
		"another has the node key":     {signer(leased(v1alpha1.ReservationNodeKey, nodeID, runsByIt)), TaskMarkReady, "another node has the node key"},
		"a clone with its key": {
			signer(keyOnVolume, podHas(publicKey, nodeID), leased(v1alpha1.ReservationSigningKey, publicKey, runsByIt)), TaskMarkReady, "the key on the volume",
		},
		"the key is missing":         {signer(missing(SigningKey)), TaskMarkReady, "cannot be used"},
		"a foreign StatefulSet":      {running(hasSet(ownedBy("HelmRelease", "theirs"))), TaskApplyStatefulSet, "belongs to HelmRelease"},
		"a foreign Service":          {running(foreignService), TaskApplyService, "belongs to HelmRelease"},
		"a genesis for the second":   {running(), TaskConfigureGenesis, "was brought up on this volume"},
		"a snapshot without a check": {fresh(func(in *Input) { in.Want.Witnesses = nil }), TaskConfigureStateSync, "no RPC server verifies"},
		"a task that is not known":   {running(), "reset-data", "no rules"},
	} {
		if why := forbidden(c.in, c.task); (why != "") != (c.want != "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %q, want %q", name, why, c.want)
		}
	}
}

func foreignService(in *Input) {
	in.Seen.Service = &corev1.Service{ObjectMeta: controlledBy("node", "HelmRelease", "theirs", otherUID)}
}

// checkAllowed fails when a plan begins that has a task which is forbidden.
func checkAllowed(t *rapid.T, in Input, p *v1alpha1.Plan) {
	for i := range p.Tasks {
		if why := forbidden(in, p.Tasks[i].Type); why != "" {
			t.Fatalf("a plan begins with %s, although %s: %+v", p.Tasks[i].Type, why, p)
		}
	}
}
