package seid

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Upgrade is an upgrade of the chain: at this height seid needs another binary.
type Upgrade struct {
	Name   string
	Height int64
	// Info is free text of the proposal, often JSON, often empty.
	Info string
}

// ParseUpgradeLine recognises the line with which seid halts for an upgrade, as
// it stands on stderr, in a panic, or as the message of a structured log line.
//
// Only the beginning of a line or of its message counts. Log lines also carry
// text that strangers choose, memos of transactions or names of peers, and none
// of them may look like a halt. The texts of a binary that is too new or too old
// also speak of an upgrade, but of none that is needed.
func ParseUpgradeLine(line []byte) (Upgrade, bool) {
	text, ok := upgradeText(bytes.TrimRight(line, "\r\n"))
	if !ok {
		return Upgrade{}, false
	}
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, `UPGRADE "`), `" NEEDED at height: `)
	if !ok || name == "" {
		return Upgrade{}, false
	}
	digits, info, hasInfo := strings.Cut(rest, ":")
	if !hasInfo {
		// Without info a panic's own remark may follow the number directly.
		digits, _, _ = strings.Cut(rest, " ")
	}
	height, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || height < 1 {
		return Upgrade{}, false
	}
	return Upgrade{Name: name, Height: height, Info: strings.TrimSpace(info)}, true
}

// upgradeText is the message that begins with UPGRADE, without what surrounds it.
func upgradeText(line []byte) (string, bool) {
	if after, ok := bytes.CutPrefix(line, []byte("panic: ")); ok {
		line, _, _ = bytes.Cut(after, []byte(" [recovered"))
	}
	if bytes.HasPrefix(line, []byte(`UPGRADE "`)) {
		return string(line), true
	}
	if after, ok := bytes.CutPrefix(line, []byte(`msg="UPGRADE \"`)); ok {
		return `UPGRADE "` + unescape(after), true
	}
	// In text that a log line quotes, the quote before UPGRADE is escaped, so this
	// finds the message and nothing inside another value.
	for _, key := range []string{` msg="`, `"msg":"`} {
		if _, after, ok := bytes.Cut(line, []byte(key+`UPGRADE \"`)); ok {
			return `UPGRADE "` + unescape(after), true
		}
	}
	return "", false
}

// unescape reads the rest of a quoted string up to its end, or to the end of the
// text, because long lines are cut. Of the escapes only those of quotes and
// backslashes matter here; others stay as they are.
func unescape(text []byte) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String()
		case c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ReadUpgradeInfo reads an upgrade-info.json. A file that is not there is
// fs.ErrNotExist. That it is there does not mean that seid is halted: it stays
// after the upgrade.
func ReadUpgradeInfo(path string) (Upgrade, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Upgrade{}, fmt.Errorf("cannot read the upgrade info: %w", err)
	}
	var file struct {
		Name   string  `json:"name"`
		Height wireInt `json:"height"`
		Info   string  `json:"info"`
	}
	err = json.Unmarshal(content, &file)
	if err == nil && (file.Name == "" || file.Height < 1) {
		err = errors.New("it has no name or no height")
	}
	if err != nil {
		return Upgrade{}, fmt.Errorf("%s is not an upgrade info as seid writes it, and seid will not start with it: %w", path, err)
	}
	return Upgrade{Name: file.Name, Height: int64(file.Height), Info: file.Info}, nil
}

// RuinedVolume recognises the error of a volume on which seid was killed between
// the end of a state sync and the next block, and gives the height. No start ever
// succeeds on it again; only wiping the data and syncing anew helps.
//
// The same words also come as an answer to an RPC call about an old block, so
// only the error that ends a start counts.
func RuinedVolume(line []byte) (int64, bool) {
	if !bytes.HasPrefix(line, []byte("Error: ")) {
		return 0, false
	}
	_, after, ok := bytes.Cut(line, []byte("error on replay: could not find FinalizeBlock responses for height #"))
	if !ok {
		return 0, false
	}
	end := bytes.IndexFunc(after, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(after)
	}
	height, err := strconv.ParseInt(string(after[:end]), 10, 64)
	return height, err == nil
}
