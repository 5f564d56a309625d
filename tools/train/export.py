#!/usr/bin/env python3
"""A trained checkpoint as the small GGUF file that the engine reads, and its guesses for tests.

    export.py KIND OUT/NAME.ckpt MODEL FILE.gguf --features DIR [--reference FILE.json] [--type q8_0|q4_1]

The file's layout is in docs/training.md. What it holds is read back, dequantised and measured once more on the
held-out conversations; FILE.json gets a few short contexts with the guesses of the file read back, for
tests/data."""
import argparse
import json
import sys

import gguf
import numpy as np
import torch

import features
from drafters import KINDS
from target import Target, read_gguf
from train import measure

TYPES = {"q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_1": gguf.GGMLQuantizationType.Q4_1}


def write(path, drafter, target, name, quantised):
    out = gguf.GGUFWriter(path, "cutaway-draft")
    out.add_name(f"{target.c.name} {drafter.kind} drafter")
    out.add_license("apache-2.0")
    out.add_string("cutaway.draft.kind", drafter.kind)
    out.add_string("cutaway.draft.target", name)
    out.add_uint32("cutaway.draft.vocab", target.c.vocab)
    out.add_uint32("cutaway.draft.dim", target.c.dim)
    out.add_string("cutaway.draft.vocab_hash", target.c.vocab_hash)
    out.add_array("cutaway.draft.ids", [int(i) for i in drafter.ids])
    if drafter.kind == "model":
        out.add_uint32("cutaway.draft.layers", len(drafter.made_of))
        out.add_key_value("cutaway.draft.from", [int(i) for i in drafter.made_of], gguf.GGUFValueType.ARRAY,
                          gguf.GGUFValueType.UINT32)
    if drafter.kind == "medusa":
        out.add_uint32("cutaway.draft.heads", len(drafter.norms))
    for tensor, p in drafter.tensors().items():
        values = p.detach().float().numpy()
        if values.ndim == 1:
            out.add_tensor(tensor, np.ascontiguousarray(values))
        else:
            out.add_tensor(tensor, gguf.quants.quantize(values, quantised), raw_dtype=quantised)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def read_back(path, drafter):
    tensors = read_gguf(path)[1]
    with torch.no_grad():
        for name, p in drafter.tensors().items():
            p.copy_(tensors.pop(name))
    assert not tensors
    return drafter


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
                y = drafter.unroll(torch.tensor([line]), known, j + 1)[j][0, t]
                line.append(int(drafter.ids[drafter.logits(y, j).argmax()]))
            cuts.append({"n": t + 1, "guesses": line[t + 1:]})
        out.append({"ids": ids, "cuts": cuts})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("checkpoint")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--features", required=True)
    parser.add_argument("--reference")
    parser.add_argument("--figures")
    parser.add_argument("--type", choices=TYPES, default="q8_0")
    parser.add_argument("--name", default="SmolLM2-135M-Instruct Q4_1")
    args = parser.parse_args()
    torch.set_num_threads(1)
    target, saved = Target(args.model), torch.load(args.checkpoint)
    drafter = KINDS[args.kind](target, saved["ids"], **saved.get("shape", {}))
    drafter.load_state_dict(saved["drafter"])
    write(args.out, drafter, target, args.name, TYPES[args.type])
    drafter = read_back(args.out, drafter)
    rows = [r for r in features.load(args.features) if r["held_out"] and r["temp"] == 0]
    figures = measure(drafter, rows)
    for kind, f in figures.items():
        print(f"{args.out}: {kind}: acceptance {f['acceptance']}, {f['tokens_per_step']} tokens a step")
    if args.figures:
        with open(args.figures, "w") as file:
            json.dump(figures, file, indent=1)
    if args.reference:
        depth = len(drafter.norms) if args.kind == "medusa" else 4
        with open(args.reference, "w") as file:
            json.dump({"kind": args.kind, "depth": depth, "contexts": reference(drafter, target, rows, depth)}, file,
                      separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
