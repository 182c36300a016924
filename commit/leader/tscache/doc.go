// Package tscache remembers when keys were last read, so that no transaction writes into a snapshot that another
// one has already read (CRDB'20 §3.3).
//
// A read of a key at timestamp r makes every later write of it by another transaction happen after r. The cache
// answers, for a key, a timestamp that is at least that of every read of it (tscache.T1), and the transaction that read
// there if it was just one, because a transaction's own reads need not push its own writes.
//
//	tscache.T1 (I3): Max(k) >= the timestamp of every Add that covered k. Forgetting only ever raises the answer.
//	tscache.T2: if Max names an owner, every Add that covered k at the answered timestamp was the owner's. Reads of others
//	    that lie below it need no mention: the owner writes at or above its own reads.
//
// One cache serves all ranges of a store. The low water, which must survive a lease change, belongs to the range: its participant answers
// the later of the cache's timestamp and the start of its lease.
//
// # Points
//
// Single keys are in a set-associative table: the key's hash picks a shard, a set of eight ways in the shard, and
// names the entry in the set. A full set forgets its oldest entry and raises its own floor to it:
//
//	set: floor=12 | 7f3a→(40, t1) | 91c0→(38, -) | ... eight entries
//
// so forgetting one key raises the answer for those few keys that share the set, and for no others, and there is nothing to rotate. Two
// keys with one 64-bit hash share an entry; that is tscache.T1 again, and harmless. An entry costs 40 bytes and no key is kept. A shard
// starts small and doubles while the entries that it would forget are younger than the retention, up to its bound.
//
// # Spans
//
// Scans are kept as disjoint segments in an ordered tree, each with the latest timestamp and its owner. When a
// page has too many segments it becomes the old page, and the previous old page is replaced by one floor for all keys.
package tscache
