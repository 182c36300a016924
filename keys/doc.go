// Package keys is the keyspace: one ordered space of byte strings in which all data of a cluster has its place. layout.go draws it; this
// chapter gives the reasons.
//
// # Addressable and local
//
// Clients see keys from \x02 on: the range index, system keys and table data. A range owns a contiguous span of
// them. Keys that begin with \x01 are local: they belong to a range or to a store, and no request names a span
// of them across ranges. There are five kinds.
//
//   - Range-ID local keys are about the range as a consensus group: its raft log and hard state (unreplicated,
//     each replica has its own) and its applied state, lease and statistics (replicated, changed by applying
//     commands). They are named by the range's identity, so they do not move when the range splits.
//   - Range-local keys belong to a user key: the range descriptor at the range's start, a transaction's record
//     at its anchor. Addr gives the key by which they are routed, so they live in the range of that key and move
//     with it.
//   - Lock table keys hold intents. They are separate from the versions that they guard, so that a scan over committed data never passes them, and one seek shows that a range has no intents.
//   - Store-local keys are about one disk.
//
// # The spans of a range
//
// A range of [Start, End) is five spans, which RangeSpans lists:
//
//	\x01 i <id> r ...              what it is (replicated part)
//	\x01 k <Start> .. <End>        descriptors and transaction records
//	\x01 z \x01 k <Start> .. <End> intents on those
//	\x01 z <Start> .. <End>        intents on user keys
//	<Start> .. <End>               versions of user keys
//
// A raft snapshot ships exactly these; a removed replica clears them, and its unreplicated keys in addition.
//
// # Lock table keys and the engine
//
// The lock table key of k is \x01 z followed by k as it is. Strength and transaction are not part of the key but
// of the engine key's version (package engine), so that all locks of one key share a prefix and one bloom filter
// probe says that there are none.
//
// # The range index
//
// A range is indexed under its end key, so the range that contains k is the first index entry after k: scan
// MetaSpan(k) for one key. Ranges that hold the second level are indexed in the first, and the first level never
// splits (CRDB'20 §2.2). MetaKeys returns the index keys of a range.
//
// # What it does not do
//
// It knows no descriptors, rows or transactions: identities are plain numbers here. Package encoding has the column values inside table
// keys; package sql/rowcode decides which columns there are.
package keys
