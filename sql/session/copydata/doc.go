// Package copydata has the three formats of COPY: text, CSV and binary. A Reader turns the client's data into rows, in pieces of any size;
// a Writer turns rows into data. Both are independent of the session: the caller gives them the encoding of the data, the formats of values, and
// the account of their buffers' memory.
package copydata
