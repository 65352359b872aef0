package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
)

// listenExcept pretends that some addresses are in use, so that the test does not
// depend on what else runs on the machine.
func listenExcept(taken ...string) listenFunc {
	return func(_ context.Context, _, address string) (net.Listener, error) {
		for _, t := range taken {
			if strings.HasPrefix(address, t) {
				return nil, fmt.Errorf("listen %s: %w", address, syscall.EADDRINUSE)
			}
		}
		return nopListener{}, nil
	}
}

// onAll is one port of every network.
func onAll(port int) []string {
	var all []string
	for number := firstNetwork; number <= lastNetwork; number++ {
		all = append(all, (&Network{number: byte(number)}).Address(port))
	}
	return all
}

type nopListener struct{ net.Listener }

func (nopListener) Close() error { return nil }

func TestReserveSkipsWhatIsTaken(t *testing.T) {
	for name, test := range map[string]struct {
		start byte
		taken []string
		want  byte
	}{
		"free":                   {20, nil, 20},
		"reserved":               {20, []string{"127.20.0.1:1337"}, 21},
		"one port busy":          {20, []string{"127.20.0.1:6443"}, 21},
		"several":                {20, []string{"127.20.", "127.21.", "127.22.0.1:10259"}, 23},
		"past the end and round": {250, []string{"127.250."}, 16},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := reserve(t.Context(), test.start, listenExcept(test.taken...))
			if err != nil {
				t.Fatal(err)
			}
			if n.number != test.want {
				t.Errorf("127.%d", n.number)
			}
		})
	}
}

func TestReserveGivesUp(t *testing.T) {
	for name, test := range map[string]struct {
		taken []string
		named string
	}{
		"clusters everywhere":                     {[]string{"127."}, "127.20.0.1:1337"},
		"a program that listens on all addresses": {append(onAll(portAPIServer), "127.19."), "127.18.0.1:6443"},
	} {
		_, err := reserve(t.Context(), 20, listenExcept(test.taken...))
		if err == nil || !strings.Contains(err.Error(), "no network from 127.16.0.0 to 127.250.0.0 is free (listen "+test.named+": address already in use)") {
			t.Errorf("%s: %v", name, err)
		}
	}
	calls := 0
	_, err := reserve(t.Context(), 20, func(context.Context, string, string) (net.Listener, error) {
		calls++
		return nil, errors.New("cannot assign requested address")
	})
	if err == nil || calls != 1 || !strings.Contains(err.Error(), "the lab needs Linux") {
		t.Errorf("%d calls, error: %v", calls, err)
	}
}

func TestReservationIsExclusive(t *testing.T) {
	first, err := ReserveNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release()
	second, err := reserve(t.Context(), first.number, new(net.ListenConfig).Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release()
	if first.number == second.number {
		t.Errorf("both have 127.%d", first.number)
	}
}

func TestBusyPortIsNamed(t *testing.T) {
	n, err := ReserveNetwork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer n.Release()
	if err := n.checkFree(t.Context(), daemonPorts...); err != nil {
		t.Error(err)
	}
	intruder, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", n.Address(portAPIServer))
	if err != nil {
		t.Fatal(err)
	}
	defer intruder.Close()
	err = n.checkFree(t.Context(), daemonPorts...)
	if err == nil || !strings.Contains(err.Error(), n.Address(portAPIServer)+" is taken") || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Errorf("error: %v", err)
	}
}

func TestNetworkParts(t *testing.T) {
	n := &Network{number: 42}
	for got, want := range map[string]string{
		n.Host().String():     "127.42.0.1",
		n.CIDR().String():     "127.42.0.0/16",
		n.Pods().String():     "127.42.128.0/17",
		n.Services().String(): "127.42.64.0/18",
		n.Node(0).String():    "127.42.1.1",
		n.APIServer():         "https://127.42.0.1:6443",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, part := range []string{n.Host().String(), n.Node(1).String()} {
		if strings.HasPrefix(part, "127.42.64") || strings.HasPrefix(part, "127.42.128") {
			t.Errorf("%s overlaps", part)
		}
	}
}
