"""Measurements of one model on several ranks: equal hashes, bytes that travel, what waiting costs."""
import os
import re
import subprocess

import lab
from lab import Numbers, Range, batch, measure, report, run
from steps import DECODE

HASHES = "SELECT hash FROM token ORDER BY request, pos"
SENT = "SELECT sum(t.sent) FROM traffic t JOIN step s USING (step) WHERE s."


def sums(r, where):
    """Bytes that ranks sent a token, exchanges a step, and the share of rank 0's time in them."""
    steps = r.one(f"SELECT count(*) FROM step WHERE {where}")
    m = Numbers(ranks=r.one("SELECT count(*) FROM rank"))
    m.kb = r.one(SENT + where.replace(" AND ", " AND s.")) / r.one(f"SELECT sum(rows) FROM step WHERE {where}") / 1e3
    m.exchanges = r.one("SELECT avg(t.exchanges) FROM traffic t JOIN step s USING (step) WHERE t.rank = 0 AND s."
                        + where.replace(" AND ", " AND s."))
    m.share = r.one("SELECT sum(exchange_ns) * 1.0 / sum(exchange_ns + compute_ns) FROM traffic")
    m.step_ms = r.one(f"SELECT avg(ns) / 1e6 FROM step WHERE {where}") if steps else 0
    m.hashes = r.values(HASHES)
    m.weights = r.values("SELECT weight_bytes / 1e6 FROM rank ORDER BY rank")
    m.pages = r.values("SELECT page_bytes / 1e3 FROM rank ORDER BY rank")
    m.bubble = r.one("SELECT 1 - sum(compute_ns) * 1.0 / (count(DISTINCT rank) * (SELECT sum(kernel_ns) FROM step)) FROM traffic")
    return m


@measure("slower step_ms")
def tensor():
    """One rank of two threads, and two ranks of one; then what is sent in other forms, and over a slow link."""
    options, text = ("--raw", "--greedy", "--max-tokens", "48"), "The capital of France is"
    two = ("--threads", "1", "--tensor-parallel", "2")
    one, slower = run(*options, "--threads", "2", text=text), []
    for again in range(3):
        pair = [run(*options, *more, text=text, again=again).one(f"SELECT avg(ns) FROM step WHERE {DECODE}")
                for more in (two, ("--threads", "2"))]
        slower.append(pair[0] / pair[1])
    m = Numbers(q8=sums(run(*options, *two, text=text), DECODE), slower=Range(slower))
    m.f32 = sums(run(*options, *two, "--exchange", "f32", text=text), DECODE)
    m.f16 = sums(run(*options, *two, "--exchange", "f16", text=text), DECODE)
    m.three = sums(run(*options, "--threads", "1", "--tensor-parallel", "3", text=text), DECODE)
    m.linked = sums(run(*options, *two, "--link", "1gbit,50us", text=text), DECODE)
    m.equal = all(x.hashes == one.values(HASHES) for x in (m.q8, m.f32, m.three, m.linked))
    m.lossy = m.f16.hashes != one.values(HASHES)
    return m


@measure("linked real")
def networked():
    """Two ranks that are processes, between which is a network of 100 Mbit/s and 1 ms, and threads with --link. As root, with MPI."""
    lab.STACK[-1].add("tools/bench/real_link.py")
    told = subprocess.run([os.path.join(lab.ROOT, "tools/bench/real_link.py")], stdout=subprocess.PIPE, text=True, check=True).stdout
    ms = dict(re.findall(r"^(\S+) +([0-9.]+) ms a token", told, re.MULTILINE))
    return Numbers(linked=float(ms["--link"]), real=float(ms["real"]), same="the same bits" in told)


@measure("bubble")
def pipeline():
    """Two stages: one request, then eight at once in micro-batches, by the time that ranks compute of a step's kernels."""
    lines = [f"Write one sentence about the number {n}." for n in range(8)]
    options = ("--greedy", "--max-tokens", "24", "--threads", "1")
    single, many = (batch(lines[:n], *options, "--pipeline-parallel", "2") for n in (1, 8))
    whole = batch(lines, *options)
    m = Numbers(one=sums(single, DECODE), many=sums(many, DECODE))
    m.layers = single.values("SELECT layers FROM rank ORDER BY rank")
    m.equal = m.many.hashes == whole.values(HASHES)
    return m


@measure("apart together")
def handed():
    """The same load of chats and edits: prompts on a rank of their own, and in chunks of 128 beside the answers."""
    load = ("load", "--kind", "chat,edit", "--requests", "16", "--rate", "0.3", "--scale", "0.3", "--seed", "3")
    ways = {"apart": ("--threads", "1", "--prefill-ranks", "1"), "together": ("--threads", "2")}
    return Numbers(**{way: Numbers(**report(*load, *options)["runs"][0]) for way, options in ways.items()})


@measure("slower alone busiest")
def sequence():
    """A prompt of some 1,500 tokens on two ranks that share its rows, and on one with two threads or with one."""
    options, text = ("--raw", "--greedy", "--max-tokens", "4", "--prefill-chunk", "0", "--budget", "2048"), lab.text_of(1500)
    ratios, alone, where = [], [], "prefill_rows > 0"
    for again in range(3):
        ns = [run(*options, *more, text=text, again=again).one(f"SELECT sum(ns) FROM step WHERE {where}")
              for more in (("--threads", "1", "--sequence-parallel", "2"), ("--threads", "2"), ("--threads", "1"))]
        ratios.append(ns[0] / ns[1])
        alone.append(ns[0] / ns[2])
    r = run(*options, "--threads", "1", "--sequence-parallel", "2", text=text)
    m = Numbers(two=sums(r, where), slower=Range(ratios), alone=Range(alone))
    computed = r.values("SELECT sum(compute_ns) FROM traffic GROUP BY rank")
    m.busiest = max(computed) / sum(computed)
    m.equal = r.values(HASHES) == run(*options, "--threads", "2", text=text).values(HASHES)
    m.page_kb = r.one("SELECT page_bytes * 1.0 / page_size / 1e3 FROM memory")
    return m
