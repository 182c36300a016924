package scalar

import (
	"math"
	"strconv"
	"strings"
	"time"

	"meridian/sql/sqlstate"
	"meridian/sql/types"
)

func timestampRange() error { return sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range") }
func intervalRange() error  { return sqlstate.New(sqlstate.DatetimeOverflow, "interval out of range") }

func stampOf(micros int64) (types.Datum, error) {
	if types.CheckTimestamp(micros) != nil {
		return types.Null, timestampRange()
	}
	return types.NewTimestamp(micros), nil
}

// addMonths moves a day by months, to the last day of the resulting month at most.
func addMonths(days int64, months int32) int64 {
	y, m, d := types.CivilFromDays(days)
	total := y*12 + m - 1 + int(months)
	y, m = total/12, total%12
	if m < 0 {
		m += 12
		y--
	}
	return types.DaysFromCivil(y, m+1, min(d, types.DaysInMonth(y, m+1)))
}

func addToStamp(micros int64, months, days int32, us int64) (types.Datum, error) {
	if types.IsInfinite(micros) {
		return types.NewTimestamp(micros), nil
	}
	day, of := types.SplitMicros(micros)
	if months != 0 {
		day = addMonths(day, months)
	}
	day += int64(days)
	if day > 110000000 || day < -3000000 {
		return types.Null, timestampRange()
	}
	base := day*types.DayMicros + of
	sum := base + us
	if (sum > base) != (us > 0) && us != 0 {
		return types.Null, timestampRange()
	}
	return stampOf(sum)
}

// addToZoned adds months and days by the calendar of the zone, the rest by the clock.
func addToZoned(ctx *Context, micros int64, months, days int32, us int64) (types.Datum, error) {
	if types.IsInfinite(micros) {
		return types.NewTimestamp(micros), nil
	}
	if months != 0 || days != 0 {
		loc := types.LocationOrUTC(ctx.TextEnv().Location)
		d, err := addToStamp(types.LocalMicros(micros, loc), months, days, 0)
		if err != nil {
			return types.Null, err
		}
		micros = types.UTCMicros(d.Micros(), loc)
	}
	return addToStamp(micros, 0, 0, us)
}

func addInt32(a, b int32) (int32, bool) {
	s := int64(a) + int64(b)
	return int32(s), s == int64(int32(s))
}

func addIntervals(_ *Context, a, b types.Datum) (types.Datum, error) {
	m1, d1, u1 := a.Interval()
	m2, d2, u2 := b.Interval()
	m, ok1 := addInt32(m1, m2)
	d, ok2 := addInt32(d1, d2)
	u := u1 + u2
	if !ok1 || !ok2 || (u > u1) != (u2 > 0) && u2 != 0 {
		return types.Null, intervalRange()
	}
	return types.NewInterval(m, d, u), nil
}

func negInterval(_ *Context, a types.Datum) (types.Datum, error) {
	m, d, u := a.Interval()
	if m == math.MinInt32 || d == math.MinInt32 || u == math.MinInt64 {
		return types.Null, intervalRange()
	}
	return types.NewInterval(-m, -d, -u), nil
}

// scaleInterval is an interval times mul/div; fractions of months go to days and those of days to time.
func scaleInterval(a types.Datum, mul, div float64) (types.Datum, error) {
	months, days, micros := a.Interval()
	scale := func(v float64) float64 { return v * mul / div }
	fm := scale(float64(months))
	fd := scale(float64(days))
	beyond := func(f float64) bool { return !(f >= math.MinInt32 && f <= math.MaxInt32) }
	if beyond(fm) || beyond(fd) {
		return types.Null, intervalRange()
	}
	m, d := math.Trunc(fm), math.Trunc(fd)
	// The remainder of the months, in days, cut to microseconds.
	monthDays := round6((fm - m) * 30)
	secs := round6((fd - d + monthDays - math.Trunc(monthDays)) * 86400)
	if math.Abs(secs) >= 86400 {
		d += math.Trunc(secs / 86400)
		secs -= math.Trunc(secs/86400) * 86400
	}
	d += math.Trunc(monthDays)
	us := math.RoundToEven(scale(float64(micros)) + secs*1e6)
	if !(us >= math.MinInt64 && us < -math.MinInt64) || beyond(d) {
		return types.Null, intervalRange()
	}
	return types.NewInterval(int32(m), int32(d), int64(us)), nil
}

func round6(f float64) float64 { return math.RoundToEven(f*1e6) / 1e6 }

func diffStamps(a, b int64) (types.Datum, error) {
	if types.IsInfinite(a) || types.IsInfinite(b) {
		return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "cannot subtract infinite timestamps")
	}
	d := a - b
	return types.NewInterval(0, int32(d/types.DayMicros), d%types.DayMicros), nil
}

func justifyHours(d types.Datum) (types.Datum, error) {
	m, days, us := d.Interval()
	days, ok := addInt32(days, int32(us/types.DayMicros))
	if !ok {
		return types.Null, intervalRange()
	}
	us %= types.DayMicros
	days, us = sameSign(days, us)
	return types.NewInterval(m, days, us), nil
}

// sameSign gives the days and the microseconds (less than a day) of an interval the same sign.
func sameSign(days int32, us int64) (int32, int64) {
	if days > 0 && us < 0 {
		return days - 1, us + types.DayMicros
	} else if days < 0 && us > 0 {
		return days + 1, us - types.DayMicros
	}
	return days, us
}

func justifyDays(d types.Datum) (types.Datum, error) {
	m, days, us := d.Interval()
	m, ok := addInt32(m, days/30)
	if !ok {
		return types.Null, intervalRange()
	}
	days %= 30
	if m > 0 && days < 0 {
		days += 30
		m--
	} else if m < 0 && days > 0 {
		days -= 30
		m++
	}
	return types.NewInterval(m, days, us), nil
}

func justifyInterval(d types.Datum) (types.Datum, error) {
	m, days, us := d.Interval()
	ok := true
	if days > 0 && us > 0 || days < 0 && us < 0 {
		// Days become months before hours become days, which then cannot overflow.
		if m, ok = addInt32(m, days/30); !ok {
			return types.Null, intervalRange()
		}
		days %= 30
	}
	days += int32(us / types.DayMicros)
	us %= types.DayMicros
	if m, ok = addInt32(m, days/30); !ok {
		return types.Null, intervalRange()
	}
	days %= 30
	if m > 0 && (days < 0 || days == 0 && us < 0) {
		days += 30
		m--
	} else if m < 0 && (days > 0 || days == 0 && us > 0) {
		days -= 30
		m++
	}
	days, us = sameSign(days, us)
	return types.NewInterval(m, days, us), nil
}

// age is the calendar difference of two wall clocks.
func age(a, b int64) (types.Datum, error) {
	if a == types.NegInfinityNum || b == types.NegInfinityNum {
		return types.Null, timestampRange() // infinity is counted as what it is held as, in the year 294277, as in PostgreSQL 15
	}
	neg := a < b
	if neg {
		a, b = b, a
	}
	da, ua := types.SplitMicros(a)
	db, ub := types.SplitMicros(b)
	y1, m1, d1 := types.CivilFromDays(da)
	y2, m2, d2 := types.CivilFromDays(db)
	years, months, days, us := y1-y2, m1-m2, d1-d2, ua-ub
	if us < 0 {
		us += types.DayMicros
		days--
	}
	if days < 0 {
		// Borrow the length of the earlier date's month.
		days += types.DaysInMonth(y2, m2)
		months--
	}
	if months < 0 {
		months += 12
		years--
	}
	total := int32(years*12 + months)
	if neg {
		return types.NewInterval(-total, -int32(days), -us), nil
	}
	return types.NewInterval(total, int32(days), us), nil
}

// zoneByName finds a zone as AT TIME ZONE does.
func zoneByName(name string) (types.Zone, error) {
	z, ok := types.ZoneByName(name)
	if !ok {
		return z, sqlstate.New(sqlstate.InvalidParameterValue, "time zone %q not recognized", types.Raw(name))
	}
	return z, nil
}

// saneZone is zoneByName for make_timestamptz, where an offset is east of Greenwich.
func saneZone(name string) (types.Zone, error) {
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return types.Zone{}, sqlstate.New(sqlstate.InvalidParameterValue, "invalid input syntax for type numeric time zone: %q", types.Raw(name)).
			WithHint(`Numeric time zones must have "-" or "+" as first character.`)
	}
	z, ok, valid := types.SaneZone(name)
	switch {
	case !valid:
		return z, sqlstate.New(sqlstate.InvalidParameterValue, "numeric time zone %q out of range", types.Raw(name))
	case !ok:
		return zoneByName(name)
	}
	return z, nil
}

// zoneInterval is an offset from UTC given as an interval, in microseconds.
func zoneInterval(ctx *Context, d types.Datum) (int64, error) {
	months, days, us := d.Interval()
	if months != 0 || days != 0 {
		return 0, sqlstate.New(sqlstate.InvalidParameterValue, "interval time zone %q must not include months or days",
			types.Raw(types.FormatText(d, types.IntervalType, ctx.style())))
	}
	return us / types.SecondMicros * types.SecondMicros, nil
}

func offsetOf(utc int64, loc *time.Location) int {
	return int((types.LocalMicros(utc, loc) - utc) / types.SecondMicros)
}

// addDateTime adds the functions and operators of dates, times and intervals.
func addDateTime(r *Registry) {
	addClocks(r)
	addDateArithmetic(r)
	addDateFields(r)
	addAges(r)
	addTimeZones(r)
	addMakers(r)
}

// addClocks adds the functions that return the present time.
func addClocks(r *Registry) {
	now := func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.MicrosFromTime(ctx.TxnTime)), nil
	}
	for _, n := range []string{"now", "current_timestamp", "transaction_timestamp"} {
		r.Func(n+"() timestamptz", now).Stable()
	}
	r.Func1("current_timestamp(int4) timestamptz", func(ctx *Context, p types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.RoundMicros(types.MicrosFromTime(ctx.TxnTime), int32(p.Int()))), nil
	}).Stable()
	r.Func("statement_timestamp() timestamptz", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.MicrosFromTime(ctx.StatementTime)), nil
	}).Stable()
	clock := func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.MicrosFromTime(ctx.Clock())), nil
	}
	r.Func("clock_timestamp() timestamptz", clock).Volatile()
	r.Func("follower_read_timestamp() timestamptz", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.MicrosFromTime(ctx.StatementTime.Add(-ctx.FollowerReadLag))), nil
	}).Stable()
	addStaleness(r)
	r.Func("timeofday() text", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return str(ctx.Clock().In(types.LocationOrUTC(ctx.Location)).Format("Mon Jan 02 15:04:05.000000 2006 MST"))
	}).Volatile()
	r.Func("current_date() date", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		d, _ := types.SplitMicros(localNow(ctx))
		return types.NewDate(d), nil
	}).Stable()
	localTS := func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		return types.NewTimestamp(localNow(ctx)), nil
	}
	r.Func("localtimestamp() timestamp", localTS).Stable()
	r.Func1("localtimestamp(int4) timestamp", func(ctx *Context, p types.Datum) (types.Datum, error) {
		return types.NewTimestamp(types.RoundMicros(localNow(ctx), int32(p.Int()))), nil
	}).Stable()
	r.Func("localtime() time", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		_, us := types.SplitMicros(localNow(ctx))
		return types.NewTime(us), nil
	}).Stable()
	r.Func("current_time() timetz", func(ctx *Context, _ []types.Datum) (types.Datum, error) {
		_, us := types.SplitMicros(localNow(ctx))
		return types.NewTimeTZ(us, int32(offsetOf(types.MicrosFromTime(ctx.TxnTime), types.LocationOrUTC(ctx.Location)))), nil
	}).Stable()

}

// addDateArithmetic adds the operators + - * / of dates, times and intervals.
func addDateArithmetic(r *Registry) {
	plusDays := func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Days()) {
			return a, nil
		}
		d := a.Days() + b.Int()
		if err := types.CheckDate(d); err != nil {
			return types.Null, err
		}
		return types.NewDate(d), nil
	}
	r.op2("+(date, int4) date", plusDays)
	r.op2("+(int4, date) date", func(c *Context, a, b types.Datum) (types.Datum, error) { return plusDays(c, b, a) })
	r.op2("-(date, int4) date", func(c *Context, a, b types.Datum) (types.Datum, error) {
		return plusDays(c, a, types.NewInt(-b.Int()))
	})
	r.op2("-(date, date) int4", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(a.Days()) || types.IsInfinite(b.Days()) {
			return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "cannot subtract infinite dates")
		}
		return num(a.Days() - b.Days())
	})
	type adder struct {
		left, ret string
		add       func(ctx *Context, a types.Datum, m, d int32, u int64) (types.Datum, error)
		stable    bool
	}
	for _, v := range []adder{
		{"date", "timestamp", func(_ *Context, a types.Datum, m, d int32, u int64) (types.Datum, error) {
			s, err := stampOfDate(a)
			if err != nil {
				return types.Null, err
			}
			return addToStamp(s, m, d, u)
		}, false},
		{"timestamp", "timestamp", func(_ *Context, a types.Datum, m, d int32, u int64) (types.Datum, error) {
			return addToStamp(a.Micros(), m, d, u)
		}, false},
		{"timestamptz", "timestamptz", func(ctx *Context, a types.Datum, m, d int32, u int64) (types.Datum, error) {
			return addToZoned(ctx, a.Micros(), m, d, u)
		}, true},
		{"time", "time", func(_ *Context, a types.Datum, _, _ int32, u int64) (types.Datum, error) {
			_, us := types.SplitMicros(a.Micros() + u%types.DayMicros)
			return types.NewTime(us), nil
		}, false},
		{"timetz", "timetz", func(_ *Context, a types.Datum, _, _ int32, u int64) (types.Datum, error) {
			_, us := types.SplitMicros(a.Micros() + u%types.DayMicros)
			return types.NewTimeTZ(us, a.Zone()), nil
		}, false},
	} {
		plus := func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			m, d, u := b.Interval()
			return v.add(ctx, a, m, d, u)
		}
		ops := []*Overload{
			r.op2("+("+v.left+", interval) "+v.ret, plus),
			r.op2("+(interval, "+v.left+") "+v.ret, func(ctx *Context, a, b types.Datum) (types.Datum, error) { return plus(ctx, b, a) }),
			r.op2("-("+v.left+", interval) "+v.ret, func(ctx *Context, a, b types.Datum) (types.Datum, error) {
				n, err := negInterval(ctx, b)
				if err != nil {
					return types.Null, err
				}
				return plus(ctx, a, n)
			}),
		}
		if v.stable {
			for _, o := range ops {
				o.Stable()
			}
		}
	}
	minusStamps := func(_ *Context, a, b types.Datum) (types.Datum, error) { return diffStamps(a.Micros(), b.Micros()) }
	r.op2("-(timestamp, timestamp) interval", minusStamps)
	r.op2("-(timestamptz, timestamptz) interval", minusStamps)
	r.op2("-(time, time) interval", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		return types.NewInterval(0, 0, a.Micros()-b.Micros()), nil
	})
	dateTime := func(_ *Context, a, b types.Datum) (types.Datum, error) {
		s, err := stampOfDate(a)
		if err != nil || types.IsInfinite(s) {
			return types.NewTimestamp(s), err
		}
		return stampOf(s + b.Micros() - int64(b.Zone())*types.SecondMicros)
	}
	r.op2("+(date, time) timestamp", dateTime)
	r.op2("+(time, date) timestamp", func(c *Context, a, b types.Datum) (types.Datum, error) { return dateTime(c, b, a) })
	r.op2("+(date, timetz) timestamptz", dateTime)
	r.op2("+(timetz, date) timestamptz", func(c *Context, a, b types.Datum) (types.Datum, error) { return dateTime(c, b, a) })
	r.op2("+(interval, interval) interval", addIntervals)
	r.op2("-(interval, interval) interval", func(c *Context, a, b types.Datum) (types.Datum, error) {
		n, err := negInterval(c, b)
		if err != nil {
			return types.Null, err
		}
		return addIntervals(c, a, n)
	})
	r.op1("-(interval) interval", negInterval)
	r.op1("+(interval) interval", identity)
	times := func(_ *Context, a, b types.Datum) (types.Datum, error) { return scaleInterval(a, b.Float(), 1) }
	r.op2("*(interval, float8) interval", times)
	r.op2("*(float8, interval) interval", func(c *Context, a, b types.Datum) (types.Datum, error) { return times(c, b, a) })
	r.op2("/(interval, float8) interval", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if b.Float() == 0 {
			return types.Null, errDivByZero()
		}
		return scaleInterval(a, 1, b.Float())
	})

}

// addDateFields adds functions that extract the fields of dates, times and intervals, or truncate to them.
func addDateFields(r *Registry) {
	type extractor struct {
		arg    string
		f      func(ctx *Context, unit string, d types.Datum) (types.Datum, error)
		stable bool
	}
	for _, v := range []extractor{
		{"timestamp", func(_ *Context, u string, d types.Datum) (types.Datum, error) {
			return extractStamp(u, d.Micros(), d.Micros(), 0, types.Timestamp)
		}, false},
		{"timestamptz", func(ctx *Context, u string, d types.Datum) (types.Datum, error) {
			l, off := zonedLocal(ctx, d.Micros())
			return extractStamp(u, l, d.Micros(), off, types.TimestampTZ)
		}, true},
		{"date", func(_ *Context, u string, d types.Datum) (types.Datum, error) {
			return extractStamp(u, dateStamp(d), dateStamp(d), 0, types.Date)
		}, false},
		{"time", func(_ *Context, u string, d types.Datum) (types.Datum, error) { return extractTime(u, d, types.Time) }, false},
		{"timetz", func(_ *Context, u string, d types.Datum) (types.Datum, error) { return extractTime(u, d, types.TimeTZ) }, false},
		{"interval", func(_ *Context, u string, d types.Datum) (types.Datum, error) { return extractInterval(u, d) }, false},
	} {
		o := r.Func2("extract(text, "+v.arg+") numeric", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			return v.f(ctx, a.Str(), b)
		})
		p := r.Func2("date_part(text, "+v.arg+") float8", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			f := v.f
			if v.arg == "date" { // which date_part casts to timestamp
				f = func(_ *Context, u string, d types.Datum) (types.Datum, error) {
					s, err := stampOfDate(d)
					if err != nil {
						return types.Null, err
					}
					return extractStamp(u, s, s, 0, types.Timestamp)
				}
			}
			d, err := f(ctx, a.Str(), b)
			if err != nil || d.IsNull() {
				return types.Null, err
			}
			return types.NewFloat(types.DecimalToFloat(d.Decimal())), nil
		})
		if v.stable {
			o.Stable()
			p.Stable()
		}
	}
	r.Func2("date_trunc(text, timestamp) timestamp", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		v, err := truncStamp(a.Str(), b.Micros(), types.Timestamp)
		if err != nil || types.IsInfinite(v) {
			return types.NewTimestamp(v), err
		}
		return stampOf(v)
	})
	truncZoned := func(unit string, utc int64, z types.Zone) (types.Datum, error) {
		if types.IsInfinite(utc) {
			return types.NewTimestamp(utc), nil
		}
		local := z.Local(utc)
		v, err := truncStamp(unit, local, types.TimestampTZ)
		if err != nil {
			return types.Null, err
		}
		switch normUnit(unit) {
		case "microseconds", "milliseconds", "second", "minute", "hour":
			// The offset stays: a clock that is put back shows an hour twice.
			return stampOf(utc - (local - v))
		}
		return stampOf(z.UTC(v))
	}
	r.Func2("date_trunc(text, timestamptz) timestamptz", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		return truncZoned(a.Str(), b.Micros(), types.ZoneOf(ctx.TextEnv().Location))
	}).Stable()
	r.Func("date_trunc(text, timestamptz, text) timestamptz", func(_ *Context, a []types.Datum) (types.Datum, error) {
		if types.IsInfinite(a[1].Micros()) {
			return a[1], nil
		}
		z, err := zoneByName(a[2].Str())
		if err != nil {
			return types.Null, err
		}
		return truncZoned(a[0].Str(), a[1].Micros(), z)
	}).Stable()
	r.Func2("date_trunc(text, interval) interval", func(_ *Context, a, b types.Datum) (types.Datum, error) { return truncInterval(a.Str(), b) })
	r.Func("date_bin(interval, timestamp, timestamp) timestamp", dateBin)
	r.Func("date_bin(interval, timestamptz, timestamptz) timestamptz", dateBin)

}

// addAges adds age, the justification of intervals, and tests for infinity.
func addAges(r *Registry) {
	r.Func2("age(timestamp, timestamp) interval", func(_ *Context, a, b types.Datum) (types.Datum, error) { return age(a.Micros(), b.Micros()) })
	r.Func2("age(timestamptz, timestamptz) interval", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		x, _ := zonedLocal(ctx, a.Micros())
		y, _ := zonedLocal(ctx, b.Micros())
		return age(x, y)
	}).Stable()
	today := func(ctx *Context) int64 {
		d, _ := types.SplitMicros(localNow(ctx))
		return d * types.DayMicros
	}
	r.Func1("age(timestamp) interval", func(ctx *Context, a types.Datum) (types.Datum, error) { return age(today(ctx), a.Micros()) }).Stable()
	r.Func1("age(timestamptz) interval", func(ctx *Context, a types.Datum) (types.Datum, error) {
		x, _ := zonedLocal(ctx, a.Micros())
		return age(today(ctx), x)
	}).Stable()
	justify := func(name string, f func(types.Datum) (types.Datum, error)) {
		r.Func1(name+"(interval) interval", func(_ *Context, a types.Datum) (types.Datum, error) { return f(a) })
	}
	justify("justify_hours", justifyHours)
	justify("justify_days", justifyDays)
	justify("justify_interval", justifyInterval)
	finite := func(_ *Context, a types.Datum) (types.Datum, error) { return boolean(!types.IsInfinite(a.Int())) }
	r.Func1("isfinite(date) bool", finite)
	r.Func1("isfinite(timestamp) bool", finite)
	r.Func1("isfinite(timestamptz) bool", finite)
	r.Func1("isfinite(interval) bool", func(*Context, types.Datum) (types.Datum, error) { return boolean(true) })

}

// addTimeZones adds AT TIME ZONE, which is timezone(zone, value), and OVERLAPS.
func addTimeZones(r *Registry) {
	r.Func2("timezone(text, timestamptz) timestamp", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(b.Micros()) {
			return b, nil
		}
		z, err := zoneByName(a.Str())
		if err != nil {
			return types.Null, err
		}
		return stampOf(z.Local(b.Micros()))
	})
	r.Func2("timezone(text, timestamp) timestamptz", func(_ *Context, a, b types.Datum) (types.Datum, error) {
		if types.IsInfinite(b.Micros()) {
			return b, nil
		}
		z, err := zoneByName(a.Str())
		if err != nil {
			return types.Null, err
		}
		return stampOf(z.UTC(b.Micros()))
	})
	r.Func2("timezone(text, timetz) timetz", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		z, err := zoneByName(a.Str())
		if err != nil {
			return types.Null, err
		}
		off := z.OffsetAt(types.MicrosFromTime(ctx.TxnTime))
		_, us := types.SplitMicros(b.Micros() + int64(off-int(b.Zone()))*types.SecondMicros)
		return types.NewTimeTZ(us, int32(off)), nil
	}).Stable()
	byInterval := func(sign int64) eval2 {
		return func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			if types.IsInfinite(b.Micros()) {
				return b, nil
			}
			us, err := zoneInterval(ctx, a)
			if err != nil {
				return types.Null, err
			}
			return stampOf(b.Micros() + sign*us)
		}
	}
	r.Func2("timezone(interval, timetz) timetz", func(ctx *Context, a, b types.Datum) (types.Datum, error) {
		us, err := zoneInterval(ctx, a)
		if err != nil {
			return types.Null, err
		}
		off := us / types.SecondMicros
		_, t := types.SplitMicros(b.Micros() + (off-int64(b.Zone()))*types.SecondMicros)
		return types.NewTimeTZ(t, int32(off)), nil
	})
	r.Func2("timezone(interval, timestamptz) timestamp", byInterval(1))
	r.Func2("timezone(interval, timestamp) timestamptz", byInterval(-1))
	overlaps := func(_ *Context, a []types.Datum) (types.Datum, error) { return overlap(a) }
	for _, t := range []string{"timestamp", "timestamptz", "time", "timetz"} {
		r.Func("overlaps("+t+", "+t+", "+t+", "+t+") bool", overlaps).WithNulls()
		if t == "timetz" {
			continue
		}
		// A period may be given by its start and its length.
		plus := func(ctx *Context, a, b types.Datum) (types.Datum, error) {
			if a.IsNull() || b.IsNull() {
				return types.Null, nil
			}
			m, d, u := b.Interval()
			switch t {
			case "timestamp":
				return addToStamp(a.Micros(), m, d, u)
			case "timestamptz":
				return addToZoned(ctx, a.Micros(), m, d, u)
			}
			_, us := types.SplitMicros(a.Micros() + u%types.DayMicros)
			return types.NewTime(us), nil
		}
		for _, v := range []struct {
			first, second string
		}{{"interval", "interval"}, {"interval", t}, {t, "interval"}} {
			o := r.Func("overlaps("+t+", "+v.first+", "+t+", "+v.second+") bool", func(ctx *Context, a []types.Datum) (types.Datum, error) {
				p := [4]types.Datum(a)
				var err error
				if v.first == "interval" {
					if p[1], err = plus(ctx, a[0], a[1]); err != nil {
						return types.Null, err
					}
				}
				if v.second == "interval" {
					if p[3], err = plus(ctx, a[2], a[3]); err != nil {
						return types.Null, err
					}
				}
				return overlap(p[:])
			}).WithNulls()
			if t == "timestamptz" {
				o.Stable()
			}
		}
	}
}

func addMakers(r *Registry) {
	makeDate := func(y, m, d int64, shown bool) (int64, error) {
		yy := y
		if y < 0 {
			yy = y + 1
		}
		named := yy
		if shown {
			named = y
		}
		if y == 0 || m < 1 || m > 12 || d < 1 || d > int64(types.DaysInMonth(int(yy), int(m))) {
			return 0, sqlstate.New(sqlstate.DatetimeOverflow, "date field value out of range: %d-%02d-%02d", named, m, d)
		}
		if yy > 5874897 || yy < -4713 {
			return 0, sqlstate.New(sqlstate.DatetimeOverflow, "date out of range: %d-%02d-%02d", yy, m, d)
		}
		return types.DaysFromCivil(int(yy), int(m), int(d)), nil
	}
	makeTime := func(h, m int64, s float64) (int64, error) {
		if h < 0 || h > 24 || m < 0 || m > 59 || !(s >= 0) || s > 60 || h == 24 && (m > 0 || s > 0) {
			secs := strconv.FormatFloat(s, 'g', 6, 64)
			if math.IsInf(s, 0) {
				secs = string(types.AppendText(nil, types.NewFloat(s), types.Float8, nil))
			}
			if len(secs) == 1 {
				secs = "0" + secs
			}
			return 0, sqlstate.New(sqlstate.DatetimeOverflow, "time field value out of range: %d:%02d:%s", h, m, secs)
		}
		return h*types.HourMicros + m*types.MinuteMicros + int64(math.RoundToEven(s*1e6)), nil
	}
	stamp := func(a []types.Datum) (int64, error) {
		d, err := makeDate(a[0].Int(), a[1].Int(), a[2].Int(), true)
		if err != nil {
			return 0, err
		}
		t, err := makeTime(a[3].Int(), a[4].Int(), a[5].Float())
		if err != nil {
			return 0, err
		}
		if d > 110000000 || d < -3000000 || types.CheckTimestamp(d*types.DayMicros+t) != nil {
			secs := strconv.FormatFloat(a[5].Float(), 'g', 6, 64)
			if len(secs) == 1 {
				secs = "0" + secs
			}
			return 0, sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range: %d-%02d-%02d %d:%02d:%s", a[0].Int(), a[1].Int(), a[2].Int(),
				a[3].Int(), a[4].Int(), secs)
		}
		return d*types.DayMicros + t, nil
	}
	r.Func("make_date(int4, int4, int4) date", func(_ *Context, a []types.Datum) (types.Datum, error) {
		d, err := makeDate(a[0].Int(), a[1].Int(), a[2].Int(), false)
		return types.NewDate(d), err
	})
	r.Func("make_time(int4, int4, float8) time", func(_ *Context, a []types.Datum) (types.Datum, error) {
		t, err := makeTime(a[0].Int(), a[1].Int(), a[2].Float())
		return types.NewTime(t), err
	})
	r.Func("make_timestamp(int4, int4, int4, int4, int4, float8) timestamp", func(_ *Context, a []types.Datum) (types.Datum, error) {
		v, err := stamp(a)
		if err != nil {
			return types.Null, err
		}
		return stampOf(v)
	})
	r.Func("make_timestamptz(int4, int4, int4, int4, int4, float8) timestamptz", func(ctx *Context, a []types.Datum) (types.Datum, error) {
		v, err := stamp(a)
		if err != nil {
			return types.Null, err
		}
		return stampOf(types.UTCMicros(v, types.LocationOrUTC(ctx.TextEnv().Location)))
	}).Stable()
	r.Func("make_timestamptz(int4, int4, int4, int4, int4, float8, text) timestamptz", func(_ *Context, a []types.Datum) (types.Datum, error) {
		v, err := stamp(a[:6])
		if err != nil {
			return types.Null, err
		}
		z, err := saneZone(a[6].Str())
		if err != nil {
			return types.Null, err
		}
		return stampOf(z.UTC(v))
	}).Stable()
	parts := []string{"int4", "int4", "int4", "int4", "int4", "int4", "float8"}
	for n := 0; n <= len(parts); n++ {
		r.Func("make_interval("+strings.Join(parts[:n], ", ")+") interval", func(_ *Context, a []types.Datum) (types.Datum, error) {
			v := [6]int64{}
			secs := 0.0
			for i, d := range a {
				if i == 6 {
					secs = d.Float()
				} else {
					v[i] = d.Int()
				}
			}
			months, days := v[0]*12+v[1], v[2]*7+v[3]
			us := v[4]*types.HourMicros + v[5]*types.MinuteMicros
			frac := math.RoundToEven(secs * 1e6)
			if !(frac >= math.MinInt64 && frac < -math.MinInt64) || months != int64(int32(months)) || days != int64(int32(days)) {
				return types.Null, intervalRange()
			}
			sum := us + int64(frac)
			if (sum > us) != (frac > 0) && frac != 0 {
				return types.Null, intervalRange()
			}
			us = sum
			return types.NewInterval(int32(months), int32(days), us), nil
		})
	}
	r.Func1("to_timestamp(float8) timestamptz", func(_ *Context, a types.Datum) (types.Datum, error) {
		f := a.Float()
		switch {
		case math.IsNaN(f):
			return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "timestamp cannot be NaN")
		case math.IsInf(f, 1):
			return types.NewTimestamp(types.InfinityNum), nil
		case math.IsInf(f, -1):
			return types.NewTimestamp(types.NegInfinityNum), nil
		}
		f = math.RoundToEven((f - 946684800) * 1e6)
		if math.Abs(f) > 9.2e18 {
			return types.Null, sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range: \"%s\"", strconv.FormatFloat(a.Float(), 'g', 6, 64))
		}
		return stampOf(int64(f))
	})
}

// dateStamp is the timestamp at which a date begins, infinite as the date.
func dateStamp(d types.Datum) int64 {
	if types.IsInfinite(d.Days()) {
		return d.Days()
	}
	return d.Days() * types.DayMicros
}

// stampOfDate is the cast of a date to a timestamp, which does not reach as far.
func stampOfDate(d types.Datum) (int64, error) {
	v, err := types.Cast(types.Env{}, d, types.Date, types.Timestamp, true)
	return v.Micros(), err
}

// zonedLocal is the localNow time of a moment in the session's zone, and the offset of the zone then.
func zonedLocal(ctx *Context, utc int64) (int64, int) {
	loc := types.LocationOrUTC(ctx.TextEnv().Location)
	l := types.LocalMicros(utc, loc)
	if types.IsInfinite(utc) {
		return l, 0
	}
	return l, int((l - utc) / types.SecondMicros)
}

// localNow is the local time in the session's zone at which the transaction began.
func localNow(ctx *Context) int64 {
	return types.LocalMicros(types.MicrosFromTime(ctx.TxnTime), types.LocationOrUTC(ctx.Location))
}
