// Package bank moves money between accounts; the sum of all balances never changes.
package bank
