package build

import "context"

// ControlPlane is everything a cluster runs.
type ControlPlane struct {
	Kubernetes, Etcd, Kwok *Result
}

// ControlPlane returns the binaries of a cluster, building what is missing one
// component after the other: each of them keeps all processors busy by itself.
func (b *Builder) ControlPlane(ctx context.Context) (*ControlPlane, error) {
	c := &ControlPlane{}
	for _, want := range []struct {
		component Component
		result    **Result
	}{{Etcd, &c.Etcd}, {Kwok, &c.Kwok}, {Kubernetes, &c.Kubernetes}} {
		r, err := b.Ensure(ctx, want.component)
		if err != nil {
			c.Release()
			return nil, err
		}
		*want.result = r
	}
	return c, nil
}

// Release allows the binaries to be removed.
func (c *ControlPlane) Release() {
	for _, r := range []*Result{c.Kubernetes, c.Etcd, c.Kwok} {
		if r != nil {
			r.Release()
		}
	}
}
