package sim

import (
	"fmt"
	"math"
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

// World is the first n of 26 regions all over the world. The first four are in North America, the next six in Europe and Asia. A round trip is 3 ms, and 1 ms for each 66 km: light in fibre
// takes 1 ms for 100 km there and back, and cables are half as long again as the shortest way. So us-east1 and us-west1 are 60 ms apart, where 63 ms were measured, and us-east1 and
// europe-west1 106 ms, where it was 87.
func World(n int) *Regions {
	places := [...]struct {
		name        string
		north, east float64 // degrees
	}{
		{"us-east1", 33.2, -80.0}, {"us-central1", 41.3, -95.9}, {"us-west1", 45.6, -121.2}, {"northamerica-northeast1", 45.5, -73.6},
		{"europe-west1", 50.5, 3.8}, {"europe-west3", 50.1, 8.7}, {"europe-north1", 60.6, 27.2},
		{"asia-northeast1", 35.7, 139.8}, {"asia-east1", 24.1, 120.5}, {"asia-southeast1", 1.4, 103.8},
		{"us-east4", 39.0, -77.5}, {"us-west2", 34.1, -118.2}, {"us-west3", 40.8, -111.9}, {"us-west4", 36.2, -115.1}, {"northamerica-northeast2", 43.7, -79.4},
		{"southamerica-east1", -23.6, -46.6}, {"europe-west2", 51.5, -0.1}, {"europe-west4", 53.4, 6.8}, {"europe-west6", 47.4, 8.5}, {"europe-central2", 52.2, 21.0},
		{"asia-east2", 22.3, 114.2}, {"asia-northeast2", 34.7, 135.5}, {"asia-northeast3", 37.6, 127.0}, {"asia-south1", 19.1, 72.9}, {"asia-southeast2", -6.2, 106.8},
		{"australia-southeast1", -33.9, 151.2},
	}
	var names []string
	var rtts []float64
	for i, a := range places[:n] {
		names = append(names, a.name)
		for _, b := range places[i+1 : n] {
			const degree = math.Pi / 180
			cos := math.Sin(a.north*degree)*math.Sin(b.north*degree) + math.Cos(a.north*degree)*math.Cos(b.north*degree)*math.Cos((a.east-b.east)*degree)
			rtts = append(rtts, math.Round(3+6371*math.Acos(min(max(cos, -1), 1))/66))
		}
	}
	return mustRegions(names, rtts...)
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
