package exec

import (
	"meridian/keys"
	"meridian/kv"
)

// Requests for rows are shown to Env.Home before they are sent.

func (r *run) stays(span keys.Span, lock kv.LockStrength) error {
	if r.env.Home == nil {
		return nil
	}
	return r.staysAll([]keys.Span{span}, lock)
}

func (r *run) staysAll(spans []keys.Span, lock kv.LockStrength) error {
	if r.env.Home == nil {
		return nil
	}
	return r.env.Home.Reads(r.ctx, spans, lock != kv.NoLock)
}

func (r *run) staysKeys(ks []keys.Key, lock kv.LockStrength) error {
	if r.env.Home == nil {
		return nil
	}
	spans := make([]keys.Span, len(ks))
	for i, k := range ks {
		spans[i].Start = k
	}
	return r.env.Home.Reads(r.ctx, spans, lock != kv.NoLock)
}
