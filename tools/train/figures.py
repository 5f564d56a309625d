#!/usr/bin/env python3
"""The table of docs/training.md, measured: what drafters' files have accepted on the held-out greedy conversations.

    figures.py MODEL FEATURES FILE.gguf ..."""
import os
import sys

import torch

import features
import file
from losses import covered
from measure import DEPTH, held_out, measure
from target import Target


def main():
    model, folder, *paths = sys.argv[1:]
    torch.set_num_threads(1)
    target = Target(model)
    print(f"| drafter | kind of prompt | positions | {' | '.join(f'≥ {j + 1}' for j in range(DEPTH))} | tokens a step |")
    print("| --- |" + " --- |" * (DEPTH + 3))
    for path in paths:
        drafter, name = file.read(path, target), os.path.basename(path)[:-5]
        rows = held_out(features.load(folder, drafter.lower))
        print(f"{name}: {100 * covered(drafter.ids.tolist(), rows):.1f} % of the tokens can be guessed", file=sys.stderr)
        for kind, f in measure(drafter, rows).items():
            least = [f"{100 * a:.1f} %" for a in f["acceptance"]] + [""] * (DEPTH - len(f["acceptance"]))
            print(f"| {name} | {kind} | {f['positions']} | {' | '.join(least)} | {f['tokens_per_step']:.2f} |", flush=True)
            name = ""


if __name__ == "__main__":
    sys.exit(main())
