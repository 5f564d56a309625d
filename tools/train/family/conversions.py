#!/usr/bin/env python3
"""Members of other architectures made of multi-head attention's weights (convert.py), and what the engine says of them:
conversions.py STORIES OUT CSV. Runs that are there are kept. Loss: nats a token of the stories that no training of the family read."""
import csv
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../claims"))
import family  # noqa: E402

RUNS = {f"{name}-{begin}": [name, "--begin", begin] for name in ("jamba", "based") for begin in ("copied", "nothing")}
RUNS["jamba-hard"] = ["jamba", "--hard"]


def line(stories, out, run):
    at = os.path.join(out, run)
    if not os.path.exists(at + ".json"):
        name, *options = RUNS[run]
        subprocess.run([sys.executable, os.path.join(HERE, "convert.py"), name, stories, at, "--steps", "120", *options], check=True)
    with open(at + ".json", encoding="utf-8") as file:
        made = json.load(file)
    return [run, made["args"]["name"], made["args"]["steps"], made["seconds"], made["numbers"], made["taken"],
            f"{family.loss(run, at + '.gguf'):.4f}"]


def main():
    stories, out, path = sys.argv[1:]
    os.makedirs(out, exist_ok=True)
    rows = [["multi-head", "multi-head", 0, 0, 0, 0, f"{family.loss('multi-head'):.4f}"], *(line(stories, out, run) for run in RUNS)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["run", "member", "steps", "seconds", "numbers", "taken", "loss"], *rows])


if __name__ == "__main__":
    sys.exit(main())
