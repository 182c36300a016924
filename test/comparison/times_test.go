package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// dates are texts of dates, times and intervals, right and wrong, under all settings; templates of to_date, to_timestamp and to_char;
// zones by every kind of name.
var dates = Generator{Name: "dates", Fixed: File("dates"), Generate: dateCase}

// anyOf are the alternatives that bars separate.
func anyOf(s string) []string { return strings.Split(s, "|") }

// dateText is the text of a date, a time or both, more or less.
func dateText(r *rand.Rand) string {
	days := anyOf("2024-02-29|2023-02-29|2024-1-5|1/8/1999|8/1/99|18/1/1999|1999-Jan-08|Jan-08-1999|08-Jan-1999|99-Jan-08|08-Jan-99|Jan-08-99|99-08-Jan|" +
		"1.2.2024|2024.060|2024-060|2024/2/3|0001-01-01|10000-01-01|January 8, 99 BC|99 Jan 8|Jan 8 1999|8 Jan 1999|1999 Jan 8|1999 8 Jan|0000-01-01|" +
		"5874897-12-31|5874898-01-01|294276-12-31|294277-01-01|4714-11-24 BC|4714-11-23 BC|12-13-14|13-12-14|14-13-12|2024-13-01|2024-01-32|J2451187|20240229|240229")
	clocks := anyOf("12:34|12:34:56|23:59:60|23:59:60.01|24:00|24:00:01|25:00|1:2:3|12:|12:00.5|00:00:00.1234567|04:05:06.789-08|1:60|11:59 pm|12:00 am|13:00 pm|" +
		"040506|0405|040506.789")
	zones := anyOf("EST|PST8PDT|America/New_York|europe/berlin|CET|MSK|+02|-0330|+05:30|+14:59:59|-15:59|+16|UTC|z|GMT+2|UTC-5|America/No|EST5EDT|IST|CEST|+100|Etc/GMT+5|ALMT|MET DST")
	rest := anyOf("epoch|infinity|-infinity|allballs|bc|AD|am|PM|t|j|y|m|s|on|Mon|Tuesday|y2001|m02|d04|h04|mm05|s06|T040506|dow|julian")
	text := pick(r, days)
	switch r.IntN(4) {
	case 0:
		text = pick(r, clocks)
	case 1:
		between := pick(r, anyOf(" |T|  |_|:"))
		if strings.HasSuffix(text, "BC") {
			between = " " // BCT12:00 is a description of a zone
		}
		text += between + pick(r, clocks)
	case 2:
		text = pick(r, clocks) + " " + text
	}
	if r.IntN(2) == 0 {
		text += pick(r, anyOf(" ||/")) + pick(r, zones)
	}
	if r.IntN(6) == 0 {
		text += pick(r, anyOf(" |, ||-")) + pick(r, rest)
	}
	return text
}

// intervalForm is the text of an interval, more or less.
func intervalForm(r *rand.Rand) string {
	if r.IntN(5) == 0 {
		return pick(r, anyOf("P1Y2M3DT4H5M6S|P1Y|PT1H|P1W|P-1Y|P1.5M|PT1.5S|P0001-02-03T04:05:06|P00010203T040506|P|PT|P1YT|P-1Y-2M3DT-4H|PT10:20|PT10:20:30.5|P0.5D|"+
			"P2147483647Y|P1Y2M3D4H|p1y|P1e2D|P0001-02|P5|PT5|P00000001|PT000001|P.5D|P--1D"))
	}
	numbers := anyOf("1|-1|+2|1.5|-1.5|.5|2147483647|-2147483648|2147483648|178956970|9223372036854775807|-9223372036854775808|9223372036854775808|0|1-2|-1-2|+1-2|1-12|" +
		"1:2|-1:2:3|+1:02:03.456|100:59|1:60|2562047788:00:54.775807|2562047789:00|10|3|-0.1|1.|-|- 1")
	units := anyOf("year|mon|months|day|days|hour|hrs|min|m|s|secs|ms|us|millisecond|week|decade|century|mil|quarter|ago|@|c|timezone")
	var b strings.Builder
	for range 1 + r.IntN(4) {
		b.WriteString(pick(r, numbers) + pick(r, anyOf(" |")))
		if r.IntN(3) > 0 {
			b.WriteString(pick(r, units))
		}
		b.WriteString(pick(r, anyOf(" |, |")))
	}
	return b.String()
}

// dateTemplate is a template of to_char.
func dateTemplate(r *rand.Rand) string {
	patterns := anyOf("HH24|HH12|HH|MI|SS|SSSS|SSSSS|MS|US|FF1|FF2|FF3|FF6|Y,YYY|YYYY|YYY|YY|Y|IYYY|IYY|IY|I|MONTH|Month|month|MON|Mon|MM|DAY|Day|DY|dy|DDD|DD|D|IDDD|ID|IW|" +
		"WW|W|CC|J|Q|RM|rm|AM|pm|p.m.|A.M.|BC|b.c.|TZH|TZM|TZ|OF|hh24|yyyy|mm|Yyyy")
	var b strings.Builder
	for range 1 + r.IntN(5) {
		b.WriteString(pick(r, anyOf("||||FM|TM|FX")) + pick(r, patterns) + pick(r, anyOf("|||||TH|th")) + pick(r, anyOf("-| |:|/||\"x\"|T|, ")))
	}
	return b.String()
}

// byTemplate is a text and the template that fits it, or nearly.
func byTemplate(r *rand.Rand) (text, template string) {
	pairs := [][2]string{{"2011-12-18 23:38:15", "YYYY-MM-DD HH24:MI:SS"}, {"2011 12  18", "YYYY  MM DD"}, {"20000-1116", "YYYY-MMDD"}, {"1985 January 12", "YYYY FMMonth DD"},
		{"2005527", "YYYYIWID"}, {"2005-W52-7", `IYYY-"W"IW-ID`}, {"2024 53 3", "IYYY IW ID"}, {"1,582nd VIII 21", "Y,YYYth FMRM DD"}, {"2000+   JUN", "YYYY/MON"},
		{"97/2/16", "YY/MM/DD"}, {"2005 364", "IYYY IDDD"}, {"44-02-01 11:12:13 BC", "YYYY-MM-DD HH24:MI:SS BC"}, {"2018-11-02 12:34:56.1234", "YYYY-MM-DD HH24:MI:SS.FF4"},
		{"2011-12-18 11:38 -05", "YYYY-MM-DD HH12:MI TZH"}, {"2011-12-18 11:38 +01:30", "YYYY-MM-DD HH12:MI TZH:TZM"}, {"05121445482000", "MMDDHH24MISSYYYY"},
		{"2000January09Sunday", "YYYYFMMonthDDFMDay"}, {"3 4 21 01", "W MM CC YY"}, {"2458872", "J"}, {"10:11 pm", "HH:MI am"}, {"86399", "SSSSS"},
		{"97/Feb/16", "FXYY:Mon:DD"}, {"2024 060", "YYYY DDD"}, {"2024 9 2", "YYYY WW D"}, {"21 24", "CC YY"}, {"1999 Q3", `YYYY "Q"Q`}}
	p := pick(r, pairs)
	text, template = p[0], p[1]
	if r.IntN(2) == 0 {
		i := r.IntN(len(text))
		text = text[:i] + pick(r, anyOf(" |-|:|7|0|x||+")) + text[i+r.IntN(2):]
	}
	if r.IntN(4) == 0 {
		i := r.IntN(len(template))
		template = template[:i] + pick(r, anyOf(" |-|D||I|Y")) + template[i+r.IntN(2):]
	}
	return text, template
}

func dateCase(r *rand.Rand) Case {
	zones := anyOf("UTC|America/New_York|Europe/Berlin|Asia/Kolkata|EST5EDT|<+05>-05")
	stamps := anyOf("2024-02-29 12:34:56.789|1999-12-31 23:59:59.999999|0001-01-01 00:00|0044-03-15 01:02:03 BC|294276-12-31 12:00|2024-12-30 00:00|2024-11-03 05:30+00|" +
		"2024-11-03 06:30+00|2024-10-27 00:30+00|2024-03-31 01:30+00|1800-07-01 00:00")
	spans := anyOf("1 year 2 mons 3 days 04:05:06.7|-1 year -2 mons -3 days -04:05:06|12 mons|0|-1 mons|100:59:59|-100:00|-24 mons|35 days|5 mons -1 day 12:00|2147483647 days 24:00|" +
		"178956970 years 7 mons|-2147483648 days|9223372036854775807 us")
	settings := []string{
		"set timezone = " + quote(pick(r, zones)),
		"set datestyle = " + quote(pick(r, anyOf("iso, mdy|iso, dmy|iso, ymd|sql, mdy|sql, dmy|postgres, mdy|postgres, dmy|german"))),
		"set intervalstyle = " + pick(r, anyOf("postgres|sql_standard|iso_8601|postgres_verbose")),
	}
	// One of them, or none: a recorded case is short.
	if i := r.IntN(5); i < 3 {
		settings = settings[i : i+1]
	} else {
		settings = nil
	}
	group, q := "", ""
	switch r.IntN(9) {
	case 0, 1:
		group, q = "text", fmt.Sprintf("select %s %s", pick(r, anyOf("date|timestamp|timestamptz|time|timetz")), quote(dateText(r)))
	case 2, 3:
		group, q = "interval", fmt.Sprintf("select interval %s %s", quote(intervalForm(r)), pick(r, anyOf("||||year|month|day|hour|minute|second|year to month|day to hour|day to minute|"+
			"day to second|hour to minute|hour to second|minute to second|second(2)")))
	case 4:
		text, template := byTemplate(r)
		group, q = "template", fmt.Sprintf("select to_%s(%s, %s)", pick(r, anyOf("date|timestamp")), quote(text), quote(template))
	case 5:
		group, q = "to_char", fmt.Sprintf("select to_char(%s %s, %s)", pick(r, anyOf("timestamp|timestamptz")), quote(pick(r, stamps)), quote(dateTemplate(r)))
		if r.IntN(3) == 0 {
			q = fmt.Sprintf("select to_char(interval %s, %s)", quote(pick(r, spans)), quote(dateTemplate(r)))
		}
	case 6:
		group, q = "zone", fmt.Sprintf("select %s %s at time zone %s", pick(r, anyOf("timestamp|timestamptz")), quote(pick(r, stamps)),
			quote(pick(r, anyOf("CET|MET|EET|WET|MSK|EST|est5edt|America/New_York|us/eastern|etc/gmt+5|+03:30|UTC-5|ALMT|IST|VET|nosuch|America/Port-au-Prince|<x>3|FOO5BAR"))))
	case 7:
		unit := quote(pick(r, anyOf("microseconds|milliseconds|second|minute|hour|day|week|month|quarter|year|decade|century|millennium|dow|timezone|x")))
		group, q = "fields", fmt.Sprintf("select date_trunc(%s, %s %s)", unit, pick(r, anyOf("timestamp|timestamptz")), quote(pick(r, stamps)))
		if r.IntN(3) == 0 {
			q = fmt.Sprintf("select date_part(%s, interval %s), date_trunc(%[1]s, interval %[2]s)", unit, quote(pick(r, spans)))
		}
	default:
		group, q = "arithmetic", fmt.Sprintf("select interval %s %s", quote(pick(r, spans)), pick(r, anyOf("* 2|* -1.5|/ 3|/ 0.3|* 1e300|+ interval '1 day'|- interval '1 us'|"+
			"+ interval '1 mon'|+ timestamp '2024-01-31'|+ timestamptz '2024-11-03 00:00+00'|+ date 'infinity'|+ time '12:00'|= interval '30 days'")))
		if r.IntN(4) == 0 {
			q = fmt.Sprintf("select %s(interval %s)", pick(r, anyOf("justify_hours|justify_days|justify_interval|-")), quote(pick(r, spans)))
		}
	}
	return Case{Group: group, Statements: append(settings, q)}
}
