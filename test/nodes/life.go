package nodes

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/internal/seid"
)

// life is one pod, from its address to its end.
type life struct {
	ctx  context.Context //nolint:containedctx // it is the life of the pod, and calls come from elsewhere
	end  context.CancelFunc
	node *Node
	pod  podFacts

	// mu orders starts and ends of the sidecar. Tasks never take it, so they can be
	// waited for with it held.
	mu      sync.Mutex
	volume  *volume
	mounted mounted
	sidecar *sidecar

	certificates certificates
}

// mounted is what the kubelet put into the pod. It would follow its sources up to
// minutes late; here it never does, which is the worst case.
type mounted struct {
	document              []byte
	signingKey, nodeID    string
	ownSigning, ownNodeID bool // whether the volume's own keys are in use
}

func newLife(ctx context.Context, node *Node, pod podFacts) *life {
	l := &life{node: node, pod: pod}
	l.ctx, l.end = context.WithCancel(ctx)
	l.certificates.life = l
	return l
}

// run is the pod until it goes away.
func (l *life) run() {
	f := l.node.fleet
	if err := l.mount(); err != nil {
		if l.ctx.Err() == nil {
			f.t.Errorf("the pod of %s cannot start: %v", l.node.key, err)
		}
		return
	}
	select {
	case l.volume.turn <- struct{}{}:
		defer func() { <-l.volume.turn }()
	case <-l.ctx.Done():
		return
	}
	l.boot()
	l.node.enters(l)
	<-l.ctx.Done()
	l.node.leaves(l)
	l.shut()
}

func (l *life) mount() error {
	f, namespace := l.node.fleet, l.node.key.Namespace
	claim, err := f.kube.CoreV1().PersistentVolumeClaims(namespace).Get(l.ctx, l.pod.claim, metav1.GetOptions{})
	if err != nil {
		return err
	}
	l.volume = f.volume(claim.UID)
	if l.mounted.document, err = f.read(l.ctx, namespace, l.pod.document); err != nil {
		return err
	}
	if err := l.deliver(l.ctx); err != nil {
		return err
	}
	signingKey, err := l.await(l.pod.signingKey)
	if err != nil {
		return err
	}
	nodeKey, err := l.await(l.pod.nodeKey)
	if err != nil {
		return err
	}
	if _, err := l.await(l.pod.certificate); err != nil {
		return err
	}
	l.mounted.ownSigning, l.mounted.ownNodeID = l.pod.signingKey == nil, l.pod.nodeKey == nil
	// A file that is no key is nobody, which never equals what was approved.
	if key, err := seid.ParseSigningKey(signingKey); err == nil {
		l.mounted.signingKey = key.PublicKey
	}
	if id, err := seid.ParseNodeKey(nodeKey); err == nil {
		l.mounted.nodeID = id
	}
	return nil
}

// await is the content of a mounted file. As long as it is not there no container
// starts, and the kubelet looks again and again.
func (l *life) await(file *mountedFile) ([]byte, error) {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		content, err := l.node.fleet.read(l.ctx, l.node.key.Namespace, file)
		if err != nil || content != nil || file == nil {
			return content, err
		}
		select {
		case <-look.C:
		case <-l.ctx.Done():
			return nil, l.ctx.Err()
		}
	}
}

func (l *life) boot() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start()
}

// start brings the sidecar up; the caller holds the lock.
func (l *life) start() {
	s, err := newSidecar(l)
	if err != nil {
		l.node.fleet.t.Errorf("the sidecar of %s cannot start: %v", l.node.key, err)
		return
	}
	l.sidecar = s
	l.listen()
}

// listen makes the sidecar reachable unless it is not to be; the caller holds the lock.
func (l *life) listen() {
	if l.sidecar == nil {
		return
	}
	if l.node.isBlackHole() {
		l.sidecar.deafen()
		return
	}
	if err := l.sidecar.listen(l.ctx, l.pod.address); err != nil && l.ctx.Err() == nil {
		l.node.fleet.t.Errorf("the sidecar of %s cannot listen: %v", l.node.key, err)
	}
}

func (l *life) relisten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
}

func (l *life) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// stop ends the sidecar; the caller holds the lock.
func (l *life) stop() {
	if l.sidecar != nil {
		l.sidecar.close()
		l.sidecar = nil
	}
}

// restart is that of the container: between the two something happens to the volume.
func (l *life) restart(meanwhile func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
	meanwhile()
	if l.ctx.Err() == nil {
		l.start()
	}
}

// with calls act with the sidecar that runs, or with nil if the pod is ending.
func (l *life) with(act func(*sidecar)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	act(l.sidecar)
}
