package session

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"meridian/kv"
	"meridian/replica/closedts"
	"meridian/route"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/session/plan"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// Latencies of plans: what the optimizer knows of distances, the prediction of wide-area rounds that EXPLAIN shows, and their limit
// (max_wide_area_rounds).

// maxRounds is the setting that limits wide-area rounds, and noMaxRounds its value without a limit.
const (
	maxRounds   = "max_wide_area_rounds"
	noMaxRounds = "-1"
)

// predict computes the wide-area rounds of a plan by the distances of this moment, after it has looked up the ranges that the gateway
// does not know, and with fresh has asked those that it knows. ok is false if no node is far.
func (s *Session) predict(ctx context.Context, p *plan.Plan, params []types.Datum, fresh bool) (x opt.Prediction, ok bool, err error) {
	if p.Program == nil {
		return x, false, nil
	}
	region, physical := s.srv.Ranges.Distances(), p.Program.Plan()
	if region.Distance == nil {
		return physical.Predict(region), false, nil
	}
	var places []opt.Place
	first := physical.Predict(opt.Region{Gateway: s.srv.Region, Checks: p.Program.Checks, Params: params, Distance: func(at opt.Place) opt.Distance {
		places = append(places, at)
		return opt.Distance{}
	}})
	if fresh {
		if err := s.srv.Ranges.Refresh(ctx, places); err != nil {
			return x, false, err
		}
	}
	for _, at := range places {
		masters := slices.ContainsFunc(first.Commits, func(c opt.CommitTrip) bool { return c.Table.ID == at.Table && c.Classic() })
		if err := s.srv.Ranges.Locate(ctx, at, masters); err != nil {
			return x, false, err
		}
	}
	if s.readsClosed(p) {
		present := region.Distance
		region.Distance = func(at opt.Place) opt.Distance {
			d := present(at)
			if d.CommitRounds > 0 {
				return d // without leaseholders, the past is asked for at quorums
			}
			d.Leaseholder, d.Sum, d.Ranges = d.Nearest, d.Nearest, 0
			return d
		}
	}
	region.Snapshot, region.Validates = s.readsSnapshot(p)
	region.Present = s.maxAge() < 0
	region.Wrote, region.Locks = s.state.Wrote(), s.state.Modes().Isolation != kv.Serializable
	region.Ahead = float64((s.srv.Clock.Lead() + closedts.LeadInterval).Microseconds())
	region.CommitWait = float64((2 * s.srv.Clock.TrueTime().Epsilon()).Microseconds())
	region.External = s.tx != nil && s.tx.External() || s.setting(catalog.ExternalConsistency) == "on"
	region.Gateway, region.Checks, region.Params = s.srv.Region, p.Program.Checks, params
	return physical.Predict(region), true, nil
}

// readsSnapshot reports whether a plan reads tables without leaseholders at one timestamp, as it would run now, and whether its transaction has to read again before it commits.
func (s *Session) readsSnapshot(p *plan.Plan) (snapshot, validates bool) {
	m := s.state.Modes()
	if p.Query != nil && p.Query.AsOf != nil || s.tx != nil && s.tx.Historical() {
		return true, false
	}
	return m.Declared && m.Isolation != kv.ReadCommitted, m.Declared && m.Isolation == kv.Serializable
}

// readsClosed reports whether a plan is to read at a time that followers have closed.
func (s *Session) readsClosed(p *plan.Plan) bool {
	if p.Query != nil && p.Query.AsOf != nil {
		return true
	}
	return s.tx != nil && s.tx.Historical() &&
		s.srv.Clock.Wall().UnixNano()-s.tx.ReadTimestamp().Wall >= int64(closedts.DefaultLag+closedts.DefaultInterval)
}

// limitRounds refuses a plan that is expected to take more wide-area rounds than the session allows.
func (s *Session) limitRounds(ctx context.Context, p *plan.Plan, params []types.Datum) error {
	text := s.frequent().rounds
	if text == noMaxRounds || p.Program == nil {
		return nil
	}
	most, err := strconv.Atoi(text)
	if err != nil || most < 0 {
		return nil
	}
	x, ok, err := s.predict(ctx, p, params, false)
	if err != nil || !ok || x.Rounds <= most {
		return err
	}
	e := sqlstate.New(sqlstate.ProgramLimitExceeded, "the statement would take %s wide-area rounds, and %s allows %d", x.Text(), maxRounds, most)
	where := ""
	if x.Of != "" {
		where = fmt.Sprintf(" for rows of table \"%s\"", x.Of)
	}
	if len(x.Regions) > 0 {
		where += " in " + strings.Join(x.Regions, ", ")
	}
	e.Detail = fmt.Sprintf("It would wait about %s%s.", shownLatency(x.Micros), where)
	return e.WithHint("Compare the region, or the first columns of an index, with values of rows that are near; add LIMIT; read the past with AS OF SYSTEM TIME " +
		"follower_read_timestamp(); or make the table GLOBAL, or an index with its leaseholder near. EXPLAIN shows where the rounds are.")
}

func shownLatency(micros float64) string {
	return strconv.FormatFloat(math.Round(micros/1000), 'f', 0, 64) + " ms"
}

// explainRounds is what EXPLAIN says about wide-area rounds: predicted, and with ANALYZE those of the trace.
func explainRounds(x opt.Prediction, trace *route.Trace) (lines []string, fields []field) {
	add := func(name, title, text string, value any) {
		lines = append(lines, name+": "+text)
		fields = append(fields, field{title, value})
	}
	rounds, latency := x.Text(), shownLatency(x.Micros)
	if x.LeastRounds < x.Rounds {
		latency = strings.TrimSuffix(shownLatency(x.LeastMicros), " ms") + " to " + latency
		fields = append(fields, field{"Least Wide-Area Rounds", wholeNumber(int64(x.LeastRounds))})
	}
	add("wide-area rounds", "Wide-Area Rounds", rounds, wholeNumber(int64(x.Rounds)))
	add("predicted latency", "Predicted Latency", latency, float(x.Micros/1000, 3))
	if trace != nil {
		n, regions := trace.Rounds(), trace.Regions()
		add("wide-area rounds that took place", "Actual Wide-Area Rounds", strconv.Itoa(n), wholeNumber(int64(n)))
		add("regions", "Regions", strings.Join(regions, ", "), regions)
	}
	return lines, fields
}

// explainCommits is what EXPLAIN says about the commits of what a plan writes to tables without leaseholders: the protocol, its quorums and, if a node is far, the wide-area rounds
// of the commit and their time.
func (s *Session) explainCommits(ctx context.Context, commits []opt.CommitTrip, far bool) (lines []string, fields []field, err error) {
	var list [][]field
	for _, c := range commits {
		at := opt.Place{Table: c.Table.ID}
		if err := s.srv.Ranges.Locate(ctx, at, false); err != nil {
			return nil, nil, err
		}
		text, one := c.Table.Protocol.String(), []field{{"Relation Name", c.Table.Name}, {"Commit Protocol", c.Table.Protocol.String()}}
		ballots, gamma := c.Table.BallotPolicy()
		if p := c.Policy(); p != "" {
			text += "; " + p
		}
		one = append(one, field{"Ballots", ballots.String()})
		if ballots.Counts() {
			one = append(one, field{"Gamma", wholeNumber(int64(gamma))})
		}
		if c.Classic() && len(c.Masters) > 0 {
			one = append(one, field{"Masters", c.Masters})
		}
		for _, q := range s.srv.Ranges.Quorums(at) {
			if c.Classic() {
				text += fmt.Sprintf("; quorum %d of %d", q.Classic, q.Replicas)
			} else {
				text += fmt.Sprintf("; fast quorum %d of %d, classic %d of %d", q.Fast, q.Replicas, q.Classic, q.Replicas)
			}
			one = append(one, field{"Replicas", wholeNumber(int64(q.Replicas))}, field{"Fast Quorum", wholeNumber(int64(q.Fast))},
				field{"Classic Quorum", wholeNumber(int64(q.Classic))})
		}
		if far {
			text += fmt.Sprintf("; %d wide-area rounds, %s", c.Rounds, shownLatency(c.Micros))
			if c.Rounds == 1 {
				text = strings.Replace(text, "rounds", "round", 1)
			}
			one = append(one, field{"Wide-Area Rounds", wholeNumber(int64(c.Rounds))}, field{"Predicted Latency", float(c.Micros/1000, 3)})
		}
		lines, list = append(lines, "commit of "+c.Table.Name+": "+text), append(list, one)
	}
	if list != nil {
		fields = []field{{"Commits", list}}
	}
	return lines, fields, nil
}

// A plan is made by the distances of a moment. If one of the places that it reads, or might have read, is nearer or farther now, it is made anew: a
// row by its primary key is near at first, as long as the leaseholder is not known, and other indexes are not considered.

// placesMax bounds the places that a cached plan remembers.
const placesMax = 8

// noteDistances makes a Region that remembers in a plan which distances it was asked for.
func (s *Session) noteDistances(p *plan.Plan) opt.Region {
	region := s.srv.Ranges.Distances()
	if region.Distance == nil {
		return region
	}
	ask, asked := region.Distance, map[string]bool{}
	region.Distance = func(at opt.Place) opt.Distance {
		d := ask(at)
		if id := fmt.Sprint(at.Table, at.Index, at.Prefix); !asked[id] && len(p.Places) < placesMax {
			asked[id] = true
			p.Places = append(p.Places, plan.Placed{Place: at, Leaseholder: d.Leaseholder})
		}
		return d
	}
	return region
}

// moved reports whether a plan was made by distances that have changed so much that another one may be better.
func (s *Session) moved(p *plan.Plan) bool {
	if len(p.Places) == 0 {
		return false
	}
	region := s.srv.Ranges.Distances()
	if region.Distance == nil {
		return false
	}
	for _, x := range p.Places {
		now := region.Distance(x.Place).Leaseholder
		if lo, hi := min(now, x.Leaseholder), max(now, x.Leaseholder); hi > opt.WideArea && hi > lo*1.5 {
			return true
		}
	}
	return false
}
