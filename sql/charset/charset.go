package charset

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/transform"

	"meridian/sql/sqlstate"
)

// Charset is one encoding that is not UTF-8.
type Charset struct {
	Name     string
	encoding encoding.Encoding
	single   *charmap.Charmap // nil: characters have several bytes
}

// unconverted has the names of the encodings whose text is not converted.
const unconverted = "UTF8 SQL_ASCII"

// spellings has PostgreSQL's other names for its encodings, with letters and digits only.
var spellings = map[string]string{
	"unicode": "UTF8", "sqlascii": "SQL_ASCII", "iso88591": "LATIN1", "iso88592": "LATIN2", "iso88593": "LATIN3", "iso88594": "LATIN4",
	"iso88599": "LATIN5", "iso885910": "LATIN6", "iso885913": "LATIN7", "iso885914": "LATIN8", "iso885915": "LATIN9", "iso885916": "LATIN10",
	"iso88595": "ISO_8859_5", "iso88596": "ISO_8859_6", "iso88597": "ISO_8859_7", "iso88598": "ISO_8859_8", "koi8": "KOI8R", "abc": "WIN1258", "alt": "WIN866",
	"tcvn": "WIN1258", "tcvn5712": "WIN1258", "vscii": "WIN1258", "win": "WIN1251", "windows866": "WIN866", "windows874": "WIN874", "windows949": "UHC",
	"win949": "UHC", "windows936": "GBK", "win936": "GBK", "windows950": "BIG5", "win950": "BIG5", "shiftjis": "SJIS", "mskanji": "SJIS",
	"win932": "SJIS", "windows932": "SJIS", "eucjp": "EUC_JP", "euckr": "EUC_KR", "euccn": "EUC_CN",
}

// refused are encodings that PostgreSQL knows and golang.org/x/text does not.
var refused = map[string]string{"euctw": "EUC_TW", "eucjis2004": "EUC_JIS_2004", "muleinternal": "MULE_INTERNAL", "johab": "JOHAB", "shiftjis2004": "SHIFT_JIS_2004"}

func byName(name string) *Charset {
	one := func(m *charmap.Charmap) *Charset { return &Charset{name, m, m} }
	many := func(e encoding.Encoding) *Charset { return &Charset{name, e, nil} }
	switch name {
	case "LATIN1":
		return one(charmap.ISO8859_1)
	case "LATIN2":
		return one(charmap.ISO8859_2)
	case "LATIN3":
		return one(charmap.ISO8859_3)
	case "LATIN4":
		return one(charmap.ISO8859_4)
	case "LATIN5":
		return one(charmap.ISO8859_9)
	case "LATIN6":
		return one(charmap.ISO8859_10)
	case "LATIN7":
		return one(charmap.ISO8859_13)
	case "LATIN8":
		return one(charmap.ISO8859_14)
	case "LATIN9":
		return one(charmap.ISO8859_15)
	case "LATIN10":
		return one(charmap.ISO8859_16)
	case "ISO_8859_5":
		return one(charmap.ISO8859_5)
	case "ISO_8859_6":
		return one(charmap.ISO8859_6)
	case "ISO_8859_7":
		return one(charmap.ISO8859_7)
	case "ISO_8859_8":
		return one(charmap.ISO8859_8)
	case "WIN866":
		return one(charmap.CodePage866)
	case "WIN874":
		return one(charmap.Windows874)
	case "WIN1250":
		return one(charmap.Windows1250)
	case "WIN1251":
		return one(charmap.Windows1251)
	case "WIN1252":
		return one(charmap.Windows1252)
	case "WIN1253":
		return one(charmap.Windows1253)
	case "WIN1254":
		return one(charmap.Windows1254)
	case "WIN1255":
		return one(charmap.Windows1255)
	case "WIN1256":
		return one(charmap.Windows1256)
	case "WIN1257":
		return one(charmap.Windows1257)
	case "WIN1258":
		return one(charmap.Windows1258)
	case "KOI8R":
		return one(charmap.KOI8R)
	case "KOI8U":
		return one(charmap.KOI8U)
	case "EUC_JP":
		return many(japanese.EUCJP)
	case "SJIS":
		return many(japanese.ShiftJIS)
	case "EUC_KR", "UHC":
		return many(korean.EUCKR)
	case "EUC_CN", "GBK":
		return many(simplifiedchinese.GBK)
	case "GB18030":
		return many(simplifiedchinese.GB18030)
	case "BIG5":
		return many(traditionalchinese.Big5)
	}
	return nil
}

// Named returns the encoding of a name in any of its spellings, and PostgreSQL's own name for it; empty: there is none. A nil Charset
// converts nothing. ok is false for an encoding that PostgreSQL has and this package has not.
func Named(spelling string) (c *Charset, name string, ok bool) {
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, spelling)
	if name, ok := refused[plain]; ok {
		return nil, name, false
	}
	if name = spellings[plain]; name == "" {
		name = strings.Replace(strings.ToUpper(plain), "WINDOWS", "WIN", 1)
	}
	if plain != "" && strings.Contains(" "+unconverted+" ", " "+name+" ") {
		return nil, name, true
	}
	if c := byName(name); c != nil {
		return c, name, true
	}
	return nil, "", false
}

// Find is Named for client_encoding, with its errors.
func Find(spelling string) (*Charset, string, error) {
	c, name, ok := Named(spelling)
	switch {
	case ok:
		return c, name, nil
	case name != "":
		return nil, "", sqlstate.New(sqlstate.FeatureNotSupported, "invalid value for parameter \"client_encoding\": \"%s\"", spelling).
			WithDetail("Conversion between %s and UTF8 is not supported.", name)
	}
	return nil, "", sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for parameter \"client_encoding\": \"%s\"", spelling)
}

// controls reports that the bytes 80 to 9f are control characters, for which the library's tables of the ISO's encodings have nothing.
func (c *Charset) controls() bool {
	return strings.HasPrefix(c.Name, "LATIN") || strings.HasPrefix(c.Name, "ISO")
}

// SingleByte reports whether each character has one byte.
func (c *Charset) SingleByte() bool { return c != nil && c.single != nil }

// bytesShown prints the bytes of a character for an error.
func bytesShown[T string | []byte](b T) string {
	var s strings.Builder
	for i := 0; i < len(b); i++ {
		if i > 0 {
			s.WriteByte(' ')
		}
		fmt.Fprintf(&s, "0x%02x", b[i])
	}
	return s.String()
}

// ascii reports whether all bytes are ASCII, which is the same in all encodings, except for the second bytes of some characters.
func ascii[T string | []byte](b T) bool {
	for i := 0; i < len(b); i++ {
		if b[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Decode converts a client's text (charset.CS1).
func (c *Charset) Decode(b []byte) ([]byte, error) {
	out, rest, err := c.DecodeStart(b)
	if err == nil && len(rest) > 0 {
		err = c.invalid(rest)
	}
	return out, err
}

// DecodeStart converts as many whole characters of a client's text as there are, and returns the bytes that are left over.
func (c *Charset) DecodeStart(b []byte) (out, rest []byte, err error) {
	if ascii(b) {
		return b, nil, nil
	}
	if c.single != nil {
		out = make([]byte, 0, len(b)+len(b)/4)
		for _, x := range b {
			r := c.single.DecodeByte(x)
			if r == utf8.RuneError && x < 0xa0 && c.controls() {
				r = rune(x)
			}
			if r == utf8.RuneError {
				return nil, nil, sqlstate.New(sqlstate.UntranslatableCharacter, "character with byte sequence 0x%02x in encoding \"%s\" has no equivalent in encoding \"UTF8\"", x, c.Name)
			}
			out = utf8.AppendRune(out, r)
		}
		return out, nil, nil
	}
	dec := c.encoding.NewDecoder()
	out = make([]byte, 0, 2*len(b))
	var piece [16]byte
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			out, b = append(out, b[0]), b[1:]
			continue
		}
		// One character at a time, so that the error can name the one without an equivalent.
		done := false
		for n := 2; n <= min(4, len(b)); n++ {
			dec.Reset()
			nDst, nSrc, err := dec.Transformer.Transform(piece[:], b[:n], false)
			if nSrc == 0 && errors.Is(err, transform.ErrShortSrc) {
				continue
			}
			r, size := utf8.DecodeRune(piece[:nDst])
			if r == utf8.RuneError || nSrc == 0 {
				return nil, nil, c.invalid(b[:min(len(b), 2)])
			}
			first := n
			if size < nDst { // a single byte and the character after it
				dec.Reset()
				_, first, _ = dec.Transformer.Transform(piece[:], b[:1], false)
			} else {
				first = nSrc
			}
			out, b, done = append(out, piece[:size]...), b[first:], true
			break
		}
		if !done {
			if len(b) >= 4 {
				return nil, nil, c.invalid(b[:2])
			}
			if len(b) == 1 {
				dec.Reset()
				if nDst, nSrc, err := dec.Transformer.Transform(piece[:], b, false); err == nil && nSrc == 1 {
					if r, size := utf8.DecodeRune(piece[:nDst]); r != utf8.RuneError {
						return append(out, piece[:size]...), nil, nil
					}
					return nil, nil, c.invalid(b)
				}
			}
			return out, b, nil
		}
	}
	return out, nil, nil
}

func (c *Charset) invalid(b []byte) error {
	return sqlstate.New(sqlstate.CharacterNotInRepertoire, "invalid byte sequence for encoding \"%s\": %s", c.Name, bytesShown(b))
}

// Encode appends a text of the database to dst, in the client's encoding (charset.CS1).
func (c *Charset) Encode(dst []byte, s []byte) ([]byte, error) {
	return c.encode(dst, s, false)
}

// EncodeMessage appends the text of an error, with question marks for characters without an equivalent (charset.CS2).
func (c *Charset) EncodeMessage(dst []byte, s []byte) []byte {
	dst, _ = c.encode(dst, s, true)
	return dst
}

func (c *Charset) encode(dst []byte, s []byte, lossy bool) ([]byte, error) {
	if ascii(s) {
		return append(dst, s...), nil
	}
	var enc *encoding.Encoder
	if c.single == nil {
		enc = c.encoding.NewEncoder()
	}
	var piece [16]byte
	for len(s) > 0 {
		if s[0] < utf8.RuneSelf {
			dst, s = append(dst, s[0]), s[1:]
			continue
		}
		r, size := utf8.DecodeRune(s)
		ok := false
		if c.single != nil {
			var b byte
			if b, ok = c.single.EncodeRune(r); !ok && r >= 0x80 && r < 0xa0 && c.controls() {
				b, ok = byte(r), true
			}
			if ok {
				dst = append(dst, b)
			}
		} else if n, _, err := enc.Transformer.Transform(piece[:], s[:size], true); err == nil {
			dst, ok = append(dst, piece[:n]...), true
		}
		switch {
		case !ok && lossy:
			dst = append(dst, '?')
		case !ok:
			return dst, sqlstate.New(sqlstate.UntranslatableCharacter, "character with byte sequence %s in encoding \"UTF8\" has no equivalent in encoding \"%s\"", bytesShown(s[:size]), c.Name)
		}
		s = s[size:]
	}
	return dst, nil
}
