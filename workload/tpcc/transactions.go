package tpcc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// numeric is an amount as a parameter.
func (m money) numeric() pgtype.Numeric {
	return pgtype.Numeric{Int: big.NewInt(int64(m)), Exp: -2, Valid: true}
}

// cents reads a number with at most two decimal places.
func cents(n pgtype.Numeric) (money, error) {
	if !n.Valid || n.NaN || n.Int == nil || n.Exp < -2 || n.Exp > 12 {
		return 0, fmt.Errorf("tpcc: %v is not an amount", n)
	}
	v := new(big.Int).Mul(n.Int, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.Exp)+2), nil))
	if !v.IsInt64() {
		return 0, fmt.Errorf("tpcc: %v is not an amount", n)
	}
	return money(v.Int64()), nil
}

// trip is a batch of statements that takes one round trip. Statements are prepared once per connection.
type trip struct{ pgx.Batch }

// rows queues a query and reads its rows with scan.
func (t *trip) rows(sql string, args []any, scan func(pgx.Rows) error) {
	t.Queue(sql, args...).Query(func(r pgx.Rows) error {
		for r.Next() {
			if err := scan(r); err != nil {
				return err
			}
		}
		return r.Err()
	})
}

// one queues a query for exactly one row.
func (t *trip) one(what, sql string, args []any, into ...any) {
	t.Queue(sql, args...).QueryRow(func(r pgx.Row) error {
		if err := r.Scan(into...); err != nil {
			return fmt.Errorf("tpcc: %s: %w", what, err)
		}
		return nil
	})
}

// changes queues a statement that has to change this many rows.
func (t *trip) changes(n int, what, sql string, args ...any) {
	t.Queue(sql, args...).Exec(func(tag pgconn.CommandTag) error {
		if got := tag.RowsAffected(); got != int64(n) {
			return fmt.Errorf("tpcc: %s: %d rows were changed, not %d", what, got, n)
		}
		return nil
	})
}

// send does the trip. If it fails, the transaction is rolled back.
func (t *trip) send(ctx context.Context, conn *pgx.Conn) error {
	err := conn.SendBatch(ctx, &t.Batch).Close()
	if err != nil {
		rollBack(ctx, conn)
	}
	return err
}

func rollBack(ctx context.Context, conn *pgx.Conn) {
	if !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		conn.Exec(ctx, "ROLLBACK")
	}
}

// line is one line of an order.
type line struct{ item, supply, quantity int }

const (
	// The district's row comes first: it is the one for which new orders of a district and payments wait, before they have read anything else.
	newOrderDistrict = `UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2 RETURNING d_next_o_id - 1, d_tax`
	newOrderCustomer = `SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = $1 AND c_w_id = $1 AND c_d_id = $2 AND c_id = $3`
	newOrderItems    = `SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id = ANY($1::int[])`
	// One statement takes from the stock of one warehouse; %02d is the district. The items of an order differ, so that each row has one quantity.
	newOrderStock = `UPDATE stock SET
		s_quantity = s_quantity - ($3::int[])[array_position($2::int[], s_i_id)] + CASE WHEN s_quantity >= ($3::int[])[array_position($2::int[], s_i_id)] + 10 THEN 0 ELSE 91 END,
		s_ytd = s_ytd + ($3::int[])[array_position($2::int[], s_i_id)], s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $4
		WHERE s_w_id = $1 AND s_i_id = ANY($2::int[]) RETURNING s_i_id, s_quantity, s_data, s_dist_%02d`
	newOrderOrder = `INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	newOrderNew   = `INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)`
	newOrderLines = `INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
		SELECT $1, $2, $3, n, i, s, q, a, d FROM unnest($4::int[], $5::int[], $6::int[], $7::int[], $8::decimal[], $9::text[]) AS l (n, i, s, q, a, d)`
)

// newOrder enters an order (clause 2.4): two round trips.
func (m *terminal) newOrder() transaction {
	w, d, c := m.home(), m.anyDistrict(), m.anyCustomer()
	n := between(m.dice, 5, maxLines)
	lines := make([]line, 0, n)
	local := 1
	for len(lines) < n {
		l := line{m.anyItem(), w, between(m.dice, 1, 10)}
		if slices.ContainsFunc(lines, func(o line) bool { return o.item == l.item }) {
			continue
		}
		if m.percent(1) {
			if l.supply = m.otherWarehouse(w); l.supply != w {
				local = 0
			}
		}
		lines = append(lines, l)
	}
	if m.percent(1) {
		lines[n-1].item = m.items() + 1 // not there: the user's error (clause 2.4.1.4)
	}
	// In one order for all terminals, so that none waits for the other.
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(a.supply-b.supply, a.item-b.item) })
	return func(ctx context.Context, conn *pgx.Conn) error { return m.enterOrder(ctx, conn, w, d, c, local, lines) }
}

func (m *terminal) enterOrder(ctx context.Context, conn *pgx.Conn, w, d, c, local int, lines []line) error {
	var (
		o                               int
		districtTax, warehouseTax, less pgtype.Numeric
		last, credit                    string
		prices                          = make(map[int]money)
		info                            = make(map[int]string)
	)
	var first trip
	first.Queue("BEGIN")
	first.one("district", newOrderDistrict, []any{w, d}, &o, &districtTax)
	first.one("customer", newOrderCustomer, []any{w, d, c}, &less, &last, &credit, &warehouseTax)
	var items []int
	for _, l := range lines {
		items = append(items, l.item)
	}
	first.rows(newOrderItems, []any{items}, func(r pgx.Rows) error {
		var i int
		var price pgtype.Numeric
		var name, data string
		if err := r.Scan(&i, &price, &name, &data); err != nil {
			return err
		}
		v, err := cents(price)
		prices[i] = v
		return err
	})
	for rest := lines; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(l line) bool { return l.supply != rest[0].supply })
		if n < 0 {
			n = len(rest)
		}
		var items, quantities []int
		for _, l := range rest[:n] {
			items, quantities = append(items, l.item), append(quantities, l.quantity)
		}
		remote := 0
		if rest[0].supply != w {
			remote = 1
		}
		first.rows(fmt.Sprintf(newOrderStock, d), []any{rest[0].supply, items, quantities, remote}, func(r pgx.Rows) error {
			var i, quantity int
			var data, dist string
			err := r.Scan(&i, &quantity, &data, &dist)
			info[i] = dist
			return err
		})
		rest = rest[n:]
	}
	if err := first.send(ctx, conn); err != nil {
		return err
	}
	if len(prices) < len(lines) {
		_, err := conn.Exec(ctx, "ROLLBACK")
		if err == nil {
			m.rolledBack.Add(1)
		}
		return err
	}
	var numbers, supplies, quantities []int
	var amounts []pgtype.Numeric
	var dists []string
	for i, l := range lines {
		if _, ok := info[l.item]; !ok {
			rollBack(ctx, conn)
			return fmt.Errorf("tpcc: warehouse %d has no stock of item %d", l.supply, l.item)
		}
		numbers, supplies, quantities = append(numbers, i+1), append(supplies, l.supply), append(quantities, l.quantity)
		amounts, dists = append(amounts, (money(l.quantity)*prices[l.item]).numeric()), append(dists, info[l.item])
	}
	var second trip
	second.changes(1, "order", newOrderOrder, o, d, w, c, time.Now().UTC(), len(lines), local)
	second.changes(1, "new order", newOrderNew, o, d, w)
	second.changes(len(lines), "lines", newOrderLines, o, d, w, numbers, items, supplies, quantities, amounts, dists)
	second.Queue("COMMIT")
	if err := second.send(ctx, conn); err != nil {
		return err
	}
	if local == 0 {
		m.remote.Add(1)
	}
	return nil
}

// customerByName finds the middle one of the customers of a name, by first name (clause 2.5.2.2).
const customerByName = `SELECT c_id FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first`

// customer names one: by its number or by its last name.
type customer struct {
	w, d, id int
	last     string
}

// anyone draws a customer of a district, six in ten by last name.
func (m *terminal) anyone(w, d int) customer {
	if m.percent(60) {
		return customer{w: w, d: d, last: m.anyLastName()}
	}
	return customer{w: w, d: d, id: m.anyCustomer()}
}

// find looks the customer's number up if only the name is known: one round trip. Numbers and names do not change.
func (c *customer) find(ctx context.Context, conn *pgx.Conn) (int, error) {
	if c.id != 0 {
		return c.id, nil
	}
	rows, err := conn.Query(ctx, customerByName, c.w, c.d, c.last)
	if err != nil {
		return 0, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, fmt.Errorf("tpcc: no customer %s in district %d of warehouse %d", c.last, c.d, c.w)
	}
	return ids[(len(ids)-1)/2], nil
}

const (
	paymentDistrict = `UPDATE district SET d_ytd = d_ytd + $3 WHERE d_w_id = $1 AND d_id = $2
		RETURNING d_name, d_street_1, d_street_2, d_city, d_state, d_zip`
	// Customers with bad credit have a log of their payments.
	paymentCustomer = `UPDATE customer SET c_balance = c_balance - $4, c_ytd_payment = c_ytd_payment + $4, c_payment_cnt = c_payment_cnt + 1,
		c_data = CASE c_credit WHEN 'BC' THEN left($5 || c_data, 500) ELSE c_data END WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3
		RETURNING c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance,
		CASE c_credit WHEN 'BC' THEN left(c_data, 200) END`
	// The warehouse's row comes last: all payments of a warehouse wait for each other there.
	paymentWarehouse = `UPDATE warehouse SET w_ytd = w_ytd + $2 WHERE w_id = $1 RETURNING w_name, w_street_1, w_street_2, w_city, w_state, w_zip`
	paymentHistory   = `INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
		SELECT $1, $2, $3, $4, $5, $6, $7, w_name || '    ' || d_name FROM warehouse, district WHERE w_id = $5 AND d_w_id = $5 AND d_id = $4`
)

// payment books a customer's payment (clause 2.5): one round trip, and one to find a name.
func (m *terminal) payment() transaction {
	w, d := m.home(), m.anyDistrict()
	at, in := w, d
	if m.percent(15) {
		if at = m.otherWarehouse(w); at != w {
			in = m.anyDistrict()
		}
	}
	c, amount := m.anyone(at, in), money(between(m.dice, 1_00, 5000_00))
	return func(ctx context.Context, conn *pgx.Conn) error {
		id, err := c.find(ctx, conn)
		if err != nil {
			return err
		}
		note := fmt.Sprintf("%d %d %d %d %d %.2f|", id, c.d, c.w, d, w, float64(amount)/100)
		var t trip
		t.Queue("BEGIN")
		t.rows(paymentDistrict, []any{w, d, amount.numeric()}, ignore)
		t.rows(paymentCustomer, []any{c.w, c.d, id, amount.numeric(), note}, ignore)
		t.rows(paymentWarehouse, []any{w, amount.numeric()}, ignore)
		t.changes(1, "history", paymentHistory, id, c.d, c.w, d, w, time.Now().UTC(), amount.numeric())
		t.Queue("COMMIT")
		return t.send(ctx, conn)
	}
}

// ignore reads a row that a terminal would show.
func ignore(r pgx.Rows) error { return nil }

const (
	statusCustomer = `SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3`
	statusOrder    = `SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1`
	statusLines    = `SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2
		AND ol_o_id = (SELECT max(o_id) FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3)`
)

// orderStatus shows a customer's last order (clause 2.6): one round trip, and one to find a name.
func (m *terminal) orderStatus() transaction {
	c := m.anyone(m.home(), m.anyDistrict())
	return func(ctx context.Context, conn *pgx.Conn) error {
		id, err := c.find(ctx, conn)
		if err != nil {
			return err
		}
		var t trip
		t.Queue("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
		for _, sql := range []string{statusCustomer, statusOrder, statusLines} {
			t.rows(sql, []any{c.w, c.d, id}, ignore)
		}
		t.Queue("COMMIT")
		return t.send(ctx, conn)
	}
}

const (
	// The oldest order of each district that has one.
	deliveryOldest = `SELECT d, o FROM (SELECT d, (SELECT no_o_id FROM new_order WHERE no_w_id = $1 AND no_d_id = d ORDER BY no_o_id LIMIT 1) AS o
		FROM generate_series(1, 10) AS g (d)) AS s WHERE o IS NOT NULL`
	deliveryNew   = `DELETE FROM new_order USING unnest($2::int[], $3::int[]) AS l (d, o) WHERE no_w_id = $1 AND no_d_id = d AND no_o_id = o`
	deliveryOrder = `UPDATE orders SET o_carrier_id = $4 FROM unnest($2::int[], $3::int[]) AS l (d, o)
		WHERE o_w_id = $1 AND o_d_id = d AND o_id = o RETURNING o_d_id, o_c_id`
	deliveryLines = `UPDATE order_line SET ol_delivery_d = $4 FROM unnest($2::int[], $3::int[]) AS l (d, o)
		WHERE ol_w_id = $1 AND ol_d_id = d AND ol_o_id = o RETURNING ol_d_id, ol_amount`
	deliveryCustomer = `UPDATE customer SET c_balance = c_balance + a, c_delivery_cnt = c_delivery_cnt + 1
		FROM unnest($2::int[], $3::int[], $4::decimal[]) AS l (d, c, a) WHERE c_w_id = $1 AND c_d_id = d AND c_id = c`
)

// errTaken says that another terminal delivered one of the orders in between.
var errTaken = errors.New("tpcc: another terminal delivers the same order")

// deliveryAttempts bounds how often a delivery looks for other orders after another terminal took one.
const deliveryAttempts = 20

// delivery delivers the oldest order of each district of a warehouse, in one transaction (clause 2.7): three round trips.
func (m *terminal) delivery() transaction {
	w, carrier := m.home(), between(m.dice, 1, 10)
	return func(ctx context.Context, conn *pgx.Conn) error {
		err := errTaken
		for range deliveryAttempts {
			if err = m.deliver(ctx, conn, w, carrier); !errors.Is(err, errTaken) {
				break
			}
		}
		return err
	}
}

func (m *terminal) deliver(ctx context.Context, conn *pgx.Conn, w, carrier int) error {
	var ds, orders []int
	var first trip
	first.Queue("BEGIN")
	first.rows(deliveryOldest, []any{w}, func(r pgx.Rows) error {
		var d, o int
		err := r.Scan(&d, &o)
		ds, orders = append(ds, d), append(orders, o)
		return err
	})
	if err := first.send(ctx, conn); err != nil {
		return err
	}
	var taken int64
	customers := make([]int, len(ds))
	sums := make([]money, len(ds))
	var second trip
	second.Queue(deliveryNew, w, ds, orders).Exec(func(tag pgconn.CommandTag) error { taken = tag.RowsAffected(); return nil })
	second.rows(deliveryOrder, []any{w, ds, orders, carrier}, func(r pgx.Rows) error {
		var d, c int
		err := r.Scan(&d, &c)
		customers[slices.Index(ds, d)] = c
		return err
	})
	second.rows(deliveryLines, []any{w, ds, orders, time.Now().UTC()}, func(r pgx.Rows) error {
		var d int
		var amount pgtype.Numeric
		if err := r.Scan(&d, &amount); err != nil {
			return err
		}
		v, err := cents(amount)
		sums[slices.Index(ds, d)] += v
		return err
	})
	if err := second.send(ctx, conn); err != nil {
		return err
	}
	if taken < int64(len(ds)) {
		rollBack(ctx, conn)
		return errTaken
	}
	var amounts []pgtype.Numeric
	for _, v := range sums {
		amounts = append(amounts, v.numeric())
	}
	var third trip
	third.changes(len(ds), "customers of a delivery", deliveryCustomer, w, ds, customers, amounts)
	third.Queue("COMMIT")
	if err := third.send(ctx, conn); err != nil {
		return err
	}
	m.skipped.Add(int64(districts - len(ds)))
	return nil
}

const stockLevelCount = `SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2
	AND ol_o_id < (SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2)
	AND ol_o_id >= (SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2) - 20
	AND s_w_id = $1 AND s_i_id = ol_i_id AND s_quantity < $3`

// stockLevel counts the items of a district's last twenty orders that run short (clause 2.8): one statement.
func (m *terminal) stockLevel() transaction {
	w, threshold := m.home(), between(m.dice, 10, 20)
	return func(ctx context.Context, conn *pgx.Conn) error {
		var n int
		return conn.QueryRow(ctx, stockLevelCount, w, m.district, threshold).Scan(&n)
	}
}
