package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, reference string) []byte {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "new", "image.tar")
	if err := WriteArchive(path, reference, Image{
		Files:      []File{{Path: "/opt/deep/program", Source: program, Mode: 0o755}},
		Entrypoint: []string{"/opt/deep/program", "serve"},
		User:       NonRoot,
	}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("more than the archive: %v, %v", entries, err)
	}
	return content
}

// unpack returns the files of an archive and the headers of all entries.
func unpack(t *testing.T, archive io.Reader) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	files, headers := map[string][]byte{}, map[string]*tar.Header{}
	reader := tar.NewReader(archive)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if headers[header.Name] != nil {
			t.Errorf("%s is there twice", header.Name)
		}
		files[header.Name], headers[header.Name] = content, header
	}
}

func decompress(t *testing.T, packed []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func parse[T any](t *testing.T, content []byte) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(content, &value); err != nil {
		t.Fatalf("%v in %q", err, content)
	}
	return value
}

func TestAnArchiveLeadsFromItsIndexToItsFiles(t *testing.T) {
	const reference = "example.com/program:v1"
	files, _ := unpack(t, bytes.NewReader(write(t, reference)))
	get := func(d descriptor) []byte {
		content, ok := files[blobPath(d.Digest)]
		if !ok || int64(len(content)) != d.Size || digest(content) != d.Digest {
			t.Fatalf("%s of %d bytes is not there", d.Digest, d.Size)
		}
		return content
	}
	root := parse[index](t, files["index.json"]).Manifests[0]
	if root.Annotations["org.opencontainers.image.ref.name"] != reference || root.Annotations["io.containerd.image.name"] != reference {
		t.Errorf("named %v", root.Annotations)
	}
	whole := parse[manifest](t, get(root))
	config := parse[struct {
		OS     string
		Config struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}](t, get(whole.Config))
	if config.OS != "linux" || config.Config.User != "65532:65532" || len(config.Config.Entrypoint) != 2 {
		t.Errorf("config: %+v", config)
	}
	layer := decompress(t, get(whole.Layers[0]))
	if len(config.RootFS.DiffIDs) != 1 || config.RootFS.DiffIDs[0] != digest(layer) {
		t.Errorf("the config names another file system: %v", config.RootFS)
	}
	docker := parse[[]struct{ Config string }](t, files["manifest.json"])
	if docker[0].Config != blobPath(whole.Config.Digest) {
		t.Errorf("Docker is told of %v", docker)
	}

	checkFileSystem(t, layer)
}

func checkFileSystem(t *testing.T, layer []byte) {
	t.Helper()
	content, headers := unpack(t, bytes.NewReader(layer))
	if string(content["opt/deep/program"]) != "the program" || headers["opt/deep/program"].Mode != 0o755 {
		t.Errorf("program: %+v", headers["opt/deep/program"])
	}
	for _, dir := range []string{"opt/", "opt/deep/", "etc/ssl/certs/"} {
		if headers[dir] == nil {
			t.Errorf("%s is not there", dir)
		}
	}
	if headers["tmp/"].Mode != 0o1777 {
		t.Error("not everybody may write to /tmp")
	}
	if !bytes.Contains(content["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")) {
		t.Error("no root certificates")
	}
}

func TestTheSameFilesGiveTheSameImage(t *testing.T) {
	if !bytes.Equal(write(t, "a:b"), write(t, "a:b")) {
		t.Error("two archives of the same image differ")
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.tar")
	err := WriteArchive(path, "a:b", Image{Files: []File{{Path: "/x", Source: "/does/not/exist"}}})
	if err == nil || !strings.Contains(err.Error(), "a:b") || !strings.Contains(err.Error(), "/does/not/exist") {
		t.Errorf("error: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("half an image was written")
	}
}
