package main

import (
	"strings"
)

// input is what a client of the shell has typed and that was not run yet.
type input struct {
	text strings.Builder
	last string // the statement that was run last
}

// typed is what a line of input asks for.
type typed struct {
	// run is a statement to be run, empty if there is none; expanded says that its rows are shown one column to a line.
	run      string
	expanded bool
	// command is a backslash command with its argument, empty if there is none.
	command, arg string
}

// line takes a line. A backslash command may stand on a line of its own, also within an unfinished statement, which stays; \g and \gx may end a statement in place of a semicolon.
func (in *input) line(l string) (out typed) {
	within := quoted(in.text.String())
	word := strings.TrimSpace(l)
	switch {
	case !within && strings.HasPrefix(word, `\`):
		name, arg, _ := strings.Cut(word, " ")
		switch name {
		case `\g`, `\gx`:
			if strings.TrimSpace(arg) != "" { // psql writes the rows to a file, or gives them to a program
				return typed{command: name + " " + strings.TrimSpace(arg)}
			}
			q := strings.TrimSpace(in.text.String())
			if q == "" {
				q = in.last
			}
			return in.take(q, name == `\gx`)
		case `\r`, `\reset`:
			in.text.Reset()
			return typed{}
		}
		return typed{command: name, arg: strings.TrimSpace(arg)}
	case in.text.Len() == 0 && word == "":
		return typed{}
	case in.text.Len() == 0 && (word == "exit" || word == "quit"):
		return typed{command: `\q`}
	}
	for _, end := range []string{`\g`, `\gx`} {
		if head, ok := strings.CutSuffix(strings.TrimRight(l, " \t"), end); ok && !quoted(in.text.String()+head) {
			in.text.WriteString(head)
			return in.take(strings.TrimSpace(in.text.String()), end == `\gx`)
		}
	}
	in.text.WriteString(l)
	in.text.WriteByte('\n')
	if q := in.text.String(); complete(q) {
		return in.take(q, false)
	}
	return typed{}
}

func (in *input) take(q string, expanded bool) typed {
	in.text.Reset()
	if q != "" {
		in.last = q
	}
	return typed{run: q, expanded: expanded}
}

// open reports whether a statement was begun.
func (in *input) open() bool { return in.text.Len() > 0 }

// complete reports whether the text ends with a semicolon outside of quotes and comments.
func complete(q string) bool {
	last, within := lexed(q)
	return !within && last == ';'
}

// quoted reports whether the end of the text is within quotes or a comment of several lines.
func quoted(q string) bool {
	_, within := lexed(q)
	return within
}

// lexed gives the last byte of a text that is neither a space nor in a comment, and whether its end is within quotes or a comment.
func lexed(q string) (last byte, within bool) {
	for i := 0; i < len(q); i++ {
		switch c := q[i]; {
		case c == '\'' && i > 0 && (q[i-1] == 'e' || q[i-1] == 'E') && (i == 1 || !wordByte(q[i-2])): // a backslash may hide a quote
			for i++; i < len(q) && q[i] != '\''; i++ {
				if q[i] == '\\' {
					i++
				}
			}
			if i >= len(q) {
				return last, true
			}
			last = c
		case c == '\'' || c == '"':
			j := strings.IndexByte(q[i+1:], c)
			if j < 0 {
				return last, true
			}
			i += j + 1
			last = c
		case c == '-' && strings.HasPrefix(q[i:], "--"):
			j := strings.IndexByte(q[i:], '\n')
			if j < 0 {
				return last, false
			}
			i += j
		case c == '/' && strings.HasPrefix(q[i:], "/*"):
			depth := 1
			for i += 2; i < len(q) && depth > 0; i++ {
				switch {
				case strings.HasPrefix(q[i:], "/*"):
					depth++
					i++
				case strings.HasPrefix(q[i:], "*/"):
					depth--
					i++
				}
			}
			if depth > 0 {
				return last, true
			}
			i--
		case c == '$':
			// A dollar-quoted string begins with $tag$.
			end := strings.IndexByte(q[i+1:], '$')
			if end < 0 || strings.ContainsAny(q[i+1:i+1+end], " \n\t;(),") {
				last = c
				continue
			}
			tag := q[i : i+end+2]
			j := strings.Index(q[i+len(tag):], tag)
			if j < 0 {
				return last, true
			}
			i += len(tag)*2 + j - 1
			last = c
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
		default:
			last = c
		}
	}
	return last, false
}

// wordByte reports whether a byte may be in the middle of a word.
func wordByte(c byte) bool {
	return c == '_' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
