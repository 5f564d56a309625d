#!/usr/bin/env python3
"""Where a token's time goes, stage by stage, of a recording: microseconds a token, counted operations a byte, and what part of the roof
a stage reaches (Williams, Waterman and Patterson 2009): the longer of its bytes at the rate of plain reads and its operations at
that of 8-bit multiply-adds, both measured now by `cutaway bench`, or given. Steps of prompts stand beside those that decode.

    cutaway run --record s.db …; tools/bench/stages.py s.db [--reads GB/s --integers G/s] [--cutaway FILE]
"""
import argparse
import json
import sqlite3
import subprocess

from recorded import PROGRAM

PHASES = {"decode": "s.prefill_rows = 0", "prefill": "s.prefill_rows > 0"}
STAGES = """SELECT k.stage, sum(k.ns), sum(k.bytes), sum(k.ops) FROM kernel_stages k JOIN step s ON s.step = k.step
            WHERE {} GROUP BY k.stage ORDER BY min(k.seq)"""
EACH = "SELECT rows, ns, ns - kernel_ns FROM step s WHERE {}"
STEPS = "SELECT sum(CASE WHEN prefill_rows THEN prefill_rows ELSE tokens END), sum(ns), sum(kernel_ns) FROM step s WHERE {}"


def measured(program):
    run = subprocess.run([program, "bench", "--json", "--only", "read_gb_s"], stdout=subprocess.PIPE, check=True)
    figures = json.loads(run.stdout)
    return figures["read_gb_s"], figures["int_gmac_s"]


def show(db, phase, where, reads, integers):
    tokens, step_ns, kernel_ns = db.execute(STEPS.format(where)).fetchone()
    if not tokens:
        return
    stages = db.execute(STAGES.format(where)).fetchall()
    lines = stages + [("all stages", *(sum(s[i] for s in stages) for i in (1, 2, 3)))]
    print(f"{phase}, {tokens} tokens\n{'stage':<14} {'us a token':>10} {'share':>7} {'ops/byte':>9} {'of roof':>8}")
    for name, ns, moved, ops in lines:
        roof = max(moved / reads, ops / (2 * integers))  # ns; a multiply-add is two operations
        print(f"{name:<14} {ns / tokens / 1e3:10.1f} {ns / step_ns:7.1%} {ops / moved if moved else 0:9.2f}"
              f" {roof / ns if ns else 0:8.0%}")
    for name, ns in (("walk", kernel_ns - lines[-1][1]), ("plan, draw", step_ns - kernel_ns)):
        print(f"{name:<14} {ns / tokens / 1e3:10.1f} {ns / step_ns:7.1%}")
    steps = db.execute(EACH.format(where)).fetchall()
    most = max(rows for rows, _, _ in steps)
    each = [s for s in steps if s[0] == most]
    print(f"{len(each)} steps of {most} rows, us, tenths 1, 5 and 9: {tenths([s[1] for s in each])}; plan, draw {tenths([s[2] for s in each])}\n")


def tenths(ns):
    return " ".join(f"{sorted(ns)[len(ns) * t // 10] / 1e3:,.0f}" for t in (1, 5, 9))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recording")
    options.add_argument("--reads", type=float)
    options.add_argument("--integers", type=float)
    options.add_argument("--cutaway", default=PROGRAM)
    o = options.parse_args()
    reads, integers = (o.reads, o.integers) if o.reads and o.integers else measured(o.cutaway)
    print(f"plain reads {reads:.1f} GB/s, 8-bit multiply-adds {integers:.1f} G/s\n")
    db = sqlite3.connect(f"file:{o.recording}?mode=ro", uri=True)
    for phase, where in PHASES.items():
        show(db, phase, where, reads, integers)


if __name__ == "__main__":
    main()
