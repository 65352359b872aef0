package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sei-operator/sei-operator/internal/seid"
	"github.com/sei-operator/sei-operator/internal/seid/toml"
	"github.com/sei-operator/sei-operator/internal/signing"
)

// The key files, as messages name them.
const (
	signingKeyFile = "config/priv_validator_key.json"
	nodeKeyFile    = "config/node_key.json"
)

// identity is who the key files say the node is. A file that is missing or
// damaged is nobody, which never equals what was approved.
func identity(home seid.Home) Identity {
	var found Identity
	if key, err := seid.ReadSigningKey(home.SigningKey()); err == nil {
		found.PublicKey = key.PublicKey
	}
	if id, err := seid.ReadNodeID(home.NodeKey()); err == nil {
		found.NodeID = id
	}
	return found
}

// signHeight is the height that was signed last, 0 when nobody can tell.
func signHeight(home seid.Home) int64 {
	state, err := seid.ReadSignState(home.SignState())
	if err != nil {
		return 0
	}
	return state.Height
}

// guardFlag makes seid look for signatures of its own key before it signs.
const guardFlag = "--consensus.double-sign-check-height"

// arguments are those of a start. With a validator, or a signing key that is
// expected, and a sign state that may not know of all that the key signed, nothing on
// this volume keeps the key from signing what it signed elsewhere; so seid itself looks
// for its own signatures in the last blocks and refuses while there are any. It is
// decided anew at each start and written nowhere, so it ends with the first signature.
func arguments(command []string, approved Approval, validator bool, signed int64, check int) []string {
	var guards []string
	if (validator || approved.PublicKey != "") && approved.Signing.Guard(signed) != signing.Off {
		guards = append(guards, guardFlag+"="+strconv.Itoa(check))
	}
	return withGuards(command, guards)
}

// withGuards puts guards before everything else that seid's sub-command is told. What
// the user adds comes last, and there a "--", or a flag whose value is missing, would
// take the guard for something else.
func withGuards(command, guards []string) []string {
	flags := slices.IndexFunc(command, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if flags < 0 {
		flags = len(command)
	}
	return slices.Concat(command[:flags], guards, command[flags:])
}

// checkCommand refuses a command that would void a guard: of a flag that is given
// twice seid takes the last, and after "--" it takes none.
func checkCommand(command []string) error {
	for _, arg := range command {
		if name, _, _ := strings.Cut(arg, "="); arg == "--" || name == guardFlag {
			return fmt.Errorf("seid cannot be run with the argument %s, which would switch off the guard against signing twice; take it out of spec.extraArgs", arg)
		}
	}
	return nil
}

// settings are what of seid's configuration decides how it boots.
type settings struct {
	seed      bool
	validator bool
	stateSync bool
	metrics   bool
	// rest, grpc and grpcWeb are the services that it opens.
	rest, grpc, grpcWeb bool
}

// readSettings reads them, as seid does: an argument counts more than a variable, and
// that more than the file. What cannot be read is taken as what makes a stop wait
// longer.
func readSettings(home seid.Home, command, env []string) settings {
	flag := func(doc map[string]any, otherwise bool, path ...string) bool {
		if value, ok := given(command, env, path); ok {
			return value
		}
		return flag(doc, otherwise, path...)
	}
	config := document(filepath.Join(home.ConfigDir(), "config.toml"))
	app := document(filepath.Join(home.ConfigDir(), "app.toml"))
	mode, _ := toml.Lookup(config, toml.Path{"mode"})
	return settings{
		seed:      mode == "seed",
		validator: mode == "validator",
		stateSync: flag(config, false, "statesync", "enable"),
		metrics:   flag(config, false, "instrumentation", "prometheus"),
		rest:      flag(app, true, "api", "enable"),
		grpc:      flag(app, true, "grpc", "enable"),
		grpcWeb:   flag(app, true, "grpc-web", "enable"),
	}
}

// given is what arguments and environment say of a switch. Of several the last counts.
func given(command, env, path []string) (value, ok bool) {
	take := func(prefix string, from []string) {
		for _, entry := range from {
			text, found := strings.CutPrefix(entry, prefix)
			if parsed, err := strconv.ParseBool(text); found && err == nil {
				value, ok = parsed, true
			}
		}
	}
	name := strings.Join(path, ".")
	take("SEID_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(name))+"=", env)
	for _, arg := range command {
		if arg == "--"+name {
			arg += "=true"
		}
		take("--"+name+"=", []string{arg})
	}
	return value, ok
}

func document(path string) map[string]any {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	doc, err := toml.Decode(text)
	if err != nil {
		return nil
	}
	return doc
}

// flag is a boolean of a document. Some that seid writes are in quotes.
func flag(doc map[string]any, otherwise bool, path ...string) bool {
	value, _ := toml.Lookup(doc, path)
	switch value := value.(type) {
	case bool:
		return value
	case string:
		if parsed, err := strconv.ParseBool(value); err == nil {
			return parsed
		}
	}
	return otherwise
}

// syncExpected tells whether nothing rules out that seid does a state sync now.
// With chain data it does none, unless an earlier one was broken off, and then
// the metrics tell; without metrics nobody can.
func syncExpected(home seid.Home, set settings) bool {
	if set.seed || !set.stateSync {
		return false
	}
	data, err := home.HasChainData()
	return err != nil || !data || !set.metrics
}

// stamp is a version of a file. A file that is written again with the same text
// is another version; one that is not there is one too.
type stamp struct {
	modified time.Time
	text     string
}

// stampOf is nothing when a file cannot be read: that is not the same as no file.
func stampOf(path string) *stamp {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &stamp{}
	}
	if err != nil {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return &stamp{modified: info.ModTime(), text: string(text)}
}
