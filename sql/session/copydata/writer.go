package copydata

import (
	"bytes"
	"encoding/binary"
	"slices"

	"meridian/sql/session/result"

	"meridian/sql/bind"
	"meridian/sql/charset"
	"meridian/sql/memory"
	"meridian/sql/types"
)

// Writer writes rows in one of the copy formats.
type Writer struct {
	Writing
	opts  *bind.CopyOptions
	cols  []result.Column
	tmp   []byte
	utf8  []byte // the row before it is converted
	taken int64  // of memory
}

// Writing has the options of a Writer.
type Writing struct {
	Style *types.Style
	// Charset is the encoding of the data; nil: UTF-8.
	Charset *charset.Charset
	// Memory accounts for the buffers to which a row is written.
	Memory *memory.Account
}

// NewWriter makes a Writer for a COPY TO.
func NewWriter(opts *bind.CopyOptions, cols []result.Column, how Writing) *Writer {
	return &Writer{Writing: how, opts: opts, cols: cols}
}

// Begin returns the data before the first row. A header is sent as a message of its own.
func (w *Writer) Begin() (data []byte, header bool, err error) {
	switch {
	case w.opts.Format == "binary":
		return append(slices.Clone(signature), make([]byte, 8)...), false, nil
	case w.opts.Header:
		data, err = w.headerEncoded()
		return data, true, err
	}
	return nil, false, nil
}

// End appends the data after the last row.
func (w *Writer) End(buf []byte) []byte {
	if w.opts.Format == "binary" {
		return append(buf, 0xff, 0xff)
	}
	return buf
}

// Room reserves memory for a row's text, which is there three times: as the text of a value, of the row, and in the connection's buffer.
func (w *Writer) Room(row types.Row) error {
	n := int64(0)
	for i := range row {
		n += row[i].Weight()
	}
	if n *= 2 * factor; n > w.taken {
		if err := w.Memory.Grow(n - w.taken); err != nil {
			return err
		}
		w.taken = n
	}
	return nil
}

// Append writes a row in the data's encoding.
func (w *Writer) Append(buf []byte, row types.Row) ([]byte, error) {
	if w.Charset == nil {
		return w.row(buf, row), nil
	}
	if w.opts.Format != "binary" {
		w.utf8 = w.row(w.utf8[:0], row)
		return w.Charset.Encode(buf, w.utf8)
	}
	other := make(types.Row, len(row))
	for i := range row {
		var err error
		if other[i], err = types.ConvertStrings(row[i], func(s string) (string, error) {
			b, err := w.Charset.Encode(nil, []byte(s))
			return string(b), err
		}); err != nil {
			return nil, err
		}
	}
	return w.row(buf, other), nil
}

// headerEncoded is the header in the data's encoding.
func (w *Writer) headerEncoded() ([]byte, error) {
	line := w.header(nil)
	if w.Charset == nil {
		return line, nil
	}
	return w.Charset.Encode(nil, line)
}

func (w *Writer) header(buf []byte) []byte {
	for i := range w.cols {
		if i > 0 {
			buf = append(buf, w.opts.Delimiter)
		}
		buf = w.value(buf, []byte(w.cols[i].Name), false)
	}
	return append(buf, '\n')
}

func (w *Writer) row(buf []byte, row types.Row) []byte {
	if w.opts.Format == "binary" {
		buf = binary.BigEndian.AppendUint16(buf, uint16(len(row)))
		for i, d := range row {
			if d.IsNull() {
				buf = append(buf, 0xff, 0xff, 0xff, 0xff)
				continue
			}
			w.tmp = types.AppendBinary(w.tmp[:0], d, w.cols[i].Type)
			buf = binary.BigEndian.AppendUint32(buf, uint32(len(w.tmp)))
			buf = append(buf, w.tmp...)
		}
		return buf
	}
	for i, d := range row {
		if i > 0 {
			buf = append(buf, w.opts.Delimiter)
		}
		if d.IsNull() {
			buf = append(buf, w.opts.Null...)
			continue
		}
		w.tmp = types.AppendText(w.tmp[:0], d, w.cols[i].Type, w.Style)
		buf = w.value(buf, w.tmp, listed(w.opts.ForceQuote, w.cols[i].Name))
	}
	return append(buf, '\n')
}

// value writes one value that is not NULL, or a name of the header, escaped or quoted. CSV is quoted where that is necessary, or with force
// (FORCE_QUOTE, which applies to values only).
func (w *Writer) value(buf, v []byte, force bool) []byte {
	if w.opts.Format == "csv" {
		if !force && string(v) != w.opts.Null && !bytes.ContainsAny(v, string([]byte{w.opts.Delimiter, w.opts.Quote, '\n', '\r'})) && string(v) != `\.` {
			return append(buf, v...)
		}
		buf = append(buf, w.opts.Quote)
		for _, c := range v {
			if c == w.opts.Quote || c == w.opts.Escape {
				buf = append(buf, w.opts.Escape)
			}
			buf = append(buf, c)
		}
		return append(buf, w.opts.Quote)
	}
	for _, c := range v {
		switch c {
		case '\b':
			buf = append(buf, '\\', 'b')
		case '\f':
			buf = append(buf, '\\', 'f')
		case '\n':
			buf = append(buf, '\\', 'n')
		case '\r':
			buf = append(buf, '\\', 'r')
		case '\t':
			buf = append(buf, '\\', 't')
		case '\v':
			buf = append(buf, '\\', 'v')
		case '\\', w.opts.Delimiter:
			buf = append(buf, '\\', c)
		default:
			buf = append(buf, c)
		}
	}
	return buf
}
