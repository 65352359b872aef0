package access

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
	"github.com/sei-operator/sei-operator/internal/kube"
	"github.com/sei-operator/sei-operator/internal/plan"
	"github.com/sei-operator/sei-operator/internal/platform"
	"github.com/sei-operator/sei-operator/internal/render"
)

// SecretName is the name of the Secret with the authority, in the operator's namespace.
const SecretName = "sei-operator-ca"

// Keeper keeps the authority, and knows what was issued last. It is safe for concurrent
// use by reconciles of different nodes.
type Keeper struct {
	kube     *kube.Client
	settings platform.AccessControl
	clock    clock.PassiveClock

	// authority is the one in the Secret with this version; nil: none is known. Who
	// judges a certificate never waits for somebody who changes it.
	authority atomic.Pointer[Authority]
	changing  sync.Mutex
	version   version

	mu sync.Mutex
	// issued are the Secrets of nodes as the cache had them when they were written: until
	// it has something else, it is behind.
	issued map[types.NamespacedName]version
	rights map[types.NamespacedName]rights
}

// version identifies what a Secret holds. That of none is empty.
type version struct {
	uid             types.UID
	resourceVersion string
}

func versionOf(object metav1.Object) version {
	return version{object.GetUID(), object.GetResourceVersion()}
}

// New makes a keeper.
func New(k *kube.Client, settings platform.AccessControl, c clock.PassiveClock) *Keeper {
	return &Keeper{
		kube: k, settings: settings, clock: c,
		issued: map[types.NamespacedName]version{}, rights: map[types.NamespacedName]rights{},
	}
}

// Roots are the authorities that may have issued the certificate of a node: the
// operator's own, and those of the platform's settings. The file is read each time: it
// changes when somebody else rotates.
func (k *Keeper) Roots() (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if file := k.settings.CAFile; file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the authorities of the nodes' certificates cannot be read: %w", err)
		}
		if !pool.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("the file %s holds no certificate", file)
		}
	}
	if authority := k.authority.Load(); authority != nil {
		authority.trust(pool)
	}
	return pool, nil
}

// issues tells whether nodes get their certificates from the operator.
func (k *Keeper) issues() bool { return k.settings.Enabled && k.settings.CAFile == "" }

// Learn finds out whom to trust, also where access control is off: there may be pods
// that have a proxy still.
func (k *Keeper) Learn(ctx context.Context) error {
	_, _, err := k.look(ctx)
	return err
}

// Look finds out how it stands with the way in to a node; nil: access control is off.
func (k *Keeper) Look(ctx context.Context, in plan.Input) (*plan.Access, error) {
	if in.Want.ProxyConfig == nil {
		return nil, nil
	}
	id, problem, err := k.look(ctx)
	if err != nil {
		return nil, err
	}
	seen := &plan.Access{Brought: !k.issues(), Authority: id, AuthorityProblem: problem}
	if seen.Certificate, err = k.certificate(ctx, in.Node); err != nil {
		return nil, err
	}
	if plan.AsksForRights(in) {
		seen.Rights, err = k.askRights(ctx, in)
	}
	return seen, err
}

// look brings the authority up to date: it reads it when it changed, makes one where
// there is none, and another one when it is time. It returns what identifies it, or
// what is wrong with it.
func (k *Keeper) look(ctx context.Context) (id, problem string, err error) {
	key := types.NamespacedName{Namespace: k.kube.Namespace(), Name: SecretName}
	k.changing.Lock()
	defer k.changing.Unlock()
	metadata, err := k.kube.SecretMetadata(ctx, key)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", "", fmt.Errorf("reading the metadata of the Secret %s: %w", key, err)
	}
	if versionOf(metadata) != k.version {
		if problem, err = k.read(ctx, key); err != nil || problem != "" {
			return "", problem, err
		}
	}
	if k.issues() {
		if err := k.advance(ctx, key); err != nil {
			return "", refusal(key, err), unlessRefused(err)
		}
	}
	if authority := k.authority.Load(); authority != nil {
		return authority.ID(), "", nil
	}
	return "", "", nil
}

// refusal is what to tell of a write that the API server does not let pass; empty: it
// may with the next try.
func refusal(key types.NamespacedName, err error) string {
	if unlessRefused(err) != nil {
		return ""
	}
	return fmt.Sprintf("The API server refuses the Secret %s, from which nodes get their certificates: %s. Apply config/rbac of this version.", key, err)
}

func unlessRefused(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// read reads the authority from its Secret. One that is gone stays the authority: it is
// written again. One that somebody replaced is trusted on.
func (k *Keeper) read(ctx context.Context, key types.NamespacedName) (problem string, err error) {
	secret := &corev1.Secret{}
	switch err := k.kube.GetLive(ctx, key, secret); {
	case apierrors.IsNotFound(err):
		k.version = version{}
		return "", nil
	case err != nil:
		return "", fmt.Errorf("reading the Secret %s: %w", key, err)
	}
	found, err := ParseAuthority(secret.Data)
	if err != nil {
		return fmt.Sprintf("The Secret %s, from which nodes get their certificates, cannot be used: %s. Restore it, or delete it to have a new authority made.", key, err), nil
	}
	if before := k.authority.Load(); before != nil {
		found = found.After(*before, k.clock.Now())
	}
	k.authority.Store(&found)
	k.version = versionOf(secret)
	return "", nil
}

// advance writes the authority if it is not in its Secret, or not to be used any more.
func (k *Keeper) advance(ctx context.Context, key types.NamespacedName) error {
	now := k.clock.Now()
	var next Authority
	var err error
	switch known := k.authority.Load(); {
	case known == nil:
		next, err = NewAuthority(now)
	case k.version == version{}:
		next = *known
	default:
		var another bool
		if next, another, err = known.Current(now); err == nil && !another {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("making a certificate authority: %w", err)
	}
	data, err := next.Data()
	if err != nil {
		return fmt.Errorf("writing a certificate authority: %w", err)
	}
	want := corev1ac.Secret(key.Name, key.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/name": render.FieldManager}).
		WithType(corev1.SecretTypeOpaque).WithData(data).WithResourceVersion(kube.MustNotExist)
	if (k.version != version{}) {
		want.WithUID(k.version.uid).WithResourceVersion(k.version.resourceVersion)
	}
	applied, err := kube.Apply(ctx, k.kube, want)
	if err != nil {
		return fmt.Errorf("writing the Secret %s: %w", key, err)
	}
	k.authority.Store(&next)
	k.version = version{*applied.UID, *applied.ResourceVersion}
	return nil
}

// certificate is what is known of the certificate of a node.
func (k *Keeper) certificate(ctx context.Context, node *v1alpha1.SeiNode) (*plan.Certificate, error) {
	key := types.NamespacedName{Namespace: node.Namespace, Name: render.AccessSecretName(node)}
	metadata, err := k.kube.SecretMetadata(ctx, key)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the metadata of the Secret %s: %w", key, err)
	}
	k.mu.Lock()
	before, wrote := k.issued[key]
	behind := wrote && before == versionOf(metadata)
	if !behind {
		delete(k.issued, key)
	}
	k.mu.Unlock()
	if behind {
		metadata, err = k.kube.SecretMetadataLive(ctx, key)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading the metadata of the Secret %s: %w", key, err)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return plan.ReadCertificate(node, metadata), nil
}

// Issue gives a node a certificate.
func (k *Keeper) Issue(ctx context.Context, in plan.Input) error {
	node, found := in.Node, in.Seen.Access.Certificate
	authority := k.authority.Load()
	made, err := authority.Issue(render.ServerName(node.Namespace, node.Name), in.Seen.Now)
	if err != nil {
		return fmt.Errorf("issuing the certificate of node %s/%s: %w", node.Namespace, node.Name, err)
	}
	want := render.AccessSecret(node, made.Certificate, made.Key, map[string]string{
		v1alpha1.AnnotationCertificateIssuer:  authority.ID(),
		v1alpha1.AnnotationCertificateRenewal: made.Renewal.UTC().Format(time.RFC3339),
	})
	var before version
	if found == nil {
		want.WithResourceVersion(kube.MustNotExist)
	} else {
		before = version{found.UID, found.ResourceVersion}
		want.WithUID(found.UID)
	}
	if _, err := kube.Apply(ctx, k.kube, want); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.issued[types.NamespacedName{Namespace: node.Namespace, Name: *want.Name}] = before
	return nil
}

// Forget is for a node that is gone.
func (k *Keeper) Forget(node types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.issued, types.NamespacedName{Namespace: node.Namespace, Name: render.AccessSecretName(&v1alpha1.SeiNode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}})})
}
