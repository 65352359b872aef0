package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// CheckLibraries finds out what a build with C in it needs and Go cannot bring.
// The compiler's own words about a missing header help nobody.
func (c Component) CheckLibraries(ctx context.Context) error {
	if !c.cgo {
		return nil
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	var missing []string
	// CC may have arguments.
	if _, err := exec.LookPath(strings.Fields(compiler)[0]); err != nil {
		missing = append(missing, "a C compiler (Debian's package gcc)")
	}
	if _, err := exec.LookPath("pkg-config"); err != nil {
		missing = append(missing, "pkg-config (Debian's package pkg-config)")
	} else {
		for _, library := range c.libraries {
			if exec.CommandContext(ctx, "pkg-config", "--exists", library).Run() != nil {
				missing = append(missing, fmt.Sprintf("the headers of %s (Debian's package %s-dev)", library, library))
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s cannot be built here: install %s", c.Name, strings.Join(missing, ", "))
	}
	return nil
}
