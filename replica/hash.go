package replica

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash"

	"meridian/keys"
	"meridian/kv"
	"meridian/storage/engine"
)

// hashParts name the spans of keys.RangeSpans, in their order: applied index, statistics, closed timestamp, lease, threshold and
// descriptor; transaction records and other range-local keys; locks and intents of those; locks and intents of rows; rows.
var hashParts = [...]string{"applied state", "range-local keys", "range-local locks", "locks", "data"}

// Hash is the hash of a range's replicated state at one applied index: of all that a raft snapshot would ship, part by part.
type Hash [len(hashParts)][sha256.Size]byte

// ErrBadHash is what DecodeHash gives for bytes that are no Hash.
var ErrBadHash = errors.New("replica: malformed hash")

// Append encodes the hash.
func (h *Hash) Append(b []byte) []byte {
	for i := range h {
		b = append(b, h[i][:]...)
	}
	return b
}

// DecodeHash decodes the bytes of Append.
func DecodeHash(b []byte) (h Hash, err error) {
	if len(b) != len(h)*sha256.Size {
		return h, ErrBadHash
	}
	for i := range h {
		copy(h[i][:], b[i*sha256.Size:])
	}
	return h, nil
}

// String is a part of the hash of all parts, enough to distinguish it from others.
func (h *Hash) String() string {
	all := sha256.Sum256(h.Append(nil))
	return hex.EncodeToString(all[:8])
}

// Differs names the parts in which two hashes differ.
func (h *Hash) Differs(o *Hash) (parts []string) {
	for i := range h {
		if !bytes.Equal(h[i][:], o[i][:]) {
			parts = append(parts, hashParts[i])
		}
	}
	return parts
}

// AgreesAsWitness reports whether the hash of a witness is that of a replica with the same applied state, lease and descriptor as another one.
func (h *Hash) AgreesAsWitness(full *Hash) bool { return h[0] == full[0] }

// HashJob is a range's replicated state as of the command that requested its hash (Command.Hash): it should be the same on every replica.
type HashJob struct {
	Range kv.RangeID
	// ID is the command's Hash, Index its place in the log.
	ID, Index uint64
	desc      *kv.RangeDescriptor
	witness   bool
	kept      Stats
	at        *engine.Snapshot
}

// hashJob pins the state of this moment. It is called with the replica held, when the command is in the engine and nothing
// after it.
func (r *Replica) hashJob(id uint64) *HashJob {
	return &HashJob{Range: r.rangeID, ID: id, Index: r.applied.index, desc: r.desc.Load(), witness: r.isWitness(), kept: r.applied.stats, at: r.o.Engine.NewSnapshot()}
}

// Close releases the pinned data.
func (j *HashJob) Close() { _ = j.at.Close() }

// hashChunkBytes is about how many bytes are hashed between two calls of pace.
const hashChunkBytes = 256 << 10

// Sum reads the data and gives its hash. pace is called now and then with the bytes read since; its error ends the work.
func (j *HashJob) Sum(pace func(bytes int) error) (out Hash, err error) {
	for i, span := range keys.RangeSpans(j.Range, j.desc.Start, j.desc.End) {
		if j.witness && i > 0 {
			break // AgreesAsWitness compares what there is
		}
		sum := sha256.New()
		if err := j.sum(span, sum, pace); err != nil {
			return out, err
		}
		sum.Sum(out[i][:0])
	}
	return out, nil
}

func (j *HashJob) sum(span keys.Span, into hash.Hash, pace func(int) error) error {
	it, err := j.at.NewIter(engine.IterOptions{Lower: span.Start, Upper: span.Stop()})
	if err != nil {
		return err
	}
	defer it.Close()
	buf := make([]byte, 0, hashChunkBytes+4096)
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		k := it.RawKey()
		buf = binary.AppendUvarint(buf, uint64(len(k)))
		buf = append(buf, k...)
		buf = binary.AppendUvarint(buf, uint64(len(v)))
		buf = append(buf, v...)
		if len(buf) >= hashChunkBytes {
			into.Write(buf)
			if err := pace(len(buf)); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	into.Write(buf)
	return pace(len(buf))
}

// Stats are the statistics that the range kept at that index, and a count of its data. They are part of the hash, so replicas with the same
// hash have the same statistics.
func (j *HashJob) Stats() (kept, counted Stats, err error) {
	counted, err = computeStats(j.at, j.desc.Start, j.desc.End)
	return j.kept, counted, err
}
