package access

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func newAuthority(t *testing.T, at time.Time) Authority {
	t.Helper()
	a, err := NewAuthority(at)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func issue(t *testing.T, a Authority, at time.Time) Certificate {
	t.Helper()
	c, err := a.Issue("node.sei", at)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// verify judges a certificate as the operator does.
func verify(t *testing.T, a Authority, c Certificate, name string, at time.Time) error {
	t.Helper()
	pair, err := tls.X509KeyPair(c.Certificate, c.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	a.trust(pool)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: at})
	return err
}

func TestCertificateOfANode(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, now)
	c := issue(t, a, now)
	if want := now.Add(40 * day); !c.Renewal.Equal(want) {
		t.Errorf("it is renewed at %s, not %s", c.Renewal, want)
	}
	for _, at := range []time.Time{now.Add(-23 * time.Hour), now.Add(-time.Hour), now, now.Add(59 * day)} {
		if err := verify(t, a, c, "node.sei", at); err != nil {
			t.Errorf("at %s: %v", at, err)
		}
	}
	if verify(t, a, c, "node.sei", now.Add(61*day)) == nil {
		t.Error("it is valid for ever")
	}
	if verify(t, a, c, "other.sei", now) == nil {
		t.Error("it is good for another node")
	}
	if verify(t, newAuthority(t, now), c, "node.sei", now) == nil {
		t.Error("another authority would do")
	}
}

// A certificate never outlives its issuer: nobody could verify it.
func TestCertificateEndsWithItsIssuer(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, now)
	late := now.Add(authorityLife - 30*day)
	c := issue(t, a, late)
	if want := late.Add(20 * day); !c.Renewal.Equal(want) {
		t.Errorf("it is renewed at %s, not %s", c.Renewal, want)
	}
}

func TestAuthorityIsRotatedWithOverlap(t *testing.T) {
	t.Parallel()
	first := newAuthority(t, now)
	old := issue(t, first, now)
	if _, another, err := first.Current(now.Add(243 * day)); another || err != nil {
		t.Errorf("it is replaced too early: %v", err)
	}
	due := now.Add(244 * day)
	second, another, err := first.Current(due)
	if err != nil || !another || second.ID() == first.ID() {
		t.Fatalf("it is not replaced when two thirds of its life are over: %v", err)
	}
	if err := verify(t, second, old, "node.sei", now.Add(10*day)); err != nil {
		t.Errorf("what the first one issued is not trusted any more: %v", err)
	}
	if err := verify(t, second, issue(t, second, due), "node.sei", due); err != nil {
		t.Errorf("what the second one issues is not trusted: %v", err)
	}
	third, _, err := second.Current(due.Add(244 * day))
	if err != nil {
		t.Fatal(err)
	}
	if third.trusts(first.certificate) || !third.trusts(second.certificate) {
		t.Error("one that expired is kept, or the one before is not")
	}
}

// One that a clock made which was ahead is of no use until then.
func TestAuthorityOfTheFutureIsReplaced(t *testing.T) {
	t.Parallel()
	future := newAuthority(t, now.Add(30*day))
	next, another, err := future.Current(now)
	if err != nil || !another {
		t.Fatalf("it is kept: %v", err)
	}
	if err := verify(t, next, issue(t, next, now), "node.sei", now); err != nil {
		t.Error(err)
	}
	if _, another, err := newAuthority(t, now.Add(23*time.Hour)).Current(now); another || err != nil {
		t.Errorf("a clock that is hours ahead costs an authority: %v", err)
	}
}

func TestAuthorityComesBackFromItsSecret(t *testing.T) {
	t.Parallel()
	first := newAuthority(t, now)
	second, _, err := first.Current(now.Add(300 * day))
	if err != nil {
		t.Fatal(err)
	}
	data, err := second.Data()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	if read.ID() != second.ID() || !read.trusts(first.certificate) {
		t.Error("what is read is not what was written")
	}
	if err := verify(t, second, issue(t, read, now.Add(300*day)), "node.sei", now.Add(300*day)); err != nil {
		t.Error(err)
	}
	again, err := read.Data()
	if err != nil {
		t.Fatal(err)
	}
	for entry := range data {
		if !bytes.Equal(data[entry], again[entry]) {
			t.Errorf("the entry %s is another one after it was read", entry)
		}
	}
}

func TestSecretThatHoldsNoAuthority(t *testing.T) {
	t.Parallel()
	good, other := newAuthority(t, now), newAuthority(t, now)
	data, err := good.Data()
	if err != nil {
		t.Fatal(err)
	}
	otherData, err := other.Data()
	if err != nil {
		t.Fatal(err)
	}
	leaf := issue(t, good, now)
	for name, test := range map[string]struct {
		change map[string][]byte
		says   string
	}{
		"no certificate":           {map[string][]byte{"ca.crt": nil}, "ca.crt: it holds no certificate"},
		"something else":           {map[string][]byte{"ca.crt": data["ca.key"]}, "ca.crt: it holds something else"},
		"no key":                   {map[string][]byte{"ca.key": []byte("nonsense")}, "ca.key holds no key"},
		"another kind of key":      {map[string][]byte{"ca.key": data["ca.crt"]}, "ca.key holds no EC key"},
		"the key of another":       {map[string][]byte{"ca.key": otherData["ca.key"]}, "is not that of an authority"},
		"a certificate of a node":  {map[string][]byte{"ca.crt": leaf.Certificate, "ca.key": leaf.Key}, "is not that of an authority"},
		"earlier ones that are no": {map[string][]byte{"previous.crt": []byte("nonsense")}, "previous.crt: it holds no certificate"},
	} {
		damaged := map[string][]byte{"ca.crt": data["ca.crt"], "ca.key": data["ca.key"]}
		for entry, content := range test.change {
			damaged[entry] = content
		}
		if _, err := ParseAuthority(damaged); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Somebody put another authority into the Secret. What the one before issued is in use
// still.
func TestReplacedAuthorityIsTrustedOn(t *testing.T) {
	t.Parallel()
	first, brought := newAuthority(t, now), newAuthority(t, now)
	after := brought.After(first, now)
	if after.ID() != brought.ID() || !after.trusts(first.certificate) {
		t.Error("the one before is not trusted")
	}
	if again := after.After(first, now); len(again.previous) != 1 {
		t.Errorf("it is there %d times", len(again.previous))
	}
	if same := first.After(first, now); len(same.previous) != 0 {
		t.Error("it comes before itself")
	}
}
