package session

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/sqlstate"
)

// Retries. A transaction that loses a conflict is run again by the gateway, in a new attempt of the same transaction
// or, where the old identity is lost, as another one with more priority (S2). Answers that have not left yet are
// written anew. Answers that the client has are compared: a statement must write the same bytes again, else the
// client hears 40001. This is what one transaction looks like on the wire when its third statement conflicts:
//
//	            gone, fingerprint kept              still in the buffer
//	 .------------------------------------. .------------------------------.
//	 BEGIN  [ 1: T D D C ]  Z  [ 2: C ]  Z  1 2 [ 3: T D C ]  1 2 [ 4: ...
//	          compared          compared    gap   written anew  gap  goes on
//
// Gaps are what the protocol says between statements; they are written again as they were.

// maxAttempts bounds how often a transaction is run again after one conflict.
const maxAttempts = 50

// maxValues bounds the numbers of sequences and row ids that are recorded for a transaction. Further ones are drawn
// anew when it runs again; if the client has seen one, its result differs.
const maxValues = 4096

// step is one statement of a transaction, as it takes to run it again.
type step struct {
	run    func(ctx context.Context, final bool) error
	text   string
	number int       // of the statement in its transaction, from 1
	at     time.Time // statement_timestamp()
	// failed is what a statement failed with that a savepoint made up for.
	failed [16]byte
	// marker: not a statement, but a message that failed, such as Parse.
	marker bool

	// sum is all of its output, left the part that had left when it was complete; start where it begins.
	sum, left Fingerprint
	start     int64
	// What follows is for running again. open: it was stopped in between. placed: start, sum and left are right; else
	// gap is to be written before it. whole: the client has all of it; seen: what it has.
	open, placed, whole bool
	seen                Fingerprint
	gap                 []byte

	values []value
	next   int
	tape   *tape
	portal *portal
}

// value is a number that a statement drew: of a sequence, or a row id.
type value struct {
	seq catalog.ID // zero: a row id
	v   int64
}

// replay is what it takes to run an open transaction's statements again (S2).
type replay struct {
	steps []step
	cur   step  // the running statement
	at    *step // the one whose run function is being called: cur, or one of steps when they run again
	size  int   // bytes that are recorded
	count int   // statements so far
	drawn int   // values that are recorded
	// off says why the transaction can't be run again; empty: it can.
	off string
	// opened: the running statement began the transaction. noted: its failure is recorded.
	opened, noted bool
	// attempt counts how often the running statement had the transaction run again.
	attempt int
	// running: the steps run again; again: so does the present one.
	running, again bool
	// final: the implicit transaction ends with the running statement.
	final bool
	// The transaction at its beginning: what it is when it starts over.
	state state
	modes modes
	// sequences as they were before the transaction's first nextval.
	sequences *sequenceState
}

type sequenceState struct {
	currents map[catalog.ID]int64
	lastID   catalog.ID
	lastUsed bool
}

// begin is called when a transaction begins, forget when it is over.
func (r *replay) begin(st state, m modes) {
	r.forget()
	r.state, r.modes = st, m
}

func (r *replay) forget() {
	if cap(r.steps) > 256 {
		r.steps = nil
	}
	clear(r.steps)
	r.steps = r.steps[:0]
	r.size, r.count, r.drawn, r.off, r.sequences = 0, 0, 0, "", nil
}

// turnOff makes the open transaction one that is not run again: something happened that can't be undone, or it has
// grown too large.
func (r *replay) turnOff(why string) {
	if r.off == "" {
		r.off = why
	}
	if !r.again {
		clear(r.steps)
		r.steps = r.steps[:0]
	}
}

// step runs one statement, and runs the transaction again for as long as its failure is one that another try may
// settle. final says that the implicit transaction ends with the statement. size is what it costs to keep it.
func (s *Session) step(ctx context.Context, text string, size int, p *portal, run func(ctx context.Context, final bool) error, final bool) error {
	s.ending = false
	r := &s.replay
	s.statement = s.out.Mark()
	r.cur = step{run: run, text: text, portal: p, at: s.queryStart, start: s.statement.position(), placed: true, open: true}
	r.at, r.opened, r.noted, r.attempt = &r.cur, false, false, 0
	wasFailed := s.state == stateFailed
	s.out.Watch(Fingerprint{})
	err := s.attempt(ctx, &r.cur, final && len(r.steps) == 0, Fingerprint{})
	if err == nil && final && s.state == stateImplicit {
		err = s.commitImplicit(ctx)
	}
	summed := err != nil && Retryable(err)
	if summed {
		err = s.retry(ctx, err, final)
	}
	if err != nil && ctx.Err() != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
	}
	s.record(err, len(text)+size, wasFailed, summed)
	return err
}

// record keeps the statement that has just run, if its transaction goes on.
func (s *Session) record(err error, size int, wasFailed, summed bool) {
	r := &s.replay
	cur := &r.cur
	s.ran = true
	keep := r.off == "" && !r.opened && s.state != stateNone && (err == nil || !wasFailed && s.canContinue())
	if !summed {
		cur.sum, cur.left, _ = s.out.Watched(keep)
	}
	if s.state != stateNone && !r.opened {
		r.count++
	}
	if !keep {
		return
	}
	if err != nil {
		cur.failed, r.noted = errorSum(err), true
	}
	cur.open, cur.number = false, r.count
	if t := cur.tape; t != nil {
		if size += t.size; t.full {
			size = math.MaxInt32
		}
	}
	s.keep(cur, size)
}

func (s *Session) keep(st *step, size int) {
	r := &s.replay
	r.size += size + stepSize
	if limit := s.limit("transaction_replay_statements"); len(r.steps) >= limit {
		r.turnOff(fmt.Sprintf("it has more than %d statements (transaction_replay_statements)", limit))
		return
	}
	if limit := s.limit("transaction_replay_size"); r.size > limit {
		r.turnOff(tooLarge(s))
		return
	}
	if s.txnMemory().Grow(int64(size+stepSize)) != nil {
		r.turnOff("there is no memory to keep its statements")
		return
	}
	r.steps = append(r.steps, *st)
}

func tooLarge(s *Session) string {
	return fmt.Sprintf("its statements, their arguments and data have more than %s (transaction_replay_size)", s.setting("transaction_replay_size"))
}

// stepSize is about what a statement costs besides its text and arguments.
const stepSize = 256

func (s *Session) limit(name string) int {
	v := s.setting(name)
	if n, err := strconv.Atoi(v); err == nil {
		return n
	}
	return int(parseSize(v))
}

// canContinue reports whether a failed statement leaves a transaction that a savepoint can save.
func (s *Session) canContinue() bool {
	return s.state == stateExplicit && len(s.savepts) > 0 && !s.doomed && !s.ending && s.tx != nil
}

// recordFailure keeps the failure of a message that was not a statement's execution.
func (s *Session) recordFailure() {
	r := &s.replay
	if r.noted || r.off != "" || !s.canContinue() {
		r.noted = false
		return
	}
	s.keep(&step{marker: true, start: s.out.Mark().position(), placed: true}, 0)
}

// errorSum identifies an error as the client sees it.
func errorSum(err error) [16]byte {
	e := Outcome(err)
	h := sha256.New()
	for _, f := range []string{string(e.Code), e.Message, e.Detail, e.Hint, e.Schema, e.Table, e.Column, e.DataType, e.Constraint, strconv.Itoa(e.Position)} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f))))
		h.Write([]byte(f))
	}
	return [16]byte(h.Sum(nil))
}

// differs is a statement whose result the client has, and which now has another one.
type differs struct {
	number int
	text   string
	cause  error
}

func (d *differs) Error() string {
	return fmt.Sprintf("session: statement %d has another result", d.number)
}
func (d *differs) Unwrap() error { return d.cause }

// retry runs the transaction again after a conflict. It leaves the running statement's output summed up.
func (s *Session) retry(ctx context.Context, err error, final bool) error {
	r := &s.replay
	m := &s.srv.metrics
	began, ending := s.state, s.ending
	conflict := err // the last one: what the client is told of
	r.cur.sum, r.cur.left, _ = s.out.Watched(true)
	defer func() { r.running, r.again, r.at = false, false, &r.cur }()
	why := ""
	seen := false
	var lost []keys.Key
	backoff := time.Millisecond
	for attempt := 1; err != nil && Retryable(err) && ctx.Err() == nil; attempt++ {
		conflict = err
		switch {
		case s.tx == nil || s.state == stateNone:
			return s.lost(began, ending, conflict, nil, "")
		case r.off != "":
			why = r.off
		case r.cur.tape != nil && r.cur.tape.full:
			why = tooLarge(s)
		case attempt >= maxAttempts:
			why = fmt.Sprintf("it lost %d conflicts one after the other", attempt)
		case !s.layOut():
			why = "its output could not be followed"
		}
		if seen = s.seen() || r.off != ""; seen {
			s.ticket.Lose()
		}
		if why == "" && seen && s.setting("transaction_replay") != "on" {
			why = "transaction_replay is off"
		}
		if why == "" && s.deadlockedAdvisory(conflict) {
			why = "it has taken advisory locks, which another attempt would have from the start"
		}
		if why == "" && seen && s.tx.LosesLocks() {
			why = "another attempt would not have the row locks that it was given (FOR UPDATE and its like)"
		}
		if why != "" {
			if seen {
				m.ReplaysOff.Add(1)
			}
			return s.lost(began, ending, conflict, nil, why)
		}
		r.attempt = attempt
		if seen {
			m.Replays.Add(1)
		} else {
			m.Retries.Add(1)
		}
		if rerr := s.startOver(ctx); rerr != nil {
			return errors.Join(err, rerr)
		}
		if attempt > 3 {
			// Contention: let the others through. The wait is drawn, so that two losers do not meet again.
			d := time.Duration(s.srv.Host.Dice.Int64N(int64(backoff)))
			if s.srv.Host.Clock.Sleep(ctx, d) != nil {
				break
			}
			backoff = min(2*backoff, 100*time.Millisecond)
		}
		if attempt > 1 {
			lost = s.lockLost(ctx, conflict, lost)
		}
		err = s.runAgain(ctx, final)
		var d *differs
		if errors.As(err, &d) {
			m.ReplaysDiffering.Add(1)
			return s.lost(began, ending, conflict, d, "")
		}
	}
	if err != nil && ctx.Err() != nil {
		if s.state != stateNone {
			s.state, s.ending = began, ending
			s.doomed = began != stateImplicit
		}
		return err
	}
	if seen && (err == nil || !Retryable(err)) {
		m.ReplaysSucceeded.Add(1)
	}
	return err
}

// maxLost bounds the rows that are locked before a transaction runs again.
const maxLost = 8

// lockLost locks the rows over which the transaction has lost, before it runs again: else it would read them, wait for
// others to write them, and lose once more, for as long as others come. What can't be locked is left to the statements.
func (s *Session) lockLost(ctx context.Context, conflict error, lost []keys.Key) []keys.Key {
	if s.modes.isolation == kv.ReadCommitted || s.modes.readOnly {
		return nil
	}
	var (
		tooOld  *kv.WriteTooOldError
		refresh *kv.RefreshFailedError
		key     keys.Key
	)
	switch {
	case errors.As(conflict, &refresh):
		key = refresh.Key
	case errors.As(conflict, &tooOld):
		key = tooOld.Key
	}
	if _, _, err := keys.DecodeTableKey(key); err == nil && len(lost) < maxLost &&
		!slices.ContainsFunc(lost, func(k keys.Key) bool { return k.Equal(key) }) {
		lost = append(lost, key)
		slices.SortFunc(lost, keys.Key.Compare) // so that two of them do not meet crosswise
	}
	for _, k := range lost {
		if _, err := s.tx.Get(ctx, k, kv.Exclusive, kv.Block); err != nil {
			break
		}
	}
	return lost
}

// lost is the end of a transaction that can't be run again.
func (s *Session) lost(began state, ending bool, conflict error, d *differs, why string) error {
	if s.state != stateNone {
		s.state = began
		if began == stateFailed {
			s.state = stateExplicit // for Fail, which ends it
		}
	}
	s.doomed, s.ending = s.state == stateExplicit, ending
	s.srv.metrics.ClientRetries.Add(1)
	return s.describeLoss(conflict, d, why)
}

// seen reports whether the client has heard of the transaction.
func (s *Session) seen() bool {
	r := &s.replay
	for i := range r.steps {
		if r.steps[i].seen.Bytes > 0 {
			return true
		}
	}
	return r.cur.seen.Bytes > 0
}

// layOut finds out what the client has seen of each statement, and takes back what has not left.
func (s *Session) layOut() bool {
	r := &s.replay
	left := s.out.Mark().Flushed
	var tail []byte
	from, prev := int64(-1), int64(0)
	for i := 0; i <= len(r.steps); i++ {
		st := &r.cur
		if i < len(r.steps) {
			st = &r.steps[i]
		}
		if !st.placed || st.whole {
			continue
		}
		end := st.start + st.sum.Bytes
		if end <= left && !st.open {
			st.seen, st.whole = st.sum, true
			continue
		}
		at := max(st.start, left)
		if from < 0 {
			from = at
			tail = s.out.Take(from)
		} else if lo, hi := prev-from, st.start-from; lo <= hi && hi <= int64(len(tail)) {
			st.gap = tail[lo:hi:hi]
		} else {
			return false
		}
		st.seen = Fingerprint{}
		if st.start < left {
			if st.seen = st.left; st.seen.Bytes != left-st.start {
				return false
			}
		}
		prev, st.placed = end, false
	}
	return true
}

// startOver begins a new attempt of the transaction, with the session as it was at its beginning.
func (s *Session) startOver(ctx context.Context) error {
	r := &s.replay
	old := s.tx.ID()
	if err := s.tx.Restart(ctx); err != nil {
		return err
	}
	if s.tx.ID() != old {
		s.srv.finished.note(finishedTxn{old, s.pid, s.setting("application_name")}) // what is told of it is about this session
	}
	s.showTxn()
	s.restartAdvisory()
	s.deferred.reset()
	s.notifying.reset()
	s.cat.Reset(ctx)
	s.temp.rollback()
	s.viewCache = nil
	s.state, s.modes = r.state, r.modes
	s.ending, s.doomed = false, false
	// Savepoints and cursors are made again, and portals run again.
	s.savepts = s.savepts[:0]
	for name, p := range s.portals {
		switch {
		case p.free:
			p.pos = p.began
		case p.byDeclare:
			s.ClosePortal(name)
		}
	}
	for i := range r.steps {
		if p := r.steps[i].portal; p != nil && !p.byDeclare {
			p.rewind()
		}
	}
	if p := r.cur.portal; p != nil && !p.byDeclare {
		p.rewind()
	}
	if q := r.sequences; q != nil {
		s.env.currents, s.env.lastID, s.env.lastUsed = maps.Clone(q.currents), q.lastID, q.lastUsed
	}
	for _, n := range s.params.end(false) {
		s.settingChanged(n)
	}
	s.params.begin()
	return nil
}

// rewind makes a portal one that has not run.
func (p *portal) rewind() {
	p.close()
	p.ended, p.sent = false, 0
}

// runAgain runs the recorded statements and the present one.
func (s *Session) runAgain(ctx context.Context, final bool) error {
	r := &s.replay
	r.running, r.again = true, true
	for i := range r.steps {
		if err := s.runStepAgain(ctx, &r.steps[i]); err != nil {
			return err
		}
	}
	r.running = false
	for i := range r.steps {
		// What the client has closed since is open again.
		if p := r.steps[i].portal; p != nil && p != r.cur.portal && s.portals[p.name] != p {
			p.close()
		}
	}
	cur := &r.cur
	s.place(cur)
	s.statement = s.out.Mark()
	s.out.Watch(cur.seen)
	err := s.attempt(ctx, cur, final && len(r.steps) == 0 && cur.seen.Bytes == 0, cur.seen)
	var same bool
	cur.sum, cur.left, same = s.out.Watched(true)
	if errors.Is(err, ErrDiffers) || err == nil && !same {
		return &differs{r.count + 1, cur.text, err}
	}
	if err == nil && final && s.state == stateImplicit {
		if err = s.commitImplicit(ctx); err != nil {
			cur.sum.Bytes = s.out.Mark().position() - cur.start
		}
	}
	return err
}

// place puts a statement at the end of the output.
func (s *Session) place(st *step) {
	s.replay.at = st
	st.next = 0
	if st.tape != nil {
		st.tape.at = 0
	}
	if st.whole {
		return
	}
	s.out.Give(st.gap)
	st.gap, st.placed, st.open = nil, true, true
	st.start = s.out.Mark().position() - st.seen.Bytes
	st.sum, st.left = st.seen, st.seen
}

func (s *Session) runStepAgain(ctx context.Context, st *step) error {
	r := &s.replay
	s.place(st)
	if st.marker {
		st.open = false
		s.state = stateFailed
		return nil
	}
	s.statement = s.out.Mark()
	s.out.Watch(st.seen)
	err := s.attempt(ctx, st, false, st.seen)
	all, left, same := s.out.Watched(true)
	if !st.whole {
		st.sum, st.left = all, left
	}
	if err != nil && (Retryable(err) || ctx.Err() != nil) {
		return err
	}
	if errors.Is(err, ErrDiffers) || !same || st.whole && all != st.seen {
		return &differs{st.number, st.text, err}
	}
	failed := st.failed != [16]byte{}
	switch {
	case err == nil && !failed:
	case err != nil && failed && errorSum(err) == st.failed:
		s.state, s.viewCache = stateFailed, nil
	case err != nil && st.seen.Bytes == 0 && !st.whole:
		// Nobody has heard of it yet: this is its result, and what came after it is not run.
		r.turnOff("a statement failed when it was run again")
		return err
	default:
		return &differs{st.number, st.text, err}
	}
	st.open = false
	return nil
}

// draw returns the number that the statement drew when it ran first, or draws one.
func (s *Session) draw(seq catalog.ID, fresh func() (int64, error)) (int64, error) {
	r := &s.replay
	st := r.at
	if st == nil || s.state == stateNone {
		return fresh()
	}
	if st.next < len(st.values) {
		if x := st.values[st.next]; x.seq == seq {
			st.next++
			return x.v, nil
		}
		r.drawn -= len(st.values) - st.next
		st.values = st.values[:st.next]
	}
	v, err := fresh()
	if err == nil && r.drawn < maxValues {
		st.values = append(st.values, value{seq, v})
		st.next = len(st.values)
		r.drawn++
	}
	return v, err
}

// current returns a plan that is good now for the statement of p, which is being run again.
func (s *Session) current(ctx context.Context, p *plan) (*plan, error) {
	if !s.replay.again || p.query == nil || p.stmt == nil || p.private {
		return p, nil
	}
	if !s.catalogChanged() {
		if good, err := s.reuse(p); good != nil || err != nil {
			return good, err
		}
	}
	now, err := s.planFor(ctx, p.stmt, p.params)
	if err != nil {
		return nil, err
	}
	if !sameColumns(p.columns, now.columns) || len(now.params) != len(p.params) {
		return nil, sqlstate.CachedPlan()
	}
	return now, nil
}

// tape is the data of a COPY, as it takes to read it again; after that it goes on with what the client sends.
type tape struct {
	live   CopySource
	pieces [][]byte
	at     int
	size   int
	limit  int
	full   bool
}

// Next implements CopySource.
func (t *tape) Next() ([]byte, error) {
	if t.at < len(t.pieces) {
		t.at++
		return t.pieces[t.at-1], nil
	}
	p, err := t.live.Next()
	if err != nil || t.full {
		return p, err
	}
	if t.size += len(p); t.size > t.limit {
		t.full, t.pieces = true, nil
		return p, nil
	}
	t.pieces = append(t.pieces, append([]byte(nil), p...))
	t.at = len(t.pieces)
	return p, nil
}
