package session

import (
	"maps"
	"math"
	"slices"
	"strings"

	"meridian/sql/sqlstate"
)

// ServerVersion is the PostgreSQL release whose behaviour is followed; drivers and psql decide by it what to ask.
const ServerVersion = "15.0"

// setting describes one run-time parameter.
type setting struct {
	name     string // as PostgreSQL spells it, in small letters
	def      string
	reported bool // changes are told to the client (ParameterStatus)
	// context says, as in pg_settings, what may change it; empty: user, at any time.
	context string
	// domain says which values it has; nil: any text.
	domain *domain
	about  string
	// category is pg_settings'; empty: Meridian.
	category string
}

// clientCheck is PostgreSQL's, where its default is 0.
const clientCheck = "client_connection_check_interval"

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

// noEffect is said of settings that are accepted since they ask for no other answer, only for other ways to it.
const noEffect = "Accepted for PostgreSQL's programs; without effect, since no answer depends on it."

// settings lists every parameter, by name. Each does what it says, has only the values that are true, or is a hint that asks for no
// other answer (noEffect).
var settings = []setting{
	{name: "application_name", reported: true, domain: shortText, category: "Reporting and Logging / What to Log", about: "Name of the application that uses the session."},
	{name: "array_nulls", def: "on", domain: only("on", "off"), category: aboutHistory, about: "NULL without quotes in an array is null."},
	{name: "backslash_quote", def: "safe_encoding", domain: orSwitch("safe_encoding", "on", "off").except("off", "Write '' for a quote within a string."), category: aboutHistory,
		about: "Whether \\' is allowed in E'...'; it always is."},
	{name: "block_size", def: "8192", context: "internal", domain: integer(8192, 8192), category: aboutPresets},
	{name: "bytea_output", def: "hex", domain: oneOf("escape", "hex"), category: aboutStatements, about: "Output format of bytea."},
	{name: "check_function_bodies", def: "on", domain: boolean, category: aboutStatements, about: noEffect},
	{name: clientCheck, def: "1s", domain: duration, category: aboutConnection, about: "Time between two looks whether the client is still connected, while its statement runs; 0 is never."},
	{name: "client_encoding", def: "UTF8", reported: true, category: aboutFormats, about: "Encoding of the client's texts."},
	{name: "client_min_messages", def: "notice", domain: oneOf("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"), category: aboutStatements,
		about: "Least level of the notices that the client is sent."},
	{name: "constraint_exclusion", def: "partition", domain: orSwitch("partition", "on", "off"), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "cpu_index_tuple_cost", def: "0.005", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "cpu_operator_cost", def: "0.0025", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "cpu_tuple_cost", def: "0.01", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "cursor_tuple_fraction", def: "0.1", domain: real(0, 1), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "datestyle", def: "ISO, MDY", reported: true, category: aboutFormats, about: "Layout of dates and timestamps, and the order of day, month and year in them."},
	{name: "deadlock_timeout", def: "50ms", domain: duration, context: "superuser", category: "Lock Management", about: noEffect},
	{name: "debug_print_parse", def: "off", domain: only("off", "on"), category: "Reporting and Logging / What to Log"},
	{name: "default_statistics_target", def: "100", domain: integer(1, 10000), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "default_table_access_method", def: "heap", domain: known("heap", "Table access method"), category: aboutStatements},
	{name: "default_tablespace", domain: known("", "Tablespace"), category: aboutStatements},
	{name: "default_text_search_config", def: "pg_catalog.simple", category: aboutFormats, about: noEffect},
	{name: "default_toast_compression", def: "pglz", domain: oneOf("pglz", "lz4"), category: aboutStatements, about: noEffect},
	{name: "default_transaction_deferrable", def: "off", domain: boolean, category: aboutStatements, about: "New transactions are DEFERRABLE."},
	{name: "default_transaction_isolation", def: "serializable", domain: isolation, category: aboutStatements, about: "Isolation level of new transactions."},
	{name: "default_transaction_read_only", def: "off", reported: true, domain: boolean, category: aboutStatements, about: "New transactions are READ ONLY."},
	{name: "effective_cache_size", def: "4GB", domain: size(8<<10, 1, math.MaxInt32), category: aboutCosts, about: noEffect},
	{name: "effective_io_concurrency", def: "1", domain: integer(0, 1000), category: "Resource Usage / Asynchronous Behavior", about: noEffect},
	{name: "enable_bitmapscan", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_hashagg", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_hashjoin", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_indexonlyscan", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_indexscan", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_material", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_mergejoin", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_nestloop", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_seqscan", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "enable_sort", def: "on", domain: boolean, category: aboutPlans, about: noEffect},
	{name: "escape_string_warning", def: "on", domain: boolean, category: aboutHistory, about: noEffect},
	{name: "extra_float_digits", def: "1", domain: integer(-15, 3), category: aboutFormats, about: "Digits of floating-point numbers: above zero as many as identify them."},
	{name: "from_collapse_limit", def: "8", domain: integer(1, math.MaxInt32), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "geqo", def: "on", domain: boolean, category: "Query Tuning / Genetic Query Optimizer", about: noEffect},
	{name: "hash_mem_multiplier", def: "2", domain: real(1, 1000), category: aboutMemory, about: noEffect},
	{name: "idle_in_transaction_session_timeout", def: "0", domain: duration, category: aboutStatements, about: "Time that a session may sit idle in a transaction; 0 is for ever."},
	{name: "idle_session_timeout", def: "0", domain: duration, category: aboutStatements, about: "Time that a session may sit idle outside of a transaction; 0 is for ever."},
	{name: "in_hot_standby", def: "off", reported: true, context: "internal", domain: boolean, category: aboutPresets},
	{name: "integer_datetimes", def: "on", reported: true, context: "internal", domain: boolean, category: aboutPresets},
	{name: "intervalstyle", def: "postgres", reported: true, domain: oneOf("postgres", "postgres_verbose", "sql_standard", "iso_8601"), category: aboutFormats, about: "Layout of intervals."},
	{name: "is_superuser", def: "on", reported: true, context: "internal", domain: boolean, category: aboutPresets},
	{name: "jit", def: "off", domain: boolean, category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "join_collapse_limit", def: "8", domain: integer(1, math.MaxInt32), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "lc_collate", def: "C", context: "internal", category: aboutPresets},
	{name: "lc_ctype", def: "C.UTF-8", context: "internal", category: aboutPresets},
	{name: "lc_messages", def: "C", domain: locale, category: aboutFormats},
	{name: "lc_monetary", def: "C", domain: locale, category: aboutFormats},
	{name: "lc_numeric", def: "C", domain: locale, category: aboutFormats},
	{name: "lc_time", def: "C", domain: locale, category: aboutFormats},
	{name: "lock_timeout", def: "0", domain: duration, category: aboutStatements, about: "Time that a statement may wait for a lock; 0 is for ever."},
	{name: "maintenance_work_mem", def: "64MB", domain: size(1<<10, 1024, math.MaxInt32), category: aboutMemory, about: noEffect},
	{name: "max_connections", def: "20000", context: "postmaster", domain: integer(1, 262143), category: aboutConnection},
	{name: "max_identifier_length", def: "63", context: "internal", domain: integer(63, 63), category: aboutPresets},
	{name: "max_index_keys", def: "32", context: "internal", domain: integer(32, 32), category: aboutPresets},
	{name: "max_parallel_maintenance_workers", def: "2", domain: integer(0, 1024), category: "Resource Usage / Asynchronous Behavior", about: noEffect},
	{name: "max_parallel_workers", def: "8", domain: integer(0, 1024), category: "Resource Usage / Asynchronous Behavior", about: noEffect},
	{name: "max_parallel_workers_per_gather", def: "2", domain: integer(0, 1024), category: "Resource Usage / Asynchronous Behavior", about: noEffect},
	{name: "parallel_setup_cost", def: "1000", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "parallel_tuple_cost", def: "0.1", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "password_encryption", def: "scram-sha-256", domain: only("scram-sha-256", "md5"), category: "Connections and Authentication / Authentication"},
	{name: "plan_cache_mode", def: "auto", domain: oneOf("auto", "force_generic_plan", "force_custom_plan"), category: "Query Tuning / Other Planner Options", about: noEffect},
	{name: "quote_all_identifiers", def: "off", domain: only("off", "on"), category: aboutHistory},
	{name: "random_page_cost", def: "4", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "role", def: "none"},
	{name: "row_security", def: "off", domain: boolean, category: aboutStatements, about: noEffect},
	{name: "search_path", def: `"$user", public`, category: aboutStatements, about: "Schemas in which names without one are looked for."},
	{name: "seed"},
	{name: "seq_page_cost", def: "1", domain: real(0, math.MaxFloat64), category: aboutCosts, about: noEffect},
	{name: "server_encoding", def: "UTF8", reported: true, context: "internal", category: aboutPresets},
	{name: "server_version", def: ServerVersion, reported: true, context: "internal", category: aboutPresets},
	{name: "server_version_num", def: "150000", context: "internal", domain: integer(150000, 150000), category: aboutPresets},
	{name: "session_authorization", reported: true},
	{name: "session_replication_role", def: "origin", context: "superuser", domain: only("origin", "replica", "local"), category: aboutStatements},
	{name: "shared_buffers", def: "128MB", context: "postmaster", domain: size(8<<10, 16, math.MaxInt32/2), category: aboutMemory},
	{name: "ssl", def: "off", context: "sighup", domain: boolean, category: "Connections and Authentication / SSL"},
	{name: "standard_conforming_strings", def: "on", reported: true, domain: boolean.except("off", "Write E'...' for a string with backslash escapes."), category: aboutHistory, about: "Backslashes in '...' are ordinary characters."},
	{name: "statement_timeout", def: "0", domain: duration, category: aboutStatements, about: "Time that a statement may take; 0 is for ever."},
	{name: "synchronize_seqscans", def: "on", domain: boolean, category: aboutHistory, about: noEffect},
	{name: "synchronous_commit", def: "on", domain: orSwitch("local", "remote_write", "remote_apply", "on", "off"), category: "Write-Ahead Log / Settings", about: "Every commit is durable and replicated, whatever the value."},
	{name: "temp_buffers", def: "8MB", domain: size(8<<10, 100, math.MaxInt32/2), category: aboutMemory, about: noEffect},
	{name: "temp_tablespaces", domain: known("", "Tablespace"), category: aboutStatements},
	{name: "temporary_memory_limit", def: "256MB", domain: size(1, 64<<10, 1<<40), category: aboutMemory, about: "Memory that the rows of the session's temporary tables may have, on its node."},
	{name: "timezone", def: "UTC", reported: true, category: aboutFormats, about: "Time zone in which timestamps with one are read and written."},
	{name: "transaction_deferrable", def: "off", domain: boolean, category: aboutStatements},
	{name: "transaction_isolation", def: "serializable", domain: isolation, category: aboutStatements},
	{name: "transaction_read_only", def: "off", domain: boolean, category: aboutStatements},
	{name: "transaction_replay", def: "on", domain: boolean, about: "Runs a transaction again after a conflict and goes on if all results that the client has seen are the same."},
	{name: "transaction_replay_size", def: "1MB", domain: size(1, 0, 1<<40), about: "Bytes of statements, arguments and COPY data that are kept of a transaction for its replay."},
	{name: "transaction_replay_statements", def: "1000", domain: integer(0, 1_000_000), about: "Statements that are kept of a transaction for its replay."},
	{name: "transform_null_equals", def: "off", domain: only("off", "on"), category: "Version and Platform Compatibility / Other Platforms and Clients"},
	{name: "vacuum_cost_delay", def: "0", domain: real(0, 100), category: "Resource Usage / Cost-Based Vacuum Delay", about: noEffect},
	{name: "wal_level", def: "logical", context: "postmaster", domain: oneOf("minimal", "replica", "logical"), category: "Write-Ahead Log / Settings"},
	{name: "work_mem", def: "256MB", domain: size(1<<10, 64, math.MaxInt32), category: aboutMemory, about: noEffect},
	{name: "xmlbinary", def: "base64", domain: oneOf("base64", "hex"), category: aboutStatements, about: noEffect},
	{name: "xmloption", def: "content", domain: oneOf("content", "document"), category: aboutStatements, about: noEffect},
}

// settingAliases are other spellings.
func canonical(name string) string {
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

func findSetting(name string) *setting {
	i, ok := slices.BinarySearchFunc(settings, name, func(s setting, n string) int { return strings.Compare(s.name, n) })
	if !ok {
		return nil
	}
	return &settings[i]
}

// displayName is PostgreSQL's spelling where it has capitals.
func displayName(name string) string {
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

// parameters are a session's settings: what was set, over the defaults, with the changes of the open transaction
// and its savepoints undone as they are.
type parameters struct {
	defaults map[string]string // of all settings; shared by all sessions and not changed
	session  map[string]string
	local    map[string]string   // SET LOCAL: gone with the transaction
	saved    map[string]string   // session values before the transaction's SETs; absent keys had none
	dirty    map[string]struct{} // names set within the transaction
	inTxn    bool
}

func (p *parameters) get(name string) (string, bool) {
	if v, ok := p.local[name]; ok {
		return v, true
	}
	if v, ok := p.session[name]; ok {
		return v, true
	}
	v, ok := p.defaults[name]
	return v, ok
}

// defaultValues is what each setting is unless it was set. Statements ask for a dozen of them.
func defaultValues() map[string]string {
	m := make(map[string]string, len(settings))
	for i := range settings {
		m[settings[i].name] = settings[i].def
	}
	return m
}

// accept validates a value, and returns it as it is stored.
func (s *setting) accept(value string) (string, error) {
	if s.domain == nil {
		return value, nil
	}
	return s.domain.accept(s, value)
}

// set validates and stores a value; it returns the value as stored.
func (p *parameters) set(name, value string, local bool) (string, error) {
	s := findSetting(name)
	switch {
	case s == nil && !strings.Contains(name, "."):
		return "", sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
	case s != nil && s.context == "internal":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed", displayName(name))
	case s != nil && s.context == "postmaster":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed without restarting the server", displayName(name))
	case s != nil && s.context == "sighup":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed now", displayName(name))
	case s != nil:
		v, err := s.accept(value)
		if err != nil {
			return "", err
		}
		value = v
	}
	if local {
		if p.local == nil {
			p.local = map[string]string{}
		}
		p.local[name] = value
		return value, nil
	}
	p.remember(name)
	if p.session == nil {
		p.session = map[string]string{}
	}
	p.session[name] = value
	delete(p.local, name)
	return value, nil
}

// isSet reports whether a setting has another value than its default.
func (p *parameters) isSet(name string) bool {
	_, session := p.session[name]
	_, local := p.local[name]
	return session || local
}

func (p *parameters) remember(name string) {
	if _, done := p.dirty[name]; done || !p.inTxn {
		return
	}
	if p.dirty == nil {
		p.dirty = map[string]struct{}{}
	}
	p.dirty[name] = struct{}{}
	if v, ok := p.session[name]; ok {
		if p.saved == nil {
			p.saved = map[string]string{}
		}
		p.saved[name] = v
	}
}

func (p *parameters) reset(name string) {
	p.remember(name)
	delete(p.session, name)
	delete(p.local, name)
}

// begin and end bracket a transaction; end returns the names whose values may have changed by the end itself.
func (p *parameters) begin() { p.inTxn = true }

func (p *parameters) end(committed bool) []string {
	var changed []string
	for n := range p.local {
		changed = append(changed, n)
	}
	clear(p.local)
	if !committed {
		for n := range p.dirty {
			changed = append(changed, n)
			if v, ok := p.saved[n]; ok {
				p.session[n] = v
			} else {
				delete(p.session, n)
			}
		}
	}
	clear(p.saved)
	clear(p.dirty)
	p.inTxn = false
	slices.Sort(changed)
	return changed
}

// parameterMark is what was set at a savepoint.
type parameterMark struct{ session, local map[string]string }

func (p *parameters) mark() parameterMark {
	return parameterMark{maps.Clone(p.session), maps.Clone(p.local)}
}

// rollbackTo undoes what was set after the mark, and returns the names whose values have changed.
func (p *parameters) rollbackTo(m parameterMark) (changed []string) {
	before := map[string]string{}
	for _, set := range []map[string]string{p.session, p.local, m.session, m.local} {
		for n := range set {
			before[n], _ = p.get(n)
		}
	}
	p.session, p.local = maps.Clone(m.session), maps.Clone(m.local)
	for n, v := range before {
		if now, _ := p.get(n); now != v {
			changed = append(changed, n)
		}
	}
	slices.Sort(changed)
	return changed
}

// splitList parses a comma-separated list of identifiers, as in search_path.
func splitList(v string) []string {
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
