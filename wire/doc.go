// Package wire has the encoding of all data that one process writes and another, or a later one, reads: requests, commands of the log,
// records, descriptors. It is the wire format of Protocol Buffers, written by hand because batches and commands are on the path of every
// statement (docs/decisions/0010-formats.md).
//
//	message  = { field }
//	field    = tag value                  tag = number<<3 | type, a varint
//	value    = varint                     type 0   integers; signed ones zigzag; enumerations; flags
//	         | eight bytes, little endian type 1   large integers, timestamps without a counter
//	         | length, bytes              type 2   byte strings, text, timestamps, messages
//	         | four bytes                 type 5   skipped when unknown; not written
//
// A field whose value is zero is not written. A byte string is not written if it is nil, and is written if it is empty.
// A list is its field repeated. A message inside another one is present if its field is.
//
// # Unknown fields
//
//	wire.W1: Understand or refuse. A field with an ODD number must be understood. A reader that does not know it refuses the whole
//	    message with a *VersionError, which names the message and the field. A field with an EVEN number may be ignored: the message means
//	    the same without it, though it may be served less well. The writer of a new field chooses: if a reader that ignores it would change
//	    data differently than requested, or answer something untrue, the number is odd.
//
//	wire.W2: Enumerations are odd. A value that a reader does not know is refused likewise, whatever the number of its field.
//
//	wire.W3: Rewriting keeps unknown fields. A message that any node may read, change and store again (descriptors, transaction records)
//	    keeps the bytes of even fields that the node does not know, as Unknown, and writes them back. A message within such a message either
//	    keeps them too or refuses unknown fields of both kinds (Reader.Refuse), because skipping would lose them.
//
//	wire.W4: Numbers are for ever. A number never changes its meaning or its type. A field that is not used any more leaves its number
//	    unused. The bytes of each field are in testdata/wire.txt of its package, whose lines are added to and not changed: each is pinned in
//	    testdata/wire.pins (wire/wiretest).
//
//	wire.W5: Decoding is safe. No bytes make a Reader panic, or allocate more than a constant times their number.
//
// # Declaring a message
//
// A function names the fields of a message, in the order in which they are written, and serves both directions (Coder):
//
//	func SpanFields(s *Span, c *wire.Coder) {
//		c.Message("keys.Span", wire.Refuses)
//		wire.Key(c, 1, &s.Start)
//		wire.Key(c, 3, &s.End)
//	}
//
// Append writes a message by its function, and Decode reads one. Package wiretest checks every message of a package, and that none is missing. Some messages
// still have a function for each direction, with Reader.
package wire
