//go:build !linux

// Command lab runs the surroundings in which sei-operator is tested and shown.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "lab: the lab needs Linux: a control plane alone uses all of 127.0.0.0/8 and /proc, a node namespaces and cgroups; run it in a virtual machine")
	os.Exit(1)
}
