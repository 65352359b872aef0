package supervisor

// searchesInVain makes it safe to stop a seid that found no snapshot and has nothing on
// the volume. In doubt there is something. One that looks for a snapshot restores none: a
// snapshot that it found before was rejected. The lock is held.
func (s *Supervisor) searchesInVain(c *child) {
	if c.searching || c.answered {
		return
	}
	if data, err := s.home.HasChainData(); err == nil && !data {
		c.searching = true
		s.endanger(c, "")
	}
}

// mayRestore ends that: the restore of a snapshot that was found may begin at any moment,
// and must not be interrupted. The lock is held.
func (s *Supervisor) mayRestore(c *child) {
	searched := c.searching
	c.searching = false
	if searched && !c.answered {
		s.endanger(c, StateSyncing)
	}
}

// endanger takes in what makes a stop of a seid dangerous; nothing means that it is
// safe. The lock is held.
func (s *Supervisor) endanger(c *child, danger Danger) {
	if danger == s.state.UnsafeBecause {
		return
	}
	if danger == "" {
		close(c.safe)
	} else if s.state.SafeToStop {
		c.safe = make(chan struct{})
	}
	s.state.SafeToStop, s.state.UnsafeBecause = danger == "", danger
	s.publish()
}
