#!/usr/bin/env python3
"""A small language, and a small Llama for it, to compress and repair: stories by SmolLM2 in a vocabulary of 1024 ids.

    stories.py OUT [--shards N] [--cutaway PROGRAM] [--model FILE]

The engine samples the stories, so everybody gets the same ones (see data.py). The vocabulary is the first ids of SmolLM2's:
its byte-level merges are in order of frequency, so their beginning is a tokenizer of its own.
Into OUT: begin.gguf and student.gguf, two Llamas before any training; stories.json, {"seen": [ids], "held_out": [ids]};
held_out/NN.txt, the stories held out, every 16th, as `cutaway score` reads them; calibrate.txt, some of the others."""
import argparse
import json
import os
import subprocess
import sys

import torch

import model_file
from data import Maker
from questions import ABOUT
from target import read_meta

VOCAB, LINES, HELD_OUT, CALIBRATE = 1024, 128, 16, 60
SHAPES = {"begin": {"embedding_length": 96, "block_count": 6, "feed_forward_length": 256},
          "student": {"embedding_length": 64, "block_count": 2, "feed_forward_length": 128}}
SAME = {"attention.head_count_kv": 1, "rope.dimension_count": 32, "context_length": 512, "vocab_size": VOCAB,
        "rope.freq_base": 10000.0}


def stories(args):
    """Texts, each to the end of its last whole sentence."""
    maker, heroes = Maker(args, os.path.join(args.out, "raw")), ABOUT["hero"]
    for shard in range(args.shards):
        lines = [f"Tell a short story about {heroes[i % len(heroes)]}." for i in range(shard * LINES, (shard + 1) * LINES)]
        options = ["--temp", "0.8", "--max-tokens", "160", "--seed", str(shard + 1)]
        for row in maker.shard(f"stories-{shard:02d}", lines, options):
            yield row["text"][:row["text"].rfind(".") + 1].strip()


def vocabulary(meta):
    """Changes of metadata for a vocabulary of the first ids."""
    tokens = meta["tokenizer.ggml.tokens"][:VOCAB]
    known = set(tokens)
    merges = [m for m in meta["tokenizer.ggml.merges"] if m.replace(" ", "") in known]
    return {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges,
            "tokenizer.ggml.token_type": meta["tokenizer.ggml.token_type"][:VOCAB]}


def begin(path, source, meta, name, seed):
    """A Llama that knows nothing yet: rows of a normal distribution, the residual stream's writers smaller."""
    shape = {"attention.head_count": SHAPES[name]["embedding_length"] // 32} | SAME | SHAPES[name]
    dim, ffn, layers = (shape[k] for k in ("embedding_length", "feed_forward_length", "block_count"))
    draw = torch.Generator().manual_seed(seed)
    rows = lambda n, m, by=1.0: torch.randn(n, m, generator=draw) * by * m ** -0.5
    tensors = {"token_embd.weight": rows(VOCAB, dim), "output_norm.weight": torch.ones(dim)}
    for i in range(layers):
        less = (2 * layers) ** -0.5
        one = {"attn_norm": torch.ones(dim), "ffn_norm": torch.ones(dim), "attn_q": rows(dim, dim), "attn_k": rows(32, dim),
               "attn_v": rows(32, dim), "attn_output": rows(dim, dim, less), "ffn_gate": rows(ffn, dim),
               "ffn_up": rows(ffn, dim), "ffn_down": rows(dim, ffn, less)}
        tensors |= {f"blk.{i}.{k}.weight": v for k, v in one.items()}
    changes = vocabulary(meta) | {f"llama.{k}": v for k, v in shape.items()}
    changes |= {"general.name": f"stories {name}", "tokenizer.chat_template": model_file.PLAIN_TEXT}
    model_file.write(path, source, tensors, changes)


def tokenized(args, text):
    told = subprocess.run([args.cutaway, "tokenize", "--json", "--model", os.path.join(args.out, "begin.gguf")],
                          input=text.encode(), stdout=subprocess.PIPE, check=True)
    return json.loads(told.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--cutaway", default="./cutaway")
    parser.add_argument("--model", default="models/SmolLM2-135M-Instruct.Q4_1.gguf")
    args = parser.parse_args()
    texts, meta = list(stories(args)), read_meta(args.model)
    for seed, name in enumerate(SHAPES):
        begin(os.path.join(args.out, name + ".gguf"), args.model, meta, name, seed)
    os.makedirs(os.path.join(args.out, "held_out"), exist_ok=True)
    kept = {"seen": [], "held_out": []}
    for i, text in enumerate(texts):
        kept["seen" if i % HELD_OUT else "held_out"].append(tokenized(args, text))
        if not i % HELD_OUT:
            with open(os.path.join(args.out, "held_out", f"{i // HELD_OUT:02d}.txt"), "w") as file:
                file.write(text)
    with open(os.path.join(args.out, "calibrate.txt"), "w") as file:
        file.write("\n\n".join(t for i, t in enumerate(texts) if i % HELD_OUT)[:CALIBRATE * 1000])
    with open(os.path.join(args.out, "stories.json"), "w") as file:
        json.dump(kept, file)
    print({k: (len(v), sum(map(len, v))) for k, v in kept.items()})


if __name__ == "__main__":
    sys.exit(main())
