package schemachange

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"meridian/replica/closedts"
	"meridian/setting"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/fault"
)

// Statistics are collected without ANALYZE when so many rows of a table have changed that plans may be bad: 20 % of its rows and 500 more, by
// default. Every gateway counts the rows that its statements write. Now and then it adds its count to the table's row in the catalogue,
// and the node whose count takes the sum over the threshold collects:
//
//	statement ends --> RowsChanged --> changes (memory) --> AddChanges (catalogue) --> due --> Collector --> Collect --> PutStatistics
//
// An idle cluster sends nothing, and one that writes sends a small transaction for a table at most once in autoInterval from each gateway.
//
//	schemachange.SC10: One node of the cluster collects at a time, one table after the other. It reads the past, so it meets no lock and moves no
//	    timestamp of a writer, and any replica near it may answer; and it rests between two requests for longer than they took.
const (
	// autoInterval is the mean time between two looks at the counts.
	autoInterval = 30 * time.Second
	// reportShare is the part of its threshold from which a table's count is reported, and reportAfter the time after which a smaller one
	// is.
	reportShare = 16
	reportAfter = 10 * time.Minute
	// reportTables bounds the tables that are reported at once, those with the most changes first, and countedTables those that are counted.
	reportTables  = 64
	countedTables = 10_000
	// unknownAfter is the time after which a table without statistics that nobody writes is collected: its rows may have been written
	// before the nodes were started.
	unknownAfter = 10 * time.Minute
	// collectorFor is how long a node that dies keeps others from collecting.
	collectorFor = 2 * time.Minute
	// paceRest and paceMost say how long collecting rests after a request: so many times as long as that took, but not longer than the second.
	paceRest = 3
	paceMost = 2 * time.Second
)

// changes counts changed rows by table, in memory: what a node that stops has not reported is lost, and its tables are collected
// a little later.
type changes struct {
	mu     sync.Mutex // guards the fields below; nothing is taken after it
	tables map[catalog.ID]*changedTable
}

type changedTable struct {
	rows  int64
	since time.Duration // monotonic time of the first change that was not reported
}

// RowsChanged counts rows that a statement wrote. It implements exec.Changes.
func (e *Executor) RowsChanged(table catalog.ID, rows int64) {
	now := e.o.Host.Clock.Monotonic()
	e.changes.mu.Lock()
	defer e.changes.mu.Unlock()
	c := e.changes.tables[table]
	if c == nil {
		if len(e.changes.tables) >= countedTables {
			return
		}
		if e.changes.tables == nil {
			e.changes.tables = map[catalog.ID]*changedTable{}
		}
		c = &changedTable{since: now}
		e.changes.tables[table] = c
	}
	c.rows += rows
}

// take removes the counts of tables that are to be reported now, and those of tables that it knows nothing of.
func (e *Executor) take(now time.Duration) map[catalog.ID]int64 {
	snapshot := e.o.Leases.Snapshot()
	e.changes.mu.Lock()
	defer e.changes.mu.Unlock()
	var ids []catalog.ID
	for id, c := range e.changes.tables {
		t := tableOf(snapshot, id)
		if !collectable(t) {
			delete(e.changes.tables, id) // a temporary table, or one that was dropped
			continue
		}
		if st := e.o.Leases.Statistics(id); st == nil || c.rows*reportShare >= e.threshold(st) || now-c.since > reportAfter {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b catalog.ID) int {
		return cmp.Or(cmp.Compare(e.changes.tables[b].rows, e.changes.tables[a].rows), cmp.Compare(a, b))
	})
	out := map[catalog.ID]int64{}
	for _, id := range ids[:min(len(ids), reportTables)] {
		out[id] = e.changes.tables[id].rows
		delete(e.changes.tables, id)
	}
	return out
}

// counted adds this node's count of a table to that of the catalogue, and returns the sum: the changes that statistics collected from now on have
// seen. The counts of other gateways are reported later, and count as changes since.
func (e *Executor) counted(ctx context.Context, id catalog.ID) (int64, error) {
	var rows int64
	e.changes.mu.Lock()
	if c := e.changes.tables[id]; c != nil {
		rows = c.rows
		delete(e.changes.tables, id)
	}
	e.changes.mu.Unlock()
	total, err := e.o.Leases.AddChanges(ctx, id, rows)
	if err != nil && rows > 0 {
		e.RowsChanged(id, rows)
	}
	return total, err
}

// tableOf is a table of a snapshot; nil if there is none.
func tableOf(s *lease.Snapshot, id catalog.ID) *catalog.Table {
	if d := s.Descriptor(id); d != nil {
		return d.Table
	}
	return nil
}

func collectable(t *catalog.Table) bool {
	return t != nil && t.Kind == catalog.KindTable && !t.Dropped && !t.Temporary()
}

// threshold is the number of changed rows with which a table's statistics are collected again.
func (e *Executor) threshold(st *catalog.Statistics) int64 {
	if st == nil || st.Rows == 0 {
		return 1
	}
	s := e.o.Settings
	return max(s.Int(setting.StatisticsMinRows)+int64(s.Fraction(setting.StatisticsFraction)*float64(st.Rows)), 1)
}

// Collected counts the tables whose statistics this node collected without having been asked.
func (e *Executor) Collected() int64 { return e.collected.Load() }

// StartStatistics collects statistics in the background until the host's group stops.
func (e *Executor) StartStatistics() {
	e.o.Host.Group.Go(func(ctx context.Context) {
		a := autostats{Executor: e, due: map[catalog.ID]int64{}, unknown: map[catalog.ID]time.Duration{}}
		for {
			// Nodes begin at different moments, so that two rarely want to do the same work.
			d := autoInterval/2 + time.Duration(e.o.Host.Dice.Int64N(int64(autoInterval)))
			if e.o.Host.Clock.Sleep(ctx, d) != nil {
				return
			}
			if !e.o.Settings.Known() || !e.o.Settings.Bool(setting.StatisticsAutomatic) {
				continue
			}
			a.report(ctx)
			a.collectDue(ctx)
		}
	})
}

// autostats is the state of a node's background collection.
type autostats struct {
	*Executor
	// due are the tables to be collected, with the time of the statistics that they have.
	due map[catalog.ID]int64
	// unknown are the tables without statistics, and when each is due.
	unknown map[catalog.ID]time.Duration
}

// at is the time of a table's statistics, zero without.
func (a *autostats) at(id catalog.ID) int64 {
	if st := a.o.Leases.Statistics(id); st != nil {
		return st.At
	}
	return 0
}

// report adds the counts to those of the catalogue, and notes the tables that are due.
func (a *autostats) report(ctx context.Context) {
	now := a.o.Host.Clock.Monotonic()
	counts := a.take(now)
	for _, id := range sortedIDs(counts) {
		total, err := a.o.Leases.AddChanges(ctx, id, counts[id])
		if err != nil {
			a.RowsChanged(id, counts[id])
			if ctx.Err() != nil {
				return
			}
			continue
		}
		if total >= a.threshold(a.o.Leases.Statistics(id)) {
			a.due[id] = a.at(id)
		}
	}
	seen := map[catalog.ID]bool{}
	a.o.Leases.Snapshot().EachTable(func(t *catalog.Table) {
		if !collectable(t) || a.o.Leases.Statistics(t.ID) != nil {
			return
		}
		seen[t.ID] = true
		when, ok := a.unknown[t.ID]
		if !ok {
			when = now + unknownAfter + time.Duration(a.o.Host.Dice.Int64N(int64(unknownAfter)))
			a.unknown[t.ID] = when
		}
		if now >= when {
			a.due[t.ID] = 0
		}
	})
	for id := range a.unknown {
		if !seen[id] {
			delete(a.unknown, id)
		}
	}
}

func sortedIDs[T any](m map[catalog.ID]T) []catalog.ID {
	ids := make([]catalog.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

var errOff = errors.New("the automatic collection of statistics was turned off")

// collectDue collects the tables that are due, if no other node collects. Those that it can't collect now stay due.
func (a *autostats) collectDue(ctx context.Context) {
	for _, id := range sortedIDs(a.due) {
		t := tableOf(a.o.Leases.Snapshot(), id)
		if !collectable(t) || a.at(id) != a.due[id] {
			delete(a.due, id)
			continue
		}
		ours, err := a.o.Leases.Collector(ctx, collectorFor)
		if err != nil || !ours {
			return
		}
		err = fault.Run(a.o.Host.Log, &a.faults, func() error { return a.collect(ctx, t) })
		if err == nil {
			delete(a.due, id)
			a.collected.Add(1)
		} else if ctx.Err() == nil {
			a.o.Host.Log.Debug("statistics were not collected", "table", t.Name, "err", err)
		}
		if _, err := a.o.Leases.Collector(ctx, 0); err != nil || ctx.Err() != nil {
			return
		}
	}
}

// collect collects the statistics of a table in the past (schemachange.SC10): of this moment, once that is closed on all replicas. The table's
// descriptor is of this moment too.
func (a *autostats) collect(ctx context.Context, t *catalog.Table) error {
	counted, err := a.counted(ctx, t.ID)
	if err != nil {
		return err
	}
	now := a.o.Clock.Now()
	if err := a.o.Host.Clock.Sleep(ctx, closedts.ReadLag); err != nil {
		return err
	}
	tx := a.o.DB.Begin(collecting(t, "automatic statistics", now))
	defer tx.Rollback(ctx)
	renewed := a.o.Host.Clock.Monotonic()
	st, err := a.Collect(ctx, t, tx, Collection{CountsOnly: a.countsOnly(t), Pace: func(ctx context.Context, took time.Duration) error {
		if !a.o.Settings.Bool(setting.StatisticsAutomatic) {
			return errOff
		}
		if now := a.o.Host.Clock.Monotonic(); now-renewed > collectorFor/4 {
			if ours, err := a.o.Leases.Collector(ctx, collectorFor); err != nil || !ours {
				return cmp.Or(err, errors.New("another node collects statistics"))
			}
			renewed = now
		}
		if a.o.Yield != nil {
			if err := a.o.Yield(ctx); err != nil {
				return err
			}
		}
		return a.o.Host.Clock.Sleep(ctx, min(took*paceRest, paceMost))
	}})
	if err != nil {
		return err
	}
	return a.store(ctx, t, st, counted)
}
