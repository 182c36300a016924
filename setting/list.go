package setting

import (
	"fmt"
	"math"
	"time"
)

// ID is a setting, for Values.
type ID int

const (
	// GCTTL is how many seconds versions are kept after they were overwritten, in all ranges.
	GCTTL ID = iota
	// Voters is how many voting replicas each range should have.
	Voters
	// NonVoters is how many non-voting replicas each range has besides its voters.
	NonVoters
	// TimeUntilStoreDead is how long a node has not to be live before its replicas are made anew elsewhere.
	TimeUntilStoreDead
	// CheckInterval is how often the replicas of each range are compared; zero: never.
	CheckInterval
	// CheckRate bounds the bytes that a node reads in a second to compare replicas.
	CheckRate
	// Admission says whether statements of clients queue when a node has more to do than it can.
	Admission
	// StatisticsAutomatic says whether statistics of tables are collected without ANALYZE.
	StatisticsAutomatic
	// StatisticsFraction and StatisticsMinRows say when: after changes of this share of a table's rows, and so many rows.
	StatisticsFraction
	StatisticsMinRows
	// LoadSplit says whether ranges are split by load, LoadSplitThreshold from how many requests per second on.
	LoadSplit
	LoadSplitThreshold
	// UpgradeAutomatic says whether an upgrade is finalised as soon as all nodes run the new binary.
	UpgradeAutomatic
	// ExternalConsistency says whether new databases are externally consistent.
	ExternalConsistency
	// RegisteredSchemas says which changes of schemas are valid from a registered time on: one of the Register values.
	RegisteredSchemas
	count
)

// Values of RegisteredSchemas.
const (
	// RegisterExternal is those of tables that are externally consistent.
	RegisterExternal = "external"
	// RegisterAlways is all but those that lock a table, or concern one without leaseholders; RegisterNever is none.
	RegisterAlways = "always"
	RegisterNever  = "never"
)

// Bounds of some settings.
const (
	maxVoters    = 9
	maxNonVoters = 32
	// A node that is starting anew should not count as dead.
	minTimeUntilStoreDead = 15 * time.Second
	// maxDuration bounds durations that have no other bound.
	maxDuration = 365 * 24 * time.Hour
)

// table is all settings. Names have a subject, a dot, and what is set, in lower case.
var table = [count]Setting{
	GCTTL: {Name: "gc.ttlseconds", Kind: Int, Default: 4 * 60 * 60, Min: 1, Max: math.MaxInt32,
		About: "seconds for which versions are kept after they were overwritten or deleted"},
	Voters: {Name: "replicas.voters", Kind: Int, Default: 3, Min: 1, Max: maxVoters, check: odd,
		About: "voting replicas of each range: n of them survive the loss of (n-1)/2"},
	NonVoters: {Name: "replicas.nonvoters", Kind: Int, Default: 0, Min: 0, Max: maxNonVoters,
		About: "non-voting replicas of each range, for reads of the past in regions without a voter"},
	TimeUntilStoreDead: {Name: "server.time_until_store_dead", Kind: Duration, Default: int64(5 * time.Minute),
		Min: int64(minTimeUntilStoreDead), Max: int64(maxDuration),
		About: "time after which a node that is not live counts as dead, and its replicas are made anew on other nodes"},
	CheckInterval: {Name: "server.consistency_check.interval", Kind: Duration, Default: int64(24 * time.Hour), Min: 0, Max: int64(maxDuration),
		About: "how often the replicas of each range are compared with each other; 0: never"},
	CheckRate: {Name: "server.consistency_check.max_rate", Kind: Bytes, Default: 8 << 20, Min: 64 << 10, Max: 4 << 30,
		About: "bytes that a node reads in a second, at most, to compare replicas"},
	Admission: {Name: "server.admission", Kind: Bool, Default: 1,
		About: "whether statements of clients queue when a node has more to do than it can"},
	StatisticsAutomatic: {Name: "sql.stats.automatic_collection.enabled", Kind: Bool, Default: 1,
		About: "whether statistics of tables are collected without ANALYZE, when enough of their rows have changed"},
	StatisticsFraction: {Name: "sql.stats.automatic_collection.fraction_stale_rows", Kind: Fraction, Default: Float(0.2), Min: Float(0), Max: Float(1000),
		About: "share of a table's rows that has to change, in addition to min_stale_rows, before its statistics are collected again"},
	StatisticsMinRows: {Name: "sql.stats.automatic_collection.min_stale_rows", Kind: Int, Default: 500, Min: 0, Max: math.MaxInt32,
		About: "rows of a table that have to change, in addition to fraction_stale_rows, before its statistics are collected again"},
	LoadSplit: {Name: "kv.range_split.by_load.enabled", Kind: Bool, Default: 1,
		About: "whether a range with many requests is split at a key that halves them"},
	LoadSplitThreshold: {Name: "kv.range_split.by_load.threshold", Kind: Int, Default: 2500, Min: 10, Max: math.MaxInt32,
		About: "requests per second from which a range is split by load"},
	ExternalConsistency: {Name: "sql.defaults.external_consistency", Kind: Bool, Default: 0,
		About: "whether databases that are made from now on are externally consistent"},
	RegisteredSchemas: {Name: "sql.schema_change.registered", Kind: Enum, Values: []string{RegisterExternal, RegisterAlways, RegisterNever},
		About: "which changes of tables are valid everywhere from one registered time on, and wait for no transaction"},
	UpgradeAutomatic: {Name: "upgrade.automatic", Kind: Bool, Default: 0,
		About: "whether an upgrade is finalized as soon as all nodes run the new binary; from then on there is no way back to the earlier one"},
}

func odd(v int64) error {
	if v%2 == 0 {
		return hint(fmt.Sprintf("It is an odd number: %d replicas survive no more failures than %d.", v, v-1))
	}
	return nil
}
