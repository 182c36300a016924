package pgwire

import (
	"encoding/binary"
	"net"
	"strconv"
	"sync/atomic"

	"meridian/sql/session/result"

	"meridian/sql/charset"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// flushBytes is the size at which output is sent before the client waits for it. It is twice the size of PostgreSQL's output buffer, chosen by us:
// until then a statement can be run again whatever its new result is.
const flushBytes = 16 << 10

// keepBytes is the largest buffer kept by an idle connection.
const keepBytes = 32 << 10

// output gathers messages to the client. It is used by the connection's goroutine only.
type output struct {
	conn net.Conn
	// sending is called before each write; nil: nothing has to happen.
	sending  func()
	buf      []byte
	flushed  int64 // bytes sent before buf
	err      error // first failure to write; all later output is dropped
	style    *types.Style
	charset  *charset.Charset           // of the client; nil: UTF-8
	shows    func(severity string) bool // whether the client wants a notice
	nameless error                      // a column's name has no equivalent in the client's encoding
	bytesOut *atomic.Int64
	watch    watch
	// open is the position, after its kind, of the message that is being written; zero: none is.
	open int
	// memory accounts for the part of the buffer that large values occupy, until it is flushed.
	memory *memory.Account
	held   int64
}

func (o *output) begin(kind byte) int {
	o.buf = append(o.buf, kind, 0, 0, 0, 0)
	o.open = len(o.buf) - 4
	return o.open
}

func (o *output) end(at int) {
	binary.BigEndian.PutUint32(o.buf[at:], uint32(len(o.buf)-at))
	o.open = 0
}

func (o *output) int16(v int)      { o.buf = binary.BigEndian.AppendUint16(o.buf, uint16(v)) }
func (o *output) int32(v int32)    { o.buf = binary.BigEndian.AppendUint32(o.buf, uint32(v)) }
func (o *output) cstring(s string) { o.buf = append(append(o.buf, s...), 0) }

// message appends a message without a body.
func (o *output) message(kind byte) { o.buf = append(o.buf, kind, 0, 0, 0, 4) }

func (o *output) flush() error {
	if o.watch.on {
		if o.watch.checking {
			o.check()
		}
		if o.watch.checking || o.watch.differs {
			return o.err // nothing of this leaves
		}
		o.leaving()
	}
	if o.err == nil && len(o.buf) > 0 {
		if o.sending != nil {
			o.sending()
		}
		n, err := o.conn.Write(o.buf)
		o.bytesOut.Add(int64(n))
		o.err = err
	}
	o.flushed += int64(len(o.buf))
	if o.held != 0 {
		o.memory.Shrink(o.held)
		o.held = 0
	}
	if cap(o.buf) > keepBytes {
		o.buf = nil
	} else {
		o.buf = o.buf[:0]
	}
	return o.err
}

func (o *output) maybeFlush() error {
	if len(o.buf) >= flushBytes {
		err := o.flush()
		if o.watch.differs {
			return result.ErrDiffers
		}
		return err
	}
	return o.err
}

// Mark implements session.Results.
func (o *output) Mark() result.Mark {
	return result.Mark{Flushed: o.flushed, Buffered: int64(len(o.buf))}
}

// Rewind implements session.Results (pgwire.W3).
func (o *output) Rewind(m result.Mark) bool {
	if o.flushed != m.Flushed {
		return false
	}
	o.buf = o.buf[:m.Buffered]
	return true
}

// Describe implements session.Results.
func (o *output) Describe(cols []result.Column, formats []result.Format) {
	o.nameless = nil
	at := o.begin('T')
	o.int16(len(cols))
	for i := range cols {
		c := &cols[i]
		o.name(c.Name)
		o.int32(int32(c.Table))
		o.int16(int(c.Attribute))
		o.int32(int32(c.Type.OID()))
		o.int16(int(c.Type.Len()))
		o.int32(c.Type.Typmod())
		o.int16(int(formatOf(formats, i)))
	}
	o.end(at)
}

// formatOf applies the rule of Bind: no format means text for all columns, and a single one is for all.
func formatOf(formats []result.Format, i int) result.Format {
	switch len(formats) {
	case 0:
		return result.Text
	case 1:
		return formats[0]
	}
	return formats[i]
}

// Row implements session.Results.
func (o *output) Row(row types.Row, cols []result.Column, formats []result.Format) error {
	at := o.begin('D')
	o.int16(len(row))
	for i := range row {
		if row[i].IsNull() {
			o.buf = append(o.buf, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		if w := row[i].Weight(); w != 0 {
			if err := o.room(w, row[i].Phys() == types.PhysBytes); err != nil {
				o.buf, o.open = o.buf[:at-1], 0
				return err
			}
		}
		o.buf = append(o.buf, 0, 0, 0, 0)
		start := len(o.buf)
		if formatOf(formats, i) == result.Binary {
			o.buf = types.AppendBinary(o.buf, row[i], cols[i].Type)
		} else {
			o.buf = types.AppendText(o.buf, row[i], cols[i].Type, o.style)
		}
		if o.charset != nil {
			if err := o.encode(start, row[i], cols[i].Type, formatOf(formats, i)); err != nil {
				o.buf, o.open = o.buf[:at-1], 0
				return err
			}
		}
		binary.BigEndian.PutUint32(o.buf[start-4:], uint32(len(o.buf)-start))
	}
	o.end(at)
	return o.maybeFlush()
}

// encode converts the value that begins at start to the client's encoding.
func (o *output) encode(start int, d types.Datum, t *types.T, f result.Format) (err error) {
	if o.nameless != nil {
		return o.nameless
	}
	if f == result.Text {
		tail := append([]byte(nil), o.buf[start:]...)
		o.buf, err = o.charset.Encode(o.buf[:start], tail)
		return err
	}
	d, err = types.ConvertStrings(d, func(s string) (string, error) {
		b, err := o.charset.Encode(nil, []byte(s))
		return string(b), err
	})
	o.buf = types.AppendBinary(o.buf[:start], d, t)
	return err
}

// name appends a column's name. If it has no equivalent in the client's encoding, the first row fails.
func (o *output) name(s string) {
	if o.charset != nil {
		if _, err := o.charset.Encode(nil, []byte(s)); err != nil {
			o.nameless = err
		}
	}
	o.prose(s)
}

// prose appends a text, in which a character without an equivalent in the client's encoding becomes a question mark.
func (o *output) prose(s string) {
	if o.charset != nil {
		o.buf = append(o.charset.EncodeMessage(o.buf, []byte(s)), 0)
		return
	}
	o.cstring(s)
}

// messageMax bounds a message, whose length has 32 bits; PostgreSQL's bound of a row is the same.
const messageMax = 1 << 30

// room reserves the memory of a large value's text. It counts three times, because the buffer doubles when it grows.
func (o *output) room(weight int64, bytes bool) error {
	if bytes {
		weight *= 2 // hexadecimal digits
	}
	if int64(len(o.buf))+weight > messageMax {
		return sqlstate.New(sqlstate.ProgramLimitExceeded, "out of memory").
			WithDetail("Cannot enlarge string buffer containing %d bytes by %d more bytes.", len(o.buf), weight)
	}
	if err := o.memory.Grow(3 * weight); err != nil {
		return err
	}
	o.held += 3 * weight
	return nil
}

// Complete implements session.Results.
func (o *output) Complete(tag string) {
	at := o.begin('C')
	o.cstring(tag)
	o.end(at)
}

// Empty implements session.Results.
func (o *output) Empty() { o.message('I') }

// Suspend implements session.Results.
func (o *output) Suspend() { o.message('s') }

// Parameter implements session.Results.
func (o *output) Parameter(name, value string) {
	at := o.begin('S')
	o.cstring(name)
	o.cstring(value)
	o.end(at)
}

// Notice implements session.Results.
func (o *output) Notice(n *sqlstate.Error) {
	severity := "NOTICE"
	if len(n.Code) == 5 && (n.Code[:2] == "01" || n.Code[:2] == "25" || n.Code == sqlstate.InvalidGrantOperation || n.Code == sqlstate.InvalidParameterValue) {
		severity = "WARNING"
	}
	if o.shows != nil && !o.shows(severity) {
		return
	}
	o.fields('N', severity, n)
}

// fail sends an ErrorResponse.
func (o *output) fail(severity string, e *sqlstate.Error) { o.fields('E', severity, e) }

func (o *output) fields(kind byte, severity string, e *sqlstate.Error) {
	if o.open != 0 { // a panic came in the middle of a message
		o.buf = o.buf[:min(len(o.buf), o.open-1)]
	}
	at := o.begin(kind)
	field := func(k byte, v string) {
		if v != "" {
			o.buf = append(o.buf, k)
			o.prose(v)
		}
	}
	field('S', severity)
	field('V', severity)
	field('C', string(e.Code))
	o.buf = append(o.buf, 'M')
	o.prose(e.Message)
	field('D', e.Detail)
	field('H', e.Hint)
	if e.Position > 0 {
		field('P', strconv.Itoa(e.Position))
	}
	field('W', e.Context)
	field('s', e.Schema)
	field('t', e.Table)
	field('c', e.Column)
	field('d', e.DataType)
	field('n', e.Constraint)
	field('R', e.Routine)
	o.buf = append(o.buf, 0)
	o.end(at)
}

// ready appends ReadyForQuery with the transaction status, and sends all output.
func (o *output) ready(status byte) error {
	o.buf = append(o.buf, 'Z', 0, 0, 0, 5, status)
	return o.flush()
}
