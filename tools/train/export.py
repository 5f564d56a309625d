#!/usr/bin/env python3
"""A trained checkpoint as the small GGUF file that the engine reads, and its guesses for tests.

    export.py OUT/NAME.ckpt MODEL FILE.gguf --features DIR [--reference FILE.json] [--type q8_0|q4_1]

The file's layout is in docs/training.md. What it holds is read back, dequantised and measured once more on the
held-out conversations; FILE.json gets a few short contexts with the guesses of the file read back, for
tests/data."""
import argparse
import json
import sys

import torch

import features
import file
from measure import held_out, measure, told
from target import Target


@torch.no_grad()
def reference(drafter, target, rows, depth, contexts=6, longest=96):
    """Greedy guesses in f32: context ids x[0 .. t], guesses of x[t + 1 ..], each made of the guesses before it."""
    out = []
    for row in sorted(rows, key=lambda r: len(r["ids"]))[:: max(1, len(rows) // contexts)][:contexts]:
        ids = row["ids"][:min(len(row["ids"]) - 8, row["start"] + longest)]
        h = target.features(torch.tensor([ids]))
        cuts = []
        for t in range(row["start"] + 1, len(ids), 3):
            line = list(ids[:t + 1])
            for j in range(depth):
                known = torch.nn.functional.pad(h[:, :t], (0, 0, 0, j + 1))  # h[t] is not known when x[t] is drawn
                y = drafter.unroll(torch.tensor([line]), known, torch.tensor([t]), j + 1, j + 1)[j][0, j]
                line.append(int(drafter.ids[drafter.logits(y, j).argmax()]))
            cuts.append({"n": t + 1, "guesses": line[t + 1:]})
        out.append({"ids": ids, "cuts": cuts})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--features", required=True)
    parser.add_argument("--reference")
    parser.add_argument("--figures")
    parser.add_argument("--type", choices=file.TYPES, default="q8_0")
    parser.add_argument("--name", default="SmolLM2-135M-Instruct Q4_1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    target = Target(args.model)
    drafter = file.read_checkpoint(args.checkpoint, target)
    file.write(args.out, drafter, target, args.name, file.TYPES[args.type])
    drafter = file.read(args.out, target)
    rows = held_out(features.load(args.features))
    figures = measure(drafter, rows)
    print(f"{args.out}\n{told(figures)}")
    if args.figures:
        with open(args.figures, "w") as out:
            json.dump(figures, out, indent=1)
    if args.reference:
        depth = len(drafter.norms) if drafter.kind == "medusa" else 4
        with open(args.reference, "w") as out:
            json.dump({"kind": drafter.kind, "depth": depth, "contexts": reference(drafter, target, rows, depth)}, out,
                      separators=(",", ":"))
            out.write("\n")


if __name__ == "__main__":
    sys.exit(main())
