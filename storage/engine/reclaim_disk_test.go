package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"meridian/keys"
	"meridian/sim"
	"meridian/storage/engine"
)

// TestFreedSpaceComesBack fills a small disk with rows of one table after another, each in flushes that overlap nowhere, and clears the table before: in each of the ways in which batches clear a span (engine.EN7).
func TestFreedSpaceComesBack(t *testing.T) {
	const size, reserve = 48 << 20, 16 << 20
	for _, how := range []string{"cleared", "of another store's batch", "in parts of another store's batch", "of another batch", "one by one"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine := sim.NewMachine(sim.MachineOptions{Name: "a", Network: sim.NewNetwork(sim.NetworkOptions{Seed: 1}), Seed: 1})
				disk, h := machine.Disk, machine.Boot(t.Context())
				defer h.Group.Stop()
				e, err := engine.Open(h, "store", engine.Options{ReserveBytes: reserve, MemTableBytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				disk.SetSize(size)
				dice := rand.New(rand.NewPCG(1, 1))
				value := make([]byte, 8<<10)
				first := 0
				for round := range 4 {
					table := func(i int) keys.Key { return keys.Key(fmt.Sprintf("table %d row %06d", round, i)) }
					rows := 0
					for ; !e.DiskFull(); rows++ {
						for i := range value {
							value[i] = byte(dice.Uint32())
						}
						b := e.NewBatch()
						b.Put(table(rows), value)
						if err := b.Commit(true); err != nil {
							t.Fatal(err)
						}
						b.Close()
						time.Sleep(time.Millisecond)
					}
					span := keys.Span{Start: table(0), End: table(rows)}
					b, o := e.NewBatch(), e.NewBatch()
					switch how {
					case "cleared":
						b.ClearSpan(span)
					case "of another batch":
						o.ClearSpan(span)
						err = b.Apply(o)
					case "of another store's batch":
						o.ClearSpan(span)
						err = b.ApplyRepr(o.Repr())
					case "in parts of another store's batch":
						o.ClearSpan(span)
						err = b.ApplyReprOf(o.Repr(), func(keys.Key) bool { return true })
					case "one by one":
						for i := range rows {
							b.Delete(table(i))
						}
						b.Freed(span)
					}
					if err != nil {
						t.Fatal(err)
					}
					if err := b.Commit(true); err != nil {
						t.Fatal(err)
					}
					b.Close()
					o.Close()
					time.Sleep(20 * time.Second)
					if n, err := e.EstimateBytes(span); err != nil || n > 256<<10 || e.DiskFull() {
						t.Errorf("round %d: %d KiB are left of %d rows, full: %v, %v", round, n>>10, rows, e.DiskFull(), err)
					}
					if round == 0 {
						first = rows
					} else if 10*rows < 9*first {
						t.Errorf("round %d takes %d rows, the first took %d", round, rows, first)
					}
				}
			})
		})
	}
}
