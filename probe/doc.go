// Package probe counts how often rare branches are reached.
//
// A branch that is hard to reach, such as a collision or a lost lease in the middle of a commit, calls
// probes.Reached("fastpaxos: collision"). A simulation hands every node the same Set, and after many seeds asks
// which names were never counted: those branches are not tested, even if all tests pass.
//
// A Set can also be watched (Set.Watch): so a simulation can act at such a moment, without an option in the code of the branch.
//
// A nil *Set is valid and counts nothing, so production nodes pay one comparison.
package probe
