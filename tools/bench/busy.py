#!/usr/bin/env python3
"""Time between tokens on a busy machine: processes of the same priority that do nothing but compute, `--busy` of them on each
processor, while cutaway and llama.cpp decode by turns. Every run's median and 99th percentile, then the medians over the runs.

    tools/bench/busy.py [--busy 1] [--runs 5] [--tokens 200]
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import peer
from recorded import PROGRAM, ROOT, answer

LOAD = "while True: pass"


def percentiles(ms):
    ms = sorted(ms)
    return ms[len(ms) // 2], ms[int(len(ms) * 0.99)]


def ours(args):
    _, db = answer(args.cutaway, "Write a long story about the sea.", "--model", args.model, "--greedy", "--max-tokens",
                   str(args.tokens), "--threads", str(args.threads), "--no-prefix-cache")
    return percentiles([ns / 1e6 for (ns,) in db.execute("SELECT ns FROM step WHERE prefill_rows = 0")])


def theirs(args):
    them = peer.Peer(args.model, args.threads)
    them.prompt(16)
    times = []
    for i in range(args.tokens):
        start = time.perf_counter()
        them.step([(them.token(i), 16 + i, 0, True)])
        times.append(1e3 * (time.perf_counter() - start))
    them.close()
    return percentiles(times)


def start_load(n):
    load = []
    for cpu in sorted(os.sched_getaffinity(0)):
        for _ in range(n):
            load.append(subprocess.Popen([sys.executable, "-c", LOAD]))
            os.sched_setaffinity(load[-1].pid, {cpu})
    return load


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    p.add_argument("--cutaway", default=PROGRAM)
    p.add_argument("--other", help="another cutaway in llama.cpp's place")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--busy", type=int, default=1, help="processes on each processor")
    p.add_argument("--runs", type=int, default=5)
    p.add_argument("--tokens", type=int, default=200)
    args = p.parse_args()
    sides = {"cutaway": ours, "llama.cpp": theirs}
    if args.other:
        sides["the other"] = lambda a: ours(argparse.Namespace(**{**vars(a), "cutaway": a.other}))
        del sides["llama.cpp"]
    else:
        peer.enter_venv(os.path.join(ROOT, "build/peer"), None)
    load, found = start_load(args.busy), {name: [] for name in sides}
    try:
        for _ in range(args.runs):
            for name, run in sides.items():
                found[name].append(run(args))
    finally:
        for process in load:
            process.kill()
            process.wait()
    for name, runs in found.items():
        p50, p99 = (statistics.median(r[i] for r in runs) for i in (0, 1))
        print(f"{name:10} p50 {p50:7.2f} ms ({min(r[0] for r in runs):.2f} … {max(r[0] for r in runs):.2f}), "
              f"p99 {p99:7.2f} ms ({min(r[1] for r in runs):.2f} … {max(r[1] for r in runs):.2f})")


if __name__ == "__main__":
    main()
