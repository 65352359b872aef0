package kube

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNothingListensOutsideTheNetwork asks the kernel about every process of the
// cluster, the supervisor (which is this test) among them.
func TestNothingListensOutsideTheNetwork(t *testing.T) {
	sockets := map[string]netip.AddrPort{}
	for _, table := range []struct{ name, listening string }{
		{"tcp", "0A"},
		{"tcp6", "0A"},
		{"udp", "07"},
		{"udp6", "07"}, // Open to everybody: a client's socket is connected.
	} {
		content, err := os.ReadFile("/proc/net/" + table.name)
		if os.IsNotExist(err) {
			continue // No IPv6.
		}
		must(t, err)
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == table.listening {
				sockets["socket:["+fields[9]+"]"] = kernelAddress(t, fields[1])
			}
		}
	}
	processes := map[string]int{"supervisor": cluster.Info.PID}
	maps.Copy(processes, cluster.Info.Components)
	network := netip.MustParsePrefix(cluster.Info.Network)
	ports := map[string][]int{}
	for name, pid := range processes {
		for _, address := range listeners(t, pid, sockets) {
			if !network.Contains(address.Addr()) {
				t.Errorf("%s listens on %s", name, address)
			}
			ports[name] = append(ports[name], int(address.Port()))
		}
		slices.Sort(ports[name])
	}
	want := map[string][]int{
		"supervisor":              {portReservation},
		"etcd":                    {portEtcd, portEtcdPeer},
		"kube-apiserver":          {portAPIServer},
		"kube-controller-manager": {portControllerManager},
		"kube-scheduler":          {portScheduler},
		"kwok":                    {portKwok},
	}
	if fmt.Sprint(ports) != fmt.Sprint(want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
}

// listeners are the addresses of a process among the sockets.
func listeners(t *testing.T, pid int, sockets map[string]netip.AddrPort) []netip.AddrPort {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	descriptors, err := os.ReadDir(dir)
	must(t, err)
	var found []netip.AddrPort
	for _, d := range descriptors {
		target, err := os.Readlink(dir + d.Name())
		if err != nil {
			continue // Closed since.
		}
		if address, listens := sockets[target]; listens {
			found = append(found, address)
		}
	}
	return found
}

// kernelAddress reads an address as /proc/net shows it: words in the order of a
// little-endian machine.
func kernelAddress(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	words, number, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	must(t, err)
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(raw)
	port, err := strconv.ParseUint(number, 16, 16)
	if err != nil || !ok {
		t.Fatalf("not an address: %s", text)
	}
	return netip.AddrPortFrom(address.Unmap(), uint16(port))
}
