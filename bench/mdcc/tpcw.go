package main

import (
	"fmt"
	"math/rand/v2"
)

// tpcw is one client of a workload like TPC-W's, with the mix that writes most (ordering). It has the interactions' reads and writes, and no pages.
type tpcw struct {
	items, customers int
	client           int
	made             int   // ids of this client's carts and orders
	cart             int   // zero: there is none
	lines            []int // the items in it
	ordered          int   // the latest order
}

// tpcwSchema makes the tables, but for item, which all loads have.
func tpcwSchema(customers int) []string {
	return []string{
		"CREATE TABLE customer (c_id int PRIMARY KEY, c_login int NOT NULL, c_name text)",
		fmt.Sprintf("INSERT INTO customer SELECT g, 0, 'customer' FROM generate_series(0, %d) AS g", customers-1),
		"ALTER TABLE customer SET (commit_protocol = 'fast_paxos')",
		"CREATE TABLE address (addr_id int PRIMARY KEY, addr_street text) WITH (commit_protocol = 'fast_paxos')",
		"CREATE TABLE cart (sc_id int PRIMARY KEY, sc_time int) WITH (commit_protocol = 'fast_paxos')",
		"CREATE TABLE cart_line (scl_sc_id int, scl_i_id int, scl_qty int, PRIMARY KEY (scl_sc_id, scl_i_id)) WITH (commit_protocol = 'fast_paxos')",
		"CREATE TABLE orders (o_id int PRIMARY KEY, o_c_id int, o_total int) WITH (commit_protocol = 'fast_paxos')",
		"CREATE TABLE order_line (ol_o_id int, ol_id int, ol_i_id int, ol_qty int, PRIMARY KEY (ol_o_id, ol_id)) WITH (commit_protocol = 'fast_paxos')",
		"CREATE TABLE cc_xacts (cx_o_id int PRIMARY KEY, cx_amount int) WITH (commit_protocol = 'fast_paxos')",
	}
}

// tpcwStock is TPC-W's: between 10 and 30.
func tpcwStock(item int) int { return 10 + item*7919%21 }

// interactions are TPC-W's, in hundredths of a percent of the ordering mix.
func interactions() []struct {
	name  string
	share int
} {
	return []struct {
		name  string
		share int
	}{
		{"home", 912}, {"new products", 46}, {"best sellers", 46}, {"product detail", 1235}, {"search request", 1453}, {"search results", 1308},
		{"shopping cart", 1353}, {"customer registration", 1286}, {"buy request", 1273}, {"buy confirm", 1018}, {"order inquiry", 25}, {"order display", 22},
		{"admin request", 12}, {"admin confirm", 11},
	}
}

// next implements source.
func (w *tpcw) next(dice *rand.Rand) *transaction {
	at, kind := dice.IntN(10_000), ""
	for _, i := range interactions() {
		if at -= i.share; at < 0 {
			kind = i.name
			break
		}
	}
	t := &transaction{kind: kind}
	item := dice.IntN(w.items)
	one := query{"SELECT i_title, i_cost, i_stock FROM item WHERE i_id = $1", []any{item}}
	switch kind {
	case "new products", "best sellers", "search results":
		t.reads = []query{{"SELECT i_id, i_title, i_cost FROM item WHERE i_id BETWEEN $1 AND $2", []any{item, item + 9}}}
	case "order inquiry", "order display":
		t.reads = []query{{"SELECT ol_i_id, ol_qty FROM order_line WHERE ol_o_id = $1", []any{w.ordered}}}
	case "shopping cart":
		t.reads = []query{one}
		w.fill(t, item)
	case "buy request":
		w.register(t, dice)
	case "buy confirm":
		w.order(t, dice, item)
	case "admin confirm":
		t.reads = []query{one}
		t.updates = []update{{record: recordOf(item), change: over, item: item, sql: "UPDATE item SET i_cost = $2 WHERE i_id = $1", args: []any{item, 100 + dice.IntN(900)}}}
	default:
		t.reads = []query{one}
	}
	return t
}

// id is one that no other client has.
func (w *tpcw) id() int {
	w.made++
	return w.client*100_000 + w.made
}

// own is an update of a record that only this client writes.
func own(table string, id int, sql string, args ...any) update {
	return update{record: fmt.Sprintf("%s/%d", table, id), change: put, item: -1, sql: sql, args: args}
}

// fill puts an item into the cart.
func (w *tpcw) fill(t *transaction, item int) {
	if w.cart == 0 {
		w.cart = w.id()
		t.updates = append(t.updates, own("cart", w.cart, "INSERT INTO cart VALUES ($1, $2)", w.cart, 0))
	} else {
		t.updates = append(t.updates, own("cart", w.cart, "UPDATE cart SET sc_time = $2 WHERE sc_id = $1", w.cart, len(w.lines)))
	}
	for _, i := range w.lines {
		if i == item {
			return
		}
	}
	w.lines = append(w.lines, item)
	t.updates = append(t.updates, own("cart_line", w.cart*100_000+item, "INSERT INTO cart_line VALUES ($1, $2, 1)", w.cart, item))
}

// register is a customer who comes back (four of five), or a new one.
func (w *tpcw) register(t *transaction, dice *rand.Rand) {
	if dice.IntN(5) > 0 {
		id := dice.IntN(w.customers)
		t.reads = []query{{"SELECT c_name FROM customer WHERE c_id = $1", []any{id}}}
		t.updates = []update{{record: "customer/" + itoa(id), change: over, item: -1, sql: "UPDATE customer SET c_login = $2 WHERE c_id = $1", args: []any{id, dice.IntN(1 << 30)}}}
		return
	}
	id := 1_000_000 + w.id()
	t.updates = []update{own("customer", id, "INSERT INTO customer VALUES ($1, 0, 'a customer')", id), own("address", id, "INSERT INTO address VALUES ($1, 'a street')", id)}
}

// order buys what is in the cart, or else one item.
func (w *tpcw) order(t *transaction, dice *rand.Rand, item int) {
	t.reads = []query{{"SELECT scl_i_id, scl_qty FROM cart_line WHERE scl_sc_id = $1", []any{w.cart}}}
	lines := w.lines
	if len(lines) == 0 {
		lines = []int{item}
	}
	id := w.id()
	t.updates = append(t.updates, own("orders", id, "INSERT INTO orders VALUES ($1, $2, $3)", id, dice.IntN(w.customers), 100*len(lines)),
		own("cc_xacts", id, "INSERT INTO cc_xacts VALUES ($1, $2)", id, 100*len(lines)))
	for n, i := range lines {
		pieces := 1 + dice.IntN(3)
		t.updates = append(t.updates, own("order_line", id*100+n, "INSERT INTO order_line VALUES ($1, $2, $3, $4)", id, n, i, pieces), buy(i, pieces))
	}
	w.cart, w.lines, w.ordered = 0, nil, id
}

// tpcwLoad has as many items and customers for each client, however many there are.
func tpcwLoad(clients int) *load {
	l := &load{clients: clients, regionOf: spread, items: 100 * clients, stock: tpcwStock, retries: 100, shards: max(clients/25, 1)}
	l.source = func(client, _ int) source {
		return &tpcw{items: l.items, customers: 20 * clients, client: client + 1}
	}
	return l
}

// tpcwEngine is MDCC with TPC-W's tables. In the end each item's stock is what order lines have left of it.
func tpcwEngine(clients int) *engine {
	e := mdcc()
	e.schema = tpcwSchema(20 * clients)
	e.tables = []string{"customer", "address", "cart", "cart_line", "orders", "order_line", "cc_xacts"}
	e.check = "SELECT i_id, i_stock, coalesce(n, 0)::int FROM item LEFT JOIN (SELECT ol_i_id, sum(ol_qty) AS n FROM order_line GROUP BY ol_i_id) AS o ON ol_i_id = i_id"
	return e
}
