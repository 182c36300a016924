package tpcc

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// loaded is the moment at which all rows were made. A fixed one lets equal seeds load equal rows.
const loaded = "2026-01-15 12:00:00"

// rows gathers rows of one table in COPY's text format.
type rows struct {
	bytes.Buffer
	table string
}

// row appends one. Values are int, string, money and []byte; nil is NULL. No value has a character that COPY would escape.
func (r *rows) row(values ...any) {
	b := r.AvailableBuffer()
	for i, v := range values {
		if i > 0 {
			b = append(b, '\t')
		}
		switch v := v.(type) {
		case nil:
			b = append(b, `\N`...)
		case int:
			b = strconv.AppendInt(b, int64(v), 10)
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		case money:
			b = v.append(b)
		default:
			panic(fmt.Sprintf("tpcc: a value of type %T", v))
		}
	}
	r.Write(append(b, '\n'))
}

// maker draws the values of rows.
type maker struct{ dice *rand.Rand }

// maker returns the generator of one part of a table: parts are independent, so that they may be loaded in any order.
func (t *TPCC) maker(part string, numbers ...int) maker {
	h := fnv.New64a()
	fmt.Fprint(h, part, numbers)
	return maker{rand.New(rand.NewPCG(t.Seed, h.Sum64()))}
}

func (m maker) text(low, high int) []byte { return appendText(nil, m.dice, low, high) }
func (m maker) digits(n int) []byte       { return appendDigits(nil, m.dice, n) }

// zip is four digits and a common ending (clause 4.3.2.7).
func (m maker) zip() []byte { return append(m.digits(4), "11111"...) }

// rate is a tax or a discount from 0 to high ten-thousandths.
func (m maker) rate(high int) string { return fmt.Sprintf("0.%04d", between(m.dice, 0, high)) }

// original puts the word ORIGINAL somewhere into a text of every tenth row (clause 4.3.3.1).
func (m maker) original(b []byte) []byte {
	if m.dice.IntN(10) == 0 {
		copy(b[m.dice.IntN(len(b)-8+1):], "ORIGINAL")
	}
	return b
}

// address is two streets, city, state and zip.
func (m maker) address() (street1, street2, city, state, zip []byte) {
	return m.text(10, 20), m.text(10, 20), m.text(10, 20), bytes.ToUpper(m.text(2, 2)), m.zip()
}

// partRows bounds the items and the stock of one COPY.
const partRows = 10_000

// parts calls f with the parts of all rows of clause 4.3.3.1: each part is a function that makes rows for some COPYs.
func (t *TPCC) parts(f func(func() []*rows)) {
	n := t.items()
	for first := 1; first <= n; first += partRows {
		f(func() []*rows { return []*rows{t.makeItems(first, min(first+partRows-1, n))} })
	}
	for w := 1; w <= t.Warehouses; w++ {
		f(func() []*rows { return t.makeWarehouse(w) })
		for first := 1; first <= n; first += partRows {
			f(func() []*rows { return []*rows{t.makeStock(w, first, min(first+partRows-1, n))} })
		}
		for d := 1; d <= districts; d++ {
			f(func() []*rows { return t.makeCustomers(w, d) })
			f(func() []*rows { return t.makeOrders(w, d) })
		}
	}
}

func (t *TPCC) makeItems(first, last int) *rows {
	r, m := &rows{table: "item"}, t.maker("item", first)
	for i := first; i <= last; i++ {
		r.row(i, between(m.dice, 1, 10_000), m.text(14, 24), money(between(m.dice, 100, 10_000)), m.original(m.text(26, 50)))
	}
	return r
}

func (t *TPCC) makeWarehouse(w int) []*rows {
	m := t.maker("warehouse", w)
	a, b := &rows{table: "warehouse"}, &rows{table: "district"}
	street1, street2, city, state, zip := m.address()
	a.row(w, m.text(6, 10), street1, street2, city, state, zip, m.rate(2000), money(districts*t.customers()*initialPayment))
	for d := 1; d <= districts; d++ {
		street1, street2, city, state, zip := m.address()
		b.row(d, w, m.text(6, 10), street1, street2, city, state, zip, m.rate(2000), money(t.customers()*initialPayment), t.customers()+1)
	}
	return []*rows{a, b}
}

func (t *TPCC) makeStock(w, first, last int) *rows {
	r, m := &rows{table: "stock"}, t.maker("stock", w, first)
	for i := first; i <= last; i++ {
		v := []any{i, w, between(m.dice, 10, 100)}
		for range districts {
			v = append(v, m.text(24, 24))
		}
		r.row(append(v, 0, 0, 0, m.original(m.text(26, 50)))...)
	}
	return r
}

func (t *TPCC) makeCustomers(w, d int) []*rows {
	m := t.maker("customer", w, d)
	a, b := &rows{table: "customer"}, &rows{table: "history"}
	for c := 1; c <= t.customers(); c++ {
		name := c - 1
		if c > lastNames {
			name = nuRand(m.dice, lastNameA, lastNameLoadC, 0, lastNames-1)
		}
		credit := "GC"
		if m.dice.IntN(10) == 0 {
			credit = "BC"
		}
		street1, street2, city, state, zip := m.address()
		a.row(c, d, w, m.text(8, 16), "OE", lastName(name), street1, street2, city, state, zip, m.digits(16), loaded, credit, money(50_000_00), m.rate(5000),
			money(-initialPayment), money(initialPayment), 1, 0, m.text(300, 500))
		b.row(c, d, w, d, w, loaded, money(initialPayment), m.text(12, 24))
	}
	return []*rows{a, b}
}

func (t *TPCC) makeOrders(w, d int) []*rows {
	m := t.maker("orders", w, d)
	a, b, c := &rows{table: "orders"}, &rows{table: "new_order"}, &rows{table: "order_line"}
	for i, customer := range m.dice.Perm(t.customers()) {
		o, lines := i+1, between(m.dice, 5, maxLines)
		delivered := o <= t.customers()-t.undelivered()
		var carrier, delivery any
		if delivered {
			carrier, delivery = between(m.dice, 1, 10), loaded
		} else {
			b.row(o, d, w)
		}
		a.row(o, d, w, customer+1, loaded, carrier, lines, 1)
		for l := 1; l <= lines; l++ {
			amount := money(0)
			if !delivered {
				amount = money(between(m.dice, 1, 999_999))
			}
			c.row(o, d, w, l, between(m.dice, 1, t.items()), w, delivery, 5, amount, m.text(24, 24))
		}
	}
	return []*rows{a, b, c}
}

// copyAttempts bounds how often a COPY is done again when the server asks for it.
const copyAttempts = 10

// send does the COPYs of a part.
func (t *TPCC) send(ctx context.Context, conn *pgx.Conn, list []*rows) error {
	for _, r := range list {
		var err error
		for range copyAttempts {
			if t.Inserts {
				_, err = conn.Exec(ctx, r.inserts())
			} else {
				_, err = conn.PgConn().CopyFrom(ctx, bytes.NewReader(r.Bytes()), "COPY "+r.table+" ("+columnsOf(r.table)+") FROM STDIN")
			}
			if err == nil || !workload.Retryable(err) {
				break
			}
		}
		if err != nil {
			return fmt.Errorf("tpcc: rows of %s: %w", r.table, err)
		}
	}
	return nil
}

// insertRows bounds the rows of one INSERT.
const insertRows = 500

// inserts are the rows as INSERTs, in one string of statements, which is one transaction. No value has a quote.
func (r *rows) inserts() string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(r.String()) {
		switch {
		case n%insertRows > 0:
			b.WriteString(",\n")
		case n > 0:
			b.WriteString(";\n")
			fallthrough
		default:
			b.WriteString("INSERT INTO " + r.table + " (" + columnsOf(r.table) + ") VALUES ")
		}
		n++
		for i, v := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			b.WriteByte("(,"[min(i, 1)])
			if v == `\N` {
				b.WriteString("NULL")
			} else {
				b.WriteString("'" + v + "'")
			}
		}
		b.WriteByte(')')
	}
	return b.String()
}

// columnsOf lists the columns of a table that the specification names.
func columnsOf(name string) string {
	var names []string
	for _, b := range tables {
		if b.name != name {
			continue
		}
		for _, line := range strings.Split(strings.TrimSpace(b.columns), "\n") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	return strings.Join(names, ", ")
}

// load fills the tables over some connections.
func (t *TPCC) load(ctx context.Context, conn *pgx.Conn) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work := make(chan func() []*rows)
	var loaders sync.WaitGroup
	for range max(t.Loaders, 1) {
		loaders.Go(func() {
			c, err := pgx.ConnectConfig(ctx, conn.Config())
			if err != nil {
				stop(err)
				return
			}
			defer c.Close(context.WithoutCancel(ctx))
			for part := range work {
				if err := t.send(ctx, c, part()); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	t.parts(func(part func() []*rows) {
		select {
		case work <- part:
		case <-ctx.Done():
		}
	})
	close(work)
	loaders.Wait()
	return context.Cause(ctx)
}
