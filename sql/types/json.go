package types

import (
	"encoding/binary"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
)

// JSONKind is the type of a JSON value.
type JSONKind uint8

const (
	JSONNull JSONKind = iota
	JSONString
	JSONNumber
	JSONBool
	JSONArray
	JSONObject
)

// jsonDepthMax bounds nesting, where PostgreSQL would run into its stack limit.
const jsonDepthMax = 6000

// JSONValue is a parsed JSON value. Members of an object are in jsonb's order (shorter keys first, then by bytes)
// without duplicates, unless it was parsed to keep them.
type JSONValue struct {
	Kind    JSONKind
	Bool    bool
	Str     string       // strings
	Num     *apd.Decimal // numbers
	Elems   []*JSONValue // arrays
	Members []JSONMember // objects
	// Raw is the text as it was written, if the parser was asked to keep it.
	Raw string
}

// JSONMember is one key of an object with its value.
type JSONMember struct {
	Key   string
	Value *JSONValue
}

// TypeName is the result of jsonb_typeof.
func (v *JSONValue) TypeName() string {
	switch v.Kind {
	case JSONString:
		return "string"
	case JSONNumber:
		return "number"
	case JSONBool:
		return "boolean"
	case JSONArray:
		return "array"
	case JSONObject:
		return "object"
	}
	return "null"
}

// Get finds a member of an object, or nil.
func (v *JSONValue) Get(key string) *JSONValue {
	if v.Kind != JSONObject {
		return nil
	}
	for i := len(v.Members) - 1; i >= 0; i-- {
		if v.Members[i].Key == key {
			return v.Members[i].Value
		}
	}
	return nil
}

// Index finds an element of an array; negative counts from the end. It is nil if there is none.
func (v *JSONValue) Index(i int64) *JSONValue {
	if v.Kind != JSONArray {
		return nil
	}
	if i < 0 {
		i += int64(len(v.Elems))
	}
	if i < 0 || i >= int64(len(v.Elems)) {
		return nil
	}
	return v.Elems[i]
}

// NewJSONObject makes an object in canonical order from members; of equal keys the last stays.
func NewJSONObject(members []JSONMember) *JSONValue {
	sort.SliceStable(members, func(i, j int) bool { return jsonKeyLess(members[i].Key, members[j].Key) })
	out := members[:0]
	for _, m := range members {
		if n := len(out); n > 0 && out[n-1].Key == m.Key {
			out[n-1] = m
			continue
		}
		out = append(out, m)
	}
	return &JSONValue{Kind: JSONObject, Members: out}
}

func jsonKeyLess(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

type jsonParser struct {
	s     string
	pos   int
	keep  bool // keep the order and duplicates of members
	check bool // build nothing
}

func (p *jsonParser) bad(detail string) error {
	return sqlstate.New(sqlstate.InvalidTextRepresentation, "invalid input syntax for type json").WithDetail("%s", detail)
}

// ParseJSON reads a JSON text into jsonb's canonical shape.
func ParseJSON(s string) (*JSONValue, error) { return parseJSON(&jsonParser{s: s}) }

// ParseJSONOrdered reads a JSON text keeping the order and the duplicates of members, as type json does, and each
// value's text.
func ParseJSONOrdered(s string) (*JSONValue, error) { return parseJSON(&jsonParser{s: s, keep: true}) }

func checkJSON(s string) error {
	_, err := parseJSON(&jsonParser{s: s, keep: true, check: true})
	return err
}

func parseJSON(p *jsonParser) (*JSONValue, error) {
	v, err := p.value(0)
	if err != nil {
		return nil, err
	}
	p.space()
	if p.pos < len(p.s) {
		return nil, p.unexpected("end of input")
	}
	return v, nil
}

func (p *jsonParser) space() {
	for p.pos < len(p.s) {
		switch p.s[p.pos] {
		case ' ', '\t', '\n', '\r':
			p.pos++
		default:
			return
		}
	}
}

// token is the offending token for a message.
func (p *jsonParser) token() string {
	word := func(c byte) bool {
		return c >= 0x80 || c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
	}
	end := p.pos
	switch c := p.s[end]; {
	case c == '"':
		for end++; end < len(p.s) && p.s[end] != '"'; end++ {
			if p.s[end] == '\\' {
				end++
			}
		}
		return p.s[p.pos:min(end+1, len(p.s))]
	case c == '-' || c >= '0' && c <= '9':
		for end < len(p.s) && (word(p.s[end]) || strings.IndexByte("+-.", p.s[end]) >= 0) {
			end++
		}
	default:
		for end < len(p.s) && word(p.s[end]) {
			end++
		}
	}
	if end == p.pos {
		end++
	}
	return p.s[p.pos:end]
}

// unexpected is the error for a token that the grammar does not allow here, or for an invalid one.
func (p *jsonParser) unexpected(want string) error {
	if p.pos >= len(p.s) {
		return p.bad("The input string ended unexpectedly.")
	}
	t := p.token()
	switch c := t[0]; {
	case c == '"':
		if _, err := p.str(); err != nil {
			return err
		}
	case c == '-' || c >= '0' && c <= '9':
		start := p.pos
		if _, err := p.number(); err != nil {
			return err
		}
		t = p.s[start:p.pos]
	case t != "true" && t != "false" && t != "null" && strings.IndexByte("{}[],:", c) < 0:
		return p.bad("Token \"" + t + "\" is invalid.")
	}
	return p.bad("Expected " + want + ", but found \"" + t + "\".")
}

func (p *jsonParser) value(depth int) (*JSONValue, error) {
	p.space()
	start := p.pos
	v, err := p.parse(depth)
	if err == nil && p.keep && !p.check {
		v.Raw = p.s[start:p.pos]
	}
	return v, err
}

func (p *jsonParser) parse(depth int) (*JSONValue, error) {
	if depth > jsonDepthMax {
		return nil, sqlstate.TooDeep()
	}
	if p.pos >= len(p.s) {
		return nil, p.unexpected("JSON value")
	}
	switch c := p.s[p.pos]; c {
	case '{':
		return p.object(depth)
	case '[':
		p.pos++
		v := &JSONValue{Kind: JSONArray}
		p.space()
		if p.pos < len(p.s) && p.s[p.pos] == ']' {
			p.pos++
			return v, nil
		}
		for {
			e, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			if !p.check {
				v.Elems = append(v.Elems, e)
			}
			p.space()
			if p.pos >= len(p.s) {
				return nil, p.unexpected("")
			}
			switch p.s[p.pos] {
			case ',':
				p.pos++
			case ']':
				p.pos++
				return v, nil
			default:
				return nil, p.unexpected(`"," or "]"`)
			}
		}
	case '"':
		s, err := p.str()
		if err != nil {
			return nil, err
		}
		return &JSONValue{Kind: JSONString, Str: s}, nil
	case 't', 'f', 'n':
		t := p.token()
		switch t {
		case "true":
			p.pos += 4
			return &JSONValue{Kind: JSONBool, Bool: true}, nil
		case "false":
			p.pos += 5
			return &JSONValue{Kind: JSONBool}, nil
		case "null":
			p.pos += 4
			return &JSONValue{Kind: JSONNull}, nil
		}
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return p.number()
		}
	}
	return nil, p.unexpected("JSON value")
}

func (p *jsonParser) object(depth int) (*JSONValue, error) {
	p.pos++
	var members []JSONMember
	p.space()
	if p.pos < len(p.s) && p.s[p.pos] == '}' {
		p.pos++
		return &JSONValue{Kind: JSONObject}, nil
	}
	for {
		p.space()
		if p.pos >= len(p.s) || p.s[p.pos] != '"' {
			want := "string"
			if len(members) == 0 {
				want = `string or "}"`
			}
			return nil, p.unexpected(want)
		}
		key, err := p.str()
		if err != nil {
			return nil, err
		}
		p.space()
		if p.pos >= len(p.s) || p.s[p.pos] != ':' {
			return nil, p.unexpected(`":"`)
		}
		p.pos++
		v, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if !p.check {
			members = append(members, JSONMember{key, v})
		}
		p.space()
		if p.pos >= len(p.s) {
			return nil, p.unexpected("")
		}
		switch p.s[p.pos] {
		case ',':
			p.pos++
		case '}':
			p.pos++
			if p.keep {
				return &JSONValue{Kind: JSONObject, Members: members}, nil
			}
			return NewJSONObject(members), nil
		default:
			return nil, p.unexpected(`"," or "}"`)
		}
	}
}

func (p *jsonParser) number() (*JSONValue, error) {
	start := p.pos
	digits := func() bool {
		n := p.pos
		for p.pos < len(p.s) && p.s[p.pos] >= '0' && p.s[p.pos] <= '9' {
			p.pos++
		}
		return p.pos > n
	}
	fail := func() error {
		end := max(p.pos, start+1)
		for end < len(p.s) && (isDigit(p.s[end]) || isAlpha(p.s[end]) || p.s[end] == '_' || p.s[end] >= 0x80) {
			end++
		}
		return p.bad("Token \"" + p.s[start:end] + "\" is invalid.")
	}
	if p.s[p.pos] == '-' {
		p.pos++
	}
	if p.pos < len(p.s) && p.s[p.pos] == '0' {
		p.pos++
	} else if !digits() {
		return nil, fail()
	}
	if p.pos < len(p.s) && p.s[p.pos] == '.' {
		p.pos++
		if !digits() {
			return nil, fail()
		}
	}
	if p.pos < len(p.s) && p.s[p.pos]|0x20 == 'e' {
		p.pos++
		if p.pos < len(p.s) && (p.s[p.pos] == '+' || p.s[p.pos] == '-') {
			p.pos++
		}
		if !digits() {
			return nil, fail()
		}
	}
	if p.pos < len(p.s) {
		if c := p.s[p.pos]; c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80 {
			return nil, fail()
		}
	}
	if p.check {
		return &JSONValue{Kind: JSONNumber}, nil
	}
	d, err := ParseDecimal(p.s[start:p.pos])
	if err != nil {
		return nil, err
	}
	return &JSONValue{Kind: JSONNumber, Num: d}, nil
}

func (p *jsonParser) str() (string, error) {
	p.pos++
	start := p.pos
	for i := p.pos; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.pos = i + 1
			return p.s[start:i], nil
		case c == '\\':
			return p.escaped(start, i)
		case c < ' ':
			p.pos = i
			return "", p.bad("Character with value 0x" + strconv.FormatInt(int64(c)+0x100, 16)[1:] + " must be escaped.")
		}
	}
	p.pos = len(p.s)
	return "", p.bad("Token \"" + p.s[start-1:] + "\" is invalid.")
}

func (p *jsonParser) escaped(start, i int) (string, error) {
	buf := append(make([]byte, 0, len(p.s[start:i])+32), p.s[start:i]...)
	for i < len(p.s) {
		c := p.s[i]
		switch {
		case c == '"':
			p.pos = i + 1
			return string(buf), nil
		case c < ' ':
			return "", p.bad("Character with value 0x" + strconv.FormatInt(int64(c)+0x100, 16)[1:] + " must be escaped.")
		case c != '\\':
			buf = append(buf, c)
			i++
			continue
		}
		if i++; i >= len(p.s) {
			break
		}
		switch e := p.s[i]; e {
		case '"', '\\', '/':
			buf = append(buf, e)
		case 'b':
			buf = append(buf, '\b')
		case 'f':
			buf = append(buf, '\f')
		case 'n':
			buf = append(buf, '\n')
		case 'r':
			buf = append(buf, '\r')
		case 't':
			buf = append(buf, '\t')
		case 'u':
			r, ok := p.hex4(i + 1)
			if !ok {
				return "", p.bad(`"\u" must be followed by four hexadecimal digits.`)
			}
			i += 4
			switch {
			case p.check: // the meaning of escapes is checked when the text is parsed
			case r >= 0xD800 && r < 0xDC00:
				lo, ok := rune(0), false
				if i+2 < len(p.s) && p.s[i+1] == '\\' && p.s[i+2] == 'u' {
					lo, ok = p.hex4(i + 3)
				}
				if !ok || lo < 0xDC00 || lo > 0xDFFF {
					return "", p.bad("Unicode low surrogate must follow a high surrogate.")
				}
				i += 6
				r = 0x10000 + (r-0xD800)<<10 + (lo - 0xDC00)
			case r >= 0xDC00 && r <= 0xDFFF:
				return "", p.bad("Unicode low surrogate must follow a high surrogate.")
			case r == 0:
				return "", sqlstate.New("22P05", "unsupported Unicode escape sequence").WithDetail("\\u0000 cannot be converted to text.")
			}
			buf = utf8.AppendRune(buf, r)
		default:
			r, _ := utf8.DecodeRuneInString(p.s[i:])
			return "", p.bad("Escape sequence \"\\" + string(r) + "\" is invalid.")
		}
		i++
	}
	return "", p.bad("Token \"" + p.s[start-1:] + "\" is invalid.")
}

func (p *jsonParser) hex4(i int) (rune, bool) {
	if i+4 > len(p.s) {
		return 0, false
	}
	v := rune(0)
	for _, c := range []byte(p.s[i : i+4]) {
		h, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		v = v<<4 | rune(h)
	}
	return v, true
}

// String is the canonical text, spaced as jsonb prints.
func (v *JSONValue) String() string { return string(v.Append(nil)) }

// Append appends the canonical text.
func (v *JSONValue) Append(buf []byte) []byte {
	switch v.Kind {
	case JSONNull:
		return append(buf, "null"...)
	case JSONString:
		return AppendJSONString(buf, v.Str)
	case JSONNumber:
		return AppendDecimal(buf, v.Num)
	case JSONBool:
		return strconv.AppendBool(buf, v.Bool)
	case JSONArray:
		buf = append(buf, '[')
		for i, e := range v.Elems {
			if i > 0 {
				buf = append(buf, ", "...)
			}
			buf = e.Append(buf)
		}
		return append(buf, ']')
	}
	buf = append(buf, '{')
	for i, m := range v.Members {
		if i > 0 {
			buf = append(buf, ", "...)
		}
		buf = AppendJSONString(buf, m.Key)
		buf = append(buf, ": "...)
		buf = m.Value.Append(buf)
	}
	return append(buf, '}')
}

// PrettyBytes bounds the length of AppendPretty's text; it stops as soon as the bound is above limit.
func (v *JSONValue) PrettyBytes(indent int, limit int64) int64 {
	n := int64(8)
	each := int64(4*indent + 8)
	switch v.Kind {
	case JSONString:
		return n + 2*int64(len(v.Str))
	case JSONNumber:
		return n + v.Num.NumDigits() + int64(max(-v.Num.Exponent, v.Num.Exponent))
	case JSONArray:
		for _, e := range v.Elems {
			if n += each + e.PrettyBytes(indent+1, limit); n > limit {
				return n
			}
		}
	case JSONObject:
		for _, m := range v.Members {
			if n += each + 2*int64(len(m.Key)) + m.Value.PrettyBytes(indent+1, limit); n > limit {
				return n
			}
		}
	}
	return n + each
}

// AppendPretty appends the text of jsonb_pretty.
func (v *JSONValue) AppendPretty(buf []byte, indent int) []byte {
	line := func(n int) {
		buf = append(buf, '\n')
		for range n {
			buf = append(buf, "    "...)
		}
	}
	switch {
	case v.Kind == JSONArray:
		buf = append(buf, '[')
		for i, e := range v.Elems {
			if i > 0 {
				buf = append(buf, ',')
			}
			line(indent + 1)
			buf = e.AppendPretty(buf, indent+1)
		}
		line(indent)
		return append(buf, ']')
	case v.Kind == JSONObject:
		buf = append(buf, '{')
		for i, m := range v.Members {
			if i > 0 {
				buf = append(buf, ',')
			}
			line(indent + 1)
			buf = AppendJSONString(buf, m.Key)
			buf = append(buf, ": "...)
			buf = m.Value.AppendPretty(buf, indent+1)
		}
		line(indent)
		return append(buf, '}')
	}
	return v.Append(buf)
}

// AppendJSONString appends a quoted and escaped string.
func AppendJSONString(buf []byte, s string) []byte {
	buf = append(buf, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\':
			buf = append(buf, '\\', c)
		case '\b':
			buf = append(buf, `\b`...)
		case '\f':
			buf = append(buf, `\f`...)
		case '\n':
			buf = append(buf, `\n`...)
		case '\r':
			buf = append(buf, `\r`...)
		case '\t':
			buf = append(buf, `\t`...)
		default:
			if c < ' ' {
				buf = append(buf, `\u00`...)
				buf = append(buf, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
			} else {
				buf = append(buf, c)
			}
		}
	}
	return append(buf, '"')
}

// CompareJSON orders as jsonb's btree: object > array > boolean > number > string > null; containers first by size.
func CompareJSON(a, b *JSONValue) int {
	if a.Kind != b.Kind {
		// An empty array sorts below everything, a quirk PostgreSQL keeps for compatibility.
		if a.Kind == JSONArray && len(a.Elems) == 0 {
			return -1
		}
		if b.Kind == JSONArray && len(b.Elems) == 0 {
			return 1
		}
		return cmpInt(int64(a.Kind), int64(b.Kind))
	}
	switch a.Kind {
	case JSONString:
		return strings.Compare(a.Str, b.Str)
	case JSONNumber:
		return CompareDecimals(a.Num, b.Num)
	case JSONBool:
		switch {
		case a.Bool == b.Bool:
			return 0
		case a.Bool:
			return 1
		}
		return -1
	case JSONArray:
		if c := cmpInt(int64(len(a.Elems)), int64(len(b.Elems))); c != 0 {
			return c
		}
		for i := range a.Elems {
			if c := CompareJSON(a.Elems[i], b.Elems[i]); c != 0 {
				return c
			}
		}
	case JSONObject:
		if c := cmpInt(int64(len(a.Members)), int64(len(b.Members))); c != 0 {
			return c
		}
		for i := range a.Members {
			if c := strings.Compare(a.Members[i].Key, b.Members[i].Key); c != 0 {
				return c
			}
			if c := CompareJSON(a.Members[i].Value, b.Members[i].Value); c != 0 {
				return c
			}
		}
	}
	return 0
}

func compareJSONText(a, b string) int {
	if a == b {
		return 0
	}
	x, errx := ParseJSON(a)
	y, erry := ParseJSON(b)
	if errx != nil || erry != nil {
		return strings.Compare(a, b)
	}
	return CompareJSON(x, y)
}

func appendJSONHash(buf []byte, s string) []byte {
	v, err := ParseJSON(s)
	if err != nil {
		return appendHashString(buf, s)
	}
	return v.appendHash(append(buf, 8))
}

func (v *JSONValue) appendHash(buf []byte) []byte {
	buf = append(buf, byte(v.Kind))
	switch v.Kind {
	case JSONString:
		buf = appendHashString(buf, v.Str)
	case JSONNumber:
		buf = appendDecimalHash(buf, v.Num)
	case JSONBool:
		if v.Bool {
			return append(buf, 1)
		}
		return append(buf, 0)
	case JSONArray:
		buf = binary.AppendUvarint(buf, uint64(len(v.Elems)))
		for _, e := range v.Elems {
			buf = e.appendHash(buf)
		}
	case JSONObject:
		buf = binary.AppendUvarint(buf, uint64(len(v.Members)))
		for _, m := range v.Members {
			buf = appendHashString(buf, m.Key)
			buf = m.Value.appendHash(buf)
		}
	}
	return buf
}
