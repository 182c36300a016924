package session

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"meridian/clock"
	"meridian/kv"
	"meridian/sql/rowcode"
	"meridian/sql/sqlstate"
	"meridian/txn"
	"meridian/wire"
)

// A commit with an unknown outcome is 40003, whatever its other causes; no other error is.
func TestOutcomeOfACommit(t *testing.T) {
	lost := &kv.AmbiguousError{Reason: "connection reset"}
	canceled := sqlstate.New(sqlstate.QueryCanceled, "canceling statement due to statement timeout")
	stopped := sqlstate.New(sqlstate.AdminShutdown, "terminating connection due to administrator command")
	for _, tc := range []struct {
		err  error
		want sqlstate.Code
	}{
		{lost, sqlstate.StatementCompletionUnknown},
		{fmt.Errorf("commit: %w", lost), sqlstate.StatementCompletionUnknown},
		{errors.Join(canceled, lost), sqlstate.StatementCompletionUnknown},
		{errors.Join(stopped, lost), sqlstate.StatementCompletionUnknown},
		{errors.Join(canceled, context.Canceled), sqlstate.QueryCanceled},
		{errors.Join(stopped, context.Canceled), sqlstate.AdminShutdown},
		{&txn.RetryError{}, sqlstate.SerializationFailure},
		{&rowcode.NewerError{}, sqlstate.SerializationFailure},
		{&kv.UnavailableError{}, sqlstate.CannotConnectNow},
		{fmt.Errorf("read: %w", &clock.DoubtError{Cause: errors.New("n1 and n2")}), sqlstate.CannotConnectNow},
		{fmt.Errorf("scan: %w", &kv.NotClosedError{Range: 7}), sqlstate.UnsatisfiableStaleness},
		{fmt.Errorf("alter: %w", &kv.ProtocolRefusedError{Range: 7, Protocol: kv.Epoch, Node: 3}), sqlstate.FeatureNotSupported},
		{fmt.Errorf("get: %w", kv.Unreadable("a transaction record", nil, &wire.VersionError{Message: "commit.Record", Field: 9001})), sqlstate.FeatureNotSupported},
		{fmt.Errorf("get: %w", kv.Unreadable("a transaction record", nil, &wire.MalformedError{Message: "commit.Record"})), sqlstate.DataCorrupted},
		{fmt.Errorf("commit: %w", &txn.TooManyWritesError{Protocol: kv.FastPaxos, Writes: 2000, Most: 1000}), sqlstate.ProgramLimitExceeded},
		{fmt.Errorf("read: %w", &kv.ProtocolError{Range: 4, Protocol: kv.Leader}), sqlstate.SerializationFailure},
		{fmt.Errorf("scan: %w", &txn.UnsupportedError{Protocol: kv.FastPaxos, What: "scans"}), sqlstate.FeatureNotSupported},
	} {
		if got := Outcome(tc.err).Code; got != tc.want {
			t.Errorf("%v: %s, want %s", tc.err, got, tc.want)
		}
	}
}
