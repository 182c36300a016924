package server

import (
	"strconv"
	"time"

	"meridian/placement"
	"meridian/sql/sqlstate"
)

// Cluster settings that nodes follow.
const (
	// settingGCTTL is how many seconds versions are kept after they were overwritten, in all ranges.
	settingGCTTL = "gc.ttlseconds"
	// settingNonVoters is how many non-voting replicas each range has besides its voters (Options.NonVoters).
	settingNonVoters = "replicas.nonvoters"
)

// maxNonVoters bounds settingNonVoters.
const maxNonVoters = 32

// checkSetting refuses names that are no cluster setting, and values that it can't have.
func checkSetting(name, value string) error {
	return applySetting(&placement.Zone{}, name, value)
}

// applySetting changes a zone's configuration to what a cluster setting says.
func applySetting(z *placement.Zone, name, value string) error {
	lo, hi := int64(0), int64(0)
	switch name {
	case settingGCTTL:
		lo, hi = 1, 1<<31-1
	case settingNonVoters:
		hi = maxNonVoters
	default:
		return sqlstate.New(sqlstate.UndefinedObject, "unrecognized cluster setting %q", name).
			WithHint("There are %s and %s.", settingGCTTL, settingNonVoters)
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < lo || n > hi {
		return sqlstate.New(sqlstate.InvalidParameterValue, "invalid value for cluster setting %q: %q", name, value).
			WithHint("It is an integer from %d to %d.", lo, hi)
	}
	switch name {
	case settingGCTTL:
		z.GCTTL = time.Duration(n) * time.Second
	case settingNonVoters:
		z.NumReplicas = z.NumVoters + int(n)
	}
	return nil
}
