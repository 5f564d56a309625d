#!/usr/bin/env python3
"""Loss curves of trainings as one SVG: curves.py FILE.csv ... > FILE.svg. Only the standard library is needed. A file
with a column `run` has several curves, of which --runs are drawn."""
import argparse
import csv
import math
import os
import sys

W, H, LEFT, TOP, BOTTOM, RIGHT = 720, 320, 48, 16, 36, 90
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]  # Okabe and Ito's: safe for colour-blind eyes


def read(path, value, wanted):
    """{name: [(step, value)]}"""
    out, name = {}, os.path.basename(path)[len("training_"):-len(".csv")]
    with open(path) as file:
        for row in csv.DictReader(file):
            if row.get("run") in wanted or "run" not in row:
                out.setdefault(row.get("run", name), []).append((int(row["step"]), float(row[value])))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--value", default="loss_1", help="column")
    parser.add_argument("--said", default="cross-entropy of the first guess, nats", help="what it is")
    parser.add_argument("--runs", nargs="*", default=[])
    args = parser.parse_args()
    curves = {name: c for path in args.files for name, c in read(path, args.value, args.runs).items()}
    last = max(s for c in curves.values() for s, _ in c)
    low, high = (f(v for c in curves.values() for _, v in c) for f in (min, max))
    low, high = math.log(max(low * 0.95, 1e-3)), math.log(high)
    x = lambda step: LEFT + (W - LEFT - RIGHT) * step / last
    y = lambda v: TOP + (H - TOP - BOTTOM) * (high - math.log(max(v, math.exp(low)))) / (high - low)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{W}" height="{H}" fill="white"/>')
    for v in (0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 10):
        if low <= math.log(v) <= high:
            print(f'<path d="M{LEFT} {y(v):.1f}H{W - RIGHT}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y(v) + 4:.1f}" '
                  f'text-anchor="end">{v:g}</text>')
    print(f'<text x="{LEFT}" y="{H - 10}">{args.said}, by step (to {last})</text>')
    for (name, curve), colour in zip(curves.items(), COLOURS):
        points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in curve)
        print(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        print(f'<text x="{x(curve[-1][0]) + 6:.1f}" y="{y(curve[-1][1]) + 4:.1f}" fill="{colour}">{name}</text>')
    print("</svg>")


if __name__ == "__main__":
    sys.exit(main())
