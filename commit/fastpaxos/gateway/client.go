package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// Client is a gateway's half of the protocol: it drives commits and masters, reads, and finishes what other gateways have left.
//
//	fastpaxos.FP20 (I4): No two options have the same timestamp: a gateway's are told from others' by their logical part, and each is later than
//	    the one before. An option is after all that it replaces. (The options of a transaction that other protocols take part in have its timestamp,
//	    which two gateways could draw.)
//	fastpaxos.FP21 (I1): The answers of acceptors count within one generation of a range; a gateway begins again in the next one, and asks with the same
//	    options. All that was learned stays, because the next generation begins with it. So it does not matter which
//	    gateway is a record's master, or for how long: any two of them have different ballots, and a master that is gone is
//	    replaced by the next gateway that meets the record.
//	fastpaxos.FP22 (read your writes): Until all replicas have a physical update that a gateway has committed, the gateway reads it from its own memory
//	    instead of an earlier version at the nearest replica. A version that it was refused for, and had not read, it reads too; and it sees to it that
//	    replicas which miss that for more than a second get it. Its memory counts as it was before the replica was asked.
//	fastpaxos.FP23 (I2): A gateway that finishes a transaction has each of its options learned, by masters that reject what no acceptor knows. It has
//	    committed if all were accepted. A record that knows the transaction's end decides that by itself; a range that has another protocol
//	    has none of its options, and had them ended elsewhere before. Only transactions older than commit.Expiry are finished by
//	    others, so that this is not how gateways compete.
//	fastpaxos.FP24 (no lost update): An option replaces the state in which its transaction has first read the row.
//	fastpaxos.FP25 (I2): A gateway says "committed" when all options were learned as accepted, "refused" when one was learned as rejected, and
//	    that it does not know in all other cases. A transaction that it gives up at is finished, so that nobody has to wait for it.
//	fastpaxos.FP68 (I1): A request of a master counts in the generation for which it was made, and nowhere else: its promises are of that one's acceptors, and
//	    the next one has begun with a state that may know more.
//	fastpaxos.FP75 (liveness): No proposal waits for a late replica or gateway, which is one that takes longer to answer than others of its answers have
//	    taken. If no fast quorum can agree on a record without late replicas, a master decides about the option. Lateness is a matter of pace only: an
//	    answer that comes later counts as any other.
//	fastpaxos.FP50 (I2): A petition, an option that one gateway asks another one's master about, is decided as if that one's own gateway had asked: by
//	    the record's state, and with a sequence that a classic quorum accepts. So it may arrive twice, late, or at several masters. A gateway that
//	    has lost a record to a later ballot asks its master, which the ballot names, and rules by itself only if that does not answer.
//	fastpaxos.FP51 (I2): The state that a master has proposed in a ballot is learned when a classic quorum reports that it has accepted it in that ballot, whoever
//	    hears these reports. It stays so: a gateway that remembers a state that was accepted answers petitions by it, whoever has the record now.
//	fastpaxos.FP60 (I3): A replica that answers a read at a timestamp promises (Mark) that no option at or below it is accepted there any more, but the reader's own. A read has
//	    such promises of so many replicas of one generation that each option which a fast quorum has accepted, or of which a master could believe that one has,
//	    was accepted by one of them before (Quorums.Reading: two of three, four of five). They name it, and the reader waits for its
//	    outcome, or brings it about. So nothing comes to be at or below the timestamp afterwards. Promises are in memory: a replica's clock is past each of them, so
//	    the floor of the next generation is above them, and all that an earlier process of a node may have promised is below StartedAt. An option that came too late is
//	    rejected with the timestamp, and its gateway proposes again at a later one: nobody fails because of readers.
//	fastpaxos.FP61 (I3): A replica's promise binds masters by their Prepare. So it does not count for a record that has a master at the time (PastRow.Busy): that one is
//	    asked for the promise, and it is made when a classic quorum has accepted the state with it (Record.Mark), as an option is learned.
//	    This also reads rows by their keys where only a classic quorum of replicas answers.
//	fastpaxos.FP62 (I3): The answer of a replica about a row at a timestamp has all options up to it that it has accepted: as outstanding, or executed and not yet replaced by then, or as known to be aborted. Earlier
//	    states of a row are kept in memory (era) for a minute, and for as long as transactions of the cluster read at a timestamp that was less than a minute old when the replica heard of them, and only while that
//	    holds, over generations too (fastpaxos.FP97); a replica that does not know says so (PastRow.Old, Looked.Old), and does not count. A key of which a scan finds nothing at some replicas, and something at others, is asked for by itself: it may be deleted at the former.
//	fastpaxos.FP63 (I3): A serializable transaction reads and writes at its commit timestamp. Before it proposes anything it reads again, at that timestamp, what it has read, with the promises of fastpaxos.FP60, and is
//	    refused if something has changed. A row that one of its physical options replaces need not be read again: the option is accepted only if the row has not changed. So the
//	    order of timestamps is the order of serializable transactions; of two with the same one, the promise of one excludes the other's option. No option outlives its
//	    gateway without its reads having been validated, so whoever finishes the transaction need not know of them.
//	fastpaxos.FP89 (I3): A serializable transaction whose reads are at a timestamp that its gateway has drawn for it (fastpaxos.FP20) may propose physical options at that timestamp, without reading again: what it has read has changed at no
//	    later moment up to it. By fastpaxos.FP60 replicas accept options at a promised timestamp from the reader's own transaction, and from no other one, and no other has the timestamp. An option that comes too late for another
//	    reader is proposed again at the present, as in fastpaxos.FP63. It does so only for a second: the age of an option is that of its timestamp to those who ask whether its gateway is at work, and to those who forget outcomes (fastpaxos.FP6).
type Client struct {
	*caller
	*masters
	*written
	*announcer
	*turns
	*fates
	*finisher
	*reader

	mu sync.Mutex // guards the fields below; nothing is taken after it
	// writer is the logical part of this gateway's timestamps, zero before the first one; last is the wall part of the latest.
	writer uint32
	last   int64
}

// NewClient makes a gateway.
func NewClient(o ClientOptions) *Client {
	if o.Columns == nil {
		o.Columns = noColumns{}
	}
	by, own, f := &caller{o}, newWritten(), newFates()
	c := &Client{caller: by, masters: newMasters(by), written: own, announcer: &announcer{caller: by, written: own}, fates: f}
	c.finisher = newFinisher(by, c.masters, c.announcer, f)
	c.reader = &reader{caller: by, masters: c.masters, written: own, finisher: c.finisher, unreached: map[kv.RangeID]time.Duration{}}
	c.turns = newTurns(by, c.read)
	return c
}

// stamp draws a commit timestamp after all that were seen (fastpaxos.FP20).
func (c *Client) stamp(seen clock.Timestamp) clock.Timestamp {
	now := c.o.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writer == 0 {
		c.writer = 1<<31 | uint32(c.o.NodeID())<<16 | uint32(uint16(c.o.Host.Dice.Uint64())) // another one after each start
	}
	c.last = max(c.last+1, now.Wall, seen.Wall+1)
	at := clock.Timestamp{Wall: c.last, Logical: c.writer}
	if now.Less(at) {
		_ = c.o.Clock.Update(at) // the messages with the proposals carry a reading that is not before them (fastpaxos.FP87); a clock that refuses is beyond its bound
	}
	return at
}

// ended makes the outcome of this gateway's transaction known to the replicas, in the background. Until all have it, the gateway reads what it has
// committed from what it remembers. A commuting update is on top of what the replicas have, so one that is read from is shown it first.
func (c *Client) ended(options []core.Option, ks []keys.Key, committed bool) {
	within := time.Duration(0)
	c.fates.decided(options[0].Name, committed, c.o.Host.Clock.Monotonic())
	if committed {
		if c.quiet(ks) {
			within = ridesWithin // nobody waits, as far as is known
		}
		c.written.committed(options, ks)
	}
	e := &ending{committed: committed, qs: make([]*core.Request, len(options))}
	for i := range options {
		e.qs[i] = end(ks[i], options[i], committed)
	}
	c.announce(e, within)
}

// Serve answers what another node's gateway asks.
func (c *Client) Serve(ctx context.Context, from kv.NodeID, msg []byte) ([]byte, error) {
	r, q := wire.Read(bytes.Clone(msg)), &Ask{}
	readAsk(&r, q)
	if err := r.Err(); err != nil {
		return nil, err
	}
	var out Told
	var err error
	switch q.Kind {
	case Decide:
		ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, patience)
		defer cancel()
		if to := c.handedTo(q.Key); to != 0 && to != from {
			out.Ballot = core.Ballot{Master: uint64(to)}
			break
		}
		var lost *lostError
		var open *openError
		out.Learned, err = c.ruleHere(ctx, q.Key, &petition{o: q.Option, prevent: q.Prevent, mark: q.Mark, direct: q.Direct, from: from}, q.Ballot)
		switch {
		case err == nil:
			out.Ballot, out.Yours = c.handOver(q.Key, from)
		case errors.As(err, &open):
			out.Open, err = true, nil
		case errors.As(err, &lost):
			out.Ballot, err = lost.to, nil
		case err != nil && ctx.Err() != nil:
			err = nil // it has nobody's decision yet
		}
	case Turn:
		out = c.keep(ctx, from, q)
	case Done:
		c.givenBack(from, q)
	case Hot:
		c.heat(q.Key)
	case Held:
		out.Granted = c.holds(from, q)
	case MarkSpan:
		ctx, cancel := c.o.Host.Clock.WithTimeout(ctx, patience)
		defer cancel()
		var ok bool
		m := core.MarkOf(q.Option.Name)
		if ok, err = c.markSpan(ctx, &core.Look{Keys: q.Keys, Span: keys.Span{Start: q.Key, End: q.End}, At: m.At, By: m.By}, q.Ballot); ok {
			out.Ballot = q.Ballot
		}
	case Fate:
		switch c.fateHere(q.Option.Name) {
		case working:
			out.Granted = true
		case won:
			out.Learned.Verdict = core.Accepted
		case lost:
			out.Learned.Verdict = core.Rejected
		}
	default:
		err = fmt.Errorf("fastpaxos: a gateway asks for something unknown (%d)", q.Kind)
	}
	return out.Append(nil), err
}
