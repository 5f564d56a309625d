#!/usr/bin/env python3
"""The experiments of docs/training.md on repair, and what the engine says of each file: repairs.py OUT CSV STEPS.csv [--jobs N]

OUT has what stories.py wrote. Runs are made once, what is there is kept. Each file is held against the teacher by `cutaway
score --twin` on the stories held out: divergence a token, with where it lies with 95 % confidence (stories drawn again
and again), and perplexity; the writers' answers by what the teacher and they themselves think of them, nats a token. STEPS.csv has
the curves of the trainings."""
import argparse
import csv
import itertools
import json
import math
import multiprocessing.pool
import os
import random
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
DRAWS = 2000
GRID = "--group 32 --format f32"


def trained(begin, options=""):
    return {"begin": begin, "options": options.split()}


def made(verb, begin, options):
    return {"begin": begin, "verb": verb, "options": options.split()}


def places():
    """Two of six layers, wherever they are, and each file's repair."""
    pairs = [f"{a}{b}" for a, b in itertools.combinations(range(6), 2)]
    return {f"without-{pair}": {"begin": "teacher", "without": pair, "options": []} for pair in pairs} \
        | {f"without-{pair}-full": trained(f"without-{pair}", SHORT) for pair in pairs}


def sweep():
    """Hinton's loss: a small student from scratch, by temperature, weight of the labels, and seed."""
    cells = [(1, 0, 1), (1, 0.1, 1), (1, 0.5, 1), (2, 0, 1), (1, 1, 1), (4, 0, 1), (2, 0.1, 1), (1, 1, 2), (1, 0.1, 2), (4, 0.1, 1)]
    return {f"t{t}-labels{hard:g}-seed{seed}": trained("student", f"--steps 1500 --lr 4e-3 --temperature {t} --hard {hard} --seed {seed}")
            for t, hard, seed in cells}


CALIBRATE, SHORT = "--calibrate calibrate.txt", "--steps 60 "
STUDIES = {
    "bits": {f"rtn-{b}": made("quantize", "teacher", f"--bits {b} {GRID}") for b in (4, 3, 2)}
    | {f"gptq-{b}": made("quantize", "teacher", f"--method gptq {CALIBRATE} --bits {b} {GRID}") for b in (4, 3, 2)}
    | {f"qat-{b}": trained("teacher", f"--bits {b} --lr 1e-3") for b in (4, 3, 2)}
    | {"qat-2-labels": trained("teacher", "--bits 2 --lr 1e-3 --hard 1"), "unrounded-labels": trained("teacher", "--lr 1e-3 --hard 1")},
    "writer": {"layers": made("prune", "teacher", f"--method layers --remove 2 {CALIBRATE}"),
               "full": trained("layers", SHORT), "corpus-labels": trained("layers", SHORT + "--hard 1"),
               "corpus-reverse": trained("layers", SHORT + "--reverse"),
               "teacher-labels": trained("layers", SHORT + "--hard 1 --writer teacher"),
               "teacher-soft": trained("layers", SHORT + "--writer teacher"),
               "own-forward": trained("layers", SHORT + "--writer student"),
               "own-reverse": trained("layers", SHORT + "--writer student --reverse")},
    "rank": {f"rank-{r}": trained("layers", SHORT + f"--rank {r} --lr 1e-2") for r in (1, 4, 16)}
    | {"nf4": made("quantize", "layers", "--bits 4 --nf4 --group 32 --format f32"),
       "nf4-rank-4": trained("nf4", SHORT + "--rank 4 --lr 1e-2")},
    "pruned": {"channels": made("prune", "teacher", f"--method channels --remove 128 {CALIBRATE}"),
               "channels-full": trained("channels", SHORT),
               "heads": made("prune", "teacher", f"--method heads --remove 1 {CALIBRATE}"),
               "heads-full": trained("heads", SHORT),
               "zeros": made("prune", "teacher", f"--method wanda --pattern 2:4 {CALIBRATE}"),
               "zeros-full": trained("zeros", SHORT)},
    "places": places(),
    "labels": sweep(),
}
RUNS = {name: run for study in STUDIES.values() for name, run in study.items()}


def without_layers(source, path, gone):
    """The file without these layers, the others numbered anew."""
    import model_file  # torch, which only who makes files needs
    from target import read_gguf
    meta, tensors = read_gguf(source)
    stay = [i for i in range(meta["llama.block_count"]) if i not in gone]
    for name in [n for n in tensors if n.startswith("blk.")]:
        _, layer, rest = name.split(".", 2)
        values = tensors.pop(name)
        if int(layer) in stay:
            tensors[f"blk.{stay.index(int(layer))}.{rest}"] = values
    model_file.write(path, source, tensors, {"llama.block_count": len(stay), "general.name": os.path.basename(path)})


class Maker:
    def __init__(self, out, cutaway):
        self.out, self.cutaway = os.path.abspath(out), os.path.abspath(cutaway)
        self.lock = {name: threading.Lock() for name in RUNS}

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
            if "without" in run:
                return without_layers(self.at("teacher.gguf"), self.at(f"{name}.gguf"), set(map(int, run["without"])))
            if "verb" in run:
                return self.command(self.cutaway, run["verb"], *run["options"], begin, f"{name}.gguf")
            self.command(sys.executable, os.path.join(HERE, "repair.py"), begin, "teacher.gguf", "stories.json", f"{name}.gguf",
                         *run["options"])
            if self.file(name) != self.at(f"{name}.gguf"):
                bits = run["options"][run["options"].index("--bits") + 1]
                self.command(self.cutaway, "quantize", "--bits", bits, *GRID.split(), f"{name}.gguf", self.file(name))

    def made(self, name):
        """The file, which is made if it is not there."""
        self.make(name)
        return self.file(name) if name in RUNS else self.at(name + ".gguf")

    def scores(self, path):
        """(tokens, divergence of them all, sum of log-probabilities) of each text."""
        for text in sorted(os.listdir(self.at("held_out"))):
            told = json.loads(subprocess.run(
                [self.cutaway, "score", "--json", "--model", path, "--twin", self.at("teacher.gguf"), "--threads", "1",
                 self.at(f"held_out/{text}")], check=True, stdout=subprocess.PIPE).stdout)
            yield len(told["logp"]), told["mean_kl"] * len(told["logp"]), sum(told["logp"])

    def answer(self, path, begin, seed):
        """What the model writes after these words, drawn from its own distribution."""
        told = subprocess.run([self.cutaway, "run", "--model", path, "--raw", "--temp", "1", "--seed", str(seed), "--max-tokens", "160",
                               "--no-record", "--threads", "1", begin], check=True, stdout=subprocess.PIPE)
        return told.stdout.decode(errors="ignore")  # the last character may be half there

    def logp(self, path, text):
        told = subprocess.run([self.cutaway, "score", "--json", "--model", path, "--threads", "1", "/dev/stdin"], check=True,
                              stdout=subprocess.PIPE, input=text, text=True)
        return json.loads(told.stdout)["logp"]

    def judged(self, path):
        """Of answers that the model writes to the beginnings of the stories held out: (tokens, logarithms of their probability by the
        teacher, by itself)."""
        for seed, text in enumerate(sorted(os.listdir(self.at("held_out")))):
            with open(self.at(f"held_out/{text}")) as file:
                begin = " ".join(file.read().split()[:12])
            whole = begin + self.answer(path, begin, seed)
            teacher, own = (self.logp(p, whole)[len(self.logp(p, begin)):] for p in (self.at("teacher.gguf"), path))
            yield len(own), sum(teacher), sum(own)


def confidence(scores):
    draw = random.Random(0)
    sums = [draw.choices(scores, k=len(scores)) for _ in range(DRAWS)]
    means = sorted(sum(s[1] for s in drawn) / sum(s[0] for s in drawn) for drawn in sums)
    return means[DRAWS // 40], means[-DRAWS // 40]


def kept(path, measure):
    """What was measured before, or is now."""
    if not os.path.exists(path):
        found = list(measure())
        with open(path, "w") as file:
            json.dump(found, file)
    with open(path) as file:
        return json.load(file)


def line(maker, study, name):
    """A line of the table: measured once."""
    scores = kept(maker.at(f"{name}.scores.json"), lambda: maker.scores(maker.made(name)))
    n, kl, logp = map(sum, zip(*scores))
    judged = ["", ""]
    if study in ("", "writer"):
        tokens, teacher, own = map(sum, zip(*kept(maker.at(f"{name}.judged.json"), lambda: maker.judged(maker.made(name)))))
        judged = [f"{-teacher / tokens:.4f}", f"{-own / tokens:.4f}"]
    low, high = confidence(scores)
    told = {}
    if os.path.exists(maker.at(f"{name}.json")):
        with open(maker.at(f"{name}.json")) as file:
            told = json.load(file)
    return [study, name, told.get("trained", 0), told.get("tokens", 0), f"{told.get('seconds', 0):.0f}", f"{kl / n:.4f}",
            f"{low:.4f}", f"{high:.4f}", f"{math.exp(-logp / n):.3f}", *judged]


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
        out.writerow(["study", "run", "trained", "tokens", "seconds", "kl", "low", "high", "perplexity", "own_by_teacher", "own"])
        out.writerows(rows)
    curves(maker, args.steps)


if __name__ == "__main__":
    sys.exit(main())
