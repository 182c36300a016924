#!/usr/bin/env python3
"""Draws histories of SET, RESET, transactions and savepoints, and records what a PostgreSQL shows of three settings after each statement.

    PGAPPNAME= record.py PSQL-ARGUMENTS... > histories.txt      e.g. PGAPPNAME= record.py -h localhost -U postgres

A history is a paragraph. Its first lines, "start ROLE|DATABASE|BOTH statement", say what ALTER ROLE and ALTER DATABASE have set before the session
began. Then each line is a statement, a tab and the three values; "-" stands for them while the transaction has failed.
"""
import random
import subprocess
import sys

SETTINGS = ["application_name", "statement_timeout", "my.x"]


def run(args, text, database="postgres", user=None):
    command = ["psql", "-XAtq"] + args + ["-d", database] + (["-U", user] if user else [])
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def value(dice, name):
    if name == "statement_timeout":
        return "'%dh'" % dice.randint(1, 9)
    return "'v%d'" % dice.randint(1, 99)


def history(dice):
    """Statements, each with whether its transaction has not failed afterwards."""
    out, block, failed, savepoints = [], False, False, []
    for _ in range(dice.randint(6, 16)):
        name = dice.choice(SETTINGS)
        if failed:
            s = dice.choice(["ROLLBACK"] + ["ROLLBACK TO %s" % p for p in savepoints])
        else:
            kinds = ["SET"] * 5 + ["SET LOCAL"] * 5 + ["RESET"] * 2 + ["RESET ALL", "set_config", "local_config", "DEFAULT"]
            kinds += ["SAVEPOINT"] * 4 + ["ROLLBACK TO", "RELEASE"] * (2 * len(savepoints) > 0) + ["ROLLBACK TO"] * len(savepoints) if block else []
            kinds += ["COMMIT"] * 2 + ["ROLLBACK"] * 2 + ["fail"] if block else ["BEGIN"] * 8 + ["DISCARD ALL"]
            kind = dice.choice(kinds)
            s = {
                "SET": "SET %s = %s" % (name, value(dice, name)),
                "SET LOCAL": "SET LOCAL %s = %s" % (name, value(dice, name)),
                "RESET": "RESET %s" % name,
                "DEFAULT": "SET %s TO DEFAULT" % name,
                "set_config": "SELECT set_config('%s', %s, false)" % (name, value(dice, name)),
                "local_config": "SELECT set_config('%s', %s, true)" % (name, value(dice, name)),
                "fail": "SELECT 1/0",
                "SAVEPOINT": "SAVEPOINT %s" % dice.choice("abc"),
                "ROLLBACK TO": "ROLLBACK TO %s" % (dice.choice(savepoints) if savepoints else ""),
                "RELEASE": "RELEASE %s" % (dice.choice(savepoints) if savepoints else ""),
            }.get(kind, kind)
        word = s.split()[0]
        if s == "BEGIN":
            block = True
        elif s in ("COMMIT", "ROLLBACK"):
            block, failed, savepoints = False, False, []
        elif word == "SAVEPOINT":
            savepoints.append(s.split()[1])
        elif word in ("ROLLBACK", "RELEASE"):
            i = len(savepoints) - 1 - savepoints[::-1].index(s.split()[-1])
            savepoints = savepoints[:i + (word == "ROLLBACK")]
            failed = False
        elif s == "SELECT 1/0":
            failed = True
        out.append((s, not failed))
    if block:
        out.append(("ROLLBACK", True))
    return out


def main():
    args, dice = sys.argv[1:], random.Random(15)
    run(args, "DROP DATABASE IF EXISTS settings; DROP ROLE IF EXISTS settings; CREATE DATABASE settings; CREATE ROLE settings LOGIN;")
    show = "SELECT " + " || '|' || ".join("coalesce(current_setting('%s', true), 'NULL')" % s for s in SETTINGS) + ";\n"
    for _ in range(250):
        start = []
        for where in ("ROLE", "DATABASE", "BOTH"):
            for name in SETTINGS:
                if dice.random() < 0.15:
                    start.append((where, "SET %s = %s" % (name, value(dice, name))))
        prefix = {"ROLE": "ALTER ROLE settings ", "DATABASE": "ALTER DATABASE settings ", "BOTH": "ALTER ROLE settings IN DATABASE settings "}
        run(args, "".join(p + "RESET ALL;\n" for p in prefix.values()) + "".join(prefix[w] + s + ";\n" for w, s in start))
        steps = [("SELECT", True)] + history(dice)
        text = ""
        for s, readable in steps:
            text += "%s;\n\\echo @@\n%s\\echo @@\n" % (s, show if readable else "")
        parts = run(args, text, "settings", "settings").split("@@\n")
        for w, s in start:
            print("start", w, s)
        for i, (s, readable) in enumerate(steps):
            print("%s\t%s" % (s, parts[2 * i + 1].strip() if readable else "-"))
        print()
    run(args, "DROP DATABASE settings; DROP ROLE settings;")


main()
