package scalar

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash/crc32"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func str(s string) (types.Datum, error)   { return types.NewString(s), nil }
func num(n int64) (types.Datum, error)    { return types.NewInt(n), nil }
func boolean(b bool) (types.Datum, error) { return types.NewBool(b), nil }

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// substring cuts characters from a one-based position.
func substring(s string, start, length int64, bounded bool) (string, error) {
	end := int64(1 << 62)
	if bounded {
		if length < 0 {
			return "", sqlstate.New("22011", "negative substring length not allowed")
		}
		end = start + length
	}
	start = max(start, 1)
	if end <= start {
		return "", nil
	}
	if isASCII(s) {
		n := int64(len(s))
		if start > n {
			return "", nil
		}
		return s[start-1 : min(end-1, n)], nil
	}
	from, pos := -1, int64(1)
	for i := range s {
		if pos == start {
			from = i
		}
		if pos == end {
			return s[from:i], nil
		}
		pos++
	}
	if from < 0 {
		return "", nil
	}
	return s[from:], nil
}

func pad(ctx *Context, s string, n int64, fill string, left bool) (types.Datum, error) {
	have := int64(utf8.RuneCountInString(s))
	if fill == "" {
		n = min(n, have)
	}
	if n > resultMax {
		return types.Null, tooLarge()
	}
	if have >= n {
		cut, err := substring(s, 1, max(n, 0), true)
		return types.NewString(cut), err
	}
	t := text{ctx: ctx}
	if left {
		t.fill(fill, n-have)
		t.write(s)
	} else {
		t.write(s)
		t.fill(fill, n-have)
	}
	return t.datum()
}

func initcap(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	word := false
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			word = false
			b.WriteRune(r)
		case word:
			b.WriteRune(unicode.ToLower(r))
		default:
			word = true
			b.WriteRune(unicode.ToUpper(r))
		}
	}
	return b.String()
}

func position(sub, s string) int64 {
	i := strings.Index(s, sub)
	if i < 0 {
		return 0
	}
	return int64(utf8.RuneCountInString(s[:i])) + 1
}

func encode(data, format string) (string, error) {
	switch strings.ToLower(format) {
	case "hex":
		return hex.EncodeToString([]byte(data)), nil
	case "base64":
		s := base64.StdEncoding.EncodeToString([]byte(data))
		var b strings.Builder
		for len(s) > 76 {
			b.WriteString(s[:76])
			b.WriteByte('\n')
			s = s[76:]
		}
		b.WriteString(s)
		return b.String(), nil
	case "escape":
		var b strings.Builder
		for i := 0; i < len(data); i++ {
			switch c := data[i]; {
			case c == '\\':
				b.WriteString(`\\`)
			case c == 0 || c >= 0x80:
				b.WriteByte('\\')
				b.WriteByte('0' + c>>6)
				b.WriteByte('0' + c>>3&7)
				b.WriteByte('0' + c&7)
			default:
				b.WriteByte(c)
			}
		}
		return b.String(), nil
	}
	return "", sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized encoding: %q", types.Raw(format))
}

func decode(text, format string) (types.Datum, error) {
	switch strings.ToLower(format) {
	case "hex":
		return types.ParseText(types.Bytes, `\x`+text, nil)
	case "base64":
		clean := strings.Map(func(r rune) rune {
			if r == ' ' || r == '\n' || r == '\t' || r == '\r' {
				return -1
			}
			return r
		}, text)
		if i := strings.IndexFunc(clean, func(r rune) bool {
			return r != '+' && r != '/' && r != '=' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}); i >= 0 {
			_, n := utf8.DecodeRuneInString(clean[i:])
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid symbol %q found while decoding base64 sequence", types.Raw(clean[i:i+n]))
		}
		b, err := base64.StdEncoding.DecodeString(clean)
		if err != nil {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "invalid base64 end sequence").
				WithHint("Input data is missing padding, is truncated, or is otherwise corrupted.")
		}
		return types.NewBytes(string(b)), nil
	case "escape":
		if strings.HasPrefix(text, `\x`) {
			text = `\134` + text[1:]
		}
		return types.ParseText(types.Bytes, text, nil)
	}
	return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "unrecognized encoding: %q", types.Raw(format))
}

func splitPart(s, sep string, n int64) (string, error) {
	if n == 0 {
		return "", sqlstate.New(sqlstate.InvalidParameterValue, "field position must not be zero")
	}
	parts := int64(1)
	if sep != "" {
		parts += int64(strings.Count(s, sep))
	}
	if n < 0 {
		n += parts + 1
	}
	if n < 1 || n > parts {
		return "", nil
	}
	for ; n > 1; n-- {
		_, s, _ = strings.Cut(s, sep)
	}
	if sep != "" {
		s, _, _ = strings.Cut(s, sep)
	}
	return s, nil
}

// addStrings adds the functions of text and of bytes.
func addStrings(r *Registry) {
	addCharacters(r)
	addSubstrings(r)
	addBytes(r)
	addBits(r)
	addConcatenation(r)
	addUnicode(r)
}

// addCharacters adds functions that change or count the characters of a text.
func addCharacters(r *Registry) {
	text1 := func(name string, f func(string) string) {
		r.Func1(name+"(text) text", func(_ *Context, a types.Datum) (types.Datum, error) { return str(f(a.Str())) })
	}
	int1 := func(sig string, f func(string) int64) {
		r.Func1(sig+" int4", func(_ *Context, a types.Datum) (types.Datum, error) { return num(f(a.Str())) })
	}
	text1("lower", strings.ToLower)
	text1("upper", strings.ToUpper)
	text1("initcap", initcap)
	text1("reverse", func(s string) string {
		b := make([]byte, len(s))
		for i, at := 0, len(b); i < len(s); {
			_, n := utf8.DecodeRuneInString(s[i:])
			at -= n
			copy(b[at:], s[i:i+n])
			i += n
		}
		return string(b)
	})
	text1("quote_ident", QuoteIdent)
	runes := func(s string) int64 { return int64(utf8.RuneCountInString(s)) }
	octets := func(s string) int64 { return int64(len(s)) }
	int1("length(text)", runes)
	int1("char_length(text)", runes)
	int1("character_length(text)", runes)
	int1("length(bytea)", octets)
	int1("octet_length(text)", octets)
	int1("octet_length(bytea)", octets)
	int1("octet_length(bpchar)", octets)
	int1("bit_length(text)", func(s string) int64 { return 8 * int64(len(s)) })
	int1("bit_length(bytea)", func(s string) int64 { return 8 * int64(len(s)) })
	int1("ascii(text)", func(s string) int64 {
		if s == "" {
			return 0
		}
		r, _ := utf8.DecodeRuneInString(s)
		return int64(r)
	})
	r.Func1("chr(int4) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		switch n := a.Int(); {
		case n == 0:
			return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "null character not permitted")
		case n < 0:
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "character number must be positive")
		case n > 0x10FFFF:
			return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "requested character too large for encoding: %d", n)
		case n >= 0xD800 && n < 0xE000:
			return types.Null, sqlstate.New(sqlstate.ProgramLimitExceeded, "requested character not valid for encoding: %d", n)
		default:
			return str(string(rune(n)))
		}
	})
}

// addSubstrings adds functions that take, pad, replace or find a part of a text.
func addSubstrings(r *Registry) {
	for _, name := range []string{"substr", "substring"} {
		r.Func2(name+"(text, int4) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			s, err := substring(a.Str(), b.Int(), 0, false)
			return types.NewString(s), err
		})
		r.Func(name+"(text, int4, int4) text", func(_ *Context, args []types.Datum) (types.Datum, error) {
			s, err := substring(args[0].Str(), args[1].Int(), args[2].Int(), true)
			return types.NewString(s), err
		})
		bytesub := func(s string, start, n int64, bounded bool) (types.Datum, error) {
			if bounded && n < 0 {
				return types.Null, sqlstate.New("22011", "negative substring length not allowed")
			}
			end := int64(len(s)) + 1
			if bounded {
				end = min(end, start+n)
			}
			if start = max(start, 1); end <= start {
				return types.NewBytes(""), nil
			}
			return types.NewBytes(s[start-1 : end-1]), nil
		}
		r.Func2(name+"(bytea, int4) bytea", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return bytesub(a.Str(), b.Int(), 0, false)
		})
		r.Func(name+"(bytea, int4, int4) bytea", func(_ *Context, args []types.Datum) (types.Datum, error) {
			return bytesub(args[0].Str(), args[1].Int(), args[2].Int(), true)
		})
	}
	cut := func(left bool) eval2 {
		return func(_ *Context, a, b types.Datum) (types.Datum, error) {
			total := int64(utf8.RuneCountInString(a.Str()))
			n := b.Int()
			switch {
			case n == math.MinInt32 && !left:
				n = total // its opposite is no int4, and PostgreSQL leaves out nothing
			case n < 0:
				n = max(total+n, 0)
			}
			n = min(n, total)
			from := int64(1)
			if !left {
				from = total - n + 1
			}
			s, err := substring(a.Str(), from, n, true)
			return types.NewString(s), err
		}
	}
	r.Func2("left(text, int4) text", cut(true))
	r.Func2("right(text, int4) text", cut(false))
	addPad := func(name string, left bool) {
		r.Func2(name+"(text, int4) text", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			return pad(ctx, a.Str(), b.Int(), " ", left)
		})
		r.Func(name+"(text, int4, text) text", func(ctx *Context, args []types.Datum) (types.Datum, error) {
			return pad(ctx, args[0].Str(), args[1].Int(), args[2].Str(), left)
		})
	}
	addPad("lpad", true)
	addPad("rpad", false)
	addTrim := func(name string, f func(s, set string) string) {
		r.Func1(name+"(text) text", func(_ *Context, a types.Datum) (types.Datum, error) { return str(f(a.Str(), " ")) })
		r.Func2(name+"(text, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) { return str(f(a.Str(), b.Str())) })
		r.Func2(name+"(bytea, bytea) bytea", func(_ *Context, a, b types.Datum) (types.Datum, error) {
			return types.NewBytes(f(a.Str(), b.Str())), nil
		})
	}
	addTrim("btrim", strings.Trim)
	addTrim("ltrim", strings.TrimLeft)
	addTrim("rtrim", strings.TrimRight)
	r.Func("replace(text, text, text) text", func(ctx *Context, args []types.Datum) (types.Datum, error) {
		from := args[1].Str()
		if from == "" {
			return args[0], nil
		}
		n := int64(strings.Count(args[0].Str(), from))
		if err := ctx.room(int64(len(args[0].Str())) + n*int64(len(args[2].Str())-len(from))); err != nil {
			return types.Null, err
		}
		return str(strings.ReplaceAll(args[0].Str(), from, args[2].Str()))
	})
	r.Func("overlay(text, text, int4, int4) text", func(_ *Context, args []types.Datum) (types.Datum, error) {
		return overlay(args[0].Str(), args[1].Str(), args[2].Int(), args[3].Int())
	})
	r.Func("overlay(text, text, int4) text", func(_ *Context, args []types.Datum) (types.Datum, error) {
		return overlay(args[0].Str(), args[1].Str(), args[2].Int(), int64(utf8.RuneCountInString(args[1].Str())))
	})
	overlayBytes := func(s, with string, start, n int64) (types.Datum, error) {
		if start <= 0 {
			return types.Null, sqlstate.New("22011", "negative substring length not allowed")
		}
		if start+n > math.MaxInt32 || start+n < math.MinInt32 {
			return types.Null, rangeErr(types.Int4)
		}
		size := int64(len(s))
		return types.NewBytes(s[:min(start-1, size)] + with + s[min(max(start+n-1, 0), size):]), nil
	}
	r.Func("overlay(bytea, bytea, int4, int4) bytea", func(_ *Context, args []types.Datum) (types.Datum, error) {
		return overlayBytes(args[0].Str(), args[1].Str(), args[2].Int(), args[3].Int())
	})
	r.Func("overlay(bytea, bytea, int4) bytea", func(_ *Context, args []types.Datum) (types.Datum, error) {
		return overlayBytes(args[0].Str(), args[1].Str(), args[2].Int(), int64(len(args[1].Str())))
	})
	r.Func("split_part(text, text, int4) text", func(_ *Context, args []types.Datum) (types.Datum, error) {
		s, err := splitPart(args[0].Str(), args[1].Str(), args[2].Int())
		return types.NewString(s), err
	})
	r.Func2("strpos(text, text) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) { return num(position(b.Str(), a.Str())) })
	// The grammar's position(sub in s) is a call with the substring first.
	r.Func2("position(text, text) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) { return num(position(a.Str(), b.Str())) })
	r.Func2("position(bytea, bytea) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return num(int64(strings.Index(b.Str(), a.Str())) + 1)
	})
	r.Func2("repeat(text, int4) text", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		n := max(b.Int(), 0)
		if err := ctx.room(n * int64(len(a.Str()))); err != nil {
			return types.Null, err
		}
		return str(strings.Repeat(a.Str(), int(n)))
	})
	r.Func2("starts_with(text, text) bool", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return boolean(strings.HasPrefix(a.Str(), b.Str()))
	})
	r.Func("translate(text, text, text) text", func(ctx *Context, args []types.Datum) (types.Datum, error) {
		to := []rune(args[2].Str())
		becomes := make(map[rune]rune)
		i := 0
		for _, f := range args[1].Str() {
			if _, ok := becomes[f]; !ok {
				if becomes[f] = -1; i < len(to) {
					becomes[f] = to[i]
				}
			}
			i++
		}
		t := text{ctx: ctx}
		for _, c := range args[0].Str() {
			if r, ok := becomes[c]; ok {
				c = r
			}
			if c >= 0 {
				t.rune(c)
			}
		}
		return t.datum()
	})
}

// addBytes adds digests and encodings of bytes.
func addBytes(r *Registry) {
	hexInt := func(_ *Context, a types.Datum) (types.Datum, error) {
		return str(strconv.FormatUint(uint64(a.Int()), 16))
	}
	r.Func1("to_hex(int4) text", func(_ *Context, a types.Datum) (types.Datum, error) {
		return str(strconv.FormatUint(uint64(uint32(a.Int())), 16))
	})
	r.Func1("to_hex(int8) text", hexInt)
	md5sum := func(_ *Context, a types.Datum) (types.Datum, error) {
		s := md5.Sum([]byte(a.Str()))
		return str(hex.EncodeToString(s[:]))
	}
	r.Func1("md5(text) text", md5sum)
	r.Func1("md5(bytea) text", md5sum)
	digest := func(name string, f func([]byte) []byte) {
		r.Func1(name+"(bytea) bytea", func(_ *Context, a types.Datum) (types.Datum, error) {
			return types.NewBytes(string(f([]byte(a.Str())))), nil
		})
	}
	digest("sha224", func(b []byte) []byte { s := sha256.Sum224(b); return s[:] })
	digest("sha256", func(b []byte) []byte { s := sha256.Sum256(b); return s[:] })
	digest("sha384", func(b []byte) []byte { s := sha512.Sum384(b); return s[:] })
	digest("sha512", func(b []byte) []byte { s := sha512.Sum512(b); return s[:] })
	r.Func1("crc32(bytea) int8", func(_ *Context, a types.Datum) (types.Datum, error) {
		return num(int64(crc32.ChecksumIEEE([]byte(a.Str()))))
	})
	r.Func2("encode(bytea, text) text", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		s, err := encode(a.Str(), b.Str())
		return types.NewString(s), err
	})
	r.Func2("decode(text, text) bytea", func(_ *Context, a, b types.Datum) (types.Datum, error) { return decode(a.Str(), b.Str()) })
}

// addBits adds access to single bytes and bits.
func addBits(r *Registry) {
	byteAt := func(s string, i int64) error {
		if i < 0 || i >= int64(len(s)) {
			return sqlstate.New("2202E", "index %d out of valid range, 0..%d", i, len(s)-1)
		}
		return nil
	}
	r.Func2("get_byte(bytea, int4) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if err := byteAt(a.Str(), b.Int()); err != nil {
			return types.Null, err
		}
		return num(int64(a.Str()[b.Int()]))
	})
	r.Func("set_byte(bytea, int4, int4) bytea", func(_ *Context, args []types.Datum) (types.Datum, error) {
		if err := byteAt(args[0].Str(), args[1].Int()); err != nil {
			return types.Null, err
		}
		b := []byte(args[0].Str())
		b[args[1].Int()] = byte(args[2].Int())
		return types.NewBytes(string(b)), nil
	})
	bitAt := func(s string, i int64) error {
		if n := int64(len(s)) * 8; i < 0 || i >= n {
			return sqlstate.New("2202E", "index %d out of valid range, 0..%d", i, n-1)
		}
		return nil
	}
	r.Func2("get_bit(bytea, int8) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if err := bitAt(a.Str(), b.Int()); err != nil {
			return types.Null, err
		}
		return num(int64(a.Str()[b.Int()/8] >> (b.Int() % 8) & 1))
	})
	r.Func("set_bit(bytea, int8, int4) bytea", func(_ *Context, args []types.Datum) (types.Datum, error) {
		at := args[1].Int()
		if err := bitAt(args[0].Str(), at); err != nil {
			return types.Null, err
		}
		if v := args[2].Int(); v != 0 && v != 1 {
			return types.Null, sqlstate.New(sqlstate.InvalidParameterValue, "new bit must be 0 or 1")
		}
		b := []byte(args[0].Str())
		b[at/8] = b[at/8]&^(1<<(at%8)) | byte(args[2].Int()<<(at%8))
		return types.NewBytes(string(b)), nil
	})
	r.Func1("bit_count(bytea) int8", func(_ *Context, a types.Datum) (types.Datum, error) {
		n := 0
		for _, c := range []byte(a.Str()) {
			n += bits.OnesCount8(c)
		}
		return num(int64(n))
	})
}

// addConcatenation adds functions that write values of any type as text: concat, quote_literal and the like.
func addConcatenation(r *Registry) {
	join := func(sep bool) func([]*types.T) evalN {
		return func(ts []*types.T) evalN {
			return func(ctx *Context, args []types.Datum) (types.Datum, error) {
				b := text{ctx: ctx}
				from, glue := 0, ""
				if sep {
					if args[0].IsNull() {
						return types.Null, nil
					}
					from, glue = 1, args[0].Str()
				}
				first := true
				for i := from; i < len(args); i++ {
					if args[i].IsNull() {
						continue
					}
					if !first {
						b.write(glue)
					}
					first = false
					b.write(outputText(ctx, args[i], ts[i]))
				}
				return b.datum()
			}
		}
	}
	untyped := func(sep bool) evalN {
		return func(ctx *Context, args []types.Datum) (types.Datum, error) {
			ts := make([]*types.T, len(args))
			for i := range ts {
				ts[i] = types.Text
			}
			return join(sep)(ts)(ctx, args)
		}
	}
	o := r.Func("concat(variadic any) text", untyped(false)).Stable().WithNulls()
	o.TypedEval = join(false)
	o = r.Func("concat_ws(text, variadic any) text", untyped(true)).Stable().WithNulls()
	o.TypedEval = join(true)
	quote := func(_ *Context, a types.Datum) (types.Datum, error) { return str(QuoteLiteral(a.Str())) }
	r.Func1("quote_literal(text) text", quote)
	o = r.Func1("quote_literal(any) text", quote).Stable()
	o.TypedEval = func(ts []*types.T) evalN {
		return func(ctx *Context, args []types.Datum) (types.Datum, error) {
			return str(QuoteLiteral(castText(ctx, args[0], ts[0])))
		}
	}
	nullable := func(ts []*types.T) evalN {
		return func(ctx *Context, args []types.Datum) (types.Datum, error) {
			if args[0].IsNull() {
				return str("NULL")
			}
			return str(QuoteLiteral(castText(ctx, args[0], ts[0])))
		}
	}
	text := func(ctx *Context, args []types.Datum) (types.Datum, error) {
		return nullable([]*types.T{types.Text})(ctx, args)
	}
	r.Func("quote_nullable(text) text", text).WithNulls()
	o = r.Func("quote_nullable(any) text", text).Stable().WithNulls()
	o.TypedEval = nullable
}

// outputText is the text of a value as output prints it: a boolean as t or f.
func outputText(ctx *Context, d types.Datum, t *types.T) string { return textOf(ctx, d, t) }

func overlay(s, with string, start, n int64) (types.Datum, error) {
	if start <= 0 {
		return types.Null, sqlstate.New("22011", "negative substring length not allowed")
	}
	if start+n > math.MaxInt32 || start+n < math.MinInt32 {
		return types.Null, rangeErr(types.Int4)
	}
	head, err := substring(s, 1, start-1, true)
	if err != nil {
		return types.Null, err
	}
	tail, err := substring(s, start+n, 0, false)
	if err != nil {
		return types.Null, err
	}
	return str(head + with + tail)
}
