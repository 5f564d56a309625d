#!/usr/bin/env python3
"""Recordings of every format that is read (tests/data/recordings), each made by a program of its time: opened, replayed on the
screens, asked why, and verified bit by bit. All are of one answer, so today's program must give the same bits once more. TAP;
Python's standard library alone."""
import glob
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish

DATA = os.path.join(ROOT, "tests/data/recordings")
TMP = tempfile.TemporaryDirectory(prefix="cutaway-recordings-")
MODEL, TODAY = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "today.db"))
PROMPT = "the cat sat on the mat. the cat sat on"
ANSWERED = "99999"  # part of what a random model says to that
ROWS = 32
FIRST = 1  # begins with the first release


def unpack(path, to):
    with gzip.open(path) as packed, open(to, "wb") as f:
        shutil.copyfileobj(packed, f)


def cutaway(*args):
    """(exit status, output, errors)."""
    run = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name, env={**os.environ, "HOME": TMP.name,
                                                                                   "XDG_CACHE_HOME": TMP.name})
    return run.returncode, run.stdout.decode("utf-8", "replace"), run.stderr.decode("utf-8", "replace")


def format_of(file):
    with sqlite3.connect(file) as db:
        return db.execute("PRAGMA user_version").fetchone()[0]


def test_format(packed):
    number = int(re.search(r"format(\d+)", packed)[1])
    name, file = f"format {number}", os.path.join(TMP.name, f"format{number}.db")
    unpack(packed, file)
    check(f"{name}: so the file says", format_of(file) == number, format_of(file))
    status, out, err = cutaway("verify", "--model", MODEL, file)
    check(f"{name} is verified, all its rows and draws", status == 0 and f"all equal: {ROWS} rows of 1 request, {ROWS} draws" in out,
          out + err)
    cast = os.path.join(TMP.name, "screens.cast")
    status, out, err = cutaway("export", file, "--to", "asciicast", "-o", cast)
    with open(cast, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    screens = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", "".join(line[2] for line in lines[1:]))
    check(f"{name} is replayed on the screens, question and answer", status == 0 and len(lines) > 3 and PROMPT in screens and
          ANSWERED in screens and re.search(r"step \d+ of 30", screens), f"{screens} {err}")
    status, out, err = cutaway("why", "token", "--file", file)
    check(f"{name} says why a token was drawn", status == 0 and "of request 1" in out and "model's own distribution" in out, out + err)
    status, out, err = cutaway("diff", file, TODAY)
    check(f"{name}: today's answer is the same, to the hash of each row", status == 0 and "1 of 1 requests are equal" in out, out + err)
    with sqlite3.connect(file) as db:
        db.execute("UPDATE token SET hash = hash + 1 WHERE pos = (SELECT max(pos) - 3 FROM token)")
    db.close()
    status, out, err = cutaway("verify", "--model", MODEL, file)
    check(f"{name}: a changed hash is found", status == 1 and "differ" in out + err, f"{status} {out} {err}")
    return number


def main():
    unpack(os.path.join(DATA, "tiny.gguf.gz"), MODEL)
    status, _, err = cutaway("run", "--model", MODEL, "--record", TODAY, "--threads", "1", "--seed", "11", "--temp", "0.8",
                             "--max-tokens", str(ROWS), "--spec", "ngram:3", PROMPT)
    check("today's program records the answer", status == 0, err)
    found = sorted(test_format(packed) for packed in glob.glob(os.path.join(DATA, "format*.db.gz")))
    check("there is a recording of every format up to today's", found == list(range(FIRST, format_of(TODAY) + 1)), found)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
