package external_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian/history"
	"meridian/sim/simcluster/simtest"
)

// TestCausalReverse: in the default mode a cluster whose clocks differ shows what external consistency forbids, and the checkers
// notice it: a transaction that begins after another one was acknowledged has the earlier commit timestamp, and snapshots have it alone.
// The history is serializable all the same. Seeds are tried until one has such a snapshot; the order of timestamps shows it in nearly every one.
func TestCausalReverse(t *testing.T) {
	t.Parallel()
	var stamps, reads int
	seeds := simtest.Seeds(t, 1, 6)
	for _, seed := range seeds {
		w := &externalWorkload{seed: uint64(seed), lasting: 60 * time.Second, clients: 24, behind: true}
		begun := time.Now()
		synctest.Test(t, w.run)
		v := w.verdict()
		t.Logf("seed %d: %s, in %s", seed, v, time.Since(begun).Round(time.Millisecond))
		if err := v.report.At(history.Serializable); err != nil || len(w.problems) > 0 {
			t.Errorf("seed %d: %v %v", seed, err, w.problems)
		}
		if v.stamps != nil {
			stamps++
		}
		if err := v.report.At(history.Strict); err != nil && v.messages != nil {
			t.Logf("%v\n%v\n%v", err, v.messages, v.stamps)
			if reads++; len(seeds) <= 6 {
				break
			}
		}
	}
	t.Logf("%d seeds show it by timestamps, %d by reads", stamps, reads)
	if stamps == 0 || reads == 0 {
		t.Errorf("of seeds %v, %d show a causal reverse by timestamps, %d by reads", seeds, stamps, reads)
	}
}

// externalOn puts the database into the mode that is checked.
const externalOn = "ALTER DATABASE ext SET external_consistency = on"

// TestExternallyConsistent: in the mode of external consistency the history is strictly serializable, over all keys and for snapshots, too; whoever sees the later
// transaction of a chain of messages outside of the database sees the earlier one; and commit timestamps are in the order of time. Clocks
// differ as much as they may; every second seed has faults, and of the others every second one a node that learns the time late.
func TestExternallyConsistent(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := &externalWorkload{seed: uint64(seed), lasting: 60 * time.Second, clients: 24, declare: []string{externalOn}, moments: true,
				behind: seed%4 == 1, faults: seed%2 == 0}
			if seed%3 == 0 {
				w.maxOffset = 100 * time.Millisecond
			}
			begun := time.Now()
			synctest.Test(t, w.run)
			v := w.verdict()
			t.Logf("%s, in %s; %s", v, time.Since(begun).Round(time.Millisecond), strings.Join(w.about, ", "))
			t.Logf("no success: %v", v.why)
			if err := v.report.At(history.Strict); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			if v.messages != nil {
				t.Errorf("seed %d: %v", seed, v.messages)
			}
			if v.stamps != nil {
				t.Errorf("seed %d: %v", seed, v.stamps)
			}
			for _, p := range w.problems {
				t.Errorf("seed %d: %s", seed, p)
			}
			for code, err := range w.strange {
				t.Errorf("seed %d: an unexpected error, %s: %v", seed, code, err)
			}
			if t.Failed() {
				t.Logf("the plan was:\n%s", w.plan)
			}
		})
	}
}

// TestExternallyConsistentByMasters: nodes have their time from fifteen masters, three in each region, of which one lies, and their machines' clocks step by a second now and then: within the bound, the mode holds what it promises.
// A node whose clock drifts faster than its daemon takes into account notices it at a poll and leaves; what it has done before may be out of the order of time, and is serializable.
func TestExternallyConsistentByMasters(t *testing.T) {
	t.Parallel()
	for _, seed := range simtest.Seeds(t, 1, 2) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := &externalWorkload{seed: uint64(seed), lasting: 75 * time.Second, clients: 16, declare: []string{externalOn}, moments: true, masters: 15, drifts: seed%2 == 0}
			begun := time.Now()
			synctest.Test(t, w.run)
			v := w.verdict()
			t.Logf("%s, in %s; %s", v, time.Since(begun).Round(time.Millisecond), strings.Join(w.about, ", "))
			level := history.Strict
			if w.drifts {
				level = history.Serializable
				if w.left == 0 {
					t.Error("the node whose clock ran away has not left")
				}
			} else if v.messages != nil || v.stamps != nil {
				t.Errorf("seed %d: %v %v", seed, v.messages, v.stamps)
			}
			if err := v.report.At(level); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
			for code, err := range w.strange {
				t.Errorf("seed %d: an unexpected error, %s: %v", seed, code, err)
			}
		})
	}
}

// TestExternallyConsistentCampaign has all faults together: nodes crash, lose power in the middle of a sync, stand still and are cut off, links flap, leases move and ranges split, clocks drift, and those of machines step. Of four
// seeds two have their time from masters, of which one lies, a region's step by a second and some are cut off; the other two have machines' clocks that are right within the bound. As long as clocks
// keep to the bound the history is strictly serializable. In every second seed clocks don't: one runs away, or they step beyond the bound; their nodes leave, and the history is serializable.
func TestExternallyConsistentCampaign(t *testing.T) {
	t.Parallel()
	var sum externalVerdict
	var messages, left, anomalies int
	seeds := simtest.Seeds(t, 1, 2)
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := &externalWorkload{seed: uint64(seed), lasting: 60 * time.Second, clients: 24, declare: []string{externalOn}, moments: true, faults: true, all: true}
			beyond := seed%2 == 0
			if seed%4 == 1 || seed%4 == 2 {
				w.masters, w.drifts = 15, beyond
			} else {
				w.far = beyond
			}
			begun := time.Now()
			synctest.Test(t, w.run)
			v := w.verdict()
			t.Logf("%s, in %s; %s", v, time.Since(begun).Round(time.Millisecond), strings.Join(w.about, ", "))
			t.Logf("no success: %v", v.why)
			sum.ok, sum.snapshots, sum.failed, sum.unknown = sum.ok+v.ok, sum.snapshots+v.snapshots, sum.failed+v.failed, sum.unknown+v.unknown
			messages, left = messages+v.chains, left+w.left
			level := history.Strict
			if beyond {
				level = history.Serializable
			} else {
				for _, err := range []error{v.messages, v.stamps} {
					if err != nil {
						anomalies++
						t.Errorf("seed %d: %v", seed, err)
					}
				}
				if w.left > 0 {
					t.Errorf("seed %d: %d nodes have left", seed, w.left)
				}
			}
			if w.drifts && w.left == 0 {
				t.Errorf("seed %d: the node whose clock ran away has not left", seed)
			}
			if err := v.report.At(level); err != nil {
				anomalies++
				t.Errorf("seed %d: %v", seed, err)
			}
			for _, p := range w.problems {
				t.Errorf("seed %d: %s", seed, p)
			}
			for code, err := range w.strange {
				t.Errorf("seed %d: an unexpected error, %s: %v", seed, code, err)
			}
			if t.Failed() {
				t.Logf("the plan was:\n%s", w.plan)
			}
		})
	}
	t.Logf("%d seeds: %d transactions committed, %d of them snapshots, %d failed, %d unknown; %d messages; %d nodes left; %d anomalies",
		len(seeds), sum.ok, sum.snapshots, sum.failed, sum.unknown, messages, left, anomalies)
}
