#!/usr/bin/env python3
"""What the members are worth: table.py DATA FOLDER docs/family.md

Loss, recall, memory and speed of the files in FOLDER, all by the program (tools/claims/family.py; the loss of the diffusion
member, a bound, by torch). Replaces the lines between the marks of docs/family.md, and writes docs/family.csv (losses by
seed), docs/family_steps.csv and docs/family.svg (losses while they were trained)."""
import csv
import glob
import os
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
sys.path.insert(0, os.path.join(ROOT, "tools/claims"))
import family as engine  # noqa: E402
from export import write  # noqa: E402
from member import masked  # noqa: E402
from model import FILLS, LADDER, MEMBERS, TEXT, Family  # noqa: E402
from text import LENGTH  # noqa: E402

BEGIN, END = "<!-- table.py begins -->\n", "<!-- table.py ends -->\n"
DRAWN = ("multi-head", "window", "based", "mamba2", "jamba", "latent")


def trained(data, name):
    return sorted(glob.glob(os.path.join(data, f"{name}-{FILLS + '-' if name == 'diffusion' else ''}[0-9].pt")))


def load(path, name):
    model = Family(LADDER[FILLS] if name == "diffusion" else TEXT, name, 1)
    model.load_state_dict(torch.load(path))
    return model


def bound(data):
    """Of the diffusion member: its mean over 8 draws of masks of the stories held out (see member.py, masked)."""
    model, text = load(trained(data, "diffusion")[0], "diffusion"), torch.load(os.path.join(data, "text.pt"))["held_out"].long()
    rows, draw = text[:len(text) // LENGTH * LENGTH].view(-1, LENGTH), torch.Generator().manual_seed(1)
    with torch.no_grad():
        return sum(masked(model, rows, draw)[0].item() for _ in range(8)) / 8


def losses(data, folder):
    """[(name, seed, loss)], by the files as they are shipped: in 8 bits."""
    for name in MEMBERS:
        for path in trained(data, name):
            seed = path[-4]
            if name == "diffusion":
                yield name, seed, bound(data)
            elif seed == "1":
                yield name, seed, engine.loss(name, os.path.join(folder, name + ".gguf"))
            else:
                with tempfile.TemporaryDirectory() as temporary:
                    file = os.path.join(temporary, name + ".gguf")
                    write(file, name, load(path, name), os.path.join(data, "begin.gguf"))
                    yield name, seed, engine.loss(name, file)


def curves(data, name):
    for path in glob.glob(os.path.join(data, f"{name}-1.csv")):
        with open(path, encoding="utf-8") as file:
            yield from ((name, row["step"], row["loss"]) for row in csv.DictReader(file))


def save(name, head, rows):
    with open(os.path.join(ROOT, "docs", name), "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])


def size(n):
    return f"{n:,.0f}" if n else "0"


def row(name, all_losses):
    mine = [loss for other, _, loss in all_losses if other == name]
    said = " ".join(f"{x:.3f}" for x in mine)
    if name == "diffusion":
        return f"| {name} | ≤ {said} | | | | | |"
    recall = ", ".join(f"{engine.recall(name, n):.0%}" for n in engine.PAIRS)
    kept, speed = engine.kept(name), engine.throughput(name)
    ms = ", ".join(f"{engine.decode(name, n).median:.2f}" for n in engine.DEPTHS)
    return f"| {name} | {said} | {recall} | {size(kept.token)} | {size(kept.fixed)} | {ms} | {speed.fit}: {speed.tok_s:,.0f} |"


def main():
    data, folder, page = sys.argv[1:]
    engine.FOLDER = os.path.abspath(folder)
    found = list(losses(data, folder))
    save("family.csv", ["name", "seed", "loss"], [(n, s, f"{x:.4f}") for n, s, x in found])
    save("family_steps.csv", ["run", "step", "loss"], [c for name in MEMBERS for c in curves(data, name)])
    with open(os.path.join(ROOT, "docs/family.svg"), "w", encoding="utf-8") as file:
        subprocess.run([sys.executable, os.path.join(HERE, "../curves.py"), os.path.join(ROOT, "docs/family_steps.csv"), "--value",
                        "loss", "--said", "cross-entropy, nats", "--runs", *DRAWN], stdout=file, check=True)
    lines = [row(name, found) for name in MEMBERS if trained(data, name)]
    head = ["| member | loss, by seed | recall of 4, 8, 16, 32 pairs | bytes a token | bytes in any case | ms a token, 64, 1,024, "
            "8,192 deep | at once: tokens a second |", "| --- | --- | --- | --- | --- | --- | --- |"]
    with open(page, encoding="utf-8") as file:
        text = file.read()
    before, rest = text.split(BEGIN)
    with open(page, "w", encoding="utf-8") as file:
        file.write(before + BEGIN + "\n".join(head + lines) + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    sys.exit(main())
