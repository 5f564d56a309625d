#!/usr/bin/env python3
"""Changes the architecture of a trained member, and distils it back: convert.py NAME STORIES OUT [--begin what] [--steps N] …

The teacher is the family's multi-head attention (demos/models/family/multi-head.gguf). The student is NAME, another member of the
family, that begins with all of its weights that have a place in it (--begin copied: embedding, norms, feed-forwards, layers of
attention; in a layer of Mamba-2 the values make what enters the state and the outputs what leaves it, as Wang et al. 2024, The
Mamba in the Llama, section 3.1 have it) or with none (--begin nothing). It learns the teacher's distribution over stories (STORIES:
what ../stories.py wrote), or with --hard the text. OUT.gguf, OUT.json; no checkpoint: it takes minutes. One thread."""
import argparse
import json
import os
import sys
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.dirname(HERE))
import log  # noqa: E402
import loop  # noqa: E402
from export import named, write  # noqa: E402
from losses import student_loss, divergence  # noqa: E402
from member import optimizers  # noqa: E402
from model import MEMBERS, TEXT, Family  # noqa: E402
from target import read_gguf  # noqa: E402
from text import LENGTH  # noqa: E402

TEACHER = os.path.join(HERE, "../../../demos/models/family/multi-head.gguf")
BATCH = 4


def teacher():
    model, (_, tensors) = Family(TEXT, "multi-head", 1), read_gguf(TEACHER)
    with torch.no_grad():
        for key, p in model.named_parameters():
            p.copy_(tensors[named(key, p)[0]].view_as(p))
    return model.requires_grad_(False)


@torch.no_grad()
def take(student, other):
    """The student takes what it can of the other's weights; returns how many numbers."""
    mine, theirs = dict(student.named_parameters()), dict(other.named_parameters())
    same = [key for key in mine if key in theirs and mine[key].shape == theirs[key].shape]
    for key in same:
        mine[key].copy_(theirs[key])
    taken = sum(mine[key].numel() for key in same)
    for i, kind in enumerate(student.mixers):
        if kind == "mamba2":
            mixer, was, d = student.layers[i].mixer, other.layers[i].mixer, TEXT.dim
            mixer.ssm_in[d:2 * d].copy_(was.attn_v)
            mixer.ssm_out.copy_(was.attn_output)
            taken += 2 * d * d
    return taken


class Training:
    def __init__(self, args):
        self.args, self.step, self.teacher = args, 0, teacher()
        self.student = Family(TEXT, args.name, args.seed)
        self.taken = take(self.student, self.teacher) if args.begin == "copied" else 0
        self.text, self.kept = loop.stories(args.stories)
        self.opts = optimizers(self.student, args.lr)
        self.log = log.Log(args.record, list(self.student.parameters()), self.opts, training=args.name,
                           teacher=None if args.hard else "multi-head", steps=args.steps)

    def one(self):
        ids, _ = loop.rows(self.text, BATCH, LENGTH, self.args.seed, self.step)
        s, t = (m(ids)[0][:, :-1].flatten(0, 1) for m in (self.student, self.teacher))
        labels = ids[:, 1:].flatten()
        for opt in self.opts:
            opt.zero_grad()
        student_loss(s, t, labels, hard=float(self.args.hard)).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.student.parameters(), 1.0).item()
        rate = loop.rate(self.step, self.args.steps)
        for opt in self.opts:
            opt.param_groups[0]["lr"] = self.args.lr * rate
            opt.step()
        self.step += 1
        with torch.no_grad():
            self.log.step(self.step, loss=F.cross_entropy(s, labels).item(), kl=divergence(t, s).item(), gradient=norm,
                          rate=self.args.lr * rate, tokens=self.step * BATCH * LENGTH,
                          held=self.held() if self.log and self.step % 25 == 0 else None)

    @torch.no_grad()
    def held(self):
        ids = self.kept[:4 * LENGTH].view(-1, LENGTH)
        return F.cross_entropy(self.student(ids)[0][:, :-1].flatten(0, 1), ids[:, 1:].flatten()).item()

    def run(self):
        begun = time.process_time()
        while self.step < self.args.steps:
            self.one()
        self.log.close()
        write(self.args.out + ".gguf", self.args.name, self.student, TEACHER)
        with open(self.args.out + ".json", "w", encoding="utf-8") as out:
            json.dump({"args": vars(self.args), "taken": self.taken, "numbers": sum(p.numel() for p in self.student.parameters()),
                       "seconds": round(time.process_time() - begun)}, out, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=[n for n in MEMBERS if n not in ("latent", "diffusion")])
    parser.add_argument("stories")
    parser.add_argument("out")
    parser.add_argument("--begin", choices=("copied", "nothing"), default="copied")
    parser.add_argument("--hard", action="store_true", help="learns the text, not the teacher's distribution")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=1)
    log.add_option(parser)
    args = parser.parse_args()
    torch.set_num_threads(1)
    training = Training(args)
    training.run()
    print(f"{args.out}: {training.step} steps", flush=True)


if __name__ == "__main__":
    sys.exit(main())
