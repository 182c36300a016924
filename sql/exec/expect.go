package exec

import (
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
)

// expecter is implemented by a KV that goes by another commit protocol than the leader's from the beginning, where it is told so: it need not ask a leaseholder first.
type expecter interface {
	Expect(s keys.Span, p kv.Protocol)
}

// expected is a part of the keyspace with the commit protocol that its table has.
type expected struct {
	span     keys.Span
	protocol kv.Protocol
}

// expects notes the protocol of a table. While that is being changed, only the ranges know.
func (b *builder) expects(t *catalog.Table) {
	if t.Protocol.Default() || t.Reprotocol {
		return
	}
	for i := range t.Indexes {
		p := keys.IndexPrefix(t.ID, t.Indexes[i].ID)
		s := keys.Span{Start: p, End: p.PrefixEnd()}
		for _, x := range b.prog.expects {
			if x.span.Start.Equal(p) {
				return
			}
		}
		b.prog.expects = append(b.prog.expects, expected{s, kv.Protocol(t.Protocol)})
	}
}

// expect tells the transaction.
func (r *run) expect() {
	if len(r.prog.expects) == 0 {
		return
	}
	if x, ok := r.kv.(expecter); ok {
		for _, e := range r.prog.expects {
			x.Expect(e.span, e.protocol)
		}
	}
}
