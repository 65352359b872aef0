// Package volumes stands in for a storage driver: it provisions, deletes and
// resizes volumes as the sidecars of a CSI driver do. Binding is left to the real
// volume controller, and having a place for the data to somebody else.
package volumes

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/sei-operator/sei-operator/lab/kube/loop"
)

// Driver is the name of the storage driver we stand in for.
const Driver = "volumes.lab.sei.io"

// Provisioner does what the claims of our StorageClasses ask for.
type Provisioner struct {
	client  kubernetes.Interface
	storage Storage
	classes storagelisters.StorageClassLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister

	changedClaims  *loop.Queue
	changedVolumes *loop.Queue
}

// NewProvisioner must be called before the factory is started.
func NewProvisioner(client kubernetes.Interface, storage Storage, factory informers.SharedInformerFactory) (*Provisioner, error) {
	classes := factory.Storage().V1().StorageClasses()
	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	p := &Provisioner{
		client:         client,
		storage:        storage,
		classes:        classes.Lister(),
		claims:         claims.Lister(),
		volumes:        volumes.Lister(),
		changedClaims:  loop.NewQueue(),
		changedVolumes: loop.NewQueue(),
	}
	classes.Informer() // Asks the factory for it.
	if err := p.changedClaims.Watch(claims.Informer()); err != nil {
		return nil, err
	}
	return p, p.changedVolumes.Watch(volumes.Informer())
}

// Run works until the context is done.
func (p *Provisioner) Run(ctx context.Context, failed func(cache.ObjectName, error)) {
	var running sync.WaitGroup
	running.Go(func() { p.changedClaims.Run(ctx, 2, p.handleClaim, failed) })
	running.Go(func() { p.changedVolumes.Run(ctx, 2, p.handleVolume, failed) })
	running.Wait()
}

func (p *Provisioner) handleClaim(ctx context.Context, name cache.ObjectName) error {
	claim, err := p.claims.PersistentVolumeClaims(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if claim.Spec.VolumeName != "" {
		return p.resize(ctx, claim)
	}
	if !asksUs(claim) {
		return nil
	}
	class, err := p.classes.Get(*claim.Spec.StorageClassName)
	if err != nil {
		return err // Newer than our cache.
	}
	if !wantsVolume(claim, class) {
		return nil
	}
	volume := newVolume(claim, class)
	if err := p.storage.Make(volume); err != nil {
		return err
	}
	_, err = p.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (p *Provisioner) handleVolume(ctx context.Context, name cache.ObjectName) error {
	volume, err := p.volumes.Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if claim := volume.Spec.ClaimRef; claim != nil {
		// A resize goes back and forth between the claim and its volume.
		p.changedClaims.Add(cache.NewObjectName(claim.Namespace, claim.Name))
	}
	if !mayDelete(volume) {
		return nil
	}
	// Data first: a volume that is gone would never bring us back to it.
	if err := p.storage.Destroy(volume); err != nil {
		return err
	}
	err = p.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(volume.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
