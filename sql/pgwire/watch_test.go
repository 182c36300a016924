package pgwire

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"meridian/sql/session/result"

	"meridian/sql/types"
)

// sink is a connection that keeps what is written.
type sink struct {
	net.Conn
	got bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) { return s.got.Write(p) }

// TestWatch runs a statement, stops it after some of its rows have left, and runs it again: the client sees its output
// once, if the rows that it has come again (pgwire.W6).
func TestWatch(t *testing.T) {
	cols := []result.Column{{Name: "a", Type: types.Text}}
	row := func(i int) types.Row {
		return types.Row{types.NewString(fmt.Sprintf("%05d %s", i, strings.Repeat("x", 1000)))}
	}
	begin := func() (*output, *sink) {
		s := &sink{}
		return &output{conn: s, bytesOut: new(atomic.Int64)}, s
	}
	// send writes rows from to to, and the tag if complete is set.
	send := func(o *output, from, to int, complete bool) error {
		for i := from; i < to; i++ {
			if err := o.Row(row(i), cols, nil); err != nil {
				return err
			}
		}
		if complete {
			o.Complete("SELECT")
		}
		return nil
	}
	want, wanted := begin()
	send(want, 0, 60, true)
	want.flush()

	for _, stop := range []int{1, 16, 17, 40, 59} {
		o, s := begin()
		o.Watch(result.Fingerprint{})
		send(o, 0, stop, false)
		all, left, same := o.Watched(true)
		if !same || all.Bytes < left.Bytes || left.Bytes != o.flushed {
			t.Fatalf("stop %d: %v %v %v, %d flushed", stop, all, left, same, o.flushed)
		}
		o.Take(left.Bytes)
		// A run that is stopped before it has come as far leaves no trace.
		o.Watch(left)
		send(o, 0, stop/20, false)
		if _, again, same := o.Watched(true); left.Bytes > 0 && (same || again != left || len(o.buf) > 0) {
			t.Fatalf("stop %d: a short run: %v %v, %d buffered", stop, again, same, len(o.buf))
		}
		o.Take(left.Bytes)
		o.Watch(left)
		if err := send(o, 0, 60, true); err != nil {
			t.Fatal(err)
		}
		sum, _, same := o.Watched(true)
		o.flush()
		if !same || !bytes.Equal(s.got.Bytes(), wanted.got.Bytes()) {
			t.Errorf("stop %d: the client sees something else", stop)
		}
		if sum.Bytes != o.flushed {
			t.Errorf("stop %d: %d bytes counted, %d sent", stop, sum.Bytes, o.flushed)
		}
		if left.Bytes == 0 {
			continue
		}
		// Other rows: nothing more leaves, and the statement is told.
		o, s = begin()
		o.Watch(result.Fingerprint{})
		send(o, 0, stop, false)
		_, left, _ = o.Watched(true)
		o.Take(left.Bytes)
		o.Watch(left)
		err := send(o, 1, 60, true)
		if _, _, same := o.Watched(true); same || err != result.ErrDiffers || int64(s.got.Len()) != left.Bytes || len(o.buf) > 0 {
			t.Errorf("stop %d: other rows pass: %v, %v", stop, same, err)
		}
	}
	// A statement that the client has seen whole has to end where it did.
	o, _ := begin()
	o.Watch(result.Fingerprint{})
	send(o, 0, 3, true)
	whole, _, _ := o.Watched(true)
	o.flush()
	for _, n := range []int{2, 3, 4} {
		o.Watch(whole)
		send(o, 0, n, true)
		all, _, same := o.Watched(true)
		if got := same && all == whole; got != (n == 3) {
			t.Errorf("%d rows for 3: %v", n, got)
		}
		o.Take(o.flushed)
	}
}
