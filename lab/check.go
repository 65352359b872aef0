//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"os/exec"
	"strings"

	"github.com/sei-operator/sei-operator/lab/node"
)

// prerequisites is the list of what a real node needs and Go cannot bring. It is a script
// because make asks it before anything is compiled.
//
//go:embed prerequisites
var prerequisites []byte

// checkLab tells what is missing on this machine for a real cluster.
func checkLab(ctx context.Context) error {
	if err := node.Check(); err != nil {
		return err
	}
	script := exec.CommandContext(ctx, "bash", "-s", "--")
	script.Stdin = bytes.NewReader(prerequisites)
	output, err := script.CombinedOutput()
	if said := strings.TrimSpace(string(output)); err != nil && said != "" {
		return errors.New(said)
	}
	return err
}
