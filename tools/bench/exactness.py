#!/usr/bin/env python3
"""What the fixed order of all sums costs: pairs of runs of ./cutaway and of build-free/cutaway, the same kernels
free of it (docs/arithmetic.md, end), by turns. Prints the time that exactness takes, in percent: the median of the
pairs and where it lies with 95 % confidence."""
import argparse
import json
import os
import shlex
import statistics

import turns

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIGURES = {"decode_tok_s": "decode", "decode_1k_tok_s": "decode, 1,024 tokens deep", "prefill_tok_s": "prefill of 512"}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--exact", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("--free", default=os.path.join(ROOT, "build-free/cutaway"))
    p.add_argument("--options", default="", help="further ones of --free's bench, in one argument")
    p.add_argument("--isa", default="", help="of both")
    p.add_argument("--order", default=" free-order", help="what the other's instruction sets have after their names")
    p.add_argument("--pairs", type=int, default=60, help="of each figure")
    p.add_argument("--only", action="append", choices=FIGURES)
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    results = {}
    for figure in args.only or FIGURES:
        exact = turns.Turns(args.exact, figure, *(["--isa", args.isa] if args.isa else []))
        free = turns.Turns(args.free, figure, *(["--isa", args.isa + args.order] if args.isa else []),
                           *shlex.split(args.options))
        found = turns.pairs(FIGURES[figure], exact.run, free.run, args.pairs)
        exact.close()
        free.close()
        cost = turns.summary([100 * (b / a - 1) for a, b in found])
        results[figure] = {"exact": statistics.median(a for a, _ in found),
                           "free": statistics.median(b for _, b in found), "cost_percent": cost}
        if not args.json:
            low, high = cost["confidence95"]
            print(f"{FIGURES[figure]:26} exact {results[figure]['exact']:8.1f} tok/s, free "
                  f"{results[figure]['free']:8.1f}; cost {cost['median']:+.2f} % (95 %: {low:+.2f} … {high:+.2f}; middle "
                  f"eight tenths {cost['tenths'][0]:+.1f} … {cost['tenths'][1]:+.1f}; {cost['n']} pairs)", flush=True)
    if args.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
