package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"meridian/host"
	"meridian/keys"
	"meridian/kv"
	"meridian/sql/job"
	"meridian/txn"
	"meridian/version"
	"meridian/wire"
)

// Migration is what has to be done to a cluster's data once, when a version is active everywhere.
type Migration struct {
	Version version.Version
	// Name tells the migrations of a version apart, and is part of a key: lower case and hyphens.
	Name string
	// About is a phrase for the list of jobs.
	About string
	// Resume does it, from the job's last checkpoint; it may be called again after it has succeeded (job.J2).
	Resume func(ctx context.Context, r *job.Run) error
}

// FinalizerOptions are what a Finalizer needs.
type FinalizerOptions struct {
	DB     *txn.DB
	Host   *host.Host
	Jobs   *job.Registry
	Handle *version.Handle
	// Live reports whether a node is there, as far as is known here.
	Live func(kv.NodeID) bool
	// Kick has a node look at the cluster's version; it does not wait.
	Kick func(kv.NodeID)
	// Migrations of all versions up to the binary's own, in the order of their versions.
	Migrations []Migration
}

// Finalizer finalises upgrades. Every node has one; any of them may do the work.
type Finalizer struct{ o FinalizerOptions }

// NewFinalizer makes one and teaches the jobs' registry what upgrades are. Call it before the registry starts.
func NewFinalizer(o FinalizerOptions) *Finalizer {
	f := &Finalizer{o}
	b := o.Handle.Binary()
	for _, v := range version.Steps(b.Oldest, b.Own) {
		// The type names the version, so that no node adopts an upgrade to a version that it does not know.
		o.Jobs.Handle(jobType(v), job.Handler{Resume: f.resume})
	}
	for _, m := range o.Migrations {
		if !b.Own.Less(m.Version) {
			o.Jobs.Handle(m.jobType(), job.Handler{Resume: m.Resume})
		}
	}
	return f
}

// JobPrefix begins the types of the jobs of this package.
const JobPrefix = "upgrade"

func jobType(to version.Version) string { return JobPrefix + " " + to.String() }

func (m *Migration) jobType() string {
	return JobPrefix + " migration " + m.Version.String() + "/" + m.Name
}

// NotReadyError says why an upgrade can't be finalised yet.
type NotReadyError struct {
	Active, Latest version.Version
	// Old are nodes whose binary does not have Latest, Away those that are not live.
	Old, Away []kv.NodeID
}

func (e *NotReadyError) Error() string {
	var why []string
	if len(e.Old) > 0 {
		why = append(why, fmt.Sprintf("%s the binary of version %s: restart %s with that", has(e.Old, "does not run", "do not run"), e.Latest, them(e.Old)))
	}
	if len(e.Away) > 0 {
		why = append(why, fmt.Sprintf("%s live, and might come back with another binary: start %s, or decommission %s (meridian node decommission)",
			has(e.Away, "is not", "are not"), them(e.Away), them(e.Away)))
	}
	return fmt.Sprintf("the upgrade from %s to %s can't be finalized yet: %s", e.Active, e.Latest, strings.Join(why, "; "))
}

func has(nodes []kv.NodeID, one, many string) string {
	if len(nodes) == 1 {
		return fmt.Sprintf("node %d %s", nodes[0], one)
	}
	return "nodes " + list(nodes) + " " + many
}

func them(nodes []kv.NodeID) string {
	if len(nodes) == 1 {
		return "it"
	}
	return "them"
}

func list(nodes []kv.NodeID) string {
	var b strings.Builder
	for i, n := range nodes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n)
	}
	return b.String()
}

// Look reads all rows.
func (f *Finalizer) Look(ctx context.Context) (v View, err error) {
	err = f.o.DB.Run(ctx, txn.TxnOptions{Name: "version"}, func(ctx context.Context, tx *txn.Txn) (err error) {
		v, err = readView(ctx, tx)
		return err
	})
	return v, err
}

// Begin begins to finalise the upgrade to the latest version that all nodes' binaries have, and returns the job that does it: that of an
// earlier call if it is under way. Zero is no job: there is nothing to finalise. It fails with *NotReadyError.
func (f *Finalizer) Begin(ctx context.Context) (id job.ID, to version.Version, err error) {
	err = f.o.DB.Run(ctx, txn.TxnOptions{Name: "finalize"}, func(ctx context.Context, tx *txn.Txn) error {
		id, to = 0, version.Version{}
		v, err := readView(ctx, tx)
		if err != nil {
			return err
		}
		if to = v.Raising; !to.IsZero() {
			id = job.ID(v.Job)
			status, err := f.o.Jobs.Status(ctx, tx, id)
			if err != nil || status != "" && !status.Finished() {
				return err
			}
			// It has failed, or was cancelled: once more, from where it stopped.
		} else {
			latest := v.Active
			for _, m := range v.Members {
				latest = latest.Max(m.Own)
			}
			if to = v.Target(); !v.Active.Less(latest) {
				return nil
			}
			not := &NotReadyError{Active: v.Active, Latest: latest}
			not.Old = v.lacking(func(m *Member) bool { return !m.Own.Less(latest) })
			not.Away = v.lacking(func(m *Member) bool { return f.o.Live(m.Node) })
			if len(not.Old)+len(not.Away) > 0 {
				return not
			}
		}
		id, err = f.o.Jobs.Create(ctx, tx, job.Spec{Type: jobType(to), Description: fmt.Sprintf("finalize the upgrade from %s to %s", v.Active, to),
			Payload: payload{to}})
		if err != nil {
			return err
		}
		if v.Raising.IsZero() {
			v.From = v.Active
		}
		v.Raising, v.Job = to, int64(id)
		return writeCluster(ctx, tx, v.Cluster)
	})
	return id, to, err
}

// Run does the job on the caller's goroutine, or waits for who does.
func (f *Finalizer) Run(ctx context.Context, id job.ID) error { return f.o.Jobs.Run(ctx, id) }

// payload is what a job of an upgrade is to do.
type payload struct{ To version.Version }

// Progress is how far a job of an upgrade has come.
type Progress struct {
	// Doing is a phrase for people.
	Doing string
}

// pollEvery is how often rows are looked at while nodes are waited for.
const pollEvery = 200 * time.Millisecond

// errStale says that the cluster's row belongs to another upgrade: this job has nothing left to do.
var errStale = errors.New("upgrade: superseded")

// run is one attempt at a job.
type run struct {
	f    *Finalizer
	r    *job.Run
	to   version.Version
	said string
}

// resume takes an upgrade from where it is to its end.
func (f *Finalizer) resume(ctx context.Context, r *job.Run) error {
	var p payload
	if err := r.Payload(&p); err != nil {
		return err
	}
	x := &run{f: f, r: r, to: p.To}
	err := x.all(ctx)
	if errors.Is(err, errStale) {
		return nil
	}
	return err
}

func (x *run) all(ctx context.Context) error {
	if err := x.wait(ctx, 0.1, "promise not to go back below", x.to, func(v *View) []kv.NodeID { return v.promised(x.to) }); err != nil {
		return err
	}
	v, err := x.f.Look(ctx)
	if err != nil {
		return err
	}
	steps := version.Steps(v.From, x.to) // also those that are active already: their migrations may not be done
	for i, step := range steps {
		done := 0.2 + 0.8*float64(i)/float64(len(steps))
		if err := x.change(ctx, func(v *View) error {
			if missing := v.promised(x.to); len(missing) > 0 { // one has joined, and has not promised
				return fmt.Errorf("upgrade: nodes %s have not promised %s", list(missing), x.to)
			}
			v.Active = v.Active.Max(step) // upgrade.UP1
			return nil
		}); err != nil {
			return err
		}
		if err := x.wait(ctx, done, "act by", step, func(v *View) []kv.NodeID { return v.acting(step) }); err != nil {
			return err
		}
		for j := range x.f.o.Migrations {
			m := &x.f.o.Migrations[j]
			if m.Version != step {
				continue
			}
			if err := x.say(ctx, done, "migration "+m.Name); err != nil {
				return err
			}
			if err := x.migrate(ctx, m); err != nil {
				return fmt.Errorf("migration %s of version %s: %w", m.Name, m.Version, err)
			}
		}
	}
	return x.change(ctx, func(v *View) error {
		v.Raising, v.From = version.Version{}, version.Version{}
		return nil
	})
}

// change reads all rows, lets edit change the cluster's, and writes that.
func (x *run) change(ctx context.Context, edit func(*View) error) error {
	return x.f.o.DB.Run(ctx, txn.TxnOptions{Name: "finalize"}, func(ctx context.Context, tx *txn.Txn) error {
		v, err := readView(ctx, tx)
		if err != nil {
			return err
		}
		if v.Raising != x.to {
			return errStale
		}
		if err := edit(&v); err != nil {
			return err
		}
		return writeCluster(ctx, tx, v.Cluster)
	})
}

// say puts into the job's row what it is about.
func (x *run) say(ctx context.Context, fraction float64, doing string) error {
	if doing == x.said {
		return nil
	}
	x.said = doing
	x.f.o.Host.Log.Info("upgrade", "to", x.to, "doing", doing)
	return x.r.Checkpoint(ctx, fraction, Progress{doing})
}

// wait returns when no node is missing any more.
func (x *run) wait(ctx context.Context, fraction float64, what string, v version.Version, missing func(*View) []kv.NodeID) error {
	for n := 0; ; n++ {
		view, err := x.f.Look(ctx)
		if err != nil {
			return err
		}
		if view.Raising != x.to {
			return errStale
		}
		nodes := missing(&view)
		if len(nodes) == 0 {
			return nil
		}
		if n%25 == 0 { // the checkpoint also hears of a cancellation
			x.said = ""
		}
		if n%5 == 0 {
			if err := x.say(ctx, fraction, fmt.Sprintf("waiting for %s %s %s", has(nodes, "to", "to"), what, v)); err != nil {
				return err
			}
			for _, id := range nodes {
				x.f.o.Kick(id)
			}
		}
		if err := x.f.o.Host.Clock.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

// migrate runs a migration's job until it has succeeded, once (upgrade.UP4).
func (x *run) migrate(ctx context.Context, m *Migration) error {
	key := keys.MigrationKey(m.Version.String(), m.Name)
	var row done
	err := x.f.o.DB.Run(ctx, txn.TxnOptions{Name: "migration"}, func(ctx context.Context, tx *txn.Txn) error {
		row = done{}
		v, err := tx.Get(ctx, key, kv.NoLock, kv.Block)
		if err != nil {
			return err
		}
		if v != nil {
			if row, err = wire.Decoded(v, (*done).fields); err != nil || row.Done {
				return err
			}
			status, err := x.f.o.Jobs.Status(ctx, tx, job.ID(row.Job))
			if err != nil || status == job.Succeeded || status != "" && !status.Finished() {
				return err
			}
		}
		id, err := x.f.o.Jobs.Create(ctx, tx, job.Spec{Type: m.jobType(), Description: m.About})
		if err != nil {
			return err
		}
		row.Job = int64(id)
		var b txn.WriteBatch
		b.Put(key, wire.Append(nil, &row, (*done).fields))
		return tx.Write(ctx, &b)
	})
	if err != nil || row.Done {
		return err
	}
	if err := x.f.o.Jobs.Run(ctx, job.ID(row.Job)); err != nil {
		return err
	}
	row.Done = true
	return x.f.o.DB.Put(ctx, key, wire.Append(nil, &row, (*done).fields))
}

// Automatic finalises by itself once all nodes have the binary, for as long as on says so. One node of the cluster begins: the first that is live.
func (f *Finalizer) Automatic(node func() kv.NodeID, on func() bool) {
	f.o.Host.Group.Go(func(ctx context.Context) {
		for f.o.Host.Clock.Sleep(ctx, AutomaticEvery) == nil {
			if !on() || !f.o.Handle.Acting().Less(f.o.Handle.Binary().Own) {
				continue
			}
			v, err := f.Look(ctx)
			if err != nil {
				continue
			}
			first := slices.IndexFunc(v.Members, func(m Member) bool { return f.o.Live(m.Node) })
			if first < 0 || v.Members[first].Node != node() {
				continue
			}
			var not *NotReadyError
			id, to, err := f.Begin(ctx)
			switch {
			case errors.As(err, &not), err == nil && id == 0:
			case err != nil:
				f.o.Host.Log.Warn("the upgrade was not finalized; trying again", "error", err)
			default:
				f.o.Host.Log.Info("the upgrade is finalized, as all nodes have the binary", "to", to)
				if err := f.Run(ctx, id); err != nil {
					f.o.Host.Log.Warn("the upgrade was not finalized; trying again", "error", err)
				}
			}
		}
	})
}

// AutomaticEvery is how often a node looks whether an upgrade may be finalised.
const AutomaticEvery = 5 * time.Second
