package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// toolchain is the part of "go env" that decides what comes out of a build.
type toolchain struct {
	version, os, arch string
}

// key identifies the result of a build. Everything that changes the binaries is
// in it, each part preceded by its length so that no two inputs look the same.
func (p pinned) key(t toolchain) string {
	hash := sha256.New()
	for _, part := range []string{
		string(p.goMod), string(p.goSum), strings.Join(p.flags(p.version), "\x00"), t.version, t.os, t.arch,
		strings.Join(p.settings(), "\x00"), string(p.code),
	} {
		fmt.Fprintf(hash, "%d\n%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// entry is the name of the component's directory in the cache.
func (p pinned) entry(t toolchain) string {
	return p.Name + "-" + p.version + "-" + p.key(t)
}
