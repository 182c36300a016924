package scalar

import (
	"strings"

	"github.com/cockroachdb/apd/v3"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

// isoWeek is the ISO 8601 year and week of a day.
func isoWeek(days int64) (year, week int) {
	y, _, _ := types.CivilFromDays(days)
	start := func(year int) int64 { // Monday of week 1
		jan4 := types.DaysFromCivil(year, 1, 4)
		return jan4 - int64(isoDOW(jan4)-1)
	}
	switch {
	case days < start(y):
		y--
	case days >= start(y+1):
		y++
	}
	return y, int((days-start(y))/7) + 1
}

// isoDOW is Monday 1 to Sunday 7.
func isoDOW(days int64) int {
	d := (days + 5) % 7 // 2000-01-01 was a Saturday
	if d < 0 {
		d += 7
	}
	return int(d) + 1
}

// truncStamp is date_trunc of a wall clock.
func truncStamp(unit string, local int64, t *types.T) (int64, error) {
	if types.IsInfinite(local) {
		return local, nil
	}
	days, us := types.SplitMicros(local)
	y, m, _ := types.CivilFromDays(days)
	day := func(y, m int) (int64, error) { return types.DaysFromCivil(y, m, 1) * types.DayMicros, nil }
	switch normUnit(unit) {
	case "microseconds":
		return local, nil
	case "milliseconds":
		return local - us%1000, nil
	case "second":
		return local - us%types.SecondMicros, nil
	case "minute":
		return local - us%types.MinuteMicros, nil
	case "hour":
		return local - us%types.HourMicros, nil
	case "day":
		return days * types.DayMicros, nil
	case "week":
		return (days - int64(isoDOW(days)-1)) * types.DayMicros, nil
	case "month":
		return day(y, m)
	case "quarter":
		return day(y, (m-1)/3*3+1)
	case "year":
		return day(y, 1)
	case "decade":
		return day(floorDiv(y, 10)*10, 1)
	case "century":
		if y > 0 {
			return day((y+99)/100*100-99, 1)
		}
		return day(-((99-(y-1))/100)*100+1, 1)
	case "millennium":
		if y > 0 {
			return day((y+999)/1000*1000-999, 1)
		}
		return day(-((999-(y-1))/1000)*1000+1, 1)
	}
	return 0, truncUnknown(unit, t)
}

// truncUnknown refuses a unit of date_trunc, which knows fewer units than extract.
func truncUnknown(unit string, t *types.T) error {
	switch normUnit(unit) {
	case "week":
		return unsupportedUnit(unit, t).WithDetail("Months usually have fractional weeks.")
	case "timezone", "timezone_hour", "timezone_minute":
		return unsupportedUnit(unit, t)
	}
	return unrecognizedUnit(unit, t)
}

func unsupportedUnit(unit string, t *types.T) *sqlstate.Error {
	return sqlstate.New(sqlstate.FeatureNotSupported, "unit %q not supported for type %s", types.Raw(strings.ToLower(unit)), t.Name())
}

func unrecognizedUnit(unit string, t *types.T) *sqlstate.Error {
	return sqlstate.New(sqlstate.InvalidParameterValue, "unit %q not recognized for type %s", types.Raw(strings.ToLower(unit)), t.Name())
}

func unknownUnit(unit string, t *types.T) error {
	switch normUnit(unit) {
	case "dow", "isodow", "doy", "epoch", "isoyear", "timezone", "timezone_hour", "timezone_minute", "julian", "week", "day",
		"hour", "minute", "second", "month", "year", "quarter", "decade", "century", "millennium", "milliseconds", "microseconds":
		return unsupportedUnit(unit, t)
	}
	return unrecognizedUnit(unit, t)
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// normUnit maps the spellings of a unit to one.
func normUnit(u string) string {
	switch u = strings.ToLower(u); u {
	case "us", "usec", "usecs", "useconds", "microsecond", "microsecon", "microseconds":
		return "microseconds"
	case "ms", "msec", "msecs", "mseconds", "millisecond", "millisecon", "milliseconds":
		return "milliseconds"
	case "s", "sec", "secs", "seconds":
		return "second"
	case "m", "min", "mins", "minutes":
		return "minute"
	case "h", "hr", "hrs", "hours":
		return "hour"
	case "d", "days":
		return "day"
	case "w", "weeks":
		return "week"
	case "mon", "mons", "months":
		return "month"
	case "qtr", "quarters":
		return "quarter"
	case "y", "yr", "yrs", "years":
		return "year"
	case "dec", "decs", "decades":
		return "decade"
	case "c", "cent", "centuries":
		return "century"
	case "mil", "mils", "millennia":
		return "millennium"
	}
	return u
}

func dec(n int64, scale int32) types.Datum { return types.NewDecimal(apd.New(n, -scale)) }

// extractStamp is a field of a wall clock; utc is the instant, for epoch, and off its zone if zoned.
func extractStamp(unit string, local, utc int64, off int, t *types.T) (types.Datum, error) {
	u := normUnit(unit)
	if types.IsInfinite(local) {
		switch u {
		case "hour", "minute", "second", "milliseconds", "microseconds":
			if t.Kind == types.KindDate {
				return types.Null, unknownUnit(unit, t)
			}
		case "year", "decade", "century", "millennium", "epoch", "isoyear", "julian":
			if local > 0 {
				return types.NewDecimal(types.DecimalInf()), nil
			}
			return types.NewDecimal(types.DecimalNegInf()), nil
		}
		if err := unknownUnit(unit, t).(*sqlstate.Error); err.Code != sqlstate.FeatureNotSupported {
			return types.Null, err
		}
		return types.Null, nil
	}
	days, us := types.SplitMicros(local)
	y, m, d := types.CivilFromDays(days)
	clock := t.Kind != types.KindDate
	if clock {
		switch u {
		case "microseconds":
			return dec(us%types.MinuteMicros, 0), nil
		case "milliseconds":
			return dec(us%types.MinuteMicros, 3), nil
		case "second":
			return dec(us%types.MinuteMicros, 6), nil
		case "minute":
			return dec(us/types.MinuteMicros%60, 0), nil
		case "hour":
			return dec(us/types.HourMicros, 0), nil
		}
		if t.Kind == types.KindTimestampTZ {
			switch u {
			case "timezone":
				return dec(int64(off), 0), nil
			case "timezone_hour":
				return dec(int64(off/3600), 0), nil
			case "timezone_minute":
				return dec(int64(off%3600/60), 0), nil
			}
		}
	}
	bcYear := y
	if y <= 0 {
		bcYear = y - 1
	}
	switch u {
	case "day":
		return dec(int64(d), 0), nil
	case "month":
		return dec(int64(m), 0), nil
	case "quarter":
		return dec(int64((m-1)/3+1), 0), nil
	case "year":
		return dec(int64(bcYear), 0), nil
	case "decade":
		return dec(int64(floorDiv(y, 10)), 0), nil
	case "century":
		if y > 0 {
			return dec(int64((y+99)/100), 0), nil
		}
		return dec(-int64((99-(y-1))/100), 0), nil
	case "millennium":
		if y > 0 {
			return dec(int64((y+999)/1000), 0), nil
		}
		return dec(-int64((999-(y-1))/1000), 0), nil
	case "week":
		_, w := isoWeek(days)
		return dec(int64(w), 0), nil
	case "isoyear":
		iy, _ := isoWeek(days)
		if iy <= 0 {
			iy--
		}
		return dec(int64(iy), 0), nil
	case "dow":
		return dec(int64(isoDOW(days)%7), 0), nil
	case "isodow":
		return dec(int64(isoDOW(days)), 0), nil
	case "doy":
		return dec(days-types.DaysFromCivil(y, 1, 1)+1, 0), nil
	case "julian":
		if !clock {
			return dec(days+2451545, 0), nil
		}
		part, err := divDecimal(nil, dec(us, 6), dec(86400*1000000, 6))
		if err != nil {
			return types.Null, err
		}
		return addDecimal(nil, dec(days+2451545, 0), part)
	case "epoch":
		const epoch = 946684800
		if !clock {
			return dec(days*86400+epoch, 0), nil
		}
		return decimalOf(sumDecimals(apd.New(utc, -6), apd.New(epoch, 0), false))
	}
	return types.Null, unknownUnit(unit, t)
}

func extractInterval(unit string, d types.Datum) (types.Datum, error) {
	months, days, us := d.Interval()
	switch normUnit(unit) {
	case "microseconds":
		return dec(us%types.MinuteMicros, 0), nil
	case "milliseconds":
		return dec(us%types.MinuteMicros, 3), nil
	case "second":
		return dec(us%types.MinuteMicros, 6), nil
	case "minute":
		return dec(us/types.MinuteMicros%60, 0), nil
	case "hour":
		return dec(us/types.HourMicros, 0), nil
	case "day":
		return dec(int64(days), 0), nil
	case "month":
		return dec(int64(months%12), 0), nil
	case "quarter":
		return dec(int64(months%12/3+1), 0), nil
	case "year":
		return dec(int64(months/12), 0), nil
	case "decade":
		return dec(int64(months/120), 0), nil
	case "century":
		return dec(int64(months/1200), 0), nil
	case "millennium":
		return dec(int64(months/12000), 0), nil
	case "epoch":
		// A year counts 365.25 days here, a month of the rest 30.
		secs := int64(months/12)*31557600 + int64(months%12)*30*86400 + int64(days)*86400
		r := sumDecimals(apd.New(secs, 0), apd.New(us, -6), false)
		return decimalOf(r)
	}
	return types.Null, unknownUnit(unit, types.IntervalType)
}

func extractTime(unit string, d types.Datum, t *types.T) (types.Datum, error) {
	us := d.Micros()
	switch u := normUnit(unit); u {
	case "microseconds":
		return dec(us%types.MinuteMicros, 0), nil
	case "milliseconds":
		return dec(us%types.MinuteMicros, 3), nil
	case "second":
		return dec(us%types.MinuteMicros, 6), nil
	case "minute":
		return dec(us/types.MinuteMicros%60, 0), nil
	case "hour":
		return dec(us/types.HourMicros, 0), nil
	case "epoch":
		return dec(us-int64(d.Zone())*types.SecondMicros, 6), nil
	case "timezone", "timezone_hour", "timezone_minute":
		if t.Kind == types.KindTimeTZ {
			switch u {
			case "timezone":
				return dec(int64(d.Zone()), 0), nil
			case "timezone_hour":
				return dec(int64(d.Zone()/3600), 0), nil
			}
			return dec(int64(d.Zone()%3600/60), 0), nil
		}
	}
	return types.Null, unknownUnit(unit, t)
}

// overlap is OVERLAPS of two periods. If the end of a period is NULL, the result is known where its start decides.
func overlap(a []types.Datum) (types.Datum, error) {
	s1, e1, s2, e2 := a[0], a[1], a[2], a[3]
	if s1.IsNull() && e1.IsNull() || s2.IsNull() && e2.IsNull() {
		return types.Null, nil
	}
	order := func(s, e *types.Datum) {
		if s.IsNull() || !e.IsNull() && types.Compare(*s, *e) > 0 {
			*s, *e = *e, *s
		}
	}
	order(&s1, &e1)
	order(&s2, &e2)
	c := types.Compare(s1, s2)
	if c > 0 {
		s1, e1, s2, e2, c = s2, e2, s1, e1, -c
	}
	switch {
	case c == 0:
		if e1.IsNull() || e2.IsNull() {
			return types.Null, nil
		}
		return boolean(true)
	case e1.IsNull():
		return types.Null, nil
	case types.Compare(s2, e1) < 0:
		return boolean(true)
	case e2.IsNull():
		return types.Null, nil
	}
	return boolean(false)
}

func dateBin(_ *Context, a []types.Datum) (types.Datum, error) {
	months, days, us := a[0].Interval()
	switch {
	case types.IsInfinite(a[1].Micros()):
		return a[1], nil
	case types.IsInfinite(a[2].Micros()):
		return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "origin out of range")
	case months != 0:
		return types.Null, sqlstate.New(sqlstate.FeatureNotSupported, "timestamps cannot be binned into intervals containing months or years")
	}
	stride, ok := mulInt64(int64(days), types.DayMicros)
	if stride += us; !ok || (stride > us) != (days > 0) && days != 0 {
		return types.Null, intervalRange()
	}
	if stride <= 0 {
		return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "stride must be greater than zero")
	}
	diff := a[1].Micros() - a[2].Micros()
	if (diff > 0) != (a[1].Micros() > a[2].Micros()) && diff != 0 {
		return types.Null, intervalRange()
	}
	d := diff - diff%stride
	if diff < 0 && diff%stride != 0 {
		d -= stride
	}
	return stampOf(a[2].Micros() + d)
}

func truncInterval(unit string, d types.Datum) (types.Datum, error) {
	m, days, us := d.Interval()
	switch normUnit(unit) {
	case "microseconds":
	case "milliseconds":
		us -= us % 1000
	case "second":
		us -= us % types.SecondMicros
	case "minute":
		us -= us % types.MinuteMicros
	case "hour":
		us -= us % types.HourMicros
	case "day":
		us = 0
	case "month":
		days, us = 0, 0
	case "quarter":
		m, days, us = m-m%3, 0, 0
	case "year":
		m, days, us = m-m%12, 0, 0
	case "decade":
		m, days, us = m-m%120, 0, 0
	case "century":
		m, days, us = m-m%1200, 0, 0
	case "millennium":
		m, days, us = m-m%12000, 0, 0
	default:
		return types.Null, truncUnknown(unit, types.IntervalType)
	}
	return types.NewInterval(m, days, us), nil
}
