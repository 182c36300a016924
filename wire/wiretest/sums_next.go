//go:build nextversion

package wiretest

// later says that this build has fields which a release does not have.
const later = true
