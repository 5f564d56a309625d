#!/usr/bin/env python3
"""Trains a model's file to give another one's distribution: the repair of what was rounded, pruned, or begun small.

    repair.py BEGIN.gguf TEACHER.gguf STORIES OUT.gguf [--temperature T] [--hard WEIGHT] [--writer WHO] [--reverse]
              [--bits N --group N [--zero-point] | --rank R] [--steps N] …

BEGIN is a Llama of any shape with the teacher's vocabulary, as `cutaway quantize` or `cutaway prune` wrote it. Zeros
in its matrices stay zeros. TEACHER may be - with --hard 1: so the teacher itself is made. WHO writes the text:
corpus (the stories), teacher, or student, by itself as it is then (on-policy). --bits trains with matrices rounded as
`cutaway quantize` rounds them, and writes what is below; --rank trains adapters, and writes the matrices with them.
OUT.gguf is F32; beside it OUT.csv, loss of the text and divergence by step, OUT.json, and until then OUT.ckpt, every 50 steps,
from which the same command goes on. Draws are keyed by seed and step. One thread."""
import argparse
import csv
import json
import os
import sys
import time

import gguf
import torch
from torch.nn.utils import parametrize

import log
import loop
import model_file
from losses import divergence, student_loss
from narrow import narrow, values
from target import Target, rms, rope_table

PROMPT, LENGTH = 24, 192  # tokens given to who writes, and of a row


class Student(Target):
    """A target whose numbers may be trained."""

    def __init__(self, path):
        super().__init__(path)
        tied = self.head is self.embed
        self.embed, self.norm = torch.nn.Parameter(self.embed), torch.nn.Parameter(self.norm)
        self.head = self.embed if tied else torch.nn.Parameter(self.head)

    def forward(self, ids):
        return self.logits(self.features(ids))


@torch.no_grad()
def written(model, ids, length, draw):
    """ids [batch, n] continued to `length` by the model's own draws at temperature 1, with a cache of keys and values."""
    kept, new, whole = [None] * len(model.blocks), ids, rope_table(model.c, length)
    while ids.shape[1] < length:
        end = ids.shape[1]
        x, table = model.embed[new], [t[end - new.shape[1]:end] for t in whole]
        for i, block in enumerate(model.blocks):
            n = rms(x, block.attn_norm, model.c.eps)
            one = block.key_value(n, table)
            kept[i] = one if kept[i] is None else [torch.cat(both, 2) for both in zip(kept[i], one)]
            x = block.rest(x, torch.nn.functional.scaled_dot_product_attention(
                block.query(n, table), *kept[i], is_causal=new is ids, enable_gqa=True))
        new = torch.multinomial(model.logits(x[:, -1]).softmax(-1), 1, generator=draw)
        ids = torch.cat([ids, new], 1)
    return ids


class Training:
    def __init__(self, args):
        self.args = args
        self.student = Student(args.begin)
        unknown = {t.name for t in gguf.GGUFReader(args.begin).tensors} - set(values(self.student))
        if unknown:
            raise SystemExit(f"{args.begin} is no plain Llama: it has {sorted(unknown)[0]}")
        self.teacher = Target(args.teacher) if args.teacher != "-" else None
        narrow(self.student, (args.bits, args.group, args.zero_point) if args.bits else None, args.rank, args.seed)
        self.text, self.kept = loop.stories(args.stories)
        self.trained = [p for p in self.student.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(self.trained, lr=args.lr, weight_decay=args.decay, betas=(0.9, 0.95))
        self.path = os.path.splitext(args.out)[0]
        self.log = log.Log(args.record, self.trained, [self.opt], training=os.path.basename(self.path), steps=args.steps,
                           teacher=os.path.basename(args.teacher) if self.teacher else None)
        loop.go_on(self, self.student, [self.opt])

    def rows(self):
        """Ids [batch, LENGTH] of this step, and from which place on they are to be learnt."""
        ids, draw = loop.rows(self.text, self.args.batch, LENGTH, self.args.seed, self.step)
        if self.args.writer == "corpus":
            return ids, 0
        writer = self.student if self.args.writer == "student" else self.teacher
        with parametrize.cached():
            return written(writer, ids[:, :PROMPT], LENGTH, draw), PROMPT - 1

    def one(self):
        """A step; returns the loss of the text, the divergence from the teacher, and the norm of the gradients."""
        args, (ids, start) = self.args, self.rows()
        labels = ids[:, start + 1:].flatten()
        s = self.student(ids)[:, start:-1].flatten(0, 1)
        with torch.no_grad():
            t = self.teacher.logits(self.teacher.features(ids))[:, start:-1].flatten(0, 1) if self.teacher else None
        loss = student_loss(s, t, labels, args.temperature, args.hard, args.reverse)
        self.opt.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        for group in self.opt.param_groups:
            group["lr"] = args.lr * loop.rate(self.step, args.steps)
        self.opt.step()
        self.step += 1
        with torch.no_grad():
            return (torch.nn.functional.cross_entropy(s, labels).item(), divergence(t, s).item() if self.teacher else 0.0,
                    norm.item())

    @torch.no_grad()
    def held(self):
        """Loss of the first rows of the stories held out."""
        ids = self.kept[:min(self.args.batch, len(self.kept) // LENGTH) * LENGTH].view(-1, LENGTH)
        return torch.nn.functional.cross_entropy(self.student(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).item()

    def tell(self, loss, kl, norm):
        if self.log:
            self.log.step(self.step, loss=loss, kl=kl if self.teacher else None, gradient=norm, rate=self.opt.param_groups[0]["lr"],
                          tokens=self.step * self.args.batch * LENGTH, held=self.held() if self.step % 25 == 0 else None)

    def run(self):
        """Every 10 steps a line: the means since the line before."""
        out = open(self.path + ".csv", "a" if self.step else "w", newline="")
        writer, seen, begun = csv.writer(out), [], time.process_time()
        if not self.step:
            writer.writerow(["step", "loss", "kl", "seconds"])
        while self.step < self.args.steps:
            loss, kl, norm = self.one()
            seen.append((loss, kl))
            self.tell(loss, kl, norm)
            if self.step % 10 == 0 or self.step == self.args.steps:
                self.seconds, begun = self.seconds + time.process_time() - begun, time.process_time()
                means = [f"{sum(column) / len(seen):.4f}" for column in zip(*seen)]
                writer.writerow([self.step, *means, f"{self.seconds:.1f}"])
                out.flush()
                seen = []
            if self.step % 50 == 0:
                loop.keep(self, self.student, [self.opt])
        out.close()
        self.log.close()

    def write(self):
        with torch.no_grad():
            name = {"general.name": "stories " + os.path.basename(self.path)}
            model_file.write(self.args.out, self.args.begin, values(self.student, below=bool(self.args.bits)), name)
        with open(self.path + ".json", "w") as out:
            json.dump({"args": vars(self.args), "trained": sum(p.numel() for p in self.trained), "seconds": self.seconds,
                       "tokens": self.args.steps * self.args.batch * LENGTH}, out, indent=1)
        if os.path.exists(self.path + ".ckpt"):
            os.remove(self.path + ".ckpt")


def options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("begin", "teacher", "stories", "out"):
        parser.add_argument(name)
    parser.add_argument("--temperature", type=float, default=1.0, help="of both distributions")
    parser.add_argument("--hard", type=float, default=0.0, help="weight of the labels; the rest is the teacher's")
    parser.add_argument("--reverse", action="store_true", help="divergence from the student to the teacher")
    parser.add_argument("--writer", choices=("corpus", "teacher", "student"), default="corpus")
    parser.add_argument("--bits", type=int, default=0)
    parser.add_argument("--group", type=int, default=32)
    parser.add_argument("--zero-point", action="store_true")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch", type=int, default=8, help=f"rows of {LENGTH} tokens a step")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--decay", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    log.add_option(parser)
    return parser.parse_args()


def main():
    args = options()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    if os.path.exists(args.out):
        return
    training = Training(args)
    training.run()
    training.write()
    print(f"{args.out}: {training.step} steps, {training.seconds:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    sys.exit(main())
