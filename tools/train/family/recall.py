#!/usr/bin/env python3
"""Associative recall (MQAR: Arora et al. 2023, section 3), learnt by a member of two layers: recall.py NAME OUT

An episode is a point, pairs of a letter and a sign, and then the same letters in another order, each followed by its
sign, which is what is asked. All are one byte of text, so `cutaway score` can ask the same. No episode occurs twice.
Whether and when it is learnt depends on the start and the rate, so there are up to three trainings of up to 2,400 steps, and
the best stays: into OUT go recall-NAME.pt and .csv, of each training the loss by step and the share recalled. One thread."""
import argparse
import csv
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../claims"))
from family import KEYS, PAIRS, VALUES  # noqa: E402
from member import optimizers  # noqa: E402
from model import MEMBERS, RECALL, Family  # noqa: E402

TOKENS, ASKED = 2048, 64
STEPS, RATES, LEARNT = 2400, (5e-3, 1e-2, 2.5e-3), 0.999


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


def train(model, seed, rate):
    """Every 100 steps a row: step, loss since the row before, the share recalled by numbers of pairs. Ends when all is."""
    draw, opts, read = torch.Generator().manual_seed(1000 + seed), optimizers(model, rate), []
    for step in range(STEPS):
        pairs = PAIRS[step % len(PAIRS)]
        value = loss(model, episodes(TOKENS // (4 * pairs + 1), pairs, draw), pairs)
        for opt in opts:
            opt.zero_grad()
            opt.param_groups[0]["lr"] = rate * min(1, (step + 1) / 50) * (1 - step / STEPS)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        read.append(value.item())
        if step % 100 == 99:
            shares, mean, read = [recalled(model, n) for n in PAIRS], sum(read) / len(read), []
            yield step + 1, mean, *shares
            if min(shares) >= LEARNT:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=[n for n in MEMBERS if n != "diffusion"])
    parser.add_argument("out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    path, best = os.path.join(args.out, f"recall-{args.name}"), -1
    if os.path.exists(path + ".pt"):
        return
    with open(path + ".csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "rate", "step", "loss", *(f"recalled of {n}" for n in PAIRS)])
        for seed, rate in enumerate(RATES, 1):
            if best >= len(PAIRS) * LEARNT:
                break
            model = Family(RECALL, args.name, seed)
            for row in train(model, seed, rate):
                writer.writerow([seed, rate, row[0], *(f"{x:.4f}" for x in row[1:])])
                file.flush()
            if sum(row[2:]) > best:
                best, kept = sum(row[2:]), model.state_dict()
    torch.save(kept, path + ".pt")
    print(path, best / len(PAIRS), flush=True)


if __name__ == "__main__":
    sys.exit(main())
