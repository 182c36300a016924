package parameter

import (
	"maps"
	"slices"
	"strings"

	"meridian/sql/memory"
	"meridian/sql/sqlstate"
)

// Values are a session's settings: what was set, over the defaults, with the changes of the open transaction
// and its savepoints undone as they are.
type Values struct {
	defaults map[string]string // of all settings; shared by all sessions and not changed
	session  map[string]string
	local    map[string]string   // SET LOCAL: gone with the transaction
	saved    map[string]string   // session values before the transaction's SETs; absent keys had none
	dirty    map[string]struct{} // names set within the transaction
	inTxn    bool
	// custom are the settings that the client has made up by naming them, also in what was undone: they stay, and are empty without a value.
	custom map[string]struct{}
	// memory is the session's account, of which held was taken for the values; counted is what they held when they were counted last.
	memory        *memory.Account
	held, counted int64
}

const (
	// valueBytes is what a value occupies besides its texts.
	valueBytes = 128
	// valuesFree is below which the values are not counted anew at the end of a transaction.
	valuesFree = 16 << 10
)

// New are the defaults; what is set besides is taken from an account.
func New(defaults map[string]string, account *memory.Account) Values {
	return Values{defaults: defaults, memory: account}
}

// Settle releases the memory of values that were replaced, reset or undone. It counts them only when they hold twice what they
// did when they were counted last, so that a client that sets many does not have all counted for each.
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

// RecountAtEnd has the values counted when the transaction ends, which keeps what there was until then.
func (p *Values) RecountAtEnd() { p.counted = 0 }

// Hold takes the memory of a new value. The one before it may have to come back when the transaction is rolled back.
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

// MarkBytes is what a mark of the values as they are occupies.
func (p *Values) MarkBytes() int64 { return int64(len(p.session)+len(p.local)) * valueBytes }

// bytes is what the settings occupy that are not the defaults.
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
	return int64(n)
}

func (p *Values) Get(name string) (string, bool) {
	if v, ok := p.local[name]; ok {
		return v, true
	}
	if v, ok := p.session[name]; ok {
		return v, true
	}
	v, ok := p.defaults[name]
	if !ok {
		_, ok = p.custom[name]
	}
	return v, ok
}

// Mention makes a setting with a name of the client's own exist from now on, as PostgreSQL does; no ROLLBACK removes it.
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

// IsSet reports whether a setting has another value than its default.
func (p *Values) IsSet(name string) bool {
	_, session := p.session[name]
	_, local := p.local[name]
	return session || local
}

// Names lists what has been set, for the session or by SET LOCAL.
func (p *Values) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(p.session)), maps.Keys(p.local))
	slices.Sort(names)
	return slices.Compact(names)
}

// Adopt makes the session's values what RESET goes back to.
func (p *Values) Adopt() {
	defaults := maps.Clone(p.defaults)
	maps.Copy(defaults, p.session)
	p.defaults, p.session = defaults, nil
}

// Fallback is what RESET goes back to.
func (p *Values) Fallback(name string) string { return p.defaults[name] }

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
	p.remember(name)
	delete(p.session, name)
	delete(p.local, name)
}

// Begin and End bracket a transaction; End returns the names whose values may have changed by the end itself.
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
	clear(p.saved)
	clear(p.dirty)
	p.inTxn = false
	slices.Sort(changed)
	return changed
}

// Mark is what was set at a savepoint.
type Mark struct{ session, local map[string]string }

func (p *Values) Mark() Mark {
	return Mark{maps.Clone(p.session), maps.Clone(p.local)}
}

// RollbackTo undoes what was set after the mark, and returns the names whose values have changed.
func (p *Values) RollbackTo(m Mark) (changed []string) {
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
