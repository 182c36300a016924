package core

import (
	"slices"

	"meridian/keys"
	"meridian/kv"
)

// Commit is a gateway's side of a transaction's commit, as a value (algorithm 1): Request says what the acceptors of each record are to be asked,
// Answer takes in what one of them replied, until Outcome is known. The gateway decides nothing: it learns.
type Commit struct {
	Options []Option
	Polls   []Poll
}

// Poll is the state of one option.
type Poll struct {
	Quorums Quorums
	Votes   []ballotVote   // the latest of each acceptor
	silent  []kv.ReplicaID // have not voted, and do not answer in time
	Learned Verdict
	Master  bool
	// Promised is the latest ballot that one of the acceptors has promised.
	Promised Ballot
}

type ballotVote struct {
	from   kv.ReplicaID
	ballot Ballot
	v      Verdict
}

// NewCommit makes the commit of a transaction with one option for each record, whose ranges have such quorums (Restart).
func NewCommit(options []Option, q Quorums) *Commit {
	c := &Commit{Options: options, Polls: make([]Poll, len(options))}
	for i := range c.Polls {
		c.Polls[i].Quorums = q
	}
	return c
}

// Key is the i-th record's. An option with an anchor names no other one than its own.
func (c *Commit) Key(i int) keys.Key {
	o := &c.Options[i]
	if len(o.Keys) == 1 {
		return o.Keys[0]
	}
	return o.Keys[i]
}

// Request is what all acceptors of the i-th record are to be asked.
func (c *Commit) Request(i int) *Request {
	return &Request{Kind: Propose, Key: c.Key(i), Option: c.Options[i]}
}

// Restart forgets what acceptors of the i-th record have said: its range has another generation now, in which its quorums are q. All that was
// learned stays: every generation begins with it (docs/decisions/0009).
func (c *Commit) Restart(i int, q Quorums) {
	p := &c.Polls[i]
	p.Quorums, p.Votes, p.silent, p.Master, p.Promised = q, nil, nil, false, Ballot{}
}

// Learned is what became of the i-th option, as far as it is known.
func (c *Commit) Learned(i int) Verdict { return c.Polls[i].Learned }

// Answer takes in the reply of an acceptor of the i-th record. collided says that its master has to decide now.
func (c *Commit) Answer(i int, from kv.ReplicaID, r *Reply) (collided bool) {
	p := &c.Polls[i]
	if p.Promised.Less(r.Promised) {
		p.Promised = r.Promised
	}
	if p.Learned != Undecided {
		return false
	}
	if r.Outcome == Accepted || r.Outcome == Rejected {
		c.Learn(i, r.Outcome)
		return false
	}
	// Each vote is one for good, in its ballot, whenever the answer comes; an acceptor that is asked again may be in a later ballot.
	vote := ballotVote{from, r.Ballot, r.Verdict}
	if at := slices.IndexFunc(p.Votes, func(v ballotVote) bool { return v.from == from }); at < 0 {
		p.Votes = append(p.Votes, vote)
	} else if old := &p.Votes[at]; !vote.ballot.Less(old.ballot) && (vote.ballot != old.ballot || vote.v != Undecided) {
		*old = vote
	}
	for _, v := range []Verdict{Accepted, Rejected} {
		for _, x := range p.Votes {
			if x.v == v && c.tally(p, x.ballot, v) >= p.Quorums.Fast {
				p.Learned = v
				// A rejected update that commutes has met a bound: the master finds room, or a new base (§3.4.3).
				return v == Rejected && len(c.Options[i].Deltas) > 0
			}
		}
	}
	p.silent = slices.DeleteFunc(p.silent, func(s kv.ReplicaID) bool { return s == from })
	return c.collided(p)
}

// Silent takes in that an acceptor of the i-th record does not answer in time. It may do so later. collided is as Answer's (fastpaxos.FP75).
func (c *Commit) Silent(i int, from kv.ReplicaID) (collided bool) {
	p := &c.Polls[i]
	if p.Learned != Undecided || slices.Contains(p.silent, from) || slices.ContainsFunc(p.Votes, func(v ballotVote) bool { return v.from == from }) {
		return false
	}
	p.silent = append(p.silent, from)
	return c.collided(p)
}

// collided has a master decide if a fast quorum can't agree any more. Nobody waits for the votes of silent acceptors.
func (c *Commit) collided(p *Poll) bool {
	if p.Master || p.Quorums.Replicas-len(p.silent) < p.Quorums.Classic { // the latter: a master could not decide either
		return false
	}
	missing := p.Quorums.Replicas - len(p.Votes) - len(p.silent)
	for _, v := range []Verdict{Accepted, Rejected} {
		if missing >= p.Quorums.Fast {
			return false
		}
		for _, x := range p.Votes {
			if x.v == v && c.tally(p, x.ballot, v)+missing >= p.Quorums.Fast {
				return false
			}
		}
	}
	p.Master = true
	return true
}

// Asked says that the master of the i-th record has to decide, for another reason than Answer finds.
func (c *Commit) Asked(i int) (first bool) {
	p := &c.Polls[i]
	first = !p.Master && p.Learned == Undecided
	p.Master = p.Master || first
	return first
}

func (c *Commit) tally(p *Poll, b Ballot, v Verdict) (n int) {
	for _, x := range p.Votes {
		if x.v == v && x.ballot == b {
			n++
		}
	}
	return n
}

// Learn takes in what a master has decided.
func (c *Commit) Learn(i int, v Verdict) {
	if p := &c.Polls[i]; p.Learned == Undecided && v != Undecided {
		p.Learned = v
	}
}

// Outcome is that of the transaction: Accepted if it has committed, Rejected if it never will.
func (c *Commit) Outcome() Verdict {
	out := Accepted
	for i := range c.Polls {
		switch c.Polls[i].Learned {
		case Rejected, Past:
			return Rejected
		case Undecided:
			out = Undecided
		}
	}
	return out
}
