package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// viewOptions finds WITH (...) of CREATE VIEW, which the grammar library does not accept, and keeps the option about the view's
// rights in the statement. from and to are its tokens; from is zero if there is none.
func viewOptions(s *Statement, toks []Token) (from, to int, err error) {
	src := s.Source
	i := 1
	for i < len(toks) && i < 6 && !isWord(toks[i], src, "view") {
		i++
	}
	if i >= len(toks) || !isWord(toks[i], src, "view") {
		return 0, 0, nil
	}
	for ; i+1 < len(toks) && !isWord(toks[i], src, "as"); i++ {
		if isWord(toks[i], src, "with") && isPunct(toks[i+1], src, "(") {
			to, err = optionList(s, toks, i+1)
			return i, to, err
		}
	}
	return 0, 0, nil
}

// alterViewOptions finds SET (...) and RESET (...) of ALTER VIEW, and keeps the options in the statement.
func alterViewOptions(s *Statement, toks []Token) (bool, error) {
	src := s.Source
	for i := 2; i+1 < len(toks); i++ {
		if !isPunct(toks[i+1], src, "(") {
			continue
		}
		switch {
		case isWord(toks[i], src, "set"):
			_, err := optionList(s, toks, i+1)
			return true, err
		case isWord(toks[i], src, "reset"):
			return true, nil
		}
	}
	return false, nil
}

// optionList reads (name [= value], ...) from token at on, and returns the token after it.
func optionList(s *Statement, toks []Token, at int) (end int, err error) {
	src := s.Source
	i := at + 1
	for {
		if i >= len(toks) {
			return i, nil // the grammar library raises the error
		}
		name, value := strings.ToLower(identText(toks[i], src)), "true"
		if i++; i+1 < len(toks) && toks[i].Text(src) == "=" {
			value = strings.ToLower(strings.Trim(toks[i+1].Text(src), "'"))
			i += 2
		}
		if err := s.setViewOption(name, value); err != nil {
			return 0, err
		}
		switch {
		case i < len(toks) && isPunct(toks[i], src, ","):
			i++
		case i < len(toks) && isPunct(toks[i], src, ")"):
			return i + 1, nil
		default:
			return i, nil
		}
	}
}

func (s *Statement) setViewOption(name, value string) error {
	on, ok := false, true
	switch value {
	case "true", "on", "yes", "1":
		on = true
	case "false", "off", "no", "0":
	default:
		ok = false
	}
	switch name {
	case "security_invoker":
		if !ok {
			return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for boolean option \"%s\": %s", name, value)
		}
		s.SecurityInvoker = &on
		return nil
	case "security_barrier":
		if !ok {
			return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for boolean option \"%s\": %s", name, value)
		}
		if on {
			return sqlstate.New(sqlstate.FeatureNotSupported, "views with security_barrier are not supported").
				WithHint("The conditions of a query may be evaluated before those of the view.")
		}
		return nil
	case "check_option":
		return sqlstate.New(sqlstate.FeatureNotSupported, "views with check_option are not supported").WithHint("Views are not updatable.")
	}
	return sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized parameter \"%s\"", name)
}
