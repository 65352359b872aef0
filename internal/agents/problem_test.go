package agents

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/sei-operator/sei-operator/internal/sidecar/api"
	"github.com/sei-operator/sei-operator/internal/sidecar/client"
)

func TestProblemsAreForPeople(t *testing.T) {
	// How net/http tells of a failed call, with parts that differ each time.
	call := func(op string, port int, err error) error {
		return &url.Error{Op: "Get", URL: "http://10.0.0.7:7777/v0/events", Err: &net.OpError{
			Op: op, Net: "tcp", Source: &net.TCPAddr{Port: port}, Addr: &net.TCPAddr{Port: 7777}, Err: err,
		}}
	}
	for name, c := range map[string]struct {
		err  func(port int) error
		want string
	}{
		"refused": {
			func(p int) error { return call("dial", p, os.NewSyscallError("connect", syscall.ECONNREFUSED)) },
			"nothing listens at the pod's address",
		},
		"no route": {
			func(p int) error { return call("dial", p, os.NewSyscallError("connect", syscall.EHOSTUNREACH)) },
			"cannot be reached",
		},
		"no answer to the dial": {func(p int) error { return call("dial", p, os.ErrDeadlineExceeded) }, "cannot be reached"},
		"no answer to the call": {func(int) error { return errNoAnswer }, "accepts connections and does not answer"},
		"no status in time": {
			func(int) error { return &url.Error{Err: context.DeadlineExceeded} },
			"accepts connections and does not answer",
		},
		"reset": {
			func(p int) error { return call("read", p, os.NewSyscallError("read", syscall.ECONNRESET)) },
			"the connection to the sidecar broke",
		},
		"silent": {func(int) error { return client.ErrStreamSilent }, "went silent"},
		"ended":  {func(int) error { return client.ErrStreamEnded }, "ended the connection"},
		"nonsense": {
			func(p int) error { return fmt.Errorf("%w: %d", client.ErrStreamMalformed, p) },
			"not a sidecar",
		},
		"another node": {
			func(p int) error {
				return &client.Error{StatusCode: 421, Reason: api.ReasonWrongNode, Message: fmt.Sprint(p)}
			},
			"the pod's address belongs to another node now",
		},
		"a stranger": {
			func(p int) error {
				return &client.Error{StatusCode: 404, Reason: "UnexpectedAnswer", Message: fmt.Sprint(p)}
			},
			"not a sidecar answers at the pod's address, with HTTP 404",
		},
		"a proxy without its sidecar": {
			func(p int) error {
				return &client.Error{StatusCode: 502, Reason: "UnexpectedAnswer", Message: fmt.Sprint(p)}
			},
			"does not reach the sidecar",
		},
		"a proxy that does not know us": {
			func(p int) error {
				return &client.Error{StatusCode: 401, Reason: "UnexpectedAnswer", Message: fmt.Sprint(p)}
			},
			"does not accept the operator's token",
		},
		"a proxy that does not let us": {
			func(p int) error {
				return &client.Error{StatusCode: 403, Reason: "UnexpectedAnswer", Message: fmt.Sprint(p)}
			},
			"apply config/rbac",
		},
		"a proxy that cannot ask": {
			func(p int) error {
				return &client.Error{StatusCode: 503, Reason: api.ReasonAccessUnchecked, Message: fmt.Sprint(p)}
			},
			"could not ask the API server",
		},
		"no token": {
			func(p int) error { return fmt.Errorf("%w: %d", errToken, p) },
			"token for access proxies cannot be had",
		},
		"another authority": {
			func(int) error { return &url.Error{Err: x509.UnknownAuthorityError{}} },
			"an authority that the operator does not trust",
		},
		"the certificate of another": {
			func(int) error { return &url.Error{Err: x509.HostnameError{Certificate: &x509.Certificate{}}} },
			"that of another node",
		},
		"an expired certificate": {
			func(int) error { return &url.Error{Err: x509.CertificateInvalidError{Reason: x509.Expired}} },
			"expired, or not valid yet",
		},
		"a certificate for something else": {
			func(int) error { return &url.Error{Err: x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}} },
			"cannot be used",
		},
		"too many": {
			func(p int) error {
				return &client.Error{StatusCode: 503, Reason: api.ReasonTooManyStreams, Message: fmt.Sprint(p)}
			},
			"TooManyStreams",
		},
		"anything": {func(p int) error { return errors.New(fmt.Sprint(p)) }, "the connection to the sidecar broke"},
	} {
		got := explain(c.err(40001))
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
		if again := explain(c.err(40002)); again != got {
			t.Errorf("%s: the text is not stable: %q, then %q", name, got, again)
		}
	}
}
