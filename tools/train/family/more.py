#!/usr/bin/env python3
"""Members that came later, and those they are compared with, all on a tenth of the family's tokens: more.py STORIES OUT CSV

Each is trained by member.py on STORIES (../stories.py); what is there is kept. Of each the engine says its loss, in nats a token of
the stories that no training read, and what a request keeps."""
import csv
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../claims"))
import family  # noqa: E402
import torch  # noqa: E402
from export import write  # noqa: E402
from model import TEXT, Family  # noqa: E402

RUNS = ("multi-head", "one-global", "mamba2", "s4d", "mamba1", "lightning", "jamba-experts", "one-global-shared", "relu", "relu2")
BUDGET = "--rows", "4", "--steps", "120", "--floats"


def line(stories, out, name):
    tool = [sys.executable, os.path.join(HERE, "member.py"), name, out, "--stories", stories, *BUDGET]
    subprocess.run(tool, check=True)
    model = Family(TEXT, name, 1)
    model.load_state_dict(torch.load(os.path.join(out, name + "-1.pt")))
    write(family.path(name), name, model, os.path.join(os.path.dirname(stories), "begin.gguf"))
    kept = family.kept(name)
    return [name, family.numbers(name), f"{family.loss(name):.4f}", kept.token, kept.fixed]


def main():
    stories, out, path = sys.argv[1:]
    held_out = os.path.join(family.FOLDER, "held_out")
    family.FOLDER = os.path.abspath(out)
    os.makedirs(out, exist_ok=True)
    if not os.path.exists(os.path.join(out, "held_out")):
        os.symlink(held_out, os.path.join(out, "held_out"))
    rows = [line(stories, out, name) for name in RUNS]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["name", "numbers", "loss", "token_bytes", "request_bytes"], *rows])


if __name__ == "__main__":
    sys.exit(main())
