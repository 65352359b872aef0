package build

import "context"

// ControlPlane is everything a cluster runs.
type ControlPlane struct {
	Kubernetes, Etcd, Kwok *Result
}

// Runtime is everything a node runs besides Kubernetes itself.
type Runtime struct {
	Containerd, Runc, CNI, CoreDNS *Result
}

// want is a component and the place for its result.
type want struct {
	component Component
	result    **Result
}

// ControlPlane returns the binaries of a cluster, building what is missing.
func (b *Builder) ControlPlane(ctx context.Context) (*ControlPlane, error) {
	c := &ControlPlane{}
	return c, b.ensure(ctx, c.Release, want{Etcd, &c.Etcd}, want{Kwok, &c.Kwok}, want{Kubernetes, &c.Kubernetes})
}

// Runtime returns the binaries of a node, building what is missing. What may lack
// something that Go cannot bring comes first.
func (b *Builder) Runtime(ctx context.Context) (*Runtime, error) {
	r := &Runtime{}
	return r, b.ensure(ctx, r.Release, want{Runc, &r.Runc}, want{CNI, &r.CNI}, want{Containerd, &r.Containerd}, want{CoreDNS, &r.CoreDNS})
}

// ensure builds one component after the other: each of them keeps all processors
// busy by itself.
func (b *Builder) ensure(ctx context.Context, release func(), wanted ...want) error {
	for _, w := range wanted {
		r, err := b.Ensure(ctx, w.component)
		if err != nil {
			release()
			return err
		}
		*w.result = r
	}
	return nil
}

// Release allows the binaries to be removed.
func (c *ControlPlane) Release() { releaseAll(c.Kubernetes, c.Etcd, c.Kwok) }

// Release allows the binaries to be removed.
func (r *Runtime) Release() { releaseAll(r.Containerd, r.Runc, r.CNI, r.CoreDNS) }

func releaseAll(results ...*Result) {
	for _, r := range results {
		if r != nil {
			r.Release()
		}
	}
}
