package ranges_test

import (
	"testing"

	"meridian/sim/simcluster/simtest"
)

func TestMain(m *testing.M) { simtest.Main(m) }
