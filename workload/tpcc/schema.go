package tpcc

import (
	"fmt"
	"strings"

	"meridian/workload"
)

// table is one of the nine.
type table struct {
	name string
	// columns is the body of CREATE TABLE without its keys; key the primary key; none for history (clause 1.3.1).
	columns, key string
	// home is the column that names the warehouse to which a row belongs; empty for item, which every warehouse reads.
	home string
}

// tables lists them as clause 1.3.1 does. Each refers only to earlier ones.
var tables = [...]table{
	{name: "warehouse", home: "w_id", key: "w_id", columns: `
	w_id int NOT NULL,
	w_name varchar(10) NOT NULL,
	w_street_1 varchar(20) NOT NULL,
	w_street_2 varchar(20) NOT NULL,
	w_city varchar(20) NOT NULL,
	w_state char(2) NOT NULL,
	w_zip char(9) NOT NULL,
	w_tax decimal(4,4) NOT NULL,
	w_ytd decimal(12,2) NOT NULL`},
	{name: "district", home: "d_w_id", key: "d_w_id, d_id", columns: `
	d_id int NOT NULL,
	d_w_id int NOT NULL,
	d_name varchar(10) NOT NULL,
	d_street_1 varchar(20) NOT NULL,
	d_street_2 varchar(20) NOT NULL,
	d_city varchar(20) NOT NULL,
	d_state char(2) NOT NULL,
	d_zip char(9) NOT NULL,
	d_tax decimal(4,4) NOT NULL,
	d_ytd decimal(12,2) NOT NULL,
	d_next_o_id int NOT NULL`},
	{name: "customer", home: "c_w_id", key: "c_w_id, c_d_id, c_id", columns: `
	c_id int NOT NULL,
	c_d_id int NOT NULL,
	c_w_id int NOT NULL,
	c_first varchar(16) NOT NULL,
	c_middle char(2) NOT NULL,
	c_last varchar(16) NOT NULL,
	c_street_1 varchar(20) NOT NULL,
	c_street_2 varchar(20) NOT NULL,
	c_city varchar(20) NOT NULL,
	c_state char(2) NOT NULL,
	c_zip char(9) NOT NULL,
	c_phone char(16) NOT NULL,
	c_since timestamp NOT NULL,
	c_credit char(2) NOT NULL,
	c_credit_lim decimal(12,2) NOT NULL,
	c_discount decimal(4,4) NOT NULL,
	c_balance decimal(12,2) NOT NULL,
	c_ytd_payment decimal(12,2) NOT NULL,
	c_payment_cnt int NOT NULL,
	c_delivery_cnt int NOT NULL,
	c_data varchar(500) NOT NULL`},
	{name: "history", home: "h_w_id", columns: `
	h_c_id int NOT NULL,
	h_c_d_id int NOT NULL,
	h_c_w_id int NOT NULL,
	h_d_id int NOT NULL,
	h_w_id int NOT NULL,
	h_date timestamp NOT NULL,
	h_amount decimal(6,2) NOT NULL,
	h_data varchar(24) NOT NULL`},
	{name: "orders", home: "o_w_id", key: "o_w_id, o_d_id, o_id", columns: `
	o_id int NOT NULL,
	o_d_id int NOT NULL,
	o_w_id int NOT NULL,
	o_c_id int NOT NULL,
	o_entry_d timestamp NOT NULL,
	o_carrier_id int,
	o_ol_cnt int NOT NULL,
	o_all_local int NOT NULL`},
	{name: "new_order", home: "no_w_id", key: "no_w_id, no_d_id, no_o_id", columns: `
	no_o_id int NOT NULL,
	no_d_id int NOT NULL,
	no_w_id int NOT NULL`},
	{name: "item", key: "i_id", columns: `
	i_id int NOT NULL,
	i_im_id int NOT NULL,
	i_name varchar(24) NOT NULL,
	i_price decimal(5,2) NOT NULL,
	i_data varchar(50) NOT NULL`},
	{name: "stock", home: "s_w_id", key: "s_w_id, s_i_id", columns: `
	s_i_id int NOT NULL,
	s_w_id int NOT NULL,
	s_quantity int NOT NULL,
	s_dist_01 char(24) NOT NULL,
	s_dist_02 char(24) NOT NULL,
	s_dist_03 char(24) NOT NULL,
	s_dist_04 char(24) NOT NULL,
	s_dist_05 char(24) NOT NULL,
	s_dist_06 char(24) NOT NULL,
	s_dist_07 char(24) NOT NULL,
	s_dist_08 char(24) NOT NULL,
	s_dist_09 char(24) NOT NULL,
	s_dist_10 char(24) NOT NULL,
	s_ytd int NOT NULL,
	s_order_cnt int NOT NULL,
	s_remote_cnt int NOT NULL,
	s_data varchar(50) NOT NULL`},
	{name: "order_line", home: "ol_w_id", key: "ol_w_id, ol_d_id, ol_o_id, ol_number", columns: `
	ol_o_id int NOT NULL,
	ol_d_id int NOT NULL,
	ol_w_id int NOT NULL,
	ol_number int NOT NULL,
	ol_i_id int NOT NULL,
	ol_supply_w_id int NOT NULL,
	ol_delivery_d timestamp,
	ol_quantity int NOT NULL,
	ol_amount decimal(6,2) NOT NULL,
	ol_dist_info char(24) NOT NULL`},
}

// indexes find customers by last name and the orders of a customer.
var indexes = [...]string{
	"CREATE INDEX customer_name_idx ON customer (c_w_id, c_d_id, c_last, c_first)",
	"CREATE INDEX orders_customer_idx ON orders (o_w_id, o_d_id, o_c_id, o_id)",
}

// references are the foreign keys. They are added to full tables, so that loading does not look up a parent for each row.
var references = [...]string{
	"ALTER TABLE district ADD CONSTRAINT district_warehouse_fk FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)",
	"ALTER TABLE customer ADD CONSTRAINT customer_district_fk FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)",
	"ALTER TABLE history ADD CONSTRAINT history_customer_fk FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
	"ALTER TABLE history ADD CONSTRAINT history_district_fk FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)",
	"ALTER TABLE orders ADD CONSTRAINT orders_customer_fk FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
	"ALTER TABLE new_order ADD CONSTRAINT new_order_orders_fk FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
	"ALTER TABLE stock ADD CONSTRAINT stock_warehouse_fk FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id)",
	"ALTER TABLE stock ADD CONSTRAINT stock_item_fk FOREIGN KEY (s_i_id) REFERENCES item (i_id)",
	"ALTER TABLE order_line ADD CONSTRAINT order_line_orders_fk FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
	"ALTER TABLE order_line ADD CONSTRAINT order_line_stock_fk FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)",
}

// quote writes a name as an SQL identifier.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// literal writes a string as an SQL literal.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// Schema returns the statements that make the nine tables and two indexes. With Regions, a row belongs to the region of its warehouse, by a
// computed column, and item is GLOBAL (CRDB'22 §7.4): nine CREATE TABLE and eight computed columns. The database must have these regions.
func (t *TPCC) Schema() (out []string) {
	for _, b := range tables {
		body, key := b.columns, b.key
		locality := ""
		if len(t.Regions) > 0 {
			locality = " LOCALITY GLOBAL"
			if b.home != "" {
				locality = " LOCALITY REGIONAL BY ROW"
				body += ",\n\tcrdb_region crdb_internal_region NOT NULL AS (" + t.regionOf(b.home) + ") STORED"
			}
		}
		if key == "" && (t.Keyed || len(t.Regions) > 0) {
			// A key that begins with the warehouse determines the region, so it needs no check in other regions.
			body += ",\n\th_id uuid NOT NULL DEFAULT gen_random_uuid()"
			key = b.home + ", h_id"
		}
		if key != "" {
			body += ",\n\tPRIMARY KEY (" + key + ")"
		}
		out = append(out, "CREATE TABLE "+b.name+" ("+body+")"+locality)
	}
	return append(out, indexes[:]...)
}

// regionOf is the expression that gives the region of a warehouse: consecutive warehouses share one.
func (t *TPCC) regionOf(column string) string {
	var b strings.Builder
	b.WriteString("CASE")
	for i, r := range t.Regions {
		if i == len(t.Regions)-1 {
			b.WriteString(" ELSE " + literal(r) + " END")
			break
		}
		_, last := t.warehousesOf(i)
		fmt.Fprintf(&b, " WHEN %s <= %d THEN %s", column, last, literal(r))
	}
	if len(t.Regions) == 1 {
		return literal(t.Regions[0])
	}
	return b.String()
}

// Localities returns the statements that make the schema of one region serve Regions, the first of them primary (CRDB'22 table 2): three regions take
// twenty. The tables must have keys that begin with the warehouse, so that a row's key determines its region.
func (t *TPCC) Localities(database string) []string {
	out := workload.DatabaseRegions(database, t.Regions)
	for _, b := range tables {
		if b.home == "" {
			out = append(out, "ALTER TABLE "+b.name+" SET LOCALITY GLOBAL")
			continue
		}
		out = append(out, "ALTER TABLE "+b.name+" ADD COLUMN crdb_region crdb_internal_region NOT NULL AS ("+t.regionOf(b.home)+") STORED",
			"ALTER TABLE "+b.name+" SET LOCALITY REGIONAL BY ROW")
	}
	return out
}
