#!/usr/bin/env python3
"""What a T5 of the family computes, by t5.py from the file's own weights: golden.py FILE.gguf OUT.jsonl

For tests/unit/engine/test_zoo.c, in the form of tests/data/zoo; t5.py shares no code with the engine."""
import hashlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "../../claims"))
import gguf  # noqa: E402
import torch  # noqa: E402
from mended import held_out  # noqa: E402
from model import HEAD  # noqa: E402
from t5 import SIZES, START, STOP, T5  # noqa: E402

GREEDY, PAIRS = 16, (0, 5, 40)


def read(path):
    """The model of a file, its weights as numbers."""
    name = os.path.basename(path).removesuffix(".gguf")
    model, held = T5(SIZES[name], 1), {}
    for t in gguf.GGUFReader(path).tensors:
        key = t.name.removesuffix(".weight")
        values = torch.tensor(gguf.quants.dequantize(t.data, t.tensor_type), dtype=torch.float32)
        held[key] = values * HEAD**0.5 if key.endswith("attn_q") else values
    model.load_state_dict(held)
    return model


def sequence(model, given, ids):
    ask = lambda more: model(torch.tensor([given]), torch.tensor([more]), torch.tensor([len(given)]))[0].double()
    logp = torch.log_softmax(ask(ids), -1)
    row = {"ids": ids, "encoder_ids": given, "logp": [round(logp[i, t].item(), 4) for i, t in enumerate(ids[1:])], "greedy": [], "margin": []}
    for _ in range(GREEDY):
        best = ask(ids + row["greedy"])[-1].topk(2)
        row["greedy"].append(best.indices[0].item())
        row["margin"].append(round((best.values[0] - best.values[1]).item(), 4))
    return row


def main():
    import lab
    path, answers = sys.argv[1:]
    ids = lambda text: json.loads(lab.execute(["tokenize", "--json", "--model", os.path.abspath(path)], text))
    with torch.no_grad():
        model = read(path)
        rows = [sequence(model, ids(a) + [STOP], [START] + ids(b)[:12]) for a, b in (held_out()[i] for i in PAIRS)]
    with open(path, "rb") as file:
        about = {"model": os.path.basename(path), "sha256": hashlib.sha256(file.read()).hexdigest(),
                 "bytes": os.path.getsize(path), "sources": ["tools/train/family/t5.py"]}
    with open(answers, "w", encoding="utf-8") as file:
        for row in [about, *rows]:
            file.write(json.dumps(row, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main())
