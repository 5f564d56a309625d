#!/usr/bin/env python3
"""Tasks of memory, learnt by a member of two layers: recall.py NAME OUT [--task recall|many|delay]

*recall* is associative (MQAR: Arora et al. 2023, section 3): an episode is a point, pairs of a letter and a sign, and then the same
letters in another order, each followed by its sign, which is what is asked. *many* is the same with more pairs than a state holds,
of two letters, which are one token; longer episodes come once the shorter are known, or a quarter of the training later. *delay* is of
synthetic long context: a sign, so many dots (learnt with any number up to those that are asked), a question mark, and the sign again.
All is text, so the program can ask the same. No episode of recall occurs twice.
Whether and when it is learnt depends on the start and the rate, so there are up to three trainings of up to 2,400 steps (of *many* one),
and the best stays: into OUT go TASK-NAME.pt and .csv, of each training the loss by step and the share recalled. One thread."""
import argparse
import csv
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../claims"))
from family import DELAYS, KEYS, MANY, PAIRS, VALUES  # noqa: E402
from member import optimizers  # noqa: E402
from model import BYTES, MEMBERS, RECALL, RECALL_MANY, Family  # noqa: E402

TOKENS, ASKED = 2048, 64
STEPS, RATES, KNOWN, LEARNT = 2400, (5e-3, 1e-2, 2.5e-3), 0.9, 0.999


def ids(text):
    """Tokens of signs of ASCII in GPT-2's order of bytes."""
    return torch.tensor([ord(c) - 33 for c in text])


def episodes(rows, pairs, draw, names=ids(KEYS)):
    """[rows, 4 pairs + 1]; what is asked stands at 2 pairs + 2, 2 pairs + 4 … names: tokens of the keys."""
    keys = torch.rand(rows, len(names), generator=draw).argsort(1)[:, :pairs]
    values = torch.randint(len(VALUES), (rows, pairs), generator=draw)
    again = torch.rand(rows, pairs, generator=draw).argsort(1)
    pair = torch.stack((names[keys], ids(VALUES)[values]), 2)
    asked = pair.gather(1, again[..., None].expand(-1, -1, 2))
    return torch.cat((ids(".").expand(rows, 1), pair.flatten(1), asked.flatten(1)), 1)


def many(rows, pairs, draw):
    """The same; the tokens of two letters follow those of bytes."""
    return episodes(rows, pairs, draw, torch.arange(BYTES, RECALL_MANY.vocab))


def delayed(rows, dots, draw):
    """[rows, dots + 3]; what is asked is the last."""
    value = ids(VALUES)[torch.randint(len(VALUES), (rows, 1), generator=draw)]
    return torch.cat((value, ids(".").expand(rows, dots), ids("?").expand(rows, 1), value), 1)


def up_to(most, draw):
    return int(torch.randint(1, most + 1, (1,), generator=draw))


# shape; is it learnt by size; episodes; sizes that are asked, and of these one to learn from; where the first is asked (each second one
# from there on), tokens
PAIRED = lambda pairs, _: pairs, lambda pairs: 2 * pairs + 2, lambda pairs: 4 * pairs + 1
TASKS = {"recall": (RECALL, False, episodes, PAIRS, *PAIRED), "many": (RECALL_MANY, True, many, MANY, *PAIRED),
         "delay": (RECALL, False, delayed, DELAYS, up_to, lambda dots: dots + 2, lambda dots: dots + 3)}


class Task:
    def __init__(self, name):
        self.shape, self.by_size, self.episodes, self.sizes, self.size, self.first, self.tokens = TASKS[name]

    def answers(self, model, rows, size):
        """Logits of what is asked, what it is, and what the routers' imbalance costs."""
        logits, balance = model(rows[:, :-1])
        return logits[:, self.first(size) - 1::2].flatten(0, 1).float(), rows[:, self.first(size)::2].flatten(), balance

    def loss(self, model, size, draw):
        logits, want, balance = self.answers(model, self.episodes(max(1, TOKENS // self.tokens(size)), size, draw), size)
        return F.cross_entropy(logits, want) + 0.01 * balance

    def recalled(self, model, size):
        """Of the episodes that everybody is asked."""
        with torch.no_grad():
            rows = self.episodes(ASKED, size, torch.Generator().manual_seed(size))
            logits, want, _ = self.answers(model, rows, size)
            return (logits.argmax(-1) == want).float().mean().item()


def train(task, model, seed, rate):
    """Every 100 steps a row: step, loss since the row before, the share recalled by size. Ends when all is."""
    draw, opts, read = torch.Generator().manual_seed(1000 + seed), optimizers(model, rate), []
    known = 0 if task.by_size else len(task.sizes) - 1
    for step in range(STEPS):
        value = task.loss(model, task.size(task.sizes[step % (known + 1)], draw), draw)
        for opt in opts:
            opt.zero_grad()
            opt.param_groups[0]["lr"] = rate * min(1, (step + 1) / 50) * (1 - step / STEPS)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
        read.append(value.item())
        if step % 100 == 99:
            shares, mean, read = [task.recalled(model, n) for n in task.sizes], sum(read) / len(read), []
            yield step + 1, mean, *shares
            known += known + 1 < len(shares) and (shares[known] > KNOWN or (step + 1) % (STEPS // len(shares)) == 0)
            if min(shares) >= LEARNT:
                return


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=[n for n in MEMBERS if n != "diffusion"])
    parser.add_argument("out")
    parser.add_argument("--task", choices=TASKS, default="recall")
    args = parser.parse_args()
    torch.set_num_threads(1)
    task, path, best = Task(args.task), os.path.join(args.out, f"{args.task}-{args.name}"), -1
    if os.path.exists(path + ".pt"):
        return
    with open(path + ".csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["seed", "rate", "step", "loss", *(f"recalled of {n}" for n in task.sizes)])
        for seed, rate in enumerate(RATES[:1] if task.by_size else RATES, 1):
            if best >= len(task.sizes) * LEARNT:
                break
            model = Family(task.shape, args.name, seed)
            for row in train(task, model, seed, rate):
                writer.writerow([seed, rate, row[0], *(f"{x:.4f}" for x in row[1:])])
                file.flush()
            if sum(row[2:]) > best:
                best, kept = sum(row[2:]), model.state_dict()
    torch.save(kept, path + ".pt")
    print(path, best / len(task.sizes), flush=True)


if __name__ == "__main__":
    sys.exit(main())
