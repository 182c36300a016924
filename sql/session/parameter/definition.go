package parameter

import (
	"math"
	"slices"
	"strings"

	"meridian/commit/protocol"
)

// ServerVersion is the PostgreSQL release whose behaviour is followed; drivers and psql choose their queries by it.
const ServerVersion = "15.0"

// Definition describes one run-time parameter.
type Definition struct {
	Name     string // as PostgreSQL spells it, in small letters
	Default  string
	Reported bool // changes are told to the client (ParameterStatus)
	// Context says, as in pg_settings, when the parameter can be changed; empty: by any user at any time.
	Context string
	// Domain is the set of its values; nil: any text.
	Domain *Domain
	About  string
	// Category is that of pg_settings; empty: Meridian.
	Category string
}

// ClientCheck is a setting of PostgreSQL, where its default is 0.
const ClientCheck = "client_connection_check_interval"

// DisabledRules has the rules of the optimizer that are switched off.
const DisabledRules = "disabled_optimizer_rules"

// MaxStaleness and ReadAfter say how old what a session reads may be, where the nearest replica serves it.
const (
	MaxStaleness = protocol.MaxStaleness
	ReadAfter    = protocol.ReadAfter
)

// The categories of pg_settings.
const (
	aboutStatements = "Client Connection Defaults / Statement Behavior"
	aboutFormats    = "Client Connection Defaults / Locale and Formatting"
	aboutPresets    = "Preset Options"
	aboutPlans      = "Query Tuning / Planner Method Configuration"
	aboutCosts      = "Query Tuning / Planner Cost Constants"
	aboutMemory     = "Resource Usage / Memory"
	aboutHistory    = "Version and Platform Compatibility / Previous PostgreSQL Versions"
	aboutConnection = "Connections and Authentication / Connection Settings"
)

// noEffect describes settings that are accepted because they select other plans only, and never change an answer.
const noEffect = "Accepted for PostgreSQL's programs; without effect, since no answer depends on it."

// All lists every parameter, by name. Each has its full effect, or has only values that describe what the server does, or never changes an
// answer (noEffect).
var All = []Definition{
	{Name: "application_name", Reported: true, Domain: shortText, Category: "Reporting and Logging / What to Log", About: "Name of the application that uses the session."},
	{Name: "array_nulls", Default: "on", Domain: only("on", "off"), Category: aboutHistory, About: "NULL without quotes in an array is null."},
	{Name: "backslash_quote", Default: "safe_encoding", Domain: orSwitch("safe_encoding", "on", "off").except("off", "Write '' for a quote within a string."), Category: aboutHistory,
		About: "Whether \\' is allowed in E'...'; it always is."},
	{Name: "block_size", Default: "8192", Context: "internal", Domain: integer(8192, 8192), Category: aboutPresets},
	{Name: "bytea_output", Default: "hex", Domain: oneOf("escape", "hex"), Category: aboutStatements, About: "Output format of bytea."},
	{Name: "check_function_bodies", Default: "on", Domain: boolean, Category: aboutStatements, About: noEffect},
	{Name: ClientCheck, Default: "1s", Domain: duration, Category: aboutConnection, About: "Time between two checks that the client is still connected, while its statement runs; 0 is never."},
	{Name: "client_encoding", Default: "UTF8", Reported: true, Category: aboutFormats, About: "Encoding of the client's texts."},
	{Name: "client_min_messages", Default: "notice", Domain: oneOf("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"), Category: aboutStatements,
		About: "Least level of the notices that are sent to the client."},
	{Name: "constraint_exclusion", Default: "partition", Domain: orSwitch("partition", "on", "off"), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "cpu_index_tuple_cost", Default: "0.005", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "cpu_operator_cost", Default: "0.0025", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "cpu_tuple_cost", Default: "0.01", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "cursor_tuple_fraction", Default: "0.1", Domain: real(0, 1), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "datestyle", Default: "ISO, MDY", Reported: true, Category: aboutFormats, About: "Layout of dates and timestamps, and the order of day, month and year in them."},
	{Name: "deadlock_timeout", Default: "50ms", Domain: duration, Context: "superuser", Category: "Lock Management", About: noEffect},
	{Name: "debug_print_parse", Default: "off", Domain: only("off", "on"), Category: "Reporting and Logging / What to Log"},
	{Name: "default_statistics_target", Default: "100", Domain: integer(1, 10000), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "default_table_access_method", Default: "heap", Domain: known("heap", "Table access method"), Category: aboutStatements},
	{Name: "default_tablespace", Domain: known("", "Tablespace"), Category: aboutStatements},
	{Name: "default_text_search_config", Default: "pg_catalog.simple", Category: aboutFormats, About: noEffect},
	{Name: "default_toast_compression", Default: "pglz", Domain: oneOf("pglz", "lz4"), Category: aboutStatements, About: noEffect},
	{Name: "default_transaction_deferrable", Default: "off", Domain: boolean, Category: aboutStatements, About: "New transactions are DEFERRABLE."},
	{Name: "default_transaction_isolation", Default: "serializable", Domain: isolation, Category: aboutStatements, About: "Isolation level of new transactions."},
	{Name: "default_transaction_read_only", Default: "off", Reported: true, Domain: boolean, Category: aboutStatements, About: "New transactions are READ ONLY."},
	{Name: "default_transaction_use_follower_reads", Default: "off", Domain: boolean, Category: aboutStatements, About: "New transactions are READ ONLY, and read at follower_read_timestamp()."},
	{Name: DisabledRules, Domain: ruleList, Category: aboutPlans, About: "Rules that the optimizer does not apply, with commas between; all: none is."},
	{Name: "effective_cache_size", Default: "4GB", Domain: size(8<<10, 1, math.MaxInt32), Category: aboutCosts, About: noEffect},
	{Name: "effective_io_concurrency", Default: "1", Domain: integer(0, 1000), Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "enable_async_append", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_auto_rehoming", Default: "off", Domain: boolean, Category: aboutStatements, About: "Rows of new tables that are REGIONAL BY ROW move to the region from which they are updated."},
	{Name: "enable_bitmapscan", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_gathermerge", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_hashagg", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_hashjoin", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_incremental_sort", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_indexonlyscan", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_indexscan", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_material", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_memoize", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_mergejoin", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_multiregion_placement_policy", Default: "on", Domain: boolean, Category: aboutStatements, About: "Statements may say PLACEMENT."},
	{Name: "enable_nestloop", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_parallel_append", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_parallel_hash", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_partition_pruning", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_partitionwise_aggregate", Default: "off", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_partitionwise_join", Default: "off", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_seqscan", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_sort", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enable_super_regions", Default: "on", Domain: boolean, Category: aboutStatements, About: "Statements may make and change super regions."},
	{Name: "enable_tidscan", Default: "on", Domain: boolean, Category: aboutPlans, About: noEffect},
	{Name: "enforce_home_region", Default: "off", Domain: boolean, Category: aboutStatements, About: "Statements that would leave the region of their gateway are refused."},
	{Name: "escape_string_warning", Default: "on", Domain: boolean, Category: aboutHistory, About: noEffect},
	{Name: "external_consistency", Default: "off", Domain: boolean, Category: aboutStatements, About: "Transactions are externally consistent; those that use a database that says so are in any case."},
	{Name: "extra_float_digits", Default: "1", Domain: integer(-15, 3), Category: aboutFormats, About: "Digits of floating-point numbers: above zero as many as identify them."},
	{Name: MaxStaleness, Default: "1s", Domain: durationTo(1000), Category: aboutStatements,
		About: protocol.About(MaxStaleness)},
	{Name: ReadAfter, Domain: readToken, Category: aboutStatements,
		About: protocol.About(ReadAfter)},
	{Name: "force_parallel_mode", Default: "off", Domain: orSwitch("off", "on", "regress"), Category: "Developer Options", About: noEffect},
	{Name: "from_collapse_limit", Default: "8", Domain: integer(1, math.MaxInt32), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "geqo", Default: "on", Domain: boolean, Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_effort", Default: "5", Domain: integer(1, 10), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_generations", Default: "0", Domain: integer(0, math.MaxInt32), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_pool_size", Default: "0", Domain: integer(0, math.MaxInt32), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_seed", Default: "0", Domain: real(0, 1), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_selection_bias", Default: "2", Domain: real(1.5, 2), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "geqo_threshold", Default: "12", Domain: integer(2, math.MaxInt32), Category: "Query Tuning / Genetic Query Optimizer", About: noEffect},
	{Name: "hash_mem_multiplier", Default: "2", Domain: real(1, 1000), Category: aboutMemory, About: noEffect},
	{Name: "idle_in_transaction_session_timeout", Default: "0", Domain: duration, Category: aboutStatements, About: "Time that a session may sit idle in a transaction; 0 is for ever."},
	{Name: "idle_session_timeout", Default: "0", Domain: duration, Category: aboutStatements, About: "Time that a session may sit idle outside of a transaction; 0 is for ever."},
	{Name: "ignore_commit_protocol", Default: "off", Domain: boolean, Category: aboutStatements, About: "CREATE TABLE makes tables of the commit protocol leader, whichever it names: for dumps."},
	{Name: "in_hot_standby", Default: "off", Reported: true, Context: "internal", Domain: boolean, Category: aboutPresets},
	{Name: "integer_datetimes", Default: "on", Reported: true, Context: "internal", Domain: boolean, Category: aboutPresets},
	{Name: "intervalstyle", Default: "postgres", Reported: true, Domain: oneOf("postgres", "postgres_verbose", "sql_standard", "iso_8601"), Category: aboutFormats, About: "Layout of intervals."},
	{Name: "is_superuser", Default: "on", Reported: true, Context: "internal", Domain: boolean, Category: aboutPresets},
	{Name: "jit", Default: "off", Domain: boolean, Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "jit_above_cost", Default: "100000", Domain: real(-1, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "jit_inline_above_cost", Default: "500000", Domain: real(-1, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "jit_optimize_above_cost", Default: "500000", Domain: real(-1, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "join_collapse_limit", Default: "8", Domain: integer(1, math.MaxInt32), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "lc_collate", Default: "C", Context: "internal", Category: aboutPresets},
	{Name: "lc_ctype", Default: "C.UTF-8", Context: "internal", Category: aboutPresets},
	{Name: "lc_messages", Default: "C", Domain: locale, Category: aboutFormats},
	{Name: "lc_monetary", Default: "C", Domain: locale, Category: aboutFormats},
	{Name: "lc_numeric", Default: "C", Domain: locale, Category: aboutFormats},
	{Name: "lc_time", Default: "C", Domain: locale, Category: aboutFormats},
	{Name: "locality_optimized_partitioned_index_scan", Default: "on", Domain: boolean, Category: aboutPlans,
		About: "Rows of tables that are REGIONAL BY ROW are looked for in the gateway's region first."},
	{Name: "lock_timeout", Default: "0", Domain: duration, Category: aboutStatements, About: "Time that a statement may wait for a lock; 0 is for ever."},
	{Name: "maintenance_io_concurrency", Default: "10", Domain: integer(0, 1000), Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "maintenance_work_mem", Default: "64MB", Domain: size(1<<10, 1024, math.MaxInt32), Category: aboutMemory, About: noEffect},
	{Name: "max_connections", Default: "20000", Context: "postmaster", Domain: integer(1, 262143), Category: aboutConnection},
	{Name: "max_identifier_length", Default: "63", Context: "internal", Domain: integer(63, 63), Category: aboutPresets},
	{Name: "max_index_keys", Default: "32", Context: "internal", Domain: integer(32, 32), Category: aboutPresets},
	{Name: "max_parallel_maintenance_workers", Default: "2", Domain: integer(0, 1024), Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "max_parallel_workers", Default: "8", Domain: integer(0, 1024), Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "max_parallel_workers_per_gather", Default: "2", Domain: integer(0, 1024), Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "max_wide_area_rounds", Default: "-1", Domain: integer(-1, 1000), Category: aboutStatements,
		About: "Greatest number of requests to other regions, one after the other, for which a statement may be planned; -1 is no limit."},
	{Name: "min_parallel_index_scan_size", Default: "512kB", Domain: size(8<<10, 0, math.MaxInt32/3), Category: aboutCosts, About: noEffect},
	{Name: "min_parallel_table_scan_size", Default: "8MB", Domain: size(8<<10, 0, math.MaxInt32/3), Category: aboutCosts, About: noEffect},
	{Name: "override_multi_region_zone_config", Default: "off", Domain: boolean, Category: aboutStatements, About: "CONFIGURE ZONE may change what the regions of a database decide."},
	{Name: "parallel_leader_participation", Default: "on", Domain: boolean, Category: "Resource Usage / Asynchronous Behavior", About: noEffect},
	{Name: "parallel_setup_cost", Default: "1000", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "parallel_tuple_cost", Default: "0.1", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "password_encryption", Default: "scram-sha-256", Domain: only("scram-sha-256", "md5"), Category: "Connections and Authentication / Authentication"},
	{Name: "plan_cache_mode", Default: "auto", Domain: oneOf("auto", "force_generic_plan", "force_custom_plan"), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "quote_all_identifiers", Default: "off", Domain: only("off", "on"), Category: aboutHistory},
	{Name: "random_page_cost", Default: "4", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "recursive_worktable_factor", Default: "10", Domain: real(0.001, 1000000), Category: "Query Tuning / Other Planner Options", About: noEffect},
	{Name: "role", Default: "none"},
	{Name: "row_security", Default: "off", Domain: boolean, Category: aboutStatements, About: noEffect},
	{Name: "search_path", Default: `"$user", public`, Category: aboutStatements, About: "Schemas in which names without a schema are looked up."},
	{Name: "seed"},
	{Name: "seq_page_cost", Default: "1", Domain: real(0, math.MaxFloat64), Category: aboutCosts, About: noEffect},
	{Name: "server_encoding", Default: "UTF8", Reported: true, Context: "internal", Category: aboutPresets},
	{Name: "server_version", Default: ServerVersion, Reported: true, Context: "internal", Category: aboutPresets},
	{Name: "server_version_num", Default: "150000", Context: "internal", Domain: integer(150000, 150000), Category: aboutPresets},
	{Name: "session_authorization", Reported: true},
	{Name: "session_replication_role", Default: "origin", Context: "superuser", Domain: only("origin", "replica", "local"), Category: aboutStatements},
	{Name: "shared_buffers", Default: "128MB", Context: "postmaster", Domain: size(8<<10, 16, math.MaxInt32/2), Category: aboutMemory},
	{Name: "ssl", Default: "off", Context: "sighup", Domain: boolean, Category: "Connections and Authentication / SSL"},
	{Name: "standard_conforming_strings", Default: "on", Reported: true, Domain: boolean.except("off", "Write E'...' for a string with backslash escapes."), Category: aboutHistory, About: "Backslashes in '...' are ordinary characters."},
	{Name: "statement_timeout", Default: "0", Domain: duration, Category: aboutStatements, About: "Time that a statement may take; 0 is for ever."},
	{Name: "synchronize_seqscans", Default: "on", Domain: boolean, Category: aboutHistory, About: noEffect},
	{Name: "synchronous_commit", Default: "on", Domain: orSwitch("local", "remote_write", "remote_apply", "on", "off"), Category: "Write-Ahead Log / Settings", About: "Every commit is durable and replicated, whatever the value."},
	{Name: "temp_buffers", Default: "8MB", Domain: size(8<<10, 100, math.MaxInt32/2), Category: aboutMemory, About: noEffect},
	{Name: "temp_tablespaces", Domain: known("", "Tablespace"), Category: aboutStatements},
	{Name: "temporary_memory_limit", Default: "256MB", Domain: size(1, 64<<10, 1<<40), Category: aboutMemory, About: "Memory for the rows of the session's temporary tables, on its node."},
	{Name: "timezone", Default: "UTC", Reported: true, Category: aboutFormats, About: "Time zone in which timestamps with one are read and written."},
	{Name: "transaction_deferrable", Default: "off", Domain: boolean, Category: aboutStatements},
	{Name: "transaction_isolation", Default: "serializable", Domain: isolation, Category: aboutStatements},
	{Name: "transaction_read_only", Default: "off", Domain: boolean, Category: aboutStatements},
	{Name: "transaction_replay", Default: "on", Domain: boolean, About: "Runs a transaction again after a conflict, and continues it if all results that the client has seen are the same."},
	{Name: "transaction_replay_size", Default: "1MB", Domain: size(1, 0, 1<<40), About: "Bytes of statements, arguments and COPY data that are kept of a transaction for its replay."},
	{Name: "transaction_replay_statements", Default: "1000", Domain: integer(0, 1_000_000), About: "Statements that are kept of a transaction for its replay."},
	{Name: "transform_null_equals", Default: "off", Domain: only("off", "on"), Category: "Version and Platform Compatibility / Other Platforms and Clients"},
	{Name: "vacuum_cost_delay", Default: "0", Domain: realMilliseconds(0, 100), Category: "Resource Usage / Cost-Based Vacuum Delay", About: noEffect},
	{Name: "vacuum_cost_limit", Default: "200", Domain: integer(1, 10000), Category: "Resource Usage / Cost-Based Vacuum Delay", About: noEffect},
	{Name: "vacuum_cost_page_dirty", Default: "20", Domain: integer(0, 10000), Category: "Resource Usage / Cost-Based Vacuum Delay", About: noEffect},
	{Name: "vacuum_cost_page_hit", Default: "1", Domain: integer(0, 10000), Category: "Resource Usage / Cost-Based Vacuum Delay", About: noEffect},
	{Name: "vacuum_cost_page_miss", Default: "2", Domain: integer(0, 10000), Category: "Resource Usage / Cost-Based Vacuum Delay", About: noEffect},
	{Name: "wal_level", Default: "logical", Context: "postmaster", Domain: oneOf("minimal", "replica", "logical"), Category: "Write-Ahead Log / Settings"},
	{Name: "work_mem", Default: "256MB", Domain: size(1<<10, 64, math.MaxInt32), Category: aboutMemory, About: noEffect},
	{Name: "xmlbinary", Default: "base64", Domain: oneOf("base64", "hex"), Category: aboutStatements, About: noEffect},
	{Name: "xmloption", Default: "content", Domain: oneOf("content", "document"), Category: aboutStatements, About: noEffect},
}

// Canonical is the one name of a setting, given any of its spellings.
func Canonical(name string) string {
	n := strings.ToLower(name)
	switch n {
	case "time zone":
		return "timezone"
	case "names":
		return "client_encoding"
	case "session characteristics":
		return "default_transaction_isolation"
	}
	return n
}

func Find(name string) *Definition {
	i, ok := slices.BinarySearchFunc(All, name, func(s Definition, n string) int { return strings.Compare(s.Name, n) })
	if !ok {
		return nil
	}
	return &All[i]
}

// DisplayName is PostgreSQL's spelling where it has capitals.
func DisplayName(name string) string {
	switch name {
	case "datestyle":
		return "DateStyle"
	case "intervalstyle":
		return "IntervalStyle"
	case "timezone":
		return "TimeZone"
	}
	return name
}

// Defaults has the default of each setting in a map, because each statement reads a dozen of them.
func Defaults() map[string]string {
	m := make(map[string]string, len(All))
	for i := range All {
		m[All[i].Name] = All[i].Default
	}
	return m
}

// Accept validates a value, and returns it as it is stored.
func (s *Definition) Accept(value string) (string, error) {
	if s.Domain == nil {
		return value, nil
	}
	return s.Domain.accept(s, value)
}

// SplitList parses a comma-separated list of identifiers, as in search_path.
func SplitList(v string) []string {
	var out []string
	for _, p := range strings.Split(v, ",") {
		p = strings.TrimSpace(p)
		if len(p) >= 2 && p[0] == '"' && p[len(p)-1] == '"' {
			p = strings.ReplaceAll(p[1:len(p)-1], `""`, `"`)
		} else {
			p = strings.Trim(strings.ToLower(p), "'")
		}
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}
