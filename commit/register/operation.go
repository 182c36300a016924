package register

import (
	"cmp"
	"slices"

	"meridian/clock"
	"meridian/kv"
)

// Stamper makes the tags of writes without a transaction, one gateway's. Their logical part has its highest bit set and tells
// gateways, and their starts, apart; no clock makes such timestamps, so the tag is nobody else's.
type Stamper struct {
	writer uint32
	last   int64
}

// NewStamper makes a gateway's stamper. start is drawn anew at each start.
func NewStamper(node kv.NodeID, start uint16) *Stamper {
	return &Stamper{writer: 1<<31 | uint32(node)<<16 | uint32(start)}
}

// Stamp is a tag after all that were seen, and not before now.
func (s *Stamper) Stamp(now, seen clock.Timestamp) clock.Timestamp {
	s.last = max(s.last+1, now.Wall, seen.Wall+1)
	return clock.Timestamp{Wall: s.last, Logical: s.writer}
}

// Quorum reports whether the replicas that has is true of are one, by the descriptor of a generation.
type Quorum func(has func(kv.ReplicaID) bool) bool

type phase uint8

const (
	querying phase = iota
	asking
	storing
	promising
	accepting
	resolving
	finished
)

type purpose uint8

const (
	reading purpose = iota
	writing
	proposing
	witnessing
	settling
)

// Operation is a gateway's side of one operation on one register, as a value: Request says what every voter has to be asked now, and
// Answer takes in what one of them replied, until Done. All answers to a request are of one generation of the range; in
// another one Restart asks again.
type Operation struct {
	purpose purpose
	phase   phase
	round   int
	request Request
	answers []answer

	// Of a write: where its tag comes from.
	stamp func(seen clock.Timestamp) clock.Timestamp
	value []byte
	// Of a transaction's write.
	meta kv.TxnMeta
	// Of a Resolve.
	status  kv.Status
	ignored []kv.SeqRange
	// proposer makes the ballots of a Witness its own.
	proposer uint64
	// undecided are provisional writes above the newest version that a read has met, latest first.
	undecided []Decree
	// passed are those whose transactions were not found committed; unsure, that one of them was passed since the last query.
	passed []Instance
	unsure bool
	result Result
}

// Result is what an operation came to.
type Result struct {
	// Version is what a read found.
	Version Version
	// Outcome is the decree's, of Propose and Witness.
	Outcome Outcome
	// TooOld, if not zero, is a tag that Propose found at or above its own; nothing was proposed.
	TooOld clock.Timestamp
	// Refused counts the ballots of Propose and Witness that rivals have overtaken. The gateway waits for a while that it draws
	// before it sends the next one, or two of them could overtake each other for ever.
	Refused int
}

type answer struct {
	from kv.ReplicaID
	r    *Reply
}

// Read reads a register: the newest version at a quorum, which is then stored at a quorum, so that no later read finds less (register.RG2).
func Read(k []byte) *Operation { return begin(&Operation{purpose: reading}, k) }

// WriteOf writes a register, whatever is there: a quorum's tags, then the value with a later tag at a quorum, which stamp gives
// (Stamper.Stamp).
func WriteOf(k, value []byte, stamp func(seen clock.Timestamp) clock.Timestamp) *Operation {
	return begin(&Operation{purpose: writing, value: value, stamp: stamp}, k)
}

// Propose makes a transaction's write provisional: the write has the number meta.Seq, and counts at meta.WriteTimestamp if the
// transaction commits there.
func Propose(k, value []byte, meta *kv.TxnMeta, proposer uint64) *Operation {
	return begin(&Operation{purpose: proposing, value: value, meta: *meta, proposer: proposer}, k)
}

// Witness finds out whether a provisional write is there, and prevents it if not (commit.CR4). proposer is nobody else's.
func Witness(k []byte, meta *kv.TxnMeta, proposer uint64) *Operation {
	o := &Operation{purpose: witnessing, meta: *meta, proposer: proposer}
	o.request.Key = k
	o.promise(1)
	return o
}

// Settle tells a register that a transaction has ended: committed at meta.WriteTimestamp with meta.Attempt, without the
// sequence numbers ignored, or aborted.
func Settle(k []byte, meta *kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) *Operation {
	return begin(&Operation{purpose: settling, meta: *meta, status: status, ignored: ignored}, k)
}

func begin(o *Operation, k []byte) *Operation {
	o.request.Key = k
	o.send(querying, Request{Kind: Query})
	return o
}

func (o *Operation) send(p phase, q Request) {
	q.Key = o.request.Key
	o.phase, o.request = p, q
	o.Restart()
}

// Restart begins the present request again: the answers to it so far are of another generation.
func (o *Operation) Restart() {
	o.round++
	o.answers = o.answers[:0]
}

// Round numbers requests; answers to an earlier one do not count.
func (o *Operation) Round() int { return o.round }

// Request is what every voter is to be asked, nil if nothing.
func (o *Operation) Request() *Request {
	if o.phase == asking || o.phase == finished {
		return nil
	}
	return &o.request
}

// Done reports whether there is a Result.
func (o *Operation) Done() bool { return o.phase == finished }

// Result is what it came to.
func (o *Operation) Result() Result { return o.result }

// Ambiguous reports whether the operation may have taken effect, or may yet, though it is not done: its value has left. Of a WriteOf nobody
// can find out; of a Propose a Witness can, or the transaction's record if the range has got another protocol.
func (o *Operation) Ambiguous() bool {
	return o.phase > asking && (o.purpose == writing || o.purpose == proposing) && o.phase != finished
}

func (o *Operation) finish() { o.phase = finished }

// Answer takes in a reply to the present request.
func (o *Operation) Answer(from kv.ReplicaID, r *Reply, quorum Quorum) {
	if o.Request() == nil {
		return
	}
	at := slices.IndexFunc(o.answers, func(a answer) bool { return a.from == from })
	if at >= 0 {
		return
	}
	if o.phase == promising || o.phase == accepting {
		q := &o.request.Decree
		if r.Decree.Promised != q.Promised || o.phase == accepting && r.Decree.Outcome != q.Outcome {
			o.overtaken(r)
			return
		}
	}
	o.answers = append(o.answers, answer{from, r})
	if !quorum(func(id kv.ReplicaID) bool {
		return slices.ContainsFunc(o.answers, func(a answer) bool { return a.from == id })
	}) {
		return
	}
	switch o.phase {
	case querying:
		o.queried()
	case storing, resolving:
		o.finish()
	case promising:
		o.promised()
	case accepting:
		o.result.Outcome = o.request.Decree.Outcome
		o.finish()
	}
}

func (o *Operation) queried() {
	var newest Version
	var last clock.Timestamp
	var decrees []Decree
	mine := InstanceOf(&o.meta)
	for _, a := range o.answers {
		g := &a.r.Register
		last = last.Forward(g.last(mine)).Forward(a.r.Floor)
		if newest.Compare(&g.Newest) < 0 {
			newest = g.Newest
		}
		for _, d := range g.Decrees {
			if d.Outcome == Written && !slices.ContainsFunc(decrees, func(e Decree) bool { return e.Instance == d.Instance }) {
				decrees = append(decrees, d)
			}
		}
	}
	switch o.purpose {
	case reading:
		o.result.Version = newest
		o.undecided = slices.DeleteFunc(decrees, func(d Decree) bool {
			v := d.Version()
			return v.Compare(&newest) <= 0 || slices.Contains(o.passed, d.Instance)
		})
		slices.SortFunc(o.undecided, func(a, b Decree) int {
			v, w := a.Version(), b.Version()
			return cmp.Or(w.Compare(&v), a.Instance.Compare(b.Instance))
		})
		o.phase = asking
		o.ask()
	case writing:
		o.send(storing, Request{Kind: Store, Version: Version{At: o.stamp(last), Value: o.value}})
	case proposing:
		if !last.Less(o.meta.WriteTimestamp) {
			o.result.TooOld = last
			o.finish()
			return
		}
		o.send(accepting, Request{Kind: Accept, Decree: Decree{Instance: mine, Outcome: Written, Meta: o.meta, Value: o.value}})
	case settling:
		q := Request{Kind: Resolve, Txn: o.meta.ID, Attempt: o.meta.Attempt}
		if o.status == kv.Committed {
			// Also if none of these has the provisional write any more: then one of them has the version, or a later one, and
			// a quorum has to have it before the transaction's record may go (register.RG5).
			q.Version = newest
			if d := committed(decrees, &o.meta, o.ignored); d != nil {
				if v := d.Version(); q.Version.Compare(&v) < 0 {
					q.Version = v
				}
			}
		}
		o.send(resolving, q)
	}
}

// committed is the write that counts of those that a committed transaction made to one register.
func committed(decrees []Decree, meta *kv.TxnMeta, ignored []kv.SeqRange) (last *Decree) {
	for i := range decrees {
		if d := &decrees[i]; counts(d, meta, ignored) && (last == nil || last.Seq < d.Seq) {
			last = d
		}
	}
	return last
}

func counts(d *Decree, meta *kv.TxnMeta, ignored []kv.SeqRange) bool {
	return d.Txn == meta.ID && d.Attempt == meta.Attempt && d.At == meta.WriteTimestamp &&
		!slices.ContainsFunc(ignored, func(s kv.SeqRange) bool { return s.First <= d.Seq && d.Seq <= s.Last })
}

// Asks is the write of a transaction that a read has met, and has to know the state of; nil if there is none.
func (o *Operation) Asks() *Decree {
	if o.phase != asking {
		return nil
	}
	return &o.undecided[0]
}

// Tell answers Asks: how the transaction stands. Staging is no answer: it may have committed.
func (o *Operation) Tell(meta *kv.TxnMeta, status kv.Status, ignored []kv.SeqRange) {
	d := o.undecided[0]
	if status == kv.Committed {
		// Several writes of one transaction to one register have one tag; the last one counts.
		if w := committed(o.undecided, meta, ignored); w != nil && w.At == d.At {
			o.result.Version, o.undecided = w.Version(), nil
			o.ask()
			return
		}
	}
	o.undecided, o.passed, o.unsure = o.undecided[1:], append(o.passed, d.Instance), true
	o.ask()
}

func (o *Operation) ask() {
	switch {
	case len(o.undecided) > 0:
	case o.unsure:
		// register.RG6: a transaction without a record may have committed and been settled since the query. Then a quorum has its version now.
		o.unsure = false
		o.send(querying, Request{Kind: Query})
	case o.result.Version.At.IsZero():
		o.finish()
	default:
		o.send(storing, Request{Kind: Store, Version: o.result.Version})
	}
}

func (o *Operation) promise(round uint64) {
	b := Ballot{round, o.proposer}
	o.send(promising, Request{Kind: Promise, Decree: Decree{Instance: InstanceOf(&o.meta), Promised: b}})
}

func (o *Operation) promised() {
	var accepted *Decree
	for _, a := range o.answers {
		if d := &a.r.Decree; d.Outcome != Open && (accepted == nil || d.outranks(accepted)) {
			accepted = d
		}
	}
	d := Decree{Instance: InstanceOf(&o.meta), Outcome: Prevented}
	switch {
	case accepted != nil:
		d.Outcome, d.Meta, d.Value = accepted.Outcome, accepted.Meta, accepted.Value
	case o.purpose == proposing:
		d.Outcome, d.Meta, d.Value = Written, o.meta, o.value
	}
	d.Promised = o.request.Decree.Promised
	o.send(accepting, Request{Kind: Accept, Decree: d, Generation: o.answers[0].r.Generation})
}

// overtaken: a replica has promised a later ballot to somebody else, or the base has the opposite of a transaction's own proposal. The
// latter, too, is then made in a ballot of its own, and gives way to what was accepted.
func (o *Operation) overtaken(r *Reply) {
	o.result.Refused++
	o.promise(max(r.Decree.Promised.Round, o.request.Decree.Promised.Round) + 1)
}
