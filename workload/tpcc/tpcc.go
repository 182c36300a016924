package tpcc

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// Sizes of clause 4.3.3.1, at full scale.
const (
	districts       = 10
	fullCustomers   = 3000
	fullItems       = 100_000
	lastNames       = 1000
	maxLines        = 15
	initialPayment  = 10_00
	perWarehouseMax = 12.86 // transactions per minute that the waits allow (clause 4.1.2's comment)
)

// TPCC is the workload.
type TPCC struct {
	Warehouses int
	// ScaleDown divides the customers, orders and items. Results with another value than 1 can't be compared with any other result.
	ScaleDown int
	// Wait has terminals key and think, as the specification wants. Without it they do not wait, and draw a warehouse for each transaction.
	Wait bool
	// Regions, if any, are the database's regions, each home of consecutive warehouses.
	Regions []string
	// Keyed gives rows of history a key that begins with their warehouse also without Regions, as partitions by warehouse need.
	Keyed bool
	// NoForeignKeys leaves the foreign keys out.
	NoForeignKeys bool
	// Quick checks only the first four of the consistency conditions.
	Quick bool
	// Inserts has rows loaded by INSERT. COPY is faster, but pgx holds a mutex while it waits for COPY's answer, so virtual time would stand still.
	Inserts bool
	// Loaders is how many connections load rows.
	Loaders int
	Seed    uint64

	// rolledBack counts new-order transactions with an item that does not exist, remote those with a line of another warehouse, skipped the
	// districts that had no order to deliver.
	rolledBack, remote, skipped atomic.Int64
}

// New makes the default: one warehouse, with keying and think times.
func New() *TPCC { return &TPCC{Warehouses: 1, ScaleDown: 1, Wait: true, Loaders: 4, Seed: 1} }

// Name implements workload.Workload.
func (t *TPCC) Name() string { return "tpcc" }

// About implements workload.Workload.
func (t *TPCC) About() string {
	return "TPC-C: five transactions of a wholesaler over nine tables, with keying and think times"
}

// The smallest districts and catalogues: an order has up to fifteen different items.
const minCustomers, minItems = 10, 100

func (t *TPCC) customers() int { return max(fullCustomers/max(t.ScaleDown, 1), minCustomers) }
func (t *TPCC) items() int     { return max(fullItems/max(t.ScaleDown, 1), minItems) }

// undelivered is how many of a district's first orders wait for their delivery.
func (t *TPCC) undelivered() int { return t.customers() * 3 / 10 }

// Terminals is how many workers the specification wants: ten per warehouse.
func (t *TPCC) Terminals() int { return districts * t.Warehouses }

// warehousesOf returns the first and the last warehouse of a region, by its index.
func (t *TPCC) warehousesOf(region int) (first, last int) {
	n := max(len(t.Regions), 1)
	return region*t.Warehouses/n + 1, (region + 1) * t.Warehouses / n
}

// RegionOfWorker returns the index of the region in which a worker sits.
func (t *TPCC) RegionOfWorker(id int) int {
	if len(t.Regions) == 0 {
		return 0
	}
	if !t.Wait {
		return id % len(t.Regions)
	}
	w := t.warehouseOfTerminal(id)
	for i := range t.Regions {
		if _, last := t.warehousesOf(i); w <= last {
			return i
		}
	}
	return 0
}

// warehouseOfTerminal deals terminals to the warehouses in turn.
func (t *TPCC) warehouseOfTerminal(id int) int { return id%t.Warehouses + 1 }

func (t *TPCC) valid() error {
	switch {
	case t.Warehouses < 1:
		return errors.New("tpcc: there must be a warehouse")
	case t.ScaleDown < 1:
		return errors.New("tpcc: the scale can't be divided by less than 1")
	case len(t.Regions) > t.Warehouses:
		return fmt.Errorf("tpcc: %d regions need as many warehouses, not %d", len(t.Regions), t.Warehouses)
	}
	return nil
}

// Init implements workload.Workload.
func (t *TPCC) Init(ctx context.Context, conn *pgx.Conn) error {
	if err := t.valid(); err != nil {
		return err
	}
	exec := func(sql string) error {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
		return nil
	}
	// In one statement: the tables refer to each other.
	var names []string
	for _, b := range tables {
		names = append(names, b.name)
	}
	if err := exec("DROP TABLE IF EXISTS " + strings.Join(names, ", ")); err != nil {
		return err
	}
	if err := t.addRegions(ctx, conn); err != nil {
		return err
	}
	for _, sql := range t.Schema() {
		if err := exec(sql); err != nil {
			return err
		}
	}
	if err := t.load(ctx, conn); err != nil {
		return err
	}
	if !t.NoForeignKeys {
		for _, sql := range references {
			if err := exec(sql); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if err := exec("ANALYZE " + name); err != nil {
			return err
		}
	}
	return nil
}

// addRegions gives the database those regions that it does not have yet.
func (t *TPCC) addRegions(ctx context.Context, conn *pgx.Conn) error {
	if len(t.Regions) == 0 {
		return nil
	}
	var database string
	if err := conn.QueryRow(ctx, "SELECT current_database()").Scan(&database); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, "SHOW REGIONS FROM DATABASE "+quote(database))
	if err != nil {
		return fmt.Errorf("tpcc: regions of the database: %w", err)
	}
	defer rows.Close()
	there := make(map[string]bool)
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			return err
		}
		if len(v) > 1 {
			there[fmt.Sprint(v[1])] = true
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("tpcc: regions of the database: %w", err)
	}
	for i, sql := range workload.DatabaseRegions(database, t.Regions) {
		if there[t.Regions[i]] {
			continue
		}
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// money is an amount in cents.
type money int64

func (m money) append(b []byte) []byte {
	if m < 0 {
		b, m = append(b, '-'), -m
	}
	b = append(strconv.AppendInt(b, int64(m/100), 10), '.')
	return append(b, byte('0'+m/10%10), byte('0'+m%10))
}
