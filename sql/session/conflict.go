package session

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/session/advisory"
	"meridian/sql/session/replay"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
	"meridian/txn"
)

// describeLoss is the error that ends a transaction which lost a conflict: what was in the way, and why running the
// transaction again did not settle it.
func (s *Session) describeLoss(conflict error, d *replay.DiffersError, why string) error {
	var (
		deadlock *kv.DeadlockError
		refresh  *kv.RefreshFailedError
	)
	e := *Outcome(conflict)
	var lines []string
	switch {
	case errors.As(conflict, &deadlock) && len(deadlock.Waits) > 0:
		if d != nil {
			// It could go on if it had not read what others have changed.
			e.Code, e.Message = sqlstate.SerializationFailure, "could not serialize access after a deadlock"
		}
		for i := range deadlock.Waits {
			w := &deadlock.Waits[i]
			blocker := deadlock.Waits[(i+1)%len(deadlock.Waits)]
			if pid, _ := s.srv.sessionOf(w.ID); pid != 0 {
				if other, _ := s.srv.sessionOf(blocker.ID); other == pid {
					continue // the session's transaction and its holder of advisory locks
				}
			}
			line := s.describeTxn(w.ID, w.Gateway) + " waits"
			if len(w.Key) > 0 {
				line += " for " + s.describeKey(w.Key)
			} else {
				line += " for a lock"
			}
			lines = append(lines, upperFirst(line)+"; blocked by "+s.describeTxn(blocker.ID, blocker.Gateway)+".")
		}
	default:
		if errors.As(conflict, &refresh) && s.state.Modes().Isolation == kv.Serializable {
			e.Message = "could not serialize access due to read/write dependencies among transactions"
		}
		if l := s.describeConflict(conflict); l != "" {
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

// describeConflict says which key and which transaction were in the way; empty if the error does not know.
func (s *Session) describeConflict(err error) string {
	var (
		tooOld    *kv.WriteTooOldError
		uncertain *kv.UncertaintyError
		refresh   *kv.RefreshFailedError
		aborted   *kv.TxnAbortedError
		mustMove  *kv.TxnRetryError
		retry     *txn.RetryError
	)
	switch {
	case errors.As(err, &refresh):
		return upperFirst(s.describeKey(refresh.Key)) + " was read, and then written by " + s.describeTxn(refresh.By, refresh.Gateway) + "."
	case errors.As(err, &tooOld):
		return upperFirst(s.describeKey(tooOld.Key)) + " was written by " + s.describeTxn(tooOld.By, tooOld.Gateway) + "."
	case errors.As(err, &uncertain):
		return upperFirst(s.describeKey(uncertain.Key)) + " was written within the uncertainty interval."
	case errors.As(err, &aborted):
		return "Another transaction aborted this one: " + aborted.Reason + "."
	case errors.As(err, &mustMove):
		return "Others have read what the transaction writes, and it could not move behind them."
	case errors.As(err, &retry):
		return upperFirst(retry.Reason.String()) + "."
	}
	return ""
}

// located adds to a statement's error what takes the catalogue: the schema of the table whose constraint was violated, and
// the table of a row that another transaction has locked, for a statement that does not wait.
func (s *Session) located(err error) error {
	if err == nil || s.cat == nil {
		return err
	}
	var known *sqlstate.Error
	if errors.As(err, &known) && known.RowOf != 0 && s.mayRead(known.RowOf) {
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
	table, _, _, kerr := keys.DecodeIndexKey(locked.Key)
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

// describeTxn names a transaction: by its process and application if it is one of this node's sessions.
func (s *Session) describeTxn(id kv.TxnID, gateway kv.NodeID) string {
	if id.IsZero() {
		return "another transaction"
	}
	pid, application := s.srv.sessionOf(id)
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

// describeKey reads a key as the catalogue does: columns and values, table and index. A role that may not read the table is
// told no values: they can be another's.
func (s *Session) describeKey(k keys.Key) string {
	plain := "a key"
	access, role := s.access(), s.role()
	if access.Superuser(role) {
		plain = "key " + keys.PrettyPrint(k)
	}
	if l, ok := keys.DecodeAdvisory(k); ok {
		w := advisory.Shown(l, advisory.Exclusive)
		return fmt.Sprintf("advisory lock [%d,%d,%d,%d]", w.Database, w.Class, w.Object, w.Sub)
	}
	table, index, _, err := keys.DecodeIndexKey(k)
	if err != nil || s.cat == nil {
		return plain
	}
	d := s.cat.Descriptor(catalog.ID(table))
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
	if !access.May(role, d.ID(), catalog.Select) {
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
			v = types.FormatText(row[i], x.KeyType(i), &s.style)
		}
		values = append(values, v)
	}
	return fmt.Sprintf("key (%s)=(%s) of table %q, index %q", strings.Join(names, ", "), strings.Join(values, ", "), t.Name, ix.Name)
}

// abbreviated is a statement's text as errors show it.
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

// finished remembers whose transactions ended last on this node, for the details of conflicts.
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

// sessionOf finds the session of a transaction that runs on this node, or has ended a short while ago.
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

// show lets others know the running transaction's identity.
func (s *Session) showTxn() {
	var id kv.TxnID
	if s.tx != nil {
		id = s.tx.ID()
	}
	name := s.setting("application_name")
	s.mu.Lock()
	s.txnID, s.application, s.txnSince = id, name, s.txnStart
	s.mu.Unlock()
}
