package schemachange

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"meridian/commit/protocol"
	"meridian/keys"
	"meridian/sql/bind"
	"meridian/sql/catalog"
	"meridian/sql/catalog/lease"
	"meridian/sql/catalog/region"
	"meridian/sql/job"
	"meridian/sql/sqlstate"
)

// The commit protocol of a table is a part of the configuration of its ranges (sql/catalog/region), which stores follow. A new table has no row before its ranges have the
// protocol (docs/decisions/0012-regions.md, rule 3). ALTER TABLE ... SET (commit_protocol) publishes the descriptor first: from then on the stores change range by range,
// while transactions use the table, and a job waits for them.
//
//	schemachange.SC11: A change that reads all rows of a table, or adds entries for rows that are there, relies on leaseholders: it sees each row whose writer does not know of the
//	    change, and orders itself with the others. Ranges of another protocol answer from the nearest replica, which may lack the newest rows. So such changes are refused
//	    as long as a range of the table may have another protocol: Table.Traits counts the ranges that the last change of the protocol has not reached.

//	schemachange.SC12: A foreign key of a table without leaseholders refers to one whose ranges all have the same protocol (fastpaxos.FP83). The table that is referred to
//	    is the first to get it, and the last to leave it. A table that refers to itself does not change its protocol: its ranges would do so one after the other.

// jobProtocol waits until the ranges of a table have its commit protocol.
const jobProtocol = "commit protocol"

type protocolPayload struct{ Table catalog.ID }

// excluded says that a table's commit protocol excludes something.
func excluded(t *catalog.Table, what string) *sqlstate.Error {
	p := t.Protocol
	if p.Default() {
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for table \"%s\" while its commit protocol is being changed", what, t.Name)
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "%s is not supported for table \"%s\", whose commit protocol is %s", what, t.Name, p)
}

// asLeader is the end of a hint: how something is possible that the protocol excludes.
func asLeader(t *catalog.Table) string {
	return fmt.Sprintf("ALTER TABLE %s SET (%s = '%s') first, and set it back afterwards.", quoteIdent(t.Name), catalog.ProtocolOption, protocol.Default)
}

// oneOf lists numbers.
func oneOf(ns []int) string {
	out := ""
	for i, n := range ns {
		switch {
		case i > 0 && i == len(ns)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += strconv.Itoa(n)
	}
	return out
}

// fitsProtocol refuses a table, as it will be, of which its commit protocol excludes something.
func (c *change) fitsProtocol(t *catalog.Table, db *catalog.Database) error {
	for i := range t.Foreign {
		if err := c.mayLink(t, &t.Foreign[i]); err != nil {
			return err
		}
	}
	if t.Protocol.Default() {
		return nil
	}
	traits := t.Protocol.Traits()
	if !c.o.Leases.Active(traits.Since) {
		return sqlstate.New(sqlstate.FeatureNotSupported, "there is no commit protocol %s before the upgrade of the cluster is finalized", t.Protocol).
			WithHint("Finalize it by meridian upgrade finalize, when all nodes have the later binary.")
	}
	if db.External() && !traits.Leased {
		return c.notExternal(t, db)
	}
	without := "Leave out " + catalog.ProtocolOption + ", or "
	for i := range t.Indexes {
		switch x := &t.Indexes[i]; {
		case x.Deferrable && !traits.Deferrable.Can():
			return excluded(t, "a deferrable key").WithHint("%smake the key NOT DEFERRABLE.", without)
		case x.Unique && x.Implicit > 0 && !t.SkipsUniqueChecks() && !traits.UniqueEverywhere.Can():
			return excluded(t, "a key that is unique in all regions").
				WithDetail("%s", traits.UniqueEverywhere).
				WithHint("%sput the region column into the keys of the table (REGIONAL BY ROW AS).", without)
		}
	}
	// The configurations as the default protocol would have them: what others can't have is left out of theirs.
	plain := *t
	plain.Protocol = catalog.CommitProtocol(protocol.Default)
	for _, s := range region.TableSpans(db, &plain, c.view.Zones(), c.cluster()) {
		z := s.Zone
		switch n := z.Voters(); {
		case z.GlobalReads && !traits.Ahead.Can():
			return excluded(t, "LOCALITY GLOBAL").
				WithDetail("%s", traits.Ahead).
				WithHint("%schoose another locality, and no global_reads in the zone configuration.", without)
		case z.Witnesses() > 0 && !traits.Witnesses.Can():
			return excluded(t, "a witness region").
				WithDetail("%s", traits.Witnesses).
				WithHint("%sALTER DATABASE %s DROP WITNESS REGION.", without, quoteIdent(db.Name))
		case traits.Voters != nil && !slices.Contains(traits.Voters, n):
			return sqlstate.New(sqlstate.InvalidParameterValue, "table \"%s\" can't have the commit protocol %s with %d voters", t.Name, t.Protocol, n).
				WithDetail("%s", traits.Quorums).
				WithHint("Set num_voters of the zone configuration to %s.", oneOf(traits.Voters))
		}
	}
	return nil
}

// databaseFits is fitsProtocol for all tables of a database whose configuration has been changed.
func (c *change) databaseFits(id catalog.ID) error {
	d := c.Catalog.Descriptor(id)
	if d == nil || d.Database == nil {
		return nil
	}
	return c.Catalog.EachRelation(id, func(t *catalog.Table) error {
		if now := c.current(t.ID); now != nil && now.Kind == catalog.KindTable && !now.Protocol.Default() {
			return c.fitsProtocol(now, d.Database)
		}
		return nil
	})
}

// databasesFit is databaseFits for all databases.
func (c *change) databasesFit() error {
	dbs, err := c.view.Databases(c.ctx)
	for _, d := range dbs {
		if err == nil {
			err = c.databaseFits(d.ID)
		}
	}
	return err
}

// mayLink refuses a foreign key from a table without leaseholders to one that may have some (schemachange.SC12).
func (c *change) mayLink(t *catalog.Table, k *catalog.ForeignKey) error {
	if t.Protocol.Traits().References.Can() || k.RefTable == t.ID {
		return nil
	}
	ref := c.current(k.RefTable)
	switch {
	case ref == nil:
		return nil
	case ref.Reprotocol || ref.Protocol != t.Protocol:
		return excluded(t, fmt.Sprintf("a foreign key to \"%s\"", ref.Name)).
			WithDetail("A row of \"%s\" could be removed while another transaction refers to it.", ref.Name).
			WithHint("Give \"%s\" the commit protocol %s first: ALTER TABLE %s SET (%s = '%s').", ref.Name, t.Protocol, quoteIdent(ref.Name), catalog.ProtocolOption, t.Protocol)
	}
	return nil
}

// mayLeave refuses to change the protocol of a table as long as a foreign key needs it (schemachange.SC12).
func (c *change) mayLeave(t *catalog.Table, to catalog.CommitProtocol) error {
	changing := &catalog.Table{Name: t.Name, Protocol: t.Protocol}
	if !to.Default() {
		changing.Protocol = to
	}
	for i := range t.Foreign {
		if k := &t.Foreign[i]; k.RefTable == t.ID {
			return excluded(changing, fmt.Sprintf("a change of it with foreign key \"%s\" of the table to itself", k.Name)).WithHint("Drop the foreign key, and add it again under the commit protocol %s. Or make another table, and copy the rows.", protocol.Default)
		}
	}
	for _, in := range c.incoming(t) {
		if in.table.ID != t.ID && !in.table.Traits().References.Can() {
			return excluded(in.table, fmt.Sprintf("foreign key \"%s\" to a table of another commit protocol", in.key.Name)).
				WithHint("Change the protocol of \"%s\" first.", in.table.Name)
		}
	}
	return nil
}

// underProtocol refuses actions on a table without leaseholders that read all of its rows (schemachange.SC11), before anything is locked.
func (c *change) underProtocol(s *bind.AlterTable) error {
	t := c.current(s.Table.ID)
	if t == nil || t.Kind != catalog.KindTable {
		return nil
	}
	sets, others := false, 0
	then := catalog.Table{Name: t.Name, Protocol: t.Protocol, Ballots: t.Ballots, Gamma: t.Gamma}
	policy := false
	for _, action := range s.Actions {
		switch a := action.(type) {
		case *bind.SetBallots:
			policy, then.Ballots = true, a.Ballots
			continue
		case *bind.SetGamma:
			policy, then.Gamma = true, a.Gamma
			continue
		case *bind.SetProtocol:
			sets, then.Protocol = true, a.Protocol
		}
		others++
	}
	if policy {
		if err := fitsBallots(&then); err != nil {
			return err
		}
	}
	if sets && others > 1 {
		return sqlstate.New(sqlstate.FeatureNotSupported, "%s can't be changed together with other actions", catalog.ProtocolOption).
			WithHint("Use a statement of its own for each.")
	}
	if t.Traits().StableView.Can() || c.isNew(t) {
		return nil
	}
	refuse := func(what string) error { return excluded(t, what).WithHint("%s", asLeader(t)) }
	if c.dropsKey(t, s.Actions) {
		return refuse("a change of the primary key")
	}
	for _, action := range s.Actions {
		switch a := action.(type) {
		case *bind.AddConstraint:
			switch {
			case a.Constraint.Kind == bind.ForeignKey:
				return refuse("another foreign key, which reads the rows that are there,")
			case a.Constraint.Kind != bind.Check:
				return refuse("another unique key")
			case !a.Constraint.NotValid:
				return refuse("a check of the rows that are there")
			}
		case *bind.ValidateConstraint, *bind.SetNotNull:
			return refuse("a check of the rows that are there")
		case *bind.AlterPrimaryKey:
			return refuse("a change of the primary key")
		case *bind.AddColumn:
			if c.fills(&a.Column) != "" {
				return refuse("a column with another value in each row")
			}
		case *bind.AlterColumnType:
			if col := t.ColumnByName(a.Column); col == nil || !a.Plain || !compatible(col.Type, a.Type) || checked(t, col) {
				return refuse("a change of type that rewrites rows")
			}
		}
	}
	return nil
}

// fitsBallots refuses a policy of ballots of a table, as it will be, that would mean nothing.
func fitsBallots(t *catalog.Table) error {
	ballots, _ := t.BallotPolicy()
	switch {
	case t.Ballots == catalog.UnsaidBallots && t.Gamma == 0:
	case !t.Protocol.Traits().Ballots:
		option := catalog.BallotsOption
		if t.Ballots == catalog.UnsaidBallots {
			option = catalog.GammaOption
		}
		return sqlstate.New(sqlstate.InvalidObjectDefinition, "%s means nothing to table \"%s\", whose commit protocol is %s", option, t.Name, t.Protocol).
			WithHint("Set %s = '%s' in the same statement, or leave out %s.", catalog.ProtocolOption, protocol.WithBallots, option)
	case t.Gamma != 0 && !ballots.Counts():
		return sqlstate.New(sqlstate.InvalidParameterValue, "%s means nothing to table \"%s\", whose %s are '%s'", catalog.GammaOption, t.Name, catalog.BallotsOption, ballots).
			WithHint("Set %s = '%s' or '%s', or leave out %s; RESET (%[4]s) removes it from a table.", catalog.BallotsOption, catalog.GammaBallots, catalog.LearnedBallots, catalog.GammaOption)
	}
	return nil
}

// mayReadAll refuses what the actions of a statement have made of a table without leaseholders, if that reads rows (schemachange.SC11) or is excluded.
func (c *change) mayReadAll(t *catalog.Table) error {
	if t.Traits().StableView.Can() || t.Kind != catalog.KindTable {
		return nil
	}
	d := c.Catalog.Descriptor(t.Database)
	if d == nil || d.Database == nil {
		return nil
	}
	reads := t.Rewrite != nil || t.Relocation != nil || slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool {
		return m.Job == 0 && !m.Drop && m.Kind != catalog.MutateColumn
	})
	if reads && !c.isNew(t) {
		return excluded(t, "a change that reads all rows").WithHint("%s", asLeader(t))
	}
	return c.fitsProtocol(t, d.Database)
}

// setProtocol is ALTER TABLE ... SET (commit_protocol = ...), and RESET.
func (c *change) setProtocol(t *catalog.Table, to catalog.CommitProtocol) error {
	if !to.Default() && (t.Kind != catalog.KindTable || t.Materialized || t.Temporary()) {
		return excluded(&catalog.Table{Name: t.Name, Protocol: to}, described(t)).WithHint("Only ordinary tables have another commit protocol than %s.", protocol.Default)
	}
	if t.Protocol == to && !t.Reprotocol {
		return nil
	}
	if !c.isNew(t) && !c.Alone {
		return sqlstate.New(sqlstate.ActiveTransaction, "ALTER TABLE ... SET (%s) cannot run inside a transaction block", catalog.ProtocolOption)
	}
	if slices.ContainsFunc(t.Mutations, func(m catalog.Mutation) bool { return m.Job != 0 }) || t.Relocation != nil {
		return c.Catalog.JobFirst(t.ID)
	}
	d := c.Catalog.Descriptor(t.Database)
	if d == nil || d.Database == nil {
		return sqlstate.New(sqlstate.InternalError, "schemachange: a table without a database: %s", t.Name)
	}
	if !c.isNew(t) {
		if err := c.mayLeave(t, to); err != nil {
			return err
		}
	}
	next := *t
	next.Protocol = to
	if err := c.fitsProtocol(&next, d.Database); err != nil {
		return err
	}
	if !to.Traits().Ballots && (t.Ballots != catalog.UnsaidBallots || t.Gamma != 0) {
		t.Ballots, t.Gamma = catalog.UnsaidBallots, 0
		c.noticef(sqlstate.SuccessfulCompletion, "%s and %s of table \"%s\" are reset, because they belong to the commit protocol %s", catalog.BallotsOption, catalog.GammaOption, t.Name, protocol.WithBallots)
	}
	if t.Protocol = to; c.isNew(t) {
		return c.reserve(t)
	}
	t.Reprotocol = true
	return c.awaitProtocol(t)
}

// awaitProtocol makes the statement wait, after its commit, until the ranges of a table have its protocol.
func (c *change) awaitProtocol(t *catalog.Table) error {
	if c.o.Jobs == nil {
		t.Reprotocol = false
		return nil
	}
	id, err := c.o.Jobs.Create(c.ctx, c.Txn, job.Spec{Type: jobProtocol, Description: fmt.Sprintf("gives the ranges of %s the commit protocol %s", t.Name, t.Protocol),
		Payload: protocolPayload{t.ID}})
	if err != nil {
		return err
	}
	c.Catalog.AfterCommit(func(ctx context.Context) error { return c.o.Jobs.Run(ctx, id) })
	return nil
}

// reprotocol is the job that waits for the ranges of a table.
func (e *Executor) reprotocol(ctx context.Context, r *job.Run) error {
	var p protocolPayload
	if err := r.Payload(&p); err != nil {
		return err
	}
	d := e.o.Leases.Snapshot().Descriptor(p.Table)
	if d == nil || d.Table == nil || d.Table.Dropped {
		return nil
	}
	t := d.Table
	if err := e.o.Leases.Everywhere(ctx, catalog.Dependency{ID: t.ID, Version: t.Version}); err != nil {
		return err
	}
	left, err := e.conform(ctx, []keys.Span{keys.TableSpan(t.ID)}, func(f float64) error { return r.Checkpoint(ctx, 0.9*f, nil) })
	if err != nil {
		return err
	}
	if left > 0 {
		return sqlstate.New(sqlstate.ObjectNotInPrerequisite, "%d ranges of table \"%s\" have not got the commit protocol %s yet", left, t.Name, t.Protocol).
			WithDetail("The change is in force, and the stores go on with it.").
			WithHint("Run the statement again to wait for it. See meridian_internal.constraint_violations for what is missing.")
	}
	return e.edit(ctx, t.ID, func(_ *lease.Txn, now *catalog.Table) error {
		if now.Protocol == t.Protocol {
			now.Reprotocol = false
		}
		return nil
	})
}
