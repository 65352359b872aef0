package agents

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A proxy for the way out of the cluster, and HTTP/2, are for others.
func TestTheTransportGoesDirectlyAndByHTTP1(t *testing.T) {
	transport := Transport()
	if transport.Proxy != nil {
		t.Error("a proxy may come between the operator and a pod")
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Used", r.Proto)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	defer transport.CloseIdleConnections()
	transport.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	transport.TLSClientConfig.NextProtos = nil
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if used := response.Header.Get("Used"); used != "HTTP/1.1" {
		t.Errorf("it speaks %s", used)
	}
}
