package session

import (
	"slices"
	"strconv"

	"meridian/sql/charset"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// canonicalValue reads the settings whose values have a grammar of their own.
func (s *Session) canonicalValue(name, value string) (string, error) {
	var err error
	switch name {
	case "datestyle":
		_, value, err = types.ParseDateStyle(value, s.style)
	case "timezone":
		_, value, err = types.SessionZone(value)
	case "client_encoding":
		_, value, err = charset.Find(value)
	}
	return value, err
}

// restyle takes the settings over that say how values are written.
func (s *Session) restyle() {
	st, _, _ := types.ParseDateStyle(s.setting("datestyle"), types.Style{})
	st.Location = s.location
	st.Interval = types.IntervalStyle(max(slices.Index(findSetting("intervalstyle").domain.enum, s.setting("intervalstyle")), 0))
	if digits, err := strconv.Atoi(s.setting("extra_float_digits")); err == nil && digits <= 0 {
		st.FewerDigits, st.Digits = true, digits
	}
	st.Escape = s.setting("bytea_output") == "escape"
	st.Names = &s.env
	s.style = st
	s.charset, _, _ = charset.Find(s.setting("client_encoding"))
	if o, ok := s.out.(StyledResults); ok {
		o.SetStyle(&s.style, s.charset)
		o.SetNotices(s.shows)
	}
}

// StyledResults is what a Results has whose client sees text.
type StyledResults interface {
	// SetStyle says how values are written from now on, and in which encoding; nil is UTF-8.
	SetStyle(*types.Style, *charset.Charset)
	// SetNotices says which notices are sent.
	SetNotices(shows func(severity string) bool)
}

// decodeText converts a client's text.
func (s *Session) decodeText(raw []byte) ([]byte, error) {
	if s.charset == nil {
		return raw, nil
	}
	return s.charset.Decode(raw)
}

// decodeBinary converts the text in the binary form of a value.
func (s *Session) decodeBinary(raw []byte, t *types.T) ([]byte, error) {
	if s.charset == nil {
		return raw, nil
	}
	switch t.Phys() {
	case types.PhysString, types.PhysChar, types.PhysJSON:
		return s.charset.Decode(raw)
	case types.PhysArray, types.PhysTuple:
		if t.Elem != nil && t.Elem.Phys() != types.PhysString && t.Elem.Phys() != types.PhysChar && t.Elem.Phys() != types.PhysJSON {
			break
		}
		return nil, sqlstate.New(sqlstate.FeatureNotSupported, "binary arrays and rows of text need client_encoding UTF8")
	}
	return raw, nil
}

// shows reports whether the client wants to hear of a notice (client_min_messages).
func (s *Session) shows(severity string) bool {
	switch s.setting("client_min_messages") {
	case "warning":
		return severity != "NOTICE"
	case "error":
		return false
	}
	return true
}
