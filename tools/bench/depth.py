#!/usr/bin/env python3
"""What a decoded token costs deep in a text: depth.py [--rounds N] [--threads N] [--depths N,…] [--with "OPTIONS"]… MODEL.gguf …

Of each model, plain and with options of `run` (--with "--cache-format kivi4"), in turns, answers of 33 tokens after 64, 1,024 and
8,192: the median of a step's kernels, and the bytes and operations that the engine counts for it, each also as a multiple of the first
line's. Times want a quiet machine; what is counted is the same in every run."""
import argparse
import os
import sqlite3
import statistics
import subprocess
import tempfile

from recorded import PROGRAM

ANSWER = 33
STEPS = "SELECT kernel_ns, bytes, ops FROM step WHERE decode_rows = 1 AND rows = 1"


def record(args, model, options, words, file):
    command = [PROGRAM, "run", "--model", model, "--raw", "--greedy", "--threads", str(args.threads), "--ctx", str(args.ctx), "--max-tokens",
               str(ANSWER), "--no-prefix-cache", "--attention-every", "0", "--record", file, *options.split()]
    subprocess.run(command, input=" the" * words, text=True, stdout=subprocess.DEVNULL, check=True)
    return sqlite3.connect(file)


def decoded(args, model, options, depth, folder):
    """ns of each step, bytes and operations of the last one. The text is as long as this vocabulary makes it of so many tokens."""
    with record(args, model, options, 64, os.path.join(folder, "short.db")) as db:
        (tokens,) = db.execute("SELECT n_prompt FROM request").fetchone()
    with record(args, model, options, round(depth * 64 / tokens), os.path.join(folder, "deep.db")) as db:
        rows = db.execute(STEPS).fetchall()
    return [row[0] for row in rows], rows[-1][1], rows[-1][2]


def once(args, model, options, depth):
    with tempfile.TemporaryDirectory() as folder:
        return decoded(args, model, options, depth, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--depths", default="64,1024,8192")
    parser.add_argument("--ctx", type=int, default=16384)
    parser.add_argument("--with", dest="options", action="append", default=[""])
    args = parser.parse_args()
    depths = [int(n) for n in args.depths.split(",")]
    runs = {(model, options, depth): [] for model in args.models for options in args.options for depth in depths}
    for _ in range(args.rounds):
        for key in runs:
            runs[key].append(once(args, *key))
    print(f"{'model or options':<28} {'deep':>6} {'ms':>8} {'low':>8} {'high':>8} {'x':>5} {'MB':>8} {'x':>6} {'Mop':>8} {'x':>6}")
    for (model, options, depth), each in runs.items():
        ms = sorted(ns / 1e6 for run in each for ns in run[0])
        first = runs[model, "", depths[0]]
        base = statistics.median(ns / 1e6 for run in first for ns in run[0]), first[0][1], first[0][2]
        mid, moved, ops = statistics.median(ms), each[0][1], each[0][2]
        print(f"{options or os.path.basename(model):<28} {depth:6,} {mid:8.3f} {ms[len(ms) // 10]:8.3f} {ms[-1 - len(ms) // 10]:8.3f} {mid / base[0]:5.2f}"
              f" {moved / 1e6:8.2f} {moved / base[1]:6.3f} {ops / 1e6:8.1f} {ops / base[2]:6.3f}")


if __name__ == "__main__":
    main()
