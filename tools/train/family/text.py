#!/usr/bin/env python3
"""The family's texts: text.py OUT [--cutaway PROGRAM] [--model FILE]

Stories that SmolLM2 wrote through the engine, in the first 1024 ids of its vocabulary (see ../stories.py), every 16th held
out: OUT/text.pt; and OUT/held_out/NN.txt, as `cutaway score` reads them. `recall()` makes texts of associative recall (MQAR: Arora et al. 2023, section 3)."""
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
END, MARK, MASK, KEYS, VALUES, MOST = 0, 3, 4, 512, 768, 60  # ids: between stories, before pairs, of a mask, first key, first value; most pairs
PAIRS = (4, 8, 16, 32, MOST)
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


def episode(pairs, draw):
    """MARK, pairs of a key and its value, then each key again in another order with its value: ids, and which are asked."""
    some = lambda: torch.randperm(VALUES - KEYS, generator=draw)[:pairs]
    pair = torch.stack((KEYS + some(), VALUES + some()), 1)
    again = pair[torch.randperm(pairs, generator=draw)]
    ids = torch.cat((torch.tensor([MARK]), pair.flatten(), again.flatten()))
    asked = torch.zeros(len(ids), dtype=torch.bool)
    asked[2 * pairs + 2::2] = True
    return ids, asked


def recall(rows, draw, pairs=None):
    """ids and what is asked, both [rows, LENGTH]: episodes of as many pairs as a row's draw says."""
    ids, asked = torch.full((rows, LENGTH), MARK), torch.zeros(rows, LENGTH, dtype=torch.bool)
    for r in range(rows):
        n = pairs or PAIRS[torch.randint(len(PAIRS), (1,), generator=draw).item()]
        at = 0
        while at + 4 * n + 1 <= LENGTH:
            ids[r, at:at + 4 * n + 1], asked[r, at:at + 4 * n + 1] = episode(n, draw)
            at += 4 * n + 1
    return ids, asked


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
