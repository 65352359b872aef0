package v1alpha1

// Labels that the operator writes. LabelNode is the one and only selector of a
// node's StatefulSet and Service: selectors are immutable, so nothing that may
// ever change can be in it.
const (
	// LabelNode is the name of the SeiNode that an object belongs to.
	LabelNode = "sei.io/node"
	// LabelChain is the chain id.
	LabelChain = "sei.io/chain"
	// LabelMode is the mode of the node, one of the Mode constants.
	LabelMode = "sei.io/mode"
	// LabelDeployment is the name of the SeiNodeDeployment that a SeiNode belongs to.
	LabelDeployment = "sei.io/nodedeployment"
	// LabelOrdinal is the ordinal of a SeiNode within its SeiNodeDeployment.
	LabelOrdinal = "sei.io/nodedeployment-ordinal"
	// LabelRevision identifies the template of its SeiNodeDeployment that a SeiNode has.
	LabelRevision = "sei.io/nodedeployment-revision"
	// LabelConsensusAddress is the address, 40 hexadecimal digits, that belongs
	// to the signing key whose state a data volume holds.
	LabelConsensusAddress = "sei.io/consensus-address"
	// LabelReservation is on the Leases that reserve a key or a volume; its value is
	// one of the ReservationKind constants.
	LabelReservation = "sei.io/reservation"
)

// Annotations by which a person decides what the operator must not decide by
// itself. Where a value is asked for it names exactly the object meant, so that
// an annotation that was left behind never decides about another one.
const (
	// AnnotationRetry makes the operator try again at once what failed; any new
	// value does.
	AnnotationRetry = "sei.io/retry"
	// AnnotationSkipSafeStop set to "true" lets a stop go ahead without waiting
	// for the moment at which it is safe.
	AnnotationSkipSafeStop = "sei.io/skip-safe-stop"
	// AnnotationAcceptKey accepts the signing key with this public key, or the node
	// key with this node id, in place of the one that the node was approved with.
	// Both may be given, separated by a comma.
	AnnotationAcceptKey = "sei.io/accept-key"
	// AnnotationAcceptNewVolume accepts an empty data volume in place of the
	// lost one, which had this uid.
	AnnotationAcceptNewVolume = "sei.io/accept-new-volume"
	// AnnotationAcceptVolumeLoss lets a stop go ahead although the claim with
	// this uid is being deleted and its data goes with it.
	AnnotationAcceptVolumeLoss = "sei.io/accept-volume-loss"
	// AnnotationAcceptSignState accepts the sign state on the volume, which is at this
	// height: a person confirms that no other process signs with the key, and that the
	// chain has every signature of the key.
	AnnotationAcceptSignState = "sei.io/accept-sign-state"
	// AnnotationConfirmDeletion with the name of the object lets a validator, or its
	// claim, be deleted or taken along where the policies in config/access are installed.
	AnnotationConfirmDeletion = "sei.io/confirm-deletion"
)

// AnnotationTemplateHash on a pod and on the template it was made from identifies
// that template.
const AnnotationTemplateHash = "sei.io/pod-template-hash"

// AnnotationRemovedFromTemplate on a StatefulSet says what the operator last removed
// from its pod template, because somebody else had put it there. The same is not
// removed again; without the annotation it is.
const AnnotationRemovedFromTemplate = "sei.io/removed-from-template"

// AnnotationBootstrapped on a data volume's claim holds the uid of the SeiNode
// that finished its bootstrap on it.
const AnnotationBootstrapped = "sei.io/bootstrapped"

// Annotations on the Secret with a node's certificate, by which is judged whether the
// node needs another one. The Secret itself is not read for that.
const (
	// AnnotationCertificateIssuer identifies the authority that issued it.
	AnnotationCertificateIssuer = "sei.io/certificate-issuer"
	// AnnotationCertificateRenewal is when the operator issues another one.
	AnnotationCertificateRenewal = "sei.io/certificate-renewal"
)

// AnnotationHolder on a Lease that reserves something is the namespace and the name
// of the SeiNode that holds it.
const AnnotationHolder = "sei.io/holder"

// AnnotationSigned on a Lease that reserves a signing key says what is known of what
// the key signed.
const AnnotationSigned = "sei.io/signed"

// Finalizers.
const (
	// FinalizerReservation keeps a Lease until the node that holds it lets go of it:
	// deleting it by hand frees nothing.
	FinalizerReservation = "sei.io/reservation-finalizer"
	// FinalizerNode keeps a SeiNode until its pod is seen gone and its volume
	// and keys are released.
	FinalizerNode = "sei.io/seinode-finalizer"
	// FinalizerDeployment keeps a SeiNodeDeployment until its nodes are released
	// or deleted, as its policy says.
	FinalizerDeployment = "sei.io/seinodedeployment-finalizer"
	// FinalizerTask keeps a SeiNodeTask until it is cancelled on the node.
	FinalizerTask = "sei.io/seinodetask-finalizer"
)
