package comparison

import (
	"fmt"
	"math/rand/v2"
)

// definitions: what tables, views and keys refuse when they are made, and what depends on them.
var definitions = Generator{Name: "definitions", Fixed: File("definitions"), Generate: referenceCase, Always: 60, PerRound: 200}

// layouts: names of constraints, keys that are the same, the texts of views and indexes, and what the grammar refuses.
var layouts = Generator{Name: "layouts", Fixed: File("layouts")}

// referenceCase: a foreign key between two types.
func referenceCase(r *rand.Rand) Case {
	ts := []string{"int2", "int4", "int8", "numeric", "numeric(4,2)", "float4", "float8", "text", "varchar(5)", "varchar", "char(5)", "bpchar", "name", "date", "timestamp", "timestamptz", "time",
		"timetz", "interval", "bool", "bytea", "uuid", "oid", "regclass", "int4[]", "int8[]", "text[]", "varchar[]", "jsonb", "inet", "cidr", `"char"`}
	one := func() string { return ts[r.IntN(len(ts))] }
	return Case{Schema: true, Statements: []string{
		fmt.Sprintf("create table p (a %s primary key, b %s unique)", one(), one()),
		fmt.Sprintf("create table c (a %s references p, b %s references p (b))", one(), one()),
		fmt.Sprintf("create table d (a %s)", one()),
		"alter table d add foreign key (a) references p",
		fmt.Sprintf("alter table d alter column a type %s using null", one()),
	}}
}
