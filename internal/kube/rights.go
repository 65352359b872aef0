package kube

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// May asks whether somebody may do something. Nothing is changed by that, although it
// is asked by creating something.
func (c *Client) May(ctx context.Context, question authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: question}
	// There is nothing of this kind that a cache could hold.
	err := c.cached.Create(ctx, review, client.DisableReadYourWritesConsistency)
	return review.Status.Allowed, err
}
