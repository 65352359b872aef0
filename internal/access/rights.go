package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sei-operator/sei-operator/internal/plan"
)

// rightsAge is how long an answer holds that speaks against nothing. A fleet that is
// brought up at once asks once. What is missing is asked for again each time.
const rightsAge = time.Minute

// rights is what was found out about a ServiceAccount.
type rights struct {
	found plan.Rights
	at    time.Time
}

// needed is what a proxy asks the API server: who a caller is, and what the caller may
// do.
var needed = []authorizationv1.ResourceAttributes{
	{Verb: "create", Group: authenticationv1.GroupName, Resource: "tokenreviews"},
	{Verb: "create", Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"},
}

// askRights finds out whether the proxy of a node will be able to do its work.
func (k *Keeper) askRights(ctx context.Context, in plan.Input) (*plan.Rights, error) {
	account := types.NamespacedName{Namespace: in.Node.Namespace, Name: plan.ServiceAccount(in.Node)}
	k.mu.Lock()
	known, asked := k.rights[account]
	k.mu.Unlock()
	if age := in.Seen.Now.Sub(known.at); asked && known.found.Granted() && age >= 0 && age < rightsAge {
		return &known.found, nil
	}
	found, err := k.rightsOf(ctx, account)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rights[account] = rights{found: found, at: in.Seen.Now}
	return &found, nil
}

func (k *Keeper) rightsOf(ctx context.Context, account types.NamespacedName) (plan.Rights, error) {
	switch err := k.kube.GetLive(ctx, account, &corev1.ServiceAccount{}); {
	case apierrors.IsNotFound(err):
		return plan.Rights{NoAccount: true}, nil
	case apierrors.IsForbidden(err):
		// A role of an earlier version. It must not keep the operator from everything else.
		return plan.Rights{Refused: "get serviceaccounts"}, nil
	case err != nil:
		return plan.Rights{}, fmt.Errorf("reading the ServiceAccount %s: %w", account, err)
	}
	var found plan.Rights
	for _, right := range needed {
		granted, err := k.kube.May(ctx, authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + account.Namespace + ":" + account.Name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
			ResourceAttributes: &right,
		})
		if apierrors.IsForbidden(err) {
			return plan.Rights{Refused: "create subjectaccessreviews.authorization.k8s.io"}, nil
		}
		if err != nil {
			return plan.Rights{}, fmt.Errorf("asking what the ServiceAccount %s may do: %w", account, err)
		}
		if !granted {
			found.Denied = append(found.Denied, right.Verb+" "+right.Resource+"."+right.Group)
		}
	}
	return found, nil
}
