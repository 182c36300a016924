// Package trace keeps the last events of a node, a request or a protocol, as structured values.
//
// A Ring has a fixed size: the newest events replace the oldest, so tracing costs the same for ever. A nil *Ring
// is valid and keeps nothing; code that traces does not ask whether anybody listens. A walk of a
// request through the layers can be recorded in a ring of its own and compared with a committed one.
package trace
