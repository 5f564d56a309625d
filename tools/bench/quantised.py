#!/usr/bin/env python3
"""What quantising costs on texts that no calibration read: quantised.py FIRST.gguf OTHER.gguf … --texts TEXT …

Scores each text with each file. Prints the perplexity over all texts, and for each file after the first by how much its
mean log-probability of a token lies below the first's, with where that difference lies with 95 % confidence: whole runs of
32 tokens are drawn again and again (bootstrap; neighbours in a text are alike)."""
import argparse
import json
import math
import os
import random
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN, DRAWS = 32, 2000


def logps(program, model, texts):
    found, name = [], ""
    for text in texts:
        told = json.loads(subprocess.run([program, "score", "--json", "--model", model, text], check=True,
                                         stdout=subprocess.PIPE).stdout)
        found.append(told["logp"])
        name = told["model"]
    return found, name


def confidence(differences):
    """differences: a list of each text."""
    runs = [d[i:i + RUN] for d in differences for i in range(0, len(d), RUN)]
    sums = [(sum(r), len(r)) for r in runs]
    draw = random.Random(0)
    means = []
    for _ in range(DRAWS):
        drawn = draw.choices(sums, k=len(sums))
        means.append(sum(s for s, _ in drawn) / sum(n for _, n in drawn))
    means.sort()
    return means[DRAWS // 40], means[-DRAWS // 40]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("models", nargs="+", metavar="FILE.gguf")
    p.add_argument("--texts", nargs="+", required=True, metavar="TEXT")
    args = p.parse_args()
    first = None
    for model in args.models:
        found, name = logps(args.program, model, args.texts)
        n = sum(map(len, found))
        perplexity = math.exp(-sum(map(sum, found)) / n)
        line = f"{name:52} perplexity {perplexity:9.2f} of {n:,} tokens"
        if first:
            differences = [[a - b for a, b in zip(x, y)] for x, y in zip(first, found)]
            low, high = confidence(differences)
            mean = sum(map(sum, differences)) / n
            line += f"; {mean:+.3f} nats a token (95 %: {low:+.3f} … {high:+.3f})"
        print(line, flush=True)
        first = first or found


if __name__ == "__main__":
    main()
