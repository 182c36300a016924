package session

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
)

// ServerVersion is the PostgreSQL release whose behaviour is followed; drivers and psql decide by it what to ask.
const ServerVersion = "15.0"

// setting describes one run-time parameter.
type setting struct {
	name     string // as PostgreSQL spells it
	def      string
	reported bool // changes are told to the client (ParameterStatus)
	readOnly bool
	// check normalises a value or refuses it; nil: any text.
	check func(string) (string, error)
	about string
}

// outside is a number that is too small or too large.
type outside struct {
	value  string
	lo, hi int64
}

func (o outside) Error() string {
	return fmt.Sprintf("%s is outside the valid range (%d .. %d)", o.value, o.lo, o.hi)
}

// refusal is why a value is refused, in the words of a hint.
type refusal string

func (r refusal) Error() string { return string(r) }

func oneOf(values ...string) func(string) (string, error) {
	return func(v string) (string, error) {
		if i := slices.IndexFunc(values, func(s string) bool { return strings.EqualFold(s, v) }); i >= 0 {
			return values[i], nil
		}
		return "", refusal("Available values: " + strings.Join(values, ", ") + ".")
	}
}

func boolean(v string) (string, error) {
	switch strings.ToLower(v) {
	case "on", "true", "yes", "1", "t", "y":
		return "on", nil
	case "off", "false", "no", "0", "f", "n":
		return "off", nil
	}
	return "", refusal("It must be a Boolean value.")
}

func integer(lo, hi int64) func(string) (string, error) {
	return func(v string) (string, error) {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		if err != nil {
			return "", refusal("It must be an integer.")
		}
		if n < lo || n > hi {
			return "", refusal(fmt.Sprintf("It must be between %d and %d.", lo, hi))
		}
		return strconv.FormatInt(n, 10), nil
	}
}

// duration accepts PostgreSQL's units; a bare number is milliseconds. It is kept in PostgreSQL's form.
func duration(v string) (string, error) {
	d, err := parseDuration(v)
	if err != nil {
		return "", err
	}
	if d < 0 || d > math.MaxInt32*time.Millisecond {
		return "", outside{strconv.FormatInt(d.Milliseconds(), 10) + " ms", 0, math.MaxInt32}
	}
	switch {
	case d == 0:
		return "0", nil
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour)), nil
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour), nil
	case d%time.Minute == 0:
		return fmt.Sprintf("%dmin", d/time.Minute), nil
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second), nil
	}
	return fmt.Sprintf("%dms", d/time.Millisecond), nil
}

func parseDuration(v string) (time.Duration, error) {
	v = strings.TrimSpace(v)
	i := 0
	for i < len(v) && (v[i] >= '0' && v[i] <= '9' || v[i] == '.' || v[i] == '-' && i == 0) {
		i++
	}
	n, err := strconv.ParseFloat(v[:i], 64)
	if err != nil {
		return 0, refusal("")
	}
	unit, ok := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"min": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[strings.TrimSpace(v[i:])]
	if !ok {
		return 0, refusal("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
	}
	if math.Abs(n)*float64(unit) > float64(math.MaxInt32*time.Millisecond) {
		return 0, refusal("Value exceeds integer range.")
	}
	return time.Duration(n * float64(unit)), nil
}

// size accepts PostgreSQL's units of memory; a bare number is kilobytes.
func size(v string) (string, error) {
	n, err := parseSize(v)
	if err != nil {
		return "", err
	}
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "GB"}, {1 << 20, "MB"}, {1 << 10, "kB"}} {
		if n != 0 && n%u.bytes == 0 {
			return fmt.Sprintf("%d%s", n/u.bytes, u.name), nil
		}
	}
	return fmt.Sprintf("%dB", n), nil
}

func parseSize(v string) (int64, error) {
	v = strings.TrimSpace(v)
	i := 0
	for i < len(v) && v[i] >= '0' && v[i] <= '9' {
		i++
	}
	n, err := strconv.ParseInt(v[:i], 10, 32)
	unit, ok := map[string]int64{"": 1 << 10, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[strings.TrimSpace(v[i:])]
	if err != nil || !ok || n*unit > 1<<40 {
		return 0, refusal("Valid units for this parameter are \"B\", \"kB\", \"MB\", and \"GB\".")
	}
	return n * unit, nil
}

func location(v string) (string, error) {
	if _, err := parseLocation(v); err != nil {
		return "", refusal("The time zone is not known.")
	}
	return v, nil
}

// parseLocation accepts names, UTC, and offsets in hours as PostgreSQL does ("+2" is east here, as in SET TIME ZONE 2).
func parseLocation(v string) (*time.Location, error) {
	v = strings.Trim(v, "'")
	switch strings.ToUpper(v) {
	case "UTC", "GMT", "Z", "DEFAULT", "LOCAL", "ETC/UTC":
		return time.UTC, nil
	}
	if h, err := strconv.ParseFloat(v, 64); err == nil && h > -24 && h < 24 {
		return time.FixedZone(v, int(h*3600)), nil
	}
	return time.LoadLocation(v)
}

func isolation(v string) (string, error) {
	return oneOf("serializable", "repeatable read", "read committed", "read uncommitted")(v)
}

// clientCheck is PostgreSQL's, where its default is 0.
const clientCheck = "client_connection_check_interval"

// settings lists every parameter, by name.
var settings = []setting{
	{name: "application_name", reported: true, about: "Name of the application that uses the session."},
	{name: "bytea_output", def: "hex", check: oneOf("hex", "escape")},
	{name: "check_function_bodies", def: "on", check: boolean},
	{name: clientCheck, def: "1s", check: duration, about: "Time between two looks whether the client is still connected, while its statement runs; 0 is never."},
	{name: "client_encoding", def: "UTF8", reported: true, check: encoding},
	{name: "client_min_messages", def: "notice", check: oneOf("debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error")},
	{name: "constraint_exclusion", def: "partition"},
	{name: "datestyle", def: "ISO, MDY", reported: true, check: dateStyle},
	{name: "deadlock_timeout", def: "50ms", check: duration},
	{name: "default_table_access_method", def: "heap"},
	{name: "default_tablespace"},
	{name: "default_text_search_config", def: "pg_catalog.simple"},
	{name: "default_transaction_deferrable", def: "off", check: boolean},
	{name: "default_transaction_isolation", def: "serializable", check: isolation},
	{name: "default_transaction_read_only", def: "off", reported: true, check: boolean},
	{name: "enable_seqscan", def: "on", check: boolean},
	{name: "escape_string_warning", def: "on", check: boolean},
	{name: "extra_float_digits", def: "1", check: integer(-15, 3)},
	{name: "idle_in_transaction_session_timeout", def: "0", check: duration},
	{name: "idle_session_timeout", def: "0", check: duration},
	{name: "in_hot_standby", def: "off", reported: true, readOnly: true},
	{name: "integer_datetimes", def: "on", reported: true, readOnly: true},
	{name: "intervalstyle", def: "postgres", reported: true, check: oneOf("postgres")},
	{name: "is_superuser", def: "on", reported: true, readOnly: true},
	{name: "jit", def: "off", check: boolean},
	{name: "lc_collate", def: "C", readOnly: true},
	{name: "lc_ctype", def: "C.UTF-8", readOnly: true},
	{name: "lc_messages", def: "C"},
	{name: "lc_monetary", def: "C"},
	{name: "lc_numeric", def: "C"},
	{name: "lc_time", def: "C"},
	{name: "lock_timeout", def: "0", check: duration},
	{name: "max_connections", def: "20000", readOnly: true},
	{name: "max_identifier_length", def: "63", readOnly: true},
	{name: "max_index_keys", def: "32", readOnly: true},
	{name: "password_encryption", def: "scram-sha-256", check: oneOf("scram-sha-256")},
	{name: "quote_all_identifiers", def: "off", check: boolean},
	{name: "role", def: "none"},
	{name: "row_security", def: "off", check: boolean},
	{name: "search_path", def: `"$user", public`},
	{name: "seed"},
	{name: "server_encoding", def: "UTF8", reported: true, readOnly: true},
	{name: "server_version", def: ServerVersion, reported: true, readOnly: true},
	{name: "server_version_num", def: "150000", readOnly: true},
	{name: "session_authorization", reported: true},
	{name: "ssl", def: "off", readOnly: true},
	{name: "standard_conforming_strings", def: "on", reported: true, check: oneOf("on")},
	{name: "statement_timeout", def: "0", check: duration},
	{name: "synchronize_seqscans", def: "on", check: boolean},
	{name: "synchronous_commit", def: "on"},
	{name: "timezone", def: "UTC", reported: true, check: location},
	{name: "transaction_deferrable", def: "off", check: boolean},
	{name: "transaction_isolation", def: "serializable", check: isolation},
	{name: "transaction_read_only", def: "off", check: boolean},
	{name: "transaction_replay", def: "on", check: boolean, about: "Runs a transaction again after a conflict and goes on if all results that the client has seen are the same."},
	{name: "transaction_replay_size", def: "1MB", check: size, about: "Bytes of statements, arguments and COPY data that are kept of a transaction for its replay."},
	{name: "transaction_replay_statements", def: "1000", check: integer(0, 1_000_000), about: "Statements that are kept of a transaction for its replay."},
	{name: "wal_level", def: "logical", readOnly: true},
	{name: "work_mem", def: "256MB"},
	{name: "xmloption", def: "content"},
}

func encoding(v string) (string, error) {
	switch strings.ToUpper(strings.NewReplacer("-", "", "_", "").Replace(v)) {
	case "UTF8", "UNICODE":
		return "UTF8", nil
	case "SQLASCII":
		return "SQL_ASCII", nil
	}
	return "", refusal("Only UTF8 is supported.")
}

func dateStyle(v string) (string, error) {
	for _, p := range strings.Split(v, ",") {
		switch strings.ToUpper(strings.TrimSpace(p)) {
		case "ISO", "MDY", "DEFAULT", "US", "NONEURO", "NONEUROPEAN":
		default:
			return "", refusal("Only \"ISO, MDY\" is supported.")
		}
	}
	return "ISO, MDY", nil
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
	if s.check == nil {
		return value, nil
	}
	v, err := s.check(value)
	if o, ok := err.(outside); ok {
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "%s is outside the valid range for parameter %q (%d .. %d)", o.value, displayName(s.name), o.lo, o.hi)
	}
	if err != nil {
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter %q: %q", displayName(s.name), value).
			WithHint("%s", err.Error())
	}
	return v, nil
}

// set validates and stores a value; it returns the value as stored.
func (p *parameters) set(name, value string, local bool) (string, error) {
	s := findSetting(name)
	switch {
	case s == nil && !strings.Contains(name, "."):
		return "", sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
	case s != nil && s.readOnly:
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed", displayName(name))
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
