//go:build nextversion

package server

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"meridian/sql/job"
	"meridian/upgrade"
	"meridian/version"
)

// migrations run after upgrades are finalized, in the order of their versions.
func (n *Node) migrations() []upgrade.Migration {
	return []upgrade.Migration{{Version: version.NextDescriptor.Since(), Name: "example", About: "an example, which changes nothing",
		Resume: func(ctx context.Context, r *job.Run) error { return r.Checkpoint(ctx, 1, nil) }}}
}

// later emits how often the node has used the features that the next version adds.
func (e *emitter) later(n *Node) {
	for _, f := range []version.Feature{version.NextField, version.NextCommand, version.NextDescriptor} {
		written, read := n.version.Uses(f)
		for did, count := range map[string]int64{"written": written, "read": read} {
			e.emit(prometheus.CounterValue, "next_uses_total", "How often the node has written and read what a feature of the next version introduces.", float64(count),
				prometheus.Labels{"feature": f.String(), "did": did})
		}
	}
}
