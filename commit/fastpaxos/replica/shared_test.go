package replica

import (
	"fmt"
	"strings"

	"meridian/clock"
	"meridian/commit/fastpaxos/core"
)

// plain has rows of one column, an int64 in text.
type plain struct{}

func (plain) Column(row []byte, _ uint32) (int64, bool) {
	var n int64
	_, err := fmt.Sscan(string(row), &n)
	return n, err == nil
}

func (p plain) Add(row []byte, ds []core.Delta) ([]byte, error) {
	n, _ := p.Column(row, 0)
	for _, d := range ds {
		n += d.Amount
	}
	return fmt.Append(nil, n), nil
}

func show(r *core.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%v%d|%d=%s", r.Promised, r.Accepted, r.Sequence, r.Base.At.Wall, r.Base.Data)
	for _, a := range r.Added {
		fmt.Fprintf(&b, "+%d%v%v", a.At.Wall, a.Started, a.Fixed)
	}
	for _, v := range r.Votes {
		fmt.Fprintf(&b, " %d%v%v", v.At.Wall, v.Verdict, v.Fixed)
	}
	for _, e := range r.Recent {
		fmt.Fprintf(&b, " e%d%v", e.At.Wall, e.Committed)
	}
	return b.String()
}

func at(n int64) (o core.Name) {
	o.Txn[0], o.At.Wall = byte(n), n
	return o
}

func physical(n int64) core.Option {
	return core.Option{Name: at(n), Update: core.Update{Seen: core.Seen{Base: clock.Timestamp{Wall: 1}}, Value: fmt.Append(nil, n)}}
}

func less(n, by int64) core.Option {
	return core.Option{Name: at(n), Update: core.Update{Seen: core.Seen{Base: clock.Timestamp{Wall: 1}}, Deltas: []core.Delta{{Amount: -by, Min: 0, Max: 1 << 40}}}}
}
