package scalar

import (
	"context"
	"strings"
	"testing"

	"meridian/sql/memory"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// TestFormatStops: format ends with the first error, instead of processing all of a long format with a long argument. The test sees
// it by an error that a later part of the format would have raised instead.
func TestFormatStops(t *testing.T) {
	long := types.NewString(strings.Repeat("x", 1<<20))
	ctx := &Context{Context: context.Background(), Memory: memory.Limited(1 << 30)}
	args := []types.Datum{types.NewString(strings.Repeat("%1$s", 1000) + "%2$I"), long, types.Null}
	_, err := formatText(ctx, args, []*types.T{types.Text, types.Text, types.Text})
	if !sqlstate.Is(err, sqlstate.ProgramLimitExceeded) {
		t.Errorf("format of a gigabyte: %v", err)
	}
}
