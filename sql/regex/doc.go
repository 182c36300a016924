// Package regex has PostgreSQL's advanced regular expressions (chapter 9.7.3 of its manual): parsing, and matching in memory that does not grow
// with the text.
//
// The problem: a match of PostgreSQL begins as far left as one can, and then is the longest one, or the shortest one, as the first quantifier of the
// pattern prefers; alternatives have no order. Its parts divide the match among them from left to right, each taking as much, or as little, as
// it prefers. The library regexp takes the first alternative that matches, or the longest match of a pattern that has no lazy quantifier, and knows
// neither back references nor conditions on the text around a place.
//
// The idea is that of Henry Spencer's library, which PostgreSQL has: a pattern is a tree (node) of parts whose boundaries matter, which are
// groups, back references and parts of another preference than what is before them. Everything between them is one automaton.
//
//	pattern  --parse-->  tree of nodes, an automaton (prog) for each
//	text     --find--->  begin and end of the match, by the automaton of the root
//	         --dissect-> places of the groups: a node tries the ends of its first part that the part's automaton accepts, its favourite end first
//
// An automaton is simulated with the set of its states, so a search costs the length of the text times the size of the pattern, and the tree's
// dissection that for each node. With back references all ends have to be tried, and a search may cost much more: a bound on its steps ends it.
//
// An automaton without conditions remembers the sets of states that it was in (cache), and which one follows which on a character, so that a search
// costs some nanoseconds a byte. A pattern that begins with a fixed text is searched where that text is.
//
// Rules:
//
//	regex.RX1: A Regexp does not change after it was compiled, and searches at the same time do not disturb each other.
//	regex.RX2 (I9): A pattern has at most programMax instructions, and a search keeps memory in proportion to them and at most cacheMax sets of states.
//	regex.RX3: A search calls its check at least every checkEvery steps, and ends with its error.
package regex
