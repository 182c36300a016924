package comparison

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// numberTemplates: to_char of numbers and to_number, whose templates are made of all patterns in any order.
var numberTemplates = Generator{Name: "numberTemplates", Generate: numberTemplate}

func numberTemplate(r *rand.Rand) Case {
	var b strings.Builder
	if r.IntN(2) == 0 {
		b.WriteString("FM")
	}
	if r.IntN(3) == 0 {
		b.WriteString(pick(r, []string{"S", "MI", "PL", "SG", "L", "B", `"x"`, "$", "s"}))
	}
	pattern := func() string {
		return pick(r, []string{"9", "9", "9", "9", "99", "999", "0", "0", "00", "G", ",", "D", ".", "V", " ", `"a"`, "L", "9G999", "FM"})
	}
	for range 1 + r.IntN(5) {
		b.WriteString(pattern())
	}
	if r.IntN(2) == 0 {
		b.WriteString(pick(r, []string{".9", ".99", "D99", ".00", ".09", ".90", "V9", "."}))
	}
	if r.IntN(3) == 0 {
		b.WriteString(pick(r, []string{"S", "MI", "PL", "SG", "PR", "th", "TH", "EEEE", "RN", "rn", "L", "eeee", "pr"}))
	}
	template := quote(b.String())
	if r.IntN(3) == 0 {
		var in strings.Builder
		for range 1 + r.IntN(6) {
			in.WriteString(pick(r, []string{"1", "2", "34", "567", "0", ".", ",", "-", "+", " ", "<", ">", "$", "a", "1,234", ".5", "12"}))
		}
		return Case{Group: "to_number", Statements: []string{fmt.Sprintf("select to_number(%s, %s)", quote(in.String()), template)}}
	}
	v := pick(r, []string{"0", "1", "-1", "0.1", "-0.1", "0.05", "12", "-12", "485", "1234.5", "-1234.5", "9.999", "99.995", "123456", "1234567.891", "0.001",
		"1e10", "1.5e-5", "'NaN'", "'Infinity'", "'-Infinity'", "100", "-0.004", "3999", "4000", "null"})
	t := pick(r, []string{"numeric", "numeric", "int", "bigint", "float4", "float8"})
	return Case{Group: "to_char " + t, Statements: []string{fmt.Sprintf("select to_char(%s::%s, %s)", v, t, template)}}
}
