// Package types has SQL values and their types: how they are held, ordered, written, read and converted. It follows
// PostgreSQL to the letter where a client can see the difference; `testdata` holds what PostgreSQL 15 answered.
//
// # Values and types are apart
//
// A Datum is a value without its type: a tag that says how it is held (Phys), a number, a string and a reference, so
// that rows are flat slices and integers cost no allocation. Its type, a *T, is known statically where the datum is
// used (a column of a table, an expression) and is passed to the functions that need it:
//
//	Datum                         *T
//	phys  int                     integer, bigint, oid ...
//	phys  string                  text, varchar(10), name
//	phys  char                    char(10), bpchar
//	phys  timestamp               timestamp, timestamp with time zone
//	phys  decimal                 numeric, numeric(10,2)
//
// Several types share one physical form, so most casts between neighbours (integer to bigint, varchar to text) are
// nothing at all.
//
// Invariants of datums:
//
//	types.T1: A decimal's exponent is at most zero; minus the exponent is its display scale. Zero is not negative.
//	types.T2: A char(n) is held with its blanks, n characters in all; a bpchar without a length as it came. Comparisons, hash
//	    keys and index keys ignore trailing blanks, and a cast to text loses them; output, LIKE and concat see them.
//	types.T3: A jsonb is held as its canonical text: members by length of key, then by bytes, without duplicates; numbers
//	    as numerics. A json keeps the text as it came.
//	types.T4: A timestamp is microseconds since 2000-01-01, of the wall clock; a timestamptz the same of UTC; a date is days.
//	    The largest and smallest integers are infinity and -infinity.
//	types.T5: A value of regclass and its kin may carry the name that it prints as. One that carries none is looked up when it is written
//	    (Style.Names), so a stored value follows a rename.
//	types.T6: Nothing that a datum refers to is ever changed.
//	types.T7: An array's elements are in one list, whatever its dimensions; the product of their lengths is the number of elements.
//	    An array of one dimension that starts at 1, and an empty one, has no Shape, so that equal arrays are held alike.
//	types.T8: The bytes of an inet or a cidr are in the order of the values: family, network, length of the mask, address.
//
// # Order
//
// Compare is PostgreSQL's btree order: NULL last, NaN above infinity, text by bytes (the C collation: an order that
// every node and every version agrees on), intervals by their length with 30-day months, jsonb by its own rules.
// T.Compare is for types whose order needs the type. AppendHashKey gives bytes that are equal exactly for equal
// values, for hash joins, grouping and DISTINCT; a test checks that it agrees with Compare.
//
// # Text and binary forms
//
// ParseText and AppendText are the input and output functions, ParseBinary and AppendBinary those of the binary wire
// format. The append functions do not allocate beyond the buffer. An Env has the values that depend on the session (the time zone, the time
// of 'now'); ParseLiteral tells whether a literal depended on it, so that a plan may keep the value. Errors are *sqlstate.Error with
// PostgreSQL's code and words.
//
// # Casts
//
//	CastNeeds   the least context in which a cast is applied: implicit, assignment, explicit (pg_cast)
//	Cast        does it; an explicit cast may cut a string, an assignment may only lose blanks
//	Common      the type that UNION, CASE and the like give to several
//
// Rounding follows PostgreSQL: numeric to integer half away from zero, float to integer half to even.
//
// # What is not here
//
// Arithmetic and functions (sql/scalar), order-preserving bytes (sql/rowcode), names of objects (sql/virtual).
package types
