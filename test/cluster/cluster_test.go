package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

func TestMain(m *testing.M) { Main(m) }

func configMap(tb testing.TB, c client.Client, namespace string) (*corev1.ConfigMap, types.NamespacedName) {
	tb.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}, Data: map[string]string{"n": "0"}}
	if err := c.Create(tb.Context(), object); err != nil {
		tb.Fatal(err)
	}
	return object, client.ObjectKeyFromObject(object)
}

func TestWaitingForAnObject(t *testing.T) {
	c := Get(t)
	person, namespace := c.Person(t), c.Namespace(t)
	object, key := configMap(t, person, namespace)

	there := Eventually(t, person, key, "its first value", func(m *corev1.ConfigMap) bool { return m.Data["n"] == "0" })
	if there.UID != object.UID {
		t.Error("what is there already was not found")
	}
	object.Data["n"] = "1"
	go func() { _ = person.Update(t.Context(), object) }()
	Eventually(t, person, key, "its second value", func(m *corev1.ConfigMap) bool { return m.Data["n"] == "1" })

	go func() { _ = person.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: there.ObjectMeta}) }()
	Gone[*corev1.ConfigMap](t, person, key, "it was deleted")
	Gone[*corev1.ConfigMap](t, person, key, "it is gone already")
}

func TestAFailedWaitSaysWhatItSawLast(t *testing.T) {
	c := Get(t)
	person, namespace := c.Person(t), c.Namespace(t)
	_, key := configMap(t, person, namespace)
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err := until(ctx, person, key, "the third value", func(watch.EventType, *corev1.ConfigMap) bool {
		cancel(errors.New("out of patience"))
		return false
	})
	for _, want := range []string{"the third value", "ConfigMap " + key.String(), "out of patience", `"n": "0"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "managedFields") {
		t.Errorf("nobody wants to read the managed fields: %v", err)
	}
}

func TestTheAuditCountsReadsAndWritesOfAUser(t *testing.T) {
	c := Get(t)
	person, operator, namespace := c.Person(t), c.Operator(t), c.Namespace(t)
	object, _ := configMap(t, person, namespace)
	since := time.Now()
	for range 2 {
		if err := operator.List(t.Context(), &v1alpha1.SeiNodeList{}, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	watcher, err := operator.Watch(t.Context(), &v1alpha1.SeiNodeList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := person.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{
		OperatorUser: "2 reads, 0 writes, 1 watches of seinodes",
		PersonUser:   "0 reads, 1 writes, 0 watches of configmaps",
	} {
		if got := summary(c.Audit(t, user, since), namespace); got != want {
			t.Errorf("%s made %s, not %s", user, got, want)
		}
	}
}

func summary(events []AuditEvent, namespace string) string {
	reads, writes, watches, of := 0, 0, 0, ""
	for _, e := range events {
		if e.Namespace != namespace || e.UserAgent == "" || e.Code == 0 {
			continue
		}
		of = e.Resource
		switch {
		case e.Read():
			reads++
		case e.Write():
			writes++
		case e.Verb == "watch":
			watches++
		}
	}
	return fmt.Sprintf("%d reads, %d writes, %d watches of %s", reads, writes, watches, of)
}

func TestConfigurationsAreCopies(t *testing.T) {
	c := Get(t)
	c.OperatorConfig(t).Host, c.PersonConfig(t).Host = "elsewhere", "elsewhere"
	if c.OperatorConfig(t).Host == "elsewhere" || c.PersonConfig(t).Host == "elsewhere" {
		t.Error("a test can change the connection of all others")
	}
}
