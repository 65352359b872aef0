package consent

import (
	"testing"
)

// What was signed on a volume says nothing of another key, and nothing of what the key
// signed while the volume belonged to another node.
func TestASignStateIsDoubtedWhenTheVolumeChangesHands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	as := func(uid string) *Consent {
		c, err := Open(dir, uid, nil)
		must(t, err)
		return c
	}
	check := func(step string, c *Consent, signed, doubted int64) {
		t.Helper()
		if a := c.State().Approval; a.Signed != signed || a.Doubted != doubted {
			t.Errorf("%s: signed %d, doubted %d; want %d and %d", step, a.Signed, a.Doubted, signed, doubted)
		}
	}
	one := as("one")
	must(t, one.Approve("key", nodeID, 0))
	check("a fresh volume", one, 0, 0)
	must(t, one.Signed("key", 70))
	must(t, one.Signed("key", 60))
	must(t, one.Signed("other key", 90))
	must(t, one.Approve("key", nodeID, 80))
	check("approved again", one, 70, 0)
	check("read again", as("one"), 70, 0)

	two := as("two")
	must(t, two.Signed("key", 500))
	check("it is not this node's", two, 70, 0)
	must(t, two.Approve("key", nodeID, 80))
	check("another node", two, 70, 80)
	must(t, two.Approve("key", nodeID, 85))
	check("the same once more", two, 70, 80)
	must(t, two.Approve("other key", nodeID, 90))
	check("another key", two, 0, 90)
	must(t, two.Signed("other key", 300))
	must(t, two.SignStateAccepted("other key", 90))
	check("accepted by a person", two, 90, 0)
	check("read again", as("two"), 90, 0)
	must(t, two.Approve("", nodeID, 90))
	check("it does not sign", two, 0, 0)

	foreign, err := Open(t.TempDir(), "three", nil)
	must(t, err)
	must(t, foreign.Approve("key", nodeID, 50))
	check("a volume from elsewhere", foreign, 0, 50)
}
