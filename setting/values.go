package setting

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Values are the settings as one node follows them. A nil *Values has the defaults. All methods may be called
// concurrently.
type Values struct {
	values   [count]atomic.Int64
	known    atomic.Bool
	defaults [count]int64

	mu        sync.Mutex // guards listeners, and is held while they are called
	listeners []func()
}

// New makes values that are the defaults; own are defaults of this node, instead of those of the table.
func New(own map[ID]int64) *Values {
	v := &Values{}
	for i := range table {
		v.defaults[i] = table[i].Default
		if d, ok := own[ID(i)]; ok {
			v.defaults[i] = d
		}
		v.values[i].Store(v.defaults[i])
	}
	return v
}

// Set follows what was set, by name; all others have their defaults. It returns the errors of texts that no value is.
func (v *Values) Set(set map[string]string) (wrong []error) {
	for i := range table {
		s := &table[i]
		value := v.defaults[i]
		if text, ok := set[s.Name]; ok {
			if parsed, err := s.Parse(text); err == nil {
				value = parsed
			} else {
				wrong = append(wrong, err)
			}
		}
		v.values[i].Store(value)
	}
	v.known.Store(true)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.listeners {
		f()
	}
	return wrong
}

// Known reports whether Set was ever called: until then a node does not know whether the defaults hold.
func (v *Values) Known() bool { return v == nil || v.known.Load() }

// OnChange has f called after each Set, and once at once. It must not wait, nor call Set or OnChange.
func (v *Values) OnChange(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listeners = append(v.listeners, f)
	f()
}

func (v *Values) get(id ID, k Kind) int64 {
	if table[id].Kind != k {
		panic(fmt.Sprintf("setting: %s is no %s", table[id].Name, k))
	}
	if v == nil {
		return table[id].Default
	}
	return v.values[id].Load()
}

// Int is the value of a setting of kind Int.
func (v *Values) Int(id ID) int64 { return v.get(id, Int) }

// Bool is the value of a setting of kind Bool.
func (v *Values) Bool(id ID) bool { return v.get(id, Bool) != 0 }

// Duration is the value of a setting of kind Duration.
func (v *Values) Duration(id ID) time.Duration { return time.Duration(v.get(id, Duration)) }

// Bytes is the value of a setting of kind Bytes.
func (v *Values) Bytes(id ID) int64 { return v.get(id, Bytes) }

// Fraction is the value of a setting of kind Fraction.
func (v *Values) Fraction(id ID) float64 { return math.Float64frombits(uint64(v.get(id, Fraction))) }

// Enum is the text of the value of a setting of kind Enum.
func (v *Values) Enum(id ID) string { return table[id].Values[v.get(id, Enum)] }
