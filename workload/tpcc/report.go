package tpcc

import (
	"fmt"
	"io"

	"meridian/workload"
)

// Figures of a run that TPC-C names.
type Figures struct {
	// TpmC is new-order transactions per minute, those included that a user's error rolled back.
	TpmC float64
	// Efficiency is TpmC as a share of the most that the waits allow for the warehouses; without waits it says nothing.
	Efficiency float64
}

// Figures computes them from a run.
func (t *TPCC) Figures(r *workload.Result) (f Figures) {
	if h := r.Kinds[newOrder]; h != nil && r.Elapsed > 0 {
		f.TpmC = float64(h.TotalCount()) / r.Elapsed.Minutes()
	}
	f.Efficiency = f.TpmC / (perWarehouseMax * float64(t.Warehouses))
	return f
}

// Report implements workload.Reporter.
func (t *TPCC) Report(out io.Writer, r *workload.Result) {
	fmt.Fprintln(out, "\ntransaction      count    share   p50(ms)   p90(ms)   p99(ms)   max(ms)")
	ms := func(us int64) float64 { return float64(us) / 1000 }
	for _, k := range kinds() {
		h := r.Kinds[k.name]
		if h == nil {
			continue
		}
		fmt.Fprintf(out, "%-12s %9d %6.1f %% %9.2f %9.2f %9.2f %9.2f\n", k.name, h.TotalCount(), 100*float64(h.TotalCount())/float64(max(r.Ops, 1)),
			ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99)), ms(h.Max()))
	}
	f := t.Figures(r)
	fmt.Fprintf(out, "tpmC %.1f with %d warehouses", f.TpmC, t.Warehouses)
	if t.Wait {
		fmt.Fprintf(out, ", efficiency %.1f %%", 100*f.Efficiency)
	} else {
		fmt.Fprint(out, ", without keying and think times")
	}
	fmt.Fprintf(out, "; %d new orders rolled back, %d with remote lines, %d deliveries skipped\n", t.rolledBack.Load(), t.remote.Load(), t.skipped.Load())
	if t.ScaleDown > 1 {
		fmt.Fprintf(out, "the scale was divided by %d: these figures are not comparable with those of TPC-C\n", t.ScaleDown)
	}
}
