package replica

import (
	"sync"
	"time"

	"meridian/clock"
	"meridian/kv"
	"meridian/version"
	"meridian/wire"
)

// A transaction that commits in one range leaves no record (commit.CR1), so a gateway that has lost the answer can't learn the outcome from one. The command says which transactions it commits, and the
// replicas remember the last ones, in memory: the leaseholder that follows one that has died can tell.
//
//	replica.R13 (I2): a range says that it remembers all commits of a transaction only if its replica has applied, with memory, every command that could have committed it. A replica begins to remember
//	    at a moment; a transaction whose first timestamp is later than any clock showed then has begun afterwards, so no earlier command can be its own. A commit that
//	    is forgotten is at its transaction's first timestamp or above; so a transaction whose first timestamp is above those of all forgotten commits is none of these. Commands of an earlier
//	    binary don't say what they commit, so nothing counts before the cluster acts by version.RememberedCommits.

// Bounds of Commits.
const (
	// minCommits are remembered at least, and maxCommits at most: 40 bytes each.
	minCommits, maxCommits = 16, 1024
	// commitsFor is the age at which a commit gives its place to a later one though there could be more places: gateways ask within seconds.
	commitsFor = 10 * time.Second
)

// Commit is a transaction's commit.
type Commit struct {
	ID kv.TxnID
	At clock.Timestamp
}

func (x *Commit) fields(c *wire.Coder) {
	c.Message("replica.Commit", wire.Skips)
	wire.UUID(c, 1, &x.ID)
	c.Timestamp(3, &x.At)
}

// Commits are the last commits of a range, as one replica has applied them (replica.R13). The zero value remembers what is added, and knows of nothing before.
type Commits struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	last []Commit   // a ring, of which next is the oldest
	next int
	// since is above the first timestamps of transactions whose commits may not be there; zero: nothing is known.
	since clock.Timestamp
}

// Begin says that commands up to now may be missing, where latest is above all that a node's clock may show now.
func (c *Commits) Begin(latest clock.Timestamp) {
	c.mu.Lock()
	c.since = c.since.Forward(latest)
	c.mu.Unlock()
}

// Add remembers commits.
func (c *Commits) Add(list []Commit) {
	c.mu.Lock()
	for _, x := range list {
		c.add(x)
	}
	c.mu.Unlock()
}

func (c *Commits) add(x Commit) {
	n := len(c.last)
	if n < cap(c.last) {
		c.last = append(c.last, x) // next is zero
		return
	}
	if n < minCommits || n < maxCommits && x.At.Less(c.last[c.next].At.Add(commitsFor)) {
		grown := make([]Commit, 0, max(minCommits, min(2*n, maxCommits)))
		grown = append(append(grown, c.last[c.next:]...), c.last[:c.next]...)
		c.last, c.next = append(grown, x), 0
		return
	}
	if !c.since.IsZero() {
		c.since = c.since.Forward(c.last[c.next].At)
	}
	c.last[c.next] = x
	if c.next++; c.next == n {
		c.next = 0
	}
}

// Of is the timestamp of a transaction's commit, zero if there is none; remembers says that there would be, had a command that was applied committed the transaction, whose
// first timestamp is given.
func (c *Commits) Of(id kv.TxnID, first clock.Timestamp) (at clock.Timestamp, remembers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.last {
		if c.last[i].ID == id {
			return c.last[i].At, true
		}
	}
	return at, !c.since.IsZero() && c.since.Less(first)
}

// CommitOf is what the replica remembers of a transaction's commit, see Commits.Of.
func (r *Replica) CommitOf(id kv.TxnID, first clock.Timestamp) (at clock.Timestamp, remembers bool) {
	return r.commits.Of(id, first)
}

// forgets says that the replica has not applied, or not remembered, all commands up to now.
func (r *Replica) forgets() {
	if r.o.Version.Active(version.RememberedCommits) {
		r.remembers = true
		r.commits.Begin(r.o.Clock.Read().Latest)
	}
}

// remember takes in the commits of a command that is applied.
func (r *Replica) remember(list []Commit) {
	if !r.remembers {
		r.forgets() // the cluster may act by the version since
	}
	r.commits.Add(list)
}
