package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"meridian/keys"
	"meridian/replica/closedts"
	"meridian/sql/catalog"
	"meridian/sql/catalog/region"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/sqlstate"
	"meridian/txn"
)

// Statements that stay in one region (enforce_home_region). The reference decides when it plans, so it refuses lookups that would have found all of
// their rows nearby. Here the statement runs, and each of its requests is looked at before it is sent:
//
//	session.S11: with enforce_home_region no request of a statement that the client sent, for rows, for checks of constraints or to change rows, goes
//	    to keys whose home is another region than the gateway's, and none waits for a quorum over regions. A search that begins at home
//	    is refused when it would go on elsewhere, not before.
//
// Homes are those of the schema. Tables of databases without regions have none: they count as where their leaseholders are now. Statements that change
// the schema concern all regions, and are not refused.

// home is the exec.Home of a session's statement.
type home struct {
	s     *Session
	past  bool // it reads at a time that followers have closed
	stays map[catalog.ID]*region.Stay
}

// homeOf is the statement's exec.Home; nil if the session does not ask for one. The statement's transaction has begun.
func (s *Session) homeOf() exec.Home {
	if !s.staysHome() {
		return nil
	}
	past := s.tx.Historical() && (s.tx.Negotiated() ||
		s.srv.Clock.Wall().UnixNano()-s.tx.ReadTimestamp().Wall >= int64(closedts.DefaultLag+closedts.DefaultInterval))
	return &home{s: s, past: past, stays: make(map[catalog.ID]*region.Stay)}
}

const enforceHome = "enforce_home_region"

// Reads implements exec.Home.
func (h *home) Reads(ctx context.Context, spans []keys.Span, lock bool) error {
	use := region.Read
	switch {
	case lock:
		use = region.Lock
	case h.past:
		use = region.ReadPast
	}
	a := asked{h: h, use: use}
	for _, span := range spans {
		if err := a.add(ctx, span); err != nil {
			return err
		}
	}
	return a.verdict()
}

// Writes implements exec.Home.
func (h *home) Writes(ctx context.Context, b *txn.WriteBatch) error {
	a := asked{h: h, use: region.Write}
	for w := range b.Writes() {
		if err := a.add(ctx, keys.Span{Start: w.Key, End: w.End}); err != nil {
			return err
		}
	}
	return a.verdict()
}

// changes is asked about a change of a span outside of the transaction, as of a sequence's counter.
func (h *home) changes(ctx context.Context, span keys.Span) error {
	a := asked{h: h, use: region.Write}
	if err := a.add(ctx, span); err != nil {
		return err
	}
	return a.verdict()
}

// Searches implements exec.Home.
func (h *home) Searches(ctx context.Context, id catalog.ID, further []string) error {
	stay, t, err := h.stay(ctx, id)
	if err != nil || stay == nil {
		return err
	}
	use := region.Read
	if h.past {
		use = region.ReadPast
	}
	if !stay.Elsewhere(use) {
		return nil
	}
	if further == nil {
		for _, v := range t.Regions() {
			if v.Label != h.s.srv.Region {
				further = append(further, v.Label)
			}
		}
	}
	further = slices.Sorted(slices.Values(further))
	e := errNoHome("The rows of table \"%s\" that it asks for are not all homed in the gateway's region %s. The others are in %s, if they exist.", t.Name, h.here(), strings.Join(further, " or "))
	if len(further) == 1 {
		e.WithHint("Try running the query from region \"%s\".", further[0])
	}
	return e
}

// Compares implements exec.Home.
func (h *home) Compares(t *catalog.Table, x *catalog.Index) error {
	e := errNoHome("A key of \"%s\" is unique over all regions, so rows of table \"%s\" in other regions have to be compared.", x.Name, t.Name)
	return e.WithHint("Let gen_random_uuid() make the key, add the region column to it, compute the region from it, or set the table's parameter %s.", catalog.SkipUniqueChecks)
}

func (h *home) here() string {
	if h.s.srv.Region == "" {
		return "(it has none)"
	}
	return `"` + h.s.srv.Region + `"`
}

// stay is nil for a table whose database has no regions.
func (h *home) stay(ctx context.Context, id catalog.ID) (*region.Stay, *catalog.Table, error) {
	view := h.s.view()
	t, err := view.TableByID(ctx, id)
	if err != nil || t == nil {
		return nil, nil, err
	}
	if s, ok := h.stays[id]; ok {
		return s, t, nil
	}
	var out *region.Stay
	if db := h.s.srv.Catalog.Snapshot().DatabaseByID(t.Database); db != nil && db.MultiRegion() {
		out = region.NewStay(db, t, h.s.srv.Region)
	}
	h.stays[id] = out
	return out, t, nil
}

// asked gathers what a request needs.
type asked struct {
	h   *home
	use region.Use
	// away are the homes outside of the gateway's region, of rows of the table of; wide is a table whose quorums have several regions.
	away     []string
	of, wide string
	// leaderless: the table wide has no leaseholders.
	leaderless bool
}

func (a *asked) add(ctx context.Context, span keys.Span) error {
	id, _, err := keys.DecodeTableKey(span.Start)
	if err != nil || catalog.IsLocal(catalog.ID(id)) {
		return nil
	}
	stay, t, err := a.h.stay(ctx, catalog.ID(id))
	if err != nil || t == nil {
		return err
	}
	var away []string
	var wide bool
	if stay != nil && t.Protocol.Traits().Leased {
		away, wide = stay.Away(span, a.use)
	} else if away, wide, err = a.measured(ctx, t); err != nil {
		return err
	}
	if wide {
		a.wide, a.leaderless = t.Name, !t.Protocol.Traits().Leased
	}
	for _, r := range away {
		if !slices.Contains(a.away, r) {
			a.away, a.of = append(a.away, r), t.Name
		}
	}
	return nil
}

// measured is for a table without a home: the regions of its leaseholders, as far as they are not near. Of a table without leaseholders it is those of the replicas that are
// nearest.
func (a *asked) measured(ctx context.Context, t *catalog.Table) (away []string, wide bool, err error) {
	far := a.h.s.srv.Ranges.Distances()
	if far.Distance == nil {
		return nil, false, nil
	}
	at := opt.Place{Table: t.ID}
	if err := a.h.s.srv.Ranges.Locate(ctx, at, false); err != nil {
		return nil, false, err
	}
	d := far.Distance(at)
	if a.use == region.ReadPast && d.Nearest <= opt.WideArea {
		return nil, false, nil
	}
	return d.Regions, a.use == region.Write && (d.WideQuorum || d.Commit > opt.WideArea), nil
}

// verdict is the error of a request that would leave the region.
func (a *asked) verdict() error {
	switch {
	case len(a.away) > 1:
		return errNoHome("Rows of table \"%s\" that it needs are homed in %s, and the gateway is in region %s.", a.of, strings.Join(a.away, ", "), a.h.here())
	case len(a.away) == 1:
		e := sqlstate.New(sqlstate.NotInHomeRegion, "Query is not running in its home region")
		e.Detail = "Rows of table \"" + a.of + "\" that it needs are homed in region \"" + a.away[0] + "\", and the gateway is in region " + a.h.here() + "."
		return e.WithHint("Try running the query from region \"%s\".", a.away[0])
	case a.wide != "" && a.leaderless:
		e := errNoHome("Table \"%s\" has no leaseholders, and a quorum of its replicas in several regions commits each write.", a.wide)
		return e.WithHint("Read only; or ALTER TABLE ... SET (%s = 'leader').", catalog.ProtocolOption)
	case a.wide != "":
		e := errNoHome("Table \"%s\" survives the failure of a region, so that replicas in other regions agree to each write.", a.wide)
		return e.WithHint("Read only; or ALTER DATABASE ... SURVIVE ZONE FAILURE.")
	}
	return nil
}

func errNoHome(detail string, args ...any) *sqlstate.Error {
	e := sqlstate.New(sqlstate.NoHomeRegion, "Query has no home region")
	return e.WithDetail(detail, args...).WithHint("Compare the region column, or the whole key of a unique index, with values of rows that are near; or add LIMIT.")
}

// ValidateRegions implements system.Environment.
func (e *environment) ValidateRegions(ctx context.Context) error {
	view := e.s.view()
	db, err := view.Database(ctx, e.s.client.Database)
	if err != nil || db == nil {
		return err
	}
	tables, err := view.Tables(ctx, db.Name)
	if err != nil {
		return err
	}
	all := region.Differences(db, tables)
	if len(all) == 0 {
		return nil
	}
	d := all[0]
	object := "database \"" + db.Name + "\""
	if d.Table != nil {
		object = "table \"" + d.Table.Name + "\""
	}
	if d.Index != nil {
		object = "index \"" + d.Index.Name + "\" of " + object
	}
	if d.Partition != "" {
		object = "partition \"" + d.Partition + "\" of " + object
	}
	if d.Variable == "" {
		return sqlstate.New(sqlstate.InvalidObjectDefinition, "the zone configuration of %s is of no region", object).WithHint("Discard it: CONFIGURE ZONE DISCARD.")
	}
	x := sqlstate.New(sqlstate.InvalidObjectDefinition, "variable \"%s\" in the zone configuration of %s is not what the regions of the database decide", d.Variable, object)
	if len(all) > 1 {
		x.Detail = fmt.Sprintf("There are %d differences in all.", len(all))
	}
	return x.WithHint("CONFIGURE ZONE DISCARD removes it, and ALTER DATABASE ... ALTER LOCALITY ... CONFIGURE ZONE extends what regions say.")
}
