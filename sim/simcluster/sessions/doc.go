// Package sessions has the tests of what sessions on several nodes do to each other: locks, waits and deadlocks,
// notifications, changes of schema under load, admission, and authentication.
package sessions
