#!/usr/bin/env python3
"""Trains one member of the family: member.py NAME OUT [--size SIZE] [--seed N] [--steps N] [--stories FILE] [--rows N] [--floats]

A step reads 16 rows of 256 ids of stories; every member of a seed reads the same rows. The diffusion member is given rows
whose ids are masked with a probability that is drawn for each row, and learns those (LLaDA: Nie et al. 2025, section 2.2).
--size: a shape of the ladder (ladder.py), in place of the family's. --stories: of ../stories.py, in place of OUT/text.pt.
--floats: 32 bits in place of bfloat16, which few processors multiply.
OUT/NAME[-SIZE]-SEED.pt, .csv: loss by step; a checkpoint every 50 steps, from which the same command goes on. One thread."""
import argparse
import csv
import os
import sys
import time

import torch
import torch.nn.functional as F
import torch.optim._muon as muon

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import log  # noqa: E402
import loop  # noqa: E402
from model import LADDER, MEMBERS, TEXT, Family  # noqa: E402
from text import LENGTH, MASK  # noqa: E402

BALANCE = 0.01


def autoregressive(model, ids, _):
    """Loss of the text, and of the routers."""
    logits, balance = model(ids)
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten()), balance


def masked(model, ids, draw):
    """The same of a model that fills masks: a bound on the text's loss, a masked id weighing 1 / its row's probability."""
    p = (torch.arange(len(ids)) + torch.rand(1, generator=draw)) / len(ids) % 1 * 0.98 + 0.02  # evenly spread
    hidden = torch.rand(ids.shape, generator=draw) < p[:, None]
    logits, balance = model(torch.where(hidden, MASK, ids))
    each = F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten(), reduction="none").view(len(ids), -1)
    return (each * hidden / p[:, None]).mean(), balance


def orthogonal(grad, coefficients, steps, eps):
    """Muon's own iteration (Newton-Schulz), which torch has in bfloat16 alone."""
    (a, b, c), x = coefficients, grad / grad.norm().clamp_min(eps)
    for _ in range(steps):
        gram = x @ x.T if len(x) <= x.shape[1] else x.T @ x
        more = b * gram + c * gram @ gram
        x = a * x + (more @ x if len(x) <= x.shape[1] else x @ more)
    return x


def optimizers(model, lr, layers="layers."):
    """Matrices of layers learn by Muon, all else by AdamW, as in ../train.py. layers: what their names have."""
    alone = "conv", "log_a", "rel_b"  # a row is a channel's own, or a distance's
    wide = [p for name, p in model.named_parameters()
            if p.dim() == 2 and layers in name and not any(word in name for word in alone)]
    mine = {id(p) for p in wide}
    rest = [p for p in model.parameters() if id(p) not in mine]
    return [torch.optim.Muon(wide, lr=lr, weight_decay=0, adjust_lr_fn="match_rms_adamw", ns_steps=4),
            torch.optim.AdamW(rest, lr=lr, weight_decay=0, betas=(0.9, 0.95))]


def stem(args):
    """Of the files."""
    return os.path.join(args.out, "-".join([args.name, *([args.size] if args.size else []), str(args.seed)]))


class Training:
    def __init__(self, args):
        self.args = args
        self.text = loop.stories(args.stories)[0] if args.stories else torch.load(os.path.join(args.out, "text.pt"))["seen"]
        self.model = Family(LADDER.get(args.size, TEXT), args.name, args.seed)
        self.losses = autoregressive if self.model.causal else masked
        self.opts = optimizers(self.model, args.lr)
        self.path = stem(args)
        self.log = log.Log(args.record, list(self.model.parameters()), self.opts, training=args.name, steps=args.steps)
        loop.go_on(self, self.model, self.opts)

    def one(self):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not self.args.floats):
            loss, balance = self.losses(self.model, *loop.rows(self.text, self.args.rows, LENGTH, self.args.seed, self.step))
        for opt in self.opts:
            opt.zero_grad()
        (loss + BALANCE * balance).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0).item()
        rate = loop.rate(self.step, self.args.steps)
        for opt in self.opts:
            opt.param_groups[0]["lr"] = self.args.lr * rate
            opt.step()
        self.step += 1
        self.log.step(self.step, loss=loss.item(), gradient=norm, rate=self.args.lr * rate, tokens=self.step * self.args.rows * LENGTH)
        return loss.item()

    def run(self):
        """Every 10 steps a line: the means since the line before."""
        out = open(self.path + ".csv", "a" if self.step else "w", newline="")
        writer, read, begun = csv.writer(out), [], time.process_time()
        if not self.step:
            writer.writerow(["step", "loss", "seconds"])
        while self.step < self.args.steps:
            read.append(self.one())
            if self.step % 10 == 0:
                self.seconds, begun = self.seconds + time.process_time() - begun, time.process_time()
                writer.writerow([self.step, f"{sum(read) / len(read):.4f}", f"{self.seconds:.1f}"])
                out.flush()
                read = []
            if self.step % 50 == 0:
                loop.keep(self, self.model, self.opts)
        out.close()
        self.log.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=MEMBERS)
    parser.add_argument("out")
    parser.add_argument("--size", choices=LADDER)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--rows", type=int, default=16, help="of a step")
    parser.add_argument("--stories")
    parser.add_argument("--floats", action="store_true")
    log.add_option(parser)
    args = parser.parse_args()
    if args.floats:
        muon._zeropower_via_newtonschulz = orthogonal
    torch.set_num_threads(1)
    path = stem(args) + ".pt"
    if os.path.exists(path):
        return
    training = Training(args)
    training.run()
    loop.end(training, training.model, path)
    print(f"{path}: {training.step} steps, {training.seconds:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    sys.exit(main())
