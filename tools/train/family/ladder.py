#!/usr/bin/env python3
"""Sizes of one architecture on one text: ladder.py DATA OUT CSV

Of multi-head attention from half a million numbers to eight (model.py, LADDER), trained by member.py on the family's text, by all
the same steps, and never rounded: OUT/ladder-SIZE.gguf is in 16 bits. CSV has of each, by the engine, on stories that no training read:
loss; perplexity rounded to fewer bits when opened (RTN, groups of 32); divergence of files in 4 and 3 bits by RTN, GPTQ and AWQ
from the source; the largest channel of activations beside the median one, by input, and what 8 bits a tensor cost for it; of
the whole as the target of each smaller one: guesses kept. What is trained or in CSV is not made again."""
import concurrent.futures
import csv
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../claims"))
import family  # noqa: E402
import gguf  # noqa: E402
import lab  # noqa: E402
import prices  # noqa: E402
import unrounded  # noqa: E402
import torch  # noqa: E402
from export import write  # noqa: E402
from model import LADDER, Family  # noqa: E402

STEPS = "600"
INPUTS, METHODS = ("qkv", "out", "gate_up", "down"), [(method, bits) for method in ("rtn", "gptq", "awq") for bits in (4, 3)]


def train(data, size):
    tool = os.path.join(HERE, "member.py")
    subprocess.run([sys.executable, tool, "multi-head", data, "--size", size, "--steps", STEPS], check=True)


def export(data, out, size):
    path = os.path.join(out, f"ladder-{size}.gguf")
    model = Family(LADDER[size], "multi-head", 1)
    model.load_state_dict(torch.load(os.path.join(data, f"multi-head-{size}-1.pt")))
    write(path, "multi-head", model, os.path.join(data, "begin.gguf"), gguf.GGMLQuantizationType.F16)
    return path


def line(path, smaller):
    """smaller: a file that guesses for this one, or None."""
    found = {"numbers": unrounded.weights(path), "loss": family.loss(path, path)}
    for bits in unrounded.BITS:
        found[f"ppl_{bits}"] = unrounded.scored("--model", path, "--weights", f"{bits}/32", "--twin", "on").ppl
    for method, bits in METHODS:
        found[f"{method}_{bits}"] = unrounded.by(method, bits, path).kl
    seen = prices.outliers(path, next(unrounded.held_out()))
    found |= {name: getattr(seen, name) for name in (*INPUTS, "worst")}
    for name in ("int8-tensor", "int8-token"):
        found[name.replace("-", "_")] = unrounded.scored("--model", path, "--activations", name, "--twin", "on").kl
    found["kept"] = unrounded.pair(smaller, path).first if smaller else ""
    return found


def measured(path):
    """Sizes that the table has."""
    try:
        with open(path, encoding="utf-8") as file:
            return max(0, len(file.readlines()) - 1)
    except FileNotFoundError:
        return 0


def main():
    data, out, path = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    lab.MODELS = out
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda size: train(data, size), reversed(LADDER)))  # the longest first
    files = {size: export(data, out, size) for size in LADDER}
    smallest = next(iter(files.values()))
    for size in list(files)[measured(path):]:
        row = line(files[size], smallest if files[size] != smallest else None)
        with open(path, "a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if not measured(path):
                writer.writerow(["size", *row])
            writer.writerow([size, *(f"{x:.4f}" if isinstance(x, float) else x for x in row.values())])


if __name__ == "__main__":
    sys.exit(main())
