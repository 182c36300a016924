package core

import (
	"slices"
	"time"

	"meridian/clock"
	"meridian/keys"
	"meridian/kv"
)

// safe is the state that a master may propose after a classic quorum, or more, has promised it a ballot (algorithm 2, ProvedSafe): what may have
// been learned in the latest ballot that one of them has accepted something in, and no more. free are options that were not learned, and
// can't be any more but by the master.
func safe(reports []*Record, q Quorums) (state *Record, free []Option) {
	lead := reports[0]
	for _, r := range reports[1:] {
		if c := r.Accepted.Compare(lead.Accepted); c > 0 || c == 0 && r.Sequence > lead.Sequence {
			lead = r
		}
	}
	state = lead.Clone()
	if lead.Accepted.Open() {
		state.Votes = slices.DeleteFunc(state.Votes, func(v Vote) bool { return !v.Fixed })
		// A fast quorum has so many of those that were heard. They count if they are in the ballot.
		enough := q.common(len(reports))
		var seen []Name
		for _, r := range reports {
			if r.Accepted != lead.Accepted {
				continue
			}
			for i := range r.Votes {
				v := &r.Votes[i]
				if v.Fixed || slices.Contains(seen, v.Name) {
					continue
				}
				seen = append(seen, v.Name)
				switch {
				case count(reports, lead.Accepted, v.Name, Accepted) >= enough:
					state.Votes = append(state.Votes, Vote{Option: v.Option, Verdict: Accepted})
				case count(reports, lead.Accepted, v.Name, Rejected) >= enough:
					state.Votes = append(state.Votes, Vote{Option: v.Option, Verdict: Rejected})
				default:
					free = append(free, v.Option)
				}
			}
		}
		// An option of an earlier ballot may have come to a majority through an earlier master, or be new to all; or it is in this ballot, too, and counts there.
		for _, r := range reports {
			for i := range r.Votes {
				if v := &r.Votes[i]; r.Accepted != lead.Accepted && !v.Fixed && !slices.Contains(seen, v.Name) && state.Vote(v.Name) == nil {
					seen, free = append(seen, v.Name), append(free, v.Option)
				}
			}
		}
	}
	for _, r := range reports {
		state.Learn(r)
		state.Mark = state.Mark.join(r.Mark)
	}
	free = slices.DeleteFunc(free, func(o Option) bool { return state.Outcome(o.Name) != Undecided || state.Vote(o.Name) != nil })
	slices.SortFunc(free, func(a, b Option) int { return a.Compare(b.Name) })
	return state, free
}

func count(reports []*Record, b Ballot, n Name, v Verdict) (found int) {
	for _, r := range reports {
		if r.Accepted != b {
			continue
		}
		if x := r.Vote(n); x != nil && x.Verdict == v {
			found++
		}
	}
	return found
}

type masterPhase uint8

const (
	resting masterPhase = iota
	preparing
	ruling
)

// Master decides about the options of one record that gateways could not decide by themselves (§3.3): because they collided, because a bound
// was met, because their gateway is gone, or because the record is hot. It is a value as Commit is: Request says what all acceptors have to be
// asked now, and Answer takes in what one of them replied.
type Master struct {
	key     keys.Key
	me      uint64
	Quorums Quorums
	cols    Columns
	// Gamma is how many options the master decides about before it opens the record to all again (§3.3.2). If judges is set, that is only so for a record that is hot.
	Gamma, left int
	Judges      bool
	// refreshed says that the state has more than the last one that was proposed (Refresh). Nothing is learned by it, and nothing is folded, before a quorum has accepted it.
	refreshed bool
	// Generation is that of the range for which it was made; zero: it is not compared (fastpaxos.FP68).
	Generation uint64
	// Term, if it is not nil, is the one in which the master has begun (term.go).
	Term *Term

	phase    masterPhase
	ballot   Ballot
	sequence uint64
	// Highest is the latest ballot of others that was heard of.
	Highest Ballot
	heard   []kv.ReplicaID
	reports []*Record
	// others are reports of those that did not promise.
	others     []report
	State      *Record
	Settled    *Record        // the latest state that a classic quorum has accepted
	acks       []kv.ReplicaID // of the present sequence
	Wants      []Want
	Unreported []Learned
	// Decided counts the wants of the present ballot. hold says that more will be wanted, so that the record is not opened yet.
	Decided int
	Hold    bool
}

type report struct {
	from kv.ReplicaID
	*Record
}

// Want is what somebody has asked a master for.
type Want struct {
	Option
	// prevent: nobody knows the option's update; if no acceptor does either, it is rejected.
	prevent bool
	// mark: the option is none, and its name is a promise to a reader (Mark.name).
	mark bool
	// at is the sequence in which it was decided; zero: not yet.
	at uint64
}

// Learned is an option with what became of it.
type Learned struct {
	Name
	Verdict Verdict
	// Ended says that the verdict is the transaction's: it has ended.
	Ended bool
	// Option is all of it, unless it has ended, or was prevented, or a fold has decided.
	Option *Option
	// Mark, if it was rejected because of a promise to a reader, is that one's timestamp (Reply.Mark).
	Mark clock.Timestamp
	// Blocker, if it was rejected, is an option of another transaction that stood in the way (Reply.Blocker).
	Blocker *Option
}

// NewMaster makes a master of a record. me is nobody else's number.
func NewMaster(k keys.Key, me uint64, q Quorums, cols Columns, gamma int) *Master {
	return &Master{key: k, me: me, Quorums: q, cols: cols, Gamma: gamma}
}

// Want asks for a decision about an option. prevent says that its update is not known.
func (m *Master) Want(o Option, prevent bool) { m.want(Want{Option: o, prevent: prevent}) }

// WantMark asks for a promise to a reader, and is learned as past.
func (m *Master) WantMark(n Name) { m.want(Want{Option: Option{Name: n}, mark: true}) }

func (m *Master) want(w Want) {
	lost := m.Lost() // then it waits before it takes the record back (Resume)
	m.Wants = append(m.Wants, w)
	if m.phase == ruling {
		m.rule()
	} else if m.phase == resting && !lost {
		m.prepare()
	}
}

// Learned drains the decisions.
func (m *Master) Learned() []Learned {
	l := m.Unreported
	m.Unreported = nil
	return l
}

// Idle reports whether the master keeps the record, and nothing is wanted of it: a classic quorum has accepted its state.
func (m *Master) Idle() bool {
	return m.phase == ruling && !m.ballot.Fast && len(m.Wants) == 0 && len(m.acks) >= m.Quorums.Classic
}

// Request is what all acceptors are to be asked, nil if nothing.
func (m *Master) Request() *Request {
	if m.Idle() {
		return nil
	}
	switch m.phase {
	case preparing:
		return &Request{Kind: Prepare, Key: m.key, Ballot: m.ballot, Generation: m.Generation}
	case ruling:
		if m.sequence == 0 {
			return nil // of a term: nothing is wanted yet
		}
		return &Request{Kind: Dictate, Key: m.key, Ballot: m.ballot, Sequence: m.sequence, State: m.State, Generation: m.Generation}
	}
	return nil
}

func (m *Master) prepare() {
	m.phase = preparing
	m.ballot = Ballot{Round: max(m.Highest.Round, m.ballot.Round) + 1, Master: m.me}
	m.heard, m.reports, m.others = nil, nil, nil
	for i := range m.Wants {
		m.Wants[i].at = 0
	}
}

// Answer takes in the reply to the request of a ballot and a sequence.
func (m *Master) Answer(from kv.ReplicaID, q *Request, r *Reply) {
	if m.Highest.Less(r.Promised) {
		m.Highest = r.Promised
	}
	if m.Term != nil && r.Term && m.Term.Ballot.Less(r.Promised) {
		m.Term.Over.Store(true)
	}
	if q.Ballot != m.ballot {
		return
	}
	if r.Record != nil && m.ballot.Less(r.Promised) {
		m.overhear(from, r.Record)
	}
	if m.phase == resting {
		return
	}
	if m.ballot.Less(r.Promised) {
		// Somebody else is the master now; what is wanted begins anew, later (the driver waits for a while that it draws).
		m.phase, m.State = resting, nil
		return
	}
	switch {
	case m.phase == preparing && q.Kind == Prepare:
		if slices.Contains(m.heard, from) {
			return
		}
		m.heard, m.reports = append(m.heard, from), append(m.reports, r.Record)
		if len(m.heard) >= m.Quorums.Classic {
			m.begin()
		}
	case m.phase == ruling && q.Kind == Dictate && q.Sequence == m.sequence:
		if r.Ballot != m.ballot || r.Sequence < m.sequence || slices.Contains(m.acks, from) {
			return
		}
		m.acks = append(m.acks, from)
		if len(m.acks) == m.Quorums.Classic {
			m.settle()
		}
	}
}

// overhear takes in the record of an acceptor that has promised a later ballot. The other master may have decided about what is wanted here
// (fastpaxos.FP51).
func (m *Master) overhear(from kv.ReplicaID, r *Record) {
	if slices.ContainsFunc(m.others, func(o report) bool { return o.from == from }) {
		return
	}
	m.others = append(m.others, report{from, r})
	m.Wants = slices.DeleteFunc(m.Wants, func(w Want) bool {
		if out := r.Outcome(w.Name); out == Accepted || out == Rejected {
			m.Unreported = append(m.Unreported, Learned{Name: w.Name, Verdict: out, Ended: true})
			return true
		}
		v := r.Vote(w.Name)
		if v == nil || !v.Fixed {
			return false
		}
		n := 0
		for _, o := range m.others {
			if x := o.Vote(w.Name); x != nil && x.Fixed && x.Verdict == v.Verdict && o.Accepted.Round == r.Accepted.Round && o.Accepted.Master == r.Accepted.Master {
				n++
			}
		}
		if n < m.Quorums.Classic {
			return false
		}
		l := Learned{Name: w.Name, Verdict: v.Verdict, Option: &v.Option}
		if l.Verdict == Rejected {
			l.Blocker = r.blocker(&v.Option)
		}
		m.Unreported = append(m.Unreported, l)
		return true
	})
}

// Lost reports whether something is wanted, but somebody else is the master now.
func (m *Master) Lost() bool { return m.phase == resting && len(m.Wants) > 0 }

// Opening reports whether the master is giving the record back to all: until it rests it may decide about nothing more.
func (m *Master) Opening() bool { return m.phase == ruling && m.ballot.Fast }

// Resume begins another ballot, if something is wanted and the last one was lost to somebody else.
func (m *Master) Resume() {
	if m.phase == resting && len(m.Wants) > 0 {
		m.prepare()
	}
}

// begin takes what is safe, and decides about the rest.
func (m *Master) begin() {
	state, free := safe(m.reports, m.Quorums)
	Started(state)
	state.Promised, state.Accepted, state.Sequence = m.ballot, m.ballot, 0
	m.phase, m.State, m.sequence, m.left = ruling, state, 0, m.Gamma
	if m.Judges && !m.hot() {
		m.left = 0
	}
	for i := range free {
		m.decide(&free[i])
	}
	m.rule()
}

// Started makes a state the one that a ballot begins with: bounds are counted from its value (§3.4.2). It is closed before the first option
// that has not ended.
func Started(r *Record) {
	for i := range r.Votes {
		r.Votes[i].Fixed = true
	}
	for i := range r.Added {
		a := &r.Added[i]
		a.Started, a.Fixed = true, true
		if !r.accepted(func(v *Vote) bool { return v.At.LessEq(a.At) }) {
			r.Closed = r.Closed.Forward(a.At)
		}
	}
}

// fold makes a new base of what was executed up to Closed (§3.4.2). A classic quorum has that state, so every later one has it too, and
// whoever makes this version makes the same (fastpaxos.FP7).
func fold(r *Record, cols Columns) {
	n := 0
	var ds []Delta
	for n < len(r.Added) && r.Added[n].At.LessEq(r.Closed) {
		ds = append(ds, r.Added[n].Deltas...)
		n++
	}
	if n == 0 {
		return
	}
	row, err := r.Base.Data, error(nil)
	if len(ds) > 0 { // else they are guards
		row, err = cols.Add(row, ds)
	}
	if err == nil { // else the record goes on with the old base
		r.Base, r.Added = Value{At: r.Added[n-1].At, Data: row}, slices.Clone(r.Added[n:])
	}
}

func (m *Master) decide(o *Option) {
	s := m.State.Clone()
	v := s.judge(o, m.cols, m.Quorums, true)
	s.Votes = append(s.Votes, Vote{Option: *o, Verdict: v, Fixed: true})
	m.State = s
}

// rule decides about what is wanted, and proposes it. Options that the present proposal has already need no other one.
func (m *Master) rule() {
	first := m.sequence == 0
	changed := first || m.refreshed && len(m.Wants) > 0
	if t := m.Term; t != nil && m.ballot == t.Ballot {
		// In this order: see fastpaxos.FP94.
		if mark := m.State.Mark.join(t.opens(m.key)); mark != m.State.Mark {
			s := m.State.Clone()
			s.Mark = mark
			m.State = s
		}
	}
	for i := range m.Wants {
		w := &m.Wants[i]
		if w.at > 0 {
			continue
		}
		m.Decided++
		if w.mark {
			s := m.State.Clone()
			s.Mark = s.Mark.join(MarkOf(w.Name))
			m.State, w.at, changed = s, m.sequence+1, true
			continue
		}
		if m.State.Vote(w.Name) != nil || m.State.Outcome(w.Name) != Undecided || w.prevent && w.At.LessEq(m.State.Base.At) { // the last: Past
			if w.at = m.sequence; changed {
				w.at++
			}
			continue
		}
		if w.at, changed = m.sequence+1, true; w.prevent {
			s := m.State.Clone()
			s.Votes = append(s.Votes, Vote{Option: w.Option, Verdict: Rejected, Fixed: true})
			m.State = s
			continue
		}
		m.decide(&w.Option)
		m.left--
	}
	if changed {
		m.next()
	} else if len(m.acks) >= m.Quorums.Classic {
		m.settle()
	}
}

func (m *Master) next() {
	m.sequence++
	m.refreshed = false
	s := *m.State
	s.Sequence, s.Accepted, s.Promised = m.sequence, m.ballot, m.ballot
	m.State, m.acks = &s, nil
}

// Learnt is what a state says of an option, which a classic quorum has accepted in one ballot: all of it is learned (fastpaxos.FP2).
func (r *Record) Learnt(n Name) Learned {
	l := Learned{Name: n, Verdict: r.Outcome(n)}
	if vote := r.Vote(n); vote != nil {
		l.Verdict, l.Option = vote.Verdict, &vote.Option
		if l.Verdict == Rejected {
			l.Blocker = r.blocker(&vote.Option)
			if r.Mark.bars(&vote.Option) {
				l.Mark = r.Mark.At
			}
		}
	} else {
		l.Ended = l.Verdict == Accepted || l.Verdict == Rejected
	}
	return l
}

// settle: a classic quorum has accepted the present state, so all of it is learned.
func (m *Master) settle() {
	if m.Term != nil && m.ballot == m.Term.Ballot {
		m.Term.settled(m.key)
	}
	m.Wants = slices.DeleteFunc(m.Wants, func(w Want) bool {
		if w.at == 0 || w.at > m.sequence {
			return false
		}
		l := m.State.Learnt(w.Name)
		if l.Verdict == Undecided {
			l.Verdict = Past
		}
		m.Unreported = append(m.Unreported, l)
		return true
	})
	m.Settled = m.State
	switch {
	case m.ballot.Fast:
		// Anyone may add options now, so the master may not.
		m.phase, m.State, m.Decided = resting, nil, 0
	case !m.Hold:
		m.Open()
	}
}

// Open gives the record back to all, if the master has decided about everything that is wanted, and about enough.
func (m *Master) Open() {
	if m.phase == ruling && !m.ballot.Fast && m.left <= 0 && len(m.Wants) == 0 {
		m.ballot.Fast = true
		m.State = m.State.Clone()
		if !m.refreshed { // else no quorum has its Closed yet
			fold(m.State, m.cols)
		}
		Started(m.State)
		m.next()
	}
}

// Take has the master begin a ballot though nothing is wanted, and keep the record for as many options as gamma says.
func (m *Master) Take() {
	if m.phase == resting {
		m.prepare()
	}
}

// A record is hot if it had hotOptions options hotWithin: a collision costs about two rounds more, and is likely if another option comes within one or two.
// Chosen by us, and measured with figure 6 (docs/mdcc/figure6.md).
const hotOptions, hotWithin = 6, 4 * time.Second

// hot reports whether the state, and what is wanted, show so many options of late that a fast ballot would probably collide again.
func (m *Master) hot() bool {
	var at []clock.Timestamp
	for i := range m.State.Recent {
		at = append(at, m.State.Recent[i].At)
	}
	for i := range m.State.Votes {
		at = append(at, m.State.Votes[i].At)
	}
	for i := range m.Wants {
		if w := &m.Wants[i]; !w.mark && m.State.Vote(w.Name) == nil {
			at = append(at, w.At)
		}
	}
	if len(at) < hotOptions {
		return false
	}
	slices.SortFunc(at, clock.Timestamp.Compare)
	return at[len(at)-1].Wall-at[len(at)-hotOptions].Wall <= int64(hotWithin)
}

// Release has the master open the record, as soon as nothing is wanted of it.
func (m *Master) Release() {
	m.left = 0
	m.Open()
}

// Refresh takes in the versions and outcomes that a replica knows, and begins to count bounds from the value that they come to, as a ballot does: the next state that is proposed has no options
// more than those that have not ended, however long the ballot lasts. If version is set, updates up to Closed become a version, since a classic quorum has accepted the present state
// (fastpaxos.FP7): an option that was made before for the version that there was is rejected then.
func (m *Master) Refresh(r *Record, version bool) {
	if m.phase != ruling || m.ballot.Fast || len(m.acks) < m.Quorums.Classic || m.refreshed {
		return
	}
	s := m.State.Clone()
	s.Learn(r)
	s.catchUp()
	if n := len(s.Recent); n > fewEnded {
		s.Forget(s.Recent[n-1].At.Add(-Remembered))
	}
	if version {
		fold(s, m.cols)
	}
	Started(s)
	m.State, m.Decided, m.refreshed = s, len(s.Votes), true
}

// Outstanding is how many options of the state have not ended, as far as the master knows.
func (m *Master) Outstanding() int {
	if m.State == nil {
		return 0
	}
	return len(m.State.Votes)
}

// Stands reports whether an option was accepted, and has not ended.
func (l *Learned) Stands() bool { return l.Verdict == Accepted && !l.Ended }

// Plan says for how long a master that rests, and is asked again, goes on.
func (m *Master) Plan() {
	if m.Judges {
		if m.left = m.Gamma; !m.hot() {
			m.left = 0
		}
	}
}

// Next is the state in which all replicas have a record when a generation begins, from the states of a quorum of sealed replicas at the end of
// the one before. It is what a master would propose in a ballot above all others, which accepts nothing (fastpaxos.FP9): options that may have been
// learned as accepted are outstanding, all others rejected.
func Next(reports []*Record, q Quorums, cols Columns) *Record {
	r, free := safe(reports, q)
	for i := range free {
		r.End(&free[i], false)
	}
	for i := 0; i < len(r.Votes); {
		if v := r.Votes[i]; v.Verdict != Accepted {
			r.End(&v.Option, false)
		} else {
			i++
		}
	}
	r.catchUp()
	Started(r)
	fold(r, cols)
	r.Promised, r.Accepted, r.Sequence, r.Closed, r.Mark = Ballot{}, Ballot{}, 0, clock.Timestamp{}, Mark{} // the floor is above all marks
	return r
}

// catchUp executes what others of the options prove to be committed (fastpaxos.FP3): one that has ended was told to a replica that lacked the
// version that it was made for.
func (r *Record) catchUp() {
	for _, a := range slices.Clone(r.Added) {
		r.prove(&a.Option)
	}
	for _, v := range slices.Clone(r.Votes) {
		if r.Base.At.Less(v.Seen.Base) {
			r.prove(&v.Option)
		}
	}
}

// Finished reports whether a transaction has committed, all of whose options are decided. One whose record knows the outcome says it for all: others may be forgotten.
func Finished(learned []Learned) (committed bool) {
	committed = len(learned) > 0
	for i := range learned {
		committed = committed && learned[i].Verdict == Accepted
	}
	for i := range learned {
		if learned[i].Ended {
			committed = learned[i].Verdict == Accepted
		}
	}
	return committed
}
