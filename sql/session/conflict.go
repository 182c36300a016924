package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/rowcode"
	"meridian/sql/session/advisory"
	"meridian/sql/session/replay"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// witness describes conflicts to a client: transactions by the sessions that run them, keys as rows of the catalogue, and no values that the
// client's role may not read.
type witness struct {
	srv    *Server
	cat    *lease.Txn // nil: no transaction is open
	rights rights
	style  *types.Style
}

func (s *Session) witness() witness {
	return witness{s.srv, s.cat, rights{s.access(), s.role()}, &s.style}
}

// loss is the error that ends a transaction which lost a conflict. It names the other transaction and the key, and says why the transaction was
// not run again, or how its second run differed.
func (w witness) loss(conflict error, isolation kv.Isolation, d *replay.DiffersError, why string) error {
	var (
		deadlock *kv.DeadlockError
		refresh  *kv.RefreshFailedError
	)
	e := *Outcome(conflict)
	var lines []string
	switch {
	case errors.As(conflict, &deadlock) && len(deadlock.Waits) > 0:
		if d != nil {
			// Without the changes that other transactions have made since, the replay would have succeeded: that is the reason, not the deadlock.
			e.Code, e.Message = sqlstate.SerializationFailure, "could not serialize access after a deadlock"
		}
		for i := range deadlock.Waits {
			wait := &deadlock.Waits[i]
			blocker := deadlock.Waits[(i+1)%len(deadlock.Waits)]
			if pid, _ := w.srv.sessionOf(wait.ID); pid != 0 {
				if other, _ := w.srv.sessionOf(blocker.ID); other == pid {
					continue // one session's transaction, and the holder of its advisory locks
				}
			}
			line := w.txn(wait.ID, wait.Gateway) + " waits"
			if len(wait.Key) > 0 {
				line += " for " + w.key(wait.Key)
			} else {
				line += " for a lock"
			}
			lines = append(lines, upperFirst(line)+"; blocked by "+w.txn(blocker.ID, blocker.Gateway)+".")
		}
	default:
		if errors.As(conflict, &refresh) && isolation == kv.Serializable {
			e.Message = "could not serialize access due to read/write dependencies among transactions"
		}
		if l := w.conflict(conflict); l != "" {
			lines = append(lines, l)
		} else if e.Detail != "" {
			lines = append(lines, e.Detail)
		}
	}
	switch {
	case d != nil:
		lines = append(lines, fmt.Sprintf("The transaction was replayed, and statement %d, whose result has been sent, has another result now: %s",
			d.Number, abbreviated(d.Text)))
	case why != "":
		lines = append(lines, "The transaction was not replayed: "+why+".")
	}
	e.Detail = strings.Join(lines, "\n")
	return &e
}

// conflict names the key and the transaction of a conflict; empty if the error has neither.
func (w witness) conflict(err error) string {
	var (
		tooOld    *kv.WriteTooOldError
		uncertain *kv.UncertaintyError
		refresh   *kv.RefreshFailedError
		aborted   *kv.TxnAbortedError
		mustMove  *kv.TxnRetryError
		retry     *txn.RetryError
		read      *txn.ReadError
	)
	switch {
	case errors.As(err, &refresh):
		return upperFirst(w.key(refresh.Key)) + " was read, and then written by " + w.txn(refresh.By, refresh.Gateway) + "."
	case errors.As(err, &tooOld):
		return upperFirst(w.key(tooOld.Key)) + " was written by " + w.txn(tooOld.By, tooOld.Gateway) + "."
	case errors.As(err, &uncertain):
		return upperFirst(w.key(uncertain.Key)) + " was written within the uncertainty interval."
	case errors.As(err, &aborted):
		return "Another transaction aborted this one: " + aborted.Reason + "."
	case errors.As(err, &read):
		return readDetail(read)
	case errors.As(err, &mustMove):
		return "Others have read what the transaction writes, and it could not move behind them."
	case errors.As(err, &retry):
		return upperFirst(retry.Reason.String()) + "."
	}
	return ""
}

// located completes a statement's error from the catalogue: it adds the schema of the table whose constraint was violated, and
// the table of a row that another transaction has locked, for a statement that does not wait for it.
func (s *Session) located(err error) error {
	if err == nil || s.cat == nil {
		return err
	}
	var known *sqlstate.Error
	if errors.As(err, &known) && known.RowOf != 0 && s.rights().reads(catalog.ID(known.RowOf)) {
		known.Detail, known.RowOf = known.Values, 0
	}
	if errors.As(err, &known) && known.TableID != 0 && known.Schema == "" {
		if d := s.cat.Descriptor(catalog.ID(known.TableID)); d != nil && d.Table != nil {
			if sc := s.cat.Descriptor(d.Table.Schema); sc != nil && sc.Schema != nil {
				known.Schema = sc.Schema.Name
			}
		}
		return err
	}
	var locked *kv.LockNotAvailableError
	if !errors.As(err, &locked) || locked.Timeout {
		return err
	}
	table, _, _, kerr := keys.Owner(locked.Key)
	if kerr != nil {
		return err
	}
	d := s.cat.Descriptor(catalog.ID(table))
	if d == nil || d.Table == nil {
		return err
	}
	e := sqlstate.New(sqlstate.LockNotAvailable, "could not obtain lock on row in relation %q", d.Table.Name)
	e.Cause = err
	return e
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// txn names a transaction, with its process and application if a session of this node runs it.
func (w witness) txn(id kv.TxnID, gateway kv.NodeID) string {
	if id.IsZero() {
		return "another transaction"
	}
	pid, application := w.srv.sessionOf(id)
	switch {
	case pid != 0 && application != "":
		return fmt.Sprintf("process %d (transaction %s, %s)", pid, id, application)
	case pid != 0:
		return fmt.Sprintf("process %d (transaction %s)", pid, id)
	case gateway != 0:
		return fmt.Sprintf("transaction %s of node %d", id, gateway)
	}
	return "transaction " + id.String()
}

// key describes a key by the catalogue: columns and values, table and index. It leaves out the values if the client's role may not read the
// table: they may be of a row that the role has never seen.
func (w witness) key(k keys.Key) string {
	plain := "a key"
	if w.rights.access.Superuser(w.rights.role) {
		plain = "key " + keys.PrettyPrint(k)
	}
	if l, ok := keys.DecodeAdvisory(k); ok {
		lock := advisory.Shown(l, advisory.Exclusive)
		return fmt.Sprintf("advisory lock [%d,%d,%d,%d]", lock.Database, lock.Class, lock.Object, lock.Sub)
	}
	table, index, _, err := keys.Owner(k)
	if err != nil || w.cat == nil {
		return plain
	}
	d := w.cat.Descriptor(catalog.ID(table))
	if d == nil || d.Table == nil {
		return plain
	}
	t := d.Table
	if index == 0 { // lease.L6
		return fmt.Sprintf("the lock of table %q", t.Name)
	}
	ix := t.Index(catalog.IndexID(index))
	if ix == nil {
		return plain
	}
	unread := fmt.Sprintf("a key of table %q, index %q", t.Name, ix.Name)
	if !w.rights.reads(d.ID()) {
		return unread
	}
	x, err := rowcode.NewIndex(t, ix)
	if err != nil {
		return plain
	}
	row, err := x.KeyValues(k)
	if err != nil {
		return unread
	}
	var names, values []string
	for i, c := range ix.Columns {
		names = append(names, t.Column(c.Column).Name)
		v := "null"
		if !row[i].IsNull() {
			v = types.FormatText(row[i], x.KeyType(i), w.style)
		}
		values = append(values, v)
	}
	return fmt.Sprintf("key (%s)=(%s) of table %q, index %q", strings.Join(names, ", "), strings.Join(values, ", "), t.Name, ix.Name)
}

// abbreviated is the beginning of a statement's text, for errors.
func abbreviated(text string) string {
	const limit = 60
	out := strings.Join(strings.Fields(text), " ")
	if len(out) <= limit {
		return out
	}
	n := limit
	for n > 0 && out[n]&0xC0 == 0x80 {
		n--
	}
	return out[:n] + "..."
}

// finished remembers the last transactions that ended on this node, with their sessions, for the details of conflicts.
type finished struct {
	mu   sync.Mutex // guards the fields below; nothing is taken after it
	ring [1024]finishedTxn
	next int
}

type finishedTxn struct {
	id          kv.TxnID
	pid         int32
	application string
}

func (f *finished) note(t finishedTxn) {
	f.mu.Lock()
	f.ring[f.next] = t
	f.next = (f.next + 1) % len(f.ring)
	f.mu.Unlock()
}

func (f *finished) find(id kv.TxnID) (int32, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.ring {
		if f.ring[i].id == id {
			return f.ring[i].pid, f.ring[i].application
		}
	}
	return 0, ""
}

// sessionOf finds the session of a transaction that runs on this node, or has ended recently.
func (s *Server) sessionOf(id kv.TxnID) (pid int32, application string) {
	s.mu.Lock()
	all := make([]*Session, 0, len(s.sessions))
	for _, x := range s.sessions {
		all = append(all, x)
	}
	s.mu.Unlock()
	for _, x := range all {
		x.mu.Lock()
		found := x.txnID == id || x.advisory.Holds(id)
		name := x.application
		x.mu.Unlock()
		if found {
			return x.pid, name
		}
	}
	return s.finished.find(id)
}

// showTxn publishes the open transaction's identity to other goroutines.
func (s *Session) showTxn() {
	var id kv.TxnID
	if s.tx != nil {
		id = s.tx.ID()
	}
	s.mu.Lock()
	s.txnID, s.txnSince = id, s.txnStart
	s.mu.Unlock()
}
