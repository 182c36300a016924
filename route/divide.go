package route

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"meridian/keys"
	"meridian/kv"
)

// maxParallel bounds the parts of one batch that are in progress at the same time.
const maxParallel = 64

// part is the part of a batch for one range.
type part struct {
	e     *entry
	batch kv.Batch
	index []int // of each request in the divided batch
	st    sendState
	r     *kv.BatchResponse
	err   error
}

func (p *part) add(r kv.Request, i int) {
	p.batch.Requests = append(p.batch.Requests, r)
	p.index = append(p.index, i)
}

// divide sends a batch that spans ranges.
func (s *Sender) divide(ctx context.Context, b *kv.Batch, st *sendState) (*kv.BatchResponse, error) {
	s.metrics.Divided.Add(1)
	staged := false
	for _, r := range b.Requests {
		if end, ok := r.(*kv.EndTxnRequest); ok && end.Commit {
			switch {
			case end.OnePhase:
				return nil, st.wrap(&kv.OnePhaseError{}) // route.RO3
			case len(end.InFlight) == 0 && len(b.Requests) > 1:
				return nil, &kv.InternalError{Message: "route: a commit in one batch with writes on other ranges"}
			}
			staged = true
		}
	}
	if b.Apart {
		return s.apart(ctx, b, st)
	}
	switch {
	case ofSingleKeys(b):
		return s.inTurn(ctx, b, st)
	case b.MaxKeys > 0 || b.TargetBytes > 0:
		return s.limited(ctx, b, st)
	}
	parts, err := s.parts(ctx, b)
	if err != nil {
		return nil, st.wrap(err)
	}
	if err := protocols(b, parts); err != nil {
		return nil, st.wrap(err)
	}
	for _, p := range parts {
		p.batch.Header = b.Header
		p.batch.CanForwardRead = b.CanForwardRead && len(parts) == 1 // route.RO4
		p.st.init(&p.batch, s.o.Probes)
		if staged || st.repeat == commits {
			// The commit depends on every part, also if this is such a part whose range has split.
			p.st.repeat = commits
		}
	}
	s.sendParts(ctx, parts, b.Enough)
	r, err := merge(b, parts)
	return r, st.wrap(err)
}

// parts divides a batch by range.
func (s *Sender) parts(ctx context.Context, b *kv.Batch) ([]*part, error) {
	var (
		parts  []*part
		byDesc map[*entry]*part
		last   *part
	)
	at := func(e *entry) *part {
		if last != nil && last.e == e {
			return last
		}
		if byDesc == nil && len(parts) > 8 {
			byDesc = make(map[*entry]*part)
			for _, p := range parts {
				byDesc[p.e] = p
			}
		}
		last = nil
		if byDesc != nil {
			last = byDesc[e]
		} else {
			for _, p := range parts {
				if p.e == e {
					last = p
				}
			}
		}
		if last == nil {
			last = &part{e: e}
			parts = append(parts, last)
			if byDesc != nil {
				byDesc[e] = last
			}
		}
		return last
	}
	for i, r := range b.Requests {
		start, end := addrs(r)
		if last != nil && last.e.holds(start, end) {
			last.add(r, i)
			continue
		}
		e, err := s.locate(ctx, start, false)
		if err != nil {
			return nil, err
		}
		if e.holds(start, end) {
			at(e).add(r, i)
			continue
		}
		for {
			stop := end
			if e.desc.End.Less(stop) {
				stop = e.desc.End
			}
			cut, ok := truncate(r, start, stop)
			if !ok {
				return nil, &kv.InternalError{Message: "route: a request that cannot be divided spans ranges"}
			}
			if cut != nil {
				at(e).add(cut, i)
			}
			if start = stop; start.Compare(end) >= 0 {
				break
			}
			if e, err = s.locate(ctx, start, false); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// truncate is a request for [start, stop) instead of its own span; nil if they don't overlap.
func truncate(r kv.Request, start, stop keys.Key) (kv.Request, bool) {
	switch r := r.(type) {
	case *kv.ScanRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.DeleteRangeRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.RefreshRangeRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.CheckLocksRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.NegotiateRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.ResolveRangeRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.ReleaseRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.ProtocolRequest:
		c := *r
		c.Key, c.End = start, stop
		return &c, true
	case *kv.ClearRequest:
		c := *r
		c.Start, c.End = start, stop
		return &c, true
	case *kv.LoadRequest:
		row := func(k keys.Key) int {
			i, _ := slices.BinarySearchFunc(r.Rows, k, func(x kv.KeyValue, k keys.Key) int { return x.Key.Compare(k) })
			return i
		}
		c := *r
		if c.Rows = r.Rows[row(start):row(stop)]; len(c.Rows) == 0 {
			return nil, true
		}
		return &c, true
	}
	return nil, false
}

// errEnough is why parts are given up whose answers are not needed any more (kv.Batch.Enough).
var errEnough = errors.New("route: the rows were found elsewhere")

// found counts what a part has found.
func (p *part) found() (n int64) {
	if p.err != nil || p.r == nil {
		return 0
	}
	for _, r := range p.r.Responses {
		switch r := r.(type) {
		case *kv.GetResponse:
			if r.Value != nil {
				n++
			}
		case *kv.ScanResponse:
			n += int64(len(r.Rows))
		}
	}
	return n
}

// sendParts sends all parts, the caller's goroutine being one of those that do it. A part that fails for good cancels the others: one of
// them may be waiting for a lock, and its holder for a lock of this transaction. So do parts that have found enough.
func (s *Sender) sendParts(ctx context.Context, parts []*part, enough int) {
	if len(parts) == 1 {
		p := parts[0]
		p.r, p.err = s.send(ctx, &p.batch, &p.st)
		return
	}
	if s.together(ctx, parts) {
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, found atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(parts) {
				return
			}
			p := parts[i]
			if p.r, p.err = s.send(ctx, &p.batch, &p.st); rank(p.err) > rankRetry {
				cancel(nil)
			}
			if enough > 0 && found.Add(p.found()) >= int64(enough) {
				cancel(errEnough)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(len(parts), maxParallel) - 1 {
		wg.Add(1)
		if !s.o.Host.Group.Go(func(context.Context) { defer wg.Done(); work() }) {
			wg.Done()
			break
		}
	}
	work()
	wg.Wait()
}

// merge makes one answer of those of all parts. If enough was found, errors of the other parts, most of which were given up, don't count.
func merge(b *kv.Batch, parts []*part) (*kv.BatchResponse, error) {
	out := &kv.BatchResponse{Txn: b.Txn, Responses: make([]kv.Response, len(b.Requests))}
	var err error
	enough := false
	if b.Enough > 0 {
		found := int64(0)
		for _, p := range parts {
			found += p.found()
		}
		enough = found >= int64(b.Enough)
	}
	for _, p := range parts {
		if p.r != nil {
			mergeHeader(out, b, p.r)
		}
		if p.err != nil && enough {
			continue
		}
		if p.err != nil {
			err = worse(err, p.err)
			continue
		}
		if len(p.r.Responses) != len(p.index) {
			err = worse(err, &kv.InternalError{Message: "route: a range answered with the wrong number of responses"})
			continue
		}
		for j, i := range p.index {
			out.Responses[i] = join(b.Requests[i], out.Responses[i], p.r.Responses[j])
		}
	}
	if err != nil {
		out.Responses = nil
	}
	return out, err
}

// mergeHeader merges the parts of an answer other than its responses.
func mergeHeader(out *kv.BatchResponse, b *kv.Batch, r *kv.BatchResponse) {
	out.Timestamp = out.Timestamp.Forward(r.Timestamp)
	out.Now = out.Now.Forward(r.Now)
	out.Waited = max(out.Waited, r.Waited) // the parts ran in parallel
	if at := r.LockedAt; !at.IsZero() && (out.LockedAt.IsZero() || at.Less(out.LockedAt)) {
		out.LockedAt = at
	}
	out.Served = append(out.Served, r.Served...)
	out.Leads = out.Leads || r.Leads
	if f := r.Followed; f != nil {
		if out.Followed == nil {
			out.Followed = &kv.Followed{Lock: f.Lock, LockedAt: f.LockedAt}
		}
		out.Followed.Lock = min(out.Followed.Lock, f.Lock)
		if f.LockedAt.Less(out.Followed.LockedAt) {
			out.Followed.LockedAt = f.LockedAt
		}
		out.Followed.Rows = append(out.Followed.Rows, f.Rows...)
	}
	if b.Txn == nil || r.Txn == nil || r.Txn == b.Txn {
		return
	}
	if out.Txn == b.Txn || out.Txn == nil {
		t := *r.Txn
		out.Txn = &t
		return
	}
	t := out.Txn
	t.WriteTimestamp = t.WriteTimestamp.Forward(r.Txn.WriteTimestamp)
	t.ReadTimestamp = t.ReadTimestamp.Forward(r.Txn.ReadTimestamp)
	t.Status = max(t.Status, r.Txn.Status)
	for _, o := range r.Txn.Observed {
		t.Observe(o.Node, o.At)
	}
}

// Ranks of errors by their significance for the whole batch. An ambiguous part has the lowest: if any other part definitely failed, a
// staging commit has failed, whatever the outcome of the ambiguous part. The context of a part may have ended because of another part's
// error.
const (
	rankNone = iota
	rankAmbiguous
	rankContext
	rankRetry // succeeds when the transaction moves
	rankFailed
	rankEnded
)

func rank(err error) int {
	switch root(err).(type) {
	case nil:
		return rankNone
	case *kv.AmbiguousError:
		return rankAmbiguous
	case *kv.WriteTooOldError, *kv.UncertaintyError, *kv.TxnRetryError:
		return rankRetry
	case *kv.TxnAbortedError, *kv.DeadlockError:
		return rankEnded
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return rankContext
	}
	return rankFailed
}

func worse(a, b error) error {
	if rank(b) > rank(a) {
		return b
	}
	return a
}

// join makes one response of those of two parts of a request; parts come in key order.
func join(req kv.Request, have, r kv.Response) kv.Response {
	if have == nil {
		return r
	}
	switch h := have.(type) {
	case *kv.ScanResponse:
		more, ok := r.(*kv.ScanResponse)
		if !ok {
			return have
		}
		if scan, ok := req.(*kv.ScanRequest); ok && scan.Reverse {
			return &kv.ScanResponse{Rows: append(more.Rows[:len(more.Rows):len(more.Rows)], h.Rows...)}
		}
		return &kv.ScanResponse{Rows: append(h.Rows[:len(h.Rows):len(h.Rows)], more.Rows...)}
	case *kv.NegotiateResponse:
		if more, ok := r.(*kv.NegotiateResponse); ok {
			least := *h
			if more.Timestamp.Less(h.Timestamp) {
				least = *more
			}
			least.Closed = h.Closed.Forward(more.Closed)
			return &least
		}
	case *kv.LoadResponse:
		if more, ok := r.(*kv.LoadResponse); ok {
			return &kv.LoadResponse{Refused: append(h.Refused[:len(h.Refused):len(h.Refused)], more.Refused...)}
		}
	case *kv.DeleteRangeResponse:
		if more, ok := r.(*kv.DeleteRangeResponse); ok {
			sum := &kv.DeleteRangeResponse{Deleted: h.Deleted + more.Deleted, Resume: h.Resume}
			if sum.Resume == nil {
				sum.Resume = more.Resume
			}
			return sum
		}
	}
	return have
}

// limited sends a batch with bounds one range after the other, in the direction of its scans. A range of another protocol refuses its part when it is reached
// (kv.ProtocolError), after the ranges before it were read, and waited for. The sender remembers that range and asks again with divided spans, so
// a transaction pays for it once. To refuse earlier would mean to locate ranges that the limit may never reach.
func (s *Sender) limited(ctx context.Context, b *kv.Batch, st *sendState) (*kv.BatchResponse, error) {
	var (
		out     = &kv.BatchResponse{Txn: b.Txn, Responses: make([]kv.Response, len(b.Requests))}
		rest    = make([]keys.Span, len(b.Requests)) // the unread part of each scan
		points  []int
		reverse bool
		scans   int
	)
	for i, r := range b.Requests {
		switch r := r.(type) {
		case *kv.ScanRequest:
			if scans > 0 && r.Reverse != reverse {
				return nil, &kv.InternalError{Message: "route: scans with a limit in both directions"}
			}
			reverse = r.Reverse
			rest[i] = keys.Span{Start: r.Start, End: r.Span().Stop()}
			out.Responses[i] = &kv.ScanResponse{}
			scans++
		case *kv.DeleteRangeRequest:
			if reverse {
				return nil, &kv.InternalError{Message: "route: scans with a limit in both directions"}
			}
			rest[i] = keys.Span{Start: r.Start, End: r.End}
			out.Responses[i] = &kv.DeleteRangeResponse{}
			scans++
		default:
			points = append(points, i)
		}
	}
	h := b.Header
	h.CanForwardRead = false // route.RO4
	if len(points) > 0 {
		sub := kv.Batch{Header: h}
		sub.MaxKeys, sub.TargetBytes = 0, 0
		for _, i := range points {
			sub.Requests = append(sub.Requests, b.Requests[i])
		}
		r, err := s.subSend(ctx, &sub)
		if r != nil {
			mergeHeader(out, b, r)
		}
		if err != nil {
			out.Responses = nil
			return out, st.wrap(err)
		}
		for j, i := range points {
			out.Responses[i] = r.Responses[j]
		}
	}
	keysLeft, bytesLeft := b.MaxKeys, b.TargetBytes
	for done := false; !done; {
		// The next range is that of the first unread key of any scan.
		var at keys.Key
		for i := range rest {
			switch {
			case rest[i].End == nil:
			case reverse && (at == nil || at.Less(rest[i].End)):
				at = rest[i].End
			case !reverse && (at == nil || rest[i].Start.Less(at)):
				at = rest[i].Start
			}
		}
		if at == nil {
			break
		}
		e, err := s.locate(ctx, at, reverse)
		if err != nil {
			return nil, st.wrap(err)
		}
		sub := kv.Batch{Header: h}
		sub.MaxKeys, sub.TargetBytes = keysLeft, bytesLeft
		var index []int
		for i := range rest {
			start, stop := rest[i].Start, rest[i].End
			if stop == nil {
				continue
			}
			if start.Less(e.desc.Start) {
				start = e.desc.Start
			}
			if e.desc.End.Less(stop) {
				stop = e.desc.End
			}
			if start.Compare(stop) >= 0 {
				continue
			}
			cut, _ := truncate(b.Requests[i], start, stop)
			sub.Requests = append(sub.Requests, cut)
			index = append(index, i)
		}
		r, err := s.subSend(ctx, &sub)
		if r != nil {
			mergeHeader(out, b, r)
		}
		if err != nil {
			out.Responses = nil
			return out, st.wrap(err)
		}
		if len(r.Responses) != len(index) {
			return nil, &kv.InternalError{Message: "route: a range answered with the wrong number of responses"}
		}
		for j, i := range index {
			sp := sub.Requests[j].Span()
			var resume *keys.Span
			switch x := r.Responses[j].(type) {
			case *kv.ScanResponse:
				have := out.Responses[i].(*kv.ScanResponse)
				have.Rows = append(have.Rows, x.Rows...)
				keysLeft -= int64(len(x.Rows))
				for k := range x.Rows {
					bytesLeft -= int64(len(x.Rows[k].Key) + len(x.Rows[k].Value))
				}
				resume = x.Resume
			case *kv.DeleteRangeResponse:
				out.Responses[i].(*kv.DeleteRangeResponse).Deleted += x.Deleted
				keysLeft -= x.Deleted
				resume = x.Resume
			}
			switch {
			case resume != nil && reverse:
				rest[i].End, done = resume.End, true
			case resume != nil:
				rest[i].Start, done = resume.Start, true
			case reverse:
				rest[i].End = sp.Start
			default:
				rest[i].Start = sp.End
			}
			if rest[i].Start.Compare(rest[i].End) >= 0 {
				rest[i] = keys.Span{}
			}
		}
		if b.MaxKeys > 0 && keysLeft <= 0 || b.TargetBytes > 0 && bytesLeft <= 0 {
			done = true
		}
	}
	for i := range rest {
		if rest[i].End == nil {
			continue
		}
		left := rest[i]
		switch x := out.Responses[i].(type) {
		case *kv.ScanResponse:
			x.Resume = &left
		case *kv.DeleteRangeResponse:
			x.Resume = &left
		}
	}
	return out, nil
}

// ofSingleKeys reports whether a batch has a bound of rows, and nothing but scans of one key each.
func ofSingleKeys(b *kv.Batch) bool {
	if b.MaxKeys <= 0 || b.TargetBytes > 0 {
		return false
	}
	for _, r := range b.Requests {
		scan, ok := r.(*kv.ScanRequest)
		if !ok || scan.Reverse || len(scan.End) != len(scan.Start)+1 || !scan.End.Equal(scan.Start.Next()) {
			return false
		}
	}
	return true
}

// inTurn sends scans of single keys in the batch's order, as many at a time as follow each other in one range, until MaxKeys rows are found. A key whose range has not read it
// is left: its answer has it as the rest.
func (s *Sender) inTurn(ctx context.Context, b *kv.Batch, st *sendState) (*kv.BatchResponse, error) {
	out := &kv.BatchResponse{Txn: b.Txn, Responses: make([]kv.Response, len(b.Requests))}
	h := b.Header
	h.CanForwardRead = false // route.RO4
	for i := 0; i < len(b.Requests); {
		if h.MaxKeys <= 0 {
			span := b.Requests[i].Span()
			out.Responses[i] = &kv.ScanResponse{Resume: &span}
			i++
			continue
		}
		e, err := s.locate(ctx, b.Requests[i].Span().Start, false)
		if err != nil {
			return nil, st.wrap(err)
		}
		n := i + 1
		for n < len(b.Requests) && e.desc.Contains(b.Requests[n].Span().Start) {
			n++
		}
		sub := kv.Batch{Header: h, Requests: b.Requests[i:n]}
		r, err := s.subSend(ctx, &sub)
		if r != nil {
			mergeHeader(out, b, r)
		}
		if err != nil {
			out.Responses = nil
			return out, st.wrap(err)
		}
		if len(r.Responses) != n-i {
			return nil, &kv.InternalError{Message: "route: a range answered with the wrong number of responses"}
		}
		for _, x := range r.Responses {
			scan, ok := x.(*kv.ScanResponse)
			if !ok {
				return nil, &kv.InternalError{Message: "route: a range answered a scan with something else"}
			}
			out.Responses[i] = scan
			h.MaxKeys -= int64(len(scan.Rows))
			i++
		}
	}
	return out, nil
}

// apart sends the scans of a batch at the same time, each to the first range of its span, in the direction of the scan (kv.Batch.Apart). So the regions of a table answer in the time of the farthest, and
// nobody reads more than a page that may not be wanted.
func (s *Sender) apart(ctx context.Context, b *kv.Batch, st *sendState) (*kv.BatchResponse, error) {
	rests := make([]keys.Span, len(b.Requests)) // behind the first range
	var parts []*part
	for i, r := range b.Requests {
		scan, ok := r.(*kv.ScanRequest)
		if !ok {
			return nil, &kv.InternalError{Message: "route: only scans are sent apart"}
		}
		cut := *scan
		cut.End = scan.Span().Stop()
		at := cut.Start
		if scan.Reverse {
			at = cut.End
		}
		e, err := s.locate(ctx, at, scan.Reverse)
		if err != nil {
			return nil, st.wrap(err)
		}
		switch {
		case scan.Reverse && cut.Start.Less(e.desc.Start):
			rests[i] = keys.Span{Start: cut.Start, End: e.desc.Start}
			cut.Start = e.desc.Start
		case !scan.Reverse && e.desc.End.Less(cut.End):
			rests[i] = keys.Span{Start: e.desc.End, End: cut.End}
			cut.End = e.desc.End
		}
		n := slices.IndexFunc(parts, func(p *part) bool { return p.e == e })
		if n < 0 {
			n, parts = len(parts), append(parts, &part{e: e})
		}
		parts[n].add(&cut, i)
	}
	if err := protocols(b, parts); err != nil {
		return nil, st.wrap(err)
	}
	for _, p := range parts {
		p.batch.Header = b.Header
		p.batch.CanForwardRead = false // route.RO4
		p.st.init(&p.batch, s.o.Probes)
	}
	s.sendParts(ctx, parts, 0)
	r, err := merge(b, parts)
	if err != nil {
		return r, st.wrap(err)
	}
	for i, rest := range rests {
		scan, ok := r.Responses[i].(*kv.ScanResponse)
		if !ok || rest.End == nil {
			continue
		}
		c := *scan
		if c.Resume != nil && b.Requests[i].(*kv.ScanRequest).Reverse {
			rest.End = c.Resume.End
		} else if c.Resume != nil {
			rest.Start = c.Resume.Start
		}
		c.Resume = &rest
		r.Responses[i] = &c
	}
	return r, nil
}

func (s *Sender) subSend(ctx context.Context, b *kv.Batch) (*kv.BatchResponse, error) {
	var st sendState
	st.init(b, s.o.Probes)
	return s.send(ctx, b, &st)
}
