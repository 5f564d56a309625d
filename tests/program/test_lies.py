#!/usr/bin/env python3
"""Recordings with lies in any column of any table, by a seed: NULL, negative, huge, no numbers, other types, texts of escape
sequences or of no UTF-8, blobs of noise, rows out of order. Two good recordings of a server (queue, pins, preemptions) and of a
chat through it (attached, polled, slot); what stands in no table of theirs is made up. As test_hostile_files.py asks: a clear
error, or what is right in them. TAP; Python's standard library alone.

    tests/program/test_lies.py [FIRST [N]]     other seeds, or more
    tests/program/test_lies.py --keep SEED     its recording stays in the folder lies/
"""
import concurrent.futures
import os
import random
import sqlite3
import struct
import subprocess
import sys
import threading

import tap
import test_hostile_files as hostile
import test_serve as serve

BIG = hostile.BIG
FILES = 24
NEWEST = ("queue", "attached", "polled", "slot", "pin", "preempt", "price", "answer", "lesson", "memory", "search", "sharing")
BASES = [os.path.join(hostile.TMP.name, name) for name in ("served.db", "attached.db")]
KEYS = [b"\x1b[F", b"\x1b[D", b"\x1b[H", b"\x1b[C", b"n", b"p", b"\x1b[6~", *(b"%d" % i for i in range(1, 10)), b"/latency\r", b"\x1b",
        b"/queue\r", b"\x1b", b"/server\r", b"\x1b", b"/pin\r", b"\x1b", b"/why evict\r", b"\x1b", b"/find entropy > 1\r", b"\x1b", b"\x1b[F", b"q"]


# --- good recordings ---

def make_bases():
    subprocess.run([os.path.join(tap.ROOT, "build/tests/mktiny"), serve.TINY], check=True)
    os.symlink(serve.TINY, hostile.TINY)
    s = serve.Server("--record", BASES[0], "--pages", "16", "--slots", "3", "--policy", "fair", "--spec", "ngram:3")
    words = "the model reads a page of tokens and the cache keeps what it has read "
    try:
        s.post(serve.TEXT, prompt=words + "one", cache_prefix=words, cache_control={"type": "ephemeral", "ttl": "1s"}, max_tokens=4)
        asks = [threading.Thread(target=s.post, args=(serve.TEXT,), kwargs={"prompt": words * 2 + str(i), "max_tokens": 250, "user": f"u{i % 3}",
                                 "priority": i % 2, "temperature": 1.5, "seed": i}) for i in range(10)]
        for t in asks:
            t.start()
        for t in asks:
            t.join()
        subprocess.run([tap.PROGRAM, "attach", f"http://127.0.0.1:{s.port}", "--record", BASES[1], "--max-tokens", "40", "One more?", "And now?"],
                       env=serve.ENV, check=True, capture_output=True)
        s.post(serve.TEXT, prompt=words * 3, max_tokens=30)
    finally:
        s.end()


def tables(db):
    """{table of events: [(column, type)]}, without seq and time."""
    names = [n for n, in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
    all_ = {n: [(c[1], c[2]) for c in db.execute(f'PRAGMA table_info("{n}")')] for n in names}
    return {n: c[2:] for n, c in all_.items() if [x for x, _ in c[:2]] == ["seq", "t_ns"]}


# --- lies ---

def a_number(r):
    return r.choice((None, -1, 0, 1, r.randrange(64), BIG, -BIG, -BIG - 1, 2**31 - 1, 2**31, 2**32 + 1, 2**53 + 1, 10**15, r.getrandbits(62)))


def a_real(r):
    return r.choice((None, float("inf"), float("-inf"), -1.0, 0.0, 1e308, -1e308, 5e-324, 1e-9, 3.5, 1e18))


def a_text(r):
    return r.choice((None, "", hostile.ESCAPES, hostile.ESCAPES, b"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82", "x" * 40000, "%s%n%d",
                     "\u0301" * 900, "\n" * 200, "a\0b", "off", "full", '{"a":[', "\u202e" + "蓝" * 70))


def a_blob(r):
    wide = struct.pack("<qq", r.choice((-1, 0, 1, 3, BIG)), r.choice((-BIG, 0, BIG)))
    return r.choice((None, b"", b"\1", b"\xff" * 400, wide * r.randrange(1, 80), wide * 3 + b"\1", r.randbytes(r.randrange(1, 900)), r.randbytes(512),
                     struct.pack("<I", 0x7f800000) * 64, struct.pack("<If", 7, 1e38) * 9, hostile.ESCAPES.encode() * 4))


LIES = {"INTEGER": a_number, "REAL": a_real, "TEXT": a_text, "BLOB": a_blob}


def lie_for(r, kind):
    """(value, whether a table that checks types takes it)."""
    if r.randrange(14):
        return LIES[kind](r), True
    return r.choice(("one", 1.5, b"\1\2", 7, -1)), False


def last_seq(db):
    return max(db.execute(f'SELECT coalesce(max(seq), 0) FROM "{t}"').fetchone()[0] for t in tables(db))


def make_up(db, r, table, columns):
    """Rows of nearly sensible values, each behind another row of the file."""
    honest = {"INTEGER": lambda: r.randrange(1, 6), "REAL": r.random, "TEXT": lambda: "text", "BLOB": lambda: bytes(64)}
    used = {s for t in tables(db) for s, in db.execute(f'SELECT seq FROM "{t}"')}
    end = last_seq(db)
    for seq in {r.randrange(2, end + 9) for _ in range(9)} - used:
        db.execute(f'INSERT INTO "{table}" VALUES(?, ?{", ?" * len(columns)})', [seq, seq * 1000, *(honest[kind]() for _, kind in columns)])


def disorder(db, r, table):
    by = r.choice((10**9, -10**9, 1, 2, 0))
    if by:
        db.execute(f'UPDATE OR IGNORE "{table}" SET seq = seq + ?', (by,))
    else:
        db.execute(f'UPDATE "{table}" SET t_ns = -t_ns')


def put(db, table, column, where, value):
    value, as_text = (value, "CAST(? AS TEXT)") if isinstance(value, bytes) and column[1] == "TEXT" else (value, "?")
    db.execute(f'UPDATE "{table}" SET "{column[0]}" = {as_text} WHERE {where}', (value,))


def tell_lies(db, seed):
    r = random.Random(seed)
    of = tables(db)
    for _ in range(r.choice((1, 1, 2, 5, 20))):
        table = r.choice(NEWEST if r.randrange(2) else sorted(of))
        if not of[table]:
            continue
        if not db.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]:
            make_up(db, r, table, of[table])
        if not r.randrange(8):
            disorder(db, r, table)
        for column in r.sample(of[table], r.randrange(1, 1 + min(3, len(of[table])))):
            value, fits = lie_for(r, column[1])
            if not fits:
                hostile.loose(db, table)
            put(db, table, column, r.choice(("1", "seq % 2", "seq % 3 = 0", f'seq = (SELECT max(seq) FROM "{table}")',
                                            f'seq = (SELECT min(seq) FROM "{table}")')), value)
    if r.randrange(2):
        db.execute("DROP TABLE keyframe")


# --- the program ---

def commands(path, seed):
    r = random.Random(seed)
    whys = ("miss", "evict", "preempt", "wait", "reject", "token", "slow", "price")
    yield from (c for c in hostile.commands(path) if c[0].split()[0] in ("verify", "whatif") or c[0] in ("export jsonl", "diff", "compare with itself"))
    yield from (("why " + w, ["why", w, *r.choice(((), ("1",), ("2",))), "--file", path], False) for w in whys)
    for form in r.sample(("perfetto", "html", "asciicast", "svg"), 2):
        yield "export " + form, ["export", "--to", form, path], False
    yield "simulate", ["simulate", "--fit", path, "--requests", "20"], False
    yield "simulate against", ["simulate", "--fit", path, "--against", path], False
    yield "formulas", ["formulas", path], False


def try_seed(seed, folder):
    name = f"lie-{seed}"
    path = os.path.join(folder, name + ".db")
    with open(BASES[seed % 2], "rb") as f, open(path, "wb") as g:
        g.write(f.read())
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA legacy_alter_table = ON")
    db.execute("BEGIN")
    tell_lies(db, seed)
    db.execute("COMMIT")
    db.close()
    wrong = [hostile.try_command(path, n, *command) for n, command in enumerate(commands(path, seed))]
    wrong.append(hostile.try_screen(path, 0, [], KEYS))
    if folder == hostile.TMP.name:
        os.unlink(path)
    return [w for w in wrong if w]


def main():
    words, folder = sys.argv[1:], hostile.TMP.name
    if words[:1] == ["--keep"]:
        folder, words = "lies", [words[1], "1"]
        os.makedirs(folder, exist_ok=True)
    first, n = (int(words[0]) if words else 1), int(words[1]) if len(words) > 1 else len(tap.sample(range(FILES), 7))
    make_bases()
    hostile.BASE = BASES[0]
    for path in BASES:
        db = sqlite3.connect(path)
        for table in ("queue", "pin", "preempt") if path == BASES[0] else ("attached", "polled"):
            tap.check(f"{os.path.basename(path)} has rows of {table}", db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        db.close()
    if hostile.PROGRAM != hostile.CHECKED:
        print("# without sanitizers: build-asan/cutaway is not built")
    with concurrent.futures.ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        for seed, wrong in zip(range(first, first + n), pool.map(lambda s: try_seed(s, folder), range(first, first + n))):
            tap.check(f"the lies of seed {seed}", not wrong, "\n".join(wrong))
    return tap.finish()


if __name__ == "__main__":
    sys.exit(main())
