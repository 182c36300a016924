package movr

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian/workload"
)

// MovR is the workload.
type MovR struct {
	Rows Rows
	Seed uint64
	// Cities are the places of the workers, as positions in the list of all; nil: all.
	Cities []int
}

// New makes the default: a few hundred users.
func New() *MovR {
	return &MovR{Rows: Rows{Users: 450, Vehicles: 180, Rides: 900, Locations: 900, PromoCodes: 50, UserPromoCodes: 200}, Seed: 1}
}

// Name implements workload.Workload.
func (m *MovR) Name() string { return "movr" }

// About implements workload.Workload.
func (m *MovR) About() string {
	return "a vehicle rental company: six tables with foreign keys, reads and two-table transactions"
}

// LoadSample makes the six tables with a modest number of rows, unless they are there already. Regions, if there are any, are those of the connection's database.
func LoadSample(ctx context.Context, conn *pgx.Conn, regions ...string) error {
	var one int
	err := conn.QueryRow(ctx, "SELECT 1 FROM user_promo_codes LIMIT 1").Scan(&one)
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil // a load is one transaction: all rows exist
	case errors.Is(err, pgx.ErrNoRows):
		return Load(ctx, conn, Sample, 1, true, regions...)
	case errors.As(err, &pg) && pg.Code == "42P01":
		return Load(ctx, conn, Sample, 1, false, regions...)
	}
	return err
}

// Load makes the six tables and fills them; replace drops those that are there. The tables are made by one string of
// statements and filled by another, so the network between client and server hardly matters. With regions the tables have localities.
func Load(ctx context.Context, conn *pgx.Conn, rows Rows, seed uint64, replace bool, regions ...string) error {
	var ddl []string
	if replace {
		for i := range Tables {
			ddl = append(ddl, "DROP TABLE IF EXISTS "+Tables[len(Tables)-1-i])
		}
	}
	if len(regions) > 0 {
		ddl = append(ddl, regional(regions)...)
	} else {
		ddl = append(ddl, schema[:]...)
	}
	if _, err := conn.Exec(ctx, strings.Join(ddl, ";\n")); err != nil {
		return fmt.Errorf("movr: tables: %w", err)
	}
	if _, err := conn.Exec(ctx, strings.Join(rows.statements(seed), ";\n")); err != nil {
		return fmt.Errorf("movr: rows: %w", err)
	}
	return nil
}

// Init implements workload.Workload.
func (m *MovR) Init(ctx context.Context, conn *pgx.Conn) error {
	return Load(ctx, conn, m.Rows, m.Seed, true)
}

// worker is one customer's device, which moves from city to city.
type worker struct {
	dice   *rand.Rand
	cities []int
	// ids draws identifiers of new rows. They must differ from those of other runs, whatever their seed.
	ids   *rand.Rand
	users [len(Cities)][]string
	open  [len(Cities)][]ride // rides that this worker began and has not ended
}

type ride struct{ id, vehicle string }

// Worker implements workload.Workload.
func (m *MovR) Worker(_ context.Context, dice *rand.Rand) (workload.Step, error) {
	w := &worker{dice: dice, cities: m.Cities, ids: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	return w.step, nil
}

func (w *worker) step(ctx context.Context, conn *pgx.Conn) (string, error) {
	city := w.dice.IntN(len(Cities))
	if len(w.cities) > 0 {
		city = w.cities[w.dice.IntN(len(w.cities))]
	}
	if w.users[city] == nil {
		rows, err := conn.Query(ctx, "SELECT id::text FROM users WHERE city = $1 ORDER BY id LIMIT 100", Cities[city].Name)
		if err != nil {
			return "users", err
		}
		if w.users[city], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return "users", err
		}
		if len(w.users[city]) == 0 {
			return "users", fmt.Errorf("movr: %s has no users; load with: workload init movr", Cities[city].Name)
		}
	}
	switch pick := w.dice.IntN(100); {
	case pick < 50:
		return "browse", w.browse(ctx, conn, city)
	case pick < 60:
		return "history", w.history(ctx, conn, city)
	case pick < 70:
		return "start", w.start(ctx, conn, city)
	case pick < 80:
		return "end", w.end(ctx, conn, city)
	case pick < 92:
		return "locate", w.locate(ctx, conn, city)
	case pick < 96:
		return "promo", w.promo(ctx, conn, city)
	}
	return "join", w.join(ctx, conn, city)
}

func drain(rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}

func (w *worker) user(city int) string { return w.users[city][w.dice.IntN(len(w.users[city]))] }

func (w *worker) browse(ctx context.Context, conn *pgx.Conn, city int) error {
	return drain(conn.Query(ctx, "SELECT id, type, status, current_location FROM vehicles WHERE city = $1 ORDER BY id LIMIT 25", Cities[city].Name))
}

func (w *worker) history(ctx context.Context, conn *pgx.Conn, city int) error {
	return drain(conn.Query(ctx, `SELECT r.id, r.start_time, r.revenue, v.type FROM rides AS r JOIN vehicles AS v ON v.city = r.vehicle_city AND v.id = r.vehicle_id
		WHERE r.city = $1 AND r.rider_id = $2::uuid LIMIT 20`, Cities[city].Name, w.user(city)))
}

// start takes a free vehicle. It is an ordinary outcome that none is free, or that another worker was faster.
func (w *worker) start(ctx context.Context, conn *pgx.Conn, city int) error {
	var r ride
	err := workload.InTxn(ctx, conn, func(tx pgx.Tx) error {
		r = ride{}
		rows, err := tx.Query(ctx, "SELECT id::text FROM vehicles WHERE city = $1 AND status = 'available' LIMIT 10", Cities[city].Name)
		if err != nil {
			return err
		}
		free, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(free) == 0 {
			return err
		}
		vehicle := free[w.dice.IntN(len(free))]
		tag, err := tx.Exec(ctx, "UPDATE vehicles SET status = 'in_use' WHERE city = $1 AND id = $2::uuid AND status = 'available'", Cities[city].Name, vehicle)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		r = ride{uuid(w.ids), vehicle}
		_, err = tx.Exec(ctx, `INSERT INTO rides (id, city, vehicle_city, rider_id, vehicle_id, start_address, start_time)
			VALUES ($1::uuid, $2, $2, $3::uuid, $4::uuid, $5, now())`, r.id, Cities[city].Name, w.user(city), r.vehicle, address(w.dice))
		return err
	})
	if err == nil && r.id != "" {
		w.open[city] = append(w.open[city], r)
	}
	return err
}

// end returns a vehicle: that of a ride of this worker or, if it has none, of any ride that an earlier run left open.
func (w *worker) end(ctx context.Context, conn *pgx.Conn, city int) error {
	var r ride
	if n := len(w.open[city]); n > 0 {
		r = w.open[city][n-1]
	} else {
		rows, err := conn.Query(ctx, "SELECT id::text, vehicle_id::text FROM rides WHERE city = $1 AND end_time IS NULL LIMIT 10", Cities[city].Name)
		if err != nil {
			return err
		}
		left, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r ride, err error) {
			err = row.Scan(&r.id, &r.vehicle)
			return r, err
		})
		if err != nil || len(left) == 0 {
			return err
		}
		r = left[w.dice.IntN(len(left))]
	}
	err := workload.InTxn(ctx, conn, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE rides SET end_address = $3, end_time = now(), revenue = $4::int / 100.0 WHERE city = $1 AND id = $2::uuid AND end_time IS NULL",
			Cities[city].Name, r.id, address(w.dice), 100+w.dice.IntN(4000))
		if err != nil || tag.RowsAffected() == 0 {
			return err // another worker ended it
		}
		_, err = tx.Exec(ctx, "UPDATE vehicles SET status = 'available', current_location = $3 WHERE city = $1 AND id = $2::uuid", Cities[city].Name, r.vehicle, address(w.dice))
		return err
	})
	if n := len(w.open[city]); err == nil && n > 0 {
		w.open[city] = w.open[city][:n-1]
	}
	return err
}

func (w *worker) locate(ctx context.Context, conn *pgx.Conn, city int) error {
	if len(w.open[city]) == 0 {
		return w.browse(ctx, conn, city)
	}
	r := w.open[city][w.dice.IntN(len(w.open[city]))]
	_, err := conn.Exec(ctx, `INSERT INTO vehicle_location_histories (city, ride_id, "timestamp", lat, long) VALUES ($1, $2::uuid, clock_timestamp(), $3, $4)
		ON CONFLICT (city, ride_id, "timestamp") DO NOTHING`, Cities[city].Name, r.id, w.dice.Float64()*180-90, w.dice.Float64()*360-180)
	return err
}

func (w *worker) promo(ctx context.Context, conn *pgx.Conn, city int) error {
	var code string
	err := conn.QueryRow(ctx, "SELECT code FROM promo_codes ORDER BY code LIMIT 1 OFFSET $1", w.dice.IntN(10)).Scan(&code)
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	}
	_, err = conn.Exec(ctx, `INSERT INTO user_promo_codes (city, user_id, code, "timestamp", usage_count) VALUES ($1, $2::uuid, $3, now(), 1)
		ON CONFLICT (city, user_id, code) DO UPDATE SET usage_count = user_promo_codes.usage_count + 1`, Cities[city].Name, w.user(city), code)
	return err
}

func (w *worker) join(ctx context.Context, conn *pgx.Conn, city int) error {
	_, err := conn.Exec(ctx, "INSERT INTO users (id, city, name, address, credit_card) VALUES ($1::uuid, $2, $3, $4, $5) ON CONFLICT (city, id) DO NOTHING", uuid(w.ids), Cities[city].Name,
		firstNames[w.dice.IntN(len(firstNames))]+" "+lastNames[w.dice.IntN(len(lastNames))], address(w.dice), fmt.Sprintf("%010d", w.dice.Int64N(1e10)))
	return err
}

// Check implements workload.Workload: vehicles in use and open rides correspond one to one, and no ride lost its rider.
func (m *MovR) Check(ctx context.Context, conn *pgx.Conn) error {
	var inUse, open, vehicles, stray, orphans int64
	err := conn.QueryRow(ctx, `SELECT
		(SELECT count(*) FROM vehicles WHERE status = 'in_use'),
		(SELECT count(*) FROM rides WHERE end_time IS NULL),
		(SELECT count(DISTINCT vehicle_id) FROM rides WHERE end_time IS NULL),
		(SELECT count(*) FROM rides AS r JOIN vehicles AS v ON v.city = r.vehicle_city AND v.id = r.vehicle_id WHERE r.end_time IS NULL AND v.status <> 'in_use'),
		(SELECT count(*) FROM rides AS r LEFT JOIN users AS u ON u.city = r.city AND u.id = r.rider_id WHERE u.id IS NULL)`).
		Scan(&inUse, &open, &vehicles, &stray, &orphans)
	if err != nil {
		return err
	}
	if inUse != open || vehicles != open || stray != 0 || orphans != 0 {
		return &workload.CheckError{Err: fmt.Errorf("%d vehicles are in use but %d rides of %d vehicles are open, %d of them with a free vehicle; %d rides have no rider",
			inUse, open, vehicles, stray, orphans)}
	}
	return nil
}
