#!/usr/bin/env python3
"""The table of docs/training.md: figures.py OUT. Of each drafter its training (NAME.json) and what the exported file
has accepted on held-out greedy conversations (NAME.export.json). Only the standard library is needed."""
import json
import os
import sys

NAMES = ["eagle", "medusa", "draft"]


def main():
    print("| drafter | kind of prompt | places | ≥ 1 | ≥ 2 | ≥ 3 | ≥ 4 | ≥ 5 | tokens a step |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in NAMES:
        path = os.path.join(sys.argv[1], name + ".export.json")
        if not os.path.exists(path):
            continue
        with open(path) as file:
            figures = json.load(file)
        for kind, f in figures.items():
            least = [f"{100 * a:.1f} %" for a in f["acceptance"]] + [""] * (5 - len(f["acceptance"]))
            print(f"| {name} | {kind} | {f['positions']} | {' | '.join(least)} | {f['tokens_per_step']:.2f} |")
            name = ""


if __name__ == "__main__":
    sys.exit(main())
