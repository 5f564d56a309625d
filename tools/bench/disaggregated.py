#!/usr/bin/env python3
"""Prompts on a rank of their own against chunked prefill, the same load by turns, and what
`cutaway simulate` says of both.

    tools/bench/disaggregated.py [--cutaway ./cutaway] [--rounds 3] [--rate 1] [--scale 0.3]
                                 [--requests 24] [--seed 3]

Apart: one thread answers and one prefill rank of one thread computes prompts. Together: two threads
that do both, with chunks of 128 and of 32. Medians of the rounds, and of the errors of the simulation of
each round's requests, whose prices are fitted to a recording of other requests in the same arrangement."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

FIGURES = ["TTFT p50", "TTFT p90", "ITL p50", "ITL p99", "tokens a second"]
WAYS = {
    "apart, 1 + 1 threads": ["--threads", "1", "--prefill-ranks", "1"],
    "together, 2 threads, chunks of 128": ["--threads", "2"],
    "together, 2 threads, chunks of 32": ["--threads", "2", "--prefill-chunk", "32"],
}


def load_of(args, seed):
    return ["--kind", "chat,edit", "--requests", str(args.requests), "--rate", str(args.rate),
            "--scale", str(args.scale), "--seed", str(seed)]


def told(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)


def record(args, options, seed, path):
    told([args.cutaway, "load", *load_of(args, seed), *options, "--record", path, "--json"])
    return path


def one(args, options, nth, folder):
    """Of one round: {figure: (measured, simulated)}. The link is the memory that both threads share."""
    truth = record(args, options, args.seed, os.path.join(folder, f"truth-{nth}.db"))
    prices = record(args, options, args.seed + 100, os.path.join(folder, f"prices-{nth}.db"))
    rows = told([args.cutaway, "simulate", "--against", truth, "--fit", prices, "--bandwidth", "10", "--json"])
    return {r["figure"]: (r["measured"], r["simulated"]) for r in rows if r["figure"] in FIGURES}


def cell(figure, found):
    unit = "" if figure.startswith("tokens") else " ms"
    return f"{statistics.median(m for m, _ in found):.3g}{unit}, {100 * statistics.median(s / m - 1 for m, s in found):+.0f} %"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cutaway", default="./cutaway")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rate", type=float, default=1)
    p.add_argument("--scale", type=float, default=0.3)
    p.add_argument("--requests", type=int, default=24)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for nth in range(args.rounds):
            for way, options in WAYS.items():
                found[way].append(one(args, options, f"{len(way)}-{nth}", folder))
                print(way, found[way][-1], file=sys.stderr)
    print("| measured, and the simulation's error | " + " | ".join(FIGURES) + " |")
    print("| --- " * (len(FIGURES) + 1) + "|")
    for way, rounds in found.items():
        print(f"| {way} | " + " | ".join(cell(f, [r[f] for r in rounds]) for f in FIGURES) + " |")


if __name__ == "__main__":
    main()
