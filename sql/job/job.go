package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"meridian/clock"
	"meridian/encoding"
	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/fault"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/storage/engine"
	"meridian/transport"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// ID identifies a job.
type ID int64

// Status is the state of a job.
type Status string

const (
	Pending   Status = "pending"
	Running   Status = "running"
	Reverting Status = "reverting"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Finished reports whether the status is final.
func (s Status) Finished() bool { return s == Succeeded || s == Failed || s == Canceled }

// Record is a job as stored.
type Record struct {
	ID          ID
	Type        string
	Description string
	Status      Status
	// Payload describes the work, and Progress is its last checkpoint; only the handler interprets them.
	Payload  json.RawMessage
	Progress json.RawMessage `json:",omitempty"`
	Fraction float64         `json:",omitempty"`
	// Times are wall nanoseconds.
	Created, Modified, Finished int64
	// After is the time from which the job may begin.
	After int64 `json:",omitempty"`
	// CancelRequested is set by CANCEL JOB.
	CancelRequested bool  `json:",omitempty"`
	Claim           Claim `json:",omitzero"`
	// Error is the cause of the end of a job that failed or reverts. While a job runs, it is that of its last attempt, if that failed: the job is repeated.
	Error *Failure `json:",omitempty"`
	// Needs is the lowest version that can read the row; zero: any.
	Needs version.Version `json:"needs,omitzero"`

	// Later is set if a later version has written fields that this one does not know. The row may be shown, and is neither run nor changed here (job.J4).
	Later *wire.VersionError `json:"-"`
}

// decode reads a job's row. A row of a later version has Later, and the fields that this version knows.
func (r *Registry) decode(id ID, b []byte) (*Record, error) {
	rec := &Record{}
	if err := wire.JSON(b, "job", rec); err != nil && !errors.As(err, &rec.Later) {
		return nil, fmt.Errorf("job: malformed row of job %d: %w", id, err)
	}
	if rec.Later == nil && r.o.Version.Binary().Own.Less(rec.Needs) {
		rec.Later = &wire.VersionError{Message: "job", Needs: rec.Needs.String()}
	}
	if rec.Later != nil {
		rec.ID = id
	}
	return rec, nil
}

// usable is decode for callers that act on the row: it refuses a row of a later version.
func (r *Registry) usable(id ID, b []byte) (*Record, error) {
	rec, err := r.decode(id, b)
	if err != nil || rec.Later == nil {
		return rec, err
	}
	e := sqlstate.New(sqlstate.FeatureNotSupported, "job %d was created or changed by a later version of Meridian than this node's", id)
	e.Cause, e.Hint = rec.Later, "Use a node of the later version, or upgrade this one."
	if rec.Later.Needs != "" {
		e.Hint = fmt.Sprintf("Use a node of version %s or later, or upgrade this one.", rec.Later.Needs)
	}
	return nil, e
}

// Claim names the node that works on a job, and the end of its claim unless it is renewed.
type Claim struct {
	Node        kv.NodeID
	Incarnation uint64
	Expires     int64
}

// Failure is the error that a job ended with.
type Failure struct {
	Code, Message, Detail, Hint, Schema, Table, Constraint, Column string
}

// Spec is a job to create.
type Spec struct {
	Type        string
	Description string
	Payload     any
	// After is the time from which it may begin; zero: immediately.
	After time.Time
}

// Handler is the work of one type of job.
type Handler struct {
	// Resume does the work, from r's checkpoint.
	Resume func(ctx context.Context, r *Run) error
	// Revert undoes it after cause; nil: there is nothing to undo.
	Revert func(ctx context.Context, r *Run, cause error) error
	// Abandon is called if Revert fails for good: it frees what waits for the job. Nil: nothing does.
	Abandon func(ctx context.Context, r *Run) error
	// Insist says that the work is repeated until it succeeds or is cancelled, whatever the error: nothing waits for it, and it has to be done some day.
	Insist bool
}

// Defaults of Options.
const (
	DefaultClaimDuration = 20 * time.Second
	DefaultAdoptInterval = 10 * time.Second
	DefaultConcurrency   = 4
	DefaultRetention     = 24 * time.Hour
)

// maxAttempts is how often a job is tried that makes no progress and fails with an error of which a retry is no remedy that is known: within half a minute (job.J3). It is ours.
const maxAttempts = 8

// Options of a Registry; durations of zero mean the defaults.
type Options struct {
	DB     *txn.DB
	Clock  *clock.Clock
	Host   *host.Host
	NodeID func() kv.NodeID
	// Version has the version of the node's binary, to which those of rows are compared.
	Version *version.Handle
	// ClaimDuration is the time for which a dead node's job waits; AdoptInterval is the mean time between two polls for jobs.
	ClaimDuration, AdoptInterval time.Duration
	// Concurrency bounds the jobs that the node runs when it adopts another one.
	Concurrency int
	Retention   time.Duration
}

// Registry runs the jobs of a node. All methods may be called concurrently.
type Registry struct {
	o           Options
	incarnation uint64
	faults      atomic.Int64

	mu       sync.Mutex // guards the fields below; nothing is taken after it
	handlers map[string]Handler
	running  map[ID]struct{}
	lastID   int64 // the microsecond in the last job's number
}

var (
	// ErrLost says that another node works on the job, or may work on it.
	ErrLost = errors.New("job: the claim was lost")
	// ErrNotFound says that there is no such job.
	ErrNotFound = errors.New("job: no such job")
)

// Faults counts the panics in jobs' own code, each of which was its job's error (fault.FA1).
func (r *Registry) Faults() int64 { return r.faults.Load() }

// New makes a registry.
func New(o Options) *Registry {
	if o.ClaimDuration == 0 {
		o.ClaimDuration = DefaultClaimDuration
	}
	if o.AdoptInterval == 0 {
		o.AdoptInterval = DefaultAdoptInterval
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	return &Registry{o: o, incarnation: o.Host.Dice.Uint64(), handlers: map[string]Handler{}, running: map[ID]struct{}{}}
}

// Handle registers the handler for jobs of a type. Call it before Start.
func (r *Registry) Handle(typ string, h Handler) {
	r.mu.Lock()
	r.handlers[typ] = h
	r.mu.Unlock()
}

// Start polls for jobs until the host's group stops.
func (r *Registry) Start() { r.o.Host.Group.Go(r.adopt) }

func jobKey(id ID) keys.Key {
	return encoding.AppendUint(keys.IndexPrefix(catalog.JobsTableID, catalog.IndexID(1)), uint64(id), encoding.Ascending)
}

// jobID is the identity in a job's key.
func jobID(k keys.Key) (ID, error) {
	_, _, rest, err := keys.DecodeIndexKey(k)
	if err != nil {
		return 0, err
	}
	v, _, err := encoding.DecodeUint(rest, encoding.Ascending)
	return ID(v), err
}

func jobSpan() keys.Span { return keys.IndexSpan(catalog.JobsTableID, catalog.IndexID(1)) }

func (r *Registry) now() int64 { return r.o.Clock.Wall().UnixNano() }

// newID is a number that no other job has: a microsecond of the node's clock, each of which is used once, and the node's number. A cluster has
// fewer than 1,024 nodes (cluster.Options.MaxNodes).
func (r *Registry) newID() ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID = max(r.lastID+1, r.o.Clock.Now().Wall/1000)
	return ID(r.lastID<<10 | int64(r.o.NodeID())&1023)
}

// Create writes a job within a transaction: it exists if the transaction commits.
func (r *Registry) Create(ctx context.Context, tx *txn.Txn, s Spec) (ID, error) {
	payload, err := json.Marshal(s.Payload)
	if err != nil {
		return 0, err
	}
	id := r.newID()
	rec := &Record{ID: id, Type: s.Type, Description: s.Description, Status: Pending, Payload: payload, Created: r.now(), Modified: r.now()}
	if !s.After.IsZero() {
		rec.After = s.After.UnixNano()
	}
	v, err := json.Marshal(rec)
	if err != nil {
		return 0, err
	}
	var b txn.WriteBatch
	b.Put(jobKey(id), v)
	return id, tx.Write(ctx, &b)
}

func (r *Registry) read(ctx context.Context, tx *txn.Txn, id ID) (*Record, error) {
	v, err := tx.Get(ctx, jobKey(id), kv.NoLock, kv.Block)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, ErrNotFound
	}
	return r.usable(id, v)
}

// Status reads a job's status within a transaction; empty: it has ended, and its row was removed.
func (r *Registry) Status(ctx context.Context, tx *txn.Txn, id ID) (Status, error) {
	rec, err := r.read(ctx, tx, id)
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return rec.Status, nil
}

// change reads a job, lets f change it, and writes it, in one transaction.
func (r *Registry) change(ctx context.Context, id ID, f func(*Record) error) (rec *Record, err error) {
	err = r.o.DB.Run(ctx, txn.TxnOptions{Name: "job"}, func(ctx context.Context, tx *txn.Txn) error {
		if rec, err = r.read(ctx, tx, id); err != nil {
			return err
		}
		if err := f(rec); err != nil {
			return err
		}
		rec.Modified = r.now()
		v, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		var b txn.WriteBatch
		b.Put(jobKey(id), v)
		return tx.Write(ctx, &b)
	})
	return rec, err
}

// List returns all jobs, oldest first, including those of later versions (Record.Later).
func (r *Registry) List(ctx context.Context) ([]*Record, error) {
	rows, err := r.o.DB.Scan(ctx, jobSpan())
	if err != nil {
		return nil, err
	}
	out := make([]*Record, 0, len(rows))
	for _, kv := range rows {
		id, err := jobID(kv.Key)
		if err != nil {
			return nil, err
		}
		rec, err := r.decode(id, kv.Value)
		if err != nil { // one malformed row must not hide the others
			rec = &Record{ID: id, Later: &wire.VersionError{Message: "job", Cause: err}}
		}
		out = append(out, rec)
	}
	return out, nil
}

// Cancel requests that a job be undone; the node that works on it finds the request at its next checkpoint.
func (r *Registry) Cancel(ctx context.Context, id ID) error {
	_, err := r.change(ctx, id, func(rec *Record) error {
		if rec.Status.Finished() {
			return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "job %d is %s already", id, rec.Status)
		}
		rec.CancelRequested = true
		return nil
	})
	if errors.Is(err, ErrNotFound) {
		return sqlstate.New(sqlstate.UndefinedObject, "job %d does not exist", id)
	}
	return err
}

// Hasten lets f change the jobs of a type that begin later than at a time: when they begin, and what they do. f reports whether it has changed the job.
func (r *Registry) Hasten(ctx context.Context, typ string, at time.Time, f func(*Record) bool) (n int, err error) {
	all, err := r.List(ctx)
	if err != nil {
		return 0, err
	}
	errNone := errors.New("job: nothing to change")
	for _, rec := range all {
		if rec.Later != nil || rec.Type != typ || rec.Status != Pending || rec.After <= at.UnixNano() {
			continue
		}
		_, err := r.change(ctx, rec.ID, func(now *Record) error {
			if now.Status != Pending || now.Claim.Expires != 0 || !f(now) {
				return errNone
			}
			return nil
		})
		switch {
		case err == nil:
			n++
		case !errors.Is(err, errNone) && !errors.Is(err, ErrNotFound):
			return n, err
		}
	}
	return n, nil
}

// CancelIfFailing is Cancel of a job whose last attempt has failed; it leaves others alone.
func (r *Registry) CancelIfFailing(ctx context.Context, id ID) error {
	v, err := r.o.DB.Get(ctx, jobKey(id))
	if err != nil || v == nil {
		return err
	}
	if rec, err := r.usable(id, v); err != nil || rec.Status != Running || rec.Error == nil || rec.CancelRequested {
		return err
	}
	return r.Cancel(ctx, id)
}

// Run runs a job that was committed, on the caller's goroutine; if another node has claimed it, Run waits for that node. The error is
// the one with which the job failed. If the context ends before the job, the node continues the job.
func (r *Registry) Run(ctx context.Context, id ID) error {
	for {
		done, err := r.attempt(ctx, id)
		if done {
			return err
		}
		if ctx.Err() != nil {
			r.goOn(id)
			return err
		}
		if err := r.o.Host.Group.Context().Err(); err != nil {
			return err // the node stops; another one continues the job
		}
		if err := r.o.Host.Clock.Sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// goOn continues a job for which no caller waits any more. If Concurrency jobs are running already, the job is adopted later.
func (r *Registry) goOn(id ID) {
	r.mu.Lock()
	room := len(r.running) < r.o.Concurrency
	r.mu.Unlock()
	if room {
		r.o.Host.Group.Go(func(ctx context.Context) { r.attempt(ctx, id) })
	}
}

var errBusy = errors.New("job: claimed by another node")

// attempt claims the job and works on it; done reports that it is finished, with its error.
func (r *Registry) attempt(ctx context.Context, id ID) (done bool, err error) {
	r.mu.Lock()
	if _, here := r.running[id]; here {
		r.mu.Unlock()
		return r.outcome(ctx, id)
	}
	r.running[id] = struct{}{}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
	}()
	rec, err := r.change(ctx, id, func(rec *Record) error {
		if rec.Status.Finished() || rec.Claim.Expires > r.now() && rec.Claim.Incarnation != r.incarnation {
			return errBusy
		}
		if rec.Status == Pending {
			rec.Status = Running
		}
		rec.Claim = Claim{r.o.NodeID(), r.incarnation, r.now() + int64(r.o.ClaimDuration)}
		return nil
	})
	switch {
	case errors.Is(err, errBusy):
		return r.outcome(ctx, id)
	case errors.Is(err, ErrNotFound), errors.As(err, new(*wire.VersionError)): // job.J4
		return true, err
	case err != nil:
		return false, err
	}
	r.mu.Lock()
	h, ok := r.handlers[rec.Type]
	r.mu.Unlock()
	if !ok {
		return true, fmt.Errorf("job: there is no handler for jobs of type %q", rec.Type)
	}
	return r.work(ctx, rec, h)
}

// outcome reports whether a job that runs elsewhere has finished, with its error.
func (r *Registry) outcome(ctx context.Context, id ID) (bool, error) {
	v, err := r.o.DB.Get(ctx, jobKey(id))
	if err != nil {
		return false, err
	}
	if v == nil {
		return true, nil
	}
	rec, err := r.usable(id, v)
	if err != nil {
		return true, err
	}
	if !rec.Status.Finished() {
		return false, nil
	}
	if rec.Status == Succeeded {
		return true, nil
	}
	return true, rec.failure()
}

func (rec *Record) failure() error {
	if rec.Error == nil {
		return nil
	}
	e := rec.Error
	return &sqlstate.Error{Code: sqlstate.Code(e.Code), Message: e.Message, Detail: e.Detail, Hint: e.Hint, Schema: e.Schema, Table: e.Table,
		Constraint: e.Constraint, Column: e.Column}
}

func failedWith(err error) *Failure {
	var e *sqlstate.Error
	if !errors.As(err, &e) {
		e = sqlstate.New(sqlstate.InternalError, "%v", err)
	}
	return &Failure{string(e.Code), e.Message, e.Detail, e.Hint, e.Schema, e.Table, e.Constraint, e.Column}
}

// transient reports whether an error says of itself that it passes: by a retry, when a lock is released, or when nodes are back (job.J3). Others may pass, or may not.
func transient(err error) bool {
	var (
		known     *sqlstate.Error
		retry     *txn.RetryError
		aborted   *kv.TxnAbortedError
		tooOld    *kv.WriteTooOldError
		uncertain *kv.UncertaintyError
		mustMove  *kv.TxnRetryError
		refresh   *kv.RefreshFailedError
		deadlock  *kv.DeadlockError
		lost      *kv.LocksLostError
		locked    *kv.LockNotAvailableError
		ambiguous *kv.AmbiguousError
		unavail   *kv.UnavailableError
		protocol  *kv.ProtocolError
		newer     *rowcode.NewerError
		unreach   *transport.UnreachableError
		overload  *transport.OverloadedError
		store     *engine.FatalError
		later     *wire.VersionError
	)
	switch {
	case errors.As(err, &known):
		return !permanent(err)
	case errors.As(err, &retry), errors.As(err, &aborted), errors.As(err, &tooOld), errors.As(err, &uncertain), errors.As(err, &mustMove), errors.As(err, &refresh),
		errors.As(err, &deadlock), errors.As(err, &lost), errors.As(err, &locked), errors.As(err, &ambiguous), errors.As(err, &unavail), errors.As(err, &protocol), errors.As(err, &newer),
		errors.As(err, &unreach), errors.As(err, &overload), errors.As(err, &store), errors.As(err, &later),
		errors.Is(err, ErrLost), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return true
	}
	return false
}

// permanent reports whether a retry would fail as well (job.J3).
func permanent(err error) bool {
	var e *sqlstate.Error
	if !errors.As(err, &e) || errors.As(err, new(*wire.VersionError)) {
		return false // a node of the later version can run it
	}
	switch e.Code {
	case sqlstate.SerializationFailure, sqlstate.DeadlockDetected, sqlstate.StatementCompletionUnknown, sqlstate.CannotConnectNow:
		return false
	}
	return true
}

// Run is a job while its handler works on it.
type Run struct {
	// Job is the row as of the last checkpoint.
	Job *Record
	r   *Registry
}

// Payload decodes the description of the work.
func (x *Run) Payload(into any) error { return x.Job.Describes(into) }

// Describes decodes the description of the work, and Describe replaces it.
func (rec *Record) Describes(into any) error { return json.Unmarshal(rec.Payload, into) }

// Describe is the opposite of Describes.
func (rec *Record) Describe(work any) (err error) {
	rec.Payload, err = json.Marshal(work)
	return err
}

// Progress decodes the last checkpoint; into stays as it is if there was none.
func (x *Run) Progress(into any) error {
	if len(x.Job.Progress) == 0 {
		return nil
	}
	return json.Unmarshal(x.Job.Progress, into)
}

// Checkpoint stores the progress. It fails with ErrLost, or with 57014 if the job was cancelled.
func (x *Run) Checkpoint(ctx context.Context, fraction float64, progress any) error {
	p, err := json.Marshal(progress)
	if err != nil {
		return err
	}
	rec, err := x.r.change(ctx, x.Job.ID, func(rec *Record) error {
		if rec.Claim.Incarnation != x.r.incarnation {
			return ErrLost
		}
		if rec.CancelRequested && rec.Status == Running {
			return sqlstate.New(sqlstate.QueryCanceled, "job %d was canceled", rec.ID)
		}
		if rec.Progress, rec.Fraction = p, fraction; rec.Status == Running {
			rec.Error = nil // it goes on
		}
		return nil
	})
	if err == nil {
		x.Job = rec
	}
	return err
}

// errCancelled ends the attempt of a job that was cancelled.
var errCancelled = errors.New("job: it was cancelled")

// work calls the handler until the job has finished, or this node must stop working on it.
func (r *Registry) work(ctx context.Context, rec *Record, h Handler) (bool, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	// forward ends with CANCEL JOB, too, which has to reach attempts that make no checkpoint.
	forward, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	id, until := rec.ID, rec.Claim.Expires
	if !r.o.Host.Group.Go(func(group context.Context) { r.keepClaim(ctx, group, stop, cancel, id, until) }) {
		return false, context.Canceled
	}
	x := &Run{Job: rec, r: r}
	const least = 100 * time.Millisecond
	pause := least
	attempts, mark := 0, rec.progress() // failed attempts since the last checkpoint
	for {
		reverting := rec.Status == Reverting
		var err error
		if reverting {
			if h.Revert != nil {
				err = fault.Run(r.o.Host.Log, &r.faults, func() error { return h.Revert(ctx, x, rec.failure()) })
			}
			if err == nil {
				return true, r.end(ctx, rec, nil)
			}
		} else {
			err = fault.Run(r.o.Host.Log, &r.faults, func() error { return h.Resume(forward, x) })
			if err == nil {
				return true, r.finish(ctx, rec.ID, Succeeded, nil)
			}
			if errors.Is(context.Cause(forward), errCancelled) {
				err = sqlstate.New(sqlstate.QueryCanceled, "job %d was canceled", rec.ID)
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		if now := x.Job.progress(); now != mark {
			attempts, mark = 0, now
		}
		if !transient(err) {
			attempts++
		}
		if !reverting && (permanent(err) || attempts >= maxAttempts && !h.Insist) {
			next, cerr := r.change(ctx, rec.ID, func(rec *Record) error {
				if rec.Claim.Incarnation != r.incarnation {
					return ErrLost
				}
				rec.Status, rec.Error = Reverting, failedWith(err)
				return nil
			})
			if cerr == nil {
				r.o.Host.Log.Info("job: it failed, and will be undone", "job", rec.ID, "type", rec.Type, "err", err)
				rec, x.Job = next, next
				attempts, mark, pause = 0, rec.progress(), least
				continue
			}
			err = cerr
		}
		if reverting && attempts >= maxAttempts {
			return true, r.abandon(ctx, x, h, err)
		}
		if errors.Is(err, ErrLost) {
			return false, err
		}
		if errors.As(err, new(*wire.VersionError)) { // job.J4
			_, cerr := r.change(ctx, rec.ID, func(rec *Record) error {
				if rec.Claim.Incarnation != r.incarnation {
					return ErrLost
				}
				rec.Claim = Claim{}
				return nil
			})
			r.o.Host.Log.Info("job: it waits for a node of a later version", "job", rec.ID, "type", rec.Type, "err", err)
			return false, errors.Join(err, cerr)
		}
		r.o.Host.Log.Warn("job: an attempt failed, and will be repeated", "job", rec.ID, "type", rec.Type, "err", err)
		r.note(ctx, rec, err)
		wait := forward
		if reverting {
			wait = ctx
		}
		if err := r.o.Host.Clock.Sleep(wait, pause); err != nil && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		pause = min(2*pause, 10*time.Second)
		if v, gerr := r.o.DB.Get(ctx, jobKey(rec.ID)); gerr == nil && v != nil {
			if fresh, err := r.usable(rec.ID, v); err == nil {
				rec, x.Job = fresh, fresh
			}
		}
	}
}

// progress tells one checkpoint from another.
func (rec *Record) progress() string { return fmt.Sprint(rec.Fraction, string(rec.Progress)) }

// end finishes a job that was undone, or could not be for the reason given.
func (r *Registry) end(ctx context.Context, rec *Record, undone error) error {
	final := Failed
	if rec.CancelRequested {
		final = Canceled
	}
	if undone != nil && rec.Error != nil {
		rec.Error.Detail = joined(rec.Error.Detail, fmt.Sprintf("Its changes could not be undone: %v.", undone))
		next, err := r.change(ctx, rec.ID, func(now *Record) error {
			if now.Claim.Incarnation != r.incarnation {
				return ErrLost
			}
			now.Error = rec.Error
			return nil
		})
		if err != nil {
			return err
		}
		rec = next
	}
	return r.finish(ctx, rec.ID, final, rec.failure())
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + " " + b
}

// abandon ends a job whose Revert fails for good. Statements that wait for the job go on.
func (r *Registry) abandon(ctx context.Context, x *Run, h Handler, cause error) error {
	r.o.Host.Log.Error("job: it can't be undone, and is given up", "job", x.Job.ID, "type", x.Job.Type, "err", cause)
	pause := 100 * time.Millisecond
	for try := 1; h.Abandon != nil; try++ {
		err := fault.Run(r.o.Host.Log, &r.faults, func() error { return h.Abandon(ctx, x) })
		if err == nil || try >= maxAttempts && !transient(err) {
			if err != nil {
				r.o.Host.Log.Error("job: what it has begun stays", "job", x.Job.ID, "type", x.Job.Type, "err", err)
			}
			break
		}
		if err := r.o.Host.Clock.Sleep(ctx, pause); err != nil {
			return context.Cause(ctx)
		}
		pause = min(2*pause, 10*time.Second)
	}
	return r.end(ctx, x.Job, cause)
}

// note records why the last attempt of a job failed, for those who ask. A node of an earlier version would take it for the error of a job that has
// succeeded since, so it waits until there is none.
func (r *Registry) note(ctx context.Context, rec *Record, cause error) {
	f := failedWith(cause)
	if rec.Status != Running || r.o.Version.Acting() != r.o.Version.Binary().Own || rec.Error != nil && *rec.Error == *f {
		return
	}
	limit, cancel := r.o.Host.Clock.WithTimeout(ctx, r.o.ClaimDuration/4)
	defer cancel()
	_, err := r.change(limit, rec.ID, func(now *Record) error {
		if now.Claim.Incarnation != r.incarnation || now.Status != Running {
			return ErrLost
		}
		now.Error = f
		return nil
	})
	if err != nil && !errors.Is(err, ErrLost) {
		r.o.Host.Log.Debug("job: can't record why an attempt failed", "job", rec.ID, "err", err)
	}
}

func (r *Registry) finish(ctx context.Context, id ID, s Status, failure error) error {
	_, err := r.change(ctx, id, func(rec *Record) error {
		if rec.Claim.Incarnation != r.incarnation {
			return ErrLost
		}
		rec.Status, rec.Finished, rec.Claim = s, r.now(), Claim{}
		if s == Succeeded {
			rec.Fraction, rec.Progress, rec.Error = 1, nil, nil
		}
		return nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// keepClaim renews the claim, and stops the work well before the claim runs out if that fails (job.J1). It ends an attempt if the job was cancelled.
func (r *Registry) keepClaim(ctx, group context.Context, stop, cancelled context.CancelCauseFunc, id ID, until int64) {
	for r.o.Host.Clock.Sleep(ctx, r.o.ClaimDuration/4) == nil {
		if group.Err() != nil {
			stop(group.Err())
			return
		}
		limit, cancel := r.o.Host.Clock.WithTimeout(ctx, r.o.ClaimDuration/4)
		next, err := r.change(limit, id, func(rec *Record) error {
			if rec.Claim.Incarnation != r.incarnation || rec.Status.Finished() {
				return ErrLost
			}
			rec.Claim.Expires = r.now() + int64(r.o.ClaimDuration)
			return nil
		})
		cancel()
		switch {
		case err == nil:
			if until = next.Claim.Expires; next.CancelRequested && next.Status == Running {
				cancelled(errCancelled)
			}
		case errors.Is(err, ErrLost) || r.now() > until-int64(r.o.ClaimDuration/4):
			stop(ErrLost)
			return
		}
	}
}

// adopt polls for jobs without a claim, and removes old rows.
func (r *Registry) adopt(ctx context.Context) {
	for {
		// The nodes poll at different moments.
		d := r.o.AdoptInterval/2 + time.Duration(r.o.Host.Dice.Int64N(int64(r.o.AdoptInterval)))
		if r.o.Host.Clock.Sleep(ctx, d) != nil {
			return
		}
		all, err := r.List(ctx)
		if err != nil {
			if ctx.Err() == nil {
				r.o.Host.Log.Debug("job: can't list jobs", "err", err)
			}
			continue
		}
		r.mu.Lock()
		room := r.o.Concurrency - len(r.running)
		r.mu.Unlock()
		for _, rec := range all {
			switch {
			case rec.Later != nil: // job.J4
			case rec.Status.Finished():
				if r.now()-rec.Finished > int64(r.o.Retention) {
					r.o.DB.Delete(ctx, jobKey(rec.ID))
				}
			case rec.After > r.now() || rec.Claim.Expires > r.now():
			// The creator of a new job is about to run it.
			case rec.Status == Pending && rec.After == 0 && r.now()-rec.Created < int64(r.o.AdoptInterval):
			default:
				r.mu.Lock()
				_, here := r.running[rec.ID]
				_, known := r.handlers[rec.Type]
				r.mu.Unlock()
				if !here && known && room > 0 {
					room--
					r.o.Host.Group.Go(func(ctx context.Context) { r.attempt(ctx, rec.ID) })
				}
			}
		}
	}
}
