package chain

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// edit sets keys of a TOML file, such as "p2p.laddr", to values as they are written
// in the file. Keys that are not there are added to their section, or the section to
// the end.
func edit(path string, changes map[string]string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	for key, value := range changes {
		lines = set(lines, key, value)
	}
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644)
}

// set is pure.
func set(lines []string, key, value string) []string {
	section, name := "", key
	if i := strings.LastIndex(key, "."); i >= 0 {
		section, name = key[:i], key[i+1:]
	}
	line := fmt.Sprintf("%s = %s", name, value)
	// At the start the file is in the section without a name.
	end, inside := -1, section == ""
	if inside {
		end = 0
	}
	for i, text := range lines {
		text = strings.TrimSpace(text)
		if header, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(header, "]") {
			inside = strings.TrimSuffix(header, "]") == section
			if inside {
				end = i + 1
			}
			continue
		}
		found, _, ok := strings.Cut(text, "=")
		if inside && ok && strings.TrimSpace(found) == name {
			return slices.Concat(lines[:i], []string{line}, lines[i+1:])
		}
	}
	if end < 0 {
		return append(lines, "["+section+"]", line)
	}
	return slices.Insert(slices.Clone(lines), end, line)
}
