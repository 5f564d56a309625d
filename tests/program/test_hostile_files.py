#!/usr/bin/env python3
"""Hostile recordings through every verb that reads one. Each file is a good recording that was changed to hurt; every
verb must answer with what is right in it or with a clear error, within its time and memory, without a report of a
sanitizer, and without sending a terminal what the file has in it. TAP; Python's standard library alone.

    tests/program/test_hostile_files.py [NAME …]        only the files whose name contains one of the words; without any a sample
    tests/program/test_hostile_files.py --keep FOLDER   leaves the files there
"""
import concurrent.futures
import fcntl
import os
import pty
import random
import re
import select
import sqlite3
import struct
import subprocess
import sys
import tempfile
import termios
import time

from tap import sample

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHECKED = os.path.join(ROOT, "build-asan", "cutaway")
PROGRAM = CHECKED if os.path.exists(CHECKED) else os.path.join(ROOT, "cutaway")
SECONDS, MEMORY_MB = 150, 2048  # for one command, on a busy machine and with the sanitizers' shadow
BIG = 2**63 - 1
TMP = tempfile.TemporaryDirectory(prefix="cutaway-hostile-")
BASE, TINY = os.path.join(TMP.name, "base.db"), os.path.join(TMP.name, "tiny.gguf")
ESCAPES = "\x1b[31m\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\u0007\r\nrm -rf"

HOSTILE = []


def hostile(make):
    HOSTILE.append((make.__name__.replace("_", " "), make))
    return make


def loose(db, table):
    """The same table without types, so that anything can stand in it."""
    columns = [f'"{row[1]}"' for row in db.execute(f"PRAGMA table_info({table})")]
    names = ", ".join(columns)
    db.execute(f"ALTER TABLE {table} RENAME TO strict_{table}")
    db.execute(f"CREATE TABLE {table}(seq INTEGER PRIMARY KEY, {', '.join(columns[1:])})")
    db.execute(f"INSERT INTO {table} SELECT {names} FROM strict_{table}")
    db.execute(f"DROP TABLE strict_{table}")


def set_all(db, table, **values):
    """Every row gets these values."""
    db.execute(f"UPDATE {table} SET " + ", ".join(f'"{name}" = ?' for name in values), list(values.values()))


def integers(db, table):
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")
            if row[2] == "INTEGER" and row[1] not in ("seq", "t_ns", "request")]


def add(db, table, **values):
    """A row behind all others."""
    seq = 1 + max(db.execute(f"SELECT coalesce(max(seq), 0) FROM {name}").fetchone()[0] for name in
                  ("token", "step", "request", "rewind", "fork", "finish", "batch", "page", "cancel", "setting"))
    values = {"seq": seq, "t_ns": seq * 1000, **values}
    db.execute(f"INSERT INTO {table}({', '.join(values)}) VALUES({', '.join('?' * len(values))})",
               list(values.values()))
    return seq


def add_requests(db, n, kind=1, **more):
    """n copies of the first request, numbered from 2, each with a token and an end."""
    values = dict(zip([row[1] for row in db.execute("PRAGMA table_info(request)")],
                      db.execute("SELECT * FROM request ORDER BY seq LIMIT 1").fetchone()))
    for i in range(2, 2 + n):
        del_seq = {k: v for k, v in values.items() if k not in ("seq", "t_ns")}
        add(db, "request", **{**del_seq, "request": i, "kind": kind, **more})
        add(db, "token", step=420, request=i, pos=100, id=5, p=0.5, source=0, is_end=0)
        add(db, "finish", request=i, step=420, reason=0, generated=1)


def schema(db, sql, name):
    """Writes into the schema what no statement would."""
    db.execute("PRAGMA writable_schema = ON")
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (sql, name))


# --- values ---

@hostile
def text_where_numbers_belong(db):
    loose(db, "token")
    set_all(db, "token", id="one", pos="two", hash="three")


@hostile
def blobs_where_numbers_belong(db):
    loose(db, "step")
    set_all(db, "step", step=b"\xff" * 8, ns=b"", rows=b"x")


@hostile
def numbers_where_blobs_belong(db):
    for table, column in (("request", "prompt"), ("token", "candidates"), ("time", "stages"), ("attention", "share")):
        loose(db, table)
        set_all(db, table, **{column: 7})


@hostile
def negative_counts(db):
    for table in ("step", "batch", "request", "finish", "page", "admit", "lookup", "token"):
        for column in integers(db, table):
            db.execute(f'UPDATE "{table}" SET "{column}" = -5 WHERE seq % 3 = 0')


@hostile
def the_smallest_numbers(db):
    for table in ("step", "batch", "request", "finish", "page", "admit", "lookup", "token", "draft"):
        for column in integers(db, table):
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE seq % 2', (-BIG,))


@hostile
def the_largest_numbers(db):
    for table in ("step", "batch", "request", "finish", "page", "admit", "lookup", "token", "draft"):
        for column in integers(db, table):
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE seq % 2', (BIG,))


@hostile
def numbers_just_above_32_bits(db):
    for table in ("step", "batch", "request", "page", "token"):
        for column in integers(db, table):
            db.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE seq % 5 = 0', (2**32 + 1,))


@hostile
def steps_of_no_time_and_no_end(db):
    set_all(db, "step", ns=BIG, kernel_ns=BIG, bytes=BIG, ops=BIG)
    set_all(db, "finish", first_token_ns=-BIG, total_ns=BIG)


@hostile
def steps_of_billions_of_rows(db):
    set_all(db, "batch", rows=2**24, pos=2**24)
    db.execute("DELETE FROM step WHERE seq % 400")


@hostile
def codes_of_no_list(db):
    set_all(db, "request", kind=99)
    set_all(db, "token", source=99)
    set_all(db, "page", action=99)
    set_all(db, "batch", work=-1)
    set_all(db, "finish", reason=1000000)
    set_all(db, "lookup", reason=-7)


@hostile
def infinities(db):
    set_all(db, "token", p=float("inf"), p_draw=float("-inf"), entropy=1e308)
    set_all(db, "request", temperature=float("inf"), top_p=float("-inf"))
    set_all(db, "attention", threshold=float("inf"))
    set_all(db, "session", read_bandwidth=float("inf"))


@hostile
def floats_that_are_no_numbers(db):
    nan = struct.pack("<I", 0xffffffff)
    set_all(db, "token", candidates=nan * 40, stages=nan * 15, p=None, entropy=None)


@hostile
def blobs_of_wrong_length(db):
    set_all(db, "token", candidates=b"\1" * 7, stages=b"\2" * 61)
    set_all(db, "time", stages=b"\3" * 33)
    set_all(db, "attention", share=b"\4" * 17, near_zero=b"\5")
    set_all(db, "request", prompt=b"\6" * 5)


@hostile
def blobs_of_nothing(db):
    set_all(db, "token", candidates=b"", stages=b"")
    set_all(db, "time", stages=b"")
    set_all(db, "attention", share=b"", near_zero=b"")
    set_all(db, "request", prompt=b"")


@hostile
def blobs_of_megabytes(db):
    large = random.Random(1).randbytes(3 << 20)
    db.execute("UPDATE token SET candidates = ? WHERE seq = (SELECT max(seq) FROM token)", (large,))
    db.execute("UPDATE time SET stages = ? WHERE seq = (SELECT max(seq) FROM time)", (large,))
    db.execute("UPDATE request SET prompt = ?", (large,))


@hostile
def attention_of_wrong_pages(db):
    for i, pages in enumerate((-1, 0, 2**31, BIG, 3)):
        db.execute("UPDATE attention SET pages = ? WHERE seq % 5 = ?", (pages, i))


# --- texts ---

@hostile
def terminal_escapes_in_texts(db):
    set_all(db, "vocab", bytes=ESCAPES.encode())
    set_all(db, "request", text=ESCAPES, stop=ESCAPES, spec=ESCAPES)
    set_all(db, "finish", why=ESCAPES)
    set_all(db, "session", version=ESCAPES, build=ESCAPES, model_name=ESCAPES, model_path=ESCAPES, backend=ESCAPES)
    db.execute("UPDATE setting SET value = ? WHERE seq % 2", (ESCAPES,))
    db.execute("UPDATE setting SET name = ? WHERE seq % 7 = 0", (ESCAPES,))
    set_all(db, "draft", drafter=ESCAPES)


@hostile
def texts_that_are_no_UTF_8(db):
    broken = b"\xff\xfe\xc0\x80\xed\xa0\x80\xf4\x90\x80\x80\xe2\x82"
    set_all(db, "vocab", bytes=broken)
    for table, column in (("request", "text"), ("request", "stop"), ("finish", "why"), ("session", "model_name"),
                          ("setting", "value")):
        db.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT)", (broken,))


@hostile
def texts_of_a_megabyte(db):
    set_all(db, "request", text="x" * 1000000, stop="\n" * 1000000)
    set_all(db, "finish", why="\u0301" * 300000)
    db.execute("UPDATE setting SET name = ?, value = ? WHERE seq % 2", ("n" * 10000, "v" * 10000))


@hostile
def a_quarter_of_a_million_words(db):
    db.execute("DELETE FROM vocab")
    db.execute("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)"
               " INSERT INTO vocab SELECT 10000000 + i, 1, i % 120000, CAST(i AS BLOB), i % 2 FROM n")


# --- order ---

@hostile
def sequence_numbers_at_both_ends(db):
    db.execute("INSERT INTO cancel VALUES(?, 0, 1), (?, 0, 1), (0, 0, 1)", (BIG - 1, -BIG))
    db.execute("UPDATE step SET seq = ? WHERE step = 400", (BIG - 2,))


@hostile
def times_that_run_backwards(db):
    for table in ("step", "token", "request", "finish", "page"):
        db.execute(f"UPDATE {table} SET t_ns = CASE seq % 3 WHEN 0 THEN -? WHEN 1 THEN ? ELSE 0 END", (BIG, BIG))


@hostile
def steps_that_run_backwards(db):
    db.execute("UPDATE step SET step = 1000 - step")


@hostile
def steps_that_are_all_one(db):
    for table in ("step", "token", "batch", "time"):
        set_all(db, table, step=1)


@hostile
def steps_a_billion_apart(db):
    db.execute("UPDATE step SET step = step * 1000000007")
    db.execute("UPDATE token SET step = step * 1000000007")
    set_all(db, "closed", steps=BIG)


@hostile
def an_end_before_the_beginning(db):
    db.execute("UPDATE finish SET seq = 1 - seq")
    db.execute("UPDATE request SET seq = (SELECT max(seq) + 5 FROM step)")


# --- requests ---

@hostile
def requests_of_absurd_numbers(db):
    add_requests(db, 3)
    db.execute("UPDATE request SET request = CASE request WHEN 2 THEN ? WHEN 3 THEN -1 ELSE 0 END WHERE request > 1",
               (BIG,))


@hostile
def rewinds_to_nowhere(db):
    for kept, had in ((-1, 10), (BIG, BIG), (BIG, 0), (5, -BIG), (400, 100), (0, 0)):
        add(db, "rewind", request=1, kept=kept, had=had)
    add(db, "rewind", request=777, kept=1, had=2)
    db.execute("UPDATE finish SET seq = seq + 1000")


@hostile
def two_thousand_rewinds_to_itself(db):
    db.execute("DELETE FROM finish")
    for i in range(2000):
        add(db, "rewind", request=1, kept=100 + i % 300, had=430)
        add(db, "token", step=420, request=1, pos=100 + i % 300, id=i % 50, p=0.5, source=0, is_end=0)


@hostile
def a_fork_of_itself(db):
    add_requests(db, 2, parent=2)
    add(db, "fork", request=2, parent=2, pos=40)
    add(db, "fork", request=1, parent=1, pos=0)


@hostile
def forks_in_a_ring(db):
    add_requests(db, 3)
    for request, parent in ((2, 3), (3, 4), (4, 2)):
        add(db, "fork", request=request, parent=parent, pos=50, forced=1)
        db.execute("UPDATE request SET parent = ? WHERE request = ?", (parent, request))


@hostile
def forks_of_nobody(db):
    add_requests(db, 3, parent=999)
    for parent, pos in ((999, 5), (1, BIG), (1, -BIG), (-1, 0)):
        add(db, "fork", request=2, parent=parent, pos=pos, forced=BIG)


@hostile
def forks_three_thousand_deep(db):
    add_requests(db, 3000)
    db.execute("UPDATE request SET parent = request - 1 WHERE request > 1")
    seq = add(db, "cancel", request=1)
    db.execute("INSERT INTO fork(seq, t_ns, request, parent, pos) SELECT ? + request, 1, request, request - 1, 50"
               " FROM request WHERE request > 1", (seq,))


@hostile
def a_session_of_absurd_sizes(db):
    for column in integers(db, "session"):
        db.execute(f'UPDATE session SET "{column}" = ?', (BIG,))


@hostile
def a_session_of_no_size(db):
    for column in integers(db, "session"):
        db.execute(f'UPDATE session SET "{column}" = 0')


@hostile
def no_session_at_all(db):
    for table in ("session", "setting", "vocab"):
        db.execute(f"DELETE FROM {table}")


@hostile
def settings_that_no_engine_takes(db):
    for name, value in (("pages", "262144"), ("pages", "-1"), ("pages", "99999999999999999999"), ("page-size", "0"),
                        ("page-size", "131072"), ("slots", "1000000000"), ("budget", "-5"), ("evict", "\x1b[0m"),
                        ("prefill-chunk", "1e9"), ("spec", "ngram:1000000"), ("cache", "maybe")):
        add(db, "setting", name=name, value=value)


@hostile
def pages_out_of_range(db):
    db.execute("UPDATE page SET page = CASE seq % 4 WHEN 0 THEN -1 WHEN 1 THEN ? ELSE page END, block = ?, refs = -9",
               (BIG, 2**31 - 1))


@hostile
def prompts_of_tokens_beyond_the_vocabulary(db):
    set_all(db, "request", prompt=b"\xff" * 400, n_prompt=100)
    set_all(db, "token", id=2**31 - 1)


# --- keyframes ---

@hostile
def keyframes_of_noise(db):
    noise = random.Random(2)
    for seq, in db.execute("SELECT seq FROM keyframe").fetchall():
        db.execute("UPDATE keyframe SET state = ?, tokens = ? WHERE seq = ?",
                   (noise.randbytes(400), noise.randbytes(900), seq))


@hostile
def keyframes_cut_short(db):
    db.execute("UPDATE keyframe SET state = substr(state, 1, length(state) / 2),"
               " tokens = substr(tokens, 1, length(tokens) - 3)")


@hostile
def keyframes_of_other_steps(db):
    db.execute("UPDATE keyframe SET state = (SELECT state FROM keyframe ORDER BY seq LIMIT 1),"
               " tokens = (SELECT tokens FROM keyframe ORDER BY seq DESC LIMIT 1)")


@hostile
def keyframes_that_lie_a_little(db):
    liar = random.Random(3)
    for seq, state, tokens in db.execute("SELECT seq, state, tokens FROM keyframe").fetchall():
        state, tokens = bytearray(state), bytearray(tokens)
        for i in range(4):
            state[liar.randrange(12, len(state))] ^= 1 << liar.randrange(7)
            tokens[liar.randrange(len(tokens))] ^= 1 << liar.randrange(7)
        db.execute("UPDATE keyframe SET state = ?, tokens = ? WHERE seq = ?", (bytes(state), bytes(tokens), seq))


@hostile
def keyframes_that_claim_billions(db):
    for i, (seq, state) in enumerate(db.execute("SELECT seq, state FROM keyframe").fetchall()):
        claims = bytes(state)[:4 + 7 * i] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 60
        db.execute("UPDATE keyframe SET state = ?, tokens = ? WHERE seq = ?",
                   (claims, b"\x02" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 60, seq))


@hostile
def no_keyframes_and_the_largest_numbers(db):
    db.execute("DROP TABLE keyframe")
    the_largest_numbers(db)
    db.execute("UPDATE step SET step = (SELECT count(*) FROM step AS s WHERE s.seq <= step.seq)")


@hostile
def keyframes_behind_no_step(db):
    db.execute("UPDATE keyframe SET seq = seq + 1, step = step * -3, turns = ?, rejected = -?", (BIG, BIG))


# --- the schema ---

@hostile
def a_table_missing(db):
    db.execute("DROP TABLE token")


@hostile
def columns_of_somebody_else(db):
    for i in range(100):
        db.execute(f"ALTER TABLE step ADD COLUMN other_{i} TEXT DEFAULT 'x'")


@hostile
def two_thousand_columns(db):
    db.execute("DROP TABLE cancel")
    db.execute("CREATE TABLE cancel(seq INTEGER PRIMARY KEY, " + ", ".join(f"c{i}" for i in range(1990)) + ")")


@hostile
def a_view_of_a_hundred_thousand_columns(db):
    schema(db, "CREATE VIEW answers AS SELECT " + ", ".join(f"{i} AS c{i}" for i in range(100000)), "answers")


@hostile
def a_view_nested_ten_thousand_deep(db):
    schema(db, "CREATE VIEW answers AS SELECT " + "(SELECT " * 10000 + "1" + ")" * 10000, "answers")


@hostile
def a_view_in_place_of_a_table(db):
    db.execute("DROP TABLE token")
    db.execute("CREATE VIEW token AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
               " SELECT i AS seq, i AS t_ns, i AS step, 1 AS request, i AS pos, 5 AS id, 1.0 AS p, 1.0 AS p_draw,"
               " 1.0 AS entropy, 1 AS hash, 0 AS source, 1 AS survivors, NULL AS candidates, NULL AS stages,"
               " 0 AS is_end FROM n")


@hostile
def a_view_in_place_of_the_keyframes(db):
    db.execute("DROP TABLE keyframe")
    db.execute("CREATE VIEW keyframe AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
               " SELECT i AS seq, i AS step, 0 AS turns, 0 AS rejected, 0 AS evicted, x'' AS tokens, x'' AS state FROM n")


@hostile
def triggers_on_every_table(db):
    for table in ("token", "step", "request", "keyframe"):
        db.execute(f"CREATE TRIGGER t_{table} BEFORE INSERT ON {table} BEGIN DELETE FROM {table}; END")


@hostile
def views_that_stand_on_each_other(db):
    schema(db, "CREATE VIEW answers AS SELECT * FROM tokens, requests", "answers")
    schema(db, "CREATE VIEW tokens AS SELECT * FROM answers, tokens", "tokens")
    schema(db, "CREATE VIEW requests AS SELECT * FROM answers", "requests")


@hostile
def a_table_that_computes(db):
    db.execute("DROP TABLE cancel")
    db.execute("CREATE TABLE cancel(seq INTEGER PRIMARY KEY, t_ns, request AS (hex(zeroblob(100000000))) VIRTUAL)")
    db.execute("INSERT INTO cancel(seq, t_ns) VALUES(3000000, 1)")


@hostile
def a_schema_that_is_no_SQL(db):
    schema(db, "CREATE TABLE " + ESCAPES + "((((", "cancel")


@hostile
def a_page_that_is_its_own_child(db):
    db.commit()
    page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'token'").fetchone()[0]
    size = db.execute("PRAGMA page_size").fetchone()[0]
    path = db.execute("PRAGMA database_list").fetchone()[2]
    db.close()
    with open(path, "r+b") as f:
        f.seek((page - 1) * size + 8)
        f.write(struct.pack(">I", page))


# --- the program ---

def make_base():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "1024", TINY], check=True)
    for seed in range(20):
        if os.path.exists(BASE):
            os.unlink(BASE)
        subprocess.run([os.path.join(ROOT, "cutaway"), "run", "--model", TINY, "--raw", "--temp", "2.5", "--top-p", "1",
                        "--seed", str(seed), "--max-tokens", "420", "--spec", "ngram:3", "--record", BASE,
                        "the cat and the dog and the cat"], check=True, capture_output=True)
        db = sqlite3.connect(BASE)
        n = db.execute("SELECT count(*) FROM keyframe").fetchone()[0]
        db.close()
        if n >= 3:
            return
    raise SystemExit("no answer was long enough for keyframes")


def make_file(name, make, folder):
    path = os.path.join(folder, name.replace(" ", "-") + ".db")
    with open(BASE, "rb") as f, open(path, "wb") as g:
        g.write(f.read())
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA legacy_alter_table = ON")
        db.execute("BEGIN")
        make(db)
        if db.in_transaction:
            db.execute("COMMIT")
    except sqlite3.ProgrammingError:
        pass  # it closed the file itself
    db.close()
    return path


def environment(log):
    options = (f"log_path={log}:detect_leaks=1:hard_rss_limit_mb={MEMORY_MB}:allocator_may_return_null=1:"
               "max_allocation_size_mb=1024")
    return {**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name, "XDG_STATE_HOME": TMP.name,
            "XDG_CACHE_HOME": TMP.name, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "ASAN_OPTIONS": options,
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={log}"}


def commands(path):
    """(what, arguments, whether its output may have any bytes)."""
    yield "verify", ["verify", "--model", TINY, path], False
    yield "diff", ["diff", BASE, path], False
    yield "diff, turned round", ["diff", path, BASE], False
    yield "compare", ["compare", BASE, path], False
    yield "compare, turned round", ["compare", path, BASE], False
    yield "compare with itself", ["compare", "--json", path], False
    for what in ("miss", "evict", "preempt", "wait", "reject", "token", "slow"):
        yield "why " + what, ["why", what, "--file", path], False
    yield "whatif", ["whatif", "--model", TINY, "--pages", "40", "--page-size", "32", path], False
    yield "simulate", ["simulate", "--fit", path, "--requests", "20"], False
    yield "formulas", ["formulas", path], False
    for form in ("perfetto", "jsonl", "html", "asciicast", "svg"):
        yield "export " + form, ["export", "--to", form, path], False
    yield "export csv", ["export", "--to", "csv", "--table", "token", path], True
    if "megabytes" in path:  # the views take such blobs apart
        for view in ("prompt_tokens", "candidates", "stage_times"):
            yield f"export {view}", ["export", "--to", "csv", "--table", view, path], True


def end_of(process, log):
    """What is wrong with how it ended; '' if nothing."""
    for name in os.listdir(TMP.name):
        if name.startswith(os.path.basename(log)):
            with open(os.path.join(TMP.name, name), errors="replace") as f:
                return "a sanitizer reports:\n" + f.read()[:3000]
    if process.returncode < 0 or process.returncode > 125:
        return f"it ended with {process.returncode}"
    return ""


def try_command(path, n, what, args, any_bytes):
    """What is wrong; '' if nothing."""
    log = os.path.join(TMP.name, f"log-{os.path.basename(path)}-{n}")
    with subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=environment(log)) as process:
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return f"{what}: still running after {SECONDS} s"
    wrong = end_of(process, log)
    if not wrong and b"runtime error:" in err:
        wrong = "a sanitizer reports: " + err[:1000].decode("utf-8", "replace")
    if not wrong and re.search(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]", err):
        wrong = f"control characters in an error: {err[:300]!r}"
    if not wrong and not any_bytes and re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", out):
        at = re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", out).start()
        wrong = f"control characters in the output: {out[max(0, at - 60):at + 60]!r}"
    if not wrong and process.returncode and not out and not err.startswith(b"cutaway: ") and what[:4] != "diff":
        wrong = f"status {process.returncode} without a word: {err[:200]!r}"
    return f"{what}: {wrong}" if wrong else ""


# Everywhere, both ways, by marks, through the views, explained, searched, a branch, a token in depth, and out.
KEYS = [b"\x1b[F", b"\x1b[D", b"\x1b[D", b"\x1b[H", b"\x1b[C", b"n", b"n", b"p", b"\x1b[6~", b"\x1b[6~", b"\x1b[5~", b" ",
        b" ", b"1", b"5", b"9", b"\x1bOP", b"\x1b", b"/tree\r", b"\x1b", b"/why token\r", b"\x1b", b"/find entropy > 1\r",
        b"\x1b", b"\x1b[F", b"q"]


def try_screen(path, n, args, keys):
    log = os.path.join(TMP.name, f"log-{os.path.basename(path)}-screen{n}")
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen([PROGRAM, "replay", *args, path], stdin=slave, stdout=slave, stderr=slave,
                               env=environment(log))
    os.close(slave)
    out, keys, end, quiet = b"", list(keys), time.monotonic() + SECONDS, 0
    while process.poll() is None and time.monotonic() < end:
        if select.select([master], [], [], 0.02)[0]:
            try:
                out += os.read(master, 65536)
            except OSError:
                break
            quiet = 0
            continue
        quiet += 1
        if keys:
            os.write(master, keys.pop(0))
        elif quiet > 30:
            os.write(master, b"q\x03\x03")
            quiet = 0
    try:
        process.wait(max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"replay: still running after {SECONDS} s"
    finally:
        os.close(master)
    wrong = end_of(process, log)
    if not wrong and b"runtime error:" in out:
        wrong = "a sanitizer reports: " + out[out.index(b"runtime error:") - 100:][:600].decode("utf-8", "replace")
    # A title, or a screen that is cleared, can come from the file alone: our own screens do neither so.
    if not wrong and (b"owned" in out and b"\x1b]0;owned" in out):
        wrong = "the file's escape sequences reached the terminal"
    return f"replay {' '.join(args)}: {wrong}" if wrong else ""


def try_file(name, make, folder):
    path = make_file(name, make, folder)
    wrong = [try_command(path, n, *command) for n, command in enumerate(commands(path))]
    wrong += [try_screen(path, 0, [], KEYS), try_screen(path, 1, ["--follow"], KEYS[:2] + KEYS[-2:])]
    if folder == TMP.name:
        os.unlink(path)
    return [w for w in wrong if w]


def main():
    words, folder = sys.argv[1:], TMP.name
    if words[:1] == ["--keep"]:
        folder = words[1]
        words = words[2:]
        os.makedirs(folder, exist_ok=True)
    chosen = [(name, make) for name, make in HOSTILE if any(word in name for word in words)] if words else sample(HOSTILE, 14)
    make_base()
    if PROGRAM != CHECKED:
        print("# without sanitizers: build-asan/cutaway is not built")
    good = try_file("a good recording", lambda db: None, folder)
    for seed in range(1, 9):  # one of them ends at once: an answer without text
        good += filter(None, [try_command(BASE, f"run{seed}", "run", ["run", "--model", TINY, "--no-record", "--raw", "--temp", "100",
                                          "--top-p", "1", "--seed", str(seed), "--max-tokens", "1", "hi"], True)])
    print(f"{'not ok' if good else 'ok'} 1 - a good recording, and answers of a token")
    failed = len(good) > 0
    print("".join("# " + line + "\n" for w in good for line in w.splitlines()), end="")
    with concurrent.futures.ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        results = pool.map(lambda item: try_file(*item, folder), chosen)
        for n, ((name, _), wrong) in enumerate(zip(chosen, results), 2):
            print(f"{'not ok' if wrong else 'ok'} {n} - {name}", flush=True)
            for line in (line for w in wrong for line in w.splitlines()):
                print("# " + line)
            failed |= bool(wrong)
    print(f"1..{len(chosen) + 1}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
