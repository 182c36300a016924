package session

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"meridian/sql/session/plan"

	"meridian/sql/session/parameter"

	"meridian/sql/session/result"

	"meridian/kv"
	"meridian/sql/bind"
	"meridian/sql/exec"
	"meridian/sql/opt"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// EXPLAIN in the formats for programs. A plan becomes a tree of fields (opt.ExplainTree), which is written in JSON or YAML; names and nesting are
// PostgreSQL's.

// field is a name and its value: a string, a number (literal), a list of strings, or fields.
type field struct {
	name  string
	value any
}

// literal is a value that is written without quotes.
type literal string

// explainFormatted writes EXPLAIN's answer as one text.
func explainFormatted(format string, fields []field) string {
	var b strings.Builder
	switch format {
	case "json":
		b.WriteString("[\n  ")
		writeJSON(&b, fields, "  ")
		b.WriteString("\n]")
	default:
		b.WriteString("- ")
		writeYAML(&b, fields, "  ", true)
	}
	return b.String()
}

func quoteJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""` // not reached: every string can be encoded
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func writeJSON(b *strings.Builder, v any, indent string) {
	switch v := v.(type) {
	case literal:
		b.WriteString(string(v))
	case string:
		b.WriteString(quoteJSON(v))
	case []string:
		b.WriteByte('[')
		for i, s := range v {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quoteJSON(s))
		}
		b.WriteByte(']')
	case []field:
		b.WriteString("{")
		for i, f := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n" + indent + "  " + quoteJSON(f.name) + ": ")
			writeJSON(b, f.value, indent+"  ")
		}
		b.WriteString("\n" + indent + "}")
	case [][]field:
		b.WriteString("[")
		for i, f := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n" + indent + "  ")
			writeJSON(b, f, indent+"  ")
		}
		b.WriteString("\n" + indent + "]")
	}
}

// writeYAML writes fields; first says that the line has begun.
func writeYAML(b *strings.Builder, fields []field, indent string, first bool) {
	for _, f := range fields {
		if !first {
			b.WriteString("\n" + indent)
		}
		first = false
		b.WriteString(f.name + ": ")
		switch v := f.value.(type) {
		case literal:
			b.WriteString(string(v))
		case string:
			b.WriteString(quoteJSON(v))
		case []string:
			for _, s := range v {
				b.WriteString("\n" + indent + "  - " + quoteJSON(s))
			}
		case []field:
			writeYAML(b, v, indent+"  ", false)
		case [][]field:
			for _, one := range v {
				b.WriteString("\n" + indent + "  - ")
				writeYAML(b, one, indent+"    ", true)
			}
		}
	}
}

func float(f float64, digits int) literal { return literal(strconv.FormatFloat(f, 'f', digits, 64)) }
func wholeNumber(n int64) literal         { return literal(strconv.FormatInt(n, 10)) }
func inMillis(d time.Duration) literal {
	return float(float64(d)/float64(time.Millisecond), 3)
}

// explanation is EXPLAIN's answer in JSON or YAML.
type explanation struct {
	options *bind.Explain
	meta    *opt.Metadata
	trace   *exec.Trace // nil without ANALYZE
	region  func(kv.NodeID) string
}

// fields is a node with all below it.
func (x *explanation) fields(n *opt.ExplainNode) []field {
	c, trace := x.options, x.trace
	costs, timing := c.Costs == nil || *c.Costs, c.Timing == nil || *c.Timing
	out := []field{{"Node Type", n.Type}}
	if n.Relationship != "" {
		out = append(out, field{"Parent Relationship", n.Relationship})
	}
	out = append(out, field{"Parallel Aware", literal("false")}, field{"Async Capable", literal("false")})
	late := 0
	for late < len(n.Attributes) {
		switch n.Attributes[late].Name {
		case "Operation", "Join Type", "Scan Direction", "Index Name", "Relation Name", "Alias", "Strategy", "Command", "CTE Name":
			out = append(out, field{n.Attributes[late].Name, n.Attributes[late].Text})
			late++
			continue
		}
		break
	}
	if costs {
		e := n.Node.Estimate()
		width := int64(0)
		for _, col := range n.Node.Columns() {
			if l := x.meta.Column(col).Type.Len(); l > 0 {
				width += int64(l)
			} else {
				width += 32 // PostgreSQL's estimate
			}
		}
		out = append(out, field{"Startup Cost", float(0, 2)}, field{"Total Cost", float(e.Cost, 2)},
			field{"Plan Rows", float(max(e.Rows, 0), 0)}, field{"Plan Width", wholeNumber(width)})
	}
	if trace != nil {
		st := trace.Nodes[n.Node]
		if st == nil {
			st = &exec.NodeStats{}
		}
		loops := max(st.Loops, 1)
		if timing {
			out = append(out, field{"Actual Startup Time", inMillis(0)}, field{"Actual Total Time", inMillis(st.Time / time.Duration(loops))})
		}
		out = append(out, field{"Actual Rows", wholeNumber(st.Rows / loops)}, field{"Actual Loops", wholeNumber(st.Loops)})
		if st.KVBatches > 0 {
			out = append(out, field{"Read Requests", wholeNumber(st.KVBatches)}, field{"Read Rows", wholeNumber(st.KVRows)}, field{"Read Bytes", wholeNumber(st.KVBytes)})
			if timing {
				out = append(out, field{"Read Time", inMillis(st.KVTime)})
			}
			var served []string
			for i, a := range st.Served {
				if i == 8 {
					break
				}
				name := "r" + itoa(int64(a.Range)) + "@n" + itoa(int64(a.Node))
				if region := x.region(a.Node); region != "" {
					name += "/" + region
				}
				served = append(served, name)
			}
			out = append(out, field{"Served By", served})
		}
		if st.Writes > 0 {
			out = append(out, field{"Written Keys", wholeNumber(st.Writes)})
		}
	}
	for _, a := range n.Attributes[late:] {
		if a.List != nil {
			out = append(out, field{a.Name, a.List})
		} else {
			out = append(out, field{a.Name, a.Text})
		}
	}
	var plans [][]field
	for _, p := range n.Plans {
		plans = append(plans, x.fields(p))
	}
	if plans != nil {
		out = append(out, field{"Plans", plans})
	}
	return out
}

// checkExplain refuses the options that PostgreSQL refuses, and those without a meaning here.
func checkExplain(c *bind.Explain) error {
	switch {
	case c.WAL && !c.Analyze:
		return sqlstate.New(sqlstate.InvalidParameterValue, "EXPLAIN option WAL requires ANALYZE")
	case c.Timing != nil && *c.Timing && !c.Analyze:
		return sqlstate.New(sqlstate.InvalidParameterValue, "EXPLAIN option TIMING requires ANALYZE")
	case c.WAL:
		return sqlstate.New(sqlstate.FeatureNotSupported, "EXPLAIN option WAL is not supported").
			WithHint("EXPLAIN ANALYZE shows how many keys an operator wrote.")
	case c.Format == "xml":
		return sqlstate.New(sqlstate.FeatureNotSupported, "EXPLAIN (FORMAT XML) is not supported").WithHint("Use FORMAT JSON or YAML.")
	}
	return nil
}

// explainColumn is the answer's column.
func explainColumn(format string) result.Column {
	col := text("QUERY PLAN")
	if format == "json" {
		if t, ok := types.FromName("json"); ok {
			col.Type = t
		}
	}
	return col
}

// explainStructured answers in JSON or YAML.
func (s *Session) explainStructured(c *bind.Explain, p *plan.Plan, trace *exec.Trace, rounds []field, planning, took time.Duration, w *rowWriter) error {
	opts := opt.ExplainOptions{Verbose: c.Verbose}
	opts.Snapshot, _ = s.readsSnapshot(p)
	opts.Present = s.maxAge() < 0
	x := explanation{options: c, meta: p.Program.Plan().Meta, trace: trace, region: s.srv.Ranges.Region}
	fields := []field{{"Plan", x.fields(opt.ExplainTree(p.Program.Plan(), opts))}}
	fields = append(fields, rounds...)
	if c.Settings {
		changed := []field{}
		for _, n := range s.params.Names() {
			if d := parameter.Find(n); d != nil {
				changed = append(changed, field{parameter.DisplayName(n), s.setting(n)})
			}
		}
		fields = append(fields, field{"Settings", changed})
	}
	if summary := trace != nil; c.Summary != nil && *c.Summary || c.Summary == nil && summary {
		fields = append(fields, field{"Planning Time", inMillis(planning)})
		if trace != nil {
			fields = append(fields, field{"Triggers", [][]field{}})
		}
	}
	if trace != nil {
		if n := s.replay.Attempt(); n > 0 {
			fields = append(fields, field{"Retries", wholeNumber(int64(n))})
		}
		if c.Summary == nil || *c.Summary {
			fields = append(fields, field{"Execution Time", inMillis(took)})
		}
	}
	return w.row(types.NewString(explainFormatted(c.Format, fields)))
}
