package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/kube"
	"github.com/sei-operator/sei-operator/lab/process"
)

// PauseImage is what holds a pod's namespaces. It is the lab's own.
const PauseImage = "sei-operator.lab/pause:1"

// containerdRoot is on the disk, not in memory: images are large.
const containerdRoot = "/var/lib/containerd"

func (w *worker) writeContainerdConfig(c *kube.Cluster) error {
	if err := os.MkdirAll(containerdRoot, 0o711); err != nil {
		return err
	}
	config := fmt.Sprintf(`version = 3
root = %[1]s
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
address = %[2]s

[plugins.'io.containerd.cri.v1.images']
snapshotter = %[3]s
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %[4]s

[plugins.'io.containerd.transfer.v1.local']
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
platform = "linux"
snapshotter = %[3]s

[plugins.'io.containerd.cri.v1.runtime']
# No profile is to be loaded into the machine's kernel.
disable_apparmor = true
netns_mounts_under_state_dir = true
restrict_oom_score_adj = %[5]t
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%[6]s]
conf_dir = %[7]s
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
snapshotter = %[3]s
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = %[8]s
SystemdCgroup = false
`,
		quote(containerdRoot), quote(containerdSocket), quote(snapshotter()), quote(PauseImage), !mayLowerOOMScore(),
		quote(w.runtime.CNI.Dir), quote(cniDir), quote(w.runtime.Runc.Path("runc")))
	if _, err := writeConfig(c, "containerd.toml", config); err != nil {
		return err
	}
	return writeNetworkConfig(c.Network())
}

// writeNetworkConfig connects each pod to the node by a link of its own. All traffic
// is routed, so Services work without the bridge filter, which not every kernel has.
func writeNetworkConfig(n *kube.Network) error {
	if err := os.MkdirAll(cniDir, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [{
    "type": "ptp",
    "ipam": {
      "type": "host-local",
      "dataDir": "/run/cni",
      "ranges": [[{"subnet": %q}]],
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
`, n.Pods())
	return os.WriteFile(filepath.Join(cniDir, "10-lab.conflist"), []byte(config), 0o644)
}

func (w *worker) containerdSpec(c *kube.Cluster) process.Spec {
	return process.Spec{
		Name: "containerd",
		Path: w.runtime.Containerd.Path("containerd"),
		Log:  c.Log("containerd"),
		Args: []string{"--config=" + c.Config("containerd.toml")},
		// It looks for its shim there.
		Env: []string{"PATH=" + w.runtime.Containerd.Dir + ":" + searchPath},
	}
}

func containerdAnswers(ctx context.Context) error {
	connection, err := new(net.Dialer).DialContext(ctx, "unix", containerdSocket)
	if err != nil {
		return err
	}
	return connection.Close()
}

// importSpec brings the image of an OCI archive into containerd.
func importSpec(runtime *build.Runtime, socket, archive, log string) process.Spec {
	return process.Spec{
		Name: "ctr",
		Path: runtime.Containerd.Path("ctr"),
		Log:  log,
		Args: []string{"--address=" + socket, "--namespace=k8s.io", "images", "import", archive},
	}
}

// snapshotter is overlayfs wherever that can be, which is not where the directory
// is itself on an overlay, as in most containers.
func snapshotter() string {
	lower, upper, work, merged := "l", "u", "w", "m"
	dir, err := os.MkdirTemp(filepath.Dir(containerdRoot), ".overlay-")
	if err != nil {
		return "native"
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []*string{&lower, &upper, &work, &merged} {
		*name = filepath.Join(dir, *name)
		if err := os.Mkdir(*name, 0o755); err != nil {
			return "native"
		}
	}
	options := strings.Join([]string{"lowerdir=" + lower, "upperdir=" + upper, "workdir=" + work}, ",")
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return "native"
	}
	_ = unix.Unmount(merged, 0)
	return "overlayfs"
}

// mayLowerOOMScore says whether we may protect a process from the kernel's choice
// when memory runs out; root in a container often may not, and no pod would start.
func mayLowerOOMScore() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}
