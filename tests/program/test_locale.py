#!/usr/bin/env python3
"""Numbers are written with a point, read and printed, whatever the locale says: each command gives under de_DE.UTF-8,
which has a decimal comma, what it gives under C. TAP; Python's standard library alone."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

import locales

from tap import ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-locale-")
COMMA = "de_DE.UTF-8"


def cutaway(locale, *args):
    done = subprocess.run([os.path.join(ROOT, "cutaway"), *args], capture_output=True, cwd=TMP.name, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": TMP.name, **locales.environment(locale)})
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def same(name, *args, mask=None):
    """The answer under a decimal comma, which must be that under C."""
    plain, comma = (cutaway(locale, *args) for locale in ("C", COMMA))
    if mask:
        plain, comma = ((status, mask.sub("#", out), err) for status, out, err in (plain, comma))
    check(f"{name}: the same under {COMMA}", plain == comma and plain[0] == 0 and plain[1], f"{plain}\n{comma}")
    return comma[1]


def said(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def test_commands():
    out = same("run --json", "run", "--json", "--model", "tiny.gguf", "--max-tokens", "4", "--temp", "0.7", "hello")
    check("run --json is JSON", out and all(isinstance((said(line) or {}).get("p"), float) for line in out.splitlines()), out)
    out = same("score --json", "score", "--json", "--model", "tiny.gguf", "text")
    check("score --json is JSON", out and all(said(line) is not None for line in out.splitlines()), out)
    same("score", "score", "--model", "tiny.gguf", "text")
    out = same("a beam with a length penalty", "run", "--json", "--model", "tiny.gguf", "--max-tokens", "4",
               "--beam", "2,0.6", "hello")
    for word in ("1.5", "0.25"):
        status, out, err = cutaway(COMMA, "run", "--model", "tiny.gguf", "--max-tokens", "4", "--best-of", "2",
                                   "--score", f"echo {word}", "hello")
        check(f"--score: a command that says {word} has given {word}", not status and re.search(rf"\b{word}", err), err)
    status, _, err = cutaway(COMMA, "run", "--model", "tiny.gguf", "--temp", "0,7", "hello")
    check("--temp 0,7 is refused, as everywhere", status == 2 and "0,7" in err, err)


def record():
    for locale, name in (("C", "plain.db"), (COMMA, "comma.db")):
        status, _, err = cutaway(locale, "run", "--model", "tiny.gguf", "--max-tokens", "4", "--temp", "0.7", "--beam", "2,0.6",
                                 "--record", name, "hello")
        check(f"a recording under {locale}", not status, err)


def texts(name):
    """Every text in the recording's tables that holds a number with a fraction."""
    db = sqlite3.connect(f"file:{os.path.join(TMP.name, name)}?mode=ro", uri=True)
    tables = [t for t, in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    found = []
    for table in tables:
        for row in db.execute(f'SELECT * FROM "{table}"'):
            found += [(table, v) for v in row if isinstance(v, str) and re.search(r"\d[.,]\d", v)]
    db.close()
    return [(table, text) for table, text in found if not re.search(r"gcc|/", text)]


def test_recordings():
    record()
    plain, comma = texts("plain.db"), texts("comma.db")
    check("the log's texts have the numbers with a point", plain == comma and any("0.6" in text for _, text in plain),
          f"{plain}\n{comma}")
    for form in ("perfetto", "csv", "jsonl", "asciicast", "html", "svg"):
        same(f"export --to {form}", "export", "plain.db", "--to", form)
    status, out, err = cutaway(COMMA, "export", "plain.db", "--to", "jsonl")
    check("export --to jsonl is JSON", not status and all(said(line) is not None for line in out.splitlines()), err)
    status, _, err = cutaway("C", "run", "--model", "tiny.gguf", "--max-tokens", "9", "--record", "run.db", "hello")
    check("a recording to be scheduled anew", not status, err)
    same("whatif", "whatif", "run.db", "--page-size", "32")
    same("why", "why", "token", "2", "--file", "plain.db")
    same("verify", "verify", "plain.db", mask=re.compile(r"\d[\d.]* (?:s|ms|µs)\b"))


def main():
    if not locales.environment(COMMA):
        print(f"1..0 # SKIP there are no sources for {COMMA} (package locales)")
        return 0
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), os.path.join(TMP.name, "tiny.gguf")], check=True)
    with open(os.path.join(TMP.name, "text"), "w", encoding="ascii") as f:
        f.write("The cat sat on the mat.\n")
    test_commands()
    test_recordings()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
