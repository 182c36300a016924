//go:build !nextversion

package version

// later has no features: this build is that of the present release.
var later []feature

// Built is what this build can do.
func Built() Binary { return present }

// uses is nothing: the features of this release are not counted.
//
//lint:ignore U1000 the build with the tag nextversion uses it
type uses struct{}
