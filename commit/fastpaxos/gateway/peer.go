package gateway

import (
	"bytes"
	"context"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// The questions of gateways to each other about a record that several of them want.

// AskKind is what a gateway asks for.
type AskKind uint8

const (
	// Decide asks a record's master for a decision about an option (fastpaxos.FP50).
	Decide AskKind = iota + 1
	// Turn asks for the right to write a record next (fastpaxos.FP52). Answered when it is this one's turn.
	Turn
	// Done gives a turn back, or a place in the line.
	Done
	// Hot says that others want a row that the gateway has written (fastpaxos.FP52).
	Hot
	// Held asks whether a turn is still in use: its keeper has given it some time ago, and others wait.
	Held
	// MarkSpan asks the master of a term for a promise to a reader, for a span or some keys (fastpaxos.FP94). The option is its name, as with Decide.
	MarkSpan
	// Fate asks whether the gateway is at work on a transaction that it has begun.
	Fate
)

// Ask is what a gateway asks another one about a record.
type Ask struct {
	Kind AskKind
	Key  keys.Key
	// End is that of the span that begins with the key, for MarkSpan, or Keys are what is read.
	End  keys.Key
	Keys []keys.Key
	// Option is what is to be decided about. Prevent: its update is not known.
	Option  core.Option
	Prevent bool
	// Mark: a promise to a reader is asked for (Mark.name), not a decision.
	Mark bool
	// Ballot is the latest one that the asking gateway has heard of.
	Ballot core.Ballot
	// Direct says that the record's replicas have not been asked: it is thought to have a master at the asked gateway.
	Direct bool
	// Number names a turn among those of its gateway.
	Number uint64
	// Rival is the node whose transaction was faster, zero if that is not known.
	Rival kv.NodeID
	// At is the version that was committed in a turn which is given back, zero if there is none.
	At clock.Timestamp
}

// Told answers it.
type Told struct {
	// Learned is the decision, Undecided if it takes longer than a gateway waits for another one.
	Learned core.Learned
	// Ballot, if it is not zero, is a later one of a master elsewhere. Its round is zero if only the master's node is known. To MarkSpan it is the one that was asked for, if the promise was made.
	Ballot core.Ballot
	// Open says that the record has no master: a direct petition is to be proposed to its replicas. Yours says that the asking gateway writes the record most, and is to be its master from now on.
	Open, Yours bool
	// Granted answers Turn, Held and Fate: it is the gateway's turn, or it is at work. Waiting: others wait for theirs, or it has to ask again.
	Granted, Waiting bool
	// At is the version that was committed in the turn before, as far as that is known.
	At clock.Timestamp
}

// Append adds the fields of an Ask.
func (q *Ask) Append(b []byte) []byte {
	b = wire.Bytes(wire.Uint(b, 1, uint64(q.Kind)), 2, q.Key)
	b = wire.Bool(core.Nested(b, 3, q.Option.Append), 4, q.Prevent)
	b = wire.Uint(wire.Fixed64(core.Nested(b, 5, q.Ballot.Append), 6, q.Number), 7, uint64(q.Rival))
	b = wire.Bool(wire.Timestamp(wire.Bool(b, 8, q.Mark), 9, q.At), 10, q.Direct)
	b = wire.Bytes(b, 13, q.End)
	for _, k := range q.Keys {
		b = wire.Element(b, 15, k)
	}
	return b
}

func readAsk(r *wire.Reader, q *Ask) {
	for m := r.Open("fastpaxos.Ask"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Kind = AskKind(r.Enum(uint8(Fate)))
		case 2:
			q.Key = keys.Key(r.Bytes())
		case 3:
			core.ReadOption(r, &q.Option)
		case 4:
			q.Prevent = r.Bool()
		case 5:
			core.ReadBallot(r, &q.Ballot)
		case 6:
			q.Number = r.Fixed64()
		case 7:
			q.Rival = kv.NodeID(r.Uint())
		case 8:
			q.Mark = r.Bool()
		case 9:
			q.At = r.Timestamp()
		case 10:
			q.Direct = r.Bool()
		case 13:
			q.End = keys.Key(r.Bytes())
		case 15:
			*wire.Grow(r, &q.Keys) = keys.Key(r.Bytes())
		default:
			r.Skip()
		}
	}
}

// Append adds the fields of an answer.
func (a *Told) Append(b []byte) []byte {
	b = core.Nested(core.Nested(b, 1, a.Learned.Append), 2, a.Ballot.Append)
	b = wire.Timestamp(wire.Bool(wire.Bool(b, 3, a.Granted), 4, a.Waiting), 5, a.At)
	return wire.Bool(wire.Bool(b, 6, a.Open), 8, a.Yours)
}

func readTold(r *wire.Reader, a *Told) {
	for m := r.Open("fastpaxos.Told"); r.Next(&m); {
		switch r.Field() {
		case 1:
			core.ReadLearned(r, &a.Learned)
		case 2:
			core.ReadBallot(r, &a.Ballot)
		case 3:
			a.Granted = r.Bool()
		case 4:
			a.Waiting = r.Bool()
		case 5:
			a.At = r.Timestamp()
		case 6:
			a.Open = r.Bool()
		case 8:
			a.Yours = r.Bool()
		default:
			r.Skip()
		}
	}
}

// patience is for how long a gateway lets another one wait for a decision before it says that there is none yet: so that those who wait know that it is
// alive. Chosen by us: most decisions take two rounds.
const patience = 500 * time.Millisecond

// answers is how long a node's answer may take, zero if the node seems to be lost.
func (c *caller) answers(n kv.NodeID) time.Duration {
	within, silent := c.pace(n)
	if silent {
		return 0
	}
	return within
}

// pace is how long a node's answer may take, and whether it has not given one for longer than that.
func (c *caller) pace(n kv.NodeID) (within time.Duration, silent bool) {
	if p, ok := c.o.Sender.(Pacer); ok {
		return p.Answers(n)
	}
	return roundTime - patience, false
}

var errSilent error = &kv.UnavailableError{Reason: "the node has not answered for some time"}

// ask asks another gateway, which may take some time of its own before it answers. One that does not answer anybody is not asked (fastpaxos.FP75).
func (c *caller) ask(ctx context.Context, to kv.NodeID, takes time.Duration, q *Ask) (*Told, error) {
	within := c.answers(to)
	if within == 0 {
		return nil, errSilent
	}
	ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, takes+within)
	defer cancel()
	b, err := c.o.Peers.Ask(ctx, to, q.Append(nil))
	if err != nil {
		return nil, err
	}
	r, a := wire.Read(bytes.Clone(b)), &Told{}
	readTold(&r, a)
	return a, r.Err()
}
