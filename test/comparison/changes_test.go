package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// changes: statements of which several parts change one table.
var changes = Generator{Name: "changes", Fixed: File("changes"), Generate: changesCase, Always: 20, PerRound: 300}

// changesCase makes statements without joins, so that the order in which rows are changed is that of their keys on both sides.
func changesCase(r *rand.Rand) Case {
	c := Case{Schema: true}
	say := func(f string, args ...any) { c.Statements = append(c.Statements, fmt.Sprintf(f, args...)) }
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	say("create table t (k int primary key, v int not null, u int%s%s)", one("", " unique", " unique"), one("", ", check (v < 60)"))
	for range 12 {
		say("delete from t")
		say("insert into t values (1, 10, 1), (2, 20, 2), (3, 30, 3), (4, 40, null)")
		var parts []string
		from := func() string { // rows of a part before, in order
			if len(parts) > 0 && r.IntN(3) > 0 {
				return fmt.Sprintf("c%d", r.IntN(len(parts)))
			}
			return one("(values (1, 15, 6), (2, 25, 2)) w(k, v, u)", "(values (7, 1, 1), (7, 2, 3)) w(k, v, u)", "t")
		}
		where := func() string {
			switch r.IntN(4) {
			case 0:
				return ""
			case 1:
				return " where k " + one("= 1", "< 3", "> 2", "<> 2", "in (1, 4)")
			}
			if len(parts) == 0 {
				return ""
			}
			return fmt.Sprintf(" where %s(select %s from c%d)", one("k < ", "k >= ", "4 > "), one("count(*)", "max(k)", "min(k)"), r.IntN(len(parts)))
		}
		part := func() string {
			switch r.IntN(5) {
			case 0:
				return "delete from t" + where()
			case 1, 2:
				return "update t set " + one("v = v + 1", "v = 1", "v = v + 25", "k = k + 10", "u = u + 10", "u = null", "k = k + 10, v = 2", "v = null") + where()
			}
			s := "insert into t select " + one("k, v, u", "k, v + 1, u", "k + 1, v, u", "k, v, u + 10", "k + 10, v, u", "k - 1, 0, u") + " from " + from()
			if len(parts) > 0 && r.IntN(3) == 0 { // the part runs when the row in the way has been read
				c := r.IntN(len(parts))
				return s + one(fmt.Sprintf(" on conflict (k) do update set v = (select count(*) from c%d)", c), fmt.Sprintf(" on conflict (k) do update set v = 5 where exists (select 1 from c%d)", c),
					fmt.Sprintf(" on conflict (u) do update set (v, k) = (select max(v), t.k + 30 from c%d)", c))
			}
			return s + one("", " on conflict do nothing", " on conflict (k) do nothing", " on conflict (k) do update set v = t.v + 1", " on conflict (k) do update set v = excluded.v, u = 77",
				" on conflict (k) do update set k = t.k + 20", " on conflict (u) do update set v = 3", " on conflict (k) do update set v = 4 where t.v > 20")
		}
		var with []string
		for i := range 1 + r.IntN(3) {
			p := part() + " returning k, v, u"
			with = append(with, fmt.Sprintf("c%d as (%s)", i, p))
			parts = append(parts, p)
		}
		s := "with " + strings.Join(with, ", ") + " "
		switch r.IntN(4) {
		case 0:
			s += fmt.Sprintf("select * from c%d%s", r.IntN(len(parts)), one("", " limit 1", " limit 0"))
		case 1:
			s += one("select 1", fmt.Sprintf("select (select count(*) from c%d), (select sum(v) from c0)", r.IntN(len(parts))), "select count(*) from t")
		default:
			s += part() + one("", " returning k, v, u")
		}
		say("%s", s)
		say("select * from t order by k")
	}
	return c
}

// recursion: recursive queries, and where their names may stand.
var recursion = Generator{Name: "recursion", Fixed: File("recursion")}

// wholeRows: rows of relations as values. Most are asked for as one text, because the types of tables' rows have no OIDs here; the order of the
// subquery is not that of the answer.
var wholeRows = Generator{Name: "rows", Fixed: unordered(File("rows"))}

func unordered(cases []Case) []Case {
	for i := range cases {
		cases[i].Unordered = true
	}
	return cases
}
