package app

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
	abci "github.com/tendermint/tendermint/abci/types"
)

const (
	snapshotFormat = 1
	// chunkSize is from which on a chunk is full. Small, so that a state of some
	// thousand pairs already has several.
	chunkSize = 64 << 10
)

// snapshots are kept in one directory for each height. The row in the database is
// written last: a directory without one is no snapshot.
type snapshots struct {
	dir string
	db  *leveldb.DB
}

// manifest is what travels with a snapshot.
type manifest struct {
	Head   head                `json:"head"`
	Chunks [][sha256.Size]byte `json:"chunks"`
}

func openSnapshots(dir string) (*snapshots, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	db, err := leveldb.OpenFile(filepath.Join(dir, "metadata.db"), nil)
	if err != nil {
		return nil, err
	}
	return &snapshots{dir: dir, db: db}, nil
}

func (s *snapshots) close() error { return s.db.Close() }

func (s *snapshots) heightDir(height uint64) string {
	return filepath.Join(s.dir, strconv.FormatUint(height, 10))
}

func (s *snapshots) chunk(height uint64, index uint32) string {
	return filepath.Join(s.heightDir(height), strconv.Itoa(snapshotFormat), strconv.FormatUint(uint64(index), 10))
}

func rowKey(height uint64) []byte { return binary.BigEndian.AppendUint64(nil, height) }

// list is all snapshots, by height.
func (s *snapshots) list() ([]*abci.Snapshot, error) {
	var found []*abci.Snapshot
	rows := s.db.NewIterator(nil, nil)
	defer rows.Release()
	for rows.Next() {
		snapshot := &abci.Snapshot{}
		if err := snapshot.Unmarshal(rows.Value()); err != nil {
			return nil, err
		}
		found = append(found, snapshot)
	}
	slices.SortFunc(found, func(a, b *abci.Snapshot) int { return cmp.Compare(a.Height, b.Height) })
	return found, rows.Error()
}

// prune keeps the newest.
func (s *snapshots) prune(keep int) error {
	found, err := s.list()
	if err != nil || keep <= 0 || len(found) <= keep {
		return err
	}
	for _, old := range found[:len(found)-keep] {
		if err := s.db.Delete(rowKey(old.Height), nil); err != nil {
			return err
		}
		if err := os.RemoveAll(s.heightDir(old.Height)); err != nil {
			return err
		}
	}
	return nil
}

// takeSnapshot fixes the state of the block that was just committed and writes it
// while the chain goes on.
func (a *Application) takeSnapshot() {
	view, err := a.store.db.GetSnapshot()
	if err != nil {
		a.log.Error("cannot take a snapshot", "err", err)
		return
	}
	at := a.store.head
	at.RestoredAt = 0
	a.log.Info("creating state snapshot", "height", at.Height)
	a.writing.Go(func() {
		defer view.Release()
		if err := a.snapshots.write(view, at, a.options.SnapshotKeepRecent); err != nil {
			a.log.Error("failed to create state snapshot", "height", at.Height, "err", err)
			return
		}
		a.log.Info("completed state snapshot", "height", at.Height, "format", snapshotFormat)
	})
}

func (s *snapshots) write(view *leveldb.Snapshot, at head, keep int) error {
	height := uint64(at.Height)
	// What a process left that was killed here.
	if err := os.RemoveAll(s.heightDir(height)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.chunk(height, 0)), 0o750); err != nil {
		return err
	}
	about := manifest{Head: at}
	var chunk []pair
	size := 0
	flush := func() error {
		text, err := json.Marshal(chunk)
		if err != nil {
			return err
		}
		path := s.chunk(height, uint32(len(about.Chunks)))
		about.Chunks = append(about.Chunks, sha256.Sum256(text))
		chunk, size = nil, 0
		return os.WriteFile(path, text, 0o600)
	}
	every := view.NewIterator(util.BytesPrefix(pairs), nil)
	defer every.Release()
	for every.Next() {
		key := string(bytes.TrimPrefix(every.Key(), pairs))
		chunk = append(chunk, pair{Key: key, Value: bytes.Clone(every.Value())})
		if size += len(key) + len(every.Value()); size >= chunkSize {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := every.Error(); err != nil {
		return err
	}
	// Also an empty state has a chunk: the engine does not take a snapshot without.
	if len(chunk) > 0 || len(about.Chunks) == 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	metadata, err := json.Marshal(about)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(metadata)
	row, err := (&abci.Snapshot{
		Height: height, Format: snapshotFormat, Chunks: uint32(len(about.Chunks)), Hash: hash[:], Metadata: metadata,
	}).Marshal()
	if err != nil {
		return err
	}
	if err := s.db.Put(rowKey(height), row, nil); err != nil {
		return err
	}
	return s.prune(keep)
}

// restore is a snapshot that is being put together.
type restore struct {
	manifest manifest
	content  []pair
}

// ListSnapshots tells other nodes what can be had here.
func (a *Application) ListSnapshots(abci.RequestListSnapshots) abci.ResponseListSnapshots {
	found, err := a.snapshots.list()
	if err != nil {
		a.log.Error("cannot list the snapshots", "err", err)
	}
	return abci.ResponseListSnapshots{Snapshots: found}
}

// LoadSnapshotChunk gives another node a chunk; nothing if it is gone by now.
func (a *Application) LoadSnapshotChunk(request abci.RequestLoadSnapshotChunk) abci.ResponseLoadSnapshotChunk {
	if request.Format != snapshotFormat {
		return abci.ResponseLoadSnapshotChunk{}
	}
	text, err := os.ReadFile(a.snapshots.chunk(request.Height, request.Chunk))
	if err != nil {
		a.log.Error("cannot read a chunk of a snapshot", "height", request.Height, "chunk", request.Chunk, "err", err)
		return abci.ResponseLoadSnapshotChunk{}
	}
	return abci.ResponseLoadSnapshotChunk{Chunk: text}
}

// OfferSnapshot accepts a snapshot of a state that the light client vouches for.
func (a *Application) OfferSnapshot(request abci.RequestOfferSnapshot) abci.ResponseOfferSnapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	if request.Snapshot.Format != snapshotFormat {
		return abci.ResponseOfferSnapshot{Result: abci.ResponseOfferSnapshot_REJECT_FORMAT}
	}
	offered := &restore{}
	err := json.Unmarshal(request.Snapshot.Metadata, &offered.manifest)
	if err == nil && !bytes.Equal(offered.manifest.Head.hash(), request.AppHash) {
		err = fmt.Errorf("its state is not that of block %d", request.Snapshot.Height)
	}
	if err == nil && len(offered.manifest.Chunks) != int(request.Snapshot.Chunks) {
		err = fmt.Errorf("it has %d chunks, and hashes of %d", request.Snapshot.Chunks, len(offered.manifest.Chunks))
	}
	if err != nil {
		a.log.Error("refused a snapshot", "height", request.Snapshot.Height, "err", err)
		return abci.ResponseOfferSnapshot{Result: abci.ResponseOfferSnapshot_REJECT}
	}
	a.restore = offered
	return abci.ResponseOfferSnapshot{Result: abci.ResponseOfferSnapshot_ACCEPT}
}

// ApplySnapshotChunk takes the chunks in their order; with the last one the state
// becomes that of the snapshot.
func (a *Application) ApplySnapshotChunk(request abci.RequestApplySnapshotChunk) abci.ResponseApplySnapshotChunk {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.restore == nil || int(request.Index) >= len(a.restore.manifest.Chunks) {
		return abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_ABORT}
	}
	var content []pair
	err := json.Unmarshal(request.Chunk, &content)
	if err != nil || sha256.Sum256(request.Chunk) != a.restore.manifest.Chunks[request.Index] {
		return abci.ResponseApplySnapshotChunk{
			Result:        abci.ResponseApplySnapshotChunk_RETRY,
			RefetchChunks: []uint32{request.Index}, RejectSenders: []string{request.Sender},
		}
	}
	a.restore.content = append(a.restore.content, content...)
	if int(request.Index) == len(a.restore.manifest.Chunks)-1 {
		if err := a.store.replace(a.restore.manifest.Head, a.restore.content); err != nil {
			a.log.Error("cannot restore the snapshot", "err", err)
			return abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_REJECT_SNAPSHOT}
		}
		a.restore = nil
	}
	return abci.ResponseApplySnapshotChunk{Result: abci.ResponseApplySnapshotChunk_ACCEPT}
}
