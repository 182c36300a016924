//go:build !race

package ranges_test

// raceDetector says that the race detector is built in.
const raceDetector = false
