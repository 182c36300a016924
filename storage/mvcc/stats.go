package mvcc

import (
	"meridian/keys"
	"meridian/wire"
)

// Stats count what a range holds. A write returns their change; a range keeps the sum with its applied state.
type Stats struct {
	// LiveBytes and LiveCount are of keys whose newest version is a value, that version only.
	LiveBytes, LiveCount int64
	// TotalBytes, KeyCount and VersionCount are of all keys and all versions.
	TotalBytes, KeyCount, VersionCount int64
	// IntentCount is the number of lock table entries; zero lets readers leave out the lock table.
	IntentCount int64
}

// versionOverhead is what a version's timestamp counts for.
const versionOverhead = 12

// Add adds a change.
func (s *Stats) Add(d Stats) {
	s.LiveBytes += d.LiveBytes
	s.LiveCount += d.LiveCount
	s.TotalBytes += d.TotalBytes
	s.KeyCount += d.KeyCount
	s.VersionCount += d.VersionCount
	s.IntentCount += d.IntentCount
}

// Subtract takes a change back; a split gives the right side what it takes from the left.
func (s *Stats) Subtract(d Stats) {
	s.LiveBytes -= d.LiveBytes
	s.LiveCount -= d.LiveCount
	s.TotalBytes -= d.TotalBytes
	s.KeyCount -= d.KeyCount
	s.VersionCount -= d.VersionCount
	s.IntentCount -= d.IntentCount
}

// GarbageBytes is what garbage collection could free at most.
func (s Stats) GarbageBytes() int64 { return s.TotalBytes - s.LiveBytes }

// Fields declares the message. Replicas that counted different things would come apart, so all of it must be understood.
func (s *Stats) Fields(c *wire.Coder) {
	c.Message("mvcc.Stats", wire.Refuses)
	wire.Int64(c, 1, &s.LiveBytes)
	wire.Int64(c, 3, &s.LiveCount)
	wire.Int64(c, 5, &s.TotalBytes)
	wire.Int64(c, 7, &s.KeyCount)
	wire.Int64(c, 9, &s.VersionCount)
	wire.Int64(c, 11, &s.IntentCount)
}

// version is what stats need to know of one version.
type version struct {
	exists    bool
	tombstone bool
	size      int // of the raw value
}

func (v version) live() bool { return v.exists && !v.tombstone }

// add counts a version that becomes (sign 1) or stops being (sign -1) a version of k.
func (s *Stats) addVersion(v version, sign int64) {
	s.VersionCount += sign
	s.TotalBytes += sign * int64(versionOverhead+v.size)
}

// newest counts the change of k's newest version.
func (s *Stats) newest(k keys.Key, before, after version) {
	count := func(v version, sign int64) {
		if v.live() {
			s.LiveCount += sign
			s.LiveBytes += sign * int64(len(k)+versionOverhead+v.size)
		}
		if v.exists {
			s.KeyCount += sign
			s.TotalBytes += sign * int64(len(k))
		}
	}
	count(before, -1)
	count(after, 1)
}
