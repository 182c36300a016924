package register

import (
	"slices"

	"meridian/clock"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
)

// Kind of a request to an acceptor.
type Kind uint8

const (
	// Query asks for the register.
	Query Kind = iota + 1
	// Store brings a version that counts, whatever transactions do.
	Store
	// Promise asks to accept nothing in an earlier ballot of a decree.
	Promise
	// Accept asks to accept an outcome of a decree.
	Accept
	// Resolve says that a transaction has ended: its provisional writes go, and with a commit the version comes along.
	Resolve
)

func (k Kind) String() string {
	return [...]string{"", "query", "store", "promise", "accept", "resolve"}[k]
}

// Request is what an acceptor is asked.
type Request struct {
	Kind    Kind
	Key     keys.Key
	Version Version
	// Decree is the instance and the ballot (Promised; Accepted too, of an Accept), with what is to be accepted.
	Decree Decree
	// Txn is who has ended, with all attempts up to Attempt.
	Txn     kv.TxnID
	Attempt uint32
	// Generation is that of the promises for which an Accept is sent in a later ballot than the first.
	Generation uint64
}

// Reply is what an acceptor answers.
type Reply struct {
	// Register is the answer to a Query.
	Register Register
	// Decree is how the acceptor stands to the instance of a Promise or an Accept after it. If it has promised another
	// ballot than that of the request, it has refused.
	Decree Decree
	// Floor is at or above all that the range's earlier protocols have read and written.
	Floor clock.Timestamp
	// Generation is the acceptor's.
	Generation uint64
}

// Message is a request to an acceptor, or its reply.
type Message = core.Call[Request, Reply]

// Acceptor is one replica's part of all registers of a range, in one generation. It is a core (package core): its requests
// come in, and replies come out once what they promise is durable (register.RG1). It is of one generation: whoever holds it
// makes a new one for each, and shows it no request that was sent to another. An Accept that is sent again in the next generation has
// promises of an earlier one, which are void, and is refused (register.RG3).
type Acceptor struct {
	registers  map[string]*state
	generation uint64
	// floor is at or above all that was written or prevented in earlier generations, under whichever protocol.
	floor   clock.Timestamp
	fx      Effects
	last    core.Ticket // of the latest Persist
	durable core.Ticket
	// held are replies that wait for Persists of earlier effects.
	held []heldReply
}

// Write is a register that has to become durable.
type Write = Entry

// Effects are an acceptor's.
type Effects = core.Effects[Message, Write, struct{}]

type state struct {
	Register
	// changed in this generation: it is not what the base has.
	changed bool
}

type heldReply struct {
	after core.Ticket
	m     Message
}

// NewAcceptor makes an acceptor that has the given state of its generation: what it made durable before it was stopped. floor is that
// of the generation, last the latest ticket of what may not be durable yet of delta.
func NewAcceptor(generation uint64, floor clock.Timestamp, delta []Entry, last core.Ticket) *Acceptor {
	a := &Acceptor{registers: map[string]*state{}, generation: generation, floor: floor, last: last}
	for _, e := range delta {
		a.registers[string(e.Key)] = &state{Register: *e.clone(), changed: true}
	}
	return a
}

// Knows reports whether the acceptor knows the register. If not, Load comes before its first request.
func (a *Acceptor) Knows(k keys.Key) bool { return a.registers[string(k)] != nil }

// Load tells what the base has of a register.
func (a *Acceptor) Load(k keys.Key, base Register) {
	if !a.Knows(k) {
		a.registers[string(k)] = &state{Register: *base.clone()}
	}
}

// Report is all that differs from the base, in order of keys (register.RG3).
func (a *Acceptor) Report() []Entry {
	var out []Entry
	for k, s := range a.registers {
		if s.changed {
			out = append(out, Entry{keys.Key(k), *s.clone()})
		}
	}
	slices.SortFunc(out, func(x, y Entry) int { return x.Key.Compare(y.Key) })
	return out
}

// Step takes in a request.
func (a *Acceptor) Step(_ clock.Timestamp, m Message) {
	q := m.Request
	s := a.registers[string(q.Key)]
	reply, changed := &Reply{Generation: a.generation, Floor: a.floor}, false
	switch q.Kind {
	case Query:
		reply.Register = *s.clone()
	case Store:
		changed = s.store(q.Version)
	case Promise:
		d := a.decree(s, q.Decree.Instance)
		if d.Promised.Less(q.Decree.Promised) {
			d.Promised, changed = q.Decree.Promised, true
		}
		reply.Decree = *d
	case Accept:
		if q.Decree.Promised.Round > 0 && q.Generation != a.generation {
			reply.Decree.Instance = q.Decree.Instance // refused, as no ballot was promised
			break
		}
		d := a.decree(s, q.Decree.Instance)
		if !q.Decree.Promised.Less(d.Promised) && (d.Outcome == Open || d.Accepted.Less(q.Decree.Promised)) {
			*d, changed = q.Decree, true
			d.Accepted = d.Promised
		}
		reply.Decree = *d
	case Resolve:
		if !q.Version.At.IsZero() {
			changed = s.store(q.Version)
		}
		n := len(s.Decrees)
		s.Decrees = slices.DeleteFunc(s.Decrees, func(d Decree) bool {
			// Preventions stay: the write may still come (register.RG4).
			return d.Txn == q.Txn && d.Attempt <= q.Attempt && d.Outcome != Prevented
		})
		changed = changed || len(s.Decrees) != n
	}
	if changed {
		s.changed = true
		if len(a.fx.Persist) == 0 {
			a.last++
			a.fx.Ticket = a.last
		}
		a.fx.Persist = append(a.fx.Persist, Write{q.Key, *s.clone()})
	}
	// Others may rely on the reply, so the state that it reports is durable, whichever request made it so.
	r := Message{ID: m.ID, Reply: reply}
	switch {
	case len(a.fx.Persist) > 0:
		a.fx.After = append(a.fx.After, r)
	case a.durable < a.last:
		a.held = append(a.held, heldReply{a.last, r})
	default:
		a.fx.Send = append(a.fx.Send, r)
	}
}

// decree is the state of an instance. At or below the floor it was decided by the end of the generation before: what the base lacks is
// prevented (register.RG7). All acceptors of a generation say so, as if each had accepted it in the first ballot.
func (a *Acceptor) decree(s *state, i Instance) *Decree {
	d := s.decree(i)
	if d.Outcome == Open && i.At.LessEq(a.floor) {
		d.Outcome = Prevented
	}
	return d
}

func (r *Register) store(v Version) bool {
	if v.Compare(&r.Newest) <= 0 {
		return false
	}
	r.Newest = v
	return true
}

// Tick does nothing: an acceptor does not know time.
func (a *Acceptor) Tick(clock.Timestamp) {}

// Durable says that every Persist up to a ticket is on disk.
func (a *Acceptor) Durable(upTo core.Ticket) {
	a.durable = upTo
	n := 0
	for ; n < len(a.held) && a.held[n].after <= upTo; n++ {
		a.fx.Send = append(a.fx.Send, a.held[n].m)
	}
	a.held = slices.Delete(a.held, 0, n)
}

// Effects drains what must happen now.
func (a *Acceptor) Effects() Effects {
	fx := a.fx
	a.fx = Effects{}
	return fx
}
