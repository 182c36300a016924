package opt

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"meridian/encoding"
	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/rowcode"
	"meridian/sql/scalar"
	"meridian/sql/types"
)

// Region says how far rows are from the gateway, as plain numbers: the optimizer asks no network (opt.O3). The zero value knows no distances.
type Region struct {
	// Distance is that of the rows of an index, or a part of them; nil: all are near. It is called often and must not wait.
	Distance func(Place) Distance
	// Masters is the commit of rows in classic ballots; nil: as if it took no time. Only predictions use it.
	Masters func(Place) Masters
	// Gateway is the region of the gateway, if it has one, and Checks tells what a mutation looks for before it writes; nil: nothing. Only predictions
	// use them.
	Gateway string
	Checks  func(Node) Checks
	// Snapshot says that the plan reads at one timestamp, so that ranges without leaseholders are asked at a quorum, and Validates that what it has read there is read again before its
	// commit (docs/transactions.md). Only predictions use them.
	Snapshot, Validates bool
	// Present says that ranges without leaseholders are read at a majority. Only predictions use it.
	Present bool
	// Wrote says that the transaction has written, so that leaseholders alone serve its reads; Locks, that it locks the rows that constraints want. Only predictions
	// use them.
	Wrote, Locks bool
	// Ahead is how long, in microseconds, a GLOBAL table closes ahead of its leaseholder's clock in addition to the way to its farthest replica, and CommitWait how long an
	// externally consistent commit waits: that of a table with the property, or of any if External. Only predictions use them.
	Ahead, CommitWait float64
	External          bool
	// Params are the values of the plan's parameters, as far as they are known.
	Params []types.Datum
	// majority: ranges without leaseholders are asked at a majority (Place.Majority).
	majority bool
}

// Checks are what a mutation looks for in all regions.
type Checks struct {
	// Keys are the indexes whose keys must not be in other regions than the row's, and Homed the parents of foreign keys that are REGIONAL BY ROW.
	Keys  []*catalog.Index
	Homed []catalog.ID
	// Global are the parents that are GLOBAL.
	Global []catalog.ID
	// Children are the tables with rows that may refer to the keys that the mutation removes.
	Children []catalog.ID
}

// Place is rows of an index.
type Place struct {
	Table catalog.ID
	// Index is zero for all rows of the table, in any index.
	Index catalog.IndexID
	// Prefix is the beginning of the keys behind the index's own part, in key encoding; empty: all rows of the index.
	Prefix []byte
	// Snapshot says that rows of ranges without leaseholders are read at one timestamp, at a quorum; Majority, that they are read at a majority.
	Snapshot, Majority bool
}

// Distance is how far rows are from the gateway. Times are round trips in microseconds; zero is near, or not known.
type Distance struct {
	// Leaseholder is that to the farthest of the leaseholders, and Sum that to all of the ranges with a wide one, of which there are Ranges, one
	// after the other.
	Leaseholder, Sum float64
	Ranges           int
	// Nearest is that to the nearest replica, of the range where that is farthest. Reads of the past go there.
	Nearest float64
	// Farthest stands for that from the leaseholder to its farthest replica: it is the gateway's to the farthest one.
	Farthest float64
	// Quorum is how long the leaseholders wait for a quorum of replicas in other regions when they write, at least. WideQuorum says that
	// they do.
	Quorum     float64
	WideQuorum bool
	// Regions are those of leaseholders that are far.
	Regions []string
	// Commit is how long a commit in ranges without leaseholders takes, in so many rounds to quorums, whose far regions are CommitRegions. There Leaseholder is the
	// way to the nearest replica, which serves reads, or, of a Place with Snapshot or Majority, to the farthest replica of the quorum that does. Zero: all ranges have leaseholders, or the quorums are near.
	Commit        float64
	CommitRounds  int
	CommitRegions []string
}

// Masters is a commit in ranges without leaseholders about which masters, near the leaseholders all the same, decide.
type Masters struct {
	// Micros is how long it takes, in so many requests to other regions, one after the other.
	Micros float64
	Rounds int
	// Regions are the masters', as far as they are known, and Far those of them that are far.
	Regions, Far []string
}

// Quorums are the sizes of the quorums of ranges that commit without leaseholders. Reading is how many replicas a read at a timestamp asks.
type Quorums struct{ Replicas, Fast, Classic, Reading int }

// WideArea is the round trip, in microseconds, above which a request counts as one to another region. Nodes of one region are nearer than this, and
// most pairs of regions farther.
const WideArea = 5000.0

// costMicro is the cost of waiting a microsecond: a near request, which takes 20 of them, costs 80 (cost.go).
const costMicro = costRequest / 20

func wide(micros float64) bool { return micros > WideArea }

// trip is a number of requests to other regions, each of which is sent when the one before was answered, and how long they take: at most, as far as rows may
// be in the gateway's region, and at least.
type trip struct {
	rounds, micros           float64
	leastRounds, leastMicros float64
}

func sure(rounds, micros float64) trip { return trip{rounds, micros, rounds, micros} }

// perhaps is a trip that may not be necessary.
func (t trip) perhaps() trip { return trip{rounds: t.rounds, micros: t.micros} }

func (t trip) plus(x trip) trip {
	return trip{t.rounds + x.rounds, t.micros + x.micros, t.leastRounds + x.leastRounds, t.leastMicros + x.leastMicros}
}

func (t trip) times(n float64) trip {
	return trip{t.rounds * n, t.micros * n, t.leastRounds * n, t.leastMicros * n}
}

func (t trip) farther(x trip) trip {
	return trip{max(t.rounds, x.rounds), max(t.micros, x.micros), max(t.leastRounds, x.leastRounds), max(t.leastMicros, x.leastMicros)}
}

func (t trip) cost() float64          { return t.micros * costMicro }
func onceFar(micros float64) (t trip) { return timesFar(1, micros) }

func timesFar(n, micros float64) (t trip) {
	if wide(micros) {
		t = sure(n, n*micros)
	}
	return t
}

// distanceOf is the distance of the rows of a table's index that spans select; nil spans are all.
func (r *Region) distanceOf(t *catalog.Table, ix *catalog.Index, spans []IndexSpan) Distance {
	if r.Distance == nil || t.Kind != catalog.KindTable {
		return Distance{}
	}
	if ix.Primary && t.Interleave != nil {
		root, index := t.Root()
		return r.Distance(Place{Table: root, Index: index, Snapshot: r.Snapshot, Majority: r.majority})
	}
	var seen [][]byte
	var out Distance
	for i := range spans {
		prefix := r.spanPrefix(t, ix, &spans[i])
		if slices.ContainsFunc(seen, func(p []byte) bool { return string(p) == string(prefix) }) {
			continue
		}
		if len(seen) == maxPlaces {
			seen = nil
			break
		}
		seen = append(seen, prefix)
		out = out.with(r.Distance(Place{Table: t.ID, Index: ix.ID, Prefix: prefix, Snapshot: r.Snapshot, Majority: r.majority}))
	}
	if len(seen) == 0 {
		return r.Distance(Place{Table: t.ID, Index: ix.ID, Snapshot: r.Snapshot, Majority: r.majority})
	}
	return out
}

// maxPlaces bounds the parts of an index whose distances are looked up for one operator; if there are more, all of the index counts.
const maxPlaces = 16

// with is the distance of the rows of both.
func (d Distance) with(x Distance) Distance {
	d.Leaseholder, d.Nearest, d.Quorum = max(d.Leaseholder, x.Leaseholder), max(d.Nearest, x.Nearest), max(d.Quorum, x.Quorum)
	d.Sum, d.Ranges, d.WideQuorum = d.Sum+x.Sum, d.Ranges+x.Ranges, d.WideQuorum || x.WideQuorum
	d.Regions = union(d.Regions, x.Regions)
	d.Commit, d.CommitRounds, d.CommitRegions = max(d.Commit, x.Commit), max(d.CommitRounds, x.CommitRounds), union(d.CommitRegions, x.CommitRegions)
	return d
}

// union adds the names that are missing to a list, which may be shared.
func union(list, more []string) []string {
	for _, name := range more {
		if !slices.Contains(list, name) {
			list = append(slices.Clip(list), name)
		}
	}
	return list
}

// spanPrefix is the part of the keys of a span that is known when it is planned: constants for the first columns of the index.
func (r *Region) spanPrefix(t *catalog.Table, ix *catalog.Index, s *IndexSpan) (prefix []byte) {
	cols := indexColumns(t, ix)
	for i, e := range s.Equal {
		if i >= len(cols) || i < len(s.Modes) && s.Modes[i] != SpanValue {
			break
		}
		if p, ok := e.(*scalar.Placeholder); ok && p.Index < len(r.Params) {
			e = &scalar.Const{Value: r.Params[p.Index], T: p.T}
		}
		next, ok := appendConstant(prefix, e, t.Column(cols[i].Column).Type, cols[i].Desc)
		if !ok {
			break
		}
		prefix = next
	}
	return prefix
}

// spansOf is what spans of one index of a table say about the first columns of another one, whose rows are looked up for its entries.
func spansOf(t *catalog.Table, from, to *catalog.Index, spans []IndexSpan) (out []IndexSpan) {
	cols := indexColumns(t, from)
	for i := range spans {
		var s IndexSpan
		for _, k := range to.Columns {
			at := slices.IndexFunc(cols, func(c catalog.IndexColumn) bool { return c.Column == k.Column })
			if at < 0 || at >= len(spans[i].Equal) || at < len(spans[i].Modes) && spans[i].Modes[at] != SpanValue {
				break
			}
			s.Equal = append(s.Equal, spans[i].Equal[at])
		}
		if s.Equal == nil {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func appendConstant(prefix []byte, e scalar.Expr, t *types.T, desc bool) ([]byte, bool) {
	k, ok := e.(*scalar.Const)
	if !ok || k.Value.IsNull() || k.Value.Phys() != t.Phys() {
		return prefix, false
	}
	dir := encoding.Ascending
	if desc {
		dir = encoding.Descending
	}
	out, err := rowcode.AppendKeyDatum(slices.Clip(prefix), k.Value, dir)
	return out, err == nil
}

// Sizes of package exec's requests, which decide how many there are.
const (
	scanPageBytes   = 1 << 20
	scanApartBytes  = 4 << 20
	firstLookups    = 64
	growLookups     = 4
	eagerScanRows   = 10_000
	scanPageGrowth  = 4
	filteredScanRow = 16
)

// scanTrip is the requests of a scan that reads so many rows of a width, as package exec sends them: keys in batches; several spans with few
// rows at once; otherwise pages, one after the other, and within a page one range after the other, except those of regions (Apart).
func scanTrip(n *IndexScan, d Distance, reads, width float64) trip {
	micros := d.Leaseholder
	if !n.AsOf.IsZero() {
		micros = d.Nearest
	}
	switch {
	case n.Single:
		return timesFar(math.Ceil(max(float64(len(n.Spans)), 1)/lookupBatchRows), micros)
	case len(n.Spans) > 1 && n.Est.Rows < eagerScanRows && (n.Together || n.Limit == 0 && n.SoftLimit == 0):
		return onceFar(micros)
	}
	if n.Apart() && d.CommitRounds == 0 {
		return apartTrip(n, d, micros, reads*width)
	}
	pages := math.Ceil(reads * width / scanPageBytes)
	if n.SoftLimit > 0 && float64(n.SoftLimit) < reads { // the consumer takes a part; pages grow
		rows, size := float64(n.SoftLimit), max(float64(n.SoftLimit), filteredScanRow)
		for pages = 0; rows > 0; pages++ {
			rows -= size
			size *= scanPageGrowth
		}
	}
	t := timesFar(max(pages, 1), micros)
	if n.AsOf.IsZero() || d.CommitRounds > 0 { // a quorum serves one range after the other
		t = t.farther(sure(float64(d.Ranges), d.Sum))
	}
	return t
}

// apartTrip is the requests of a scan whose regions' first pages are read at the same time: one round, and those for what these pages have no room for.
func apartTrip(n *IndexScan, d Distance, micros, bytes float64) trip {
	t := onceFar(micros)
	if n.SpanLimit != nil {
		return t
	}
	regions := float64(max(len(n.Spans), len(n.Table.Regions()), 1))
	first := regions * min(scanPageBytes, scanApartBytes/regions)
	more := math.Ceil(max(bytes-first, 0) / scanPageBytes)
	if !n.AsOf.IsZero() {
		return t.plus(timesFar(more, micros))
	}
	return t.plus(sure(more*float64(d.Ranges)/regions, more*d.Sum/regions))
}

// lookupTrip is the requests for so many keys, in batches that grow. Those of a batch go to all ranges at once.
func lookupTrip(d Distance, keys float64) trip {
	batches, size := 0.0, float64(firstLookups)
	for keys > 0 && batches < 1e6 {
		if size >= lookupBatchRows {
			batches += math.Ceil(keys / lookupBatchRows)
			break
		}
		keys -= size
		size = min(size*growLookups, lookupBatchRows)
		batches++
	}
	return timesFar(max(batches, 1), d.Leaseholder)
}

// farCost is what a plan pays for reading spans that are far away, by the distances of the moment. Of an index whose rows are in the regions of their
// first column, it is that of a round to these regions at least (locality_search.go).
func (o *optimizer) farCost(s *Scan, ix *catalog.Index, spans []IndexSpan, t trip) float64 {
	if o.env.GatewayRegion == "" || regionColumn(s, ix) == 0 {
		return o.leaves(t.cost())
	}
	least := o.wideArea(s.Table, ix, spans)
	if spans != nil && slices.ContainsFunc(spans, func(x IndexSpan) bool { _, known := o.isLocal(s.Table, &x); return !known }) {
		t = t.times(o.unknown()) // the rows may as well be here
	}
	return o.leaves(max(t.cost(), least))
}

// writeTrip is a batch of writes with its commit: the request, and the consensus of the replicas.
func writeTrip(d Distance) trip {
	t := onceFar(d.Leaseholder)
	if d.WideQuorum {
		t = t.plus(sure(1, d.Quorum))
	}
	return t
}

// commitTrip is a commit in ranges without leaseholders.
func commitTrip(d Distance) trip {
	if n := float64(max(d.CommitRounds, 1)); wide(d.Commit / n) {
		return sure(n, d.Commit)
	}
	return trip{}
}

// Prediction is what a plan is expected to wait for when its gateway runs it as a transaction of its own.
type Prediction struct {
	// Rounds is the number of requests to other regions of which each is sent after the one before was answered, those by which replicas in
	// other regions agree to a write included. Requests at the same time are one round. LeastRounds is their number if all rows that may be in the
	// gateway's region are.
	Rounds, LeastRounds int
	// Micros is the time that they take, in microseconds: what the statement takes at least. LeastMicros is that of LeastRounds.
	Micros, LeastMicros float64
	// Regions are those that are asked.
	Regions []string
	// Of is the table whose rows take most of the rounds; empty: none does.
	Of string
	// Commits are the tables without leaseholders that the plan writes to, in the order in which it does.
	Commits []CommitTrip
}

// CommitTrip is the commit of what a plan writes to a table without leaseholders: so many rounds to quorums of its ranges, and their time.
type CommitTrip struct {
	Table  *catalog.Table
	Rounds int
	Micros float64
	// Masters are the regions in which masters decide, if the table's ballots are classic, as far as they are known.
	Masters []string
}

// Classic reports whether masters decide about all writes of the table's rows.
func (c *CommitTrip) Classic() bool {
	b, _ := c.Table.BallotPolicy()
	return b == catalog.ClassicBallots
}

// Policy says in which ballots the table's rows are written; empty if they are fast.
func (c *CommitTrip) Policy() string {
	b, gamma := c.Table.BallotPolicy()
	switch b {
	case catalog.ClassicBallots:
		switch len(c.Masters) {
		case 0:
			return "classic, master at the leaseholder"
		case 1:
			return "classic, master in " + c.Masters[0] + " (leaseholder)"
		}
		return "classic, masters in " + strings.Join(c.Masters, ", ") + " (leaseholders)"
	case catalog.GammaBallots:
		return fmt.Sprintf("gamma, %d classic ballots after a collision", gamma)
	case catalog.LearnedBallots:
		return "learned, classic ballots for hot rows"
	}
	return ""
}

// Text is the number of rounds, or the least and the greatest: "0 to 1".
func (p Prediction) Text() string {
	if p.LeastRounds < p.Rounds {
		return fmt.Sprintf("%d to %d", p.LeastRounds, p.Rounds)
	}
	return strconv.Itoa(p.Rounds)
}

// Predict computes the requests of a plan by the distances of the moment, which may be others than those that it was made by. It is pure.
func (p *Plan) Predict(r Region) Prediction {
	x := predictor{region: &r, explain: explainer{meta: p.Meta, names: make(map[string]ColumnID)}}
	x.decides = !r.Snapshot && x.explain.changes(p.Root)
	t := x.node(p.Root).plus(x.confirm)
	x.validate()
	t = t.plus(x.commits.beyond(x.led))
	if x.held.rounds > 0 && !p.LocksOne() {
		if x.explain.changes(p.Root) {
			x.held = x.held.perhaps() // the commit of one range asks by itself
		}
		t = t.plus(x.held)
	}
	whole := func(rounds float64) int { return int(math.Ceil(rounds - 1e-9)) }
	return Prediction{Rounds: whole(t.rounds), LeastRounds: whole(t.leastRounds), Micros: t.micros, LeastMicros: t.leastMicros, Regions: x.regions, Of: x.of,
		Commits: x.tables}
}

type predictor struct {
	region  *Region
	explain explainer
	regions []string
	of      string
	most    float64
	tables  []CommitTrip
	// commits is the commit of what the plan writes to ranges without leaseholders: once for all of it, at its end. led is the longest of its writes to others, which
	// the commit goes along with.
	commits, led trip
	// again is the round in which what was read is read again before the commit, if it validates reads: all of it at the same time.
	again trip
	// replaced is the scan of the rows that the statement, or a part of it, replaces; written is one whose rows it changes, also by updates that commute.
	replaced, written *IndexScan
	// unlocked is the scan of a row that a statement changes, and reads without a lock.
	unlocked *IndexScan
	// decides says that the statement changes rows, and so decides by what had committed when it began (txn.TX16); confirm is the round by which it makes sure of keys that it does not write.
	decides bool
	confirm trip
	// held is the question, before the commit, whether the transaction has had all the time the locks that the statement asks for (coordinator.CO10).
	held trip
}

// current is the distance of rows that a part of the plan reads: where the statement decides by a span of a table without leaseholders, it is that to a majority. Keys it reads at the nearest replica.
func (x *predictor) current(t *catalog.Table, ix *catalog.Index, spans []IndexSpan, byKey bool) (d Distance) {
	r := *x.region
	r.majority = t.Protocol.Traits().Nearest && !r.Snapshot && (x.decides && !byKey || r.Present)
	return r.distanceOf(t, ix, spans)
}

// confirms notes that the statement reads keys, and may have to confirm them at a majority, or has to if it writes none of them.
func (x *predictor) confirms(t *catalog.Table, ix *catalog.Index, spans []IndexSpan, sure bool) {
	if !x.decides || !t.Protocol.Traits().Nearest || x.region.Present {
		return
	}
	d := x.current(t, ix, spans, false)
	once := onceFar(d.Leaseholder)
	if !sure {
		once = once.perhaps()
	}
	x.confirm = x.confirm.farther(x.asks(t, d, once))
}

// reads notes what a node reads of a table, for the commit. replaced says that it is rows, by their keys, which the commit replaces: their options say by themselves that they have not changed.
func (x *predictor) reads(d Distance, replaced bool) {
	if x.region.Validates && d.CommitRounds > 0 && !replaced {
		x.again = x.again.farther(onceFar(d.Leaseholder))
	}
}

// validate adds what is read again to the commit.
func (x *predictor) validate() {
	if len(x.tables) == 0 || x.again.rounds == 0 {
		return
	}
	x.commits = x.commits.plus(x.again)
	for i := range x.tables {
		x.tables[i].Rounds, x.tables[i].Micros = x.tables[i].Rounds+int(x.again.rounds), x.tables[i].Micros+x.again.micros
	}
}

// replaces reports whether a scan reads rows, by their keys, that the statement replaces or removes: below it there is nothing else.
func replaces(n Node) (scan *IndexScan, commutes bool) {
	var t *catalog.Table
	switch m := n.(type) {
	case *UpdateNode:
		t, n, commutes = m.Stmt.Table, m.Input, len(m.Stmt.Commutes) > 0
	case *DeleteNode:
		t, n = m.Stmt.Table, m.Input
	default:
		return nil, false
	}
	for {
		switch m := n.(type) {
		case *ProjectNode:
			n = m.Input
		case *FilterNode:
			n = m.Input
		case *IndexScan:
			if m.Single && m.Table.ID == t.ID && m.Index.Primary {
				return m, commutes
			}
			return nil, false
		default:
			return nil, false
		}
	}
}

// beyond is what t takes longer than x.
func (t trip) beyond(x trip) trip {
	return trip{max(t.rounds-x.rounds, 0), max(t.micros-x.micros, 0), max(t.leastRounds-x.leastRounds, 0), max(t.leastMicros-x.leastMicros, 0)}
}

// commit notes a commit in a table without leaseholders.
func (x *predictor) commit(t *catalog.Table, c trip, masters []string) {
	if t.Protocol.Traits().Leased {
		return
	}
	i := slices.IndexFunc(x.tables, func(c CommitTrip) bool { return c.Table.ID == t.ID })
	if i < 0 {
		i, x.tables = len(x.tables), append(x.tables, CommitTrip{Table: t})
	}
	x.tables[i].Masters = union(x.tables[i].Masters, masters)
	x.tables[i].Rounds, x.tables[i].Micros = max(x.tables[i].Rounds, int(c.rounds)), max(x.tables[i].Micros, c.micros)
}

// asks notes what is asked for a table's rows.
func (x *predictor) asks(t *catalog.Table, d Distance, trip trip) trip {
	if trip.rounds > 0 {
		for _, name := range d.Regions {
			if !slices.Contains(x.regions, name) {
				x.regions = append(x.regions, name)
			}
		}
		if trip.rounds > x.most {
			x.of, x.most = t.Name, trip.rounds
		}
	}
	return trip
}

// node adds up a node and those below it, which run one after the other.
func (x *predictor) node(n Node) (sum trip) {
	if s, commutes := replaces(n); s != nil {
		if x.written = s; !commutes {
			x.replaced = s
		}
	}
	if !x.region.Locks && !x.region.External {
		switch m := n.(type) {
		case *UpdateNode:
			x.unlocked = Unlocked(m.Stmt.Table, m.Input)
		case *DeleteNode:
			x.unlocked = Unlocked(m.Stmt.Table, m.Input)
		}
	}
	if j, ok := n.(*IndexJoin); ok && j.Locking.Strength != kv.NoLock && len(j.Filter) > 0 {
		if s, ok := j.Input.(*IndexScan); ok && s.Single {
			x.written = s // its entries are as the rows are
		}
	}
	_, _, inputs := x.explain.parts(n)
	loop := 1.0 // how often the inputs after the first run
	if a, ok := n.(*NestedLoop); ok && a.Apply {
		loop = max(a.Left.Estimate().Rows, 1)
	}
	for i, in := range inputs {
		t := x.node(in.node)
		if _, near := n.(*LocalitySearch); near && i > 0 {
			t = t.perhaps()
		}
		switch {
		case in.label == "correlated subquery" && len(inputs) > 1:
			t = t.times(max(inputs[0].node.Estimate().Rows, 1))
		case i > 0 && in.label == "":
			t = t.times(loop)
		}
		sum = sum.plus(t)
	}
	switch n := n.(type) {
	case *IndexScan:
		d := x.plain(n.Table, x.current(n.Table, n.Index, n.Spans, n.Single), n.Locking.Strength != kv.NoLock && n != x.unlocked)
		t := x.asks(n.Table, d, scanTrip(n, d, n.reads, n.width))
		x.reads(d, n == x.replaced)
		x.holds(n.Locking, d)
		if n.Single && n != x.written {
			x.confirms(n.Table, n.Index, n.Spans, true)
		}
		sum = sum.plus(t)
	case *InterleavedJoin:
		scan := n.scan()
		d := x.current(scan.Table, scan.Index, scan.Spans, false)
		x.reads(d, false)
		sum = sum.plus(x.asks(scan.Table, d, scanTrip(scan, d, n.reads, n.width)))
	case *IndexJoin:
		var spans []IndexSpan
		if s := scanBelow(n.Input); s != nil && s.Table == n.Table {
			spans = spansOf(n.Table, s.Index, n.Table.Primary(), s.Spans)
		}
		d := x.plain(n.Table, x.current(n.Table, n.Table.Primary(), spans, true), n.Locking.Strength != kv.NoLock)
		x.holds(n.Locking, d)
		if x.follows(n, d) {
			break
		}
		t := x.asks(n.Table, d, lookupTrip(d, n.Input.Estimate().Rows))
		x.reads(d, false)
		if n.Locking.Strength == kv.NoLock { // else they are to be written
			x.confirms(n.Table, n.Table.Primary(), spans, false)
		}
		in := n.Input
		if j, ok := in.(*IndexJoin); ok {
			in = j.Input
		}
		if _, near := in.(*LocalitySearch); near {
			t = t.perhaps() // rows are where their entries are
		}
		sum = sum.plus(t)
	case *LockNode:
		sum = sum.plus(x.lock(n))
	case *LookupJoin:
		sum = x.lookup(n, sum)
	case *InsertNode:
		sum = sum.plus(x.insert(n))
	case *UpdateNode:
		moved := slices.IndexFunc(n.Stmt.Set, func(s SetColumn) bool { return s.Ordinal == firstOrdinal(n.Stmt.Table) })
		refers := func(fk *catalog.ForeignKey) bool {
			if inferred := n.Stmt.Table.Inferred(); inferred != nil && fk.ID == inferred.ID && looksUpParents(n.Input) {
				return false
			}
			return slices.ContainsFunc(n.Stmt.Set, func(s SetColumn) bool { return slices.Contains(fk.Columns, n.Stmt.Table.Columns[s.Ordinal].ID) })
		}
		sum = sum.plus(x.checks(n, n.Stmt.Table, nil, refers, nil)).plus(x.updates(n, moved)).plus(x.children(n))
	case *DeleteNode:
		sum = sum.plus(x.changes(n.Stmt.Table, n.Input)).plus(x.children(n))
	}
	return sum
}

// lock adds up the requests that lock rows: those of all tables are locked at the same time, unless some are skipped.
func (x *predictor) lock(n *LockNode) (all trip) {
	for i := range n.Tables {
		t := &n.Tables[i]
		var spans []IndexSpan
		if s := scanBelow(n.Input); s != nil && s.Table == t.Table {
			spans = spansOf(t.Table, s.Index, t.Table.Primary(), s.Spans)
		}
		d := x.plain(t.Table, x.current(t.Table, t.Table.Primary(), spans, true), true)
		x.holds(t.Locking, d)
		one := x.asks(t.Table, d, lookupTrip(d, n.Input.Estimate().Rows))
		x.reads(d, false)
		if t.Locking.Wait == kv.SkipLocked {
			all = all.plus(one)
		} else {
			all = all.farther(one)
		}
	}
	return all
}

// lookup adds the requests of a lookup join to those below it.
func (x *predictor) lookup(n *LookupJoin, sum trip) trip {
	r := x.region
	d := x.plain(n.Table, x.current(n.Table, n.Index, n.Spans, n.Single), n.Locking.Strength != kv.NoLock || n.Locking.Check && r.Locks)
	x.holds(n.Locking, d)
	t := x.asks(n.Table, d, lookupTrip(d, n.Input.Estimate().Rows*float64(max(len(n.Spans), 1))))
	x.reads(d, false)
	if n.Single {
		x.confirms(n.Table, n.Index, n.Spans, false)
	}
	sum = sum.plus(t)
	if n.Remote != nil { // for the rows without a match, after the others
		d := r.distanceOf(n.Table, n.Index, n.Remote)
		sum = sum.plus(x.asks(n.Table, d, lookupTrip(d, n.Input.Estimate().Rows*float64(len(n.Remote)))).perhaps())
	}
	return sum
}

// holds notes locks that the statement asks for.
func (x *predictor) holds(l Locking, d Distance) {
	if l.Held && d.CommitRounds == 0 {
		x.held = x.held.farther(onceFar(d.Leaseholder))
	}
}

// children is the search for rows that refer to keys which a mutation removes: of all tables with leaseholders at the same time, and of the others one after the other.
func (x *predictor) children(n Node) (sum trip) {
	r := x.region
	if r.Distance == nil || r.Checks == nil {
		return sum
	}
	var led trip
	for _, id := range r.Checks(n).Children {
		d := r.Distance(Place{Table: id, Snapshot: r.Snapshot, Majority: true}) // fastpaxos.FP82
		if d.CommitRounds > 0 {
			sum = sum.plus(onceFar(d.Leaseholder))
		} else {
			led = led.farther(onceFar(d.Leaseholder))
		}
	}
	return sum.plus(led)
}

// plain is the distance of rows that are read, with a lock or without. Those of a GLOBAL table are read at the nearest replica, as they are now (route.RO6), unless they are locked,
// or the transaction has written.
func (x *predictor) plain(t *catalog.Table, d Distance, locks bool) Distance {
	if t.Locality.Kind != catalog.Global || locks || x.region.Wrote || d.CommitRounds > 0 {
		return d
	}
	d.Leaseholder, d.Sum, d.Ranges = d.Nearest, d.Nearest, 0
	return d
}

// follows reports whether the rows of an index join, which are at a distance, come with their entries.
func (x *predictor) follows(n *IndexJoin, d Distance) bool {
	scan, _ := n.Input.(*IndexScan)
	if s, ok := n.Input.(*LocalitySearch); ok {
		scan = s.Remote
	}
	if scan == nil || !scan.Follow {
		return false
	}
	if n.Table.ByRow() && firstOrdinal(n.Table) == n.Table.Ordinal(n.Table.RegionColumn) && scan.Index.Columns[0].Column == n.Table.RegionColumn {
		return true // rows are where their entries are
	}
	entries := x.region.distanceOf(scan.Table, scan.Index, scan.Spans)
	return len(d.Regions) == 1 && slices.Equal(d.Regions, entries.Regions)
}

// scanBelow is the scan from which an index join has its keys.
func scanBelow(n Node) *IndexScan {
	for {
		switch x := n.(type) {
		case *IndexScan:
			return x
		case *FilterNode:
			n = x.Input
		case *LimitNode:
			n = x.Input
		case *SortNode:
			n = x.Input
		case *IndexJoin:
			n = x.Input
		default:
			return nil
		}
	}
}

// insert is the checks of an INSERT and its writes.
func (x *predictor) insert(n *InsertNode) (sum trip) {
	t := n.Stmt.Table
	if n.Stmt.Conflict != nil || n.Stmt.Upsert && len(t.Indexes) > 1 || t.Protocol.Traits().Optimistic {
		var reads trip // all arbiters are read at once; without leaseholders, all keys of new rows are
		for i := range t.Indexes {
			if ix := &t.Indexes[i]; ix.Unique || ix.Primary {
				d := x.region.distanceOf(t, ix, nil)
				reads = reads.farther(x.asks(t, d, onceFar(d.Leaseholder)))
			}
		}
		sum = sum.plus(reads)
		if c := n.Stmt.Conflict; c != nil && (!c.DoUpdate || len(c.Where) > 0) { // a row in the way may stay as it is
			x.confirms(t, t.Primary(), nil, false)
		}
	}
	first := x.insertedFirst(n)
	refers := func(fk *catalog.ForeignKey) bool {
		if inferred := t.Inferred(); inferred != nil && fk.ID == inferred.ID && looksUpParents(n.Input) {
			return false
		}
		return fk.MatchFull || !slices.ContainsFunc(fk.Columns, func(id catalog.ColumnID) bool { return x.isNull(n.Input, n.Stmt.Source[t.Ordinal(id)]) })
	}
	takes := func(ix *catalog.Index) bool { // NULL equals nothing, so a key with one is nobody else's
		return !slices.ContainsFunc(ix.UserColumns(), func(c catalog.IndexColumn) bool { return x.isNull(n.Input, n.Stmt.Source[t.Ordinal(c.Column)]) })
	}
	far := x.checks(n, t, first, refers, takes).plus(x.writes(t, first))
	if here := x.gatewayHome(t); first == nil && here != nil {
		near := x.checks(n, t, here, refers, takes).plus(x.writes(t, here)) // if all rows turn out to be homed here
		far.leastRounds, far.leastMicros = near.leastRounds, near.leastMicros
	}
	return sum.plus(far)
}

// looksUpParents reports whether a lookup join finds the rows that a foreign key wants, which are not checked once more.
func looksUpParents(n Node) bool {
	switch n := n.(type) {
	case *LookupJoin:
		return n.Locking.Check || looksUpParents(n.Input)
	case *ProjectNode:
		return looksUpParents(n.Input)
	case *FilterNode:
		return looksUpParents(n.Input)
	}
	return false
}

// isNull reports whether a column is NULL in all rows of a node; zero is one for which an INSERT has no value.
func (x *predictor) isNull(n Node, col ColumnID) bool {
	if col == 0 {
		return true
	}
	null := func(e scalar.Expr) bool {
		if p, ok := e.(*scalar.Placeholder); ok {
			i := p.Index
			return i >= 0 && i < len(x.region.Params) && x.region.Params[i].IsNull()
		}
		c, ok := e.(*scalar.Const)
		return ok && c.Value.IsNull()
	}
	switch n := n.(type) {
	case *ProjectNode:
		i := slices.Index(n.Cols, col)
		if i < 0 {
			return false
		}
		if c, ok := n.Exprs[i].(*scalar.Column); ok {
			return x.isNull(n.Input, c.ID)
		}
		return null(n.Exprs[i])
	case *ValuesNode:
		i := slices.Index(n.Cols, col)
		return i >= 0 && !slices.ContainsFunc(n.Rows, func(row []scalar.Expr) bool { return !null(row[i]) })
	}
	return false
}

// gatewayHome is the region column's value of rows that are homed in the gateway's region, in key encoding; nil: the table has none.
func (x *predictor) gatewayHome(t *catalog.Table) []byte {
	if !t.ByRow() {
		return nil
	}
	for _, v := range t.Regions() {
		if c := t.Column(t.RegionColumn); v.Label == x.region.Gateway {
			k, _ := appendConstant(nil, regionConst(c.Type, v), c.Type, false)
			return k
		}
	}
	return nil
}

// checks is the lookup of the rows that foreign keys refer to, and of keys in other regions than that of the rows, home if it is known (encoded): one round in all. A parent with
// a home may be near, where it is looked for first. takes reports whether the rows have a key of an index that others may have; nil: always.
func (x *predictor) checks(n Node, t *catalog.Table, home []byte, refers func(*catalog.ForeignKey) bool, takes func(*catalog.Index) bool) (far trip) {
	if x.region.Distance == nil {
		return trip{}
	}
	var c Checks
	if x.region.Checks != nil {
		c = x.region.Checks(n)
	}
	for i := range t.Foreign {
		fk := &t.Foreign[i]
		if !refers(fk) {
			continue
		}
		d := x.region.Distance(Place{Table: fk.RefTable})
		if slices.Contains(c.Global, fk.RefTable) && !x.region.Wrote && !x.region.Locks {
			d.Leaseholder = d.Nearest
		}
		ask := x.asks(t, d, onceFar(d.Leaseholder))
		switch here := x.gatewayHome(t); {
		case slices.Contains(c.Homed, fk.RefTable):
			far = far.farther(ask.perhaps())
		case here != nil && slices.Contains(fk.Columns, t.RegionColumn) && (home == nil || string(home) == string(here)):
			far = far.farther(ask.perhaps()) // the parent may be in the region of the row
		default:
			far = far.farther(ask)
		}
	}
	for _, ix := range c.Keys {
		if takes != nil && !takes(ix) {
			continue
		}
		for _, v := range t.Regions() {
			elsewhere := []IndexSpan{{Equal: []scalar.Expr{regionConst(t.Column(t.RegionColumn).Type, v)}}}
			if home != nil && string(x.region.spanPrefix(t, ix, &elsewhere[0])) == string(home) {
				continue
			}
			d := x.region.distanceOf(t, ix, elsewhere)
			far = far.farther(x.asks(t, d, onceFar(d.Leaseholder)))
		}
	}
	return far
}

// updates is changes of an UPDATE, in which moved is the number of the assignment to the first column of the primary key; negative: there is none. Rows go to the place that is assigned, if that is known, and else may
// stay where they are.
func (x *predictor) updates(n *UpdateNode, moved int) trip {
	t := n.Stmt.Table
	if moved < 0 {
		return x.changes(t, n.Input)
	}
	to := x.known(t, n.Input, n.Stmt.Set[moved].Col)
	from := x.firstValue(t, n.Input)
	far := x.writes(t, nil)
	if from != nil && to != nil {
		return x.writes(t, from).farther(x.writes(t, to))
	}
	if from == nil && x.nearFirst(n.Input) {
		from = x.gatewayHome(t)
	}
	var near trip
	switch {
	case from != nil && to != nil:
		near = x.writes(t, from).farther(x.writes(t, to))
	case from != nil:
		near = x.writes(t, from)
	case to != nil:
		near = x.writes(t, to)
	default:
		return far
	}
	far.leastRounds, far.leastMicros = near.leastRounds, near.leastMicros
	return far
}

// known is the value that a column of a projection has in all rows, as one of the first column of a table's primary key, in key encoding; nil: several, or not known.
func (x *predictor) known(t *catalog.Table, in Node, col ColumnID) []byte {
	for {
		p, ok := in.(*ProjectNode)
		if !ok {
			return nil
		}
		if i := slices.Index(p.Cols, col); i >= 0 {
			c, ok := p.Exprs[i].(*scalar.Column)
			if !ok {
				v, _ := x.homeOf(t, p.Exprs[i], t.Columns[firstOrdinal(t)].Type, t.Primary().Columns[0].Desc)
				return v
			}
			col = c.ID
		}
		in = p.Input
	}
}

// changes is writes of rows that an operator reads. Those that are looked for in the gateway's region first may be there.
func (x *predictor) changes(t *catalog.Table, in Node) trip {
	first := x.firstValue(t, in)
	if !x.nearFirst(in) {
		return x.writes(t, first)
	}
	near, far := x.writes(t, first), x.writes(t, nil)
	far.leastRounds, far.leastMicros = near.leastRounds, near.leastMicros
	return far
}

// nearFirst reports whether an operator's rows come from a locality optimized search.
func (x *predictor) nearFirst(n Node) bool {
	if _, ok := n.(*LocalitySearch); ok {
		return true
	}
	_, _, inputs := x.explain.parts(n)
	return len(inputs) > 0 && x.nearFirst(inputs[0].node)
}

// writes is one batch of writes to all indexes of a table, sent to all of their ranges at once, with the commit; what ranges without leaseholders are sent is left to
// commits. first is the value of the
// primary index's first column, if it is the same for all rows and known.
func (x *predictor) writes(t *catalog.Table, first []byte) (far trip) {
	x.commit(t, trip{}, nil)
	if x.region.Distance == nil {
		return trip{}
	}
	for i := range t.Indexes {
		ix := &t.Indexes[i]
		p := Place{Table: t.ID, Index: ix.ID}
		if k, pk := ix.Columns, t.Primary().Columns; len(k) > 0 && len(pk) > 0 && k[0] == pk[0] {
			p.Prefix = first
		}
		d := x.region.Distance(p)
		if d.CommitRounds > 0 { // else the change of the table's protocol has not come to it
			var masters []string
			c := commitTrip(d)
			d.Regions = d.CommitRegions
			if b, _ := t.BallotPolicy(); b == catalog.ClassicBallots {
				c, masters, d.Regions = x.classic(p)
			}
			x.commit(t, c, masters)
			x.commits = x.commits.farther(x.asks(t, d, c))
			continue
		}
		w := x.asks(t, d, writeTrip(d))
		w = w.farther(x.waits(t, d))
		far, x.led = far.farther(w), x.led.farther(w)
	}
	return far
}

// waits is what a commit waits for its timestamp, from when it is sent: in a GLOBAL table until all replicas may have heard of what its range closes (CRDB'22 §6.2),
// in an externally consistent one until that is certainly in the past (Spanner §4.1.2).
func (x *predictor) waits(t *catalog.Table, d Distance) (w trip) {
	if t.Locality.Kind == catalog.Global {
		w.micros = (d.Leaseholder+d.Farthest)/2 + x.region.Ahead
	}
	if t.External || x.region.External {
		w.micros = max(w.micros, x.region.CommitWait)
	}
	w.leastMicros = w.micros
	return w
}

// classic is a commit by masters at the leaseholders, with the masters' regions and those of them that are far.
func (x *predictor) classic(p Place) (t trip, regions, far []string) {
	if x.region.Masters == nil {
		return t, nil, nil
	}
	m := x.region.Masters(p)
	if m.Rounds > 0 {
		t = sure(float64(m.Rounds), m.Micros)
	}
	return t, m.Regions, m.Far
}

// firstOrdinal is the place of the first column of a table's primary key.
func firstOrdinal(t *catalog.Table) int {
	if pk := t.Primary(); len(pk.Columns) > 0 {
		return t.Ordinal(pk.Columns[0].Column)
	}
	return -1
}

// firstValue is the value that a table's rows, as an operator reads them, have in the first column of the primary key, in key encoding; nil:
// several, or not known.
func (x *predictor) firstValue(t *catalog.Table, n Node) (v []byte) {
	if s, ok := n.(*IndexScan); ok {
		pk := t.Primary().Columns
		if s.Table.ID != t.ID || len(s.Index.Columns) == 0 || len(pk) == 0 || s.Index.Columns[0] != pk[0] {
			return nil
		}
		for i := range s.Spans {
			equal := s.Spans[i].Equal
			if len(equal) == 0 {
				return nil
			}
			one := IndexSpan{Equal: equal[:1], Modes: s.Spans[i].Modes}
			p := x.region.spanPrefix(t, s.Index, &one)
			if p == nil || v != nil && string(p) != string(v) {
				return nil
			}
			v = p
		}
		return v
	}
	_, _, inputs := x.explain.parts(n)
	if len(inputs) == 0 {
		return nil
	}
	return x.firstValue(t, inputs[0].node)
}

// insertedFirst is the same for rows of constants that are inserted.
func (x *predictor) insertedFirst(n *InsertNode) (v []byte) {
	at := firstOrdinal(n.Stmt.Table)
	if at < 0 || at >= len(n.Stmt.Source) {
		return nil
	}
	col, desc := n.Stmt.Source[at], n.Stmt.Table.Primary().Columns[0].Desc
	t := n.Stmt.Table.Columns[at].Type
	in := n.Input
	for {
		switch p := in.(type) {
		case *ProjectNode:
			if i := slices.Index(p.Cols, col); i >= 0 {
				if c, ok := p.Exprs[i].(*scalar.Column); ok {
					col = c.ID
				} else {
					v, _ = x.homeOf(n.Stmt.Table, p.Exprs[i], t, desc)
					return v
				}
			}
			in = p.Input
			continue
		case *ValuesNode:
			i := slices.Index(p.Cols, col)
			for _, row := range p.Rows {
				if i < 0 {
					return nil
				}
				one, ok := x.homeOf(n.Stmt.Table, row[i], t, desc)
				if !ok || v != nil && string(one) != string(v) {
					return nil
				}
				v = one
			}
			return v
		}
		return nil
	}
}

// homeOf is the encoded value of an expression, if it is known when the plan is made: a constant, or the gateway's region.
func (x *predictor) homeOf(of *catalog.Table, e scalar.Expr, t *types.T, desc bool) ([]byte, bool) {
	here, reads := false, false
	scalar.Walk(e, func(e scalar.Expr) bool {
		c, ok := e.(*scalar.Call)
		here = here || ok && c.Func.Name == "gateway_region"
		_, column := e.(*scalar.Column)
		reads = reads || column
		return true
	})
	if !here || reads || !of.ByRow() {
		return appendConstant(nil, e, t, desc)
	}
	for _, v := range of.Regions() {
		if v.Label == x.region.Gateway {
			return appendConstant(nil, regionConst(t, v), t, desc)
		}
	}
	return nil, false
}
