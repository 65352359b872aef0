package cluster

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

// patience is how long a test waits for what has to happen. It is far more than
// anything takes, a rollout of twenty nodes one after the other beside seven other tests on
// a busy machine included, and only ends a test that would wait for ever.
const patience = 5 * time.Minute

// Eventually returns an object as soon as it is as wanted. It watches the object, so
// every state of it is seen and nothing is polled.
func Eventually[T client.Object](tb testing.TB, c client.WithWatch, key types.NamespacedName, what string, ok func(T) bool) T {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	found, err := Until(ctx, c, key, what, ok)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}

// Until is Eventually for who is no test, and for as long as the context lasts.
func Until[T client.Object](ctx context.Context, c client.WithWatch, key types.NamespacedName, what string, ok func(T) bool) (T, error) {
	return until(ctx, c, key, what, func(kind watch.EventType, object T) bool {
		return kind != watch.Deleted && ok(object)
	})
}

// Gone returns when the object is no longer there, also if another one of the same
// name took its place. what says in a message why it should go.
func Gone[T client.Object](tb testing.TB, c client.WithWatch, key types.NamespacedName, what string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	object := empty[T]()
	if err := c.Get(ctx, key, object); err != nil {
		if apierrors.IsNotFound(err) {
			return
		}
		tb.Fatalf("reading %s: %v", key, err)
	}
	// It may go before the watch begins; then only the absence of its first state
	// tells. So the watch starts at the state that was read.
	if _, err := until(ctx, c, key, "the end ("+what+")", func(kind watch.EventType, seen T) bool {
		return kind == watch.Deleted || seen.GetUID() != object.GetUID()
	}, startAt(object.GetResourceVersion())); err != nil {
		tb.Fatal(err)
	}
}

// until follows one object until the condition holds.
func until[T client.Object](ctx context.Context, c client.WithWatch, key types.NamespacedName, what string, holds func(watch.EventType, T) bool, options ...client.ListOption) (T, error) {
	var last T
	kind, list, err := listOf[T](c)
	if err != nil {
		return last, err
	}
	options = append(options, client.InNamespace(key.Namespace), client.MatchingFieldsSelector{
		Selector: fields.OneTermEqualSelector("metadata.name", key.Name),
	})
	state := "it was never seen"
	for {
		object, done, err := follow(ctx, c, list, options, func(event watch.EventType, object T) bool {
			last, state = object, describe(event, object)
			return holds(event, object)
		})
		if done {
			return object, nil
		}
		if ctx.Err() != nil || err != nil {
			return last, fmt.Errorf("waited for %s of the %s %s: %w\nits last state: %s", what, kind, key, errors.Join(err, context.Cause(ctx)), state)
		}
	}
}

// follow is one watch. A server may end it at any time, and then it is begun anew.
func follow[T client.Object](ctx context.Context, c client.WithWatch, list client.ObjectList, options []client.ListOption, holds func(watch.EventType, T) bool) (found T, done bool, err error) {
	watcher, err := c.Watch(ctx, list, options...)
	if err != nil {
		return found, false, err
	}
	defer watcher.Stop()
	for {
		select {
		case event, open := <-watcher.ResultChan():
			if !open {
				return found, false, nil
			}
			object, ok := event.Object.(T)
			if !ok {
				return found, false, apierrors.FromObject(event.Object)
			}
			if holds(event.Type, object) {
				return object, true, nil
			}
		case <-ctx.Done():
			return found, false, nil
		}
	}
}

// startAt begins a watch behind a state that is known.
func startAt(resourceVersion string) client.ListOption {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: resourceVersion}}
}

func empty[T client.Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

func listOf[T client.Object](c client.Client) (string, client.ObjectList, error) {
	kind, err := apiutil.GVKForObject(empty[T](), c.Scheme())
	if err != nil {
		return "", nil, err
	}
	object, err := c.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err != nil {
		return "", nil, err
	}
	return kind.Kind, object.(client.ObjectList), nil
}

func describe(event watch.EventType, object client.Object) string {
	shown := object.DeepCopyObject().(client.Object)
	shown.SetManagedFields(nil)
	text, err := yaml.Marshal(shown)
	if err != nil {
		return fmt.Sprintf("%s, and it cannot be shown: %v", event, err)
	}
	return fmt.Sprintf("%s\n%s", event, text)
}
