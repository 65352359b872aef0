package tasks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/sidecar/engine"
)

// maxGenesis bounds a genesis file from outside.
const maxGenesis = 1 << 30

// ConfigureGenesis puts the genesis file of a chain in place. Without a file and a
// url, the one that "seid init" made is the one.
type ConfigureGenesis struct {
	ChainID string `json:"chainId"`
	// File is the name of a file of the mounted ConfigMap.
	File string `json:"file,omitempty"`
	// URL is where to download it from. Then SHA256 is required.
	URL    string `json:"url,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Validate refuses what cannot be a genesis file of a chain.
func (p *ConfigureGenesis) Validate() error {
	if err := checkChainID(p.ChainID); err != nil {
		return err
	}
	if p.File != "" && p.URL != "" {
		return errors.New("file and url are both set; set one of them")
	}
	if p.SHA256 != "" && (len(p.SHA256) != 64 || strings.Trim(p.SHA256, "0123456789abcdefABCDEF") != "") {
		return errors.New("sha256 does not have 64 hexadecimal digits")
	}
	if p.File != "" {
		return checkFileName(p.File)
	}
	if p.URL != "" {
		return p.checkURL()
	}
	return nil
}

// checkFileName takes what a ConfigMap takes as a key; nothing of that leads out of
// its directory.
func checkFileName(name string) error {
	if len(name) > 253 || strings.HasPrefix(name, "..") || name == "." ||
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return fmt.Errorf("file %q is not the name of a file of a ConfigMap", name)
	}
	return nil
}

func (p *ConfigureGenesis) checkURL() error {
	if err := bounded("url", p.URL, 4096); err != nil {
		return err
	}
	parsed, err := url.Parse(p.URL)
	switch {
	case err != nil, parsed.Host == "", parsed.Scheme != "http" && parsed.Scheme != "https":
		return errors.New("url is not an http or https URL")
	case parsed.User != nil:
		return errors.New("url contains a password or a user; tasks are kept and can be read")
	case p.SHA256 == "":
		return errors.New("sha256 is missing; without it nobody can tell that what is downloaded is what was meant")
	}
	return nil
}

// ConfigureGenesisResult tells which genesis file there is now.
type ConfigureGenesisResult struct {
	Changed bool   `json:"changed"`
	ChainID string `json:"chainId"`
	SHA256  string `json:"sha256"`
}

// configureGenesis never takes the genesis file from under a chain's data: seid
// would not notice.
func (t *tasks) configureGenesis(ctx context.Context, _ engine.Execution, p ConfigureGenesis) (any, error) {
	current, err := t.currentGenesis()
	if err != nil {
		return nil, err
	}
	if p.File == "" && p.URL == "" || p.SHA256 != "" && current.is(p.SHA256) {
		return t.keepGenesis(current, p) // nothing needs to be downloaded
	}
	hasData, err := t.Home.HasChainData()
	if err != nil {
		return nil, volumeError(err)
	}
	fixed := hasData && current != nil
	if fixed && p.SHA256 != "" {
		return nil, genesisFixed() // before anything is downloaded
	}
	staged, err := t.stageGenesis(ctx, p)
	if err != nil {
		return nil, err
	}
	defer staged.Discard()
	if current.is(staged.SHA256) {
		return genesisResult(false, staged.Genesis), nil
	}
	if fixed {
		return nil, genesisFixed()
	}
	if err := t.forgetGenesis(ctx, hasData, current); err != nil {
		return nil, err
	}
	if err := t.do("genesis file", staged.Commit); err != nil {
		return nil, volumeError(err)
	}
	return genesisResult(true, staged.Genesis), nil
}

// forgetGenesis takes away what seid derived from the genesis file that is about to
// be replaced: it would go on from that, and never read the new one. Where there are
// blocks on the volume nothing is touched. It is moved and not removed, in case somebody knows
// better; and it comes first, so that a crash leaves nothing that does not fit together.
func (t *tasks) forgetGenesis(ctx context.Context, hasData bool, replaced *foundGenesis) error {
	if hasData {
		return nil
	}
	opened, err := t.Home.HasStores()
	if err != nil {
		return volumeError(err)
	}
	if !opened {
		return nil
	}
	if t.Consent.Wanted() {
		return engine.Retryable(ReasonSeidRunning, "the genesis file was not replaced: the node may run, so seid might read it meanwhile; hold it first")
	}
	if err := t.provenStopped(ctx); err != nil {
		return err
	}
	aside := ".of-another-genesis"
	if replaced != nil && replaced.err == nil {
		aside = ".of-genesis-" + replaced.SHA256[:12]
	}
	for _, dir := range t.Home.GenesisStates() {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := t.do("genesis state", func() error {
			return errors.Join(os.RemoveAll(dir+aside), os.Rename(dir, dir+aside))
		})
		if err != nil {
			return volumeError(err)
		}
	}
	return nil
}

func genesisResult(changed bool, g seid.Genesis) ConfigureGenesisResult {
	return ConfigureGenesisResult{Changed: changed, ChainID: g.ChainID, SHA256: g.SHA256}
}

func genesisFixed() error {
	return engine.Terminal(ReasonVolumeHasData, "the genesis file was not replaced: the volume holds data that was made from another one; use the one it was made from, or remove the data first")
}

// foundGenesis is the genesis file that is in place; err says why it is none.
type foundGenesis struct {
	seid.Genesis

	err error
}

// is tells whether it is the file with this checksum.
func (g *foundGenesis) is(sum string) bool {
	return g != nil && g.err == nil && strings.EqualFold(g.SHA256, sum)
}

// currentGenesis is nil when there is no genesis file.
func (t *tasks) currentGenesis() (*foundGenesis, error) {
	found, err := seid.ReadGenesis(t.Home.Genesis())
	_, disk := errors.AsType[*fs.PathError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case disk:
		return nil, volumeError(err)
	}
	return &foundGenesis{found, err}, nil
}

// keepGenesis checks the file that is there.
func (t *tasks) keepGenesis(current *foundGenesis, p ConfigureGenesis) (any, error) {
	switch {
	case current == nil:
		return nil, engine.Terminal(ReasonGenesisMissing, "there is no genesis file on the volume, and none was given; give one with spec.genesis")
	case current.err != nil:
		return nil, engine.Terminal(ReasonInvalidGenesis, "%w", current.err)
	}
	if err := checkGenesis(current.Genesis, p); err != nil {
		return nil, err
	}
	return genesisResult(false, current.Genesis), nil
}

func checkGenesis(g seid.Genesis, p ConfigureGenesis) error {
	err := g.Check(p.ChainID, p.SHA256)
	switch {
	case err == nil:
		return nil
	case g.ChainID != p.ChainID:
		return engine.Terminal(ReasonChainIDMismatch, "%w", err)
	default:
		return engine.Terminal(ReasonChecksumMismatch, "%w", err)
	}
}
