#!/usr/bin/env python3
"""Trains a model together with the Medusa heads that draft for it, or the heads alone.

    joint.py BEGIN.gguf STORIES OUT [--joint] [--steps N] [--warm N] …

Medusa-1 (Cai et al. 2024, section 2.2.1): the model stays as it is, the heads learn the text. Medusa-2 (--joint, section 2.2.2):
after --warm steps of the heads alone the model learns, too, at a tenth of their rate; the loss is the text's cross-entropy of the
model, or with --keep its divergence from what it was, plus --heads-weight times that of the heads, 0.8 ** i for head i.
OUT-heads.gguf is the drafter (`--spec medusa:OUT-heads.gguf`), OUT.gguf, F32, the model that it is of, and OUT.json says what was
trained. Draws are keyed by seed and step. One thread."""
import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

import file
import log
import loop
import model_file
from drafters import Medusa
from losses import divergence
from narrow import values
from repair import LENGTH, Student
from target import Target, rms

LATER, SLOWER, BATCH = 0.8, 0.1, 8


class Training:
    def __init__(self, args):
        self.args, self.step = args, 0
        self.model, self.exact = Student(args.begin), Target(args.begin)
        self.heads = Medusa(self.exact, torch.arange(self.exact.c.vocab), args.heads, args.ffn)
        self.text, self.kept = loop.stories(args.stories)
        self.mine = list(self.model.requires_grad_(args.joint).parameters()) * args.joint
        groups = [{"params": list(self.heads.parameters()), "by": 1.0}] + [{"params": self.mine, "by": SLOWER}] * args.joint
        self.opt = torch.optim.AdamW(groups, lr=args.lr, weight_decay=0, betas=(0.9, 0.95))
        self.log = log.Log(args.record, [p for g in groups for p in g["params"]], [self.opt], training=os.path.basename(args.out),
                           teacher=os.path.basename(args.begin) if args.keep else None, steps=args.steps)

    def ahead(self, h, i):
        """Logits of head i at each place but the last ones: of the token after the next, and so on."""
        head = self.model.head if self.training_model() else self.model.head.detach()
        y = self.heads.guess(h[:, :-2 - i] if self.training_model() else h[:, :-2 - i].detach(), i)
        return F.linear(rms(y, self.heads.norm_of(i), self.exact.c.eps), head)

    def losses(self, ids):
        """Of the model, and of each head."""
        h = self.model.features(ids)
        own = self.model.logits(h)[:, :-1].flatten(0, 1)
        if self.args.keep:
            with torch.no_grad():
                was = self.exact.logits(self.exact.features(ids))[:, :-1].flatten(0, 1)
            first = divergence(was, own)
        else:
            first = F.cross_entropy(own, ids[:, 1:].flatten())
        of_heads = [F.cross_entropy(self.ahead(h, i).flatten(0, 1), ids[:, 2 + i:].flatten()) for i in range(self.args.heads)]
        return first, of_heads

    def training_model(self):
        return self.args.joint and self.step >= self.args.warm

    def one(self):
        first, of_heads = self.losses(loop.rows(self.text, BATCH, LENGTH, self.args.seed, self.step)[0])
        heads = sum(one * LATER ** i for i, one in enumerate(of_heads))
        self.opt.zero_grad()
        (first * self.training_model() + self.args.heads_weight * heads).backward()
        norm = torch.nn.utils.clip_grad_norm_([p for g in self.opt.param_groups for p in g["params"] if p.grad is not None], 1.0)
        rate = loop.rate(self.step, self.args.steps)
        for group in self.opt.param_groups:
            group["lr"] = self.args.lr * rate * group["by"] * (group["by"] == 1 or self.training_model())
        self.opt.step()
        self.step += 1
        return first.item(), of_heads[0].item(), norm.item()

    @torch.no_grad()
    def told(self):
        """Of the stories held out: the share of first guesses that are the model's own next but one, and how far it is from what it
        was."""
        ids = self.kept[:16 * LENGTH].view(-1, LENGTH)
        h = self.model.features(ids)
        own, was = self.model.logits(h), self.exact.logits(self.exact.features(ids))
        right = self.ahead(h, 0).argmax(-1) == own[:, 1:-1].argmax(-1)
        return right.float().mean().item(), divergence(was.flatten(0, 1), own.flatten(0, 1)).item()

    def run(self):
        begun = time.process_time()
        while self.step < self.args.steps:
            first, head, norm = self.one()
            right, kl = self.told() if self.log and self.step % 25 == 0 else (None, None)
            self.log.step(self.step, loss=head, kl=kl, acceptance=right, gradient=norm, rate=self.opt.param_groups[0]["lr"],
                          tokens=self.step * BATCH * LENGTH)
        self.log.close()
        self.seconds = time.process_time() - begun

    def write(self):
        out = self.args.out
        with torch.no_grad():
            model_file.write(out + ".gguf", self.args.begin, values(self.model), {"general.name": os.path.basename(out)})
        file.write(out + "-heads.gguf", self.heads, self.exact, os.path.basename(out), file.TYPES["q8_0"])
        right, kl = self.told()
        with open(out + ".json", "w") as told:
            json.dump({"args": vars(self.args), "seconds": round(self.seconds), "acceptance": round(right, 4), "kl": round(kl, 5),
                       **log.memory([p for g in self.opt.param_groups for p in g["params"]], [self.opt])}, told, indent=1)


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("begin", "stories", "out"):
        parser.add_argument(name)
    parser.add_argument("--joint", action="store_true", help="the model learns, too")
    parser.add_argument("--keep", action="store_true", help="it learns to stay what it was, not the text")
    parser.add_argument("--heads-weight", type=float, default=0.2)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--ffn", type=int, default=128)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warm", type=int, default=100)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=1)
    log.add_option(parser)
    return parser.parse_args()


def main():
    args = options()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    training = Training(args)
    training.run()
    training.write()
    print(f"{args.out}: {training.step} steps, {training.seconds:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    sys.exit(main())
