// Package rowcode turns rows into keys and values, and back. It is pure: it knows the shape of a table, not where
// its data is.
//
// # One row, one key per index
//
// Every index of a table, the primary one included, has one key for each row:
//
//	/table/index/col1/col2...            unique index, no NULL in it; and the primary index
//	/table/index/col1/col2.../pk1/pk2..  any other: the primary key makes the entry unique
//
// The columns are in package encoding's order-preserving form, each ascending or descending as the index says, so
// the keys of an index sort as ORDER BY would. Primary key columns that are in the index already are not repeated. A
// unique index follows SQL: rows with a NULL in an indexed column do not conflict, so their entries carry the
// primary key too.
//
//	rowcode.R1: Two rows have equal entries in a unique index exactly if all indexed columns are equal and not NULL. A
//	    conditional put of the entry is therefore the whole uniqueness check (23505).
//	rowcode.R2: A datum that the key cannot represent exactly (the scale of a decimal, the sign of a zero, the blanks of a bpchar without a
//	    length) is in the value as well, and the value has precedence.
//
//	rowcode.R5: A table whose descriptor says so (catalog.Table.ShortChars) stores a char(n) without its trailing blanks in values, as keys do in
//	    any case. A reader puts them back whatever the descriptor says.
//
// The primary index of a table that is interleaved in others is among their rows (interleave.go, rowcode.R4; docs/decisions/0015-interleaved-tables.md):
//
//	/ancestor/index/col1 04 /table/index/col2...
//
// # Values
//
// A value is a version byte and then the columns that are not NULL, in order of their identity:
//
//	01  [delta<<3|wire] payload  [delta<<3|wire] payload ...
//
// delta is the difference to the previous column's identity, and wire how to step over the payload without
// knowing the column:
//
//	0 varint   1 eight bytes   2 length and bytes   3 true   4 false   5 NULL
//
// So a reader takes only the columns it needs, skips those it does not know (added by a newer version of the
// table, or dropped since), and treats missing ones as NULL, or as the default that ADD COLUMN gave to rows
// that were there already (Column.Missing). For a column with such a default NULL has to be written out, wire 5.
//
//	rowcode.R3: Any two successive versions of a table (I7) read each other's rows: columns are named by identity, which
//	    is never reused, and a column's type never changes in place.
//
// The primary index stores all columns that are not exactly in its key. A secondary index stores its STORING columns;
// a unique one also the primary key, which it needs to lead to the row.
//
// # Spans
//
// Index.Span makes the keys of "first columns equal, next column in a range". A range with a bound never contains
// NULL, which sorts after all values (before them in a descending column); see index.go for the cases.
//
// # Damage
//
// Decoders return *CorruptionError for bytes that no encoder wrote, and never panic: fuzz tests check it.
package rowcode
