package temporary

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// model is a store by brute force: a map, and copies of it.
type model struct {
	begin, seen, now map[string]string
}

func (m *model) step() { m.seen = maps.Clone(m.now) }

func (m *model) scan(o txn.ScanOptions) (out []string) {
	for k, v := range m.seen {
		if k >= string(o.Span.Start) && k < string(o.Span.Stop()) {
			out = append(out, k+"="+v)
		}
	}
	slices.Sort(out)
	if o.Reverse {
		slices.Reverse(out)
	}
	return out
}

// scanAll follows resume spans to the end.
func scanAll(t *testing.T, s *Store, o txn.ScanOptions) (out []string) {
	for next := &o.Span; next != nil; {
		o.Span = *next
		var rows []kv.KeyValue
		if rows, next = s.Scan(o); next != nil && len(rows) == 0 {
			t.Fatal("a page is empty")
		}
		if o.MaxRows > 0 && int64(len(rows)) > o.MaxRows {
			t.Fatalf("%d rows, at most %d were asked for", len(rows), o.MaxRows)
		}
		for _, r := range rows {
			out = append(out, string(r.Key)+"="+string(r.Value))
		}
	}
	return out
}

// TestModel compares random transactions, with statements, savepoints and batches that fail, with the model (temporary.TT1, temporary.TT2, temporary.TT3).
func TestModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		account := memory.Limited(1 << 20)
		s := New(account)
		m := &model{begin: map[string]string{}, seen: map[string]string{}, now: map[string]string{}}
		type point struct {
			mark Mark
			now  map[string]string
		}
		var points []point
		key := func() keys.Key { return keys.Key(fmt.Sprintf("k%03d", r.IntN(200))) }
		value := func() []byte { return bytes.Repeat([]byte{byte('a' + r.IntN(26))}, r.IntN(40)) }
		span := func() keys.Span {
			a, b := key(), key()
			if b.Less(a) {
				a, b = b, a
			}
			if r.IntN(8) == 0 {
				return keys.Span{Start: a}
			}
			return keys.Span{Start: a, End: b}
		}
		for step := range 400 {
			switch n := r.IntN(100); {
			case n < 40: // a batch
				var b txn.WriteBatch
				want, fails := maps.Clone(m.now), false
				for range 1 + r.IntN(6) {
					k, v := key(), value()
					switch r.IntN(8) {
					case 0, 1:
						b.Put(k, v)
						want[string(k)] = string(v)
					case 2:
						b.PutFresh(k, v)
						want[string(k)] = string(v)
					case 3:
						b.PutNew(k, v)
						_, has := want[string(k)]
						fails = fails || has
						want[string(k)] = string(v)
					case 4:
						b.CPut(k, v, []byte("x"))
						fails = fails || want[string(k)] != "x"
						want[string(k)] = string(v)
					case 5, 6:
						b.Delete(k)
						delete(want, string(k))
					case 7:
						sp := span()
						b.DeleteRange(sp)
						maps.DeleteFunc(want, func(k, _ string) bool { return k >= string(sp.Start) && k < string(sp.Stop()) })
					}
				}
				err := s.Write(&b)
				var cond *kv.ConditionFailedError
				if fails != errors.As(err, &cond) || !fails && err != nil {
					t.Fatalf("seed %d step %d: %v, failure expected: %v", seed, step, err, fails)
				}
				if !fails {
					m.now = want
				}
			case n < 55:
				s.Step()
				m.step()
			case n < 75:
				o := txn.ScanOptions{Span: span(), Reverse: r.IntN(2) == 0}
				want := m.scan(o)
				switch r.IntN(3) {
				case 0:
					o.MaxRows = int64(1 + r.IntN(10))
				case 1:
					o.TargetBytes = int64(1 + r.IntN(100))
				}
				if got := scanAll(t, s, o); !slices.Equal(got, want) {
					t.Fatalf("seed %d step %d: scan %+v\n%v\nwant\n%v", seed, step, o, got, want)
				}
			case n < 80:
				k := key()
				want, has := m.seen[string(k)]
				if got := s.Get(k); (got != nil) != has || string(got) != want {
					t.Fatalf("seed %d step %d: %s is %q, want %q", seed, step, k, got, want)
				}
			case n < 87:
				points = append(points, point{s.Mark(), maps.Clone(m.now)})
				m.step()
			case n < 93 && len(points) > 0:
				i := r.IntN(len(points))
				s.RollbackTo(points[i].mark)
				m.now = maps.Clone(points[i].now)
				m.step()
				points = points[:i+1]
			case n < 97:
				s.Commit()
				m.step()
				m.begin = maps.Clone(m.now)
				points = nil
			default:
				s.Rollback()
				m.now = maps.Clone(m.begin)
				m.step()
				points = nil
			}
			size := int64(0)
			for k, v := range m.now {
				size += int64(len(k)+len(v)) + rowOverhead
			}
			if s.size != size || s.held < size || len(points) == 0 && s.begin.tree == s.now && s.held != size {
				t.Fatalf("seed %d step %d: size %d, held %d, the rows have %d", seed, step, s.size, s.held, size)
			}
		}
	}
}

// TestMemory: a store that may not grow refuses the write as a whole, says what helps, and has all of its memory back when the transaction is
// over (temporary.TT3).
func TestMemory(t *testing.T) {
	node := memory.NewNode(4 << 20)
	session := memory.NewSession(node)
	account := session.NewStatement(1 << 20)
	s := New(account)
	row := func(i, n int) (keys.Key, []byte) { return keys.Key(fmt.Sprintf("k%06d", i)), make([]byte, n) }
	var b txn.WriteBatch
	b.Put(row(0, 10))
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	s.Commit()
	var large txn.WriteBatch
	for i := range 100 {
		large.Put(row(i, 100<<10))
	}
	err := s.Write(&large)
	var e *sqlstate.Error
	if !errors.As(err, &e) || e.Code != sqlstate.OutOfMemory || e.Hint == "" {
		t.Fatalf("%v, with hint %q", err, e.Hint)
	}
	if rows, _ := s.Scan(txn.ScanOptions{Span: keys.Span{Start: keys.Key("k"), End: keys.Key("l")}}); len(rows) != 1 {
		t.Errorf("%d rows after the write that failed", len(rows))
	}
	// Rows that were deleted in the transaction are held until it ends.
	for i := range 9 {
		var b txn.WriteBatch
		b.Put(row(1, 100<<10))
		b.Delete(row1(row(1, 0)))
		if err := s.Write(&b); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	var more txn.WriteBatch
	more.Put(row(1, 200<<10))
	if s.Write(&more) == nil {
		t.Error("deleted rows that a rollback would bring back are not held")
	}
	s.Commit()
	if err := s.Write(&more); err != nil {
		t.Error(err)
	}
	s.Close()
	account.Close()
	session.Close()
	if n := node.Used(); n != 0 {
		t.Errorf("%d bytes are held at the end", n)
	}
}

func row1(k keys.Key, _ []byte) keys.Key { return k }

// TestKeysAreDivided: a batch of both kinds goes to both places (temporary.TT4).
func TestKeysAreDivided(t *testing.T) {
	var b txn.WriteBatch
	own, other := keys.TableKey(uint32(1<<30+5)), keys.TableKey(uint32(1<<30-1))
	acl := keys.TableKey(uint32(1<<31 + 5))
	b.Put(own, []byte("1"))
	b.PutNew(other, []byte("2"))
	b.Delete(acl)
	b.Delete(own)
	mine, rest := b.Split(local)
	if mine.Len() != 2 || rest.Len() != 2 || mine.Bytes()+rest.Bytes() != b.Bytes() {
		t.Errorf("%d and %d writes of %d", mine.Len(), rest.Len(), b.Len())
	}
}
