package sim

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
)

// Dice is a seeded host.Dice. It repeats exactly as long as its callers ask in the same order.
type Dice struct {
	mu sync.Mutex // guards r and c; nothing is taken after it
	c  *rand.ChaCha8
	r  *rand.Rand
}

// NewDice derives dice from a seed and a name, so that every machine of one simulation rolls its own.
func NewDice(seed uint64, name string) *Dice {
	h := fnv.New64a()
	h.Write([]byte(name))
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	binary.LittleEndian.PutUint64(key[8:], h.Sum64())
	c := rand.NewChaCha8(key)
	return &Dice{c: c, r: rand.New(c)}
}

// Uint64 implements host.Dice.
func (d *Dice) Uint64() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c.Uint64()
}

// Int64N implements host.Dice.
func (d *Dice) Int64N(n int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Int64N(n)
}

// Float64 implements host.Dice.
func (d *Dice) Float64() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Float64()
}

// Read implements host.Dice.
func (d *Dice) Read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.c.Read(p)
}
