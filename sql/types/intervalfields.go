package types

import "strconv"

// The fields of an interval in its modifier, as PostgreSQL encodes them: a mask above the precision.
const (
	intervalMonth  = 1 << 1
	intervalYear   = 1 << 2
	intervalDay    = 1 << 3
	intervalHour   = 1 << 10
	intervalMinute = 1 << 11
	intervalSecond = 1 << 12
	intervalAll    = 0x7fff
	// intervalMicros stands for a precision that is not given.
	intervalMicros = 0xffff
)

// IntervalOf is interval with a range of fields, such as "hour to minute", and a precision, if they are not empty and not
// negative; nil if there is no such range.
func IntervalOf(fields string, precision int32) *T {
	mask := intervalAll
	if fields != "" {
		if mask = intervalMask(fields); mask == 0 {
			return nil
		}
	}
	if precision < 0 {
		if mask == intervalAll {
			return IntervalType
		}
		precision = intervalMicros
	}
	return IntervalType.WithTypmod(int32(mask<<16) | precision)
}

var intervalRanges = []struct {
	fields string
	mask   int
}{
	{"year", intervalYear}, {"month", intervalMonth}, {"day", intervalDay}, {"hour", intervalHour}, {"minute", intervalMinute},
	{"second", intervalSecond}, {"year to month", intervalYear | intervalMonth}, {"day to hour", intervalDay | intervalHour},
	{"day to minute", intervalDay | intervalHour | intervalMinute}, {"day to second", intervalDay | intervalHour | intervalMinute | intervalSecond},
	{"hour to minute", intervalHour | intervalMinute}, {"hour to second", intervalHour | intervalMinute | intervalSecond},
	{"minute to second", intervalMinute | intervalSecond},
}

func intervalMask(fields string) int {
	for _, r := range intervalRanges {
		if r.fields == fields {
			return r.mask
		}
	}
	return 0
}

// intervalRange is the mask and the precision of an interval's modifier.
func (t *T) intervalRange() (mask, precision int) {
	m := t.Typmod()
	if m < 0 {
		return intervalAll, intervalMicros
	}
	return int(m>>16) & intervalAll, int(m) & intervalMicros
}

// intervalName is the name with the modifier.
func (t *T) intervalName() string {
	mask, precision := t.intervalRange()
	s := "interval"
	for _, r := range intervalRanges {
		if r.mask == mask {
			s += " " + r.fields
		}
	}
	if precision != intervalMicros {
		s += "(" + strconv.Itoa(precision) + ")"
	}
	return s
}

// fitInterval drops the fields below those of the type, and rounds.
func fitInterval(d Datum, t *T) Datum {
	mask, precision := t.intervalRange()
	months, days, micros := d.Interval()
	switch mask {
	case intervalYear:
		months, days, micros = months/12*12, 0, 0
	case intervalMonth, intervalYear | intervalMonth:
		days, micros = 0, 0
	case intervalDay:
		micros = 0
	case intervalHour, intervalDay | intervalHour:
		micros = micros / HourMicros * HourMicros
	case intervalMinute, intervalHour | intervalMinute, intervalDay | intervalHour | intervalMinute:
		micros = micros / MinuteMicros * MinuteMicros
	}
	if precision < 6 {
		micros = RoundMicros(micros, int32(precision))
	}
	return NewInterval(months, days, micros)
}
