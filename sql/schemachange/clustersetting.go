package schemachange

import (
	"errors"
	"strings"

	"meridian/setting"
	"meridian/sql/bind"
	"meridian/sql/sqlstate"
)

func (c *change) setClusterSetting(s *bind.SetClusterSetting) error {
	if !c.super() {
		return sqlstate.New(sqlstate.InsufficientPrivilege, "permission denied to set cluster setting \"%s\"", s.Name)
	}
	name, value := strings.ToLower(s.Name), s.Value
	if n := len(value); n > 1 && value[0] == '\'' && value[n-1] == '\'' {
		value = strings.ReplaceAll(value[1:n-1], "''", "'")
	}
	m := c.Catalog.Settings()
	if s.Default {
		// A setting that only another version knows may be reset too.
		if _, known := setting.Find(name); !known && m[name] == "" {
			return settingError(&setting.UnknownError{Name: s.Name})
		}
		delete(m, name)
		return nil
	}
	value, err := setting.Check(name, value)
	if err != nil {
		return settingError(err)
	}
	m[name] = value
	return nil
}

// settingError is a user's mistake about a cluster setting.
func settingError(err error) error {
	var wrong *setting.ValueError
	if errors.As(err, &wrong) {
		return sqlstate.New(sqlstate.InvalidParameterValue, "%s", err).WithHint("%s", wrong.Hint)
	}
	return sqlstate.New(sqlstate.UndefinedObject, "%s", err).WithHint("SHOW ALL CLUSTER SETTINGS lists the cluster settings.")
}
