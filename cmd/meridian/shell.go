package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/chzyer/readline"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
)

// newSQLCmd is `meridian sql`: a small shell for machines without psql.
func newSQLCmd() *cobra.Command {
	var url string
	var statements []string
	cmd := &cobra.Command{
		Use:   "sql [URL]",
		Short: "Open a SQL shell, or run statements with -e",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				url = args[0]
			}
			return runShell(cmd.Context(), url, statements, os.Stdin, os.Stdout)
		},
	}
	cmd.Flags().StringVar(&url, "url", "postgresql://root@localhost:5432/defaultdb?sslmode=prefer", "address of the server")
	cmd.Flags().StringArrayVarP(&statements, "execute", "e", nil, "run the statement and exit; may be repeated")
	return cmd
}

// shell is a session with a server.
type shell struct {
	conn   *pgconn.PgConn
	out    io.Writer
	timing bool
	// expanded says that each column of a row is shown on a line of its own. place names the session's database and the region of its gateway.
	expanded bool
	place    string
	// url is what conn was made with, and database the one that \c has chosen in place of the URL's; empty: none.
	url, database string
	// demo is the cluster that \demo commands act on; nil: there is none.
	demo *demo
}

// runShell runs the statements, or, without any, a prompt. The first statement that fails ends -e with an error.
func runShell(ctx context.Context, url string, statements []string, in io.Reader, out io.Writer) error {
	return runShellWith(ctx, &shell{out: out}, url, statements, in)
}

func runShellWith(ctx context.Context, s *shell, url string, statements []string, in io.Reader) error {
	s.out = &lockedWriter{w: s.out}
	if err := s.connect(ctx, url); err != nil {
		return err
	}
	defer func() { s.conn.Close(context.WithoutCancel(ctx)) }()
	for _, q := range statements {
		if words := strings.Fields(q); s.demo != nil && len(words) > 0 && words[0] == `\demo` {
			if err := s.control(ctx, words[1:]); err != nil {
				return err
			}
			continue
		} else if len(words) == 2 && words[0] == `\c` {
			if err := s.useDatabase(ctx, words[1]); err != nil {
				return err
			}
			continue
		} else if len(words) > 0 && strings.HasPrefix(words[0], `\`) {
			if !s.line(ctx, &input{}, q, 0) {
				return nil
			}
			continue
		}
		if err := s.run(ctx, q); err != nil {
			return describe(err, q)
		}
	}
	if len(statements) > 0 {
		return nil
	}
	return s.prompt(ctx, in)
}

// lockedWriter is a Writer for several goroutines: progress is shown while a statement runs.
type lockedWriter struct {
	mu sync.Mutex // guards w; nothing is taken after it
	w  io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// connect opens the session, in place of an earlier one.
func (s *shell) connect(ctx context.Context, url string) error {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return err
	}
	if s.database != "" {
		cfg.Database = s.database
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { fmt.Fprintf(s.out, "%s:  %s\n", n.Severity, n.Message) }
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	if s.conn != nil {
		s.conn.Close(context.WithoutCancel(ctx))
	}
	s.conn, s.url = conn, url
	s.place = cfg.Database
	// Another server knows no regions, and a node may have none.
	if r := conn.ExecParams(ctx, "SELECT gateway_region()", nil, nil, nil, nil).Read(); r.Err == nil && len(r.Rows) == 1 && len(r.Rows[0][0]) > 0 {
		s.place += "@" + string(r.Rows[0][0])
	}
	return nil
}

// useDatabase goes on in another database, on the same node.
func (s *shell) useDatabase(ctx context.Context, name string) error {
	before := s.database
	s.database = strings.Trim(name, `";`)
	if err := s.connect(ctx, s.url); err != nil {
		s.database = before
		return err
	}
	fmt.Fprintf(s.out, "connected to database %s\n", s.database)
	return nil
}

// control runs a \demo command: \demo use is about the shell, all others about the cluster.
func (s *shell) control(ctx context.Context, words []string) error {
	if len(words) != 2 || words[0] != "use" {
		return s.demo.control(ctx, words, s.out)
	}
	nodes, err := s.demo.at(words[1])
	if err != nil {
		return err
	}
	return s.connectAny(ctx, nodes)
}

// connectAny connects to the first of some nodes that answers.
func (s *shell) connectAny(ctx context.Context, nodes []*demoNode) error {
	err := errors.New("no node is up")
	for _, n := range nodes {
		if n.running() == nil {
			continue
		}
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = s.connect(within, n.url)
		cancel()
		if err == nil {
			fmt.Fprintf(s.out, "connected to %s (%s)\n", n.name, n.machine.Zone)
			return nil
		}
	}
	return err
}

// prompt reads statements until the end of input.
func (s *shell) prompt(ctx context.Context, in io.Reader) error {
	if f, ok := in.(*os.File); ok && !readline.IsTerminal(int(f.Fd())) {
		return s.script(ctx, in)
	}
	history := ""
	if home, err := os.UserHomeDir(); err == nil {
		history = filepath.Join(home, ".meridian_history")
	}
	rl, err := readline.NewEx(&readline.Config{Prompt: "meridian> ", HistoryFile: history, Stdin: io.NopCloser(in),
		InterruptPrompt: "^C", EOFPrompt: "\\q"})
	if err != nil {
		return err
	}
	defer rl.Close()
	fmt.Fprintln(s.out, `Type SQL ended by a semicolon; \? for help, \q to leave.`)
	var typed input
	for {
		rl.SetPrompt(s.promptText(typed.open()))
		line, err := rl.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			typed = input{last: typed.last}
			continue
		case err != nil:
			return nil
		}
		if !s.line(ctx, &typed, line, 0) {
			return nil
		}
		if s.conn.IsClosed() {
			if s.demo == nil {
				return errors.New("the connection is closed")
			}
			if err := s.connectAny(ctx, s.demo.nodes); err != nil {
				return err
			}
		}
	}
}

// promptText names where the session is: its database and the gateway's region. A star stands for an open transaction, an exclamation mark for one that has failed.
func (s *shell) promptText(open bool) string {
	state := map[byte]string{'T': "*", 'E': "!"}[s.conn.TxStatus()]
	if open {
		return s.place + state + "-> "
	}
	return s.place + state + "> "
}

// filesMost bounds how deep files run each other.
const filesMost = 16

// line takes a line of input, and reports whether the shell goes on. depth counts the files in which it stands.
func (s *shell) line(ctx context.Context, in *input, l string, depth int) bool {
	t := in.line(l)
	switch {
	case t.run != "":
		before := s.expanded
		s.expanded = before || t.expanded
		s.interactive(ctx, t.run)
		s.expanded = before
	case t.command == `\i` || t.command == `\include`:
		return s.file(ctx, t.arg, depth)
	case t.command == `\p` || t.command == `\print`:
		fmt.Fprint(s.out, in.text.String())
	case t.command != "":
		return s.command(ctx, t.command, t.arg)
	}
	return true
}

// file runs the lines of a file.
func (s *shell) file(ctx context.Context, name string, depth int) bool {
	if name == "" {
		fmt.Fprintln(s.out, `\i FILE runs the statements of a file`)
		return true
	}
	if depth == filesMost {
		fmt.Fprintf(s.out, "%s: files run each other more than %d deep\n", name, filesMost)
		return true
	}
	f, err := os.Open(name)
	if err != nil {
		fmt.Fprintln(s.out, err)
		return true
	}
	defer f.Close()
	goesOn, err := s.lines(ctx, f, depth+1)
	if err != nil {
		fmt.Fprintln(s.out, err)
	}
	return goesOn
}

// script runs input that is no terminal, without prompts.
func (s *shell) script(ctx context.Context, in io.Reader) error {
	_, err := s.lines(ctx, in, 0)
	if err == nil && s.conn.IsClosed() {
		err = errors.New("the connection is closed")
	}
	return err
}

// lines runs lines, and what is left of a statement without a semicolon at the end. It reports whether the shell goes on.
func (s *shell) lines(ctx context.Context, r io.Reader, depth int) (goesOn bool, err error) {
	var in input
	for b := bufio.NewReader(r); err == nil; {
		var l string
		if l, err = b.ReadString('\n'); l != "" && !s.line(ctx, &in, strings.TrimRight(l, "\r\n"), depth) {
			return false, nil
		}
		if s.conn.IsClosed() {
			return false, nil
		}
	}
	if !errors.Is(err, io.EOF) {
		return true, err
	}
	if q := strings.TrimSpace(in.text.String()); q != "" {
		s.interactive(ctx, q)
	}
	return true, nil
}

// interactive runs one input; Ctrl-C cancels it and the shell goes on.
func (s *shell) interactive(ctx context.Context, q string) {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	done := make(chan struct{})
	go func() {
		select {
		case <-interrupts:
			s.conn.CancelRequest(ctx)
		case <-done:
		}
	}()
	told := make(chan struct{})
	go func() {
		defer close(told)
		s.progress(ctx, q, done)
	}()
	start := time.Now()
	err := s.run(ctx, q)
	close(done)
	<-told
	if err != nil {
		fmt.Fprintln(s.out, describe(err, q))
	}
	if s.timing {
		fmt.Fprintf(s.out, "Time: %.3f ms\n", float64(time.Since(start).Microseconds())/1000)
	}
}

// progressAfter is how long a change of the schema takes before its progress is shown, and the pause between two reports.
const progressAfter = 2 * time.Second

// progress shows how far the job of a change of the schema is that takes seconds, until done is closed.
func (s *shell) progress(ctx context.Context, q string, done <-chan struct{}) {
	words := strings.Fields(strings.ToUpper(q))
	if len(words) == 0 || !slices.Contains([]string{"ALTER", "CREATE", "DROP", "TRUNCATE"}, words[0]) {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-done
		cancel()
	}()
	var conn *pgconn.PgConn
	defer func() {
		if conn != nil {
			conn.Close(context.WithoutCancel(ctx))
		}
	}()
	tick := time.NewTicker(progressAfter)
	defer tick.Stop()
	for last := ""; ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if conn == nil {
			cfg, err := pgconn.ParseConfig(s.url)
			if err != nil {
				return
			}
			if conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
				return
			}
		}
		r := conn.ExecParams(ctx, "SELECT job_type, description, round(fraction_completed::numeric * 100) FROM meridian_internal.jobs WHERE status = 'running' ORDER BY created DESC LIMIT 1", nil, nil, nil, nil).Read()
		if r.Err != nil {
			return // another server has no such jobs
		}
		if len(r.Rows) == 0 {
			continue
		}
		now := fmt.Sprintf("  %s: %s %%", r.Rows[0][1], r.Rows[0][2])
		if now != last {
			fmt.Fprintln(s.out, now)
		}
		last = now
	}
}

// listed are the kinds of relations that a backslash command lists, as pg_class has them.
func listed(word string) string {
	return map[string]string{`\d`: "rpvmS", `\dt`: "rp", `\dv`: "v", `\dm`: "m", `\ds`: "S", `\di`: "i"}[word]
}

const commandsText = `\l databases   \c DATABASE go there   \d NAME columns   \d \dt \dv \dm \ds \di [PATTERN] relations, tables, views, materialized views, sequences, indexes
\timing [on|off]   \x [on|off] one column to a line   \g \gx run   \r forget the statement   \p show it   \i FILE run a file   \q leave   \demo help the cluster of a demonstration`

// command runs a backslash command and reports whether the shell goes on. One that it does not know is refused by its name.
func (s *shell) command(ctx context.Context, word, arg string) bool {
	switch word {
	case `\q`, `\quit`:
		return false
	case `\l`, `\list`:
		s.interactive(ctx, "SELECT datname AS name, pg_get_userbyid(datdba) AS owner FROM pg_database ORDER BY 1")
	case `\d`, `\dt`, `\dv`, `\dm`, `\ds`, `\di`:
		if word == `\d` && arg != "" {
			s.columns(ctx, arg)
		} else {
			s.list(ctx, listed(word), arg)
		}
	case `\c`, `\connect`:
		if arg == "" || strings.ContainsAny(arg, " \t") {
			fmt.Fprintln(s.out, `\c DATABASE goes on in another database`)
		} else if err := s.useDatabase(ctx, arg); err != nil {
			fmt.Fprintln(s.out, describe(err, ""))
		}
	case `\timing`:
		s.turn(&s.timing, arg, "Timing", `\timing [on|off] shows how long statements take`)
	case `\demo`:
		if s.demo == nil {
			fmt.Fprintln(s.out, "this cluster is no demonstration: meridian demo runs one")
		} else if err := s.control(ctx, strings.Fields(arg)); err != nil {
			fmt.Fprintln(s.out, err)
		}
	case `\x`:
		s.turn(&s.expanded, arg, "Expanded display", `\x [on|off] shows each column on a line of its own`)
	case `\?`, `\h`, `\help`:
		fmt.Fprintln(s.out, commandsText)
	default:
		fmt.Fprintf(s.out, "%s is not supported by this shell. It has:\n%s\n", word, commandsText)
	}
	return true
}

// turn sets a switch, or changes it if the command says nothing.
func (s *shell) turn(on *bool, arg, what, usage string) {
	switch arg {
	case "", "on", "off":
		*on = arg == "on" || arg == "" && !*on
		fmt.Fprintf(s.out, "%s is %s.\n", what, map[bool]string{true: "on", false: "off"}[*on])
	default:
		fmt.Fprintln(s.out, usage)
	}
}

// list lists relations of some kinds whose names fit a pattern with * and ?.
func (s *shell) list(ctx context.Context, kinds, pattern string) {
	q := `SELECT n.nspname AS schema, c.relname AS name,
		CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence' WHEN 'i' THEN 'index' END AS type
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('` + strings.Join(strings.Split(kinds, ""), "','") + `') AND n.nspname NOT IN ('pg_catalog','information_schema','meridian_internal')`
	if pattern != "" {
		like := strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`, `*`, `%`, `?`, `_`).Replace(pattern)
		q += " AND CASE WHEN " + constant(like) + " LIKE '%.%' THEN n.nspname || '.' || c.relname ELSE c.relname END LIKE " + constant(like)
	}
	s.interactive(ctx, q+" ORDER BY 1, 2")
}

// columns describes the columns of a relation.
func (s *shell) columns(ctx context.Context, name string) {
	r := s.conn.ExecParams(ctx, "SELECT to_regclass($1) IS NULL", [][]byte{[]byte(name)}, nil, nil, nil).Read()
	switch {
	case r.Err != nil:
		fmt.Fprintln(s.out, describe(r.Err, ""))
	case len(r.Rows) == 1 && string(r.Rows[0][0]) == "t":
		fmt.Fprintf(s.out, "Did not find any relation named \"%s\".\n", name)
	default:
		s.interactive(ctx, `SELECT a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type, CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS nullable, pg_get_expr(d.adbin, d.adrelid) AS default
			FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
			WHERE a.attrelid = to_regclass(`+constant(name)+`) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`)
	}
}

// constant is a string constant.
func constant(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// run sends the text and prints every result.
func (s *shell) run(ctx context.Context, q string) error {
	results := s.conn.Exec(ctx, q)
	for results.NextResult() {
		r := results.ResultReader()
		var rows [][]string
		for r.NextRow() {
			row := make([]string, len(r.Values()))
			for i, v := range r.Values() {
				if v == nil {
					row[i] = "NULL"
				} else {
					row[i] = string(v)
				}
			}
			rows = append(rows, row)
		}
		var names []string
		var right []bool
		for _, f := range r.FieldDescriptions() {
			names = append(names, f.Name)
			right = append(right, numericOID(f.DataTypeOID))
		}
		tag, err := r.Close()
		if err != nil {
			results.Close()
			return err
		}
		if names != nil && s.expanded {
			printRecords(s.out, names, rows)
		} else if names != nil {
			printTable(s.out, names, right, rows)
		} else if tag.String() != "" {
			fmt.Fprintln(s.out, tag)
		}
	}
	return results.Close()
}

func numericOID(oid uint32) bool {
	switch oid {
	case 20, 21, 23, 26, 700, 701, 1700:
		return true
	}
	return false
}

// printRecords draws a result with each column on a line of its own, as psql does.
func printRecords(w io.Writer, names []string, rows [][]string) {
	name, value := 0, 0
	for _, n := range names {
		name = max(name, utf8.RuneCountInString(n))
	}
	for _, r := range rows {
		for _, v := range r {
			for l := range strings.SplitSeq(v, "\n") {
				value = max(value, utf8.RuneCountInString(l))
			}
		}
	}
	var b strings.Builder
	for i, r := range rows {
		head := []byte(fmt.Sprintf("-[ RECORD %d ]", i+1))
		marked := len(head) <= name+1 // else it covers the line between names and values
		for len(head) < name+value+3 {
			head = append(head, '-')
		}
		if marked {
			head[name+1] = '+'
		}
		b.Write(append(head, '\n'))
		for j, n := range names {
			lines := strings.Split(r[j], "\n")
			for k, l := range lines {
				if k > 0 {
					n = ""
				}
				more := ""
				if k+1 < len(lines) {
					more = "+"
				}
				b.WriteString(strings.TrimRight(n+strings.Repeat(" ", name-utf8.RuneCountInString(n))+" | "+l+more, " ") + "\n")
			}
		}
	}
	if len(rows) == 0 {
		b.WriteString("(0 rows)\n")
	}
	b.WriteByte('\n')
	io.WriteString(w, b.String())
}

// printTable draws a result as psql does.
func printTable(w io.Writer, names []string, right []bool, rows [][]string) {
	width := make([]int, len(names))
	for i, n := range names {
		width[i] = utf8.RuneCountInString(n)
	}
	for _, r := range rows {
		for i, v := range r {
			for _, l := range strings.Split(v, "\n") {
				width[i] = max(width[i], utf8.RuneCountInString(l))
			}
		}
	}
	var b strings.Builder
	for i, n := range names {
		pad := width[i] - utf8.RuneCountInString(n)
		if i > 0 {
			b.WriteByte('|')
		}
		b.WriteString(strings.Repeat(" ", pad/2+1) + n + strings.Repeat(" ", pad-pad/2+1))
	}
	b.WriteByte('\n')
	for i := range names {
		if i > 0 {
			b.WriteByte('+')
		}
		b.WriteString(strings.Repeat("-", width[i]+2))
	}
	b.WriteByte('\n')
	for _, r := range rows {
		cells := make([][]string, len(r))
		lines := 1
		for i, v := range r {
			cells[i] = strings.Split(v, "\n")
			lines = max(lines, len(cells[i]))
		}
		for l := range lines {
			var line strings.Builder
			for i := range r {
				v, more := "", " "
				if l < len(cells[i]) {
					v = cells[i][l]
					if l+1 < len(cells[i]) {
						more = "+"
					}
				}
				pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(v))
				if i > 0 {
					line.WriteByte('|')
				}
				if right[i] {
					line.WriteString(" " + pad + v + more)
				} else {
					line.WriteString(" " + v + pad + more)
				}
			}
			b.WriteString(strings.TrimRight(line.String(), " "))
			b.WriteByte('\n')
		}
	}
	plural := "s"
	if len(rows) == 1 {
		plural = ""
	}
	fmt.Fprintf(&b, "(%d row%s)\n\n", len(rows), plural)
	io.WriteString(w, b.String())
}

// describe shows an error as psql does: message, SQLSTATE, the place in the text, detail and hint.
func describe(err error, q string) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s:  %s\nSQLSTATE: %s", e.Severity, e.Message, e.Code)
	if p := int(e.Position); p > 0 && p <= utf8.RuneCountInString(q) {
		runes := []rune(q)
		start, end, number := 0, len(runes), 1
		for i, r := range runes {
			if r != '\n' {
				continue
			}
			if i < p-1 {
				start = i + 1
				number++
			} else {
				end = i
				break
			}
		}
		head := fmt.Sprintf("LINE %d: ", number)
		fmt.Fprintf(&b, "\n%s%s\n%s^", head, string(runes[start:end]), strings.Repeat(" ", len(head)+p-1-start))
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, "\nDETAIL:  %s", e.Detail)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\nHINT:  %s", e.Hint)
	}
	return errors.New(b.String())
}
