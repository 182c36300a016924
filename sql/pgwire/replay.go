package pgwire

import (
	"hash/maphash"

	"meridian/sql/session/result"
)

// watch is the fingerprint of the running statement's output (pgwire.W6). It covers the output that has been sent, so that output in the buffer costs
// nothing, and is compared with an earlier one when the statement runs again.
type watch struct {
	on   bool
	sum  maphash.Hash // its seed is the connection's
	from int64        // begin of the statement's output, as a position in all output of the connection
	to   int64        // end of the part that sum covers
	left result.Fingerprint
	// seen is the part of the statement's output that the client already has; checking lasts until the same length has been written again. Then base
	// is the length of the buffer before it.
	seen              result.Fingerprint
	checking, differs bool
	base              int
}

func (o *output) position() int64 { return o.flushed + int64(len(o.buf)) }

func (w *watch) fingerprint(upTo int64) result.Fingerprint {
	return result.Fingerprint{Bytes: upTo - w.from, Sum: w.sum.Sum64()}
}

// Watch implements session.Results.
func (o *output) Watch(seen result.Fingerprint) {
	w := &o.watch
	w.sum.Reset()
	w.on, w.differs, w.left = true, false, result.Fingerprint{}
	w.base = len(o.buf)
	w.from = o.position() - seen.Bytes
	w.to = w.from
	w.seen, w.checking = seen, seen.Bytes > 0
}

// check compares the part that the client already has, and drops it.
func (o *output) check() {
	w := &o.watch
	n := min(int64(len(o.buf)-w.base), w.from+w.seen.Bytes-w.to)
	w.sum.Write(o.buf[w.base : w.base+int(n)])
	o.buf = append(o.buf[:w.base], o.buf[w.base+int(n):]...)
	if w.to += n; w.to < w.from+w.seen.Bytes {
		return
	}
	w.checking = false
	if w.fingerprint(w.to) != w.seen {
		w.differs = true
		o.buf = o.buf[:w.base]
		return
	}
	w.left = w.seen
}

// leaving takes the fingerprint of the output that is about to be sent.
func (o *output) leaving() {
	w := &o.watch
	if end := o.position(); w.to < end {
		w.sum.Write(o.buf[w.to-o.flushed:])
		w.to = end
		w.left = w.fingerprint(end)
	}
}

// Watched implements session.Results.
func (o *output) Watched(sum bool) (all, left result.Fingerprint, same bool) {
	w := &o.watch
	if !w.on {
		return all, left, true
	}
	w.on = false
	if w.checking {
		o.check()
	}
	if w.checking || w.differs {
		w.checking = false
		o.buf = o.buf[:w.base]
		return w.seen, w.seen, false
	}
	end := o.position()
	if !sum {
		return result.Fingerprint{Bytes: end - w.from}, w.left, true
	}
	if w.to < end {
		w.sum.Write(o.buf[w.to-o.flushed:])
	}
	return w.fingerprint(end), w.left, true
}

// Take implements session.Results.
func (o *output) Take(from int64) []byte {
	at := max(from-o.flushed, 0)
	p := append([]byte(nil), o.buf[at:]...)
	o.buf = o.buf[:at]
	return p
}

// Give implements session.Results.
func (o *output) Give(p []byte) { o.buf = append(o.buf, p...) }
