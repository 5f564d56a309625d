#!/usr/bin/env python3
"""A trained checkpoint as the small GGUF file that the engine reads, and its guesses for tests.

    export.py OUT/NAME.ckpt MODEL FILE.gguf --features DIR [--vocab N | --ids FILE.gguf] [--type q4_1|q8_0] [--reference FILE.json]
    export.py FILE.gguf MODEL FILE.json --at REFERENCE.json

The file's layout is in docs/training.md. Its vocabulary may be smaller than that of the training, on which its weights do
not depend. FILE.json gets a few short contexts with the guesses of the file as it is read back, for tests/data; or those of a file at the
places of another reference.
figures.py measures files."""
import argparse
import json
import sys

import torch

import features
import file
from losses import trimmed
from measure import held_out
from target import Target, read_meta


@torch.no_grad()
def guesses(drafter, h, ids, t, depth):
    """Greedy guesses in f32 of x[t + 1 ..], each made of the guesses before it, with features h of x[0 .. t - 1]."""
    line = list(ids[:t + 1])
    for j in range(depth):
        known = torch.nn.functional.pad(h[:, :t], (0, 0, 0, j + 1))  # h[t] is not known when x[t] is drawn
        y = drafter.unroll(torch.tensor([line]), known, torch.tensor([t]), j + 1, j + 1)[j][0, j]
        line.append(int(drafter.ids[drafter.logits(y, j).argmax()]))
    return {"n": t + 1, "guesses": line[t + 1:]}


@torch.no_grad()
def reference(drafter, target, rows, depth, contexts=6, longest=96):
    """A few contexts, and guesses at every third place of what the model said there."""
    out, rows = [], [r for r in rows if len(r["ids"]) - r["start"] >= 24]
    for row in sorted(rows, key=lambda r: len(r["ids"]))[:: max(1, len(rows) // contexts)][:contexts]:
        ids = row["ids"][:min(len(row["ids"]) - 8, row["start"] + longest)]
        h = target.features(torch.tensor([ids]), drafter.lower)
        out.append({"ids": ids, "cuts": [guesses(drafter, h, ids, t, depth) for t in range(row["start"] + 1, len(ids), 3)]})
    return out


@torch.no_grad()
def refer(model, path, given, out):
    """The guesses of a file at the places of another reference."""
    target = Target(model)
    drafter = file.read(path, target)
    with open(given) as f:
        ref = json.load(f)
    for context in ref["contexts"]:
        h = target.features(torch.tensor([context["ids"]]), drafter.lower)
        context["cuts"] = [guesses(drafter, h, context["ids"], cut["n"] - 1, ref["depth"]) for cut in context["cuts"]]
    write_reference(out, ref)


def write_reference(path, ref):
    with open(path, "w") as out:
        json.dump(ref, out, separators=(",", ":"))
        out.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("checkpoint")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--features")
    parser.add_argument("--at", help="a reference: its places")
    parser.add_argument("--vocab", type=int, help="ids of the file's vocabulary; without it: those of the training")
    parser.add_argument("--ids", help="a drafter's file whose vocabulary it is to have")
    parser.add_argument("--reference")
    parser.add_argument("--type", choices=file.TYPES, default="q4_1")
    parser.add_argument("--name", default="SmolLM2-135M-Instruct Q4_1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.at:
        return refer(args.model, args.checkpoint, args.at, args.out)
    if not args.features:
        parser.error("--features: where is what the checkpoint was trained on?")
    target = Target(args.model)
    drafter = file.read_checkpoint(args.checkpoint, target)
    rows = features.load(args.features)
    if args.ids:
        drafter.ids = torch.tensor(read_meta(args.ids)["cutaway.draft.ids"])
    elif args.vocab:
        seen = [r for r in rows if not r["held_out"]]
        drafter.ids = torch.tensor(trimmed(seen, args.vocab, target.c.eos, target.c.vocab))
    file.write(args.out, drafter, target, args.name, file.TYPES[args.type])
    if args.reference:
        drafter, rows = file.read(args.out, target), held_out(rows)
        depth = len(drafter.norms) if drafter.kind == "medusa" else 4
        write_reference(args.reference,
                        {"kind": drafter.kind, "depth": depth, "contexts": reference(drafter, target, rows, depth)})


if __name__ == "__main__":
    sys.exit(main())
