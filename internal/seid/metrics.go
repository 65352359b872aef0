package seid

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxMetrics bounds what is read of a page of metrics. A real one has some
// hundred kilobytes.
const maxMetrics = 16 << 20

// Metrics are the few samples of seid's metrics that decisions are made from.
// What the page does not have is nil, which means unknown and never zero: seid
// shows most samples only once they were set.
//
// The names begin with "tendermint", the default of instrumentation.namespace in
// config.toml. With another one everything but the upgrades is unknown.
type Metrics struct {
	StateSyncing *bool
	BlockSyncing *bool
	LatestHeight *int64
	// Peers is the number of live connections.
	Peers *int64
	// Of this node's own validator, on validators only.
	ValidatorLastSignedHeight *int64
	ValidatorPower            *int64
	ValidatorMissedBlocks     *int64
	// Upgrades are the scheduled ones, by height. A plan that another one replaced
	// may still be shown.
	Upgrades []Upgrade
}

// ParseMetrics reads a page of metrics in the text format of Prometheus.
func ParseMetrics(page io.Reader) (Metrics, error) {
	var m Metrics
	limited := &io.LimitedReader{R: page, N: maxMetrics + 1}
	reader := bufio.NewReaderSize(limited, 64<<10)
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			// No sample we look for is this long.
			line, err = nil, skipLine(reader)
		}
		m.take(line)
		if limited.N <= 0 {
			return Metrics{}, fmt.Errorf("the page of metrics is larger than %d bytes", maxMetrics)
		}
		if errors.Is(err, io.EOF) {
			slices.SortFunc(m.Upgrades, func(a, b Upgrade) int { return cmp.Compare(a.Height, b.Height) })
			return m, nil
		}
		if err != nil {
			return Metrics{}, fmt.Errorf("cannot read seid's metrics: %w", err)
		}
	}
}

func skipLine(reader *bufio.Reader) error {
	for {
		_, err := reader.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// take looks at one line and keeps it if it is a sample that is wanted.
func (m *Metrics) take(line []byte) {
	end := bytes.IndexAny(line, "{ \t")
	if end < 1 || line[0] == '#' {
		return
	}
	name, ours := strings.CutPrefix(string(line[:end]), "tendermint_")
	if !ours && name != "cosmos_upgrade_plan_height" {
		return
	}
	labels, value, ok := parseSample(string(line[end:]))
	if !ok {
		return
	}
	switch name {
	case "consensus_state_syncing":
		m.StateSyncing = new(value != 0)
	case "consensus_block_syncing":
		m.BlockSyncing = new(value != 0)
	case "consensus_latest_block_height":
		m.LatestHeight = &value
	case "p2p_peers":
		m.Peers = &value
	case "consensus_validator_last_signed_height":
		m.ValidatorLastSignedHeight = &value
	case "consensus_validator_power":
		m.ValidatorPower = &value
	case "consensus_validator_missed_blocks":
		m.ValidatorMissedBlocks = &value
	case "cosmos_upgrade_plan_height":
		m.addUpgrade(labels, value)
	}
}

// addUpgrade leaves out the sample without a name that stands beside the real
// ones and is always zero.
func (m *Metrics) addUpgrade(labels map[string]string, height int64) {
	if height > 0 && labels["name"] != "" {
		m.Upgrades = append(m.Upgrades, Upgrade{Name: labels["name"], Height: height, Info: labels["info"]})
	}
}

// parseSample reads what follows the name of a sample: labels, value and perhaps a
// time. Values that are no integers are none of ours.
func parseSample(rest string) (map[string]string, int64, bool) {
	labels, rest, ok := parseLabels(rest)
	fields := strings.Fields(rest)
	if !ok || len(fields) < 1 || len(fields) > 2 {
		return nil, 0, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || value != math.Trunc(value) || math.Abs(value) >= 1<<63 {
		return nil, 0, false
	}
	return labels, int64(value), true
}

// parseLabels reads {name="value",...}, if that is what the text begins with, and
// gives the rest.
func parseLabels(text string) (labels map[string]string, rest string, ok bool) {
	text = strings.TrimLeft(text, " \t")
	if !strings.HasPrefix(text, "{") {
		return nil, text, true
	}
	labels = map[string]string{}
	text = text[1:]
	for {
		text = strings.TrimLeft(text, " \t,")
		if strings.HasPrefix(text, "}") {
			return labels, text[1:], true
		}
		name, after, found := strings.Cut(text, "=")
		after = strings.TrimLeft(after, " \t")
		if !found || !strings.HasPrefix(after, `"`) {
			return nil, "", false
		}
		value, after, found := parseLabelValue(after[1:])
		if !found {
			return nil, "", false
		}
		labels[strings.TrimSpace(name)] = value
		text = after
	}
}

// parseLabelValue reads to the closing quote. The format knows three escapes.
func parseLabelValue(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if text[i] == 'n' {
				b.WriteByte('\n')
			} else {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}
