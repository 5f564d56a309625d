#!/usr/bin/env python3
"""The target's features at every token of the data: its residual stream after some layers and the last, kept as f16.

    features.py DATA MODEL OUT [--lower I,I,...] [--program PROGRAM] [--share I N]

The engine itself computes it (features.c: PROGRAM, build/tools/train/features), into files OUT/round-NN-KIND-NN.pt of 128
conversations; a file that is there is kept."""
import argparse
import array
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

import torch

from target import Config, read_meta

PART = 128
HELD_OUT = 16  # every 16th conversation of a kind is never trained on


def read_rows(path):
    rows = []
    with open(path) as file:
        for i, row in enumerate(map(json.loads, file)):
            if row["ids"]:
                rows.append({"kind": os.path.basename(path)[:-6], "temp": row["temp"], "ids": row["prompt"] + row["ids"],
                             "start": len(row["prompt"]), "held_out": i % HELD_OUT == 0})
    return rows


def batches(rows, tokens, order=None):
    """Lists of indices of rows of like length, each at most `tokens` with padding."""
    order = order or sorted(range(len(rows)), key=lambda i: len(rows[i]["ids"]))
    part = []
    for i in order:
        if part and (len(part) + 1) * max(len(rows[j]["ids"]) for j in part + [i]) > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part


def pad(rows, part):
    longest = max(len(rows[i]["ids"]) for i in part)
    ids = torch.zeros(len(part), longest, dtype=torch.long)
    for k, i in enumerate(part):
        ids[k, :len(rows[i]["ids"])] = torch.tensor(rows[i]["ids"])
    return ids


def compute(program, model, rows, dim, layers):
    """Adds row["h"] [tokens, layers * dim], f16: the lower layers' in their order, then the last's."""
    with tempfile.TemporaryFile() as sequences:
        for row in rows:
            sequences.write(array.array("i", [len(row["ids"]), *row["ids"]]).tobytes())
        sequences.seek(0)
        with subprocess.Popen([program, model, *map(str, layers)], stdin=sequences, stdout=subprocess.PIPE) as engine:
            for row in rows:
                raw = engine.stdout.read(len(row["ids"]) * len(layers) * dim * 4)
                h = torch.frombuffer(bytearray(raw), dtype=torch.float32).view(len(row["ids"]), -1)
                row["h"], row["lower"] = h.clamp(-65000, 65000).half(), layers[:-1]
    if engine.returncode:
        raise SystemExit(f"{program}: exit status {engine.returncode}")


def load(out, lower=()):
    """All rows, of whose features only those of these lower layers and the last are kept."""
    rows = []
    for path in sorted(glob.glob(os.path.join(out, "round-*.pt"))):
        for row in torch.load(path):
            h = row["h"].unflatten(1, (len(row["lower"]) + 1, -1))
            row["h"] = h[:, [row["lower"].index(i) for i in lower] + [-1]].flatten(1)
            rows.append(row)
    return rows


def parts_of(data):
    """(name, rows) of parts of PART conversations."""
    for source in sorted(glob.glob(os.path.join(data, "round-*", "*.jsonl"))):
        name = os.path.basename(os.path.dirname(source)) + "-" + os.path.basename(source)[:-6]
        rows = read_rows(source)
        for i in range(0, len(rows), PART):
            yield f"{name}-{i // PART:02d}", rows[i:i + PART]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--program", default="build/tools/train/features")
    parser.add_argument("--lower", default="", help="layers below the last that are kept, too, counted from 0")
    parser.add_argument("--share", type=int, nargs=2, default=[0, 1], metavar=("I", "N"),
                        help="every Nth part from the Ith on: several may run at once")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    c = Config(read_meta(args.model))
    layers = [*map(int, filter(None, args.lower.split(","))), c.layers - 1]
    for name, rows in list(parts_of(args.data))[args.share[0]::args.share[1]]:
        path = os.path.join(args.out, name + ".pt")
        if os.path.exists(path):
            continue
        begun = time.time()
        compute(args.program, args.model, rows, c.dim, layers)
        torch.save(rows, path + ".part")
        os.rename(path + ".part", path)
        tokens = sum(len(r["ids"]) for r in rows)
        print(f"{path}: {len(rows)} conversations, {tokens} tokens, {sum(len(r['ids']) - r['start'] for r in rows)} of "
              f"answers, {tokens / (time.time() - begun):.0f} a second", flush=True)


if __name__ == "__main__":
    sys.exit(main())
