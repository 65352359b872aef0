package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// epoch is when everything in an image was made, so that the same files give the
// same image.
var epoch = time.Unix(0, 0).UTC()

// Media types of the OCI image format.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

// blob is a part of an image that is named by its digest.
type blob struct {
	descriptor
	content []byte
}

func newBlob(mediaType string, content []byte) blob {
	return blob{descriptor{MediaType: mediaType, Digest: digest(content), Size: int64(len(content))}, content}
}

func newDocument(mediaType string, value any) (blob, error) {
	content, err := json.Marshal(value)
	return newBlob(mediaType, content), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func blobPath(digest string) string { return "blobs/sha256/" + digest[len("sha256:"):] }

// WriteArchive writes an image as an OCI archive, which is also one that "docker
// load" reads. It appears whole or not at all.
func WriteArchive(path, reference string, image Image) error {
	blobs, err := image.blobs()
	if err != nil {
		return fmt.Errorf("cannot make the image %s: %w", reference, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // Gone, if all went well.
	err = writeArchive(temporary, reference, blobs)
	if closed := temporary.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	if err := os.Chmod(temporary.Name(), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// blobs are layer, config and manifest.
func (i Image) blobs() ([]blob, error) {
	plain, packed, err := i.layer()
	if err != nil {
		return nil, err
	}
	layer := newBlob(typeLayer, packed)
	config, err := newDocument(typeConfig, map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"created":      epoch.Format(time.RFC3339),
		"config": map[string]any{
			"Entrypoint": i.Entrypoint,
			"Env":        []string{"PATH=" + searchPath},
			"User":       strconv.Itoa(i.User) + ":" + strconv.Itoa(i.User),
			"WorkingDir": "/",
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{plain}},
		"history": []map[string]any{{"created": epoch.Format(time.RFC3339), "created_by": "sei-operator lab"}},
	})
	if err != nil {
		return nil, err
	}
	whole, err := newDocument(typeManifest, manifest{2, typeManifest, config.descriptor, []descriptor{layer.descriptor}})
	return []blob{layer, config, whole}, err
}

// layer returns the digest of the image's file system and the file system, packed.
func (i Image) layer() (plain string, packed []byte, err error) {
	always, err := basics()
	if err != nil {
		return "", nil, err
	}
	files := append(always, i.Files...)
	var buffer bytes.Buffer
	compressor, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(compressor, sum))
	for _, dir := range append(directories(files), "/tmp") {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, ModTime: epoch}
		if dir == "/tmp" {
			header.Mode = 0o1777
		}
		if err := archive.WriteHeader(header); err != nil {
			return "", nil, err
		}
	}
	for _, file := range files {
		if err := writeFile(archive, file); err != nil {
			return "", nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return "", nil, err
	}
	if err := compressor.Close(); err != nil {
		return "", nil, err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), buffer.Bytes(), nil
}

func writeFile(archive *tar.Writer, file File) error {
	content, size, err := file.open()
	if err != nil {
		return err
	}
	defer content.Close()
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.Path[1:], Mode: file.Mode, Size: size, ModTime: epoch}); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

func writeArchive(to io.Writer, reference string, blobs []blob) error {
	layer, config, whole := blobs[0], blobs[1], blobs[2]
	root := whole.descriptor
	root.Platform = &platform{Architecture: runtime.GOARCH, OS: "linux"}
	root.Annotations = map[string]string{
		"io.containerd.image.name":          reference,
		"org.opencontainers.image.ref.name": reference,
	}
	var documents []tarEntry
	for _, document := range []struct {
		name  string
		value any
	}{
		{"oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}},
		{"index.json", index{2, typeIndex, []descriptor{root}}},
		{"manifest.json", []map[string]any{{ // Docker's own.
			"Config": blobPath(config.Digest), "RepoTags": []string{reference}, "Layers": []string{blobPath(layer.Digest)},
		}}},
	} {
		content, err := json.Marshal(document.value)
		if err != nil {
			return err
		}
		documents = append(documents, tarEntry{document.name, content})
	}
	for _, b := range blobs {
		documents = append(documents, tarEntry{blobPath(b.Digest), b.content})
	}
	archive := tar.NewWriter(to)
	for _, d := range documents {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: d.name, Mode: 0o644, Size: int64(len(d.content)), ModTime: epoch}); err != nil {
			return err
		}
		if _, err := archive.Write(d.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

type tarEntry struct {
	name    string
	content []byte
}
