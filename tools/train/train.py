#!/usr/bin/env python3
"""Trains one drafter on kept features, and measures what it would have had accepted.

    train.py KIND FEATURES MODEL OUT [--steps N] ...

KIND: eagle, medusa or model. The loss is the cross-entropy with the target's distribution over the trimmed vocabulary,
at the temperature that a chat begins with, at each guessed depth, and for eagle a little of the distance of its
features. Matrices learn by Muon (Jordan 2024), vectors by AdamW; the rates fall linearly to nothing.
OUT/KIND.ckpt is written every 50 steps and gone on from; OUT/KIND.csv has the loss; OUT/KIND.json the acceptance."""
import argparse
import contextlib
import csv
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist

import features
import file
import log
import loop
from drafters import KINDS
from losses import covered, loss_of, trimmed
from measure import Batch, held_out, measure, told
from target import Target


def scale_of(p):
    """Of a matrix's steps: in proportion to its numbers, of which 0.04 is the usual size. One that begins at nothing is
    Medusa's that writes to the target's residual stream itself, and is to take steps of that stream's size (about 30);
    one that begins at a tenth of the usual size is to grow."""
    size = p.detach().square().mean().sqrt().item() / 0.04
    return 30 if not size else 1 if size < 0.15 else min(max(size, 0.3), 3)


def optimizers(drafter, lr):
    wide = [{"params": [p], "scale": scale_of(p)} for p in drafter.parameters() if p.dim() == 2]
    rest = [p for p in drafter.parameters() if p.dim() != 2]
    return [torch.optim.Muon(wide, lr=lr, weight_decay=0, adjust_lr_fn="match_rms_adamw", ns_steps=4),
            torch.optim.AdamW(rest, lr=lr, weight_decay=0, betas=(0.9, 0.95))]


@contextlib.contextmanager
def rounded(drafter, kind):
    """The drafter with its matrices as the file will have them. Their gradients then move the exact ones, as if nothing
    had been rounded (the straight-through estimator; Bengio et al. 2013), so that rounding costs little in the end."""
    exact = [(p, p.data) for p in drafter.parameters() if p.dim() == 2]
    for p, data in exact:
        p.data = file.round_trip(data, kind)
    yield
    for p, data in exact:
        p.data = data


def order_of(rows, tokens, epoch, seed):
    """Batches of one epoch: answers of like length together, so that little is padding, in a new order."""
    rng, parts, part = random.Random(seed * 1000 + epoch), [], []
    length = lambda i: len(rows[i]["ids"]) - rows[i]["start"]
    for i in sorted(range(len(rows)), key=lambda i: (length(i) + rng.randrange(40), i)):
        if part and (len(part) + 1) * max(map(length, part + [i])) > tokens:
            parts.append(part)
            part = []
        part.append(i)
    if len(part) < 4 and parts:  # every worker is to have some
        parts[-1] += part
    else:
        parts.append(part)
    rng.shuffle(parts)
    return parts


class Training:
    def __init__(self, drafter, target, rows, kept, args, path):
        self.drafter, self.target, self.rows, self.kept, self.args, self.path = drafter, target, rows, kept, args, path
        self.head, self.opts = drafter.head.bfloat16(), optimizers(drafter, args.lr)
        self.step, self.epoch, self.parts, self.seconds, self.read = 0, 0, [], 0.0, 0
        self.log = log.Log(None if args.rank else args.record, list(drafter.parameters()), self.opts, training=args.kind,
                           teacher=os.path.basename(args.model), steps=args.steps)
        if os.path.exists(path + ".ckpt"):
            self.go_on(torch.load(path + ".ckpt"))

    def go_on(self, saved):
        self.drafter.load_state_dict(saved["drafter"])
        for opt, state in zip(self.opts, saved["opts"]):
            opt.load_state_dict(state)
        self.step, self.epoch, self.seconds = saved["step"], saved["epoch"], saved["seconds"]
        self.read = saved.get("read", 0)
        parts = order_of(self.rows, self.args.tokens, self.epoch - 1, self.args.seed)
        self.parts = parts[len(parts) - saved["left"]:]

    def save(self):
        torch.save({"drafter": self.drafter.state_dict(), "opts": [o.state_dict() for o in self.opts],
                    "step": self.step, "epoch": self.epoch, "left": len(self.parts), "seconds": self.seconds,
                    "read": self.read, "kind": self.args.kind, "ids": self.drafter.ids, "shape": self.args.shape}, self.path + ".ckpt.part")
        os.rename(self.path + ".ckpt.part", self.path + ".ckpt")

    def set_rate(self):
        """Warm-up, then linear to nothing."""
        rate = loop.rate(self.step, self.args.steps)
        for opt in self.opts:
            for group in opt.param_groups:
                group["lr"] = self.args.lr * rate * group.get("scale", 1)

    def one(self):
        args = self.args
        if not self.parts:
            self.parts, self.epoch = order_of(self.rows, args.tokens, self.epoch, args.seed), self.epoch + 1
        rows = [self.rows[i] for i in self.parts.pop(0)][args.rank::args.workers]
        torch.manual_seed(args.seed * 1000000 + self.step)  # so that a training that was stopped goes on the same
        depth = args.depth if self.step % args.deep == 0 else min(2, args.depth)
        with rounded(self.drafter, args.type), torch.autocast("cpu", torch.bfloat16):
            loss, losses = loss_of(self.drafter, self.target, self.head, rows, Batch(rows), args, depth)
            loss.backward()
        self.average()
        norm = torch.nn.utils.clip_grad_norm_(self.drafter.parameters(), 1.0).item()
        self.set_rate()
        for opt in self.opts:
            opt.step()
            opt.zero_grad()
        self.step += 1
        self.tell(losses, norm, args.workers * sum(len(r["ids"]) - r["start"] for r in rows))
        return losses

    def tell(self, losses, norm, tokens):
        """Loss of the first guess; every 25 steps, how many first guesses of some that are held out are right."""
        self.read += tokens
        if not self.log:
            return
        right = None
        if self.step % 25 == 0:
            with rounded(self.drafter, self.args.type):
                found = measure(self.drafter, self.kept[:16]).values()
            right = sum(f["acceptance"][0] * f["positions"] for f in found) / sum(f["positions"] for f in found)
        self.log.step(self.step, loss=losses[0], gradient=norm, rate=self.opts[0].param_groups[0]["lr"], tokens=self.read,
                      acceptance=right)

    def average(self):
        """The gradients of all workers."""
        if self.args.workers == 1:
            return
        parameters = list(self.drafter.parameters())
        flat = torch.cat([p.grad.flatten() for p in parameters])
        dist.all_reduce(flat)
        flat /= self.args.workers
        for p, grad in zip(parameters, flat.split([p.numel() for p in parameters])):
            p.grad.copy_(grad.view_as(p))

    def run(self):
        out = open(os.devnull if self.args.rank else self.path + ".csv", "a" if self.step else "w", newline="")
        writer, mean, begun = csv.writer(out), [[] for _ in range(self.args.depth)], time.time()
        if not self.step:
            writer.writerow(["step", "epoch"] + [f"loss_{j + 1}" for j in range(self.args.depth)])
        while self.step < self.args.steps:
            for of_depth, loss in zip(mean, self.one()):
                of_depth.append(loss)
            last = self.step == self.args.steps
            if self.step % 10 == 0 or last:
                row = [f"{sum(m) / len(m):.4f}" if m else "" for m in mean]
                writer.writerow([self.step, self.epoch] + row)
                out.flush()
                mean = [[] for _ in mean]
                self.seconds, begun = self.seconds + time.time() - begun, time.time()
                print(f"{self.args.rank}: {self.step} of {self.args.steps}: {' '.join(row)}  {self.seconds / self.step:.2f} s a step",
                      flush=True)
            if not self.args.rank and (self.step % 50 == 0 or last):
                self.save()
        out.close()
        self.log.close()


def fork(args, path):
    """Becomes so many workers, each with its share of every batch; they share cores better than threads, which wait for
    each other in every product."""
    meeting = path + ".meeting"
    if args.workers == 1:
        return 0
    if os.path.exists(meeting):
        os.remove(meeting)
    rank = next((r for r in range(1, args.workers) if not os.fork()), 0)
    if rank:
        os.setsid()
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(meeting), rank=rank,
                            world_size=args.workers)
    return rank


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("features")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch's answers, padding counted")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--depth", type=int, default=3, help="guesses ahead that are trained")
    parser.add_argument("--deep", type=int, default=1, help="every so many steps go all the depth, others 2")
    parser.add_argument("--later", type=float, default=0.8, help="weight of a guess against the one before it")
    parser.add_argument("--others", type=int, default=512, help="rows of the head that are nobody's goal, by chance")
    parser.add_argument("--feature-weight", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=0.7, help="of the target's distribution")
    parser.add_argument("--vocab", type=int, default=8192, help="ids of the trimmed vocabulary")
    parser.add_argument("--lower", default="", help="eagle: layers below the last whose features it reads, too")
    parser.add_argument("--layers", default="0,29", help="model: the target's layers that it begins as")
    parser.add_argument("--heads", type=int, default=4, help="medusa")
    parser.add_argument("--ffn", type=int, default=768, help="medusa")
    parser.add_argument("--begin", help="a drafter's file whose weights it begins with")
    parser.add_argument("--type", choices=file.TYPES, default="q4_1", help="of the file's matrices, which the training knows")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", help="of the files; without it: KIND")
    log.add_option(parser)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    if args.kind != "eagle":
        args.feature_weight = 0
    if args.kind == "model":
        args.depth = 1
    if args.kind == "medusa":
        args.depth = args.heads
    os.makedirs(args.out, exist_ok=True)
    args.shape = {"model": {"layers": [int(i) for i in args.layers.split(",")]},
                  "medusa": {"heads": args.heads, "ffn": args.ffn},
                  "eagle": {"lower": [int(i) for i in filter(None, args.lower.split(","))]}}[args.kind]
    lower = args.shape.get("lower", [])
    target, rows = Target(args.model), features.load(args.features, lower)
    seen = [r for r in rows if not r["held_out"]]
    kept = held_out(rows)
    path = os.path.join(args.out, args.name or args.kind)
    ids = torch.tensor(trimmed(seen, args.vocab, target.c.eos, target.c.vocab))
    coverage = covered(ids.tolist(), [r for r in rows if r["held_out"]])
    if args.begin:
        drafter = file.read(args.begin, target, ids, lower)
    else:
        drafter = KINDS[args.kind](target, ids, **args.shape)
    del target.blocks
    print(f"{args.kind}: {sum(p.numel() for p in drafter.parameters())} parameters, {len(ids)} ids, coverage "
          f"{coverage:.4f}; {len(seen)} conversations of {sum(len(r['ids']) for r in seen)} tokens, {len(kept)} held out",
          flush=True)
    args.rank = fork(args, path)
    training = Training(drafter, target, seen, kept, args, path)
    training.run()
    if args.rank:
        return
    with rounded(drafter, args.type):
        figures = measure(drafter, kept)
    print(told(figures))
    with open(path + ".json", "w") as out:
        json.dump({"args": vars(args), "coverage": coverage, "tokens": sum(len(r["ids"]) for r in seen),
                   "answer_tokens": sum(len(r["ids"]) - r["start"] for r in seen), "epochs": training.epoch,
                   "seconds": round(training.seconds), "held_out": figures}, out, indent=1)


if __name__ == "__main__":
    sys.exit(main())
