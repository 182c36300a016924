package system

import (
	"strings"
	"unicode/utf8"

	"meridian/sql/charset"
	"meridian/sql/scalar"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// addEncodings adds conversions between encodings. Text is UTF8; in other encodings it is bytes.
func addEncodings(r *scalar.Registry) {
	named := func(role, spelling string) (*charset.Charset, string, error) {
		c, name, ok := charset.Named(spelling)
		switch {
		case name == "":
			return nil, "", sqlstate.New(sqlstate.InvalidParameterValue, "invalid %sencoding name \"%s\"", role, spelling)
		case !ok:
			return nil, "", sqlstate.New(sqlstate.FeatureNotSupported, "encoding \"%s\" is not supported", name)
		}
		return c, name, nil
	}
	invalid := func(name string, b byte) error {
		return sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"%s\": 0x%02x", name, b)
	}
	// decoded is bytes of an encoding as UTF8.
	decoded := func(b string, c *charset.Charset, name string) (string, error) {
		switch {
		case strings.IndexByte(b, 0) >= 0:
			return "", invalid(name, 0)
		case c != nil:
			out, err := c.Decode([]byte(b))
			return string(out), err
		case name == "UTF8" && !utf8.ValidString(b):
			return "", types.InvalidUTF8([]byte(b))
		}
		return b, nil
	}
	encoded := func(s string, c *charset.Charset) (types.Datum, error) {
		if c == nil {
			return types.NewBytes(s), nil
		}
		out, err := c.Encode(nil, []byte(s))
		if err != nil {
			return types.Null, err
		}
		return types.NewBytes(string(out)), nil
	}
	r.Func2("convert_from(bytea, text) text", func(_ *scalar.Context, a, b types.Datum) (types.Datum, error) {
		c, name, err := named("source ", b.Str())
		if err != nil {
			return types.Null, err
		}
		s, err := decoded(a.Str(), c, name)
		if err != nil {
			return types.Null, err
		}
		if !utf8.ValidString(s) { // SQL_ASCII
			return types.Null, types.InvalidUTF8([]byte(s))
		}
		return types.NewString(s), nil
	})
	r.Func2("convert_to(text, text) bytea", func(_ *scalar.Context, a, b types.Datum) (types.Datum, error) {
		c, _, err := named("destination ", b.Str())
		if err != nil {
			return types.Null, err
		}
		return encoded(a.Str(), c)
	})
	r.Func("convert(bytea, text, text) bytea", func(_ *scalar.Context, args []types.Datum) (types.Datum, error) {
		from, fromName, err := named("source ", args[1].Str())
		if err != nil {
			return types.Null, err
		}
		to, toName, err := named("destination ", args[2].Str())
		if err != nil {
			return types.Null, err
		}
		if args[0].Str() == "" {
			return args[0], nil
		}
		s, err := decoded(args[0].Str(), from, fromName)
		switch {
		case fromName == toName && strings.IndexByte(args[0].Str(), 0) < 0:
			if err != nil && sqlstate.Is(err, sqlstate.CharacterNotInRepertoire) {
				return types.Null, err
			}
			return args[0], nil
		case sqlstate.Is(err, sqlstate.CharacterNotInRepertoire) && fromName != "SQL_ASCII":
			return types.Null, err
		case fromName == "SQL_ASCII": // only looked at
			if _, err := decoded(args[0].Str(), to, toName); err != nil {
				return types.Null, err
			}
			return args[0], nil
		case toName == "SQL_ASCII":
			return args[0], nil
		case !convertible(fromName, toName):
			return types.Null, sqlstate.New(sqlstate.UndefinedFunction, "default conversion function for encoding \"%s\" to \"%s\" does not exist", fromName, toName)
		case from.SingleByte() && to.SingleByte(): // one character after the other, for the error's sake
			var out []byte
			for i := range len(args[0].Str()) {
				b := args[0].Str()[i]
				r, err := from.Decode([]byte{b})
				if err == nil {
					out, err = to.Encode(out, r)
				}
				if err != nil {
					return types.Null, sqlstate.New(sqlstate.UntranslatableCharacter,
						"character with byte sequence 0x%02x in encoding \"%s\" has no equivalent in encoding \"%s\"", b, fromName, toName)
				}
			}
			return types.NewBytes(string(out)), nil
		case err != nil:
			return types.Null, err
		}
		return encoded(s, to)
	})
	r.Func2("length(bytea, text) int4", func(_ *scalar.Context, a, b types.Datum) (types.Datum, error) {
		c, name, err := named("", b.Str())
		if err != nil {
			return types.Null, err
		}
		if c == nil && name != "UTF8" || c.SingleByte() {
			if i := strings.IndexByte(a.Str(), 0); i >= 0 {
				return types.Null, invalid(name, 0)
			}
			return types.NewInt(int64(len(a.Str()))), nil
		}
		s, err := decoded(a.Str(), c, name)
		return types.NewInt(int64(utf8.RuneCountInString(s))), err
	})
}

// convertible reports whether PostgreSQL converts between two encodings: of all pairs, those with UTF8 and a few others.
func convertible(a, b string) bool {
	if a == "UTF8" || b == "UTF8" {
		return true
	}
	pair := func(of ...string) bool {
		found := 0
		for _, n := range of {
			if n == a || n == b {
				found++
			}
		}
		return found == 2
	}
	return pair("KOI8R", "WIN1251", "WIN866", "ISO_8859_5") || pair("EUC_JP", "SJIS") || pair("LATIN2", "WIN1250")
}
