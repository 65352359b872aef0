package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/consent"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
	"github.com/sei-operator/sei-operator/internal/sidecar/server"
	"github.com/sei-operator/sei-operator/internal/sidecar/signer"
)

// sidecar is one process of a sidecar, without the process.
type sidecar struct {
	node    *Node
	life    *life
	volume  *volume
	consent *consent.Consent
	engine  *engine.Engine
	handler http.Handler
	seid    *process
	signer  *signer.Signer

	end     context.CancelFunc
	watcher sync.WaitGroup // follows approval, hold and seid for those who read events
	serving sync.WaitGroup
	// http and door are nil while nobody is let in.
	http *http.Server
	door net.Listener
}

func newSidecar(l *life) (*sidecar, error) {
	s := &sidecar{node: l.node, life: l, volume: l.volume}
	var err error
	if s.consent, err = consent.Open(l.volume.dir, l.pod.nodeUID, nil); err != nil {
		return nil, err
	}
	s.signer = s.newSigner()
	s.seid = newProcess(s)
	bus := server.NewBus(0)
	registry := prometheus.NewRegistry()
	s.engine, err = engine.New(engine.Options{
		Store: l.volume.tasks, Definitions: s.definitions(), Registerer: registry,
		Notify: func(c engine.Change) {
			l.volume.noted(c)
			bus.Task(c)
		},
	})
	if err != nil {
		return nil, err
	}
	answers, err := server.New(server.Options{
		NodeUID: l.pod.nodeUID, Engine: s.engine, Consent: s.consent, Node: s.seid, Bus: bus, Gatherer: registry,
	})
	if err != nil {
		return nil, err
	}
	s.handler = s.guarded(s.noted(answers.Handler()))
	ctx, end := context.WithCancel(context.WithoutCancel(l.ctx))
	s.end = end
	// A hold that was accepted and is unfinished comes before seid may start. A test may
	// block it, and the pod has to be able to end all the same.
	unguard := context.AfterFunc(l.ctx, func() { _ = s.engine.Close(ctx) })
	s.engine.Resume(ctx)
	unguard()
	s.seid.settle()
	// The server itself serves nobody: calls come through a handler around its own. It
	// publishes what changes, and ends streams and long polls at the end.
	s.watcher.Go(func() { _ = answers.Run(ctx, newNobody()) })
	return s, nil
}

// noted writes calls down, and refuses them when a test wants that.
func (s *sidecar) noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := s.node.key
		s.node.fleet.called(Call{
			Namespace: key.Namespace, Name: key.Name, Method: r.Method, Path: r.URL.Path,
			NodeUID: types.UID(r.Header.Get(api.NodeUIDHeader)),
		})
		if refusal := s.node.refusal(); refusal != nil {
			refusal.answer(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listenAt takes the address of a pod. KWOK gives it away again as soon as the pod that had
// it is gone, which the fleet of that pod, another test's, may still have to hear of.
func listenAt(ctx context.Context, address string) (net.Listener, error) {
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) {
			return listener, err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// listen lets callers in.
func (s *sidecar) listen(ctx context.Context, address string) error {
	if s.http != nil {
		return nil
	}
	listener, err := listenAt(ctx, address)
	if err != nil {
		return err
	}
	s.http = &http.Server{Handler: s.handler, ReadHeaderTimeout: time.Minute, ConnState: s.count}
	s.door = &gatedListener{Listener: listener, node: s.node}
	running, door := s.http, s.door
	if s.life.pod.certificate == nil {
		s.serving.Go(func() { _ = running.Serve(door) })
		return nil
	}
	// Callers that do not trust the certificate are what some tests are about.
	running.ErrorLog = log.New(io.Discard, "", 0)
	running.TLSConfig = &tls.Config{GetCertificate: s.life.certificates.get, MinVersion: tls.VersionTLS12}
	s.serving.Go(func() { _ = running.ServeTLS(door, "", "") })
	return nil
}

// count counts connections, so that none outlives the sidecar. The first one is
// counted while the server itself still is.
func (s *sidecar) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.serving.Add(1)
	case http.StateClosed:
		s.serving.Done()
	default:
	}
}

// deafen ends all connections and lets nobody in.
func (s *sidecar) deafen() {
	if s.http == nil {
		return
	}
	// The door first: a server that has not begun to serve yet does not know of it.
	s.door.Close()
	_ = s.http.Close()
	s.http, s.door = nil, nil
}

// close ends the sidecar as a kill does: tasks that run stay unfinished.
func (s *sidecar) close() {
	s.end()
	s.deafen()
	_ = s.engine.Close(context.WithoutCancel(s.life.ctx))
	s.watcher.Wait()
	s.serving.Wait()
	s.seid.end()
}
