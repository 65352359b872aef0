package kube

import (
	"bytes"
	"embed"
	"io/fs"
	"os"

	"github.com/sei-operator/sei-operator/lab/build"
	"github.com/sei-operator/sei-operator/lab/process"
)

// KubeletLabel is on a node whose stand-in kubelet answers. Without the label the
// node is silent: no heartbeat, and nobody looks after its pods.
const (
	KubeletLabel     = "lab.sei.io/kubelet"
	KubeletAnswering = "answering"
)

//go:embed stages/*.yaml
var stages embed.FS

// writeStages joins the stages into the one file KWOK reads.
func writeStages(p paths) error {
	names, err := fs.Glob(stages, "stages/*.yaml")
	if err != nil {
		return err
	}
	var documents [][]byte
	for _, name := range names {
		content, err := stages.ReadFile(name)
		if err != nil {
			return err
		}
		documents = append(documents, content)
	}
	return os.WriteFile(p.config("stages.yaml"), bytes.Join(documents, []byte("\n---\n")), 0o600)
}

func kwokSpec(p paths, n *Network, b *build.ControlPlane) process.Spec {
	return process.Spec{
		Name: "kwok",
		Path: b.Kwok.Path("kwok"),
		Log:  p.log("kwok"),
		// KWOK keeps a directory in the home of its user.
		Env: []string{"HOME=" + p.state()},
		Args: []string{
			"--kubeconfig=" + p.kubeconfigOf("kwok"),
			"--config=" + p.config("stages.yaml"),
			"--manage-nodes-with-label-selector=" + KubeletLabel + "=" + KubeletAnswering,
			"--cidr=" + n.Pods().String(),
			"--server-address=" + n.Address(portKwok),
			// Leases are renewed after a quarter of this.
			"--node-lease-duration-seconds=4",
		},
	}
}
