"""Measurements of what is near zero, and of what leaving it out costs and saves."""
import os

import lab
from lab import Numbers, Range, measure, run
from steps import DECODE, questions, stage

TOKENS = 96
THRESHOLDS = ("0.005", "0.01", "0.02", "0.05", "0.1")
COMMON = ("--greedy", "--max-tokens", str(TOKENS), "--attention-every", "1")


def means(r, what):
    """Mean over the layers and tokens of what the log says of near-zero values."""
    return r.one("SELECT avg(share) FROM near_zero_values WHERE what = ?", what)


@measure()
def zeros():
    """Values below shares of their row's largest: what attention gives, and the inner values of the feed-forwards."""
    r = run(*COMMON, text=lab.prompts()[0][1])
    m = Numbers(output=[means(r, f"output_{k}") for k in (1, 2, 3, 4)], inner=[means(r, f"inner_{k}") for k in (1, 2, 3, 4)])
    m.overlap, m.kept = means(r, "overlap"), means(r, "kept")
    m.chance = r.one("SELECT avg(share / (2 - share)) FROM near_zero_values WHERE what = 'kept'")
    m.layers = r.values("SELECT avg(share) FROM near_zero_values WHERE what = 'inner_2' GROUP BY layer")
    m.weights = r.one("SELECT avg(share) FROM near_zero")
    return m


@measure()
def zeros_together(n):
    """What n requests of one step keep together."""
    r = lab.batch(questions(n), "--slots", str(n), "--greedy", "--max-tokens", "32", "--attention-every", "1", "--skip-below", "0.05")
    whole = r.rows("SELECT rows, avg(share) FROM near_zero_values WHERE what = 'together' GROUP BY rows ORDER BY rows DESC")[0]
    alone = r.one("SELECT avg(share) FROM near_zero_values WHERE what = 'kept' AND rows = ?", whole[0])
    return Numbers(rows=whole[0], any=whole[1], one=alone)


@measure()
def price(*options):
    """Divergence and perplexities of a text under lossy settings, beside the exact twin."""
    s = lab.report("score", os.path.join(lab.ROOT, "tests/data/score.txt"), "--twin", "on", *options)
    return Numbers(kl=s["mean_kl"], lossy=s["perplexity"], exact=s["exact_perplexity"])


@measure("ms down_ms")
def skipping(threshold):
    """The last product of the feed-forwards in decode steps."""
    r = run(*COMMON[:-1], "16", "--skip-below", threshold, text=lab.prompts()[0][1])
    steps = r.one(f"SELECT count(*) FROM step WHERE {DECODE}")
    m = Numbers(threshold=threshold, down_mb=stage(r, "down", "bytes") / steps / 1e6)
    m.down_ms = stage(r, "down", "ns") / steps / 1e6
    m.ms = Range([ns / 1e6 for ns in r.values(f"SELECT kernel_ns FROM step WHERE {DECODE}")])
    return m


@measure("even all_columns_ms rows_ms")
def skips():
    """Bytes, time and price by threshold; from which share of bytes on reading by columns takes as long as reading by rows."""
    m = Numbers(rows=skipping("0"), at=[skipping(t) for t in THRESHOLDS], all=skipping("1e-7"))
    m.kl = [price("--skip-below", t).kl for t in THRESHOLDS]
    m.rows_ms, m.all_columns_ms = m.rows.down_ms, m.all.down_ms
    m.least_mb = min(one.down_mb for one in m.at)
    faster = [one for one in m.at if one.down_ms < m.rows_ms]
    m.even = faster[0].down_mb / m.rows.down_mb if faster else 0
    m.faster = bool(faster)
    m.table = "; ".join(f"below {one.threshold}: {one.down_mb:.1f} MB, {one.down_ms:.2f} ms, KL {kl:.3f}"
                        for one, kl in zip(m.at, m.kl))
    return m
