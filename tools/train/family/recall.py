#!/usr/bin/env python3
"""Associative recall (MQAR: Arora et al. 2023, section 3), learnt by a member of two layers: recall.py NAME OUT [--seed N]

An episode is a point, pairs of a letter and a sign, and then the same letters in another order, each followed by its
sign, which is what is asked. All are one byte of text, so `cutaway score` can ask the same. No episode occurs twice.
Into OUT: recall-NAME-SEED.pt, .csv: loss by step and the share recalled. One thread."""
import argparse
import csv
import os
import sys

import torch
import torch.nn.functional as F

from member import optimizers
from model import MEMBERS, RECALL, Family

KEYS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
VALUES = "0123456789!#$%&()*+,-/:;<=>?@[]^_{|}~"
PAIRS, TOKENS, ASKED = (4, 8, 16, 32), 2048, 64


def ids(text):
    """Tokens of signs of ASCII in GPT-2's order of bytes."""
    return torch.tensor([ord(c) - 33 for c in text])


def episodes(rows, pairs, draw):
    """[rows, 4 pairs + 1]; what is asked stands at 2 pairs + 2, 2 pairs + 4 …"""
    keys = torch.rand(rows, len(KEYS), generator=draw).argsort(1)[:, :pairs]
    values = torch.randint(len(VALUES), (rows, pairs), generator=draw)
    again = torch.rand(rows, pairs, generator=draw).argsort(1)
    pair = torch.stack((ids(KEYS)[keys], ids(VALUES)[values]), 2)
    asked = pair.gather(1, again[..., None].expand(-1, -1, 2))
    return torch.cat((ids(".").expand(rows, 1), pair.flatten(1), asked.flatten(1)), 1)


def asked(pairs):
    return slice(2 * pairs + 2, None, 2)


def held_out(pairs):
    """The episodes that everybody is asked."""
    return episodes(ASKED, pairs, torch.Generator().manual_seed(pairs))


def text(row):
    return "".join(chr(i + 33) for i in row.tolist())


def loss(model, rows, pairs):
    logits, balance = model(rows[:, :-1])
    want = asked(pairs)
    logits = logits[:, want.start - 1::2]
    return F.cross_entropy(logits.flatten(0, 1).float(), rows[:, want].flatten()) + 0.01 * balance


def recalled(model, pairs):
    with torch.no_grad():
        rows = held_out(pairs)
        logits = model(rows[:, :-1])[0][:, asked(pairs).start - 1::2]
        return (logits.argmax(-1) == rows[:, asked(pairs)]).float().mean().item()


def train(args, model):
    """Every 100 steps a row: step, loss since the row before, the share recalled by numbers of pairs."""
    draw, opts, read = torch.Generator().manual_seed(1000 + args.seed), optimizers(model, args.lr), []
    for step in range(args.steps):
        pairs = PAIRS[step % len(PAIRS)]
        value = loss(model, episodes(TOKENS // (4 * pairs + 1), pairs, draw), pairs)
        for opt in opts:
            opt.zero_grad()
            opt.param_groups[0]["lr"] = args.lr * min(1, (step + 1) / 50) * (1 - step / args.steps)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        read.append(value.item())
        if step % 100 == 99:
            yield [step + 1, f"{sum(read) / len(read):.4f}", *(f"{recalled(model, n):.3f}" for n in PAIRS)]
            read = []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=[n for n in MEMBERS if n != "diffusion"])
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--lr", type=float, default=5e-3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = os.path.join(args.out, f"recall-{args.name}-{args.seed}")
    if os.path.exists(path + ".pt"):
        return
    model = Family(RECALL, args.name, args.seed)
    with open(path + ".csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["step", "loss", *(f"recalled of {n}" for n in PAIRS)])
        for row in train(args, model):
            writer.writerow(row)
            file.flush()
    torch.save(model.state_dict(), path + ".pt")
    print(path, row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
