package signing

import (
	"testing"
)

func TestTheGuardIsOnExactlyWhenItIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits Limits
		height int64
		want   Reason
	}{
		"nothing is known":                                 {Limits{}, 500, Off},
		"a fresh sign state":                               {Limits{}, 0, Fresh},
		"a fresh one, and nothing else matters":            {Limits{Known: 7, Doubted: 9, Tip: 1000, Vouched: true}, 0, Fresh},
		"just what is known":                               {Limits{Known: 500}, 500, Off},
		"more than what is known":                          {Limits{Known: 500}, 501, Off},
		"one less than what is known":                      {Limits{Known: 501}, 500, Behind},
		"less than what is known, on a volume vouched for": {Limits{Known: 501, Vouched: true}, 500, Behind},
		"the volume changed hands":                         {Limits{Doubted: 500}, 500, Doubted},
		"it was put back since it changed hands":           {Limits{Doubted: 500}, 400, Doubted},
		"it signed since it changed hands":                 {Limits{Doubted: 500}, 501, Off},
		"it changed hands, and is vouched for":             {Limits{Doubted: 500, Vouched: true, Known: 500}, 500, Off},
		"far below the tip":                                {Limits{Known: 500, Tip: 701}, 500, FarBehind},
		"far below the tip, on a volume vouched for":       {Limits{Doubted: 500, Vouched: true, Tip: 701}, 500, FarBehind},
		"not far below the tip":                            {Limits{Known: 500, Tip: 700}, 500, Off},
		"above the tip that is known":                      {Limits{Tip: 100}, 500, Off},
		"accepted, whatever is known":                      {Limits{Known: 900, Doubted: 500, Tip: 2000, Accepted: new(int64(500))}, 500, Off},
		"accepted at another height":                       {Limits{Known: 900, Accepted: new(int64(499))}, 500, Behind},
		"nothing is accepted by a zero that nobody wrote":  {Limits{}, 0, Fresh},
		"a fresh one is accepted":                          {Limits{Known: 900, Accepted: new(int64(0))}, 0, Off},
		"a fresh one was accepted, and this is another":    {Limits{Known: 900, Accepted: new(int64(0))}, 500, Behind},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.limits.Guard(c.height)
			if got != c.want {
				t.Errorf("the guard is %q, want %q", got, c.want)
			}
			if explained := c.limits.Explain(c.height) != ""; explained != (got != Off) {
				t.Errorf("it says %q", c.limits.Explain(c.height))
			}
		})
	}
}

// A node that signed all that its key ever signed never meets its own signatures
// because of the distance to the tip alone.
func TestTheDistanceIsLargerThanTheWindow(t *testing.T) {
	t.Parallel()
	limits := Limits{Tip: 1000}
	height := int64(1000)
	for limits.Guard(height) == Off {
		height--
	}
	if lowest := limits.Tip - Window; height >= lowest {
		t.Errorf("at height %d the guard is on, and seid looks at %d and above", height, lowest)
	}
}

func TestWhatIsKnownBelongsToAKey(t *testing.T) {
	t.Parallel()
	known := Known{PublicKey: "a", Height: 7, Vouched: true, Accepted: new(int64(7)), Tip: 9, Witnesses: []string{"http://x"}}
	read, err := Parse([]byte(known.Text()))
	if err != nil || !read.Equal(known) || !read.Of("a").Equal(known) {
		t.Errorf("%+v, %v", read, err)
	}
	if other := read.Of("b"); !other.Equal(Known{PublicKey: "b"}) {
		t.Errorf("of another key: %+v", other)
	}
	if nobody := (Known{Height: 7}).Of(""); !nobody.Equal(Known{}) {
		t.Errorf("of no key: %+v", nobody)
	}
	if _, err := Parse([]byte("{")); err == nil {
		t.Error("half a document was read")
	}
	later := known
	later.Tip, later.Witnesses = 10, nil
	if !known.SameBut(later) || known.Equal(later) {
		t.Error("the tip alone is another document, and not another knowledge")
	}
	for _, change := range []func(*Known){
		func(k *Known) { k.Height++ }, func(k *Known) { k.Vouched = false },
		func(k *Known) { k.Accepted = nil }, func(k *Known) { k.Accepted = new(int64(0)) },
	} {
		changed := known
		change(&changed)
		if known.SameBut(changed) {
			t.Errorf("%+v is taken for the same", changed)
		}
	}
}

func TestOnlyASignStateOfTheKeyItselfIsRelyable(t *testing.T) {
	t.Parallel()
	for reason, want := range map[Reason]bool{Off: true, FarBehind: true, Fresh: false, Behind: false, Doubted: false} {
		if reason.Trusted() != want {
			t.Errorf("%q: %t", reason, !want)
		}
	}
}
