package session

import (
	"slices"
	"strconv"

	"meridian/sql/session/parameter"

	"meridian/sql/charset"
	"meridian/sql/session/result"
	"meridian/sql/types"
)

// canonicalValue parses the values of settings that have a grammar of their own.
func (s *settings) canonicalValue(name, value string) (string, error) {
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

// restyle updates the style and the encoding of values from the settings.
func (s *Session) restyle() {
	st, _, _ := types.ParseDateStyle(s.setting("datestyle"), types.Style{})
	st.Location = s.location
	st.Interval = types.IntervalStyle(max(slices.Index(parameter.Find("intervalstyle").Domain.Enum, s.setting("intervalstyle")), 0))
	if digits, err := strconv.Atoi(s.setting("extra_float_digits")); err == nil && digits <= 0 {
		st.FewerDigits, st.Digits = true, digits
	}
	st.Escape = s.setting("bytea_output") == "escape"
	st.Names = &s.env
	s.style = st
	s.charset, _, _ = charset.Find(s.setting("client_encoding"))
	if o, ok := s.out.(result.Styled); ok {
		o.SetStyle(&s.style, s.charset)
		o.SetNotices(s.shows)
	}
}

// decodeText converts a client's text to UTF-8.
func (s *settings) decodeText(raw []byte) ([]byte, error) {
	if s.charset == nil {
		return raw, nil
	}
	return s.charset.Decode(raw)
}

// shows reports whether notices of a severity are sent to the client (client_min_messages).
func (s *settings) shows(severity string) bool {
	switch s.setting("client_min_messages") {
	case "warning":
		return severity != "NOTICE"
	case "error":
		return false
	}
	return true
}
