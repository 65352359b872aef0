package platform

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (r *reader) nodeSelector(v value) map[string]string {
	selector := map[string]string{}
	for _, found := range r.entries(v, "example.com/disk: nvme") {
		text, ok := r.text(found.value, "nvme, or \"1\" in quotes")
		switch {
		case !ok:
		case len(validation.IsQualifiedName(found.key)) > 0:
			r.report(found.value, "%q is no key of a label: write for example example.com/disk", found.key)
		case len(validation.IsValidLabelValue(text)) > 0:
			r.report(found.value, "%q is no value of a label: use at most 63 letters, digits, '-', '_' and '.'", text)
		default:
			selector[found.key] = text
		}
	}
	return selector
}

func (r *reader) tolerations(v value) []corev1.Toleration {
	items, _ := r.list(v, "[{key: example.com/sei, operator: Exists}]")
	var all []corev1.Toleration
	for _, item := range items {
		all = append(all, r.toleration(item))
	}
	return all
}

func (r *reader) toleration(v value) corev1.Toleration {
	var toleration corev1.Toleration
	reported := len(r.problems)
	r.fields(v, map[string]func(value){
		"key": func(v value) { toleration.Key, _ = r.text(v, "example.com/sei") },
		"operator": func(v value) {
			toleration.Operator = oneOf(r, v, corev1.TolerationOpExists, corev1.TolerationOpEqual)
		},
		"value": func(v value) { toleration.Value, _ = r.text(v, "archive, or \"1\" in quotes") },
		"effect": func(v value) {
			toleration.Effect = oneOf(r, v, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)
		},
		"tolerationSeconds": func(v value) {
			var seconds int64
			if v.ShortTag() != "!!int" || v.Decode(&seconds) != nil {
				r.report(v, "it is %s: write a number of seconds, for example 300", kindOf(v))
				return
			}
			toleration.TolerationSeconds = &seconds
		},
	})
	if len(r.problems) == reported {
		r.checkToleration(v, toleration)
	}
	return toleration
}

// checkToleration refuses what Kubernetes refuses on a pod, so that it is found
// when the file is read and not when the next pod is made.
func (r *reader) checkToleration(v value, t corev1.Toleration) {
	exists := t.Operator == corev1.TolerationOpExists
	switch {
	case t.Key == "" && !exists:
		r.report(v, "it has no key: write one, or operator: Exists to tolerate every taint")
	case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0:
		r.report(v, "%q is no key of a taint: write for example example.com/sei", t.Key)
	case exists && t.Value != "":
		r.report(v, "it has a value, which operator: Exists does not look at: remove the value, or write operator: Equal")
	case len(validation.IsValidLabelValue(t.Value)) > 0:
		r.report(v, "%q is no value of a taint: use at most 63 letters, digits, '-', '_' and '.'", t.Value)
	case t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute:
		r.report(v, "it has tolerationSeconds, which only effect: NoExecute looks at: write that effect, or remove tolerationSeconds")
	}
}

// oneOf is text from a closed list.
func oneOf[T ~string](r *reader, v value, allowed ...T) T {
	text, ok := r.text(v, string(allowed[0]))
	if ok && !slices.Contains(allowed, T(text)) {
		r.report(v, "%q is not known: write one of %v", text, allowed)
	}
	return T(text)
}
