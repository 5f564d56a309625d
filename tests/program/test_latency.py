#!/usr/bin/env python3
"""Latencies by request: the columns of `finish`, the view `latency` and the definitions in docs/trace.md agree, with
drafts, preemption and many requests. Runs on a tiny random model. TAP; Python's standard library alone."""
import math
import os
import sqlite3
import subprocess
import sys
import tempfile

from tap import ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-latency-")
TINY = os.path.join(TMP.name, "tiny.gguf")


def record(name, *args):
    path = os.path.join(TMP.name, name + ".db")
    prompts = os.path.join(TMP.name, "prompts")
    with open(prompts, "w", encoding="ascii") as f:
        f.write("".join(f"one two one two {'one ' * (n % 5)}{n}\n" for n in range(12)))
    subprocess.run([os.path.join(ROOT, "cutaway"), "run", "--model", TINY, "--batch", prompts, "--record", path,
                    "--max-tokens", "24", *args], stdout=subprocess.DEVNULL, check=True,
                   env={**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name, "XDG_CACHE_HOME": TMP.name})
    return sqlite3.connect(path)


def nearest_rank(values, p):
    return sorted(values)[max(1, math.ceil(p / 100 * len(values))) - 1] if values else None


def same(a, b):
    return a is b is None or (a is not None and b is not None and abs(a - b) < 1e-6)


def compare(name, db):
    wrong, drafted = [], 0
    for request, arrived in db.execute("SELECT request, t_ns FROM request").fetchall():
        tokens = db.execute("SELECT step, ns, t_ns FROM token WHERE request = ? ORDER BY pos", (request,)).fetchall()
        gaps = [0 if b[0] == a[0] else b[1] for a, b in zip(tokens, tokens[1:])]
        drafted += sum(b[0] == a[0] for a, b in zip(tokens, tokens[1:]))
        finish = db.execute("SELECT queue_ns, first_token_ns, itl_p50_ns, itl_p99_ns, total_ns, generated FROM finish "
                            "WHERE request = ?", (request,)).fetchone()
        view = db.execute("SELECT queue_ms, ttft_ms, itl_p50_ms, itl_p99_ms, e2e_ms, tpot_ms, tokens FROM latency "
                          "WHERE request = ?", (request,)).fetchone()
        waited = db.execute("SELECT waited_ns FROM admit WHERE request = ? ORDER BY seq", (request,)).fetchone()[0]
        expected = (waited, finish[1], nearest_rank(gaps, 50), nearest_rank(gaps, 99), finish[4], len(tokens))
        if finish != expected:
            wrong.append((request, "finish", finish, expected))
        in_ms = [None if v is None else v / 1e6 for v in finish[:5]]
        tpot = (finish[4] - finish[1]) / 1e6 / (len(tokens) - 1) if len(tokens) > 1 else None
        if not all(same(a, b) for a, b in zip(view, [*in_ms, tpot, len(tokens)])):
            wrong.append((request, "view", view, in_ms, tpot))
        if not 0 <= finish[0] <= finish[1] <= finish[4] or abs(tokens[0][2] - arrived - finish[1]) > 50e6:
            wrong.append((request, "order", finish, arrived, tokens[0]))
    check(name, not wrong, wrong)
    return drafted


subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
compare("one after the other", record("plain", "--slots", "1"))
check("with drafts, some tokens came together", compare("with drafts", record("drafts", "--spec", "ngram:4")) > 0)
short = record("short", "--slots", "6", "--pages", "14", "--page-size", "16")
compare("with few pages", short)
check("some were preempted", short.execute("SELECT count(*) FROM preempt").fetchone()[0] > 0)
sys.exit(finish())
