package main

// SmallBank (Alomari et al., ICDE 2008), with the transactions, shares and statements of BenchBase: nine of ten go to a quarter of the
// accounts.
const (
	smallbankRows = 10_000 // accounts for each of pgbench's scale

	smallbankLoad = `DROP TABLE IF EXISTS sb_accounts, sb_savings, sb_checking;
CREATE TABLE sb_accounts (custid bigint PRIMARY KEY, name varchar(64) NOT NULL);
CREATE TABLE sb_savings (custid bigint PRIMARY KEY, bal float NOT NULL);
CREATE TABLE sb_checking (custid bigint PRIMARY KEY, bal float NOT NULL);
INSERT INTO sb_accounts SELECT g, lpad(g::text, 64, '0') FROM generate_series(1, :accounts) AS g;
INSERT INTO sb_savings SELECT g, 10000 + g % 40000 FROM generate_series(1, :accounts) AS g;
INSERT INTO sb_checking SELECT g, 10000 + g % 40000 FROM generate_series(1, :accounts) AS g;
CREATE INDEX ON sb_accounts (name);
ANALYZE sb_accounts;
ANALYZE sb_savings;
ANALYZE sb_checking;
`
	smallbankOne  = "\\set hot random(1, 10)\n\\if :hot < 10\n\\set c random(1, :accounts / 4)\n\\else\n\\set c random(1, :accounts)\n\\endif\n"
	smallbankTwo  = smallbankOne + "\\set d 1 + (:c + random(1, :accounts / 4 - 1)) % :accounts\n"
	smallbankBoth = `SELECT bal FROM sb_savings WHERE custid = :c;
SELECT bal FROM sb_checking WHERE custid = :c;
`
	smallbankName    = "SELECT custid FROM sb_accounts WHERE name = lpad((:c)::text, 64, '0');\n"
	smallbankAmalgam = smallbankTwo + `BEGIN;
SELECT * FROM sb_accounts WHERE custid = :c;
SELECT * FROM sb_accounts WHERE custid = :d;
SELECT bal AS s FROM sb_savings WHERE custid = :c \gset
SELECT bal AS k FROM sb_checking WHERE custid = :d \gset
UPDATE sb_checking SET bal = 0 WHERE custid = :c;
UPDATE sb_savings SET bal = bal - :s WHERE custid = :d;
UPDATE sb_checking SET bal = bal + :k WHERE custid = :d;
END;
`
	smallbankBalance = smallbankOne + "BEGIN;\n" + smallbankName + smallbankBoth + "END;\n"
	smallbankDeposit = smallbankOne + "BEGIN;\n" + smallbankName + "UPDATE sb_checking SET bal = bal + 1.3 WHERE custid = :c;\nEND;\n"
	smallbankSend    = smallbankTwo + `BEGIN;
SELECT * FROM sb_accounts WHERE custid = :c;
SELECT * FROM sb_accounts WHERE custid = :d;
SELECT bal FROM sb_checking WHERE custid = :c;
UPDATE sb_checking SET bal = bal - 5 WHERE custid = :c;
UPDATE sb_checking SET bal = bal + 5 WHERE custid = :d;
END;
`
	smallbankSavings = smallbankOne + "BEGIN;\n" + smallbankName + `SELECT bal FROM sb_savings WHERE custid = :c;
UPDATE sb_savings SET bal = bal - 20.20 WHERE custid = :c;
END;
`
	smallbankCheck = smallbankOne + "BEGIN;\n" + smallbankName + smallbankBoth + "UPDATE sb_checking SET bal = bal - 5 WHERE custid = :c;\nEND;\n"
)

func smallbank() mix {
	return mix{load: smallbankLoad, custom: []weighted{{15, smallbankAmalgam}, {15, smallbankBalance}, {15, smallbankDeposit}, {25, smallbankSend},
		{15, smallbankSavings}, {15, smallbankCheck}}}
}
