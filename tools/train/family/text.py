#!/usr/bin/env python3
"""The family's texts: text.py OUT [--cutaway PROGRAM] [--model FILE]

Stories that SmolLM2 wrote through the engine, in the first 1024 ids of its vocabulary (see ../stories.py), every 16th held
out: OUT/text.pt; and OUT/held_out/NN.txt, as `cutaway score` reads them."""
import argparse
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from data import Maker  # noqa: E402
from questions import ABOUT  # noqa: E402
from stories import begin, tokenized  # noqa: E402
from target import read_meta  # noqa: E402

LENGTH, SHARDS, SHARD, HELD_OUT = 256, 16, 128, 16
END, MASK = 0, 4  # ids: between stories, of a mask
FORMS = ["Tell a short story about {}.", "Tell me a bedtime story about {}.", "Write a story about {} in five sentences.",
         "Describe a day in the life of {}.", "Write a funny story about {}.", "Invent a legend about {}."]


def stories(args):
    """Texts, each to the end of its last whole sentence."""
    maker = Maker(args, os.path.join(args.out, "raw"))
    lines = [form.format(hero) for form in FORMS for hero in ABOUT["hero"]]
    for shard in range(SHARDS):
        asked = [lines[i % len(lines)] for i in range(shard * SHARD, (shard + 1) * SHARD)]
        options = ["--temp", "0.8", "--max-tokens", "160", "--seed", str(shard + 1)]
        for row in maker.shard(f"stories-{shard:02d}", asked, options):
            yield row["text"][:row["text"].rfind(".") + 1].strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--cutaway", default="./cutaway")
    parser.add_argument("--model", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    args = parser.parse_args()
    texts = list(stories(args))
    begin(os.path.join(args.out, "begin.gguf"), args.model, read_meta(args.model), "begin", 0)
    os.makedirs(os.path.join(args.out, "held_out"), exist_ok=True)
    kept = {"seen": [], "held_out": []}
    for i, text in enumerate(texts):
        kept["seen" if i % HELD_OUT else "held_out"] += [END, *tokenized(args, text)]
        if i % HELD_OUT == 0:
            with open(os.path.join(args.out, "held_out", f"{i // HELD_OUT:03d}.txt"), "w") as file:
                file.write(text)
    torch.save({k: torch.tensor(v, dtype=torch.int16) for k, v in kept.items()}, os.path.join(args.out, "text.pt"))
    print({k: len(v) for k, v in kept.items()})


if __name__ == "__main__":
    sys.exit(main())
