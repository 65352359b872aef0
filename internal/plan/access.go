package plan

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/render"
)

// Access is what is known of the way in to a node's sidecar.
type Access struct {
	// Brought: somebody else makes the Secrets with the certificates.
	Brought bool
	// Authority identifies who issues certificates; empty when it cannot, and
	// AuthorityProblem says why.
	Authority, AuthorityProblem string
	// Certificate is nil when its Secret does not exist.
	Certificate *Certificate
	// Rights are those of the proxy; nil when nobody asked for them in this reconcile.
	Rights *Rights
}

// Certificate is what the metadata of a Secret tells of the certificate in it.
type Certificate struct {
	UID             types.UID
	ResourceVersion string
	// Deleting: the Secret is on its way out.
	Deleting bool
	// Ours: the operator wrote the Secret. Intact: and nobody changed since what it
	// wrote.
	Ours, Intact bool
	// Issuer is the authority that issued it.
	Issuer string
	// Renewal is when it is to be replaced.
	Renewal time.Time
}

const (
	// LongestRenewal is when a certificate is replaced, at the latest, after it was issued.
	LongestRenewal = 40 * 24 * time.Hour
	// ClockTolerance is by how much clocks may differ without anybody noticing.
	ClockTolerance = 24 * time.Hour
)

// Rights are what a proxy may ask the API server.
type Rights struct {
	// Refused is what the operator itself would have to do to find out, and may not.
	Refused string
	// NoAccount: its ServiceAccount does not exist.
	NoAccount bool
	// Denied are the requests that it has to make and may not.
	Denied []string
}

// Granted tells whether nothing is missing.
func (r Rights) Granted() bool { return r.Refused == "" && !r.NoAccount && len(r.Denied) == 0 }

// writtenFor is what the operator writes into the Secret of a node's certificate. What
// somebody else writes there stops being ours, so that ownership tells of every edit,
// and nobody has to look at the key.
func writtenFor(node *v1alpha1.SeiNode) []fieldpath.Path {
	return []fieldpath.Path{
		fieldpath.MakePathOrDie("data", corev1.TLSCertKey),
		fieldpath.MakePathOrDie("data", corev1.TLSPrivateKeyKey),
		fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.AnnotationCertificateIssuer),
		fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.AnnotationCertificateRenewal),
		fieldpath.MakePathOrDie("metadata", "ownerReferences", fieldpath.KeyByFields("uid", string(node.UID))),
	}
}

// ReadCertificate reads the metadata of the Secret of a node's certificate.
func ReadCertificate(node *v1alpha1.SeiNode, secret metav1.Object) *Certificate {
	found := &Certificate{
		UID: secret.GetUID(), ResourceVersion: secret.GetResourceVersion(), Deleting: secret.GetDeletionTimestamp() != nil,
		Issuer: secret.GetAnnotations()[v1alpha1.AnnotationCertificateIssuer],
	}
	// What is no time is long ago.
	found.Renewal, _ = time.Parse(time.RFC3339, secret.GetAnnotations()[v1alpha1.AnnotationCertificateRenewal])
	for _, entry := range secret.GetManagedFields() {
		if entry.Manager != render.FieldManager || entry.Operation != metav1.ManagedFieldsOperationApply {
			continue
		}
		found.Ours, found.Intact = true, ownsAll(entry.FieldsV1, writtenFor(node))
	}
	return found
}

func ownsAll(fields *metav1.FieldsV1, paths []fieldpath.Path) bool {
	owned := &fieldpath.Set{}
	if fields == nil || owned.FromJSON(bytes.NewReader(fields.GetRawBytes())) != nil {
		return false
	}
	for _, path := range paths {
		if !owned.Has(path) {
			return false
		}
	}
	return true
}

// IssueStep is whether a node needs another certificate, and why.
type IssueStep struct {
	Issue   bool
	Message string
	// After is when to look again; 0: when something happens.
	After time.Duration
}

// Issue decides whether the operator gives the node another certificate. The proxy
// takes a new one up while it runs, so no pod is replaced for it.
func Issue(in Input) IssueStep {
	access := in.Seen.Access
	switch {
	case access == nil || access.Brought || AccessTrouble(in) != nil:
		return IssueStep{}
	case access.Certificate == nil:
		return IssueStep{Issue: true, Message: "The access proxy has no certificate."}
	}
	left := access.Certificate.Renewal.Sub(in.Seen.Now)
	switch {
	case !access.Certificate.Intact:
		return IssueStep{Issue: true, Message: "Somebody changed the Secret with the certificate of the access proxy."}
	case access.Certificate.Issuer != access.Authority:
		return IssueStep{Issue: true, Message: "The certificate of the access proxy is from an earlier authority."}
	case left > LongestRenewal+ClockTolerance:
		return IssueStep{Issue: true, Message: "The certificate of the access proxy was issued by a clock that was ahead."}
	case left <= 0:
		return IssueStep{Issue: true, Message: "The certificate of the access proxy is near its end."}
	}
	return IssueStep{After: left}
}

// AccessTrouble is why the proxy of a node cannot have a certificate; nil: it can.
func AccessTrouble(in Input) *Gate {
	access := in.Seen.Access
	if access == nil {
		return nil
	}
	name, certificate := render.AccessSecretName(in.Node), access.Certificate
	switch {
	case access.Brought && certificate == nil:
		return &Gate{
			Reason: v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("The Secret %s with the certificate of the access proxy does not exist: create it in namespace %s, with %s and %s for the name %s.",
				name, in.Node.Namespace, corev1.TLSCertKey, corev1.TLSPrivateKeyKey, render.ServerName(in.Node.Namespace, in.Node.Name)),
		}
	case certificate != nil && certificate.Deleting:
		return &Gate{Reason: v1alpha1.ReasonSecretTerminating, Message: fmt.Sprintf("The Secret %s with the certificate of the access proxy is being deleted.", name)}
	case access.Brought:
		return nil
	case access.Authority == "":
		return &Gate{Reason: v1alpha1.ReasonAuthorityInvalid, Stalled: true, Message: access.AuthorityProblem, After: gateInterval}
	case certificate != nil && !certificate.Ours:
		return &Gate{
			Reason: v1alpha1.ReasonForeignObject, Stalled: true,
			Message: fmt.Sprintf("The Secret %s is not of this operator and is left alone, but the certificate of the access proxy belongs there: delete or rename it, or have the platform's settings say that certificates are brought (accessControl.caFile).", name),
		}
	}
	return nil
}

// accessGate is shut while a pod that a plan makes could not be reached by anybody, the
// operator included, so that the plan would not get to its end. A pod that only has to
// come back is not held by it: seid needs nobody's call to start again.
func accessGate(in Input) *Gate {
	gate := AccessTrouble(in)
	if gate == nil && in.Seen.Access != nil {
		gate = rightsGate(in, in.Seen.Access.Rights)
	}
	if gate != nil {
		gate.Aside = true
	}
	return gate
}

func rightsGate(in Input, rights *Rights) *Gate {
	if rights == nil || rights.Granted() {
		return nil
	}
	account := ServiceAccount(in.Node)
	gate := &Gate{Reason: v1alpha1.ReasonAccessNotGranted, Stalled: true, After: gateInterval}
	switch {
	case rights.Refused != "":
		gate.Message = fmt.Sprintf("The operator may not find out what the access proxy of the node may do: it lacks the right to %s. Apply config/rbac of the operator's version.", rights.Refused)
		return gate
	case rights.NoAccount:
		gate.Message = fmt.Sprintf("The ServiceAccount %s does not exist in namespace %s: create it, or name another one in spec.serviceAccountName.", account, in.Node.Namespace)
		return gate
	}
	gate.Message = fmt.Sprintf("The access proxy of the node could not find out who calls it: the ServiceAccount %s of namespace %s may not %s. Apply config/access/proxy.yaml, and bind its ClusterRole sei-access-proxy to that ServiceAccount as config/access/proxy_binding.yaml does.",
		account, in.Node.Namespace, strings.Join(rights.Denied, " and "))
	return gate
}

// ServiceAccount is the name of the one that the node's pod runs as.
func ServiceAccount(node *v1alpha1.SeiNode) string {
	if name := node.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// AsksForRights tells whether a plan may be about to make a pod, so that what its proxy
// may do has to be known. At rest nobody asks.
func AsksForRights(in Input) bool {
	if in.Node.Spec.Paused {
		return false
	}
	if in.Node.Status.Phase != v1alpha1.PhaseRunning {
		return true
	}
	drift := FindDrift(in)
	return drift != nil && drift.Plan == v1alpha1.PlanNodeUpdate
}
