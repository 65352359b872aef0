package live

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheDemoInstallsAsTheREADMESays, in the same order.
func TestTheDemoInstallsAsTheREADMESays(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, install, _ := strings.Cut(string(text), "\n## Install\n")
	_, commands, _ := strings.Cut(install, "```\n")
	commands, _, _ = strings.Cut(commands, "```")
	var said []string
	for _, file := range regexp.MustCompile(`config/[a-z_/]+`).FindAllString(commands, -1) {
		part := strings.TrimPrefix(file, "config/")
		if !strings.Contains(part, "/") {
			part += "/*"
		}
		// It is for each namespace with nodes, and not of the installation.
		if part != "access/proxy_binding" {
			said = append(said, part)
		}
	}
	if done := manifests(true); !slices.Equal(said, done) {
		t.Errorf("the README installs %v, and the demo %v", said, done)
	}
}
