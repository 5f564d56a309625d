#!/usr/bin/env python3
"""The experiments of docs/training.md on repair, and what the engine says of each file: repairs.py OUT CSV STEPS.csv [--jobs N]

OUT has what stories.py wrote. Runs are made once, what is there is kept. Each file is held against the teacher by `cutaway
score --twin` on the stories held out: divergence a token, with where it lies with 95 % confidence (stories drawn again
and again), and perplexity. STEPS.csv has the curves of the trainings."""
import argparse
import csv
import json
import math
import multiprocessing.pool
import os
import random
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DRAWS = 2000
GRID = "--group 32 --format f32"


def trained(begin, *options):
    return {"begin": begin, "options": [o for part in options for o in part.split()]}


def made(verb, begin, options):
    return {"begin": begin, "verb": verb, "options": options.split()}


def sweep():
    """Hinton's loss: a small student from scratch, by temperature, weight of the labels, and seed."""
    common, out = "--steps 200 --lr 4e-3", {}
    for seed in (1, 2):
        out[f"labels-{seed}"] = trained("student", common, f"--hard 1 --seed {seed}")
        for t in (1, 2, 4, 8):
            for hard in (0, 0.1, 0.5):
                if seed == 1 or hard == 0.1 and t < 8:
                    out[f"soft-t{t}-h{hard:g}-{seed}"] = trained("student", common, f"--temperature {t} --hard {hard} --seed {seed}")
    return out


FOUR = "--layers 0,1,4,5"  # of six
STUDIES = {
    "bits": {f"rtn-{b}": made("quantize", "teacher", f"--bits {b} {GRID}") for b in (4, 3, 2)}
    | {f"gptq-{b}": made("quantize", "teacher", f"--method gptq --calibrate calibrate.txt --bits {b} {GRID}") for b in (4, 3, 2)}
    | {f"qat-{b}": trained("teacher", f"--bits {b} --lr 1e-3") for b in (4, 3, 2)}
    | {"qat-2-labels": trained("teacher", "--bits 2 --lr 1e-3 --hard 1"),
       "unrounded": trained("teacher", "--lr 1e-3"), "unrounded-labels": trained("teacher", "--lr 1e-3 --hard 1")},
    "writer": {"layers": trained("teacher", FOUR, "--steps 0"), "full": trained("teacher", FOUR),
               "corpus-labels": trained("teacher", FOUR, "--hard 1"), "corpus-reverse": trained("teacher", FOUR, "--reverse"),
               "teacher-labels": trained("teacher", FOUR, "--hard 1 --writer teacher"),
               "teacher-soft": trained("teacher", FOUR, "--writer teacher"),
               "own-forward": trained("teacher", FOUR, "--writer student"),
               "own-reverse": trained("teacher", FOUR, "--writer student --reverse")},
    "rank": {f"rank-{r}": trained("teacher", FOUR, f"--rank {r} --lr 1e-2") for r in (1, 4, 16)}
    | {"nf4": made("quantize", "layers", "--bits 4 --nf4 --group 32 --format f32"), "nf4-rank-4": trained("nf4", "--rank 4 --lr 1e-2")},
    "labels": sweep(),
}
RUNS = {name: run for study in STUDIES.values() for name, run in study.items()}


class Maker:
    def __init__(self, out, cutaway):
        self.out, self.cutaway = os.path.abspath(out), os.path.abspath(cutaway)
        self.lock = {name: multiprocessing.Lock() for name in RUNS}

    def at(self, name):
        return os.path.join(self.out, name)

    def file(self, name):
        """What is measured of a run: trained below a grid, the file that `cutaway quantize` makes of it."""
        return self.at(f"{name}-grid.gguf" if "--bits" in RUNS[name]["options"] and "verb" not in RUNS[name] else f"{name}.gguf")

    def command(self, *parts):
        subprocess.run(parts, check=True, cwd=self.out, stdout=sys.stderr)

    def make(self, name):
        run = RUNS.get(name)
        if not run:
            return
        self.make(run["begin"])
        with self.lock[name]:
            if os.path.exists(self.file(name)):
                return
            begin = f"{run['begin']}.gguf"
            if "verb" in run:
                return self.command(self.cutaway, run["verb"], *run["options"], begin, f"{name}.gguf")
            self.command(sys.executable, os.path.join(HERE, "repair.py"), begin, "teacher.gguf", "stories.json", f"{name}.gguf",
                         *run["options"])
            if self.file(name) != self.at(f"{name}.gguf"):
                bits = run["options"][run["options"].index("--bits") + 1]
                self.command(self.cutaway, "quantize", "--bits", bits, *GRID.split(), f"{name}.gguf", self.file(name))

    def scores(self, path):
        """(tokens, divergence of them all, sum of log-probabilities) of each text."""
        for text in sorted(os.listdir(self.at("held_out"))):
            told = json.loads(subprocess.run(
                [self.cutaway, "score", "--json", "--model", path, "--twin", self.at("teacher.gguf"), "--threads", "1",
                 self.at(f"held_out/{text}")], check=True, stdout=subprocess.PIPE).stdout)
            yield len(told["logp"]), told["mean_kl"] * len(told["logp"]), sum(told["logp"])


def confidence(scores):
    draw = random.Random(0)
    sums = [draw.choices(scores, k=len(scores)) for _ in range(DRAWS)]
    means = sorted(sum(s[1] for s in drawn) / sum(s[0] for s in drawn) for drawn in sums)
    return means[DRAWS // 40], means[-DRAWS // 40]


def line(maker, study, name):
    """A line of the table: measured once."""
    path = maker.at(f"{name}.scores.json")
    if not os.path.exists(path):
        maker.make(name)
        scores = list(maker.scores(maker.file(name) if name in RUNS else maker.at(name + ".gguf")))
        with open(path, "w") as file:
            json.dump(scores, file)
    with open(path) as file:
        scores = json.load(file)
    n, kl, logp = map(sum, zip(*scores))
    low, high = confidence(scores)
    told = {}
    if os.path.exists(maker.at(f"{name}.json")):
        with open(maker.at(f"{name}.json")) as file:
            told = json.load(file)
    return [study, name, told.get("trained", 0), told.get("tokens", 0), f"{told.get('seconds', 0):.0f}", f"{kl / n:.4f}",
            f"{low:.4f}", f"{high:.4f}", f"{math.exp(-logp / n):.3f}"]


def curves(maker, path):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["run", "step", "loss", "kl"])
        for name in ["teacher", *RUNS]:
            if os.path.exists(maker.at(name + ".csv")):
                with open(maker.at(name + ".csv")) as rows:
                    out.writerows([name, r["step"], r["loss"], r["kl"]] for r in csv.DictReader(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("csv")
    parser.add_argument("steps")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cutaway", default="./cutaway")
    parser.add_argument("--studies", nargs="*", default=list(STUDIES))
    args = parser.parse_args()
    maker = Maker(args.out, args.cutaway)
    wanted = [("", "teacher")] + [(study, name) for study in args.studies for name in STUDIES[study]]
    with multiprocessing.pool.ThreadPool(args.jobs) as pool:
        rows = pool.starmap(lambda *of: line(maker, *of), wanted, chunksize=1)
    with open(args.csv, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["study", "run", "trained", "tokens", "seconds", "kl", "low", "high", "perplexity"])
        out.writerows(rows)
    curves(maker, args.steps)


if __name__ == "__main__":
    sys.exit(main())
