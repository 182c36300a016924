package opt

import "math"

// The unit of cost is one row read from a range in sequence. The meaning of the numbers: a row is cheap to pass on, dearer
// to remember, and a request to a range costs as much as many rows; latency.go adds the wait for a range that is far away. Measured on one
// node in 2026: a scan reads five million rows a second, a request takes 20 microseconds, a lookup in a batch two.
const (
	costRow     = 1.0   // a row decoded from a scan
	costByte    = 0.004 // a byte of it
	costSeek    = 8.0   // a key or span to find within a request
	costRequest = 80.0  // a request that the next one waits for
	costPass    = 0.05  // a row through an operator
	costExpr    = 0.05  // an expression for a row
	costHash    = 0.5   // a row into a hash table
	costProbe   = 0.25  // a row looked up in one
	costCompare = 0.1   // a comparison while sorting
	costLoop    = 5.0   // starting the right side of an apply again
	costWrite   = 5.0   // a row written
	costLock    = 10.0  // a row locked, which is a write too, and keeps others waiting
	costStart   = 0.01  // an operator, so that fewer are better
	costEndless = 1e12  // a side of a join kept that may have no end
	// lookupBatchRows is how many rows package exec looks up with one request.
	lookupBatchRows = 1024.0
)

// scanCost is the cost of reading rows of so many bytes from spans of an index.
func (o *optimizer) scanCost(rows, width, spans float64) (startup, total float64) {
	startup = costRequest + costSeek*spans
	return startup, startup + rows*(costRow+width*costByte)
}

// lookupCost is the cost of finding so many keys, in batches.
func (o *optimizer) lookupCost(keys, rowsPerKey, width float64) float64 {
	requests := math.Ceil(max(keys, 1) / lookupBatchRows)
	return requests*costRequest + keys*(costSeek+rowsPerKey*(costRow+width*costByte))
}

func sortCost(rows float64) float64 {
	if rows < 2 {
		return costPass
	}
	return rows*costPass + rows*math.Log2(rows)*costCompare
}
