package seid

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Commit is what a node says its validators signed at a height. Everything in it is
// a claim of that node; see Signed.
type Commit struct {
	Height     int64
	Round      int64
	BlockID    BlockID
	Signatures []CommitSignature
}

// BlockID names a block, and the parts in which it is sent.
type BlockID struct {
	Hash      []byte
	Parts     uint32
	PartsHash []byte
}

// CommitSignature is the precommit of one validator.
type CommitSignature struct {
	// Flag is 1 for nothing, 2 for a vote for the block, 3 for a vote for none.
	Flag      int64
	Address   string
	Time      time.Time
	Signature []byte
}

// votedForBlock is the flag of a vote for the block of the commit.
const votedForBlock = 2

// Commit asks /commit for this height; 0 is the latest that the node has.
func (c *Client) Commit(ctx context.Context, height int64) (Commit, error) {
	var query url.Values
	if height != 0 {
		query = url.Values{"height": {strconv.FormatInt(height, 10)}}
	}
	var body struct {
		SignedHeader *struct {
			Commit *struct {
				Height  *wireInt `json:"height"`
				Round   wireInt  `json:"round"`
				BlockID struct {
					Hash  string `json:"hash"`
					Parts struct {
						Total uint32 `json:"total"`
						Hash  string `json:"hash"`
					} `json:"parts"`
				} `json:"block_id"`
				Signatures []struct {
					Flag      wireInt   `json:"block_id_flag"`
					Address   string    `json:"validator_address"`
					Time      time.Time `json:"timestamp"`
					Signature []byte    `json:"signature"`
				} `json:"signatures"`
			} `json:"commit"`
		} `json:"signed_header"`
	}
	if _, err := c.get(ctx, "/commit", query, &body); err != nil {
		return Commit{}, err
	}
	if body.SignedHeader == nil || body.SignedHeader.Commit == nil || body.SignedHeader.Commit.Height == nil {
		return Commit{}, c.incomplete("/commit", "signed_header.commit.height")
	}
	said := body.SignedHeader.Commit
	hash, err := hex.DecodeString(said.BlockID.Hash)
	if err != nil {
		return Commit{}, fmt.Errorf("%s answered with %q for the hash of a block, which is none", c.base.Host, said.BlockID.Hash)
	}
	partsHash, err := hex.DecodeString(said.BlockID.Parts.Hash)
	if err != nil {
		return Commit{}, fmt.Errorf("%s answered with %q for the hash of a block's parts, which is none", c.base.Host, said.BlockID.Parts.Hash)
	}
	commit := Commit{
		Height: int64(*said.Height), Round: int64(said.Round),
		BlockID: BlockID{Hash: hash, Parts: said.BlockID.Parts.Total, PartsHash: partsHash},
	}
	for _, signature := range said.Signatures {
		commit.Signatures = append(commit.Signatures, CommitSignature{
			Flag: int64(signature.Flag), Address: signature.Address, Time: signature.Time, Signature: signature.Signature,
		})
	}
	return commit, nil
}

// Signed tells whether the commit proves that the key, in base64, signed at its
// height on this chain. It is a proof because nobody but the holder of the key can
// make the signature: whoever sent the commit needs not to be trusted. A commit has one
// vote of each validator, so one signature is verified at most: a start waits for it, and
// a liar could send many.
func (c Commit) Signed(chainID, publicKey string) bool {
	key, err := base64.StdEncoding.DecodeString(publicKey)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return false
	}
	address := addressOf(key)
	for _, signature := range c.Signatures {
		if len(signature.Signature) == ed25519.SignatureSize && strings.EqualFold(signature.Address, address) {
			return ed25519.Verify(key, c.signBytes(chainID, signature), signature.Signature)
		}
	}
	return false
}

// precommit is the type of the votes in a commit.
const precommit = 2

// signBytes are the bytes that a validator signed: Tendermint's CanonicalVote as a
// protobuf message, with its length in front of it. Fields that are zero are left
// out, messages that are not optional are there also when they are empty.
func (c Commit) signBytes(chainID string, signature CommitSignature) []byte {
	var vote message
	vote.varint(1, precommit)
	vote.fixed(2, c.Height)
	vote.fixed(3, c.Round)
	if signature.Flag == votedForBlock {
		var parts, block message
		parts.varint(1, uint64(c.BlockID.Parts))
		parts.bytes(2, c.BlockID.PartsHash)
		block.bytes(1, c.BlockID.Hash)
		block.message(2, parts)
		vote.message(4, block)
	}
	var when message
	when.varint(1, uint64(signature.Time.Unix()))
	when.varint(2, uint64(signature.Time.Nanosecond()))
	vote.message(5, when)
	vote.bytes(6, []byte(chainID))
	return append(binary.AppendUvarint(nil, uint64(len(vote))), vote...)
}

// message is a protobuf message that is being written.
type message []byte

// The wire types of protobuf.
const (
	wireVarint = 0
	wireFixed  = 1
	wireBytes  = 2
)

func (m *message) tag(field, wire uint64) { *m = binary.AppendUvarint(*m, field<<3|wire) }

func (m *message) varint(field, value uint64) {
	if value != 0 {
		m.tag(field, wireVarint)
		*m = binary.AppendUvarint(*m, value)
	}
}

func (m *message) fixed(field uint64, value int64) {
	if value != 0 {
		m.tag(field, wireFixed)
		*m = binary.LittleEndian.AppendUint64(*m, uint64(value))
	}
}

func (m *message) bytes(field uint64, value []byte) {
	if len(value) != 0 {
		m.message(field, value)
	}
}

func (m *message) message(field uint64, value []byte) {
	m.tag(field, wireBytes)
	*m = binary.AppendUvarint(*m, uint64(len(value)))
	*m = append(*m, value...)
}
