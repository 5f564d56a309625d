#!/usr/bin/env python3
"""Prompts on a rank of their own against chunked prefill, the same load by turns, and what
`cutaway simulate` says of both.

    tools/bench/disaggregated.py [--cutaway ./cutaway] [--rounds 3] [--rate 0.25] [--scale 0.3]
                                 [--requests 24] [--seed 3]

Apart: one thread answers and one prefill rank of one thread computes prompts. Together: two threads
that do both, with chunks of 128 and of 32. Medians of the rounds. Prices of the simulation are fitted
to recordings of other requests: together with two threads; apart with one thread, while a second
engine of one thread runs beside it, as the prefill rank does."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

FIGURES = ["ttft_p50_s", "ttft_p90_s", "itl_p50_s", "itl_p99_s", "itl_max_s", "tokens_s"]
WAYS = {
    "apart, 1 + 1 threads": ["--threads", "1", "--prefill-ranks", "1"],
    "together, 2 threads, chunks of 128": ["--threads", "2"],
    "together, 2 threads, chunks of 32": ["--threads", "2", "--prefill-chunk", "32"],
}
APART = ["--prefill-replicas", "1", "--decode-replicas", "1", "--bandwidth", "1", "--budget", "128", "--prefill-least", "64"]
SIMULATED = {
    "apart, 1 + 1 threads": ("one", APART),
    "together, 2 threads, chunks of 128": ("two", []),
    "together, 2 threads, chunks of 32": ("two", ["--prefill-chunk", "32"]),
}


def load_of(args, seed):
    return ["--kind", "chat,edit", "--requests", str(args.requests), "--rate", str(args.rate),
            "--scale", str(args.scale), "--seed", str(seed)]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return json.loads(done.stdout)["runs"][0]


def record(args, folder):
    """Recordings to take prices from, of another seed."""
    start = [args.cutaway, "load", *load_of(args, args.seed + 100), "--json"]
    beside = [args.cutaway, "load", *load_of(args, args.seed + 200), "--json", "--threads", "1"]
    with subprocess.Popen(beside, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as other:
        run([*start, "--threads", "1", "--record", os.path.join(folder, "one.db")])
        other.terminate()
    run([*start, "--threads", "2", "--record", os.path.join(folder, "two.db")])


def simulate(args, folder, way):
    prices, options = SIMULATED[way]
    return run([args.cutaway, "simulate", "--fit", os.path.join(folder, prices + ".db"),
                *load_of(args, args.seed), *options, "--json"])


def row(name, figures):
    print(f"| {name} | " + " | ".join(
        f"{figures[f]:.1f}" if f == "tokens_s" else f"{figures[f] * 1e3:,.0f} ms" for f in FIGURES) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cutaway", default="./cutaway")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rate", type=float, default=0.25)
    p.add_argument("--scale", type=float, default=0.3)
    p.add_argument("--requests", type=int, default=24)
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    found = {way: [] for way in WAYS}
    print("| | " + " | ".join(f[:-2].replace("_", " ") for f in FIGURES) + " |")
    print("| --- " * (len(FIGURES) + 1) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for way, options in WAYS.items():
                found[way].append(run([args.cutaway, "load", *load_of(args, args.seed), *options, "--json"]))
                print(way, {f: round(found[way][-1][f], 4) for f in FIGURES}, file=sys.stderr)
        for way, runs in found.items():
            row(way, {f: statistics.median(r[f] for r in runs) for f in FIGURES})
        record(args, folder)
        for way in WAYS:
            row("simulated: " + way, simulate(args, folder, way))


if __name__ == "__main__":
    main()
