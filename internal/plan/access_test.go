package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// behind puts the node behind an access proxy with a certificate, with changes.
func behind(changes ...func(*Access)) edit {
	return func(in *Input) {
		in.Want.ProxyConfig = corev1ac.ConfigMap("node-rbac-proxy", "sei")
		in.Seen.Access = &Access{
			Authority:   "current",
			Certificate: &Certificate{UID: "secret-uid", ResourceVersion: "7", Ours: true, Intact: true, Issuer: "current", Renewal: now.Add(time.Hour)},
			Rights:      &Rights{},
		}
		for _, change := range changes {
			change(in.Seen.Access)
		}
	}
}

func certificate(change func(*Certificate)) func(*Access) {
	return func(a *Access) { change(a.Certificate) }
}

func noCertificate(a *Access) { a.Certificate = nil }

func brought(a *Access) { a.Brought, a.Authority = true, "" }

func TestWhenACertificateIsIssued(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in    Input
		says  string // empty: none is issued
		after time.Duration
	}{
		"access control is off":  {in: running()},
		"there is a good one":    {in: running(behind()), after: time.Hour},
		"there is none":          {in: running(behind(noCertificate)), says: "has no certificate"},
		"somebody changed it":    {in: running(behind(certificate(func(c *Certificate) { c.Intact = false }))), says: "Somebody changed"},
		"an earlier authority's": {in: running(behind(certificate(func(c *Certificate) { c.Issuer = "before" }))), says: "earlier authority"},
		"its time has come":      {in: running(behind(certificate(func(c *Certificate) { c.Renewal = now }))), says: "near its end"},
		"its time is long over":  {in: running(behind(certificate(func(c *Certificate) { c.Renewal = time.Time{} }))), says: "near its end"},
		"another clock was ahead": {
			in: running(behind(certificate(func(c *Certificate) { c.Renewal = now.Add(42 * 24 * time.Hour) }))), says: "a clock that was ahead",
		},
		"another clock was ahead by an hour": {
			in:    running(behind(certificate(func(c *Certificate) { c.Renewal = now.Add(40*24*time.Hour + time.Hour) }))),
			after: 40*24*time.Hour + time.Hour,
		},
		"it is a nanosecond early":    {in: running(behind(certificate(func(c *Certificate) { c.Renewal = now.Add(1) }))), after: 1},
		"others bring them":           {in: running(behind(brought, noCertificate))},
		"there is no authority":       {in: running(behind(noCertificate, func(a *Access) { a.Authority = "" }))},
		"the Secret is another's":     {in: running(behind(certificate(func(c *Certificate) { c.Ours, c.Intact = false, false })))},
		"the Secret is on its way":    {in: running(behind(certificate(func(c *Certificate) { c.Deleting = true })))},
		"of a node that is paused":    {in: running(paused, behind(noCertificate)), says: "has no certificate"},
		"nobody asked for the rights": {in: running(behind(func(a *Access) { a.Rights = nil })), after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Issue(test.in)
			if got.Issue != (test.says != "") || got.After != test.after {
				t.Errorf("the step is %+v", got)
			}
			if test.says != "" {
				saysAll(t, got.Message, []string{test.says})
			}
		})
	}
}

func TestGateOfTheWayIn(t *testing.T) {
	t.Parallel()
	otherAccount := spec(func(s *v1alpha1.SeiNodeSpec) { s.ServiceAccountName = "theirs" })
	for name, test := range map[string]struct {
		in   Input
		want wantGate
	}{
		"access control is off":                  {in: fresh()},
		"everything is there":                    {in: fresh(behind())},
		"a certificate that the operator issues": {in: fresh(behind(noCertificate))},
		"nobody asked what the proxy may do":     {in: fresh(behind(func(a *Access) { a.Rights = nil }))},
		"a certificate that others brought":      {in: fresh(behind(brought, certificate(func(c *Certificate) { c.Ours = false })))},
		"one that others shall bring": {
			in: fresh(behind(brought, noCertificate)),
			want: wantGate{
				reason: v1alpha1.ReasonSecretNotFound, says: []string{"Secret node-access", "namespace sei", "tls.crt", "tls.key", "node.sei"},
			},
		},
		"one that others brought and delete": {
			in:   fresh(behind(brought, certificate(func(c *Certificate) { c.Deleting = true }))),
			want: wantGate{reason: v1alpha1.ReasonSecretTerminating, says: []string{"node-access"}},
		},
		"no authority": {
			in: fresh(behind(func(a *Access) { a.Authority, a.AuthorityProblem = "", "It holds no key." })),
			want: wantGate{
				reason: v1alpha1.ReasonAuthorityInvalid, stalled: true, after: lookAgain, says: []string{"It holds no key."},
			},
		},
		"a Secret of somebody else": {
			in: fresh(behind(certificate(func(c *Certificate) { c.Ours = false }))),
			want: wantGate{
				reason: v1alpha1.ReasonForeignObject, stalled: true, says: []string{"Secret node-access", "left alone", "accessControl.caFile"},
			},
		},
		"no ServiceAccount": {
			in: fresh(otherAccount, behind(func(a *Access) { a.Rights = &Rights{NoAccount: true} })),
			want: wantGate{
				reason: v1alpha1.ReasonAccessNotGranted, stalled: true, after: lookAgain, says: []string{"ServiceAccount theirs", "namespace sei", "spec.serviceAccountName"},
			},
		},
		"an operator that may not ask": {
			in: fresh(behind(func(a *Access) { a.Rights = &Rights{Refused: "get serviceaccounts"} })),
			want: wantGate{
				reason: v1alpha1.ReasonAccessNotGranted, stalled: true, after: lookAgain, says: []string{"The operator may not", "get serviceaccounts", "config/rbac"},
			},
		},
		"no rights": {
			in: fresh(behind(func(a *Access) { a.Rights = &Rights{Denied: []string{"create this", "create that"}} })),
			want: wantGate{
				reason: v1alpha1.ReasonAccessNotGranted, stalled: true, after: lookAgain,
				says: []string{"ServiceAccount default", "may not create this and create that", "config/access/proxy.yaml", "sei-access-proxy"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.want.check(t, ShutGate(test.in, v1alpha1.PlanBootstrap))
		})
	}
}

// An update makes a pod as a bootstrap does. A pod that only has to come back, or a
// configuration, waits for nothing of the kind.
func TestWhatTheWayInHolds(t *testing.T) {
	t.Parallel()
	shut := behind(func(a *Access) { a.Rights = &Rights{NoAccount: true} })
	if gate := ShutGate(running(newImage, shut), v1alpha1.PlanNodeUpdate); gate == nil || gate.Reason != v1alpha1.ReasonAccessNotGranted {
		t.Errorf("an update is held by %+v", gate)
	}
	if d := Decide(running(newImage, shut)); d.Step != Waiting || d.Reason != v1alpha1.ReasonAccessNotGranted || d.Stalled || d.After == 0 {
		t.Errorf("a node that works is not left ready: %+v", d)
	}
	if d := Decide(running(newImage, noPod, shut)); d.Step != Blocked || !d.Stalled {
		t.Errorf("a node that does not work is said to: %+v", d)
	}
	if gate := ShutGate(running(override("1"), shut), v1alpha1.PlanConfigUpdate); gate != nil {
		t.Errorf("a configuration is held by %+v", gate)
	}
	if step := StatefulSet(running(noSet, forgotten, shut)); step.Action != Create {
		t.Errorf("the StatefulSet is not made again: %+v", step)
	}
	if replicas, gate := Replicas(running(hasSet(scaled(0)), noPod, shut)); replicas != 1 {
		t.Errorf("the pod does not come back: %+v", gate)
	}
}

func TestWhenRightsAreAskedFor(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   Input
		want bool
	}{
		"a node that is brought up":    {in: fresh(), want: true},
		"a node at rest":               {in: running()},
		"a node that is to be updated": {in: running(newImage), want: true},
		"another configuration":        {in: running(override("1"))},
		"a node that is paused":        {in: fresh(paused)},
	} {
		if got := AsksForRights(test.in); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCertificateIsJudgedByMetadata(t *testing.T) {
	t.Parallel()
	node := fresh().Node
	const all = `{"f:data":{"f:tls.crt":{},"f:tls.key":{}},"f:metadata":{"f:annotations":{"f:sei.io/certificate-issuer":{},"f:sei.io/certificate-renewal":{}},"f:ownerReferences":{"k:{\"uid\":\"node-uid\"}":{}}}}`
	const withoutKey = `{"f:data":{"f:tls.crt":{}},"f:metadata":{"f:annotations":{"f:sei.io/certificate-issuer":{},"f:sei.io/certificate-renewal":{}},"f:ownerReferences":{"k:{\"uid\":\"node-uid\"}":{}}}}`
	const ofAnother = `{"f:data":{"f:tls.crt":{},"f:tls.key":{}},"f:metadata":{"f:annotations":{"f:sei.io/certificate-issuer":{},"f:sei.io/certificate-renewal":{}},"f:ownerReferences":{"k:{\"uid\":\"other-uid\"}":{}}}}`
	applied := func(fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: "sei-operator", Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	theirs := applied(all)
	theirs.Manager = "kubectl"
	nothing := applied(all)
	nothing.FieldsV1 = nil
	for name, test := range map[string]struct {
		fields       metav1.ManagedFieldsEntry
		ours, intact bool
	}{
		"as it was written":               {applied(all), true, true},
		"with a key of somebody else":     {applied(withoutKey), true, false},
		"of an earlier node of this name": {applied(ofAnother), true, false},
		"written by somebody else":        {theirs, false, false},
		"without fields":                  {nothing, true, false},
		"with fields that are none":       {applied("nonsense"), true, false},
	} {
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			UID: "secret-uid", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{test.fields},
			Annotations: map[string]string{v1alpha1.AnnotationCertificateIssuer: "current", v1alpha1.AnnotationCertificateRenewal: "2026-03-01T13:00:00Z"},
		}}
		want := &Certificate{
			UID: "secret-uid", ResourceVersion: "7", Ours: test.ours, Intact: test.intact, Issuer: "current", Renewal: now.Add(time.Hour),
		}
		if diff := cmp.Diff(want, ReadCertificate(node, secret)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	going := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.NewTime(now))}}
	if got := ReadCertificate(node, going); !got.Deleting || !got.Renewal.IsZero() {
		t.Errorf("one that is on its way out is %+v", got)
	}
}
