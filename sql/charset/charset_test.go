package charset

import (
	"errors"
	"testing"
	"unicode/utf8"

	"meridian/sql/sqlstate"
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		in, name string
		converts bool
	}{
		{"utf8", "UTF8", false}, {"'utf-8'", "UTF8", false}, {"UNICODE", "UTF8", false}, {"sql_ascii", "SQL_ASCII", false}, {"latin1", "LATIN1", true},
		{"ISO-8859-1", "LATIN1", true}, {"iso 8859 15", "LATIN9", true}, {"WINDOWS-1252", "WIN1252", true}, {"win1252", "WIN1252", true}, {"KOI8", "KOI8R", true},
		{"Shift_JIS", "SJIS", true}, {"euc_jp", "EUC_JP", true}, {"WIN", "WIN1251", true}, {"gb18030", "GB18030", true},
	} {
		got, name, err := Find(c.in)
		if err != nil || name != c.name || (got != nil) != c.converts {
			t.Errorf("%s: %v %s %v", c.in, got, name, err)
		}
	}
	for in, code := range map[string]sqlstate.Code{"foo": sqlstate.InvalidParameterValue, "": sqlstate.InvalidParameterValue, "euc_tw": sqlstate.FeatureNotSupported} {
		_, _, err := Find(in)
		if e := (*sqlstate.Error)(nil); !errors.As(err, &e) || e.Code != code {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestThereAndBack: each character that an encoding has comes back from it, alone, after others, and in pieces of any length.
func TestThereAndBack(t *testing.T) {
	for _, name := range []string{"LATIN1", "LATIN2", "LATIN9", "WIN1250", "WIN1252", "WIN866", "KOI8R", "ISO_8859_7", "EUC_JP", "SJIS", "EUC_KR", "UHC", "GBK", "GB18030", "BIG5"} {
		c, _, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		var all, text []byte
		for r := rune(1); r < 0x10000; r++ {
			if !utf8.ValidRune(r) || r == utf8.RuneError {
				continue
			}
			u := utf8.AppendRune(nil, r)
			b, err := c.Encode(nil, u)
			if err != nil {
				continue
			}
			back, err := c.Decode(b)
			if err != nil || string(back) != string(u) {
				if c.single == nil {
					continue // the tables of some have two characters for one
				}
				t.Fatalf("%s: %U is %x and comes back as %q (%v)", name, r, b, back, err)
			}
			n++
			all, text = append(append(all, b...), 'x'), append(append(text, u...), 'x')
		}
		if n < 200 {
			t.Errorf("%s has %d characters", name, n)
		}
		var got, rest []byte
		for i := 0; i < len(all); i += 7 {
			part, left, err := c.DecodeStart(append(rest, all[i:min(i+7, len(all))]...))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, rest = append(got, part...), append([]byte(nil), left...)
		}
		if string(got) != string(text) || len(rest) > 0 {
			t.Errorf("%s: pieces do not add up", name)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, in string
		encode   bool
		want     string
	}{
		{"LATIN1", "a€", true, `character with byte sequence 0xe2 0x82 0xac in encoding "UTF8" has no equivalent in encoding "LATIN1"`},
		{"WIN1252", "a\x81", false, `character with byte sequence 0x81 in encoding "WIN1252" has no equivalent in encoding "UTF8"`},
		{"EUC_JP", "a\xff\xff", false, `invalid byte sequence for encoding "EUC_JP": 0xff 0xff`},
		{"SJIS", "a\x83", false, `invalid byte sequence for encoding "SJIS": 0x83`},
	} {
		cs, _, _ := Find(c.name)
		var err error
		if c.encode {
			_, err = cs.Encode(nil, []byte(c.in))
		} else {
			_, err = cs.Decode([]byte(c.in))
		}
		if e := (*sqlstate.Error)(nil); !errors.As(err, &e) || e.Message != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if cs, _, _ := Find("LATIN1"); string(cs.EncodeMessage(nil, []byte("é€"))) != "\xe9?" {
		t.Error("a message is not delivered (charset.CS2)")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("SJIS", []byte("\x83\x5c"))
	f.Add("GB18030", []byte("\x81\x30\x81\x30"))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		c, _, err := Find(name)
		if err != nil || c == nil {
			return
		}
		out, err := c.Decode(b)
		if err == nil && !utf8.Valid(out) {
			t.Errorf("%s: %x gives %x", name, b, out)
		}
	})
}
