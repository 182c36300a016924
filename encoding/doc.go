// Package encoding turns values into bytes: order-preserving bytes for keys, compact bytes for values.
//
// # Key encodings
//
// An encoded value starts with a tag that names its kind and, for small values, the value itself. Comparing two
// encodings as byte strings gives the order of the values, and no encoding is a prefix of another, so encodings
// can follow one another in a key and the whole key sorts column by column.
//
//	tag         kind
//	04          not a value: the row of another table follows (keys.Interleaved)
//	06 07       false, true
//	10 .. 17    negative integer in 8 .. 1 bytes
//	18 .. 3f    integers 0 .. 39
//	40 .. 47    integers of 1 .. 8 bytes
//	48 .. 4b    float: negative, zero, positive, NaN
//	50 .. 55    decimal: -infinity, negative, zero, positive, infinity, NaN
//	60          bytes or text, escaped and terminated
//	64          interval
//	7f          NULL
//	80 .. ff    the same, descending
//
// Three rules give PostgreSQL's order:
//
//	encoding.E1: NULL's tag is above every other, so NULLs come last in ascending order.
//	encoding.E2: A descending encoding is the ascending one with every bit inverted; so NULLs come first in descending
//	    order, and the highest bit of a tag says the direction.
//	encoding.E3: Values that compare as equal have one encoding: -0 and 0, 1.0 and 1.00, NaN and NaN. Information that an encoding cannot
//	    give back (the scale of a decimal) is kept in the row's value.
//
// Integers of either signedness share one encoding. An integer of n bytes is big-endian without leading zero
// bytes (or, if it is negative, without leading ff bytes), and a decoder refuses any longer form, so a value has
// exactly one encoding and keys can be compared without being decoded.
//
// A decimal d is written as 0.d1d2d3... times ten to the power of e, with d1 not zero. The exponent comes first,
// as an integer encoding; then pairs of digits, one byte for each: twice the pair, plus one if more follow. The
// bytes after the tag are inverted if the decimal is negative.
//
// Text ends with 00 01; a zero byte inside is written as 00 ff. 01 is less than ff, so a string sorts before any
// longer one that begins with it.
//
// # Value encodings
//
// Varints and length-prefixed bytes, for values that are not ordered.
//
// # Decoders
//
// Every decoder returns the rest of its input. Bad input of any kind gives ErrMalformed, never a panic, and
// never an allocation larger than a small multiple of the input: they read from disks and networks.
package encoding
