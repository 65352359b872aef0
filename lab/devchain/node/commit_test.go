package node

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tendermint/tendermint/crypto/ed25519"
	tmjson "github.com/tendermint/tendermint/libs/json"
	tmproto "github.com/tendermint/tendermint/proto/tendermint/types"
	"github.com/tendermint/tendermint/rpc/coretypes"
	"github.com/tendermint/tendermint/types"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The operator's sidecar takes a validator's signature in a commit as proof, and
// encodes what was signed by itself. Its test reads this file, which the engine made:
//
//	go test ./node -run TestCommitForTheOperator -update
func TestCommitForTheOperator(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC)
	commit := &types.Commit{
		Height: 178123457, Round: 3,
		BlockID: types.BlockID{
			Hash:          bytes.Repeat([]byte{0xAB}, 32),
			PartSetHeader: types.PartSetHeader{Total: 130, Hash: bytes.Repeat([]byte{0xCD}, 32)},
		},
	}
	for i, kind := range []types.BlockIDFlag{types.BlockIDFlagCommit, types.BlockIDFlagNil, types.BlockIDFlagAbsent, types.BlockIDFlagCommit} {
		key := types.NewMockPVWithParams(ed25519.GenPrivKeyFromSecret([]byte{byte(i)}), false, false)
		public, err := key.GetPubKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		entry := types.CommitSig{BlockIDFlag: kind}
		if kind != types.BlockIDFlagAbsent {
			entry.ValidatorAddress, entry.Timestamp = public.Address(), at.Add(time.Duration(i)*time.Second)
		}
		commit.Signatures = append(commit.Signatures, entry)
		if kind == types.BlockIDFlagAbsent {
			continue
		}
		vote := commit.GetVote(int32(i)).ToProto()
		if vote.Type != tmproto.PrecommitType {
			t.Fatal(vote.Type)
		}
		if err := key.SignVote(t.Context(), "atlantic-2", vote); err != nil {
			t.Fatal(err)
		}
		commit.Signatures[i].Signature = vote.Signature
	}
	header := &types.Header{ChainID: "atlantic-2", Height: commit.Height, Time: at}
	made, err := tmjson.MarshalIndent(coretypes.NewResultCommit(header, commit, true), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, '\n')
	golden := filepath.Join("..", "..", "..", "internal", "seid", "testdata", "commit.json")
	if *update {
		if err := os.WriteFile(golden, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, kept) {
		t.Errorf("%s is not what the engine makes:\n%s", golden, made)
	}
}
