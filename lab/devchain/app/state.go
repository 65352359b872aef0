package app

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// Where a database keeps what. Keys of users have a prefix, so that none of them
// can be taken for the head.
var (
	headKey = []byte("head")
	pairs   = []byte("pair/")
)

// head is everything that is known of the state beside the pairs themselves.
type head struct {
	Height     int64  `json:"height"`
	AppVersion uint64 `json:"appVersion"`
	// Sum is the sum of the hashes of all pairs. It needs no order, so a block costs
	// what it changes, and whoever restores a snapshot can check it.
	Sum [sha256.Size]byte `json:"sum"`
	// Plan is the upgrade that is scheduled.
	Plan *Plan `json:"plan,omitempty"`
	// LastUpgrade is the name of the upgrade that was carried out last.
	LastUpgrade string `json:"lastUpgrade,omitempty"`

	// RestoredAt is the height of the snapshot that this node began with. It is not
	// part of the state on which nodes agree.
	RestoredAt int64 `json:"restoredAt,omitempty"`
}

// hash is what the nodes of a chain agree on.
func (h head) hash() []byte {
	agreed := h
	agreed.RestoredAt = 0
	text, err := json.Marshal(agreed)
	if err != nil {
		panic(err) // Plain data.
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// store is the state on disk, and what the present block changes in it.
type store struct {
	db   *leveldb.DB
	head head

	// next and changes are of the block that is being executed.
	next    head
	changes map[string][]byte
}

func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return nil, err
	}
	db, err := leveldb.OpenFile(dir, nil)
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	text, err := db.Get(headKey, nil)
	if err == nil {
		err = json.Unmarshal(text, &s.head)
	}
	if err != nil && !errors.Is(err, leveldb.ErrNotFound) {
		_ = db.Close()
		return nil, fmt.Errorf("the state in %s cannot be read: %w", dir, err)
	}
	return s, nil
}

// begin starts a block.
func (s *store) begin(height int64) {
	s.next = s.head
	s.next.Height = height
	s.changes = map[string][]byte{}
}

// get is the value of a key in the last block that was committed.
func (s *store) get(key string) ([]byte, error) {
	value, err := s.db.Get(append(bytes.Clone(pairs), key...), nil)
	if errors.Is(err, leveldb.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// set changes a pair in the present block.
func (s *store) set(key string, value []byte) error {
	old, changed := s.changes[key]
	if !changed {
		var err error
		if old, err = s.get(key); err != nil {
			return err
		}
	}
	if old != nil {
		s.next.Sum = subtract(s.next.Sum, pairHash(key, old))
	}
	s.next.Sum = add(s.next.Sum, pairHash(key, value))
	s.changes[key] = value
	return nil
}

// commit makes the present block the last one, on disk.
func (s *store) commit() error {
	batch := new(leveldb.Batch)
	for _, key := range slices.Sorted(maps.Keys(s.changes)) {
		batch.Put(append(bytes.Clone(pairs), key...), s.changes[key])
	}
	text, err := json.Marshal(s.next)
	if err != nil {
		return err
	}
	batch.Put(headKey, text)
	if err := s.db.Write(batch, &opt.WriteOptions{Sync: true}); err != nil {
		return err
	}
	s.head, s.changes = s.next, nil
	return nil
}

// pair is a key with its value.
type pair struct {
	Key   string `json:"k"`
	Value []byte `json:"v"`
}

// replace puts another state in the place of the present one.
func (s *store) replace(h head, content []pair) error {
	sum := [sha256.Size]byte{}
	batch := new(leveldb.Batch)
	every := s.db.NewIterator(util.BytesPrefix(pairs), nil)
	for every.Next() {
		batch.Delete(bytes.Clone(every.Key()))
	}
	every.Release()
	if err := every.Error(); err != nil {
		return err
	}
	for _, p := range content {
		sum = add(sum, pairHash(p.Key, p.Value))
		batch.Put(append(bytes.Clone(pairs), p.Key...), p.Value)
	}
	if sum != h.Sum {
		return errors.New("the pairs of the snapshot are not those of its state")
	}
	h.RestoredAt = h.Height
	s.next, s.changes = h, nil
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	batch.Put(headKey, text)
	if err := s.db.Write(batch, &opt.WriteOptions{Sync: true}); err != nil {
		return err
	}
	s.head = h
	return nil
}

func pairHash(key string, value []byte) [sha256.Size]byte {
	hash := sha256.New()
	var length [8]byte
	binary.BigEndian.PutUint64(length[:], uint64(len(key)))
	hash.Write(length[:])
	hash.Write([]byte(key))
	hash.Write(value)
	return [sha256.Size]byte(hash.Sum(nil))
}

// add and subtract count modulo two to the power of 256.
func add(a, b [sha256.Size]byte) [sha256.Size]byte {
	carry := 0
	for i := len(a) - 1; i >= 0; i-- {
		carry += int(a[i]) + int(b[i])
		a[i] = byte(carry)
		carry >>= 8
	}
	return a
}

func subtract(a, b [sha256.Size]byte) [sha256.Size]byte {
	borrow := 0
	for i := len(a) - 1; i >= 0; i-- {
		borrow += int(a[i]) - int(b[i])
		a[i] = byte(borrow)
		borrow >>= 8
	}
	return a
}
