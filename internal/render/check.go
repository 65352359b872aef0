package render

import (
	"errors"
	"fmt"

	"github.com/sei-operator/sei-operator/api/v1alpha1"
)

// check refuses a spec that cannot be rendered as it is meant.
func (p pod) check() error {
	return errors.Join(p.checkIdentity(), p.checkKeySources(), p.checkExtraEnv(), p.checkResources())
}

// checkKeySources refuses a key whose source this version does not know. Without
// this check seid would make a key of its own and sign with it.
func (p pod) checkKeySources() error {
	unknown := func(field string, source *v1alpha1.KeySource) error {
		if source == nil || source.Secret != nil && source.Secret.SecretName != "" {
			return nil
		}
		return fmt.Errorf("spec.%s has no source that this version of the operator knows: write secret with a secretName", field)
	}
	var problems []error
	if validator := p.spec.Validator; validator != nil {
		problems = append(problems,
			unknown("validator.signingKey", validator.SigningKey), unknown("validator.nodeKey", validator.NodeKey))
	}
	if p.spec.Seed != nil {
		problems = append(problems, unknown("seed.nodeKey", &p.spec.Seed.NodeKey))
	}
	return errors.Join(problems...)
}

// checkIdentity refuses an object that the API server has not stored: its uid is
// what approval is bound to.
func (p pod) checkIdentity() error {
	if p.node.UID == "" || p.node.Name == "" || p.node.Namespace == "" {
		return errors.New("it has no uid, name or namespace yet: only a SeiNode that the API server stored can be rendered")
	}
	return nil
}

// checkExtraEnv refuses variables that would show a key to whoever reads a process's
// environment, or would move what the sidecar and the probes rely on.
func (p pod) checkExtraEnv() error {
	var problems []error
	keys := p.keys()
	for _, variable := range p.spec.ExtraEnv {
		if isOurs(variable.Name) {
			problems = append(problems, fmt.Errorf("spec.extraEnv must not set %s, which the operator sets: remove it", variable.Name))
		}
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil && keys.has(from.SecretKeyRef.Name) {
			problems = append(problems, fmt.Errorf("spec.extraEnv must not take %s from the Secret %s, which holds a key of this node: remove it, or use another Secret", variable.Name, from.SecretKeyRef.Name))
		}
	}
	return errors.Join(problems...)
}

// checkResources refuses what the pod would need more for than the spec can say.
func (p pod) checkResources() error {
	claims := p.spec.Resources != nil && len(p.spec.Resources.Claims) > 0
	if sidecar := p.spec.Sidecar; sidecar != nil && sidecar.Resources != nil {
		claims = claims || len(sidecar.Resources.Claims) > 0
	}
	if claims {
		return errors.New("resources.claims is not supported: remove it, and use requests and limits")
	}
	return nil
}
