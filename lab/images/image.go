// Package images makes container images without a container engine: an image is a
// few files on nothing at all.
package images

import (
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// NonRoot is the user of everything that needs no privileges, as in the images that
// most people build on.
const NonRoot = 65532

// Image is what an image is made of.
type Image struct {
	Files      []File
	Entrypoint []string
	// User is the numeric id of user and group.
	User int
}

// File is a file in an image.
type File struct {
	// Path begins with a slash. The directories above it are made.
	Path string
	// Source is a file of this machine, or empty if there is Content.
	Source  string
	Content []byte
	Mode    int64
}

// searchPath is where programs of an image are found by name.
const (
	programDir = "/usr/local/bin"
	searchPath = programDir + ":/usr/bin:/bin"
)

// basics are in every image: names for the users, root certificates, and a place
// for temporary files.
func basics() ([]File, error) {
	roots, err := rootCertificates()
	if err != nil {
		return nil, err
	}
	return []File{
		{Path: "/etc/passwd", Content: fmt.Appendf(nil, "root:x:0:0:root:/:/none\nnonroot:x:%[1]d:%[1]d:nonroot:/tmp:/none\n", NonRoot), Mode: 0o644},
		{Path: "/etc/group", Content: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", NonRoot), Mode: 0o644},
		{Path: "/etc/ssl/certs/ca-certificates.crt", Content: roots, Mode: 0o644},
	}, nil
}

// directories are all directories of a set of files, parents first.
func directories(files []File) []string {
	var dirs []string
	for _, file := range files {
		for dir := path.Dir(file.Path); dir != "/"; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func (f File) open() (content io.ReadCloser, size int64, err error) {
	if f.Source == "" {
		return io.NopCloser(strings.NewReader(string(f.Content))), int64(len(f.Content)), nil
	}
	file, err := os.Open(f.Source)
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
