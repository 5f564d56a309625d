#!/usr/bin/env python3
"""This build beside another one (of an earlier commit, say), by turns on the same file: how many times as fast it is,
the median of the pairs and where that lies with 95 % confidence. Throughput is measured with recording on; `start` is
the time of a whole `run` of one token, `recorded` that of one of 64 tokens into a new recording."""
import argparse
import json
import os
import subprocess
import tempfile
import time

import turns

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RATES = {"decode_tok_s": "decode", "decode_1k_tok_s": "decode, 1,024 deep", "prefill64_tok_s": "prefill of 64",
         "prefill_tok_s": "prefill of 512", "batch8_tok_s": "8 sequences", "batch16_tok_s": "16 sequences"}
TIMES = {"start": ("start, with one token", 1, False), "recorded": ("64 tokens, recorded", 64, True)}


def timed(program, options, tokens, record):
    """A function that runs the program once and returns runs a second."""
    def once():
        with tempfile.TemporaryDirectory() as folder:
            command = [program, "run", "--raw", "--greedy", "--max-tokens", str(tokens), *options]
            command += ["--record", os.path.join(folder, "a.db")] if record else []
            begin = time.monotonic()
            subprocess.run([*command, "The sea was calm"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            return 1 / (time.monotonic() - begin)
    return once


def compare(figure, programs, options, n):
    if figure in TIMES:
        what, tokens, record = TIMES[figure]
        return what, turns.pairs(what, *(timed(p, options, tokens, record) for p in programs), n)
    both = [turns.Turns(p, figure, *options) for p in programs]
    found = turns.pairs(RATES[figure], *(t.run for t in both), n)
    for t in both:
        t.close()
    return RATES[figure], found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("other", help="the other program")
    p.add_argument("--this", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("--model", help="a file other than that of `make model`")
    p.add_argument("--isa", help="instruction set for both")
    p.add_argument("--pairs", type=int, default=30, help="of each figure")
    p.add_argument("--only", action="append", choices=[*RATES, *TIMES])
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    options = [word for name in ("model", "isa") if getattr(args, name) for word in (f"--{name}", getattr(args, name))]
    results = {}
    for figure in args.only or [*RATES, *TIMES]:
        what, found = compare(figure, [args.this, args.other], options, args.pairs)
        results[figure] = found = turns.summary([a / b for a, b in found])
        if not args.json:
            print(f"{what:24} {found['median']:.3f} times as fast (95 %: {found['confidence95'][0]:.3f} … "
                  f"{found['confidence95'][1]:.3f}; {found['n']} pairs)", flush=True)
    if args.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
