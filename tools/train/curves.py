#!/usr/bin/env python3
"""Loss curves of trainings as one SVG: curves.py FILE.csv ... > FILE.svg. Only the standard library is needed."""
import csv
import math
import os
import sys

W, H, LEFT, TOP, BOTTOM = 720, 320, 48, 16, 36
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]  # Okabe and Ito's: safe for colour-blind eyes


def read(path):
    with open(path) as file:
        rows = list(csv.DictReader(file))
    return os.path.basename(path)[len("training_"):-len(".csv")], [(int(r["step"]), float(r["loss_1"])) for r in rows]


def main():
    curves = [read(path) for path in sys.argv[1:]]
    last = max(s for _, c in curves for s, _ in c)
    low, high = (f(v for _, c in curves for _, v in c) for f in (min, max))
    low, high = math.log(max(low * 0.95, 0.1)), math.log(high)
    x = lambda step: LEFT + (W - LEFT - 90) * step / last
    y = lambda loss: TOP + (H - TOP - BOTTOM) * (high - math.log(loss)) / (high - low)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W} {H}" font-family="sans-serif" font-size="12">')
    print(f'<rect width="{W}" height="{H}" fill="white"/>')
    for v in (1, 1.5, 2, 3, 4, 6, 8, 10):
        if low <= math.log(v) <= high:
            print(f'<path d="M{LEFT} {y(v):.1f}H{W - 90}" stroke="#ddd"/><text x="{LEFT - 6}" y="{y(v) + 4:.1f}" '
                  f'text-anchor="end">{v:g}</text>')
    print(f'<text x="{LEFT}" y="{H - 10}">cross-entropy of the first guess, nats, by step (to {last})</text>')
    for (name, curve), colour in zip(curves, COLOURS):
        points = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in curve)
        print(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        print(f'<text x="{x(curve[-1][0]) + 6:.1f}" y="{y(curve[-1][1]) + 4:.1f}" fill="{colour}">{name}</text>')
    print("</svg>")


if __name__ == "__main__":
    main()
