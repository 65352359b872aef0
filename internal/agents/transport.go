package agents

import (
	"net"
	"net/http"
	"time"
)

// bufferSize is that of what is read and written on a connection: an event and a
// status fit, and there are hundreds of connections.
const bufferSize = 1 << 10

// Transport is how the operator connects to sidecars.
func Transport() *http.Transport {
	protocols := new(http.Protocols)
	// With HTTP/2 the stream and the calls would share one connection, and a stream
	// that stands still could hold up the calls.
	protocols.SetHTTP1(true)
	return &http.Transport{
		// Pods are reached directly: a proxy for the way out does not know them.
		Proxy:       nil,
		DialContext: (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		Protocols:   protocols,
		// One idle connection serves the calls of a plan, one after the other. At rest
		// there is none: what is left is the stream.
		MaxIdleConnsPerHost: 1,
		IdleConnTimeout:     10 * time.Second,
		DisableCompression:  true,
		ReadBufferSize:      bufferSize,
		WriteBufferSize:     bufferSize,
		// Whoever has the address of a pod that is gone may answer anything.
		MaxResponseHeaderBytes: 16 << 10,
	}
}
