package kube

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnToken asks for a token of a ServiceAccount in the operator's namespace, and says how
// long it lives. Nothing is changed by that, although it is asked by creating something.
func (c *Client) OwnToken(ctx context.Context, account, audience string, life time.Duration) (token string, lives time.Duration, err error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: []string{audience}, ExpirationSeconds: new(int64(life / time.Second)),
	}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: account}}
	if err := c.cached.SubResource("token").Create(ctx, of, request); err != nil {
		return "", 0, err
	}
	// The cluster may have a limit of its own.
	if request.Spec.ExpirationSeconds != nil {
		life = time.Duration(*request.Spec.ExpirationSeconds) * time.Second
	}
	return request.Status.Token, life, nil
}
