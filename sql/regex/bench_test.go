package regex

import (
	"regexp"
	"strings"
	"testing"
)

func BenchmarkMatch(b *testing.B) {
	long := strings.Repeat("the quick brown fox jumps over the lazy dog 12345 ", 20)
	for _, c := range []struct{ name, pattern, text string }{
		{"literal", "lazy", "the quick brown fox jumps over the lazy dog"}, {"prefix", "^the", "the quick brown fox"}, {"prefixmiss", "^abc", "the quick brown fox jumps over the lazy dog"},
		{"class", "[0-9]+", "the quick brown fox 42"}, {"mail", `^[a-z0-9._]+@[a-z0-9.]+\.[a-z]{2,}$`, "john.smith@example.com"},
		{"longmiss", "zebra", long}, {"longclass", `\d{6}`, long}, {"alternatives", "cat|dog|bird", long}, {"longliteral", "lazy cat", long},
	} {
		re, err := Compile(c.pattern, Options{})
		if err != nil {
			b.Fatal(err)
		}
		lib := regexp.MustCompile(c.pattern)
		b.Run(c.name+"/own", func(b *testing.B) {
			for b.Loop() {
				re.Match(c.text, nil)
			}
		})
		b.Run(c.name+"/library", func(b *testing.B) {
			for b.Loop() {
				lib.MatchString(c.text)
			}
		})
		b.Run(c.name+"/find", func(b *testing.B) {
			var dst []int
			for b.Loop() {
				dst, _ = re.Find(c.text, 0, dst, nil)
			}
		})
		l := regexp.MustCompile(c.pattern)
		l.Longest()
		b.Run(c.name+"/findlibrary", func(b *testing.B) {
			for b.Loop() {
				l.FindStringSubmatchIndex(c.text)
			}
		})
	}
}
