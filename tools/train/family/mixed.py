#!/usr/bin/env python3
"""A random model of many mixers, and what it computes by model.py: mixed.py NAME OUT.gguf OUT.jsonl

For tests/data/zoo, in the form that its other files have; model.py shares no code with the engine."""
import hashlib
import json
import os
import sys

import gguf
import torch

import export
from model import MEMBERS, RECALL, Family

GREEDY = 16
MEMBERS["mixed"] = lambda s: dict(mixer=["linear", "attention", "mamba2", "attention", "attention"], window=[0, 8, 0, 8, 8],
                                  kv_from=[0, 1, 2, 3, 3], kv_heads=1)
MEMBERS["mixed-states"] = lambda s: dict(mixer=["s4d", "mamba", "lightning", "attention", "s4d"], act="relu2")


def sequence(model, ids):
    logp = torch.log_softmax(model(torch.tensor([ids]))[0][0].double(), -1)
    row = {"ids": ids, "logp": [round(logp[i, t].item(), 4) for i, t in enumerate(ids[1:])], "greedy": [], "margin": []}
    for _ in range(GREEDY):
        best = model(torch.tensor([ids + row["greedy"]]))[0][0, -1].topk(2)
        row["greedy"].append(best.indices[0].item())
        row["margin"].append(round((best.values[0] - best.values[1]).item(), 4))
    return row


def main():
    name, path, answers = sys.argv[1:]
    shape = RECALL.__class__(**(RECALL.__dict__ | {"layers": 5, "window": 8, "ffn": 32}))
    model = Family(shape, name, 5)
    with torch.no_grad():
        for p in model.parameters():  # what training would not leave at 1 and 0
            p += 0.2 * torch.randn(p.shape) * p.std().nan_to_num(1).clamp_min(0.2)
        model.token_embd *= 1.5
        export.write(path, name, model, None, gguf.GGMLQuantizationType.F32)
        draw = torch.Generator().manual_seed(1)
        rows = [sequence(model, torch.randint(256, (n,), generator=draw).tolist()) for n in (24, 57, 96)]
    with open(path, "rb") as file:
        about = {"model": os.path.basename(path), "sha256": hashlib.sha256(file.read()).hexdigest(),
                 "bytes": os.path.getsize(path), "sources": ["tools/train/family/model.py"]}
    with open(answers, "w") as file:
        for row in [about, *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main())
