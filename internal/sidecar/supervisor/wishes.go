package supervisor

// wish is what a request wants of seid. Wishes are ordered by arrival: a request
// may wait for long before it can act, and whoever wakes first is chance.
type wish struct {
	// next is under which approval seid is to run; nil is that it does not run.
	next *Approval
	// granted: it was acted on, so it stands when its request is answered, also
	// with a failure.
	granted bool
}

// wishes are those that stand, in order of arrival: of requests that still wait,
// and the last that was granted.
type wishes []*wish

// arrive notes a wish.
func (w *wishes) arrive(next *Approval) *wish {
	fresh := &wish{next: next}
	*w = append(*w, fresh)
	return fresh
}

// overtaken tells whether the latest wish is the opposite of this one.
func (w *wishes) overtaken(by *wish) bool {
	return (w.latest(by).next == nil) != (by.next == nil)
}

// latest is the wish that counts.
func (w *wishes) latest(otherwise *wish) *wish {
	if len(*w) == 0 {
		return otherwise
	}
	return (*w)[len(*w)-1]
}

// answered forgets what does not count any more once a request has its answer:
// its wish when it was refused, and what came before it when it was granted.
func (w *wishes) answered(done *wish) {
	for i, one := range *w {
		switch {
		case one != done:
		case done.granted:
			*w = append(wishes(nil), (*w)[i:]...)
			return
		default:
			*w = append(append(wishes(nil), (*w)[:i]...), (*w)[i+1:]...)
			return
		}
	}
}
