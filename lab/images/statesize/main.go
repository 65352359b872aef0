// Command state-size prints how many bytes of a node's home are in each part of its
// data. It stands for whatever people run against the volume of a node that is paused.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "state-size: name the directory to measure")
		os.Exit(2)
	}
	sizes, err := measure(os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(sizes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "state-size:", err)
		os.Exit(1)
	}
}

// measure adds up files by the first directories of their paths.
func measure(root string) (map[string]int64, error) {
	sizes := map[string]int64{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		part, _, _ := strings.Cut(filepath.ToSlash(below), "/")
		sizes[part] += info.Size()
		return nil
	})
	return sizes, err
}
