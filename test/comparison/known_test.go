package comparison

import (
	"regexp"
	"strings"
)

// departure is a difference that stays.
type departure struct {
	// statement, want and got are patterns of the case's statements and of what PostgreSQL and Meridian answer; an empty one
	// matches everything.
	statement, want, got string
	reason               string
}

// departures are the differences that stay, each with its reason.
var departures = []departure{
	{``, `:16\d\d\d:`, `:2249:`, "the row type of a table has no OID of its own: its values are records"},
	{`into k[bv] values \(.(a|x).`, `^ERROR 23505`, `^ERROR 23505`, "the detail of 23505 has the key as the row that is there has it"},
	{`char 'abc'`, ``, ``, "char 'abc' is char(1), as the standard has it, and not bpchar"},
	{`join p1 using`, `:1042:-1`, `:1042:7`, "a column of USING has the modifier of the left side"},
	{`::(bit|varbit|bit varying)\b|^select '[01]+'::bit`, ``, `ERROR 0A000 type bit`, "bit strings are not supported"},
	{`on delete|on update`, `ERROR 23(502|514) .*DETAIL: Failing row`, `ERROR 23(502|514) .*DETAIL: Failing row`, "of several rows that an action can't change, the first one's place in the heap decides"},
	{`(?s)begin.*(alter sequence|alter table . alter id (set|restart)).*(rollback|commit|savepoint)`, `^(last_value|nextval|currval|lastval|id|pg_sequence_last_value|sequencename|id:)|SELECT|INSERT`, ``, "numbers that were drawn after an ALTER SEQUENCE without RESTART stay drawn when its transaction is rolled back"},
	{`on conflict do nothing$`, ``, `ERROR 55000 ON CONFLICT does not support deferrable`, "a statement that can't be carried out fails before its rows are looked at"},
}

var compiled = func() (out [][3]*regexp.Regexp) {
	for _, d := range departures {
		out = append(out, [3]*regexp.Regexp{regexp.MustCompile(d.statement), regexp.MustCompile(d.want), regexp.MustCompile(d.got)})
	}
	return out
}()

// known is the reason why a difference stays, or empty.
func known(c Case, at int, want, got answer) string {
	all := strings.Join(c.Statements[:at+1], "; ")
	for i, p := range compiled {
		if p[0].MatchString(all) && p[1].MatchString(want.String()) && p[2].MatchString(got.String()) {
			return departures[i].reason
		}
	}
	return ""
}
