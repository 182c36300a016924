package replica

import (
	"context"

	"meridian/commit/fastpaxos/core"
)

// Ender ends transactions whose gateways may be gone. A node's gateway of this protocol is one: the Finisher of kv.FastPaxos in commit.Finishers.
type Ender interface {
	// Finish learns what became of the options of o's transaction, which has no anchor: each record decides about its own, and what no acceptor
	// knows is prevented. Then it tells quorums of all records the outcome. known has the verdicts, by keys, of records that are not to be
	// asked, nor told, since their range is sealed; if it is not empty, the others are told later.
	Finish(ctx context.Context, o *core.Option, known map[string]core.Verdict) (committed bool, err error)
}
