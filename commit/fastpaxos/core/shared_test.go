package core

import (
	"meridian/clock"
	"meridian/keys"
)

type deltaMap map[string]string

func (d deltaMap) Put(name, value []byte) { d[string(name)] = string(value) }

func (d deltaMap) Delete(name []byte) { delete(d, string(name)) }

func wall(n int64) clock.Timestamp { return clock.Timestamp{Wall: n} }

// old is a record that has the version "v" since 1.
func old() *Record { return &Record{Base: Value{At: wall(1), Data: []byte("v")}} }

func with(r *Record, change func(*Record)) *Record {
	change(r)
	return r
}

func votes(v Verdict, os ...Option) func(*Record) {
	return func(r *Record) {
		for _, o := range os {
			r.Votes = append(r.Votes, Vote{Option: o, Verdict: v})
		}
	}
}

func numbered() *Record { return &Record{Base: Value{At: wall(1), Data: []byte("3")}} }

// ask has an acceptor answer, and be durable.
func ask(a *Acceptor, q *Request) *Reply {
	a.Step(clock.Timestamp{}, Message{Request: q})
	fx := a.Effects()
	if fx.Ticket != 0 {
		a.Durable(fx.Ticket)
	}
	return append(fx.Send, fx.After...)[0].Reply
}

func rowKey(k string) keys.Key { return append(keys.TableKey(uint32(100)), k...) }
