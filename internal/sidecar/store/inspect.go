package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
)

// bbolt trusts its pages: a wrong number in one is a panic, in the worst case in a
// goroutine of its own or as a memory fault, where nobody can recover it. So the
// file is read once with every bound checked before bbolt sees it. What follows is
// the layout of bbolt's file format, version 2.
const (
	boltMagic     = 0xED0CDAED
	boltVersion   = 2
	pageHeader    = 16
	elementSize   = 16
	bucketHeader  = 16
	metaSize      = 64
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagFreelist  = 0x10
	elementBucket = 0x01
)

var native = binary.NativeEndian

// inspect returns errDamaged if the file is not a sound database, nil for an empty
// file (bbolt makes one of it), and any other error if it cannot be read.
func inspect(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a file but %s", errDamaged, info.Mode().Type())
	}
	if info.Size() == 0 {
		return nil
	}
	meta, err := newestMeta(file, info.Size())
	if err != nil {
		return err
	}
	if meta.pages > uint64(info.Size())/pageSize {
		return fmt.Errorf("%w: it was cut off: %d pages are in use and there is room for %d", errDamaged, meta.pages, info.Size()/pageSize)
	}
	in := &inspector{file: file, pages: meta.pages, used: map[uint64]bool{}}
	if err := in.tree(meta.root, nil, nil); err != nil {
		return err
	}
	return in.freelist(meta.freelist)
}

type meta struct {
	root, freelist, pages, tx uint64
}

// newestMeta returns the newer of the two meta pages that is whole. A crash in the
// middle of a commit leaves one of them torn, and the other is the truth.
func newestMeta(file io.ReaderAt, size int64) (meta, error) {
	if size < 2*pageSize {
		return meta{}, fmt.Errorf("%w: it has only %d bytes", errDamaged, size)
	}
	var newest meta
	found := false
	for page := range int64(2) {
		buf := make([]byte, metaSize)
		if _, err := file.ReadAt(buf, page*pageSize+pageHeader); err != nil {
			return meta{}, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(buf[:metaSize-8])
		if native.Uint32(buf) != boltMagic || native.Uint32(buf[4:]) != boltVersion ||
			native.Uint32(buf[8:]) != pageSize || native.Uint64(buf[56:]) != sum.Sum64() {
			continue
		}
		m := meta{root: native.Uint64(buf[16:]), freelist: native.Uint64(buf[32:]), pages: native.Uint64(buf[40:]), tx: native.Uint64(buf[48:])}
		if !found || m.tx > newest.tx {
			newest, found = m, true
		}
	}
	if !found {
		return meta{}, fmt.Errorf("%w: neither of its two meta pages is whole", errDamaged)
	}
	return newest, nil
}

type inspector struct {
	file  io.ReaderAt
	pages uint64 // in use; always within the file
	used  map[uint64]bool
}

func (in *inspector) damaged(id uint64, what string) error {
	return fmt.Errorf("%w: page %d: %s", errDamaged, id, what)
}

// page reads a page with those that continue it, and notes that they are in use.
func (in *inspector) page(id uint64) (data []byte, flags uint16, err error) {
	if id < 2 || id >= in.pages {
		return nil, 0, in.damaged(id, "is referred to and does not exist")
	}
	head := make([]byte, pageHeader)
	if _, err := in.file.ReadAt(head, int64(id)*pageSize); err != nil {
		return nil, 0, err
	}
	more := uint64(native.Uint32(head[12:]))
	if native.Uint64(head) != id || id+more >= in.pages {
		return nil, 0, in.damaged(id, "has a wrong header")
	}
	for i := id; i <= id+more; i++ {
		if in.used[i] {
			return nil, 0, in.damaged(i, "is used twice")
		}
		in.used[i] = true
	}
	data = make([]byte, (more+1)*pageSize)
	if _, err := in.file.ReadAt(data, int64(id)*pageSize); err != nil {
		return nil, 0, err
	}
	return data, native.Uint16(head[8:]), nil
}

// tree checks the pages below one whose keys are in [low, high).
func (in *inspector) tree(id uint64, low, high []byte) error {
	data, flags, err := in.page(id)
	if err != nil {
		return err
	}
	switch flags {
	case flagLeaf:
		return in.leaf(id, data, low, high)
	case flagBranch:
		return in.branch(id, data, low, high)
	default:
		return in.damaged(id, fmt.Sprintf("is of the unknown kind %#x", flags))
	}
}

func (in *inspector) leaf(id uint64, data, low, high []byte) error {
	elements, err := in.elements(id, data, low, high)
	if err != nil {
		return err
	}
	for i, e := range elements {
		if native.Uint32(data[pageHeader+i*elementSize:])&elementBucket == 0 {
			continue
		}
		if len(e.value) < bucketHeader {
			return in.damaged(id, "holds a bucket without a header")
		}
		root := native.Uint64(e.value)
		if root != 0 {
			err = in.tree(root, nil, nil)
		} else {
			// A small bucket lives inside the value, as a page of its own kind.
			err = in.inline(id, e.value[bucketHeader:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *inspector) inline(id uint64, data []byte) error {
	if len(data) < pageHeader || native.Uint16(data[8:]) != flagLeaf {
		return in.damaged(id, "holds a bucket that is no leaf")
	}
	return in.leaf(id, data, nil, nil)
}

func (in *inspector) branch(id uint64, data, low, high []byte) error {
	elements, err := in.elements(id, data, low, high)
	if err != nil {
		return err
	}
	if len(elements) == 0 {
		return in.damaged(id, "is a branch with nothing below")
	}
	for i, e := range elements {
		next := high
		if i+1 < len(elements) {
			next = elements[i+1].key
		}
		if err := in.tree(native.Uint64(data[pageHeader+i*elementSize+8:]), e.key, next); err != nil {
			return err
		}
	}
	return nil
}

type element struct{ key, value []byte }

// elements returns the keys (and, of a leaf, the values) of a page, all of which
// are inside it and in order.
func (in *inspector) elements(id uint64, data, low, high []byte) ([]element, error) {
	isLeaf := native.Uint16(data[8:]) == flagLeaf
	count := int(native.Uint16(data[10:]))
	if pageHeader+count*elementSize > len(data) {
		return nil, in.damaged(id, "claims more entries than it has room for")
	}
	found := make([]element, count)
	for i := range found {
		at := pageHeader + i*elementSize
		head := data[at : at+elementSize]
		pos, keyLen, valueLen := native.Uint32(head), native.Uint32(head[4:]), uint32(0)
		if isLeaf {
			pos, keyLen, valueLen = native.Uint32(head[4:]), native.Uint32(head[8:]), native.Uint32(head[12:])
		}
		from := uint64(at) + uint64(pos)
		end := from + uint64(keyLen) + uint64(valueLen)
		if end > uint64(len(data)) {
			return nil, in.damaged(id, "has an entry that reaches beyond it")
		}
		key := data[from : from+uint64(keyLen)]
		outside := low != nil && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0
		if outside || i > 0 && bytes.Compare(found[i-1].key, key) >= 0 {
			return nil, in.damaged(id, "has entries out of order")
		}
		found[i] = element{key: key, value: data[from+uint64(keyLen) : end]}
	}
	return found, nil
}

// freelist checks that no page in use is also offered for use: the next write would
// go over live data.
func (in *inspector) freelist(id uint64) error {
	data, flags, err := in.page(id)
	if err != nil {
		return err
	}
	if flags != flagFreelist {
		return in.damaged(id, "is not the list of free pages")
	}
	count, at := uint64(native.Uint16(data[10:])), uint64(pageHeader)
	if count == math.MaxUint16 {
		count, at = native.Uint64(data[at:]), at+8
	}
	if count > (uint64(len(data))-at)/8 {
		return in.damaged(id, "lists more free pages than it has room for")
	}
	for range count {
		free := native.Uint64(data[at:])
		if free < 2 || free >= in.pages || in.used[free] {
			return in.damaged(id, fmt.Sprintf("offers page %d, which is not free", free))
		}
		in.used[free] = true
		at += 8
	}
	return nil
}
