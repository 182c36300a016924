package rangeserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"meridian/clock"
	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/kv"
	"meridian/replica"
	"meridian/transport"
	"meridian/wire"
)

// The end of a generation of a range whose protocol keeps its data out of the log (docs/ranges.md):
//
//	seal      a command of the log, after which no replica that has applied it acts
//	reports   of a quorum of replicas that have applied it durably: all that they have promised
//	fold      what the base lacks of it is written through the log
//	folded    a command says that the base has all
//	change    the transaction on the descriptor, whose commit begins the next generation
//
// The leaseholder does all of it. Each step can be made again, by it or by the next leaseholder; what was begun and not ended is
// ended by the queue, with a descriptor that changes nothing but the generation.

// MethodReport asks a store for the report of a sealed replica.
const MethodReport = "range.report"

const (
	// protocolTimeout bounds a change of protocol, during most of which the range refuses writes.
	protocolTimeout = 30 * time.Second
	// foldBytes is about how much of a fold goes into one command.
	foldBytes = 1 << 20
	// foldAfter is for how many bytes of promises a range is folded, so that a seal is never far from its end. Chosen by us: what a
	// disk reads and a link ships in some tenths of a second. A fold interrupts the range, so that one that has less is folded once it has had foldSome for so
	// long that this does not count (foldRest).
	foldAfter, foldSome = 64 << 20, 16 << 20
	foldRest            = 10 * time.Minute
	// sealTimeout bounds the end of a generation, during which the range serves nothing: a range is folded long before it has
	// more than can be shipped in it. A change that did not end in time is begun again, perhaps with other nodes.
	sealTimeout = 15 * time.Second
	// settleTimeout bounds the wait of a sealed range for the outcome of the transactions with provisional writes in it. A transaction with
	// writes in two sealed ranges has each of them wait for the other: the change is given up, and the ranges serve again meanwhile.
	settleTimeout = 3 * time.Second
)

// errNoReport says that a replica is not in the state for which its report was asked.
var errNoReport = errors.New("rangeserver: the replica has no report of this generation")

// fold ends the generation of a descriptor: when it returns without an error, the base has all that was acknowledged, no replica acts,
// and the descriptor may change. A range of the leader protocol has nothing to end.
func (s *Store) fold(ctx context.Context, e *entry, d *kv.RangeDescriptor) error {
	return s.end(ctx, e, d, d.Protocol)
}

// end is fold, and, if the range is about to have another protocol next, has the present one decide what is provisional.
func (s *Store) end(ctx context.Context, e *entry, d *kv.RangeDescriptor, next kv.Protocol) error {
	if protocol.Leased(d.Protocol) {
		return nil
	}
	proto, ok := s.o.Protocols[d.Protocol]
	if !ok {
		return s.unknown(d.Protocol)
	}
	g := e.r.Generation()
	if g.Number != d.Generation {
		return &ChangedError{Range: d.ID}
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, sealTimeout)
	defer cancel()
	settles := next != d.Protocol && proto.Settle != nil
	if g.Stage == replica.Folded && !settles {
		return nil
	}
	f, folded, done := s.folding(ctx, e, d)
	defer done()
	if g.Stage != replica.Folded {
		// Replicas report when they have applied the seal: they are asked before that is known to be in the log.
		asked, give := context.WithCancel(ctx)
		defer give()
		reports := s.reports(asked, d)
		if g.Stage == replica.Open {
			s.Metrics.Seals.Add(1)
			if err := e.leader.Advance(ctx, &replica.Step{Generation: g.Number, To: replica.Sealed}); err != nil {
				return err
			}
		}
		var err error
		if f.Reports, err = reports(); err != nil {
			return err
		}
		for i := range f.Reports {
			f.Now = f.Now.Forward(f.Reports[i].Now)
		}
		if err := proto.Fold(ctx, f); err != nil {
			return err
		}
	}
	if settles {
		f.Next, f.Reports = next, nil
		short, cancel := s.o.Host.Clock.WithTimeout(ctx, settleTimeout)
		defer cancel()
		if err := proto.Settle(short, f); err != nil {
			return err
		}
	}
	return folded()
}

// SetProtocol gives a range another commit protocol, while it is served: what the earlier one has acknowledged is there under the next.
// For a moment the range's rows are not served; their clients try again. It returns the range as it is then.
//
// Clients send kv.AdminSetProtocolRequest, which comes here at the leaseholder. A change that did not end in time is
// an UnavailableError, and is asked for again.
func (s *Store) SetProtocol(ctx context.Context, id kv.RangeID, q *kv.AdminSetProtocolRequest) (*kv.RangeDescriptor, error) {
	short, cancel := s.o.Host.Clock.WithTimeout(ctx, protocolTimeout)
	defer cancel()
	d, err := s.setProtocol(short, id, q)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &kv.UnavailableError{Reason: fmt.Sprintf("the range's commit protocol was not changed in time: %v", err)}
	}
	return d, err
}

// reprotocol gives a range the protocol that its configuration asks for. If the range has another span by now, the configuration is asked about all of it (agreed).
func (s *Store) reprotocol(ctx context.Context, id kv.RangeID, of keys.Span, to kv.Protocol) error {
	_, err := s.SetProtocol(ctx, id, &kv.AdminSetProtocolRequest{Key: of.Start, Protocol: to})
	return err
}

// has reports whether this node can serve a protocol.
func (s *Store) has(p kv.Protocol) bool {
	_, ok := s.o.Protocols[p]
	return ok || protocol.Leased(p)
}

func (s *Store) setProtocol(ctx context.Context, id kv.RangeID, q *kv.AdminSetProtocolRequest) (*kv.RangeDescriptor, error) {
	to := q.Protocol
	e, done, err := s.administer(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	d := e.r.Desc()
	if at := keys.Addr(q.Key); !d.Contains(at) { // it was split while the request waited for its turn
		return nil, s.mismatch(e, keys.Span{Start: at})
	}
	if d.Protocol == to {
		return d, nil
	}
	if d.HasWitness() && !protocol.Of(to).Witnesses.Can() {
		return nil, refused("a range with a witness has a log: other commit protocols have none")
	}
	if d.Start.Less(keys.TablePrefix) {
		return nil, &kv.ProtocolRefusedError{Range: id, Protocol: to}
	}
	if !s.has(to) {
		return nil, &kv.ProtocolRefusedError{Range: id, Protocol: to, Node: s.o.NodeID}
	}
	if d, err = s.leaveJoint(ctx, e, d); err != nil { // a change of replicas that was not finished
		return nil, err
	}
	if d, err = s.cut(ctx, e, d, q); err != nil {
		return nil, err
	}
	next := d.Clone()
	next.Protocol = to
	next.Generation++
	use, err := s.useFor(d, next) // before the range is interrupted, perhaps in vain; the change itself is a use of its own
	if err != nil {
		return nil, err
	}
	if use != nil {
		use.Release()
	}
	db, err := s.database()
	if err != nil {
		return nil, err
	}
	// The intents of the transaction are in their ranges before this one is interrupted. Then only its end is left.
	trigger := &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *next}}
	if protocol.Leased(d.Protocol) {
		back := func() {}
		defer func() { back() }()
		left := false
		return next, s.writeDescriptor(ctx, db, d, next, nil, trigger, func(ctx context.Context) (err error) {
			if !left {
				if back, err = e.leader.Leave(ctx); err != nil {
					back = func() {}
				}
				left = err == nil
			}
			return err
		})
	}
	if err := s.writeDescriptor(ctx, db, d, next, nil, trigger, func(ctx context.Context) error {
		return s.end(ctx, e, d, to)
	}); err != nil {
		return nil, s.afterFailed(err, e)
	}
	return next, nil
}

// cut splits from a range what a change of its protocol does not concern (kv.AdminSetProtocolRequest.Within), and returns the part that has
// the request's key. If that is another range from then on, the sender is told, and asks it.
func (s *Store) cut(ctx context.Context, e *entry, d *kv.RangeDescriptor, q *kv.AdminSetProtocolRequest) (*kv.RangeDescriptor, error) {
	w := q.Within
	if len(w.Start) == 0 && len(w.End) == 0 {
		return d, nil
	}
	if !w.Contains(q.Key) {
		return nil, refused("a change of protocol has to be within what has the key")
	}
	keep := s.o.Clock.Now().Add(2 * protocolTimeout) // the parts have different protocols by then, if anybody still wants that
	if d.Start.Less(w.Start) {
		if _, err := s.splitAt(ctx, d, w.Start, keep); err != nil {
			return nil, err
		}
		return nil, s.mismatch(e, keys.Span{Start: q.Key})
	}
	if w.Stop().Less(d.End) {
		return s.splitAt(ctx, d, w.Stop(), keep)
	}
	return d, nil
}

// folding is the argument of a fold, and of what comes after it. folded says that all was given to Write: the last command has the last rows, and makes the base complete. done is to be
// called in the end.
func (s *Store) folding(ctx context.Context, e *entry, d *kv.RangeDescriptor) (f *Folding, folded func() error, done func()) {
	var last []replica.Row // not sent yet
	var floor clock.Timestamp
	seen := s.o.Engine.NewIndexedBatch() // the base with them
	f = &Folding{Desc: d, Generation: d.Generation, Base: seen, Sender: s.o.Sender, Now: s.o.Clock.Now()}
	send := func(rows []replica.Row) error {
		return e.leader.Advance(ctx, &replica.Step{Generation: d.Generation, To: replica.Folded, Rows: rows, Floor: floor})
	}
	f.Write = func(rows []replica.Row) error {
		for i := range rows {
			f.Now = f.Now.Forward(rows[i].Timestamp) // the floor is above all that was written
			if t := rows[i].Txn; t != nil {
				f.Now = f.Now.Forward(t.WriteTimestamp)
			}
		}
		if _, err := replica.FoldRows(seen, seen, d, rows); err != nil {
			return err
		}
		last = append(last, rows...)
		for n := inCommand(last); n < len(last); n = inCommand(last) {
			if err := send(last[:n]); err != nil {
				return err
			}
			last = last[n:]
		}
		return nil
	}
	folded = func() error {
		floor = f.Now
		err := send(last)
		last, floor = nil, clock.Timestamp{}
		return err
	}
	f.Durable = folded
	return f, folded, func() { _ = seen.Close() }
}

// inCommand is how many of a fold's rows the next command has.
func inCommand(rows []replica.Row) (n int) {
	for bytes := 0; n < len(rows) && (n == 0 || bytes < foldBytes || together(&rows[n-1], &rows[n])); n++ {
		bytes += len(rows[n].Key) + len(rows[n].Value) + 64
	}
	return n
}

// together reports whether b is a protocol key next to a.
func together(a, b *replica.Row) bool {
	at, _, err := keys.DecodeProtocolKey(b.Key)
	return err == nil && at.Equal(a.Key)
}

func (s *Store) unknown(p kv.Protocol) error {
	return &kv.UnavailableError{Reason: fmt.Sprintf("node %d does not know the commit protocol of the range: %s", s.o.NodeID, p)}
}

// reopen begins a generation after one that was ended for a change that did not come.
func (s *Store) reopen(ctx context.Context, e *entry) error {
	d := e.r.Desc()
	if d == nil || !s.ended(e) {
		return nil
	}
	s.Metrics.Reopened.Add(1)
	return s.renew(ctx, e, d)
}

// renew begins a generation that differs from the present one in its number alone. If the range is between two configurations of voters, it leaves the first of them on the way: it can't stay between
// them (replica.EvaluateTrigger), and as long as its generation is over nobody else looks after that.
func (s *Store) renew(ctx context.Context, e *entry, d *kv.RangeDescriptor) error {
	db, err := s.database()
	if err != nil {
		return err
	}
	if err := s.fold(ctx, e, d); err != nil {
		return err
	}
	next := settled(d)
	next.Generation++
	return s.writeDescriptor(ctx, db, d, next, nil, &kv.CommitTrigger{Replicas: &kv.ReplicasTrigger{Desc: *next}}, nil)
}

// ended reports whether a range's generation is over and no other has begun.
func (s *Store) ended(e *entry) bool {
	d := e.r.Desc()
	return !protocol.Leased(d.Protocol) && e.r.Generation().Stage != replica.Open
}

// considerFold looks after a range whose lease is here and whose protocol is not the leader's: it ends what a change, or its
// leaseholder, has left half done, and folds when much has been promised.
func (s *Store) considerFold(ctx context.Context, e *entry) bool {
	v := e.serving.Load()
	if v == nil || v.p == nil || len(e.admin) > 0 || !s.ended(e) && !v.g.large() {
		return false
	}
	if !e.folding.CompareAndSwap(false, true) {
		return true
	}
	// It has a place of its own, and is not put off after a failure as other changes are: the range serves nothing meanwhile.
	select {
	case s.queues.folds <- struct{}{}:
	default:
		e.folding.Store(false)
		return true
	}
	if !s.group.Go(func(ctx context.Context) {
		defer func() { <-s.queues.folds; e.folding.Store(false) }()
		ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, 2*sealTimeout)
		defer cancel()
		if err := s.foldAgain(ctx, e, v.g); err != nil && ctx.Err() == nil {
			s.log.Info("range not folded", "range", uint64(e.r.RangeID()), "err", err)
		}
	}) {
		<-s.queues.folds
		e.folding.Store(false)
	}
	return true
}

// considerAbsorb has the delta of a range whose protocol is not the leader's made smaller, while it is served.
func (s *Store) considerAbsorb(e *entry) {
	v := e.serving.Load()
	if v == nil || v.p == nil || e.r.Generation().Stage != replica.Open {
		return
	}
	a, ok := v.p.(Absorber)
	if !ok || !e.absorbs.CompareAndSwap(false, true) {
		return
	}
	if !s.group.Go(func(ctx context.Context) {
		defer e.absorbs.Store(false)
		ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, sealTimeout)
		defer cancel()
		if err := s.absorb(ctx, e, a); err != nil && ctx.Err() == nil && !changing(err) {
			s.log.Info("range does not absorb what is final", "range", uint64(e.r.RangeID()), "err", err)
		}
	}) {
		e.absorbs.Store(false)
	}
}

// changing reports whether an error says that a generation, or a lease, has ended.
func changing(err error) bool {
	var generation *kv.GenerationError
	var step *replica.StepError
	var lease *kv.NotLeaseholderError
	return errors.As(err, &generation) || errors.As(err, &step) || errors.As(err, &lease)
}

func (s *Store) absorb(ctx context.Context, e *entry, a Absorber) error {
	n := e.r.Generation().Number
	if err := a.Tend(n); err != nil {
		return err
	}
	for {
		if _, ok := e.r.CheckLease(clock.Timestamp{}); !ok {
			return nil
		}
		rows, err := a.Final(n, foldBytes)
		if err != nil || len(rows) == 0 {
			return err
		}
		if err := e.leader.Advance(ctx, &replica.Step{Generation: n, To: replica.Open, Rows: rows}); err != nil {
			return err
		}
		s.Metrics.Absorbed.Add(int64(len(rows)))
		if err := a.Absorbed(n, rows); err != nil {
			return err
		}
	}
}

// large reports whether a delta is to be folded.
func (g *Range) large() bool {
	n, now := g.promised.Load(), int64(g.s.o.Clock.Physical().Monotonic())
	return n >= foldAfter || n >= foldSome && now-g.opened.Load() >= int64(foldRest)
}

// foldAgain begins another generation if one is over, or has much in its delta.
func (s *Store) foldAgain(ctx context.Context, e *entry, g *Range) error {
	e, done, err := s.administer(ctx, e.r.RangeID())
	if err != nil {
		return err
	}
	defer done()
	switch {
	case s.ended(e):
		return s.reopen(ctx, e)
	case !g.large():
		return nil
	}
	s.Metrics.Folded.Add(1)
	if err := s.renew(ctx, e, e.r.Desc()); err != nil {
		return s.afterFailed(err, e)
	}
	return nil
}

// reports asks all of a range's voters for theirs. wait returns those of a quorum.
func (s *Store) reports(ctx context.Context, d *kv.RangeDescriptor) (wait func() ([]Report, error)) {
	type result struct {
		r   Report
		err error
	}
	results, asked := make(chan result, len(d.Replicas)), 0
	for _, r := range d.Replicas {
		if !r.Type.Votes() {
			continue
		}
		asked++
		if !s.group.Go(func(context.Context) {
			one, err := s.reportOf(ctx, d.ID, r, d.Generation)
			results <- result{one, err}
		}) {
			results <- result{err: &kv.UnavailableError{Reason: "the node is stopping"}}
		}
	}
	return func() (out []Report, err error) {
		heard := make(map[kv.ReplicaID]bool, asked)
		for range asked {
			got := <-results
			if got.err != nil {
				err = got.err
				continue
			}
			out = append(out, got.r)
			heard[got.r.From.Replica] = true
			if d.Quorum(func(r *kv.ReplicaDescriptor) bool { return heard[r.Replica] }) {
				return out, nil
			}
		}
		return nil, &kv.UnavailableError{Reason: fmt.Sprintf("no quorum of the range's replicas reports what it has promised: %v", err)}
	}
}

// reportPart is a piece of a report, which is the protocol's, or the reporter's clock, which ends it. All of it has to be understood: what
// the next generation begins with follows from it.
type reportPart struct {
	piece []byte
	now   clock.Timestamp
	// store is the reporter's: that its replica acts in the generation no more is a promise (fence.FE5).
	store kv.StorePosition
}

func (p *reportPart) fields(c *wire.Coder) {
	c.Message("rangeserver.ReportPart", wire.Refuses)
	c.Bytes(1, &p.piece)
	c.Timestamp(3, &p.now)
	wire.Some(c, 5, &p.store, (*kv.StorePosition).Fields)
}

// reportOf asks one replica for its report, and waits until it has applied the seal.
func (s *Store) reportOf(ctx context.Context, id kv.RangeID, r kv.ReplicaDescriptor, generation uint64) (Report, error) {
	out := Report{From: r}
	if r.Node == s.o.NodeID {
		now, err := s.report(ctx, id, r.Replica, generation, func(piece []byte) error {
			out.Pieces = append(out.Pieces, append([]byte(nil), piece...))
			return nil
		})
		out.Now = now
		return out, err
	}
	if s.o.Network == nil {
		return out, errors.New("rangeserver: no network")
	}
	stream, err := s.o.Network.OpenStreamClass(ctx, transport.ClassSystem, r.Node, MethodReport)
	if err != nil {
		return out, err
	}
	if err := stream.Send(wire.Append(nil, &progressRequest{id, r.Replica, generation}, (*progressRequest).fields)); err != nil {
		return out, err
	}
	for {
		b, err := stream.Recv()
		if err != nil {
			return out, err
		}
		part, err := wire.Decoded(b, (*reportPart).fields)
		if err != nil {
			return out, err
		}
		if part.piece != nil {
			out.Pieces = append(out.Pieces, part.piece)
		}
		if !part.now.IsZero() {
			out.Now = part.now
			return out, s.credit(r.Node, part.store)
		}
	}
}

// serveReport answers reportOf.
func (s *Store) serveReport(ctx context.Context, from kv.NodeID, stream transport.Stream) error {
	q, err := receiveProgressRequest(stream)
	if q == nil {
		return err
	}
	ctx, cancel := s.o.Host.Clock.WithTimeout(ctx, sealTimeout)
	defer cancel()
	now, err := s.report(ctx, q.id, q.replica, q.upTo, func(piece []byte) error {
		return stream.Send(wire.Element(nil, 1, piece))
	})
	if err != nil {
		return err
	}
	at, err := s.standing(q.id)
	if err != nil {
		return err
	}
	return stream.Send(wire.Append(nil, &reportPart{now: now, store: at}, (*reportPart).fields))
}

// report gives what a replica here has promised in a generation, once the seal of it is applied and durable: after a crash, a
// replica whose disk had lost the seal would act in the generation again (replica.R9). It returns the node's clock.
func (s *Store) report(ctx context.Context, id kv.RangeID, rid kv.ReplicaID, generation uint64, send func([]byte) error) (now clock.Timestamp, err error) {
	var e *entry
	sealed := func() bool {
		g := e.r.Generation()
		return g.Number == generation && g.Stage != replica.Open
	}
	for {
		if e = s.entry(id); e == nil || e.r.ReplicaID() != rid || e.r.Gone() || e.r.Barred() || !e.ready.Load() {
			return now, &kv.RangeNotFoundError{Range: id}
		}
		if sealed() {
			break
		}
		if e.r.Generation().Number > generation {
			return now, errNoReport
		}
		e.r.Wake()
		if err := s.o.Clock.Physical().Sleep(ctx, appliedPause); err != nil {
			return now, err
		}
	}
	if err := s.makeDurable(); err != nil {
		return now, err
	}
	v := e.serving.Load()
	if v == nil || v.p == nil {
		return now, errNoReport
	}
	now = s.o.Clock.Now()
	served, err := v.p.Report(ctx, generation, send)
	if err != nil {
		return now, err
	}
	now = now.Forward(served)
	if !sealed() { // the next generation has begun, and with it what was reported may have been removed on the way
		return now, errNoReport
	}
	return now, nil
}

// makeDurable returns when all that is in the engine is on the disk.
func (s *Store) makeDurable() error {
	b := s.o.Engine.NewBatch()
	defer b.Close()
	b.Put(keys.StoreKey("applied"), nil)
	return b.Commit(true)
}

// recall answers what a range keeps of the time when it had another protocol, or what it has come to at the end of a generation: once that is folded, what the base says of it is
// final, and what the base does not know is prevented by the floor of the next one. The leaseholder has applied the change, if anybody was told of it under this lease or an
// earlier one, except for a moment in which it still has the earlier protocol.
func (s *Store) recall(ctx context.Context, e *entry, q *kv.AdminRecallRequest) ([]byte, error) {
	if _, err := e.r.EnsureLease(ctx, clock.Timestamp{}); err != nil {
		return nil, err
	}
	proto, ok := s.o.Protocols[q.Protocol]
	if !ok || proto.Recall == nil {
		return nil, refused("nobody is asked about the protocol " + q.Protocol.String())
	}
	begun := s.o.Clock.Physical().Monotonic()
	for {
		d, g := e.r.Desc(), e.r.Generation()
		switch {
		case !d.Contains(q.Key):
			return nil, s.mismatch(e, keys.Span{Start: q.Key})
		case d.Protocol != q.Protocol:
			return s.recallFrom(proto, q, nil)
		case g.Number != d.Generation: // it has just changed
		case g.Stage == replica.Folded:
			return s.recallFrom(proto, q, func(upTo clock.Timestamp) error {
				if upTo.LessEq(g.Floor) {
					return nil
				}
				return e.leader.Advance(ctx, &replica.Step{Generation: g.Number, To: replica.Folded, Floor: upTo})
			})
		case g.Stage == replica.Open || s.o.Clock.Physical().Monotonic()-begun > sealTimeout:
			return nil, &kv.ProtocolError{Range: d.ID, Protocol: d.Protocol, Desc: d}
		}
		if err := s.o.Clock.Physical().Sleep(ctx, appliedPause); err != nil {
			return nil, err
		}
	}
}

// recallFrom answers recall by a range's base. raise, if not nil, sees to it that no later generation accepts what the base does not know up to a timestamp.
func (s *Store) recallFrom(proto Protocol, q *kv.AdminRecallRequest, raise func(clock.Timestamp) error) ([]byte, error) {
	state := s.o.Engine.NewSnapshot()
	defer state.Close()
	body, upTo, err := proto.Recall(state, q.Body)
	if err == nil && raise != nil {
		err = raise(upTo)
	}
	return body, err
}
