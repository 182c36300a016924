// Package postgres starts PostgreSQL servers for comparison: a single one, or a primary with streaming standbys of which
// any one must have a commit before it is acknowledged. The servers live in a temporary directory, listen on free ports of
// the loopback interface, run as an unprivileged user (PostgreSQL refuses root), and end with the program that started
// them.
//
// Settings are PostgreSQL's own, fsync included, but for those that a comparison needs: shared_buffers as large as
// Meridian's block cache, and a max_wal_size that keeps checkpoints from falling into one round and not into the next.
package postgres
