package main

import (
	"fmt"
	"strings"
)

// TPC-C with the statements of go-tpc: rows of item and stock by lists of keys, as parameters, and the lines of an order in one
// INSERT. Departures: an order has ten lines, all of the home warehouse, and none is rolled back; a customer is found by its number, or by the
// middle one of a last name as the server finds it; clients do not think and have no home warehouse.
const tpccLines = 10

const tpccLoad = `DROP TABLE IF EXISTS warehouse, district, customer, history, new_order, orders, order_line, stock, item;
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_street_1 varchar(20), w_city varchar(20), w_tax decimal(4,4), w_ytd decimal(12,2));
CREATE TABLE district (d_id int, d_w_id int, d_name varchar(10), d_street_1 varchar(20), d_city varchar(20), d_tax decimal(4,4), d_ytd decimal(12,2),
  d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_id int, c_d_id int, c_w_id int, c_first varchar(16), c_middle char(2), c_last varchar(16), c_street_1 varchar(20), c_city varchar(20),
  c_since timestamp, c_credit char(2), c_credit_lim decimal(12,2), c_discount decimal(4,4), c_balance decimal(12,2), c_ytd_payment decimal(12,2),
  c_payment_cnt int, c_delivery_cnt int, c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount decimal(6,2), h_data varchar(24));
CREATE TABLE orders (o_id int, o_d_id int, o_w_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int,
  PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_order (no_o_id int, no_d_id int, no_w_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_o_id int, ol_d_id int, ol_w_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int,
  ol_amount decimal(6,2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price decimal(5,2), i_data varchar(50));
CREATE TABLE stock (s_i_id int, s_w_id int, s_quantity int, s_dist_01 char(24), s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50),
  PRIMARY KEY (s_w_id, s_i_id));
INSERT INTO warehouse SELECT w, 'w' || w, 'street', 'city', 0.1, 300000 FROM generate_series(1, :warehouses) AS w;
INSERT INTO district SELECT d, w, 'd' || d, 'street', 'city', 0.1, 30000, 3001 FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d;
INSERT INTO customer SELECT c, d, w, 'first' || c, 'OE', 'last' || c % 1000, 'street', 'city', now(), 'GC', 50000, 0.1, -10, 10, 1, 0, repeat('d', 300)
  FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d, generate_series(1, 3000) AS c;
INSERT INTO orders SELECT o, d, w, 1 + o * 7 % 3000, now(), CASE WHEN o < 2101 THEN 1 + o % 10 END, 10, 1
  FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d, generate_series(1, 3000) AS o;
INSERT INTO new_order SELECT o, d, w FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d, generate_series(2101, 3000) AS o;
INSERT INTO order_line SELECT o, d, w, n, 1 + (o * 10 + n) * 7 % 100000, w, now(), 5, 0, repeat('i', 24)
  FROM generate_series(1, :warehouses) AS w, generate_series(1, 10) AS d, generate_series(1, 3000) AS o, generate_series(1, 10) AS n;
INSERT INTO item SELECT i, 1 + i % 10000, 'item' || i, 1 + i % 99, repeat('d', 40) FROM generate_series(1, 100000) AS i;
INSERT INTO stock SELECT i, w, 10 + i % 90, repeat('s', 24), 0, 0, 0, repeat('d', 40) FROM generate_series(1, :warehouses) AS w, generate_series(1, 100000) AS i;
CREATE INDEX ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE INDEX ON orders (o_w_id, o_d_id, o_c_id, o_id);
ANALYZE warehouse;
ANALYZE district;
ANALYZE customer;
ANALYZE orders;
ANALYZE new_order;
ANALYZE order_line;
ANALYZE item;
ANALYZE stock;
`

const tpccKey = "\\set w random(1, :warehouses)\n\\set d random(1, 10)\n\\set c random(1, 3000)\n"

// tpccNewOrder is the transaction that is counted.
func tpccNewOrder() string {
	var b strings.Builder
	b.WriteString(tpccKey)
	var items, stock, lines []string
	for i := range tpccLines {
		// Each line has items of its own, so that none comes twice, in ascending order as go-tpc sorts them.
		fmt.Fprintf(&b, "\\set i%d random(%d, %d)\n", i, i*10000+1, (i+1)*10000)
		items = append(items, fmt.Sprintf(":i%d", i))
		stock = append(stock, fmt.Sprintf("(:w, :i%d)", i))
		lines = append(lines, fmt.Sprintf("(:o, :d, :w, %d, :i%d, :w, 5, 100, 'dist')", i+1, i))
	}
	b.WriteString("BEGIN;\n")
	b.WriteString("SELECT c_discount, c_last, c_credit, w_tax FROM customer, warehouse WHERE w_id = :w AND c_w_id = w_id AND c_d_id = :d AND c_id = :c;\n")
	b.WriteString("SELECT d_next_o_id AS o, d_tax FROM district WHERE d_id = :d AND d_w_id = :w FOR UPDATE \\gset\n")
	b.WriteString("UPDATE district SET d_next_o_id = :o + 1 WHERE d_id = :d AND d_w_id = :w;\n")
	b.WriteString("INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (:o, :d, :w, :c, now(), 10, 1);\n")
	b.WriteString("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (:o, :d, :w);\n")
	fmt.Fprintf(&b, "SELECT i_price, i_name, i_data, i_id FROM item WHERE i_id IN (%s);\n", strings.Join(items, ", "))
	fmt.Fprintf(&b, "SELECT s_i_id, s_quantity, s_data, s_dist_01 FROM stock WHERE (s_w_id, s_i_id) IN (%s) FOR UPDATE;\n", strings.Join(stock, ", "))
	for i := range tpccLines {
		fmt.Fprintf(&b, "UPDATE stock SET s_quantity = CASE WHEN s_quantity > 15 THEN s_quantity - 5 ELSE s_quantity + 86 END, s_ytd = s_ytd + 5, s_order_cnt = s_order_cnt + 1 WHERE s_i_id = :i%d AND s_w_id = :w;\n", i)
	}
	fmt.Fprintf(&b, "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info) VALUES %s;\nEND;\n",
		strings.Join(lines, ", "))
	return b.String()
}

const (
	tpccByName = `SELECT c_id AS c FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_last = 'last' || (:c % 1000)::text ORDER BY c_first OFFSET 1 LIMIT 1 \gset
`
	tpccPayment = tpccKey + `\set way random(1, 100)
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + 100 WHERE w_id = :w;
SELECT w_street_1, w_city, w_name FROM warehouse WHERE w_id = :w;
UPDATE district SET d_ytd = d_ytd + 100 WHERE d_w_id = :w AND d_id = :d;
SELECT d_street_1, d_city, d_name FROM district WHERE d_w_id = :w AND d_id = :d;
\if :way <= 60
` + tpccByName + `\endif
SELECT c_first, c_middle, c_last, c_street_1, c_city, c_credit, c_credit_lim, c_discount, c_balance, c_since FROM customer
  WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c FOR UPDATE;
UPDATE customer SET c_balance = c_balance - 100, c_ytd_payment = c_ytd_payment + 100, c_payment_cnt = c_payment_cnt + 1
  WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
INSERT INTO history VALUES (:c, :d, :w, :d, :w, now(), 100, 'history');
END;
`
	tpccOrderStatus = tpccKey + `\set way random(1, 100)
BEGIN;
\if :way <= 60
` + tpccByName + `\endif
SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
SELECT max(o_id) AS o FROM orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = 1 + (:c * 7) % 3000 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
END;
`
	// go-tpc delivers for all districts in a few statements; pgbench has no lists, so for one.
	tpccDelivery = tpccKey + `BEGIN;
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order WHERE no_w_id = :w AND no_d_id = :d \gset
DELETE FROM new_order WHERE (no_w_id, no_d_id, no_o_id) IN ((:w, :d, :o));
UPDATE orders SET o_carrier_id = 3 WHERE (o_w_id, o_d_id, o_id) IN ((:w, :d, :o));
UPDATE order_line SET ol_delivery_d = now() WHERE (ol_w_id, ol_d_id, ol_o_id) IN ((:w, :d, :o));
UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1, c_balance = c_balance + 100 WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;
END;
`
	tpccStockLevel = tpccKey + `BEGIN;
SELECT d_next_o_id AS o FROM district WHERE d_w_id = :w AND d_id = :d \gset
SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id < :o AND ol_o_id >= :o - 20 AND s_w_id = :w
  AND s_i_id = ol_i_id AND s_quantity < 15;
END;
`
)

func tpcc() mix {
	return mix{load: tpccLoad, custom: []weighted{{45, tpccNewOrder()}, {43, tpccPayment}, {4, tpccOrderStatus}, {4, tpccDelivery}, {4, tpccStockLevel}}}
}
