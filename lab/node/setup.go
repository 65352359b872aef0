package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
)

// setup is what the processes inside are told by the one outside.
type setup struct {
	Dir      string   `json:"dir"`
	Cgroup   string   `json:"cgroup"`
	Network  byte     `json:"network"`
	Archives []string `json:"archives"`
	Install  []string `json:"install"`
	// Ports are handed in, in this order, as descriptors from firstPort on.
	Ports    []int             `json:"ports"`
	Binaries map[string]binary `json:"binaries"`
}

type binary struct {
	Dir     string `json:"dir"`
	Version string `json:"version"`
}

// Descriptors of the processes inside.
const (
	reportDescriptor = 3
	firstPort        = 4
)

// report is the one thing that is said from inside.
type report struct {
	Info  *kube.Info `json:"info,omitempty"`
	Error string     `json:"error,omitempty"`
}

// workspace is the part of a lab's directory that the control plane knows nothing of.
func workspace(dir string) string { return filepath.Join(dir, "node") }
func setupFile(dir string) string { return filepath.Join(workspace(dir), "setup.json") }

func (s setup) write() error {
	content, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(setupFile(s.Dir), content, 0o600)
}

func readSetup(dir string) (setup, error) {
	var s setup
	content, err := os.ReadFile(setupFile(dir))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, fmt.Errorf("%s: %w", setupFile(dir), err)
	}
	return s, nil
}

// Binaries are everything that a lab runs.
type Binaries struct {
	ControlPlane *build.ControlPlane
	Runtime      *build.Runtime
}

// Release allows the binaries to be removed.
func (b Binaries) Release() {
	b.ControlPlane.Release()
	b.Runtime.Release()
}

// all are the places of the results, by name.
func (b Binaries) all() map[string]**build.Result {
	return map[string]**build.Result{
		"kubernetes": &b.ControlPlane.Kubernetes,
		"etcd":       &b.ControlPlane.Etcd,
		"kwok":       &b.ControlPlane.Kwok,
		"containerd": &b.Runtime.Containerd,
		"runc":       &b.Runtime.Runc,
		"cni":        &b.Runtime.CNI,
		"coredns":    &b.Runtime.CoreDNS,
	}
}

// describe tells where the binaries are. Whoever is told does not keep them from
// being removed; the process outside does, for as long as the lab runs.
func (b Binaries) describe() (map[string]binary, error) {
	described := map[string]binary{}
	for name, result := range b.all() {
		// A link may lead to where nothing of the machine's is seen from inside.
		dir, err := filepath.EvalSymlinks((*result).Dir)
		if err != nil {
			return nil, err
		}
		described[name] = binary{dir, (*result).Version}
	}
	return described, nil
}

func (s setup) binaries() Binaries {
	b := Binaries{&build.ControlPlane{}, &build.Runtime{}}
	for name, result := range b.all() {
		*result = &build.Result{Dir: s.Binaries[name].Dir, Version: s.Binaries[name].Version}
	}
	return b
}
