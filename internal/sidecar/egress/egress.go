// Package egress is how the sidecar downloads from addresses that a user chose, and asks
// others of the chain. What is downloaded comes from public servers; this machine, its
// link and the metadata service of a cloud are none, and must not be reached by a URL, a
// redirect or a name that leads there.
package egress

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// ErrForbidden is the refusal of an address.
var ErrForbidden = errors.New("downloads from this machine or its link are not allowed")

// metadata are addresses of clouds' metadata services that are not link-local.
var metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200")}

// Check refuses loopback, link-local and unspecified addresses, and metadata services.
func Check(address netip.Addr) error {
	address = address.Unmap()
	if slices.Contains(metadata, address) || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsLinkLocalMulticast() || address.IsInterfaceLocalMulticast() || address.IsUnspecified() {
		return fmt.Errorf("%s: %w", address, ErrForbidden)
	}
	return nil
}

// NewWitnessClient is a client for other nodes of the chain, which may run anywhere: in
// this cluster or beyond its firewall. The proxy of the environment is used as it says
// (NO_PROXY names what is in the cluster), and never for loopback. The probe and the
// sidecar have the same, or they would judge the node by different witnesses.
func NewWitnessClient() *http.Client { return witnessClient(&http.Transport{DisableKeepAlives: true}) }

// SurveyConnections is how many questions one witness is asked at once.
const SurveyConnections = 8

// NewSurveyClient is a witness client for many questions in a short time. It keeps its
// connections: over the public internet a new one takes longer than an answer. The
// caller closes those that are idle.
func NewSurveyClient() *http.Client {
	return witnessClient(&http.Transport{
		MaxConnsPerHost: SurveyConnections, MaxIdleConnsPerHost: SurveyConnections, IdleConnTimeout: 10 * time.Second,
	})
}

func witnessClient(transport *http.Transport) *http.Client {
	transport.Proxy, transport.TLSHandshakeTimeout = http.ProxyFromEnvironment, 10*time.Second
	return &http.Client{
		Transport: transport,
		// A witness answers itself. It does not send the sidecar to addresses that are not
		// configured; seid does not follow it there either.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// NewClient is a client that goes through the proxy that finds, usually
// http.ProxyFromEnvironment, and checks every address that it connects to itself, after
// names are resolved, so that redirects and names are covered. Where a proxy connects,
// the proxy's own address is the operator's choice and not checked; of the target only an
// address that is written out can be.
func NewClient(proxy func(*http.Request) (*url.URL, error), check func(netip.Addr) error) *http.Client {
	dialer := func(checks bool) *net.Dialer {
		d := &net.Dialer{Timeout: 30 * time.Second}
		if checks {
			d.Control = func(_, address string, _ syscall.RawConn) error {
				parsed, err := netip.ParseAddrPort(address)
				if err != nil {
					return err
				}
				return check(parsed.Addr())
			}
		}
		return d
	}
	transport := func(checks bool) *http.Transport {
		return &http.Transport{DialContext: dialer(checks).DialContext, DisableKeepAlives: true, TLSHandshakeTimeout: 30 * time.Second}
	}
	direct, proxied := transport(true), transport(false)
	proxied.Proxy = proxy
	return &http.Client{Transport: &chooser{proxy: proxy, check: check, direct: direct, proxied: proxied}}
}

// chooser sends a request directly or through the proxy; each redirect is a request.
type chooser struct {
	proxy           func(*http.Request) (*url.URL, error)
	check           func(netip.Addr) error
	direct, proxied http.RoundTripper
}

func (c *chooser) RoundTrip(request *http.Request) (*http.Response, error) {
	through, err := c.proxy(request)
	if err != nil {
		return nil, err
	}
	if through == nil {
		return c.direct.RoundTrip(request)
	}
	if address, err := netip.ParseAddr(request.URL.Hostname()); err == nil {
		if err := c.check(address); err != nil {
			return nil, err
		}
	}
	return c.proxied.RoundTrip(request)
}
