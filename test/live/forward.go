package live

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
)

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+) `)

// Forward leads to a port on the loopback of a node's pod, where everything is that runs
// in one of its containers, until the function is called.
func (c *Chain) Forward(ctx context.Context, node string, port int) (address string, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	command := exec.CommandContext(ctx, c.Info.Kubectl, "--kubeconfig", c.Info.Kubeconfig, "--namespace", c.ID,
		"port-forward", "--address", "127.0.0.1", "pod/"+node+"-0", ":"+strconv.Itoa(port))
	stop = func() {
		cancel()
		_ = command.Wait() // It was killed, and says so.
	}
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		cancel()
		return "", nil, err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if found := forwarding.FindStringSubmatch(lines.Text()); found != nil {
			return found[1], stop, nil
		}
	}
	stop()
	return "", nil, fmt.Errorf("kubectl forwards nothing to the port %d of %s", port, node)
}
