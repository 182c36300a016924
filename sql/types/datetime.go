package types

import (
	"strconv"
	"time"

	"meridian/sql/sqlstate"
)

// Microseconds of the clock units, and the distance of PostgreSQL's epoch (2000-01-01) from Unix's.
const (
	SecondMicros = int64(1e6)
	MinuteMicros = 60 * SecondMicros
	HourMicros   = 60 * MinuteMicros
	DayMicros    = 24 * HourMicros

	epochUnixDays    = 10957
	epochUnixSeconds = epochUnixDays * 86400
)

// The limits of PostgreSQL's types: 4714-11-24 BC to 294276-12-31 for timestamps, to 5874897-12-31 for dates.
const (
	minDateDays        = -2451545
	maxDateDays        = 2145031948
	minTimestampMicros = -211813488000000000
	endTimestampMicros = 9223371331200000000
)

// DaysFromCivil counts days since 2000-01-01 of a proleptic Gregorian date; year 0 is 1 BC.
func DaysFromCivil(year, month, day int) int64 {
	y := int64(year)
	if month <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	mp := int64((month + 9) % 12)
	doy := (153*mp+2)/5 + int64(day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468 - epochUnixDays
}

// CivilFromDays is the inverse of DaysFromCivil.
func CivilFromDays(days int64) (year, month, day int) {
	z := days + epochUnixDays + 719468
	era := z / 146097
	if z < 0 {
		era = (z - 146096) / 146097
	}
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	y := yoe + era*400
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy - (153*mp+2)/5 + 1)
	month = int(mp) + 3
	if month > 12 {
		month -= 12
		y++
	}
	return int(y), month, day
}

// DaysInMonth of a proleptic Gregorian month.
func DaysInMonth(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// SplitMicros separates a timestamp into its day and the microseconds within it.
func SplitMicros(micros int64) (days, ofDay int64) {
	days = micros / DayMicros
	ofDay = micros % DayMicros
	if ofDay < 0 {
		ofDay += DayMicros
		days--
	}
	return days, ofDay
}

// MicrosFromTime is a time as microseconds since 2000-01-01 UTC.
func MicrosFromTime(t time.Time) int64 {
	return (t.Unix()-epochUnixSeconds)*SecondMicros + int64(t.Nanosecond()/1000)
}

// TimeFromMicros is the inverse of MicrosFromTime.
func TimeFromMicros(micros int64) time.Time {
	sec, rem := micros/SecondMicros, micros%SecondMicros
	if rem < 0 {
		sec--
		rem += SecondMicros
	}
	return time.Unix(sec+epochUnixSeconds, rem*1000).UTC()
}

// IsInfinite reports whether a date's or timestamp's number stands for infinity or -infinity.
func IsInfinite(n int64) bool { return n == InfinityNum || n == NegInfinityNum }

// zoneOffset is the offset east of UTC, in seconds, that loc has at a UTC timestamp.
func zoneOffset(micros int64, loc *time.Location) int {
	if loc == nil || loc == time.UTC {
		return 0
	}
	_, off := TimeFromMicros(micros).In(loc).Zone()
	return off
}

// LocalMicros is the wall clock in loc, as microseconds since 2000, of a timestamptz.
func LocalMicros(utc int64, loc *time.Location) int64 {
	if IsInfinite(utc) {
		return utc
	}
	return utc + int64(zoneOffset(utc, loc))*SecondMicros
}

// UTCMicros is the timestamptz of a wall clock in loc. A time that a transition repeats is taken as standard time; for
// one that it skips, the earlier offset is used, as in PostgreSQL.
func UTCMicros(local int64, loc *time.Location) int64 {
	if IsInfinite(local) || loc == nil || loc == time.UTC {
		return local
	}
	before := zoneOffset(local-DayMicros, loc)
	after := zoneOffset(local+DayMicros, loc)
	if before == after {
		// Usually no transition is near; check that the offset holds at the instant itself.
		utc := local - int64(before)*SecondMicros
		if zoneOffset(utc, loc) == before {
			return utc
		}
	}
	a, b := local-int64(before)*SecondMicros, local-int64(after)*SecondMicros
	aOK, bOK := zoneOffset(a, loc) == before, zoneOffset(b, loc) == after
	switch {
	case aOK && bOK:
		// Repeated: the later instant has the smaller offset, standard time.
		return max(a, b)
	case bOK:
		return b
	}
	return a
}

func append2(buf []byte, n int) []byte { return append(buf, byte('0'+n/10), byte('0'+n%10)) }

func appendYear(buf []byte, year int) []byte {
	switch {
	case year < 10:
		buf = append(buf, "000"...)
	case year < 100:
		buf = append(buf, "00"...)
	case year < 1000:
		buf = append(buf, '0')
	}
	return strconv.AppendInt(buf, int64(year), 10)
}

func appendInfinity(buf []byte, n int64) []byte {
	if n == NegInfinityNum {
		buf = append(buf, '-')
	}
	return append(buf, "infinity"...)
}

// AppendDate writes a date in ISO style.
func AppendDate(buf []byte, days int64) []byte {
	if IsInfinite(days) {
		return appendInfinity(buf, days)
	}
	y, m, d := CivilFromDays(days)
	bc := y <= 0
	if bc {
		y = 1 - y
	}
	buf = appendYear(buf, y)
	buf = append(buf, '-')
	buf = append2(buf, m)
	buf = append(buf, '-')
	buf = append2(buf, d)
	if bc {
		buf = append(buf, " BC"...)
	}
	return buf
}

func appendTimeOfDay(buf []byte, micros int64) []byte {
	buf = append2(buf, int(micros/HourMicros))
	buf = append(buf, ':')
	buf = append2(buf, int(micros/MinuteMicros%60))
	buf = append(buf, ':')
	buf = append2(buf, int(micros/SecondMicros%60))
	return appendFraction(buf, micros%SecondMicros)
}

func appendFraction(buf []byte, f int64) []byte {
	if f == 0 {
		return buf
	}
	buf = append(buf, '.')
	for unit := SecondMicros / 10; f > 0; unit /= 10 {
		buf = append(buf, byte('0'+f/unit))
		f %= unit
	}
	return buf
}

// appendZone writes an offset as +hh[:mm[:ss]].
func appendZone(buf []byte, seconds int) []byte {
	sign := byte('+')
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	buf = append(buf, sign)
	if h := seconds / 3600; h < 100 {
		buf = append2(buf, h)
	} else {
		buf = strconv.AppendInt(buf, int64(h), 10)
	}
	if m := seconds / 60 % 60; m != 0 || seconds%60 != 0 {
		buf = append(buf, ':')
		buf = append2(buf, m)
	}
	if s := seconds % 60; s != 0 {
		buf = append(buf, ':')
		buf = append2(buf, s)
	}
	return buf
}

// AppendTimestamp writes a timestamp without zone in ISO style.
func AppendTimestamp(buf []byte, micros int64) []byte {
	if IsInfinite(micros) {
		return appendInfinity(buf, micros)
	}
	return appendStamp(buf, micros, 0, false)
}

// AppendTimestampTZ writes a timestamptz in ISO style in the zone.
func AppendTimestampTZ(buf []byte, micros int64, loc *time.Location) []byte {
	if IsInfinite(micros) {
		return appendInfinity(buf, micros)
	}
	off := zoneOffset(micros, loc)
	return appendStamp(buf, micros+int64(off)*SecondMicros, off, true)
}

func appendStamp(buf []byte, local int64, off int, zone bool) []byte {
	days, ofDay := SplitMicros(local)
	y, m, d := CivilFromDays(days)
	bc := y <= 0
	if bc {
		y = 1 - y
	}
	buf = appendYear(buf, y)
	buf = append(buf, '-')
	buf = append2(buf, m)
	buf = append(buf, '-')
	buf = append2(buf, d)
	buf = append(buf, ' ')
	buf = appendTimeOfDay(buf, ofDay)
	if zone {
		buf = appendZone(buf, off)
	}
	if bc {
		buf = append(buf, " BC"...)
	}
	return buf
}

// AppendInterval writes an interval in the postgres style.
func AppendInterval(buf []byte, months, days int32, micros int64) []byte {
	start := len(buf)
	before := false
	field := func(n int64, unit string) {
		if n == 0 {
			return
		}
		if len(buf) > start {
			buf = append(buf, ' ')
		}
		if before && n > 0 {
			buf = append(buf, '+')
		}
		buf = strconv.AppendInt(buf, n, 10)
		buf = append(buf, ' ')
		buf = append(buf, unit...)
		if n != 1 {
			buf = append(buf, 's')
		}
		before = n < 0
	}
	field(int64(months/12), "year")
	field(int64(months%12), "mon")
	field(int64(days), "day")
	if micros == 0 && len(buf) > start {
		return buf
	}
	if len(buf) > start {
		buf = append(buf, ' ')
	}
	u := uint64(micros)
	if micros < 0 {
		buf = append(buf, '-')
		u = -u
	} else if before {
		buf = append(buf, '+')
	}
	h := u / uint64(HourMicros)
	if h < 10 {
		buf = append(buf, '0')
	}
	buf = strconv.AppendUint(buf, h, 10)
	rest := int64(u % uint64(HourMicros))
	buf = append(buf, ':')
	buf = append2(buf, int(rest/MinuteMicros))
	buf = append(buf, ':')
	buf = append2(buf, int(rest/SecondMicros%60))
	return appendFraction(buf, rest%SecondMicros)
}

// CheckTimestamp reports a timestamp outside PostgreSQL's range.
func CheckTimestamp(micros int64) error {
	if micros < minTimestampMicros || micros >= endTimestampMicros {
		return sqlstate.New(sqlstate.DatetimeOverflow, "timestamp out of range")
	}
	return nil
}

// CheckDate reports a date outside PostgreSQL's range.
func CheckDate(days int64) error {
	if days < minDateDays || days > maxDateDays {
		return sqlstate.New(sqlstate.DatetimeOverflow, "date out of range")
	}
	return nil
}

// RoundMicros rounds to the precision of a time type, half away from zero; precision < 0 or > 5 leaves it.
func RoundMicros(micros int64, precision int32) int64 {
	if precision < 0 || precision >= 6 || IsInfinite(micros) {
		return micros
	}
	unit := int64(1)
	for range 6 - precision {
		unit *= 10
	}
	half := unit / 2
	if micros >= 0 {
		return (micros + half) / unit * unit
	}
	return -((-micros + half) / unit * unit)
}
