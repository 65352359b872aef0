package agents

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
)

var (
	errNoAnswer = errors.New("the sidecar did not answer in time")
	errLost     = errors.New("the connection to the sidecar broke during the call, so its outcome is not known")
)

// Why a sidecar is not connected before anything was tried.
const (
	problemNew    = "the operator has not connected to the sidecar yet"
	problemNobody = "the node has no pod whose sidecar could be called"
)

// explain says why a sidecar is not connected. The text ends up in conditions, so it
// has nothing that differs from one attempt to the next, as the ports, addresses and
// durations in errors of the network do.
func explain(err error) string {
	if refusal, refused := errors.AsType[*client.Error](err); refused {
		return explainRefusal(refusal)
	}
	if problem := accessProblem(err); problem != "" {
		return problem
	}
	switch {
	case errors.Is(err, client.ErrStreamMalformed):
		return "something that is not a sidecar answers at the pod's address"
	case errors.Is(err, client.ErrStreamEnded):
		return "the sidecar ended the connection; its container may be restarting"
	case errors.Is(err, client.ErrStreamSilent):
		return "the sidecar went silent; the pod may be on an unreachable node"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at the pod's address; the container of the sidecar may be starting or crashing"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), dialing(err) && timedOut(err):
		return "the pod's address cannot be reached; check the network and the Kubernetes node"
	case timedOut(err):
		return "the sidecar accepts connections and does not answer"
	default:
		return "the connection to the sidecar broke"
	}
}

// explainRefusal says why somebody at the pod's address does not answer as a sidecar
// does that is to be followed.
func explainRefusal(refusal *client.Error) string {
	switch {
	case refusal.Reason == api.ReasonWrongNode:
		return "the pod's address belongs to another node now"
	case refusal.StatusCode == http.StatusUnauthorized:
		return "the node's access proxy does not accept the operator's token: the proxy must be of this version, and able to ask the API server"
	case refusal.StatusCode == http.StatusForbidden:
		return "the node's access proxy says that the operator may not do this: apply config/rbac of this version"
	case refusal.StatusCode == http.StatusBadGateway:
		return "the node's access proxy does not reach the sidecar; its container may be starting or crashing"
	case refusal.Reason == api.ReasonAccessUnchecked:
		return "the node's access proxy could not ask the API server about the operator: check that its ServiceAccount may, as config/access/proxy_binding.yaml says"
	case refusal.Reason == "UnexpectedAnswer":
		return fmt.Sprintf("something that is not a sidecar answers at the pod's address, with HTTP %d", refusal.StatusCode)
	default:
		return fmt.Sprintf("the sidecar refuses to be followed: %s", refusal.Reason)
	}
}

// accessProblem is why an access proxy and the operator do not know each other; empty:
// that is not it.
func accessProblem(err error) string {
	for _, ours := range []error{errToken, errRoots} {
		if errors.Is(err, ours) {
			return ours.Error()
		}
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate of the node's access proxy is from an authority that the operator does not trust; a new one may be on its way to the pod"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate at the pod's address is that of another node"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		if invalid.Reason == x509.Expired {
			return "the certificate of the node's access proxy is expired, or not valid yet: check the clocks, and the Secret it comes from"
		}
		return "the certificate of the node's access proxy cannot be used"
	}
	return ""
}

// timedOut tells whether an error means that no answer came in time.
func timedOut(err error) bool {
	if errors.Is(err, errNoAnswer) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	failure, ok := errors.AsType[net.Error](err)
	return ok && failure.Timeout()
}

// dialing tells whether an error arose before there was a connection.
func dialing(err error) bool {
	failure, ok := errors.AsType[*net.OpError](err)
	return ok && failure.Op == "dial"
}
