package session

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"meridian/sql/session/result"

	"meridian/keys"
	"meridian/sql/bind"
	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func showColumns(c *bind.Show) []result.Column {
	i8 := func(n string) result.Column { return result.Column{Name: n, Type: types.Int8} }
	switch c.What {
	case "RANGES":
		return []result.Column{text("start_key"), text("end_key"), i8("range_id"), i8("range_size"), i8("lease_holder"),
			text("lease_holder_region"), text("replicas"), text("replica_localities"), text("non_voting_replicas"), text("witness_replicas")}
	case "CREATE TABLE", "CREATE VIEW", "CREATE SEQUENCE", "CREATE":
		return []result.Column{text("table_name"), text("create_statement")}
	}
	return []result.Column{text(strings.ToLower(c.What))}
}

// show runs the SHOW statements that are not queries over virtual relations.
func (s *Session) show(ctx context.Context, c *bind.Show, w *rowWriter) error {
	switch c.What {
	case "RANGES":
		return showRanges(ctx, s.srv.Ranges, s.rights(), c, w)
	case "CREATE TABLE", "CREATE VIEW", "CREATE SEQUENCE", "CREATE":
		if c.Table == nil {
			return sqlstate.New(sqlstate.UndefinedTable, "no such relation")
		}
		s.ensureTxn()
		sql, err := s.srv.Virtual.CreateStatement(ctx, s.env.functions(), uint32(c.Table.ID))
		if err != nil {
			return err
		}
		w.columns(showColumns(c)...)
		return w.row(types.NewString(c.Table.Name), types.NewString(sql))
	}
	return sqlstate.New(sqlstate.FeatureNotSupported, "SHOW %s is not supported", c.What)
}

// showRanges lists ranges. A role that is not a superuser sees no keys of other tables.
func showRanges(ctx context.Context, ranges Ranges, r rights, c *bind.Show, w *rowWriter) error {
	spans := shownSpans(c)
	w.columns(showColumns(c)...)
	clip := c.Table != nil && !r.access.Superuser(r.role)
	for _, span := range spans {
		if err := showSpan(ctx, ranges, span, clip, w); err != nil {
			return err
		}
	}
	return nil
}

// shownSpans are the parts of the keyspace of a SHOW RANGES. The rows of an interleaved table are among those of the root, and its other indexes are in its own span.
func shownSpans(c *bind.Show) []keys.Span {
	switch {
	case c.Table == nil:
		return []keys.Span{{Start: keys.TablePrefix, End: keys.TableMax}}
	case c.Table.Interleave != nil && (c.Index == nil || c.Index.Primary):
		spans := []keys.Span{keys.IndexSpan(c.Table.Root())}
		if c.Index == nil && len(c.Table.Indexes) > 1 {
			spans = append(spans, keys.TableSpan(c.Table.ID))
		}
		return spans
	case c.Index != nil:
		return []keys.Span{keys.IndexSpan(c.Table.ID, c.Index.ID)}
	}
	return []keys.Span{keys.TableSpan(c.Table.ID)}
}

func showSpan(ctx context.Context, ranges Ranges, span keys.Span, clip bool, w *rowWriter) error {
	rows, err := ranges.Ranges(ctx, span.Start, span.End)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if clip { // a range may begin or end at a row of another table
			r.Start, r.End = maxKey(r.Start, span.Start), minKey(r.End, span.End)
		}
		var replicas, places, silent, witnesses []string
		for i, n := range r.Replicas {
			replicas = append(replicas, strconv.Itoa(int(n)))
			if slices.Contains(r.NonVoters, n) {
				silent = append(silent, strconv.Itoa(int(n)))
			}
			if slices.Contains(r.Witnesses, n) {
				witnesses = append(witnesses, strconv.Itoa(int(n)))
			}
			if i < len(r.Localities) {
				places = append(places, r.Localities[i])
			}
		}
		err := w.row(types.NewString(keys.PrettyPrint(r.Start)), types.NewString(keys.PrettyPrint(r.End)), types.NewInt(int64(r.ID)),
			types.NewInt(r.Bytes), types.NewInt(int64(r.Leaseholder)), types.NewString(ranges.Region(r.Leaseholder)),
			types.NewString("{"+strings.Join(replicas, ",")+"}"), types.NewString("{"+strings.Join(places, ",")+"}"),
			types.NewString("{"+strings.Join(silent, ",")+"}"), types.NewString("{"+strings.Join(witnesses, ",")+"}"))
		if err != nil {
			return err
		}
	}
	return nil
}

func maxKey(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

func minKey(a, b []byte) []byte {
	if bytes.Compare(a, b) > 0 {
		return b
	}
	return a
}

// splitAt is ALTER TABLE ... SPLIT AT: each row of the query is a prefix of the index's key.
func (s *Session) splitAt(ctx context.Context, c *bind.SplitAt) (string, error) {
	if c.Unsplit && c.All {
		return unsplitAll(ctx, s.srv.Ranges, c)
	}
	if c.Scatter || c.Rows == nil {
		return "", sqlstate.New(sqlstate.FeatureNotSupported, "SCATTER is not supported").WithHint("Ranges are spread by themselves.")
	}
	s.ensureTxn()
	var at [][]byte
	_, err := s.runBound(ctx, c.Rows, nil, func(r types.Row) error {
		k, err := splitKey(c.Table, c.Index, r)
		at = append(at, k)
		return err
	})
	if err != nil {
		return "", err
	}
	if c.Unsplit {
		return "ALTER TABLE", s.srv.Ranges.Unsplit(ctx, at)
	}
	return "ALTER TABLE", s.srv.Ranges.Split(ctx, at)
}

// unsplitAll is ALTER TABLE ... UNSPLIT ALL: every range that begins within the index may be merged again.
func unsplitAll(ctx context.Context, ranges Ranges, c *bind.SplitAt) (string, error) {
	start, err := splitKey(c.Table, c.Index, nil)
	if err != nil {
		return "", err
	}
	span := keys.Span{Start: start, End: keys.Key(start).PrefixEnd()}
	rows, err := ranges.Ranges(ctx, span.Start, span.End)
	if err != nil {
		return "", err
	}
	var at [][]byte
	for i := range rows {
		if span.Contains(rows[i].Start) {
			at = append(at, rows[i].Start)
		}
	}
	return "ALTER TABLE", ranges.Unsplit(ctx, at)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d.Nanoseconds())/1e6) }
