package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// outerPIDs translates the ids of processes in the namespace of the given one to
// those that the machine knows them by.
func outerPIDs(first int, inner map[string]int) (map[string]int, error) {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", first))
	if err != nil {
		return nil, err
	}
	statuses, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return nil, err
	}
	outer := map[int]int{}
	for _, path := range statuses {
		dir := filepath.Dir(path)
		if in, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || in != namespace {
			continue // Another one's, or gone.
		}
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		if id, ok := innermost(string(content)); ok {
			outer[id] = pid
		}
	}
	found := map[string]int{}
	for name, id := range inner {
		pid, ok := outer[id]
		if !ok {
			return nil, fmt.Errorf("%s has ended", name)
		}
		found[name] = pid
	}
	return found, nil
}

// innermost is the id that a process has in its own namespace.
func innermost(status string) (int, bool) {
	for line := range strings.Lines(status) {
		if ids, found := strings.CutPrefix(line, "NSpid:"); found {
			fields := strings.Fields(ids)
			if len(fields) == 0 {
				return 0, false
			}
			id, err := strconv.Atoi(fields[len(fields)-1])
			return id, err == nil
		}
	}
	return 0, false
}
