package node

import (
	"github.com/prometheus/client_golang/prometheus"
)

// figure is one figure that people watch.
func figure(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("sei_node_"+name, help, labels, nil)
}

var (
	figureUp           = figure("up", "Whether the process of seid exists.")
	figureRPC          = figure("rpc_up", "Whether the RPC of seid answers.")
	figureHeight       = figure("height", "Height of the latest block.")
	figureHeightAge    = figure("height_age_seconds", "Age of the latest block.")
	figureLag          = figure("lag_blocks", "How many blocks the node is behind its best peer.")
	figureCatchingUp   = figure("catching_up", "Whether the node is still syncing.")
	figureStateSyncing = figure("state_syncing", "Whether the node is restoring a snapshot.")
	figurePeers        = figure("peers", "Number of peers the node is connected with.")
	figureVotingPower  = figure("voting_power", "Voting power of the validator.")
	figureLastSigned   = figure("last_signed_height", "Height of the last block that the validator signed.")
	figureMissed       = figure("missed_blocks", "Number of blocks that the validator did not sign.")
	figureRestarts     = figure("restarts_total", "How often seid ended, by cause.", "cause")
	figureFree         = figure("volume_free_bytes", "Free space on the data volume.")
	figureTotal        = figure("volume_total_bytes", "Size of the data volume.")
)

// Describe implements prometheus.Collector.
func (n *Node) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		figureUp, figureRPC, figureHeight, figureHeightAge, figureLag, figureCatchingUp, figureStateSyncing, figurePeers,
		figureVotingPower, figureLastSigned, figureMissed, figureRestarts, figureFree, figureTotal,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. What is not known has no sample: a zero
// would be a lie that alerts believe.
func (n *Node) Collect(ch chan<- prometheus.Metric) {
	n.mu.Lock()
	state, connected, sample := n.state, n.connected, n.sample
	free, total := n.free, n.total
	n.mu.Unlock()

	gauge := func(desc *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	if connected {
		gauge(figureUp, truth(state.PID != 0))
		gauge(figureRPC, truth(sample.status != nil))
	}
	for cause, count := range state.Restarts {
		ch <- prometheus.MustNewConstMetric(figureRestarts, prometheus.CounterValue, float64(count), string(cause))
	}
	if s := sample.status; s != nil {
		gauge(figureHeight, float64(s.LatestBlockHeight))
		gauge(figureCatchingUp, truth(s.CatchingUp))
		if !s.LatestBlockTime.IsZero() && s.LatestBlockHeight > 0 {
			gauge(figureHeightAge, n.opts.Clock.Now().Sub(s.LatestBlockTime).Seconds())
		}
	}
	if sample.lag != nil {
		gauge(figureLag, float64(sample.lag.Lag))
	}
	if sample.net != nil {
		gauge(figurePeers, float64(len(sample.net.Connected)))
	}
	if m := sample.metrics; m != nil {
		number := func(desc *prometheus.Desc, value *int64) {
			if value != nil {
				gauge(desc, float64(*value))
			}
		}
		number(figureVotingPower, m.ValidatorPower)
		number(figureLastSigned, m.ValidatorLastSignedHeight)
		number(figureMissed, m.ValidatorMissedBlocks)
		if m.StateSyncing != nil {
			gauge(figureStateSyncing, truth(*m.StateSyncing))
		}
	}
	if total > 0 {
		gauge(figureFree, float64(free))
		gauge(figureTotal, float64(total))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
