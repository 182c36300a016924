//go:build !race

package simcluster_test

// raceDetector says that the race detector is built in.
const raceDetector = false
