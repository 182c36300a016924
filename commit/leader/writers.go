package leader

import (
	"sync"

	"meridian/clock"
	"meridian/kv"
)

// writers remembers which transactions wrote in a range last, by the timestamp of their versions: versions do not name their transaction,
// and the loser of a conflict reports it. It is a cache for messages; nothing depends on it.
type writers struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	ring []writer
	next int
}

type writer struct {
	at      clock.Timestamp
	id      kv.TxnID
	gateway kv.NodeID
}

// maxWriters is how many transactions of a range are remembered.
const maxWriters = 128

func (w *writers) note(t *kv.TxnMeta) {
	x := writer{t.WriteTimestamp, t.ID, t.Gateway}
	w.mu.Lock()
	if n := len(w.ring); n > 0 && w.ring[(w.next+n-1)%n] == x {
		w.mu.Unlock()
		return
	}
	if len(w.ring) < maxWriters {
		w.ring = append(w.ring, x)
	} else {
		w.ring[w.next] = x
		w.next = (w.next + 1) % maxWriters
	}
	w.mu.Unlock()
}

// at finds the transaction that wrote the versions of a timestamp; zero if it is forgotten.
func (w *writers) at(t clock.Timestamp) (kv.TxnID, kv.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.ring {
		if w.ring[i].at == t {
			return w.ring[i].id, w.ring[i].gateway
		}
	}
	return kv.TxnID{}, 0
}

// name adds the transaction that wrote the version to a conflict's error.
func (w *writers) name(err error) {
	switch e := err.(type) {
	case *kv.WriteTooOldError:
		if e.By.IsZero() {
			e.By, e.Gateway = w.at(e.Actual)
		}
	case *kv.RefreshFailedError:
		if e.By.IsZero() {
			e.By, e.Gateway = w.at(e.Written)
		}
	}
}
