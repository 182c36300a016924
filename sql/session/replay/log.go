package replay

import (
	"errors"
	"fmt"
	"math"

	"meridian/sql/catalog"
	"meridian/sql/memory"
	"meridian/sql/session/result"
)

// Output is the part of a connection's output that a Log uses; see result.Results.
type Output interface {
	Mark() result.Mark
	Watch(seen result.Fingerprint)
	Watched(sum bool) (all, left result.Fingerprint, same bool)
	Take(from int64) []byte
	Give(p []byte)
}

// maxValues bounds the numbers of sequences and row ids that are recorded for a transaction. Further ones are drawn
// anew when it runs again; if the client has seen one, its result differs.
const maxValues = 4096

// stepSize is roughly the memory of a recorded statement besides its text and arguments.
const stepSize = 256

// Log is the record from which an open transaction's statements can be run again.
type Log struct {
	steps []Step
	cur   Step  // the running statement
	at    *Step // the step whose Run is being called: cur, or one of steps when they run again
	size  int   // bytes that are recorded
	count int   // statements so far
	drawn int   // values that are recorded
	// off says why the transaction can't be run again; empty: it can.
	off string
	// opened: the running statement began the transaction. noted: its failure is recorded.
	opened, noted bool
	// attempt counts how often conflicts of the running statement have made the transaction run again.
	attempt int
	// running: the recorded steps are being run again; again: they, or the present statement after them.
	running, again bool
}

// Limits bound the record of a transaction. Shown is Bytes as the client set it.
type Limits struct {
	Statements, Bytes int
	Shown             string
}

func (l *Limits) tooLarge() string {
	return fmt.Sprintf("its statements, their arguments and data have more than %s (transaction_replay_size)", l.Shown)
}

// Forget clears the record. It is called when a transaction begins, and when it has ended.
func (l *Log) Forget() {
	if cap(l.steps) > 256 {
		l.steps = nil
	}
	clear(l.steps)
	l.steps = l.steps[:0]
	l.size, l.count, l.drawn, l.off = 0, 0, 0, ""
}

// TurnOff notes that the open transaction can't be run again: it had an effect that can't be undone, or its record is too large.
func (l *Log) TurnOff(why string) {
	if l.off == "" {
		l.off = why
	}
	if !l.again {
		clear(l.steps)
		l.steps = l.steps[:0]
	}
}

// Off says why the transaction can't be run again; empty: it can.
func (l *Log) Off() string { return l.off }

// Opened notes that the running statement is the BEGIN of the transaction, which is not run again.
func (l *Log) Opened() { l.opened = true }

// Begin notes that a statement begins.
func (l *Log) Begin(out Output, st Step) {
	st.start, st.placed, st.open = out.Mark().Position(), true, true
	l.cur = st
	l.at, l.opened, l.noted, l.attempt = &l.cur, false, false, 0
	out.Watch(result.Fingerprint{})
}

// Current is the client's present statement. While the recorded steps run again, Step is another one.
func (l *Log) Current() *Step { return &l.cur }

// Step is the statement whose Run is being called; nil before the first one.
func (l *Log) Step() *Step { return l.at }

// First reports whether no statement of the transaction is recorded.
func (l *Log) First() bool { return len(l.steps) == 0 }

// Steps returns the recorded statements.
func (l *Log) Steps() []Step { return l.steps }

// Attempt is how often conflicts of the running statement have made the transaction run again.
func (l *Log) Attempt() int { return l.attempt }

// Replaying reports whether the steps before the present statement are being run again.
func (l *Log) Replaying() bool { return l.running }

// Again reports whether a transaction is being run again.
func (l *Log) Again() bool { return l.again }

// Outcome is how a statement ended.
type Outcome struct {
	// Open: its transaction continues. Keep: it may have to be run again.
	Open, Keep bool
	Failed     Sum
	// Size is the size of its text and arguments in bytes.
	Size int
	// Summed: its output is summed up already.
	Summed bool
}

// Keeps reports whether a statement that succeeds now would be kept.
func (l *Log) Keeps() bool { return l.off == "" && !l.opened }

// Ended records the statement that has just run, if Outcome.Keep says so.
func (l *Log) Ended(out Output, o Outcome, limits Limits, room *memory.Account) {
	cur := &l.cur
	if !o.Summed {
		cur.sum, cur.left, _ = out.Watched(o.Keep)
	}
	if o.Open && !l.opened {
		l.count++
	}
	if !o.Keep {
		return
	}
	if o.Failed != (Sum{}) {
		cur.failed, l.noted = o.Failed, true
	}
	cur.open, cur.number = false, l.count
	size := o.Size
	if t := cur.tape; t != nil {
		if size += t.size; t.full {
			size = math.MaxInt32
		}
	}
	l.keep(cur, size, limits, room)
}

// Noted reports whether the failure of the running statement is recorded already, and resets that.
func (l *Log) Noted() bool {
	noted := l.noted
	l.noted = false
	return noted
}

// Mark records the failure of a message that was not a statement's execution.
func (l *Log) Mark(out Output, limits Limits, room *memory.Account) {
	l.keep(&Step{marker: true, start: out.Mark().Position(), placed: true}, 0, limits, room)
}

func (l *Log) keep(st *Step, size int, limits Limits, room *memory.Account) {
	l.size += size + stepSize
	if len(l.steps) >= limits.Statements {
		l.TurnOff(fmt.Sprintf("it has more than %d statements (transaction_replay_statements)", limits.Statements))
		return
	}
	if l.size > limits.Bytes {
		l.TurnOff(limits.tooLarge())
		return
	}
	if room.Grow(int64(size+stepSize)) != nil {
		l.TurnOff("there is no memory to record its statements")
		return
	}
	l.steps = append(l.steps, *st)
}

// TapeLimit is how many bytes of a COPY may be recorded.
func (l *Log) TapeLimit(limits Limits) int { return limits.Bytes - l.size }

// Draw returns the number that the statement drew in its first run, or draws one.
func (l *Log) Draw(seq catalog.ID, fresh func() (int64, error)) (int64, error) {
	st := l.at
	if st.next < len(st.values) {
		if x := st.values[st.next]; x.seq == seq {
			st.next++
			return x.v, nil
		}
		l.drawn -= len(st.values) - st.next
		st.values = st.values[:st.next]
	}
	v, err := fresh()
	if err == nil && l.drawn < maxValues {
		st.values = append(st.values, value{seq, v})
		st.next = len(st.values)
		l.drawn++
	}
	return v, err
}

// SumUp takes the fingerprint of the running statement's output, before its transaction is run again.
func (l *Log) SumUp(out Output) (same bool) {
	l.cur.sum, l.cur.left, same = out.Watched(true)
	return same
}

// Unrepeatable says why the transaction can't be run again, whatever its output is; empty: it can.
func (l *Log) Unrepeatable(limits Limits) string {
	switch {
	case l.off != "":
		return l.off
	case l.cur.tape != nil && l.cur.tape.full:
		return limits.tooLarge()
	}
	return ""
}

// Seen reports whether a part of the transaction's output has been sent to the client.
func (l *Log) Seen() bool {
	for i := range l.steps {
		if l.steps[i].seen.Bytes > 0 {
			return true
		}
	}
	return l.cur.seen.Bytes > 0
}

// LayOut finds the part of each statement's output that has been sent, and takes the rest back from the buffer. It reports false if the parts do
// not fit together.
func (l *Log) LayOut(out Output) bool {
	left := out.Mark().Flushed
	var tail []byte
	from, prev := int64(-1), int64(0)
	for i := 0; i <= len(l.steps); i++ {
		st := &l.cur
		if i < len(l.steps) {
			st = &l.steps[i]
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
			tail = out.Take(from)
		} else if lo, hi := prev-from, st.start-from; lo <= hi && hi <= int64(len(tail)) {
			st.gap = tail[lo:hi:hi]
		} else {
			return false
		}
		st.seen = result.Fingerprint{}
		if st.start < left {
			if st.seen = st.left; st.seen.Bytes != left-st.start {
				return false
			}
		}
		prev, st.placed = end, false
	}
	return true
}

// Retry notes that the transaction is run again for the nth time.
func (l *Log) Retry(n int) { l.attempt = n }

// Rewind takes the portals of all statements back to their beginning. SQL cursors are declared again.
func (l *Log) Rewind() {
	for i := range l.steps {
		if p := l.steps[i].Portal; p != nil && !p.Declared {
			p.Rewind()
		}
	}
	if p := l.cur.Portal; p != nil && !p.Declared {
		p.Rewind()
	}
}

// Start notes that the recorded steps run again.
func (l *Log) Start() { l.running, l.again = true, true }

// Resume notes that the steps have run, and that the present statement runs again.
func (l *Log) Resume() { l.running = false }

// Done notes that no statement runs again.
func (l *Log) Done() { l.running, l.again, l.at = false, false, &l.cur }

// Place moves a statement, whose output is about to be written again, to the end of the output.
func (l *Log) Place(out Output, st *Step) {
	l.at = st
	st.Rewind()
	if st.whole {
		return
	}
	out.Give(st.gap)
	st.gap, st.placed, st.open = nil, true, true
	st.start = out.Mark().Position() - st.seen.Bytes
	st.sum, st.left = st.seen, st.seen
}

// Repeated notes that a marker has been placed again.
func (st *Step) Repeated() { st.open = false }

// Watched ends the output of a step that ran again, and returns its fingerprint for Compare.
func (st *Step) Watched(out Output) Writing {
	all, left, same := out.Watched(true)
	if !st.whole {
		st.sum, st.left = all, left
	}
	return Writing{all, same}
}

// Writing identifies the output of a step that ran again.
type Writing struct {
	all  result.Fingerprint
	same bool // as the part that the client has seen
}

// Verdict is how a step that ran again compares with its first run.
type Verdict uint8

const (
	// Same: it has succeeded again, with the output that the client has seen.
	Same Verdict = iota
	// SameFailure: it has failed again, with the same error.
	SameFailure
	// NewFailure: it has succeeded or failed differently in its first run, and the client has seen nothing of that. So this failure is its result; the
	// steps after it are not run, and the transaction is not run again.
	NewFailure
	// Different: the client has seen another result.
	Different
)

// Compare compares a step that ran again with its first run. err is its error, and sum identifies that.
func (l *Log) Compare(st *Step, w Writing, err error, sum Sum) Verdict {
	if errors.Is(err, result.ErrDiffers) || !w.same || st.whole && w.all != st.seen {
		return Different
	}
	failed := st.failed != Sum{}
	switch {
	case err == nil && !failed:
		st.open = false
		return Same
	case err != nil && failed && sum == st.failed:
		st.open = false
		return SameFailure
	case err != nil && st.seen.Bytes == 0 && !st.whole:
		l.TurnOff("a statement failed when it was run again")
		return NewFailure
	}
	return Different
}

// CommitFailed notes that the running statement succeeded and that its implicit transaction could not commit: its output is taken back.
func (l *Log) CommitFailed(out Output) { l.cur.sum.Bytes = out.Mark().Position() - l.cur.start }

// Different is the error for a statement that has another result now than the client has seen.
func (l *Log) Different(st *Step, cause error) *DiffersError {
	number := st.number
	if st == &l.cur {
		number = l.count + 1
	}
	return &DiffersError{Number: number, Text: st.Text, Cause: cause}
}

// DiffersError says that a statement has another result than the client has seen.
type DiffersError struct {
	Number int
	Text   string
	Cause  error
}

func (d *DiffersError) Error() string {
	return fmt.Sprintf("replay: statement %d has another result", d.Number)
}
func (d *DiffersError) Unwrap() error { return d.Cause }
