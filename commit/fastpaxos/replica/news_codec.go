package replica

import (
	"bytes"

	"meridian/keys"
	"meridian/kv"
	"meridian/wire"
)

// Append adds the fields of a hear.
func (q *hear) Append(b []byte) []byte {
	return wire.Packed(wire.Uint(wire.Fixed64(b, 1, q.Incarnation), 3, q.Next), 5, q.Want)
}

func readHear(r *wire.Reader, q *hear) {
	for m := r.Open("fastpaxos.Hear"); r.Next(&m); {
		switch r.Field() {
		case 1:
			q.Incarnation = r.Fixed64()
		case 3:
			q.Next = r.Uint()
		case 5:
			q.Want = r.Packed()
		default:
			r.Skip()
		}
	}
}

func decodeHear(b []byte) (q hear, err error) {
	r := wire.Read(bytes.Clone(b))
	readHear(&r, &q)
	return q, r.Err()
}

// Append adds the fields of tidings.
func (t *tidings) Append(b []byte) []byte {
	b = wire.Bool(wire.Uint(wire.Fixed64(b, 1, t.Incarnation), 3, t.Next), 5, t.Lost)
	for i := range t.Items {
		var at int
		b, at = wire.Begin(b, 7)
		b = wire.End(t.Items[i].append(b), at)
	}
	for i := range t.Complete {
		var at int
		b, at = wire.Begin(b, 9)
		b = wire.End(t.Complete[i].append(b), at)
	}
	return b
}

func readTidings(r *wire.Reader, t *tidings) {
	for m := r.Open("fastpaxos.Tidings"); r.Next(&m); {
		switch r.Field() {
		case 1:
			t.Incarnation = r.Fixed64()
		case 3:
			t.Next = r.Uint()
		case 5:
			t.Lost = r.Bool()
		case 7:
			readNewsItem(r, wire.Grow(r, &t.Items))
		case 9:
			readCompleteNews(r, wire.Grow(r, &t.Complete))
		default:
			r.Skip()
		}
	}
}

func decodeTidings(b []byte) (t tidings, err error) {
	r := wire.Read(bytes.Clone(b))
	t.Items = make([]newsItem, 0, len(b)/(newsItemSize+16))
	readTidings(&r, &t)
	if len(t.Items) == 0 {
		t.Items = nil
	}
	return t, r.Err()
}

func (i *newsItem) append(b []byte) []byte {
	b = wire.Bytes(wire.Uint(wire.Uint(b, 1, uint64(i.Range)), 3, uint64(i.Kind)), 5, i.Key)
	return wire.Timestamp(wire.ID(b, 7, i.Name.Txn), 9, i.Name.At)
}

func readNewsItem(r *wire.Reader, i *newsItem) {
	for m := r.Open("fastpaxos.NewsItem"); r.Next(&m); {
		switch r.Field() {
		case 1:
			i.Range = kv.RangeID(r.Uint())
		case 3:
			i.Kind = newsKind(r.Enum(uint8(aborted)))
		case 5:
			i.Key = keys.Key(r.Bytes())
		case 7:
			i.Name.Txn = r.ID()
		case 9:
			i.Name.At = r.Timestamp()
		default:
			r.Skip()
		}
	}
}

func (c *completeNews) append(b []byte) []byte {
	return wire.Uint(wire.Uint(b, 1, uint64(c.Range)), 3, c.Applied)
}

func readCompleteNews(r *wire.Reader, c *completeNews) {
	for m := r.Open("fastpaxos.CompleteNews"); r.Next(&m); {
		switch r.Field() {
		case 1:
			c.Range = kv.RangeID(r.Uint())
		case 3:
			c.Applied = r.Uint()
		default:
			r.Skip()
		}
	}
}
