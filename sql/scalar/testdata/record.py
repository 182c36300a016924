#!/usr/bin/env python3
"""Record what PostgreSQL answers to the expressions in the first column of *.tsv (or of *.txt, one per line).

usage: record.py 'host=... port=... user=...' FILE...
Each line of a .tsv is: expression, type or ERROR, value or SQLSTATE and message; \\n stands for a new line.
"""
import re
import subprocess
import sys

conn, files = sys.argv[1], sys.argv[2:]
for name in files:
    exprs = [line.rstrip("\n").split("\t")[0] for line in open(name) if line.strip()]
    script = ["\\set VERBOSITY verbose", "\\pset null NULL", "\\pset fieldsep '\\t'", "\\pset recordsep '\\n'"]
    for e in exprs:
        pg = re.sub(r"\bextract\('", "pg_catalog.extract('", e)
        script += ["\\echo @@@@", f"SELECT pg_typeof(x), x FROM (SELECT ({pg}) AS x) s;"]
    out = subprocess.run(["psql", "-XAt", conn], input="\n".join(script) + "\n", stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True).stdout
    parts = out.split("@@@@\n")[1:]
    assert len(parts) == len(exprs), (len(parts), len(exprs))
    with open(name.rsplit(".", 1)[0] + ".tsv", "w") as f:
        for e, p in zip(exprs, parts):
            m = re.match(r"ERROR:  (\w{5}): (.*)", p)
            if m:
                f.write(f"{e}\tERROR\t{m[1]} {m[2]}\n")
            else:
                t, _, v = p.rstrip("\n").partition("\t")
                v = v.replace("\\", "\\\\").replace("\n", "\\n")
                f.write(f"{e}\t{t}\t{v}\n")
