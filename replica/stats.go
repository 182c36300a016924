package replica

// Stats is the size of a range's data (an alias of mvcc.Stats once that is there).
type Stats struct{}

// Append adds s's bytes.
func (s Stats) Append(b []byte) []byte { return b }

// Add adds o to s.
func (s *Stats) Add(o Stats) {}

func decodeStats(b []byte) (Stats, []byte, error) { return Stats{}, b, nil }
