package campaign_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"meridian/commit/leader"
	"meridian/keys"
	"meridian/placement"
	"meridian/probe"
	"meridian/rangeserver"
	"meridian/server"
	"meridian/sim/simcluster/simtest"
)

// The campaign of GLOBAL tables: TestCampaign's clients, faults and checkers, while the ranges of tables begin and cease to close the future. Some
// transactions are over tables of both kinds, and ranges of both kinds are split, merged and moved. All must be as before: what was
// acknowledged stays (I1), transactions are whole and serializable (I2, I3), single keys are linearizable (I4), also those that replicas without
// the lease serve, and no command writes at or below what was closed (I6, at each command that is applied).
// MERIDIAN_SEEDS, MERIDIAN_FIRST and MERIDIAN_SEED are TestCampaign's.

func TestGlobalCampaign(t *testing.T) {
	t.Parallel()
	seeds := simtest.Seeds(t, 1, 1)
	var virtual time.Duration
	present := int64(0)
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			p := &policies{seed: uint64(seed)}
			k := &campaign{seed: uint64(seed), stop: make(chan struct{}), probes: &probe.Set{}, configure: p.configure,
				before: []string{"SET CLUSTER SETTING replicas.nonvoters = 1"}}
			defer simtest.Watchdog(seed).Stop()
			synctest.Test(t, func(t *testing.T) {
				done := make(chan struct{})
				go p.change(done)
				k.run(t)
				close(done)
			})
			if err := k.regs.Check(time.Minute); err != nil && len(k.far) == 0 { // I4 holds within the bound only
				k.problem("%v", err)
			}
			virtual += k.took
			present += k.probes.Count(leader.ProbePresent)
			t.Logf("%d reads of the present were served without the lease, %d waited for that; %s", k.probes.Count(leader.ProbePresent),
				k.probes.Count(leader.ProbePresentWaits), k.summary())
			if len(k.problems) > 0 {
				t.Errorf("seed %d, %s:\n%s\nThe plan was:\n%s", seed, k.topology, strings.Join(k.problems, "\n"), k.plan)
			}
		})
	}
	t.Logf("%.1f cluster-minutes, %d reads of the present without the lease", virtual.Minutes(), present)
	if present == 0 {
		t.Error("no read of the present was served without the lease")
	}
}

// policies are the configurations of a campaign: which tables are GLOBAL changes all the time.
type policies struct {
	seed  uint64
	phase atomic.Uint64
}

func (p *policies) configure(_ int, o *server.Options) {
	o.Zones = func(inner rangeserver.ZoneSource) rangeserver.ZoneSource { return policyZones{inner, p} }
}

// change begins another phase now and then.
func (p *policies) change(done chan struct{}) {
	for n := uint64(1); ; n++ {
		select {
		case <-done:
			return
		case <-time.After(time.Duration(2+(p.seed+n)%5) * time.Second):
			p.phase.Add(1)
		}
	}
}

// policyZones is a node's view of them.
type policyZones struct {
	rangeserver.ZoneSource
	p *policies
}

func (z policyZones) Zone(k keys.Key) (placement.Zone, keys.Span) {
	zone, span := z.ZoneSource.Zone(k)
	if id, ok := tableOf(k); ok {
		// Three phases of four, each table has its own order.
		zone.GlobalReads = (uint64(id)+z.p.phase.Load()+z.p.seed)%4 != 0
	}
	return zone, span
}

func (z policyZones) Generation() uint64 { return z.ZoneSource.Generation() + z.p.phase.Load()<<32 }

// tableOf is the table that a key belongs to.
func tableOf(k keys.Key) (uint32, bool) {
	for id := uint32(16384); id < 16384+64; id++ {
		if keys.TableSpan(id).Contains(k) {
			return id, true
		}
	}
	return 0, false
}
