package register

import (
	"fmt"
	"iter"

	"meridian/clock"
	"meridian/commit/acceptor"
	"meridian/core"
	"meridian/keys"
	"meridian/kv"
	"meridian/rangeserver"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
	"meridian/wire"
)

// acceptors are driven by package acceptor.
var acceptors = acceptor.Protocol[*Acceptor, Request, Reply, Entry]{
	Name: "register",
	New: func(g *rangeserver.Range, generation uint64, delta []Entry, last core.Ticket) *Acceptor {
		return NewAcceptor(generation, g.Generation().Floor, delta, last)
	},
	Load: func(a *Acceptor, base *acceptor.Base, k keys.Key) error {
		g, err := Base(base.Reader, k)
		if err == nil {
			a.Load(k, g)
		}
		return err
	},
	Decode: DecodeRequest,
	Key:    func(q *Request) keys.Key { return q.Key },
	Append: func(b []byte, r *Reply) []byte { return r.Append(b) },
	Store:  func(d *rangeserver.Delta, e *Entry) { d.Put(e.Key, wire.Append(nil, &e.Register, (*Register).fields)) },
	Stored: func(entries iter.Seq2[[]byte, []byte]) (out []Entry, err error) {
		for k, v := range entries {
			e := Entry{Key: append(keys.Key(nil), k...)}
			if err := decodeRegister(v, &e.Register); err != nil {
				return nil, fmt.Errorf("the delta of %s: %w", keys.Masked(e.Key), err)
			}
			out = append(out, e)
		}
		return out, nil
	},
	Pieces: func(e *Entry, send func([]byte) error) error { return send(e.Append(nil)) },
	Last:   func(e *Entry) clock.Timestamp { return e.Register.last(Instance{}) },
}

type participant struct {
	*acceptor.Participant[*Acceptor, Request, Reply, Entry]
}

func newParticipant(g *rangeserver.Range) rangeserver.Participant {
	return participant{acceptor.New(&acceptors, g)}
}

// Receive gets nothing: replicas of this protocol do not talk to each other.
func (participant) Receive(kv.ReplicaDescriptor, []byte) {}

// sideName is the name of the protocol key next to a row that has a register's decrees.
const sideName = "register"

func sideKey(k keys.Key) keys.Key { return keys.ProtocolKey(k, []byte(sideName)) }

// besides are the registers of a range that have such a key.
func besides(src engine.Reader, d *kv.RangeDescriptor) (out []Entry, err error) {
	span := keys.RangeLocalSpan(d.Start, d.End)
	it, err := src.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.End})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		k, _ := it.Key()
		addr, name, err := keys.DecodeProtocolKey(k)
		if err != nil || string(name) != sideName {
			continue
		}
		e := Entry{Key: append(keys.Key(nil), addr...)}
		if e.Register, err = Base(src, e.Key); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, it.Error()
}

// Base reads a register from the range's replicated data.
func Base(src engine.Reader, k keys.Key) (g Register, err error) {
	side, err := src.Get(sideKey(k))
	if err != nil {
		return g, err
	}
	if side != nil {
		if err := decodeRegister(side, &g); err != nil {
			return g, fmt.Errorf("register: protocol key of %s: %w", k, err)
		}
	}
	r := mvcc.NewReader(src)
	defer r.Close()
	v, _, err := r.Newest(k)
	if err == nil && v != nil && g.Newest.At.Less(v.Timestamp) {
		g.Newest = Version{At: v.Timestamp, Value: v.Value}
	}
	return g, err
}
