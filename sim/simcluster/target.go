package simcluster

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"meridian/sim/fault"
)

// Target lets fault plans be carried out on a Cluster. A crash loses unsynced data, except for a random share.
type Target struct {
	c *Cluster

	mu     sync.Mutex // guards dice and paused
	dice   *rand.Rand
	paused map[string]bool
}

// Target makes a target; the seed decides how much unsynced data survives crashes.
func (c *Cluster) Target(seed uint64) *Target {
	return &Target{c: c, dice: rand.New(rand.NewPCG(seed, 0xc4a54)), paused: map[string]bool{}}
}

// Names are the machines' names, for fault.Options.
func (c *Cluster) Names() (names []string) {
	for _, m := range c.Machines {
		names = append(names, m.Name)
	}
	return names
}

func (t *Target) index(name string) int {
	for i, m := range t.c.Machines {
		if m.Name == name {
			return i
		}
	}
	panic("simcluster: no machine " + name)
}

// Crash implements fault.Target.
func (t *Target) Crash(node string, silent bool) error {
	t.mu.Lock()
	percent := t.dice.IntN(101)
	if t.dice.IntN(2) == 0 {
		percent = 0
	}
	t.mu.Unlock()
	t.c.Crash(t.index(node), percent, silent)
	return nil
}

// Restart implements fault.Target.
func (t *Target) Restart(node string) error {
	i := t.index(node)
	if t.c.Node(i) != nil && t.c.o.Binary == nil {
		return fmt.Errorf("simcluster: %s runs", node)
	}
	return t.c.TryBoot(i)
}

// Isolate implements fault.Target.
func (t *Target) Isolate(node string) { t.c.Network.Isolate(node) }

// Rejoin implements fault.Target.
func (t *Target) Rejoin(node string) {
	t.c.Network.Rejoin(node)
	t.stayPaused()
}

// Cut implements fault.Target.
func (t *Target) Cut(a, b string, oneWay bool) {
	if oneWay {
		t.c.Network.PartitionOneWay(a, b)
	} else {
		t.c.Network.Partition(a, b)
	}
}

// Heal implements fault.Target.
func (t *Target) Heal(a, b string) {
	t.c.Network.Heal(a, b)
	t.stayPaused()
}

// stayPaused keeps paused nodes isolated, also on links that other repairs have opened.
func (t *Target) stayPaused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for node := range t.paused {
		t.c.Network.Isolate(node)
	}
}

func (t *Target) pause(node string, on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if delete(t.paused, node); on {
		t.paused[node] = true
	}
}

// Slow implements fault.Target.
func (t *Target) Slow(from, to string, extra time.Duration) { t.c.Network.Slow(from, to, extra) }

// Reset implements fault.Target.
func (t *Target) Reset(a, b string) { t.c.Network.Reset(a, b) }

// Skew implements fault.Target.
func (t *Target) Skew(node string, offset time.Duration) {
	t.c.Machines[t.index(node)].Clock.SetOffset(offset)
}

// SlowDisk implements fault.Target.
func (t *Target) SlowDisk(node string, delay time.Duration) {
	t.c.Machines[t.index(node)].Disk.SetSyncDelay(delay)
}

// Pause implements fault.Target.
func (t *Target) Pause(node string) {
	t.pause(node, true)
	t.c.Network.Isolate(node)
	t.c.Machines[t.index(node)].Clock.Freeze()
}

// Resume implements fault.Target.
func (t *Target) Resume(node string) {
	t.pause(node, false)
	t.c.Machines[t.index(node)].Clock.Thaw()
	t.Rejoin(node)
}

// CrashSync implements fault.Target.
func (t *Target) CrashSync(node string, syncs int) {
	i := t.index(node)
	t.c.CrashAtSync(i, syncs)
}

// Revive implements fault.Target.
func (t *Target) Revive(node string) error {
	i := t.index(node)
	m := t.c.Machines[i]
	m.Disk.OnSync(0, nil)
	if t.c.Node(i) != nil {
		return nil
	}
	return t.c.TryBoot(i)
}

// HealEverything repairs all faults that a plan may have left: links, clocks, disks, and nodes that are down.
func (t *Target) HealEverything() error {
	for _, m := range t.c.Machines {
		t.pause(m.Name, false)
		m.Clock.Thaw()
	}
	t.c.Network.HealAll()
	for i, m := range t.c.Machines {
		m.Clock.SetOffset(0)
		m.Disk.SetSyncDelay(0)
		m.Disk.OnSync(0, nil)
		if t.c.Node(i) == nil {
			if err := t.c.TryBoot(i); err != nil {
				return err
			}
		}
	}
	return nil
}

var _ fault.Target = (*Target)(nil)
