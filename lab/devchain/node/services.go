package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/sei-operator/sei-operator/lab/devchain/app"
)

// serviceStart is how long seid waits after each of these services before it goes
// on: long enough to notice one that could not listen, and the reason why it
// catches signals so late.
const serviceStart = 5 * time.Second

// startServices opens REST, gRPC and gRPC-web, one after the other.
func startServices(ctx context.Context, s *settings, f *facts) error {
	for _, one := range []struct {
		endpoint

		serve func(net.Listener) error
	}{
		{s.app.API, func(l net.Listener) error { return serve(l, rest(f)) }},
		{s.app.GRPC, func(l net.Listener) error { return grpc.NewServer().Serve(l) }},
		{grpcWeb(s.app), func(l net.Listener) error { return serve(l, http.NotFoundHandler()) }},
	} {
		if !one.Enable {
			continue
		}
		failed := make(chan error, 1)
		go func() {
			listener, err := listenTCP(one.Address)
			if err == nil {
				err = one.serve(listener)
			}
			failed <- err
		}()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(serviceStart):
		}
	}
	return nil
}

// grpcWeb is nothing without gRPC.
func grpcWeb(s appSettings) endpoint {
	s.GRPCWeb.Enable = s.GRPCWeb.Enable && s.GRPC.Enable
	return s.GRPCWeb
}

func serve(listener net.Listener, handler http.Handler) error {
	return (&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(listener)
}

// rest answers what operators of nodes ask there.
func rest(f *facts) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cosmos/base/tendermint/v1beta1/syncing", func(w http.ResponseWriter, r *http.Request) {
		status, err := f.object(r.Context(), "/status", "")
		if err != nil {
			writeJSON(w, http.StatusInternalServerError, map[string]any{"code": 13, "message": err.Error()})
			return
		}
		sync, _ := status["sync_info"].(map[string]any)
		writeJSON(w, http.StatusOK, map[string]any{"syncing": sync["catching_up"]})
	})
	mux.HandleFunc("GET /cosmos/upgrade/v1beta1/current_plan", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"plan": restPlan(f.app.Plan())})
	})
	return mux
}

func restPlan(plan *app.Plan) any {
	if plan == nil {
		return nil
	}
	return map[string]any{"name": plan.Name, "height": decimal(plan.Height), "info": plan.Info}
}

// startEVM opens the two ports of the EVM, where RPC is: on a node that serves others
// that is on all addresses, and there seid opens them. That one of them is taken is
// nowhere told.
func startEVM(s *settings, f *facts) {
	evm := s.app.EVM
	host, _, _ := net.SplitHostPort(strings.TrimPrefix(s.rpc, "tcp://")) // RPC is open there.
	for port, enabled := range map[int]bool{evm.HTTPPort: evm.HTTP, evm.WSPort: evm.WS} {
		if !enabled {
			continue
		}
		if listener, err := listenTCP(net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			go func() { _ = serve(listener, evmHandler(f)) }()
		}
	}
}

func evmHandler(f *facts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer := map[string]any{"jsonrpc": "2.0", "id": call.ID}
		switch call.Method {
		case "eth_blockNumber":
			answer["result"] = fmt.Sprintf("0x%x", f.app.Height())
		case "eth_chainId":
			answer["result"] = "0xae3f2" // of every chain that seid does not know
		case "eth_syncing":
			answer["error"] = rpcError{Code: -32000, Message: "not supported on Sei EVM RPC"}
		default:
			answer["error"] = rpcError{Code: -32601, Message: "the method " + call.Method + " does not exist/is not available"}
		}
		writeJSON(w, http.StatusOK, answer)
	})
}
