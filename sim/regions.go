package sim

import (
	"fmt"
	"slices"
	"time"
)

// Regions is a set of regions and the round-trip times between them.
type Regions struct {
	Names []string
	rtt   []time.Duration // square, row-major
}

// NewRegions takes the upper triangle of the round-trip matrix, row by row, in milliseconds: for three regions
// (0,1), (0,2), (1,2). It fails if the count does not fit, or a name repeats.
func NewRegions(names []string, rttMS ...float64) (*Regions, error) {
	n := len(names)
	if want := n * (n - 1) / 2; len(rttMS) != want {
		return nil, fmt.Errorf("sim: %d regions need %d round-trip times, not %d", n, want, len(rttMS))
	}
	r := &Regions{Names: slices.Clone(names), rtt: make([]time.Duration, n*n)}
	for i := range names {
		if slices.Index(names, names[i]) != i {
			return nil, fmt.Errorf("sim: region %q is named twice", names[i])
		}
		for j := i + 1; j < n; j++ {
			if rttMS[0] < 0 {
				return nil, fmt.Errorf("sim: round trip %s-%s is negative", names[i], names[j])
			}
			d := time.Duration(rttMS[0] * float64(time.Millisecond))
			r.rtt[i*n+j], r.rtt[j*n+i] = d, d
			rttMS = rttMS[1:]
		}
	}
	return r, nil
}

func mustRegions(names []string, rttMS ...float64) *Regions {
	r, err := NewRegions(names, rttMS...)
	if err != nil {
		panic(err)
	}
	return r
}

// ThreeRegions is the published matrix of us-east1, us-west1 and europe-west1: 63, 87 and 132 ms.
func ThreeRegions() *Regions {
	return mustRegions([]string{"us-east1", "us-west1", "europe-west1"}, 63, 87, 132)
}

// FiveRegions is the published matrix of the five-region experiments.
func FiveRegions() *Regions {
	return mustRegions([]string{"us-east1", "us-west1", "europe-west1", "asia-northeast1", "australia-southeast1"},
		63, 87, 155, 198,
		132, 90, 156,
		222, 274,
		113)
}

// RTT is the round trip between two regions; zero within a region or if one is unknown.
func (r *Regions) RTT(a, b string) time.Duration {
	if r == nil {
		return 0
	}
	i, j := slices.Index(r.Names, a), slices.Index(r.Names, b)
	if i < 0 || j < 0 {
		return 0
	}
	return r.rtt[i*len(r.Names)+j]
}

// WithoutLatency is the same regions with no distance between them.
func (r *Regions) WithoutLatency() *Regions {
	return &Regions{Names: r.Names, rtt: make([]time.Duration, len(r.rtt))}
}
