package route

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/transport"
	"meridian/wire"
)

// MethodAll is the name under which nodes serve several batches in one message, of ranges whose protocols ask all voters. Only a node that acts by
// version.FastPaxos sends one.
const MethodAll = "kv.batches"

// stragglers is how long the calls to replicas that have not answered are kept when their caller has enough answers, so that the batch
// reaches them if possible.
const stragglers = 2 * time.Second

// Fan is batches for all voters of their ranges.
type Fan struct {
	// Batches lie in one range each.
	Batches []*kv.Batch
	// Answer is called with the answers to a batch as they come, one at a time, until it has enough of all. An answer without a descriptor says why
	// nobody was asked; ErrLate, once, that a replica takes longer than it should, by what was measured, so that its answer need not be hoped for.
	Answer func(batch int, a Answer) (more bool)
	// Wake, if not nil, is another reason to ask More.
	Wake <-chan struct{}
	More func() bool
	// Late, if not nil, is called with the answers after that, which come soon, and then Ended, whatever happened. Their goroutine may be another one; nobody
	// else is called at the same time.
	Late  func(batch int, a Answer)
	Ended func()
}

// Each sends a batch, whose keys have to be in one range, to every voter of the range in parallel, including those that leave or join by a
// change of replicas in progress. It calls f with the answers as they come, one at a time, until f has enough, or all have answered. An
// error says that nothing was sent, or that the context ended before f had enough. A replica that takes longer than it should, by what was measured, is reported as late once, so that f need
// not hope for its answer.
func (s *Sender) Each(ctx context.Context, b *kv.Batch, f func(Answer) (more bool)) error {
	if len(b.Requests) == 0 {
		s.metrics.Batches.Add(1)
		return nil
	}
	var nobody error
	err := s.All(ctx, &Fan{Batches: []*kv.Batch{b}, Answer: func(_ int, a Answer) bool {
		if a.Desc == nil {
			nobody = a.Err
			return false
		}
		return f(a)
	}})
	if err == nil {
		err = nobody
	}
	return err
}

// asking is a batch for one replica.
type asking struct {
	batch   int
	e       *entry
	to      kv.ReplicaDescriptor
	b       *kv.Batch
	ctx     context.Context
	answers chan<- fanAnswer
}

func (a *asking) give(r *kv.BatchResponse, err error) {
	a.answers <- fanAnswer{a.batch, Answer{Desc: a.e.desc, From: a.to, Resp: r, Err: err}}
}

// carrier gathers the batches for one node that several callers send at the same moment.
type carrier struct {
	mu      sync.Mutex // guards the fields below; nothing is taken after it
	waiting []asking
	leaves  bool // a goroutine takes them with it
}

type fanAnswer struct {
	batch int
	Answer
}

// late says from when on a replica's answer is late.
type late struct {
	at    time.Duration
	batch int
	from  kv.ReplicaDescriptor
}

// All sends batches to every voter of their ranges, as Each does one. A node gets all that is for its replicas in one message, and answers when all
// of it is carried out. An error says that the context ended before the caller had enough.
func (s *Sender) All(ctx context.Context, f *Fan) error {
	s.metrics.Batches.Add(int64(len(f.Batches)))
	entries := make([]*entry, len(f.Batches))
	var early []fanAnswer
	var nodes []kv.NodeID
	var asked [][]asking // by node
	var due []late
	var dueAt []time.Duration // by node
	n, begun := 0, s.o.Host.Clock.Monotonic()
	for i, b := range f.Batches {
		e, err := s.single(ctx, b)
		switch {
		case err != nil:
			early = append(early, fanAnswer{i, Answer{Err: err}})
			continue
		case e == nil:
			span := b.Requests[0].Span()
			out := &kv.RangeMismatchError{Span: span}
			if at := s.cache.find(keys.Addr(span.Start)); at != nil {
				out.Infos = []kv.RangeInfo{{Desc: *at.desc.Clone()}}
			}
			early = append(early, fanAnswer{i, Answer{Err: out}})
			continue
		}
		entries[i] = e
		for _, r := range e.desc.Replicas {
			if !r.Type.Votes() {
				continue
			}
			n++
			one := &kv.Batch{Header: b.Header, Requests: b.Requests}
			one.RangeID, one.Generation, one.Gateway, one.Target = e.desc.ID, e.desc.Generation, s.o.NodeID(), kv.ToReplica(r.Replica)
			at := slices.Index(nodes, r.Node)
			if at < 0 {
				at, nodes, asked = len(nodes), append(nodes, r.Node), append(asked, nil)
				dueAt = append(dueAt, s.sent(r.Node, begun))
			}
			due = append(due, late{dueAt[at], i, r})
			asked[at] = append(asked[at], asking{i, e, r, one, nil, nil})
		}
	}
	apart, cancel := context.WithCancel(context.WithoutCancel(ctx))
	answers := make(chan fanAnswer, n)
	for i, node := range nodes {
		as := asked[i]
		for j := range as {
			as[j].ctx, as[j].answers = apart, answers
		}
		s.board(node, as)
	}
	// Replicas of long ago, which are dead or gone, do not say where the range is now. So a range of which no quorum answers is looked up
	// the next time.
	type mark struct {
		batch   int
		replica kv.ReplicaID
		reached bool
	}
	marks := make([]mark, 0, n)
	forget := func(late bool) {
		for i, e := range entries {
			if e != nil && !e.desc.Quorum(func(r *kv.ReplicaDescriptor) bool {
				at := slices.IndexFunc(marks, func(m mark) bool { return m.batch == i && m.replica == r.Replica })
				return at >= 0 && marks[at].reached || at < 0 && !late
			}) {
				s.evict(e)
			}
		}
	}
	slices.SortStableFunc(due, func(a, b late) int { return cmp.Compare(a.at, b.at) })
	timer := s.o.Host.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	armed := time.Duration(0)
	more := true
	for _, a := range early {
		if more {
			more = f.Answer(a.batch, a.Answer)
		}
	}
	var err error
	for n > 0 && more {
		for len(due) > 0 && slices.ContainsFunc(marks, func(m mark) bool { return m.batch == due[0].batch && m.replica == due[0].from.Replica }) {
			due = due[1:]
		}
		if len(due) > 0 && armed != due[0].at {
			armed = due[0].at
			timer.Reset(max(armed-s.o.Host.Clock.Monotonic(), 0))
		}
		select {
		case a := <-answers:
			n--
			marks = append(marks, mark{a.batch, a.From.Replica, !missed(a.Err)})
			more = f.Answer(a.batch, a.Answer)
		case <-timer.C():
			if armed = 0; len(due) > 0 && s.o.Host.Clock.Monotonic() >= due[0].at {
				d := due[0]
				due = due[1:]
				more = f.Answer(d.batch, Answer{Desc: entries[d.batch].desc, From: d.from, Err: ErrLate})
			}
		case <-f.Wake:
			more = f.More()
		case <-ctx.Done():
			err, more = ctx.Err(), false
		}
	}
	forget(err != nil)
	s.leave(f, answers, n, cancel)
	return err
}

// leave waits for the remaining answers for a while.
func (s *Sender) leave(f *Fan, answers <-chan fanAnswer, n int, cancel context.CancelFunc) {
	end := func() {
		cancel()
		if f.Ended != nil {
			f.Ended()
		}
	}
	if n == 0 || !s.o.Host.Group.Go(func(ctx context.Context) {
		defer end()
		t := s.o.Host.Clock.NewTimer(stragglers)
		defer t.Stop()
		for range n {
			select {
			case a := <-answers:
				if f.Late != nil {
					f.Late(a.batch, a.Answer)
				}
			case <-t.C():
				return
			case <-ctx.Done():
				return
			}
		}
	}) {
		end()
	}
}

// togetherBytes bounds the bytes of batches that travel in one message.
const togetherBytes = 1 << 20

// board has batches sent to a node, in one message with those of others that come before it leaves: what is runnable runs first. Nobody waits for that. Those for this
// node need no message.
func (s *Sender) board(node kv.NodeID, as []asking) {
	if node == s.o.NodeID() && s.o.Local != nil {
		s.dispatch(node, as)
		return
	}
	c := s.carrier(node)
	c.mu.Lock()
	c.waiting = append(c.waiting, as...)
	leaves := c.leaves
	c.leaves = true
	c.mu.Unlock()
	if !leaves && !s.o.Host.Group.Go(func(context.Context) {
		runtime.Gosched()
		as := c.leave()
		for n := fits(as); n < len(as); n = fits(as) {
			s.dispatch(node, as[:n])
			as = as[n:]
		}
		s.askAll(node, as)
	}) {
		s.dispatch(node, c.leave())
	}
}

// fits is how many batches have room in one message.
func fits(as []asking) int {
	bytes := 0
	for n := range as {
		if bytes += batchSize(as[n].b); n > 0 && bytes > togetherBytes {
			return n
		}
	}
	return len(as)
}

func (s *Sender) dispatch(node kv.NodeID, as []asking) {
	if !s.o.Host.Group.Go(func(context.Context) { s.askAll(node, as) }) {
		for i := range as {
			as[i].give(nil, &kv.UnavailableError{Reason: "the node is stopping"})
		}
	}
}

func (c *carrier) leave() []asking {
	c.mu.Lock()
	defer c.mu.Unlock()
	as := c.waiting
	c.waiting, c.leaves = nil, false
	return as
}

func (s *Sender) carrier(node kv.NodeID) *carrier {
	if c, ok := s.carriers.Load(node); ok {
		return c.(*carrier)
	}
	c, _ := s.carriers.LoadOrStore(node, &carrier{})
	return c.(*carrier)
}

// askAll sends batches to one node in one message, and gives each one's answer.
func (s *Sender) askAll(node kv.NodeID, as []asking) {
	start := s.o.Host.Clock.Monotonic()
	if len(as) == 1 {
		r, err := s.askNode(as[0].ctx, node, as[0].b, as[0].e)
		s.answeredAfter(node, s.o.Host.Clock.Monotonic()-start, err)
		as[0].give(r, err)
		return
	}
	ctx, done := s.whileAny(as)
	rs, errs, fault := s.callAll(ctx, node, as)
	done()
	if fault == nil {
		s.answeredAfter(node, s.o.Host.Clock.Monotonic()-start, nil)
	}
	for i := range as {
		if fault != nil {
			as[i].give(nil, s.unreached(as[i].ctx, fault))
			continue
		}
		s.traced(as[i].ctx, as[i].b, as[i].e, node, start)
		r, err := s.heard(node, rs[i], errs[i])
		as[i].give(r, err)
	}
}

// whileAny is a context that ends when nobody waits for any of the batches.
func (s *Sender) whileAny(as []asking) (ctx context.Context, done func()) {
	ctxs := make([]context.Context, 0, 4)
	for i := range as {
		if len(ctxs) == 0 || ctxs[len(ctxs)-1] != as[i].ctx {
			ctxs = append(ctxs, as[i].ctx)
		}
	}
	if len(ctxs) == 1 {
		return ctxs[0], func() {}
	}
	ctx, cancel := context.WithCancel(s.o.Host.Group.Context())
	var left atomic.Int64
	left.Store(int64(len(ctxs)))
	stops := make([]func() bool, len(ctxs))
	for i, one := range ctxs {
		stops[i] = context.AfterFunc(one, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// AllStore is a LocalStore that serves several batches at the same time, and waits once for what they promise.
type AllStore interface {
	LocalStore
	SendAll(ctx context.Context, bs []*kv.Batch) ([]*kv.BatchResponse, []error)
}

// sendAll serves batches at a store.
func sendAll(ctx context.Context, l LocalStore, bs []*kv.Batch) (rs []*kv.BatchResponse, errs []error) {
	if all, ok := l.(AllStore); ok {
		rs, errs = all.SendAll(ctx, bs)
	} else {
		rs, errs = make([]*kv.BatchResponse, len(bs)), make([]error, len(bs))
		for i, b := range bs {
			rs[i], errs[i] = l.Send(ctx, b)
		}
	}
	for i := range rs {
		if rs[i] == nil && errs[i] == nil {
			errs[i] = &kv.InternalError{Message: "route: a range answered nothing"}
		}
	}
	return rs, errs
}

func (s *Sender) callAll(ctx context.Context, node kv.NodeID, as []asking) (rs []*kv.BatchResponse, errs []error, fault error) {
	bs := make([]*kv.Batch, len(as))
	for i := range as {
		bs[i] = as[i].b
	}
	if node == s.o.NodeID() && s.o.Local != nil {
		s.metrics.Local.Add(int64(len(bs)))
		rs, errs = sendAll(ctx, s.o.Local, bs)
		return rs, errs, nil
	}
	s.metrics.Remote.Add(1)
	now, size, class := s.o.Clock.Now(), 0, transport.ClassSystem
	for i, b := range bs {
		b.Now = now
		s.address(b, node)
		if size += batchSize(b) + messageRoom; !as[i].e.desc.Start.Less(keys.TablePrefix) {
			class = transport.ClassDefault
		}
	}
	reply, err := s.o.Remote.CallClass(ctx, class, node, MethodAll, appendBatches(make([]byte, 0, size), bs))
	if err != nil {
		return nil, nil, err
	}
	if rs, errs, err = decodeReplies(reply); err == nil && len(rs) != len(bs) {
		err = kv.ErrMalformed
	}
	for i := range rs {
		if err == nil && rs[i] == nil && errs[i] == nil {
			err = kv.ErrMalformed
		}
		if rs[i] != nil {
			s.o.Clock.Update(rs[i].Now)
		}
	}
	return rs, errs, err
}

// ServeAll is the handler of MethodAll.
func (s *Sender) ServeAll() func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	return serveAll(s.o)
}

// ServeAll is the handler of MethodAll on a node without a Sender.
func ServeAll(o Options) func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	return serveAll(o)
}

func serveAll(o Options) func(ctx context.Context, from kv.NodeID, req []byte) ([]byte, error) {
	return func(ctx context.Context, _ kv.NodeID, req []byte) ([]byte, error) {
		bs, err := decodeBatches(req)
		for i := 0; err == nil && i < len(bs); i++ {
			err = o.misled(bs[i])
		}
		if err != nil {
			// The answer to all of them: nothing was evaluated.
			return appendReplies(nil, make([]*kv.BatchResponse, len(bs)), slices.Repeat([]error{&kv.InternalError{Message: err.Error()}}, len(bs))), nil
		}
		rs, errs := sendAll(ctx, o.Local, bs)
		now, size := o.Clock.Now(), 0
		for _, r := range rs {
			if size += replySize(r) + messageRoom; r != nil && r.Now.IsZero() {
				r.Now = now
			}
		}
		return appendReplies(make([]byte, 0, size), rs, errs), nil
	}
}

// The bytes of such a message are its batches, or their answers, each as a field.
const (
	fanBatch, fanReply = 1, 1
	messageRoom        = 8
)

func appendBatches(b []byte, bs []*kv.Batch) []byte {
	for _, one := range bs {
		var at int
		b, at = wire.BeginLong(b, fanBatch, batchSize(one))
		b = wire.End(kv.AppendBatch(b, one), at)
	}
	return b
}

func decodeBatches(b []byte) (out []*kv.Batch, err error) {
	r := wire.Read(b)
	for m := r.Open("route.Batches"); r.Next(&m); {
		if r.Field() != fanBatch {
			r.Refuse()
			continue
		}
		one, e := kv.DecodeBatch(r.Bytes())
		if e != nil && err == nil {
			err = e
		}
		out = append(out, one)
	}
	if r.Err() != nil {
		err = r.Err()
	}
	return out, err
}

func appendReplies(b []byte, rs []*kv.BatchResponse, errs []error) []byte {
	for i, r := range rs {
		var at int
		b, at = wire.BeginLong(b, fanReply, replySize(r))
		b = wire.End(kv.AppendReply(b, r, errs[i]), at)
	}
	return b
}

func decodeReplies(b []byte) (rs []*kv.BatchResponse, errs []error, err error) {
	r := wire.Read(b)
	for m := r.Open("route.Replies"); r.Next(&m); {
		if r.Field() != fanReply {
			r.Refuse()
			continue
		}
		one, answer, malformed := kv.DecodeReply(r.Bytes())
		if malformed != nil && err == nil {
			err = malformed
		}
		rs, errs = append(rs, one), append(errs, answer)
	}
	if r.Err() != nil {
		err = r.Err()
	}
	return rs, errs, err
}
