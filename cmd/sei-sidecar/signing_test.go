package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/signing"
	"github.com/sei-operator/sei-operator/test/fakeseid"
)

// guard is the argument with which seid looks for its own signatures in the last blocks.
const guard = "--consensus.double-sign-check-height=100"

// TestAnOldSignStateIsGuarded: the sign state of a validator is put back to an older
// height, as by a volume that is restored. The next seid gets the guard; one whose sign
// state is that of its last signature does not.
func TestAnOldSignStateIsGuarded(t *testing.T) {
	t.Parallel()
	const signed, old = 500, 400
	for name, c := range map[string]struct {
		// height is what the sign state is put to, and forgets whether the approval on the
		// same volume is put back too.
		height  int64
		forgets bool
		known   signing.Known
		want    signing.Reason
	}{
		"as it was left":                         {height: signed, want: signing.Off},
		"as it was left, and the operator knows": {height: signed, known: signing.Known{Height: signed, Tip: signed, Vouched: true}, want: signing.Off},
		"old, and the approval knows":            {height: old, want: signing.Behind},
		"old, and only the operator knows":       {height: old, forgets: true, known: signing.Known{Height: signed, Tip: signed}, want: signing.Behind},
		"old, and the chain is far ahead":        {height: old, forgets: true, known: signing.Known{Tip: old + signing.Distance + 1}, want: signing.FarBehind},
		"old, and a person accepted it":          {height: old, known: signing.Known{Height: old, Accepted: new(int64(old))}, want: signing.Off},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, key, approval := signedOnce(t, signed)
			p.write(p.home.SignState(), fmt.Sprintf(`{"height":"%d","round":0,"step":3}`, c.height))
			if c.forgets {
				p.write(p.approvalFile(), approval)
			}
			if c.known.Height != 0 || c.known.Tip != 0 {
				c.known.PublicKey = key
				p.write(filepath.Join(filepath.Dir(p.document), signing.File), c.known.Text())
			}
			p.serve()
			p.supervise()
			next := p.control.Next(t)
			if guarded := slices.Contains(next.Args, guard); guarded != (c.want != signing.Off) {
				t.Errorf("seid is started with %q", next.Args)
			}
			if i := slices.Index(next.Args, guard); i > 0 && next.Args[i-1] != "start" {
				t.Errorf("the guard may be taken for something else in %q", next.Args)
			}
			status := p.untilStatus("the sign state is told", func(s api.Status) bool { return s.SignHeight != nil && *s.SignHeight == c.height })
			if status.SignGuard.Reason != string(c.want) || c.want == signing.Behind && !strings.Contains(status.SignGuard.Message, "400") {
				t.Errorf("it says %+v, want %q", status.SignGuard, c.want)
			}
		})
	}
}

// signedOnce is the pod of a validator that signed this height, and ended. It returns its
// public key, and the approval as it was before.
func signedOnce(t *testing.T, height int64) (p *pod, key, approval string) {
	t.Helper()
	p, sidecar, supervisor, node := running(t)
	if !slices.Contains(node.Args, guard) {
		t.Errorf("nothing was ever signed, and seid is started with %q", node.Args)
	}
	approval = p.approval()
	node.Do(t, fakeseid.Sign(height))
	status := p.untilStatus("the guard is off", func(s api.Status) bool {
		return s.SignHeight != nil && *s.SignHeight == height && s.SignGuard.Decided && s.SignGuard.Reason == string(signing.Off)
	})
	p.untilApproval("what was signed is written down", fmt.Sprintf(`"signed":%d`, height))
	for _, container := range []*process{supervisor, sidecar} {
		container.signal(syscall.SIGTERM)
		container.wait()
	}
	return p, status.SigningPublicKey, approval
}

func (p *pod) approvalFile() string {
	return filepath.Join(string(p.home), ".sei-sidecar", "approval.json")
}

func (p *pod) approval() string {
	p.t.Helper()
	content, err := os.ReadFile(p.approvalFile())
	if err != nil {
		p.t.Fatal(err)
	}
	return string(content)
}

func (p *pod) untilApproval(what, says string) {
	p.t.Helper()
	p.untilStatus(what, func(api.Status) bool { return strings.Contains(p.approval(), says) })
}

func (p *pod) write(path, content string) {
	p.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		p.t.Fatal(err)
	}
}
