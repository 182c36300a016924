package tpcc

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"meridian/workload"
)

// condition is one of the twelve consistency conditions (clause 3.3.2), as a query for the places that violate it.
type condition struct {
	number int
	about  string
	query  string
}

// conditions are those of clause 3.3.2, for a load with so many delivered orders per district. All hold at any time: the eleventh, which the
// specification states for a fresh load, counts the deliveries since.
func conditions(delivered int) []condition {
	return []condition{
		{1, "W_YTD = sum(D_YTD)", `SELECT format('warehouse %s', w_id) FROM warehouse
			LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
			WHERE ytd IS DISTINCT FROM w_ytd`},
		{2, "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", `SELECT format('warehouse %s, district %s', d_w_id, d_id) FROM district
			LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o FROM orders GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
			LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
			WHERE o IS DISTINCT FROM d_next_o_id - 1 OR n <> d_next_o_id - 1`},
		{3, "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER", `SELECT format('warehouse %s, district %s', no_w_id, no_d_id) FROM new_order
			GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)`},
		{4, "sum(O_OL_CNT) = rows of ORDER-LINE", `SELECT format('warehouse %s, district %s', d_w_id, d_id) FROM district
			LEFT JOIN (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM orders GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
			LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id) AS l ON ol_w_id = d_w_id AND ol_d_id = d_id
			WHERE lines IS DISTINCT FROM n`},
		{5, "O_CARRIER_ID is null where NEW-ORDER has a row, and only there", `SELECT format('warehouse %s, district %s, order %s', o_w_id, o_d_id, o_id) FROM orders
			LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
			WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)`},
		{6, "O_OL_CNT = rows of ORDER-LINE of the order", `SELECT format('warehouse %s, district %s, order %s', o_w_id, o_d_id, o_id) FROM orders
			LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
				ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
			WHERE n IS DISTINCT FROM o_ol_cnt`},
		{7, "OL_DELIVERY_D is null where O_CARRIER_ID is, and only there", `SELECT format('warehouse %s, district %s, order %s, line %s', ol_w_id, ol_d_id, ol_o_id, ol_number)
			FROM order_line JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
			WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)`},
		{8, "W_YTD = sum(H_AMOUNT)", `SELECT format('warehouse %s', w_id) FROM warehouse
			LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id
			WHERE paid IS DISTINCT FROM w_ytd`},
		{9, "D_YTD = sum(H_AMOUNT)", `SELECT format('warehouse %s, district %s', d_w_id, d_id) FROM district
			LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h ON h_w_id = d_w_id AND h_d_id = d_id
			WHERE paid IS DISTINCT FROM d_ytd`},
		{10, "C_BALANCE = sum(OL_AMOUNT) of delivered lines - sum(H_AMOUNT)", `SELECT format('warehouse %s, district %s, customer %s', c_w_id, c_d_id, c_id) FROM customer
			LEFT JOIN (` + deliveredAmounts + `) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
			LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
				ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
			WHERE c_balance <> coalesce(amount, 0) - coalesce(paid, 0)`},
		{11, "rows of ORDER - rows of NEW-ORDER = delivered at the load + C_DELIVERY_CNT", fmt.Sprintf(`SELECT format('warehouse %%s, district %%s', d_w_id, d_id) FROM district
			LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS o FROM orders GROUP BY o_w_id, o_d_id) AS o ON o_w_id = d_w_id AND o_d_id = d_id
			LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS n FROM new_order GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
			LEFT JOIN (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS c FROM customer GROUP BY c_w_id, c_d_id) AS c ON c_w_id = d_w_id AND c_d_id = d_id
			WHERE coalesce(o, 0) - coalesce(n, 0) <> %d + coalesce(c, 0)`, delivered)},
		{12, "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered lines", `SELECT format('warehouse %s, district %s, customer %s', c_w_id, c_d_id, c_id) FROM customer
			LEFT JOIN (` + deliveredAmounts + `) AS l ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
			WHERE c_balance + c_ytd_payment <> coalesce(amount, 0)`},
	}
}

const deliveredAmounts = `SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount FROM orders
	JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id`

// quick is how many conditions the specification requires at least (clause 3.3.3.1).
const quick = 4

// Check implements workload.Workload: all conditions, or the first four of them, in one snapshot. The error names each violated one with a place.
func (t *TPCC) Check(ctx context.Context, conn *pgx.Conn) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	return t.verify(ctx, tx)
}

// verify verifies the conditions in a transaction.
func (t *TPCC) verify(ctx context.Context, tx pgx.Tx) error {
	var warehouses int
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM warehouse").Scan(&warehouses); err != nil {
		return err
	}
	if warehouses != t.Warehouses {
		return &workload.CheckError{Err: fmt.Errorf("tpcc: there are %d warehouses, not %d", warehouses, t.Warehouses)}
	}
	var broken []string
	for _, c := range conditions(t.customers() - t.undelivered()) {
		if t.Quick && c.number > quick {
			break
		}
		rows, err := tx.Query(ctx, c.query+" LIMIT 1")
		if err != nil {
			return err
		}
		places, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("condition 3.3.2.%d: %w", c.number, err)
		}
		if len(places) > 0 {
			broken = append(broken, fmt.Sprintf("3.3.2.%d (%s) at %s", c.number, c.about, places[0]))
		}
	}
	if len(broken) > 0 {
		return &workload.CheckError{Err: fmt.Errorf("tpcc: violated: %s", strings.Join(broken, "; "))}
	}
	return nil
}
