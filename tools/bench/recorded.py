"""Answers of `cutaway run`, recorded, and their recordings as SQLite in memory. Python's standard library alone."""
import os
import sqlite3
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "cutaway")


def prompts(name="demos/kinds.txt", of_each=None):
    """[(kind, prompt)] of a file of prompts: all, or the first so many of each kind."""
    found, kind, lines = [], None, []
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        for line in f.read().splitlines() + [""]:
            if line.startswith("[") and line.endswith("]") and not lines:
                kind = line[1:-1]
            elif kind and line:
                lines.append(line)
            elif lines:
                found.append((kind, "\n".join(lines)))
                lines = []
    kinds = [kind for kind, _ in found]
    return [one for i, one in enumerate(found) if of_each is None or kinds[:i].count(one[0]) < of_each]


def answer(program, prompt, *options):
    """What `run --json` says, byte for byte, and the recording."""
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "session.db")
        run = subprocess.run([program, "run", "--json", "--record", record, *options, prompt],
                             stdout=subprocess.PIPE, check=True)
        with sqlite3.connect(record) as file:
            db = sqlite3.connect(":memory:")
            file.backup(db)
        file.close()
    return run.stdout, db


def decoding(db):
    """Tokens, steps and nanoseconds of the steps that follow the prompt."""
    tokens, steps, ns = db.execute("SELECT sum(tokens), count(*), sum(ns) FROM step WHERE prefill_rows = 0").fetchone()
    return tokens or 0, steps, ns or 0
