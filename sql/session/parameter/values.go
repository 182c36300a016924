package parameter

import (
	"maps"
	"slices"
	"strings"

	"meridian/sql/memory"
	"meridian/sql/sqlstate"
)

// Values are a session's settings: the values that were set, over the defaults. A rollback, of the transaction or to a savepoint, undoes the
// changes of settings with the others.
type Values struct {
	defaults map[string]string // of all settings; shared by all sessions and not changed
	first    map[string]First  // of those with which the session began
	session  map[string]string
	local    map[string]string   // of SET LOCAL: until the transaction ends
	saved    map[string]string   // session values before the transaction's SETs; names without one are missing
	dirty    map[string]struct{} // names set within the transaction
	inTxn    bool
	// custom are the names with a dot that the client has set or reset, also in transactions that were rolled back: such a setting stays, and is empty
	// without a value.
	custom map[string]struct{}
	// memory is the session's account, in which held is reserved for the values; counted is their size at the last count.
	memory        *memory.Account
	held, counted int64
	// changes counts the calls that may have changed a value.
	changes uint64
}

const (
	// valueBytes is the memory of a value besides its texts.
	valueBytes = 128
	// valuesFree is the size below which the values are not counted again.
	valuesFree = 16 << 10
)

// First is a value with which a session began, to which RESET returns.
type First struct {
	Value  string
	Source string // as pg_settings names it: client, user, database
}

// New makes the values of a session, which has only defaults yet; the memory of others is reserved in the account.
func New(defaults map[string]string, account *memory.Account) Values {
	return Values{defaults: defaults, memory: account, changes: 1}
}

// Changes is a number that grows whenever a value may have changed; it is never zero. A result that was computed from values is right while the number stays.
func (p *Values) Changes() uint64 { return p.changes }

// Settle releases the memory of values that were replaced, reset or undone. It counts the values only when they hold twice as much as at the last
// count, so that a client that sets many does not pay a count of all for each.
func (p *Values) Settle() {
	if p.held > valuesFree && p.held > 2*p.counted {
		p.recount()
	}
}

func (p *Values) recount() {
	now := p.bytes()
	p.memory.Shrink(p.held - now)
	p.held, p.counted = now, now
}

// RecountAtEnd makes the next Settle count the values: until the transaction ends it keeps those that a rollback would restore.
func (p *Values) RecountAtEnd() { p.counted = 0 }

// Hold reserves the memory of a new value. The memory of the earlier one stays reserved, since a rollback may restore it.
func (p *Values) Hold(name, value string) error {
	n := int64(valueBytes + len(name) + len(value))
	err := p.memory.Grow(n)
	if err != nil {
		p.recount()
		err = p.memory.Grow(n)
	}
	if err != nil {
		return err
	}
	p.held += n
	return nil
}

// MarkBytes is the memory of a mark.
func (p *Values) MarkBytes() int64 { return int64(len(p.session)+len(p.local)) * valueBytes }

// bytes counts the memory of the settings that are not defaults.
func (p *Values) bytes() int64 {
	n := 0
	for _, m := range []map[string]string{p.session, p.local, p.saved} {
		for k, v := range m {
			n += valueBytes + len(k) + len(v)
		}
	}
	for k := range p.custom {
		n += valueBytes + len(k)
	}
	for k, v := range p.first {
		n += valueBytes + len(k) + len(v.Value)
	}
	return int64(n)
}

func (p *Values) Get(name string) (string, bool) {
	if v, ok := p.local[name]; ok {
		return v, true
	}
	if v, ok := p.session[name]; ok {
		return v, true
	}
	if v, ok := p.first[name]; ok {
		return v.Value, true
	}
	v, ok := p.defaults[name]
	if !ok {
		_, ok = p.custom[name]
	}
	return v, ok
}

// Mention makes a custom setting, which exists from then on as in PostgreSQL; no ROLLBACK removes it.
func (p *Values) Mention(name string) {
	if Find(name) != nil {
		return
	}
	if p.custom == nil {
		p.custom = map[string]struct{}{}
	}
	p.custom[name] = struct{}{}
}

// Set validates and stores a value; it returns the value as stored.
func (p *Values) Set(name, value string, local bool) (string, error) {
	s := Find(name)
	switch {
	case s == nil && !strings.Contains(name, "."):
		return "", sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
	case s != nil && s.Context == "internal":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed", DisplayName(name))
	case s != nil && s.Context == "postmaster":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed without restarting the server", DisplayName(name))
	case s != nil && s.Context == "sighup":
		return "", sqlstate.New(sqlstate.CantChangeRuntimeParam, "parameter %q cannot be changed now", DisplayName(name))
	case s != nil:
		v, err := s.Accept(value)
		if err != nil {
			return "", err
		}
		value = v
	}
	p.changes++
	p.Mention(name)
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

// IsSet reports whether a setting was set, for the session or by SET LOCAL.
func (p *Values) IsSet(name string) bool {
	_, session := p.session[name]
	_, local := p.local[name]
	return session || local
}

// Names lists the settings that were set, for the session or by SET LOCAL.
func (p *Values) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(p.session)), maps.Keys(p.local))
	slices.Sort(names)
	return slices.Compact(names)
}

// Adopt makes the values that were set those with which the session began. source says where they come from.
func (p *Values) Adopt(source string) {
	if len(p.session) == 0 {
		return
	}
	p.changes++
	if p.first == nil {
		p.first = make(map[string]First, len(p.session))
	}
	for name, v := range p.session {
		p.first[name] = First{v, source}
	}
	p.session = nil
}

// Fallback is the value to which RESET returns. Began: the session began with it; otherwise it is the server's.
func (p *Values) Fallback(name string) (v First, began bool) {
	if v, began = p.first[name]; !began {
		v.Value = p.defaults[name]
	}
	return v, began
}

func (p *Values) remember(name string) {
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

func (p *Values) Reset(name string) {
	p.changes++
	p.remember(name)
	delete(p.session, name)
	delete(p.local, name)
}

// Begin and End bracket a transaction; End returns the names of settings whose values the end may have changed.
func (p *Values) Begin() { p.inTxn = true }

func (p *Values) End(committed bool) []string {
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
	if len(changed) > 0 {
		p.changes++
	}
	clear(p.saved)
	clear(p.dirty)
	p.inTxn = false
	slices.Sort(changed)
	return changed
}

// Mark has the settings of a savepoint.
type Mark struct{ session, local map[string]string }

func (p *Values) Mark() Mark {
	return Mark{maps.Clone(p.session), maps.Clone(p.local)}
}

// RollbackTo undoes the changes after the mark, and returns the names of the settings whose values differ now.
func (p *Values) RollbackTo(m Mark) (changed []string) {
	p.changes++
	before := map[string]string{}
	for _, set := range []map[string]string{p.session, p.local, m.session, m.local} {
		for n := range set {
			before[n], _ = p.Get(n)
		}
	}
	p.session, p.local = maps.Clone(m.session), maps.Clone(m.local)
	for n, v := range before {
		if now, _ := p.Get(n); now != v {
			changed = append(changed, n)
		}
	}
	slices.Sort(changed)
	return changed
}
