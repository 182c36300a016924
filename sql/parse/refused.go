package parse

import (
	"strings"

	"meridian/sql/sqlstate"
)

// refusal is a clause of PostgreSQL that the grammar library refuses as a syntax error: its name in the error, and a hint with an alternative.
type refusal struct {
	// first are first words of statements with the clause; empty: any statement.
	first []string
	// words are the words of the clause in their order; * is any token.
	words      string
	what, hint string
}

var (
	inQueries = []string{"select", "insert", "update", "delete", "with", "values", "table", "create", "("}
	inTables  = []string{"create", "alter"}
)

const (
	noPartitions  = "Tables are divided into ranges by themselves."
	noInheritance = "Give each table its columns, with LIKE, and read them together with UNION ALL."
	noWrites      = "Write to the table itself; views are read."
	noElements    = "Create them after the schema, and name it in their names."
	noXML         = "Keep documents as text, or as jsonb."
)

var refusals = []refusal{
	{inTables, "partition by", "partitioned tables are", noPartitions},
	{inTables, "partition of", "partitioned tables are", noPartitions},
	{inTables, "attach partition", "partitioned tables are", noPartitions},
	{inTables, "detach partition", "partitioned tables are", noPartitions},
	{inTables, "inherits (", "inheritance of tables is", noInheritance},
	{inTables, "inherit", "inheritance of tables is", noInheritance},
	{[]string{"create"}, "table * of", "tables of a composite type are", "List the columns."},
	{[]string{"alter"}, "table * of", "tables of a composite type are", "List the columns."},
	{[]string{"alter"}, "table * not of", "tables of a composite type are", "List the columns."},
	{[]string{"create"}, "as execute", "CREATE TABLE ... AS EXECUTE is", "Write the query itself."},
	{inTables, "exclude using", "exclusion constraints are", "UNIQUE excludes equal values."},
	{inTables, "exclude (", "exclusion constraints are", "UNIQUE excludes equal values."},
	{inTables, "unique using index", "making an index a constraint is", "Add the constraint without it, then drop the index."},
	{inTables, "primary key using index", "making an index a constraint is", "Add the constraint without it, then drop the index."},
	{[]string{"alter"}, "depends on extension", "ALTER ... DEPENDS ON EXTENSION is", "There are no extensions to install."},
	{[]string{"alter"}, "index * alter", "ALTER INDEX ... ALTER COLUMN is", "ANALYZE collects statistics of all columns."},
	{[]string{"alter"}, "set statistics", "SET STATISTICS together with other actions is", "Give it a statement of its own."},
	{[]string{"alter"}, "set storage", "SET STORAGE together with other actions is", "Give it a statement of its own."},
	{[]string{"alter"}, "set compression", "SET COMPRESSION together with other actions is", "Give it a statement of its own."},
	{[]string{"alter"}, "disable rule", "rules are", "Write to the table itself."},
	{[]string{"alter"}, "enable rule", "rules are", "Write to the table itself."},
	{[]string{"alter"}, "enable replica", "rules and triggers are", "Write to the table itself."},
	{[]string{"alter"}, "enable always", "rules and triggers are", "Write to the table itself."},
	{[]string{"alter"}, "drop expression", "making a generated column a plain one is", "Add another column, copy the values with UPDATE, and rename it."},
	{inQueries, "tablesample", "TABLESAMPLE is", "WHERE random() < 0.1 takes a tenth of the rows."},
	{inQueries, "grouping sets", "GROUPING SETS is", "Join the groupings with UNION ALL."},
	{inQueries, "rollup (", "ROLLUP is", "Join the groupings with UNION ALL."},
	{inQueries, "cube (", "CUBE is", "Join the groupings with UNION ALL."},
	{inQueries, "group by distinct", "GROUP BY DISTINCT is", "Leave DISTINCT out: there is one grouping."},
	{inQueries, "group by all", "GROUP BY ALL is", "Leave ALL out: there is one grouping."},
	{inQueries, "with ties", "WITH TIES is", "Compare with rank() OVER (ORDER BY ...) in a subquery."},
	{inQueries, "search depth", "SEARCH is", "Collect the path in an array, and order by it."},
	{inQueries, "search breadth", "SEARCH is", "Count the depth in a column, and order by it."},
	{inQueries, "cycle * set", "CYCLE is", "Collect the path in an array, and stop at a row that is in it."},
	{inQueries, "current of", "WHERE CURRENT OF is", "Name the row by its primary key."},
	{inQueries, "normalized", "IS NORMALIZED is", "Normalize text before it is stored."},
	{inQueries, "is document", "type xml is", noXML},
	{inQueries, "is not document", "type xml is", noXML},
	{inQueries, "treat (", "TREAT is", "Use CAST."},
	{inQueries, "variadic", "VARIADIC in a call is", "Write the elements as arguments of their own."},
	{inQueries, "using ( * ) as", "a name for the columns of USING is", "Give the joined relations names."},
	{inQueries, "using ( * , * ) as", "a name for the columns of USING is", "Give the joined relations names."},
	{inQueries, "grouping (", "GROUPING is", "There is one grouping. Join several with UNION ALL."},
	{inQueries, "rows from (", "a list of columns for a function in ROWS FROM is", "Call the function in an item of its own in FROM."},
	{[]string{"create"}, "with check option", "WITH CHECK OPTION is", noWrites},
	{[]string{"create"}, "with local check option", "WITH CHECK OPTION is", noWrites},
	{[]string{"create"}, "with cascaded check option", "WITH CHECK OPTION is", noWrites},
	{[]string{"create"}, "trusted", "CREATE LANGUAGE is", noRoutines},
	{[]string{"create"}, "schema * create", "a schema together with its objects is", noElements},
	{[]string{"create"}, "schema * grant", "a schema together with its rights is", noElements},
	{[]string{"create"}, "schema authorization * create", "a schema together with its objects is", noElements},
	{[]string{"create"}, "schema * authorization * create", "a schema together with its objects is", noElements},
	{[]string{"alter"}, "all in tablespace", "ALTER ... ALL IN TABLESPACE is", "There are no tablespaces but pg_default."},
	{[]string{"alter"}, "view * alter", "a default of a view's column is", noWrites},
	{[]string{"alter"}, "type * set (", "ALTER TYPE ... SET is", "Types are built in."},
	{inQueries, "xmlparse (", "type xml is", noXML}, {inQueries, "xmlelement (", "type xml is", noXML}, {inQueries, "xmlforest (", "type xml is", noXML},
	{inQueries, "xmlpi (", "type xml is", noXML}, {inQueries, "xmlroot (", "type xml is", noXML}, {inQueries, "xmlserialize (", "type xml is", noXML},
	{inQueries, "xmltable (", "type xml is", noXML}, {inQueries, "xmlexists (", "type xml is", noXML},
	{[]string{"merge"}, "into", "MERGE is", "Use INSERT ... ON CONFLICT, or UPDATE ... FROM and DELETE ... USING."},
	{[]string{"with"}, "merge into", "MERGE is", "Use INSERT ... ON CONFLICT, or UPDATE ... FROM and DELETE ... USING."},
}

// refused finds a clause that the grammar library does not accept in a statement that it could not parse.
func refused(src string, toks []Token) error {
	match := func(at int, word string) bool {
		if at >= len(toks) || toks[at].Kind == String {
			return false
		}
		return word == "*" || strings.EqualFold(toks[at].Text(src), word)
	}
	for i := range refusals {
		r := &refusals[i]
		begins := false
		for _, w := range r.first {
			begins = begins || match(0, w)
		}
		if !begins {
			continue
		}
		words := strings.Fields(r.words)
	next:
		for at := range toks {
			for k, w := range words {
				if !match(at+k, w) {
					continue next
				}
			}
			if at > 0 && isPunct(toks[at-1], src, ".") || (words[0] == "table" || words[0] == "index") && at != 1 {
				continue
			}
			return sqlstate.New(sqlstate.FeatureNotSupported, "%s not supported", r.what).WithHint("%s", r.hint).At(CharPos(src, int(toks[at].Pos)))
		}
	}
	return nil
}

// hintsOf has hints with an alternative to kinds of objects that can't be created.
var hintsOf = map[string]string{
	"FUNCTION": noRoutines, "PROCEDURE": noRoutines, "ROUTINE": noRoutines, "AGGREGATE": noRoutines, "DO": noRoutines, "CALL": noRoutines, "LANGUAGE": noRoutines,
	"TRIGGER": noTriggers, "CONSTRAINT TRIGGER": noTriggers, "EVENT TRIGGER": noTriggers,
	"RULE":     "Write to the table itself; views are read.",
	"TYPE":     "Use CREATE TYPE ... AS ENUM, or give a table the fields of a composite type as columns.",
	"DOMAIN":   "Give the column the domain's type, and a CHECK constraint.",
	"OPERATOR": "Operators are built in.", "CAST": "Casts are built in.", "TRANSFORM": "There are no procedural languages.",
	"PUBLICATION": noReplication, "SUBSCRIPTION": noReplication,
	"SERVER": noForeign, "FOREIGN TABLE": noForeign, "FOREIGN DATA": noForeign, "USER MAPPING": noForeign, "IMPORT": noForeign,
	"TABLESPACE": "There are no tablespaces but pg_default.", "COLLATION": "All text is ordered by its bytes: COLLATE \"C\".",
	"CONVERSION": "Conversions of encodings are built in.", "TEXT SEARCH": "There is no text search. Use LIKE or regular expressions.",
	"ACCESS METHOD": "All indexes are ordered, like those of btree.", "STATISTICS": "ANALYZE collects statistics of single columns.",
	"SYSTEM": "Use SET CLUSTER SETTING for settings of the cluster.", "LOAD": "There are no libraries to load.", "EXTENSION": "There are no extensions to install.",
	"LARGE": "Keep bytes in a column of type bytea.", "PREPARE TRANSACTION": noTwoPhase, "COMMIT PREPARED": noTwoPhase, "ROLLBACK PREPARED": noTwoPhase,
}

const (
	noRoutines    = "There are no procedural languages. Keep the logic in the application, or in a view."
	noTriggers    = "Use defaults, generated columns, checks or foreign keys."
	noReplication = "There is no logical replication to a server outside of the cluster."
	noForeign     = "All tables are stored in the cluster."
	noTwoPhase    = "A transaction commits on all of its nodes or on none; it is never prepared."
)
