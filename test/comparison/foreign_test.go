package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// foreignKeys: a few tables with all kinds of foreign keys between them, then statements that change their keys.
//
// PostgreSQL's answers may depend on the order in which it meets rows, which is that of its heap. So every statement that changes
// rows finds them by the primary key, and PostgreSQL is told to prefer indexes.
var foreignKeys = Generator{Name: "foreign", Fixed: File("foreign"), Generate: foreignCase, Always: 40, PerRound: 150}

type fkTable struct {
	name    string
	columns []string
	keys    [][]string // that may be referred to
	notNull map[string]bool
}

func foreignCase(r *rand.Rand) Case {
	c := Case{Schema: true, Unordered: true}
	say := func(f string, args ...any) { c.Statements = append(c.Statements, fmt.Sprintf(f, args...)) }
	say("set enable_seqscan = off")
	say("set enable_bitmapscan = off")
	chance := func(n int) bool { return r.IntN(n) == 0 }
	deferral := func() string {
		switch r.IntN(6) {
		case 0:
			return " deferrable"
		case 1, 2:
			return " deferrable initially deferred"
		}
		return ""
	}
	// Tables have id and two or three columns more.
	var tables []*fkTable
	for i := range 1 + r.IntN(4) {
		t := &fkTable{name: fmt.Sprintf("t%d", i), notNull: map[string]bool{"id": true}}
		t.columns = []string{"id", "a", "b", "c"}[:3+r.IntN(2)]
		var defs []string
		for _, col := range t.columns[1:] {
			d := col + " int"
			switch {
			case chance(8):
				d, t.notNull[col] = d+" not null", true
			case chance(4):
				d += fmt.Sprintf(" default %d", 1+r.IntN(4))
			}
			if chance(12) {
				d += fmt.Sprintf(" check (%s < 4)", col)
			}
			defs = append(defs, d)
		}
		t.keys = [][]string{{"id"}}
		pk := "primary key (id)"
		if chance(4) {
			pk, t.keys = "primary key (id, a)", [][]string{{"id", "a"}}
			t.notNull["a"] = true
		}
		if chance(10) {
			pk += deferral()
			if strings.Contains(pk, "deferrable") {
				t.keys = nil
			}
		}
		defs = append([]string{"id int"}, append(defs, pk)...)
		if chance(3) {
			k := [][]string{{"a"}, {"b"}, {"a", "b"}, {"b", "a"}, {"id", "b"}}[r.IntN(5)]
			d := "unique (" + strings.Join(k, ", ") + ")"
			if chance(3) {
				d += deferral()
			}
			if !strings.Contains(d, "deferrable") {
				t.keys = append(t.keys, k)
			}
			defs = append(defs, d)
		}
		if chance(10) && len(t.columns) == 3 {
			defs = append(defs, fmt.Sprintf("g int generated always as (%s * 10) stored", t.columns[1+r.IntN(2)]))
		}
		say("create table %s (%s)", t.name, strings.Join(defs, ", "))
		tables = append(tables, t)
	}
	var names []string
	for range 1 + r.IntN(4) {
		child, parent := tables[r.IntN(len(tables))], tables[r.IntN(len(tables))]
		if len(parent.keys) == 0 {
			continue
		}
		key := parent.keys[r.IntN(len(parent.keys))]
		pool := child.columns[1:]
		if chance(6) {
			pool = child.columns
		}
		if len(key) > len(pool) {
			continue
		}
		var cols []string
		for _, i := range r.Perm(len(pool))[:len(key)] {
			cols = append(cols, pool[i])
		}
		name := fmt.Sprintf("f%d", len(names))
		d := fmt.Sprintf("alter table %s add constraint %s foreign key (%s) references %s (%s)", child.name, name,
			strings.Join(cols, ", "), parent.name, strings.Join(key, ", "))
		if chance(4) {
			d += " match full"
		}
		actions := []string{"no action", "restrict", "cascade", "cascade", "set null", "set default"}
		if !chance(3) {
			a := actions[r.IntN(len(actions))]
			d += " on delete " + a
			if strings.HasPrefix(a, "set") && chance(2) {
				d += " (" + cols[r.IntN(len(cols))] + ")"
			}
		}
		if !chance(3) {
			d += " on update " + actions[r.IntN(len(actions))]
		}
		if chance(3) {
			d += " deferrable"
			if chance(2) {
				d += " initially deferred"
			}
		}
		say("%s", d)
		names = append(names, name)
		if chance(3) {
			say("create index on %s (%s)", child.name, strings.Join(cols, ", "))
		}
	}
	value := func(t *fkTable, col string) string {
		if !t.notNull[col] && chance(4) {
			return "null"
		}
		if col != "id" && chance(15) {
			return "default"
		}
		return fmt.Sprint(1 + r.IntN(4))
	}
	where := func() string {
		switch r.IntN(4) {
		case 0:
			return fmt.Sprintf("id = %d", 1+r.IntN(4))
		case 1:
			return fmt.Sprintf("id >= %d", 1+r.IntN(4))
		case 2:
			return fmt.Sprintf("id in (%d, %d)", 1+r.IntN(2), 3+r.IntN(2))
		}
		return fmt.Sprintf("id <= %d", 2+r.IntN(4))
	}
	look := func() {
		for _, t := range tables {
			say("select * from %s", t.name)
		}
	}
	insert := func() {
		t := tables[r.IntN(len(tables))]
		var rows []string
		for range 1 + r.IntN(3) {
			var vs []string
			for _, col := range t.columns {
				vs = append(vs, value(t, col))
			}
			rows = append(rows, "("+strings.Join(vs, ", ")+")")
		}
		s := fmt.Sprintf("insert into %s (%s) values %s", t.name, strings.Join(t.columns, ", "), strings.Join(rows, ", "))
		if chance(6) {
			s += " on conflict do nothing"
		}
		say("%s", s)
	}
	for range 6 {
		insert()
	}
	open, points := false, 0
	for range 20 + r.IntN(15) {
		t := tables[r.IntN(len(tables))]
		switch k := r.IntN(20); {
		case k < 6:
			insert()
		case k < 10:
			cols := t.columns
			var sets []string
			for _, i := range r.Perm(len(cols))[:1+r.IntN(2)] {
				v := value(t, cols[i])
				if chance(3) {
					v = cols[i] + []string{" + 1", " - 1", ""}[r.IntN(3)]
				}
				sets = append(sets, cols[i]+" = "+v)
			}
			say("update %s set %s where %s", t.name, strings.Join(sets, ", "), where())
		case k < 13:
			say("delete from %s where %s", t.name, where())
		case k < 15:
			if !open {
				say("begin")
				open = true
				points = 0
				continue
			}
			if chance(3) {
				say("rollback")
			} else {
				say("commit")
			}
			open = false
			look()
		case k < 17 && open:
			switch {
			case points == 0 || chance(2):
				points++
				say("savepoint s%d", points)
			case chance(3):
				say("release s%d", points)
				points--
			default:
				say("rollback to s%d", points)
			}
		case k < 20 && open && len(names) > 0:
			what := "all"
			if chance(2) {
				what = names[r.IntN(len(names))]
				if chance(3) {
					what = "scratch." + what
				}
				if chance(3) {
					what += ", " + names[r.IntN(len(names))]
				}
			}
			say("set constraints %s %s", what, []string{"deferred", "immediate"}[r.IntN(2)])
		}
	}
	if open {
		say("commit")
	}
	look()
	return c
}
