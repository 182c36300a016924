package exec

import "meridian/keys"

// optimist is implemented by a KV that knows whether what a transaction reads without a lock is likely to be the same at its commit.
type optimist interface {
	Optimistic(k keys.Key) bool
}

// optimistic reports whether a row that the statement changes is read without a lock (opt.Unlocked).
func (r *run) optimistic(k keys.Key) bool {
	o, ok := r.kv.(optimist)
	return ok && r.env.AutoCommit && o.Optimistic(k)
}
