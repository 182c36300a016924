// Package result has the types that a session shares with its connection: columns and formats, the destination of results (Results), and
// fingerprints of written parts, by which they are recognised when their statement runs again (Mark, Fingerprint).
package result
