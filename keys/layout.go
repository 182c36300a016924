package keys

// The keyspace as one picture. Everything a cluster stores has a key; replicated keys are ordered as shown.
//
//	first byte
//	\x01        local keys: not addressable by clients
//	  \x01 i <rangeID:8> u <name>      range-ID local, unreplicated: raft log, hard state, truncated state, deltas
//	  \x01 i <rangeID:8> r <name>      range-ID local, replicated: applied state, lease, GC threshold, seal
//	  \x01 k <key:escaped> <name>      range local: range descriptor, transaction records, what a protocol keeps (live in the range of <key>)
//	  \x01 s <name>                    store local: identity, node identity
//	  \x01 z <key>                    lock table: intents of <key>; strength and transaction are in the engine
//	                                   key's version, so all locks of a key share one prefix
//	\x02 <end key>                     meta1: index of the meta2 ranges
//	\x03 <end key>                     meta2: index of all other ranges
//	\x04 <name>                        system: node ids, liveness, the cluster's version, counters
//	\x10 <table id> <index id> ...     table data; descriptors and other catalogue tables are tables too
//	  ... \x04 <table id> <index id> ...  row of a table that is interleaved in the row before \x04
//	\xff\xff                           Max, the exclusive end of the keyspace
//
// The index key of a range in meta2 is \x03 followed by the range's END key, so a seek from \x03+key.Next()
// finds the range that contains key (CRDB'20 §2.2). meta1 and meta2 are the start of the first range, which is
// never split from the meta prefix, so meta1 has one entry for as long as meta2 is one range.
var (
	Min         = Key("")
	Max         = Key("\xff\xff")
	LocalPrefix = Key("\x01")
	LocalMax    = Key("\x02")

	Meta1Prefix  = Key("\x02")
	Meta2Prefix  = Key("\x03")
	MetaMax      = Key("\x04")
	SystemPrefix = Key("\x04")
	SystemMax    = Key("\x05")
	TablePrefix  = Key("\x10")
	TableMax     = Key("\x11")
)
