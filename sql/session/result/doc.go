// Package result has the types that a session shares with its connection: columns and formats, the destination of results (Results), and
// fingerprints of parts of the output, which are compared when a statement runs again (Mark, Fingerprint).
package result
