package parse

import "testing"

func TestTypeReferences(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"x > 1", "x > 1"},
		{"'a'::@16400", "'A'::e"},
		{"'{a}'::@16400[] <> v", "'{a}A'::e[] <> v"},
		{"cast('it''s' as @16400), '::@16400'", "cast('it''sA' as e), '::@16400'"},
		{`E'a\\b\''::@16400`, `E'a\\b''A'::e`},
		{"x::@16400 = 'a' AND y::@5 = 1", "x::e = 'a' AND y::@5 = 1"},
		{"a @ 16400", "a @ 16400"},
		{`"::@16400"`, `"::@16400"`},
	} {
		got := TypeReferences(x.text, func(r TypeReference) (string, string) {
			switch {
			case r.OID != 16400:
				return r.Literal, ""
			case r.Literal == "a":
				return "A", "e"
			case r.Array != (r.Literal == "{a}"):
				t.Errorf("%s: %+v", x.text, r)
			}
			return r.Literal + "A", "e"
		})
		if got != x.want {
			t.Errorf("%s: %s, want %s", x.text, got, x.want)
		}
	}
}
