package types

import (
	"testing"
	"time"
)

// TestSessionZone compares with PostgreSQL 15's results of SET TIME ZONE, SHOW TIME ZONE and a timestamp in July.
func TestSessionZone(t *testing.T) {
	july := MicrosFromTime(time.Date(2024, 7, 1, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct{ in, name, at string }{
		{"GMT+2", "GMT+2", "2024-07-01 10:00:00-02"},
		{"+02:00", "+02:00", "2024-07-01 10:00:00-02"},
		{"-02:00", "-02:00", "2024-07-01 14:00:00+02"},
		{"2", "<+02>-02", "2024-07-01 14:00:00+02"},
		{"-3.5", "<-03:30>+03:30", "2024-07-01 08:30:00-03:30"},
		{"INTERVAL '+00:00'", "<+00>-00", "2024-07-01 12:00:00+00"},
		{"interval '-03:30'", "<-03:30>+03:30", "2024-07-01 08:30:00-03:30"},
		{"UTC-5", "UTC-5", "2024-07-01 17:00:00+05"},
		{"EST5EDT", "EST5EDT", "2024-07-01 08:00:00-04"},
		{"America/New_York", "America/New_York", "2024-07-01 08:00:00-04"},
		{"america/new_york", "America/New_York", "2024-07-01 08:00:00-04"},
		{"foo", "", ""},
		{"PST8PDT,M3.2.0,M11.1.0", "PST8PDT,M3.2.0,M11.1.0", "2024-07-01 05:00:00-07"},
		{"<+03>-3", "<+03>-3", "2024-07-01 15:00:00+03"},
		{"Etc/GMT+5", "Etc/GMT+5", "2024-07-01 07:00:00-05"},
		{"JST-9", "JST-9", "2024-07-01 21:00:00+09"},
		{"FOO+3:30", "FOO+3:30", "2024-07-01 08:30:00-03:30"},
		{"EST", "EST", "2024-07-01 07:00:00-05"},
		{"MSK", "", ""},
		{"CEST", "", ""},
		{"15", "<+15>-15", "2024-07-02 03:00:00+15"},
		{"168", "", ""},
		{"interval '1 month'", "", ""},
		{"z", "", ""},
		{"utc", "UTC", "2024-07-01 12:00:00+00"},
		{"Europe/berlin", "Europe/Berlin", "2024-07-01 14:00:00+02"},
		{"pst8pdt", "PST8PDT", "2024-07-01 05:00:00-07"},
		{"", "", ""},
		{"../etc/passwd", "", ""},
	} {
		loc, name, err := SessionZone(c.in)
		if (err != nil) != (c.name == "") || name != c.name {
			t.Errorf("%s: %q, %v, want %q", c.in, name, err, c.name)
			continue
		}
		if err == nil {
			if at := string(AppendTimestampTZ(nil, july, loc)); at != c.at {
				t.Errorf("%s: %s, want %s", c.in, at, c.at)
			}
		}
	}
}
