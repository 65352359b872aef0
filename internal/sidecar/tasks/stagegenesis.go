package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/sei-operator/sei-operator/internal/durable"
	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// stagedGenesis is a genesis file that is complete, checked and durable beside the
// one it will replace.
type stagedGenesis struct {
	seid.Genesis
	*durable.File
}

// stageGenesis brings the file that was asked for. Whatever fails leaves nothing
// behind; a crash leaves one file, which the next attempt overwrites.
func (t *tasks) stageGenesis(ctx context.Context, p ConfigureGenesis) (*stagedGenesis, error) {
	source, err := t.openGenesis(ctx, p)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	// seid reads the file as another user of the same group.
	file, err := durable.Writer{}.Create(t.Home.Genesis(), 0o644)
	if err != nil {
		return nil, volumeError(err)
	}
	staged := &stagedGenesis{File: file}
	if err := t.fillGenesis(staged, source, p); err != nil {
		staged.Discard()
		return nil, err
	}
	return staged, nil
}

// genesisSource is where the file comes from.
type genesisSource struct {
	io.ReadCloser

	// broken is the failure of a source that cannot be read to its end.
	broken func(error) error
}

func (t *tasks) openGenesis(ctx context.Context, p ConfigureGenesis) (*genesisSource, error) {
	if p.URL != "" {
		return t.download(ctx, p.URL)
	}
	if t.GenesisDir == "" {
		return nil, engine.Terminal(ReasonGenesisMissing, "no ConfigMap with a genesis file is mounted, so there is no file %s", p.File)
	}
	file, err := os.Open(filepath.Join(t.GenesisDir, p.File))
	if errors.Is(err, fs.ErrNotExist) {
		// A mounted ConfigMap follows its source with a delay.
		return nil, engine.Retryable(ReasonGenesisMissing, "the ConfigMap with the genesis file has no file %s", p.File)
	}
	if err != nil {
		return nil, volumeError(err)
	}
	return &genesisSource{file, volumeError}, nil
}

func (t *tasks) download(ctx context.Context, from string) (*genesisSource, error) {
	failed := func(err error) error {
		return engine.Retryable(ReasonDownloadFailed, "the genesis file could not be downloaded: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, failed(err)
	}
	response, err := t.Downloads.Do(request)
	if err != nil {
		return nil, failed(err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, failed(fmt.Errorf("%s answered HTTP %d", request.URL.Host, response.StatusCode))
	}
	if response.ContentLength > t.maxGenesis {
		_ = response.Body.Close()
		return nil, t.tooLarge()
	}
	return &genesisSource{response.Body, failed}, nil
}

func (t *tasks) tooLarge() error {
	return engine.Terminal(ReasonTooLarge, "the genesis file is larger than %d bytes", t.maxGenesis)
}

// fillGenesis copies the source and checks the copy, so that what was checked is
// what is put in place.
func (t *tasks) fillGenesis(staged *stagedGenesis, source *genesisSource, p ConfigureGenesis) error {
	sum, err := t.copyGenesis(staged.File, source)
	if err != nil {
		return err
	}
	if p.SHA256 != "" && !strings.EqualFold(p.SHA256, sum) {
		return engine.Terminal(ReasonChecksumMismatch, "the genesis file has the SHA-256 %s, not %s; correct the checksum, or find out who changed the file", sum, strings.ToLower(p.SHA256))
	}
	found, err := seid.ReadGenesis(staged.Name())
	if _, disk := errors.AsType[*fs.PathError](err); disk {
		return volumeError(err)
	}
	if err != nil {
		return engine.Terminal(ReasonInvalidGenesis, "what was given as genesis file is none: %w", errors.Unwrap(err))
	}
	staged.Genesis = found
	return checkGenesis(found, p)
}

func (t *tasks) copyGenesis(file *durable.File, source *genesisSource) (string, error) {
	hash := sha256.New()
	limited := &io.LimitedReader{R: source, N: t.maxGenesis + 1}
	// One of the two sides failed, and each says it in its own way.
	_, err := io.Copy(file, io.TeeReader(limited, hash))
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok && pathErr.Path == file.Name() {
		return "", volumeError(err)
	}
	if err != nil {
		return "", source.broken(err)
	}
	if limited.N == 0 {
		return "", t.tooLarge()
	}
	if err := file.Finish(); err != nil {
		return "", volumeError(err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
