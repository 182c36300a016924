package replica

import (
	"meridian/commit/fastpaxos/core"
	"meridian/keys"
	"meridian/storage/engine"
	"meridian/storage/mvcc"
)

// besides reads it. The index is read last, so that all that the acceptor knows of the base is in the log up to there.
func (a *Voter) besides(src engine.Reader, span keys.Span, applied func(engine.Reader) (uint64, error)) (*core.Beside, error) {
	out := &core.Beside{}
	if !a.bare {
		local := keys.RangeLocalSpan(span.Start, span.End)
		it, err := src.NewIter(engine.IterOptions{Lower: local.Start, Upper: local.End})
		if err != nil {
			return nil, err
		}
		for ok := it.First(); ok && len(out.Apart) <= core.ApartMost; ok = it.Next() {
			k, _ := it.Key()
			if addr, name, err := keys.DecodeProtocolKey(k); err == nil && string(name) == sideName {
				out.Apart = append(out.Apart, core.NameOf(addr))
			}
		}
		err = it.Error()
		it.Close()
		if err != nil {
			return nil, err
		}
	}
	var err error
	out.Applied, err = applied(src)
	return out, err
}

// lookBase reads keys of the base. The index is read first, and the rows after it.
func lookBase(src engine.Reader, ks []keys.Key, applied func(engine.Reader) (uint64, error)) (out core.Looked, err error) {
	if out.Applied, err = applied(src); err != nil {
		return out, err
	}
	r := mvcc.NewReader(src)
	defer r.Close()
	for _, k := range ks {
		at, v, err := r.Latest(k)
		if err != nil {
			return out, err
		}
		out.Rows = append(out.Rows, core.Row{Key: k, Value: v, Seen: core.Seen{Base: at}, Last: at})
	}
	return out, nil
}
