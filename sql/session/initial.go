package session

import (
	"strings"

	"meridian/sql/session/parameter"

	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/parse"
	"meridian/sql/sqlstate"
)

// initialSetting checks the value of ALTER ROLE ... SET and ALTER DATABASE ... SET, and returns the statement with name and value in the
// form in which they are kept. Statements of other kinds come back as they are.
func (s *settings) initialSetting(bound bind.Statement) (bind.Statement, error) {
	var set *bind.SetVar
	var reset *parse.ResetVar
	switch b := bound.(type) {
	case *bind.AlterRole:
		if b.Set == nil && b.Reset == nil {
			return bound, nil
		}
		n := *b
		n.Set, n.Reset = keptNames(b.Set, b.Reset)
		bound, set, reset = &n, n.Set, n.Reset
	case *bind.AlterDatabase:
		if b.Set == nil && b.Reset == nil {
			return bound, nil
		}
		n := *b
		n.Set, n.Reset = keptNames(b.Set, b.Reset)
		bound, set, reset = &n, n.Set, n.Reset
	}
	name := ""
	switch {
	case reset != nil:
		name = reset.Name
	case set == nil:
		return bound, nil
	case set.Default:
		name = set.Name
	}
	if name != "" && parameter.Find(name) == nil && !strings.Contains(name, ".") {
		return nil, sqlstate.New(sqlstate.UndefinedObject, "unrecognized configuration parameter %q", name)
	}
	if set == nil || set.Default {
		return bound, nil
	}
	switch set.Name {
	case "role", "session_authorization", "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "parameter %q can't be set for a role or a database", set.Name)
	}
	text, err := settingText(set)
	if err != nil {
		return nil, err
	}
	value, err := s.canonicalValue(set.Name, text)
	if err != nil {
		return nil, err
	}
	if _, err := (&parameter.Values{}).Set(set.Name, value, false); err != nil {
		return nil, err
	}
	set.Values = []string{text}
	return bound, nil
}

// keptNames are copies with the settings' names in the form in which they are kept.
func keptNames(set *bind.SetVar, reset *parse.ResetVar) (*bind.SetVar, *parse.ResetVar) {
	if set != nil {
		c := *set
		c.Name = parameter.Canonical(c.Name)
		set = &c
	}
	if reset != nil {
		reset = &parse.ResetVar{Name: parameter.Canonical(reset.Name)}
	}
	return set, reset
}

// initialSettings gives the session the settings of its database and its role, to which RESET returns. A value that is no longer valid is skipped
// with a warning.
func (s *Session) initialSettings() {
	type setting struct {
		catalog.InitialSetting
		source string
	}
	var all []setting
	add := func(source string, of ...catalog.InitialSetting) {
		for _, x := range of {
			all = append(all, setting{x, source})
		}
	}
	db, user := s.srv.Catalog.Database(s.client.Database), s.srv.Catalog.KnownUser(s.client.User)
	if db != nil {
		add("database", db.Settings...)
	}
	if user != nil {
		for _, x := range user.Settings {
			if x.Database == 0 {
				add("user", x)
			}
		}
		for _, x := range user.Settings {
			if db != nil && x.Database == db.ID {
				add("database user", x)
			}
		}
	}
	for _, x := range all {
		if err := s.set(x.Name, x.Value, false); err != nil {
			e := Outcome(err)
			s.out.Notice(&sqlstate.Error{Code: sqlstate.Warning, Message: e.Message, Detail: e.Detail, Hint: e.Hint})
		}
		s.params.Adopt(x.source)
	}
}
