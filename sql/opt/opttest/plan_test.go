package opttest

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"meridian/kv"
	"meridian/sql/catalog"
	"meridian/sql/opt"
	"meridian/sql/types"
)

// TestPlans runs the scripts of testdata:
//
//	exec               statements without result, separated by semicolons
//	stats table=t      "rows 100000" and then "column distinct" on each line
//	byrow table=t [computed]   makes an empty table REGIONAL BY ROW, over the regions ap, eu and us
//	gateway region=us  the region of the gateway
//	analyze table=t    statistics with histograms, of all rows of a table
//	protocol table=t   gives a table the commit protocol fast_paxos
//	distances          "index region milliseconds [quorum=milliseconds | commit=milliseconds [rounds=n]]" on each line, index/value for the rows with a text or a region in the first column; of
//	                   an index that is not named, the rows are near
//	plan [costs]       the plan of a query; latency adds its wide-area rounds
//	query              its rows, after checking that a naive plan has the same
//
// Each rule that can be switched off changes one of the plans.
func TestPlans(t *testing.T) {
	var changes opt.Rules
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		d := newDB(t)
		datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
			d.t = t
			switch td.Cmd {
			case "exec":
				for _, sql := range strings.Split(td.Input, ";") {
					if strings.TrimSpace(sql) == "" {
						continue
					}
					if _, err := d.run(sql); err != nil {
						return "error: " + err.Error() + "\n"
					}
				}
				return ""
			case "stats":
				var table string
				td.ScanArgs(t, "table", &table)
				rows := int64(0)
				distinct := map[string]int64{}
				for _, line := range strings.Split(td.Input, "\n") {
					name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
					v, err := strconv.ParseInt(n, 10, 64)
					if err != nil {
						t.Fatal(err)
					}
					if name == "rows" {
						rows = v
					} else {
						distinct[name] = v
					}
				}
				d.setStats(table, rows, distinct)
				return ""
			case "byrow":
				var table string
				td.ScanArgs(t, "table", &table)
				d.byRow(table)
				if td.HasArg("computed") {
					d.computed(table, strings.TrimSpace(td.Input))
				}
				return ""
			case "gateway":
				d.gateway = ""
				if td.HasArg("region") {
					td.ScanArgs(t, "region", &d.gateway)
				}
				return ""
			case "analyze":
				var table string
				td.ScanArgs(t, "table", &table)
				d.analyze(table)
				return ""
			case "distances":
				d.setDistances(td.Input)
				return ""
			case "protocol":
				var table string
				td.ScanArgs(t, "table", &table)
				of := d.tables[table]
				of.Protocol = catalog.CommitProtocol(kv.FastPaxos)
				if td.HasArg("ballots") {
					var word string
					td.ScanArgs(t, "ballots", &word)
					of.Ballots, _ = catalog.ParseBallots(word)
				}
				if td.HasArg("gamma") {
					td.ScanArgs(t, "gamma", &of.Gamma)
				}
				return ""
			case "plan":
				p, err := d.plan(td.Input)
				if err != nil {
					return "error: " + err.Error() + "\n"
				}
				head := ""
				if td.HasArg("latency") {
					x := p.Predict(d.region())
					head = fmt.Sprintf("rounds: %s, latency: %.0f ms, regions: %s, of: %s\n", x.Text(), x.Micros/1000, strings.Join(x.Regions, ", "), x.Of)
					for _, c := range x.Commits {
						policy := c.Policy()
						if policy != "" {
							policy += "; "
						}
						head += fmt.Sprintf("commit of %s: %s%d rounds, %.0f ms\n", c.Table.Name, policy, c.Rounds, c.Micros/1000)
					}
				}
				shown := explained(p, td)
				without := func(off opt.Rules) string {
					d.off = off
					defer func() { d.off = 0 }()
					p, err := d.plan(td.Input)
					if err != nil {
						t.Errorf("without %s: %v", off, err)
						return ""
					}
					return explained(p, td)
				}
				for r := opt.Rule(0); opt.AllRules.Has(r); r++ {
					// Marks serve where other rules for subqueries are off.
					if without(opt.Of(r)) != shown || without(opt.Of(opt.Marks, r)) != without(opt.Of(opt.Marks)) {
						changes |= opt.Of(r)
					}
				}
				return head + shown
			case "query":
				return compare(d, td.Input, td.HasArg("ordered"))
			}
			t.Fatalf("unknown command %s", td.Cmd)
			return ""
		})
	})
	if none := opt.AllRules &^ changes; none != 0 && !t.Failed() {
		t.Errorf("no plan depends on the rules %s", none)
	}
}

func explained(p *opt.Plan, td *datadriven.TestData) string {
	return strings.Join(opt.Explain(p, opt.ExplainOptions{Costs: td.HasArg("costs"), Verbose: td.HasArg("verbose")}), "\n") + "\n"
}

// results runs a query optimized or not.
func results(d *db, sql string, naive bool) ([]string, *opt.Plan, error) {
	d.naive = naive
	defer func() { d.naive = false }()
	p, err := d.plan(sql)
	if err != nil {
		return nil, nil, err
	}
	rows, err := d.execute(p)
	if err != nil {
		return nil, p, err
	}
	ts := make([]*types.T, len(p.Output))
	for i, c := range p.Output {
		ts[i] = c.Type
	}
	lines := make([]string, len(rows))
	for i, r := range rows {
		lines[i] = rowText(r, ts)
	}
	return lines, p, nil
}

// compare runs a query both ways. Errors must agree too.
func compare(d *db, sql string, ordered bool) string {
	fast, p, err := results(d, sql, false)
	slow, np, nerr := results(d, sql, true)
	explain := func(p *opt.Plan) string {
		if p == nil {
			return ""
		}
		return strings.Join(opt.Explain(p, opt.ExplainOptions{Costs: true, Verbose: true}), "\n")
	}
	switch {
	case err != nil && nerr != nil:
		return "error: " + err.Error() + "\n"
	case err != nil || nerr != nil:
		return fmt.Sprintf("DIFFERENT ERRORS: optimized %v, naive %v\n%s\n%s\n", err, nerr, explain(p), explain(np))
	}
	if !ordered {
		sort.Strings(fast)
		sort.Strings(slow)
	}
	a, b := strings.Join(fast, "\n"), strings.Join(slow, "\n")
	if a != b {
		return fmt.Sprintf("DIFFERENT RESULTS\noptimized:\n%s\nnaive:\n%s\n%s\n%s\n", a, b, explain(p), explain(np))
	}
	return a + "\n"
}
