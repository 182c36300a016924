package server

import (
	"math"
	"strconv"
	"time"

	"meridian/sql/sqlstate"
)

// settingGCTTL is the cluster setting of how many seconds versions are kept after they were overwritten, in all ranges.
const settingGCTTL = "gc.ttlseconds"

// checkSetting refuses values of the cluster settings that a node follows; others are kept as they are given.
func checkSetting(name, value string) error {
	if name != settingGCTTL {
		return nil
	}
	_, err := parseGCTTL(value)
	return err
}

func parseGCTTL(value string) (time.Duration, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return 0, sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for cluster setting %q: %q", settingGCTTL, value).
			WithHint("It is a number of seconds from 1 to %d.", math.MaxInt32)
	}
	return time.Duration(n) * time.Second, nil
}
