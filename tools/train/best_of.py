#!/usr/bin/env python3
"""A loop in which inference serves training: best_of.py STORIES OUT CSV [--rounds N] [--prompts N] [--of N] …

Each round the engine goes on with --prompts beginnings of stories, --of times each; a larger model judges every answer by the mean
log-probability of its tokens; and the model is trained on the best of each (rejection sampling by a reward: Dong et al. 2023, RAFT),
by labels (repair.py). CSV: by round the mean reward of all answers and of the best ones, how far the model is from where it began (KL,
nats a token, on stories held out), its perplexity there, and what sampling, judging and training took. STORIES: what stories.py wrote.
Rounds that are there are kept."""
import argparse
import csv
import json
import multiprocessing.pool
import os
import subprocess
import sys
import tempfile
import time

from heads import scored

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def program(args, *words, text=""):
    return subprocess.run([args.cutaway, *words], input=text.encode(), check=True, stdout=subprocess.PIPE).stdout.decode("utf-8", "replace")


def beginnings(args, seed):
    """The first words of paragraphs of stories, others in each round."""
    with open(os.path.join(args.stories, "calibrate.txt"), encoding="utf-8") as file:
        all_of = [" ".join(text.split()[:8]) for text in file.read().split("\n\n") if len(text.split()) > 20]
    return [all_of[(seed * args.prompts + i) % len(all_of)] for i in range(args.prompts)]


def answers(args, model, seed):
    """A list of texts for each beginning: it, and what was told on."""
    lines = [text for text in beginnings(args, seed) for _ in range(args.of)]
    told = program(args, "run", "--batch", "-", "--model", model, "--raw", "--temp", "1", "--seed", str(seed), "--max-tokens", "80",
                   "--slots", "16", "--json", "--no-record", text="\n".join(lines) + "\n")
    found = {line["line"] - 1: line["text"] for line in map(json.loads, told.splitlines())}
    texts = [lines[i] + found[i] for i in range(len(lines))]
    return [texts[i:i + args.of] for i in range(0, len(texts), args.of)]


def reward(args, text):
    """Mean log-probability of a text's tokens by the judge."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        logp = json.loads(program(args, "score", "--json", "--threads", "1", "--model", args.judge, file.name))["logp"]
    return sum(logp) / len(logp)


def judged(args, groups):
    with multiprocessing.pool.ThreadPool(args.jobs) as pool:
        flat = pool.map(lambda text: reward(args, text), [text for group in groups for text in group])
    return [flat[i:i + args.of] for i in range(0, len(flat), args.of)]


def train(args, model, texts, out):
    ids = [json.loads(program(args, "tokenize", "--json", "--model", model, text=text)) for text in texts]
    with open(out + "-best.json", "w", encoding="utf-8") as file:
        json.dump({"seen": ids, "held_out": []}, file)
    subprocess.run([sys.executable, os.path.join(HERE, "repair.py"), model, "-", out + "-best.json", out + ".gguf", "--hard", "1", "--steps",
                    str(args.steps), "--lr", "5e-4"], check=True, stdout=sys.stderr)


def one_round(args, n):
    """The line of round n, whose model is the one that round n - 1 trained; and that of round n + 1."""
    at = os.path.join(args.out, f"round{n}")
    model = at + ".gguf" if n else args.begin
    if not os.path.exists(at + ".line.json"):
        clock = [time.time()]
        groups = answers(args, model, n + 1)
        clock.append(time.time())
        rewards = judged(args, groups)
        clock.append(time.time())
        best = [group[r.index(max(r))] for group, r in zip(groups, rewards)]
        if n < args.rounds:
            train(args, model, best, os.path.join(args.out, f"round{n + 1}"))
        clock.append(time.time())
        mean = sum(map(sum, rewards)) / sum(map(len, rewards))
        with open(at + ".line.json", "w", encoding="utf-8") as file:
            json.dump([n, round(mean, 4), round(sum(map(max, rewards)) / len(rewards), 4), *(round(x, 4) for x in scored(args, model)),
                       *(round(b - a, 1) for a, b in zip(clock, clock[1:]))], file)
    with open(at + ".line.json", encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("stories", "out", "csv"):
        parser.add_argument(name)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=48)
    parser.add_argument("--of", type=int, default=4)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--begin", default=os.path.join(ROOT, "demos/models/family/stories-f16.gguf"))
    parser.add_argument("--judge", default=os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    parser.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    rows = [one_round(args, n) for n in range(args.rounds + 1)]
    with open(args.csv, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["round", "reward", "best", "kl", "perplexity", "sampling_s", "judging_s", "training_s"], *rows])


if __name__ == "__main__":
    sys.exit(main())
