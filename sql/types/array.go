package types

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"meridian/sql/sqlstate"
)

func malformedArray(s, detail string) error {
	return sqlstate.New(sqlstate.InvalidTextRepresentation, "malformed array literal: %q", Raw(s)).WithDetail("%s", detail)
}

// dimsMax is how many dimensions an array can have.
const dimsMax = 6

// Dims is the number of dimensions, zero without elements.
func (a *Array) Dims() int {
	switch {
	case len(a.Elems) == 0:
		return 0
	case a.Shape == nil:
		return 1
	}
	return len(a.Shape)
}

// Dim is the dimension i, counted from zero.
func (a *Array) Dim(i int) Dim {
	if a.Shape == nil {
		return Dim{1, int32(len(a.Elems))}
	}
	return a.Shape[i]
}

// shape is Shape, also for an array that has none.
func (a *Array) shape() []Dim {
	if a.Shape == nil && len(a.Elems) > 0 {
		return []Dim{a.Dim(0)}
	}
	return a.Shape
}

// NewShaped makes an array of elements and dimensions, which may be those of a plain list.
func NewShaped(elem *T, elems []Datum, shape []Dim) Datum {
	a := &Array{Elem: elem, Elems: elems}
	if len(elems) > 0 && (len(shape) > 1 || len(shape) == 1 && shape[0].Lower != 1) {
		a.Shape = shape
	}
	return Datum{phys: PhysArray, ref: a}
}

// WithElems is the array with other elements in its shape.
func (a *Array) WithElems(elem *T, elems []Datum) Datum {
	return Datum{phys: PhysArray, ref: &Array{Elem: elem, Elems: elems, Shape: a.Shape}}
}

// StackArrays makes an array of arrays that have the same dimensions; NULLs count as empty ones.
func StackArrays(elem *T, parts []Datum) (Datum, error) {
	var shape []Dim
	var elems []Datum
	for i, p := range parts {
		var own []Dim
		if !p.IsNull() {
			own = p.Array().shape()
			elems = append(elems, p.Array().Elems...)
		}
		if i == 0 {
			shape = own
		}
		if len(own) != len(shape) || !slices.Equal(own, shape) {
			return Null, sqlstate.New(arraySubscript, "multidimensional arrays must have array expressions with matching dimensions")
		}
	}
	if len(shape) == 0 {
		return NewArray(&Array{Elem: elem}), nil
	}
	if len(shape) >= dimsMax {
		return Null, tooManyDims(len(shape) + 1)
	}
	return NewShaped(elem, elems, append([]Dim{{1, int32(len(parts))}}, shape...)), nil
}

const arraySubscript = sqlstate.Code("2202E")

func tooManyDims(n int) error {
	return sqlstate.New(sqlstate.ProgramLimitExceeded, "number of array dimensions (%d) exceeds the maximum allowed (%d)", n, dimsMax)
}

// arrayWord is one element of an array's text form.
type arrayWord struct {
	text  string
	plain bool // neither quoted nor escaped: NULL is no text
}

// The states between the characters of an array's text form, named as in PostgreSQL's parser.
const (
	arrayNoLevel = iota
	arrayLevelStarted
	arrayElemStarted
	arrayQuotedStarted
	arrayQuotedCompleted
	arrayElemDelimited
	arrayLevelCompleted
	arrayLevelDelimited
)

// parseArray reads {a,"b c",NULL}, {{1,2},{3,4}} and [0:1]={a,b}.
func parseArray(t *T, s string, env Env) (Datum, error) {
	p := trimSpace(s)
	var given []Dim
	for strings.HasPrefix(p, "[") {
		var d Dim
		var err error
		if d, p, err = parseBounds(p[1:], s); err != nil {
			return Null, err
		}
		if len(given) == dimsMax {
			return Null, tooManyDims(len(given) + 1)
		}
		given = append(given, d)
		p = strings.TrimLeft(p, " \t\n\r\v\f")
	}
	switch {
	case given != nil && !strings.HasPrefix(p, "="):
		return Null, malformedArray(s, `Missing "=" after array dimensions.`)
	case given != nil:
		if p = trimSpace(p[1:]); !strings.HasPrefix(p, "{") {
			return Null, malformedArray(s, `Array contents must start with "{".`)
		}
	case !strings.HasPrefix(p, "{"):
		return Null, malformedArray(s, `Array value must start with "{" or dimension information.`)
	}
	words, shape, err := arrayWords(p, s)
	if err != nil {
		return Null, err
	}
	if given != nil {
		if len(given) != len(shape) {
			return Null, malformedArray(s, "Specified array dimensions do not match array contents.")
		}
		for i := range given {
			if given[i].Len != shape[i].Len {
				return Null, malformedArray(s, "Specified array dimensions do not match array contents.")
			}
		}
		shape = given
	}
	elems := make([]Datum, len(words))
	for i, w := range words {
		if w.plain && strings.EqualFold(w.text, "null") {
			continue
		}
		if elems[i], err = ParseTextEnv(t.Elem, w.text, env); err != nil {
			return Null, err
		}
	}
	return NewShaped(t.Elem, elems, shape), nil
}

// parseBounds reads 0:1] or 2].
func parseBounds(p, whole string) (Dim, string, error) {
	number := func() (int64, error) {
		p = strings.TrimLeft(p, " \t\n\r\v\f")
		i := 0
		for i < len(p) && (p[i] >= '0' && p[i] <= '9' || i == 0 && (p[i] == '-' || p[i] == '+')) {
			i++
		}
		if i == 0 {
			return 0, malformedArray(whole, `"[" must introduce explicitly-specified array dimensions.`)
		}
		n, err := strconv.ParseInt(p[:i], 10, 32)
		if err != nil {
			return 0, malformedArray(whole, `"[" must introduce explicitly-specified array dimensions.`)
		}
		p = strings.TrimLeft(p[i:], " \t\n\r\v\f")
		return n, nil
	}
	lower := int64(1)
	upper, err := number()
	if err != nil {
		return Dim{}, "", err
	}
	if strings.HasPrefix(p, ":") {
		p = p[1:]
		lower = upper
		if upper, err = number(); err != nil {
			return Dim{}, "", malformedArray(whole, "Missing array dimension value.")
		}
	}
	if !strings.HasPrefix(p, "]") {
		return Dim{}, "", malformedArray(whole, `Missing "]" after array dimensions.`)
	}
	if upper < lower {
		return Dim{}, "", sqlstate.New(arraySubscript, "upper bound cannot be less than lower bound")
	}
	if upper-lower+1 > math.MaxInt32 {
		return Dim{}, "", sqlstate.New(sqlstate.ProgramLimitExceeded, "array size exceeds the maximum allowed (%d)", 134217727)
	}
	return Dim{int32(lower), int32(upper - lower + 1)}, p[1:], nil
}

// arrayWords splits the text between the braces into elements.
func arrayWords(p, whole string) (words []arrayWord, shape []Dim, err error) {
	fail := func(detail string) ([]arrayWord, []Dim, error) {
		return nil, nil, malformedArray(strings.TrimLeft(whole, " \t\n\v\f\r"), detail)
	}
	unexpected := func(c byte) ([]arrayWord, []Dim, error) {
		return fail(`Unexpected "` + string(rune(c)) + `" character.`)
	}
	const mismatch = "Multidimensional arrays must have sub-arrays with matching dimensions."
	state, depth := arrayNoLevel, 0
	var counts, last [dimsMax]int // members of the open level, and of the level before it at that depth
	leaf := 0                     // the depth of elements
	var word []byte
	keep, plain := 0, true // bytes of the word without trailing blanks
	endElem := func() bool {
		words = append(words, arrayWord{string(word[:keep]), plain})
		word, keep, plain = word[:0], 0, true
		if leaf == 0 {
			leaf = depth
		}
		return leaf == depth
	}
	i := 0
	for ; i < len(p); i++ {
		c := p[i]
		switch {
		case state == arrayQuotedStarted && c == '"':
			state, keep = arrayQuotedCompleted, len(word)
		case c == '\\':
			if state != arrayLevelStarted && state != arrayElemStarted && state != arrayQuotedStarted && state != arrayElemDelimited {
				return unexpected(c)
			}
			if i++; i >= len(p) {
				return fail("Unexpected end of input.")
			}
			if state != arrayQuotedStarted {
				state, plain = arrayElemStarted, false
			}
			word = append(word, p[i])
			keep = len(word)
		case state == arrayQuotedStarted:
			word = append(word, c)
		case c == '"':
			if state != arrayLevelStarted && state != arrayElemDelimited {
				return fail("Unexpected array element.")
			}
			state, plain, word = arrayQuotedStarted, false, word[:0]
		case c == '{':
			if state != arrayNoLevel && state != arrayLevelStarted && state != arrayLevelDelimited {
				return unexpected(c)
			}
			if depth == dimsMax {
				return nil, nil, tooManyDims(depth + 1)
			}
			state = arrayLevelStarted
			counts[depth] = 0
			depth++
		case c == '}':
			switch state {
			case arrayElemStarted, arrayQuotedCompleted:
				if !endElem() {
					return fail(mismatch)
				}
				counts[depth-1]++
			case arrayLevelCompleted:
				counts[depth-1]++
			case arrayLevelStarted:
				if depth != 1 {
					return unexpected(c)
				}
			default:
				return unexpected(c)
			}
			state = arrayLevelCompleted
			depth--
			if last[depth] != 0 && counts[depth] != last[depth] {
				return fail(mismatch)
			}
			last[depth] = counts[depth]
		case c == ',':
			switch state {
			case arrayElemStarted, arrayQuotedCompleted:
				if !endElem() {
					return fail(mismatch)
				}
				state = arrayElemDelimited
			case arrayLevelCompleted:
				state = arrayLevelDelimited
			default:
				return unexpected(c)
			}
			counts[depth-1]++
		case strings.IndexByte(" \t\n\r\v\f", c) >= 0:
			if state == arrayElemStarted {
				word = append(word, c)
			}
		default:
			if state != arrayLevelStarted && state != arrayElemStarted && state != arrayElemDelimited {
				return fail("Unexpected array element.")
			}
			state = arrayElemStarted
			word = append(word, c)
			keep = len(word)
		}
		if depth == 0 {
			break
		}
	}
	if i >= len(p) {
		return fail("Unexpected end of input.")
	}
	if trimSpace(p[i+1:]) != "" {
		return fail("Junk after closing right brace.")
	}
	for d := range leaf {
		shape = append(shape, Dim{1, int32(last[d])})
	}
	return words, shape, nil
}

func appendArray(buf []byte, a *Array, t *T, style *Style) []byte {
	elem := a.Elem
	if t != nil && t.Kind == KindArray && t.Elem != nil && t.Elem.Kind != KindAnyElement {
		elem = t.Elem
	}
	if a.Shape == nil {
		return appendElems(buf, a.Elems, elem, style)
	}
	for _, d := range a.Shape {
		if d.Lower == 1 {
			continue
		}
		for _, d := range a.Shape {
			buf = strconv.AppendInt(append(buf, '['), int64(d.Lower), 10)
			buf = strconv.AppendInt(append(buf, ':'), int64(d.Lower)+int64(d.Len)-1, 10)
			buf = append(buf, ']')
		}
		buf = append(buf, '=')
		break
	}
	buf, _ = appendLevel(buf, a.Elems, a.Shape, elem, style)
	return buf
}

// appendLevel writes the elements of the first dimension, and returns the remaining elements.
func appendLevel(buf []byte, elems []Datum, shape []Dim, elem *T, style *Style) ([]byte, []Datum) {
	n := int(shape[0].Len)
	if len(shape) == 1 {
		return appendElems(buf, elems[:n], elem, style), elems[n:]
	}
	buf = append(buf, '{')
	for i := range n {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf, elems = appendLevel(buf, elems, shape[1:], elem, style)
	}
	return append(buf, '}'), elems
}

func appendElems(buf []byte, elems []Datum, elem *T, style *Style) []byte {
	buf = append(buf, '{')
	for i, e := range elems {
		if i > 0 {
			buf = append(buf, ',')
		}
		if e.IsNull() {
			buf = append(buf, "NULL"...)
			continue
		}
		start := len(buf)
		buf = AppendText(buf, e, elem, style)
		if needsArrayQuotes(buf[start:]) {
			text := string(buf[start:])
			buf = append(buf[:start], '"')
			for j := 0; j < len(text); j++ {
				if text[j] == '"' || text[j] == '\\' {
					buf = append(buf, '\\')
				}
				buf = append(buf, text[j])
			}
			buf = append(buf, '"')
		}
	}
	return append(buf, '}')
}

func needsArrayQuotes(b []byte) bool {
	if len(b) == 0 || len(b) == 4 && strings.EqualFold(string(b), "null") {
		return true
	}
	for _, c := range b {
		switch c {
		case '"', '\\', '{', '}', ',', ' ', '\t', '\n', '\r', '\v', '\f':
			return true
		}
	}
	return false
}

func appendTuple(buf []byte, tu *Tuple, style *Style) []byte {
	buf = append(buf, '(')
	for i, e := range tu.Elems {
		if i > 0 {
			buf = append(buf, ',')
		}
		if e.IsNull() {
			continue
		}
		var t *T
		if i < len(tu.Types) {
			t = tu.Types[i]
		}
		start := len(buf)
		buf = AppendText(buf, e, t, style)
		quote := len(buf) == start
		for _, c := range buf[start:] {
			switch c {
			case '"', '\\', '(', ')', ',', ' ', '\t', '\n', '\r', '\v', '\f':
				quote = true
			}
		}
		if quote {
			text := string(buf[start:])
			buf = append(buf[:start], '"')
			for j := 0; j < len(text); j++ {
				if text[j] == '"' || text[j] == '\\' {
					buf = append(buf, text[j])
				}
				buf = append(buf, text[j])
			}
			buf = append(buf, '"')
		}
	}
	return append(buf, ')')
}

// parseVector reads the blank-separated form of int2vector and oidvector.
func parseVector(t *T, s string, env Env) (Datum, error) {
	elem := Int2
	if t.Kind == KindOIDVector {
		elem = OID
	}
	a := &Array{Elem: elem}
	for _, f := range strings.Fields(s) {
		d, err := ParseTextEnv(elem, f, env)
		if err != nil {
			return Null, err
		}
		a.Elems = append(a.Elems, d)
	}
	return NewArray(a), nil
}
