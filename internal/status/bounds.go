package status

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// Plan and conditions together are at most maxSize bytes of JSON: they are in every
// list and every watch of all nodes. When there is much to tell at once, messages are
// cut shorter, from maxMessage down to minMessage.
const (
	maxSize    = 6000
	maxMessage = 320
	minMessage = 80
	cutStep    = 40
)

// bounded completes conditions and cuts their messages. One that has a time is kept
// from before, and its message stays as it is: if it were cut again and again, a node
// at rest would be written again and again.
func bounded(in Input, all []metav1.Condition) []metav1.Condition {
	for limit := maxMessage; ; limit -= cutStep {
		short := slices.Clone(all)
		for i := range short {
			short[i].ObservedGeneration = in.Node.Generation
			if short[i].LastTransitionTime.IsZero() {
				short[i].LastTransitionTime = metav1.NewTime(in.Seen.Now)
				short[i].Message = shortened(short[i].Message, limit)
			}
		}
		if limit <= minMessage || sizeOf(in.Node.Status.Plan, short) <= maxSize {
			return short
		}
	}
}

func sizeOf(p *v1alpha1.Plan, conditions []metav1.Condition) int {
	// Nothing in these types can fail.
	text, _ := json.Marshal(v1alpha1.SeiNodeStatus{Plan: p, Conditions: conditions})
	return len(text)
}

func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "..."
	cut := limit - len(more)
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return text[:cut] + more
}
