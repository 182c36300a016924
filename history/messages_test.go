package history

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestMessages: what is seen of a chain of messages, and what must be seen with it.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		name, text string
		messages   string // "12 23": from T1 to T2, from T2 to T3
		stamps     []Stamp
		want       string
	}{
		{"both seen", "T1: a x 1\nT2: a y 1\nT3: r x [1], r y [1]", "12", nil, ""},
		{"neither seen", "T1: a x 1\nT2: a y 1\nT3: r x [], r y []", "12", nil, ""},
		{"the earlier one alone", "T1: a x 1\nT2: a y 1\nT3: r x [1], r y []", "12", nil, ""},
		{"the later one alone", "T1: a x 1\nT2: a y 1\nT3: r x [], r y [1]", "12", nil, "T3 saw T2, and not 1 of x by T1"},
		{"a snapshot of the past", "T1: a x 1\nT2: a y 1\nT3 past: r x [], r y [1]", "12", nil, "T3 saw T2, and not 1 of x by T1"},
		{"no message", "T1: a x 1\nT2: a y 1\nT3: r x [], r y [1]", "", nil, ""},
		{"nothing was acknowledged", "T1 unknown: a x 1\nT2: a y 1\nT3: r x [], r y [1]", "12", nil, ""},
		{"the receiver's outcome is unknown, and it was seen", "T1: a x 1\nT2 unknown: a y 1\nT3: r x [], r y [1]", "12", nil, "T3 saw T2"},
		{"the key of the earlier one was not read", "T1: a x 1\nT2: a y 1\nT3: r y [1]", "12", nil, ""},
		{"a chain, of which the middle is not read", "T1: a x 1\nT2: a z 1\nT3: a y 1\nT4: r x [], r y [1]", "12 23", nil, "T4 saw T3, and not 1 of x by T1"},
		{"the middle wrote nothing", "T1: a x 1\nT2: r x [1]\nT3: a y 1\nT4: r x [], r y [1]", "12 23", nil, "T4 saw T3, and not 1 of x by T1"},
		{"the receiver itself", "T1: a x 1\nT2: a y 1, r x [], r y [1]", "12", nil, ""}, // a stale read, which Appends finds
		{"one of two keys", "T1: a x 1, a z 1\nT2: a y 1\nT3: r x [1], r z [], r y [1]", "12", nil, "not 1 of z"},
		{"stamps in order", "T1: a x 1\nT2: a y 1", "12", []Stamp{4, 5}, ""},
		{"stamps are equal", "T1: a x 1\nT2: a y 1", "12", []Stamp{5, 5}, "its commit timestamp 5 is not below 5"},
		{"stamps in reverse", "T1: a x 1\nT2: a y 1", "12", []Stamp{6, 5}, "its commit timestamp 6 is not below 5"},
		{"a stamp is unknown", "T1: a x 1\nT2: a y 1", "12", []Stamp{6, 0}, ""},
	} {
		txns := parseTxns(t, c.text)
		var messages []Message
		for _, m := range strings.Fields(c.messages) {
			messages = append(messages, Message{txns[m[0]-'1'], txns[m[1]-'1']})
		}
		stamps := map[*Txn]Stamp{}
		for i, s := range c.stamps {
			stamps[txns[i]] = s
		}
		err := Messages(txns, messages, stamps)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestMessagesAreTime: if one transaction returned before another was called, and a message led from the one to the other, then the order of time
// finds whatever Messages finds.
func TestMessagesAreTime(t *testing.T) {
	found := 0
	for seed := range uint64(50_000) {
		txns := small(rand.New(rand.NewPCG(seed, 0x3e5)), true)
		var messages []Message
		for _, a := range txns {
			for _, b := range txns {
				if a.Outcome == OK && !a.Past && !b.Past && a.Return < b.Call {
					messages = append(messages, Message{a, b})
				}
			}
		}
		if err := Messages(txns, messages, nil); err != nil {
			found++
			if Appends(txns, ByTime).At(Strict) == nil {
				t.Fatalf("seed %d: %v%s", seed, err, shown(txns))
			}
		}
	}
	if found < 100 {
		t.Errorf("%d of 50000 histories break a message", found)
	}
}

// TestStamps: commit timestamps in the order of time, and not; by the definition, of all pairs, in random histories.
func TestStamps(t *testing.T) {
	bad := 0
	for seed := range uint64(5_000) {
		dice := rand.New(rand.NewPCG(seed, 0x57a))
		txns := small(dice, false)
		stamps := map[*Txn]Stamp{}
		for i, x := range txns {
			if dice.IntN(8) > 0 {
				stamps[x] = Stamp(10*i + 1 + dice.IntN(25))
			}
		}
		good := true
		for _, a := range txns {
			for _, b := range txns {
				if a.Outcome == OK && b.Outcome != Failed && !a.Past && !b.Past && a.Return < b.Call && stamps[a] != 0 && stamps[b] != 0 && stamps[a] >= stamps[b] {
					good = false
				}
			}
		}
		if err := Stamps(txns, stamps); (err == nil) != good {
			t.Fatalf("seed %d: %v%s\n%v", seed, err, shown(txns), stamps)
		}
		if !good {
			bad++
		}
	}
	if bad < 200 || bad > 4_000 {
		t.Errorf("%d of 5000 are bad", bad)
	}
}
