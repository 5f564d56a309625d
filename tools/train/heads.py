#!/usr/bin/env python3
"""Medusa's heads alone, and trained together with their model (joint.py): heads.py STORIES OUT CSV [--begin FILE] [--cutaway PROGRAM]

What the engine says of each: tokens a step and in how many of them a first guess is kept, over stories told at temperature 0.8, with as many
without a drafter, whose answers must be equal; how far the model went from what it was (KL, nats a token, on stories held out), and
its perplexity. OUT has joint.py's files; those that are there are kept. STORIES: what stories.py wrote."""
import argparse
import csv
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = {"heads": [], "joint": ["--joint"], "joint-keep": ["--joint", "--keep"]}
ROOT = os.path.dirname(os.path.dirname(HERE))
TELL = ["--raw", "--temp", "0.8", "--seed", "5", "--max-tokens", "160"]


def texts(stories):
    folder = os.path.join(stories, "held_out")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def told(args, model, *options):
    """Answers to the first words of each story, and (tokens, steps, kept, tried) of their decode steps."""
    answers, sums = [], [0] * 4
    for path in texts(args.stories):
        with open(path, encoding="utf-8") as file:
            begin = " ".join(file.read().split()[:10])
        with tempfile.TemporaryDirectory() as folder:
            db = os.path.join(folder, "t.db")
            answers.append(subprocess.run([args.cutaway, "run", "--model", model, *TELL, *options, "--record", db, begin], check=True,
                                          capture_output=True).stdout)
            rows = sqlite3.connect(db)
            found = (*rows.execute("SELECT sum(tokens), count(*) FROM step WHERE prefill_rows = 0").fetchone(),
                     *rows.execute("SELECT sum(kept), count(*) FROM (SELECT max(verdict = 0) AS kept FROM draft WHERE depth = 1 "
                                   "GROUP BY step, request HAVING max(verdict <> 2))").fetchone())
            rows.close()
        sums = [a + (b or 0) for a, b in zip(sums, found)]
    return answers, sums


def scored(args, model):
    """Divergence from the beginning and perplexity, over all stories held out."""
    logp = kl = n = 0
    for path in texts(args.stories):
        one = json.loads(subprocess.run([args.cutaway, "score", "--json", "--model", model, "--twin", args.begin, path], check=True,
                                        stdout=subprocess.PIPE).stdout)
        logp, kl, n = logp + sum(one["logp"]), kl + one["mean_kl"] * len(one["logp"]), n + len(one["logp"])
    return kl / n, math.exp(-logp / n)


def line(args, name):
    at = os.path.join(args.out, name)
    if not os.path.exists(at + ".json"):
        subprocess.run([sys.executable, os.path.join(HERE, "joint.py"), args.begin, os.path.join(args.stories, "stories.json"), at,
                        *RUNS[name]], check=True, stdout=sys.stderr)
    plain, (tokens, steps, _, _) = told(args, at + ".gguf")
    drafted, (more, fewer, kept, tried) = told(args, at + ".gguf", "--spec", f"medusa:{at}-heads.gguf,3,6,0")
    if plain != drafted:
        raise SystemExit(f"{name}: the answers differ with the drafter")
    with open(at + ".json", encoding="utf-8") as file:
        made = json.load(file)
    kl, perplexity = scored(args, at + ".gguf")
    return [name, made["params"], made["weight_bytes"], made["gradient_bytes"], made["optimizer_bytes"], made["args"]["steps"], made["seconds"], f"{kl:.4f}", f"{perplexity:.3f}", f"{tokens / steps:.3f}",
            f"{more / fewer:.3f}", f"{kept / tried:.3f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("stories", "out", "csv"):
        parser.add_argument(name)
    parser.add_argument("--begin", default=os.path.join(ROOT, "demos/models/family/stories-f16.gguf"))
    parser.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rows = [line(args, name) for name in RUNS]
    with open(args.csv, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["run", "trained", "weight_bytes", "gradient_bytes", "optimizer_bytes", "steps", "seconds", "kl", "perplexity", "plain", "tokens_a_step", "first_kept"])
        out.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
