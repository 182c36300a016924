package movr

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

var tuple = regexp.MustCompile(`(?m)^\t\((.*)\)[,]?$`)

// load reads the generated statements back: per table, the values of each row.
func load(t *testing.T, r Rows, seed uint64) map[string][][]string {
	t.Helper()
	tables := make(map[string][][]string)
	for _, s := range r.statements(seed) {
		name := strings.Fields(s)[2]
		for _, m := range tuple.FindAllStringSubmatch(s, -1) {
			var row []string
			for _, v := range strings.Split(m[1], ", ") {
				row = append(row, strings.Trim(v, "'"))
			}
			tables[name] = append(tables[name], row)
		}
	}
	return tables
}

// TestRowsReferToEachOther compares the rows with the foreign keys and with Check's invariants.
func TestRowsReferToEachOther(t *testing.T) {
	for _, r := range []Rows{Sample, New().Rows, {}, {Users: 10, Vehicles: 1200, Rides: 17, Locations: 40, PromoCodes: 3, UserPromoCodes: 100}} {
		got := load(t, r, 1)
		n := len(Cities)
		want := map[string]int{"users": max(r.Users, n), "vehicles": max(r.Vehicles, n), "rides": r.Rides, "vehicle_location_histories": r.Locations,
			"promo_codes": r.PromoCodes, "user_promo_codes": min(r.UserPromoCodes, max(r.Users, n)*r.PromoCodes)}
		for name, rows := range want {
			if len(got[name]) != rows {
				t.Errorf("%+v: %d rows in %s, not %d", r, len(got[name]), name, rows)
			}
		}
		keys := func(table string, columns ...int) map[string]bool {
			m := make(map[string]bool)
			for _, row := range got[table] {
				var k []string
				for _, c := range columns {
					k = append(k, row[c])
				}
				key := strings.Join(k, "|")
				if m[key] {
					t.Errorf("%s has %s twice", table, key)
				}
				m[key] = true
			}
			return m
		}
		users, vehicles, rides, codes := keys("users", 1, 0), keys("vehicles", 1, 0), keys("rides", 1, 0), keys("promo_codes", 0)
		keys("vehicle_location_histories", 0, 1, 2)
		keys("user_promo_codes", 0, 1, 2)
		status := make(map[string]string)
		for _, v := range got["vehicles"] {
			if !users[v[1]+"|"+v[3]] {
				t.Errorf("owner of %v", v)
			}
			status[v[0]] = v[5]
		}
		open := make(map[string]bool)
		for _, v := range got["rides"] {
			if v[1] != v[2] || !users[v[1]+"|"+v[3]] || !vehicles[v[1]+"|"+v[4]] {
				t.Errorf("ride %v", v)
			}
			if v[8] == "NULL" {
				if open[v[4]] || status[v[4]] != "in_use" {
					t.Errorf("open ride %v of a vehicle %s", v, status[v[4]])
				}
				open[v[4]] = true
			}
		}
		for id, s := range status {
			if (s == "in_use") != open[id] {
				t.Errorf("vehicle %s is %s", id, s)
			}
		}
		for _, v := range got["vehicle_location_histories"] {
			if !rides[v[0]+"|"+v[1]] {
				t.Errorf("location %v", v)
			}
		}
		for _, v := range got["user_promo_codes"] {
			if !users[v[0]+"|"+v[1]] || !codes[v[2]] {
				t.Errorf("promo code %v", v)
			}
		}
	}
}

func TestSeedDecides(t *testing.T) {
	if !slices.Equal(Sample.statements(1), Sample.statements(1)) {
		t.Error("one seed, two sets of rows")
	}
	if slices.Equal(Sample.statements(1), Sample.statements(2)) {
		t.Error("two seeds, one set of rows")
	}
}

var version4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestUUID(t *testing.T) {
	g := newGenerator(1)
	for range 1000 {
		if id := uuid(g.dice); !version4.MatchString(id) {
			t.Fatal(id)
		}
	}
}

// TestOnServer runs the workload on the server of MERIDIAN_TEST_URL, any that speaks PostgreSQL; Check must notice a
// ride without its vehicle.
func TestOnServer(t *testing.T) {
	url := os.Getenv("MERIDIAN_TEST_URL")
	if url == "" {
		t.Skip("MERIDIAN_TEST_URL is not set")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	m := New()
	if err := m.Init(ctx, conn); err != nil {
		t.Fatal(err)
	}
	if err := LoadSample(ctx, conn); err != nil { // does nothing
		t.Fatal(err)
	}
	for range 2 { // a second run with the same seed makes other rows
		if r, err := workload.Run(ctx, m, workload.Options{URLs: []string{url}, Concurrency: 8, MaxOps: 1000, CheckEvery: 100 * time.Millisecond, Seed: 1}); err != nil || r.Errors > 0 {
			t.Fatal(r, err)
		}
	}
	if _, err := conn.Exec(ctx, "UPDATE vehicles SET status = 'available' WHERE city = 'rome'"); err != nil {
		t.Fatal(err)
	}
	if err := m.Check(ctx, conn); err == nil {
		t.Error("a vehicle on a ride is free, and nobody noticed")
	}
}
