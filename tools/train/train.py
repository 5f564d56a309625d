#!/usr/bin/env python3
"""Trains one drafter on kept features, and measures what it would have had accepted.

    train.py KIND FEATURES MODEL OUT [--steps N] ...

KIND: eagle, medusa or model. The loss is the cross-entropy with the target's distribution over the trimmed vocabulary,
at the temperature that a chat begins with, at each guessed depth, and for eagle a little of the distance of its
features. Matrices learn by Muon (Jordan 2024), vectors by AdamW; the rates fall linearly to a tenth.
OUT/KIND.ckpt is written every 50 steps and gone on from; OUT/KIND.csv has the loss; OUT/KIND.json the acceptance."""
import argparse
import csv
import json
import os
import random
import sys
import time

import torch
import torch.nn.functional as F

import features
from drafters import KINDS
from target import Target, rms

DEPTH_MEASURED = 5


def trimmed(rows, size, eos, vocab):
    """Ids for the drafter's head, ascending: the most frequent of the answers, and then, since a vocabulary of merges
    is ordered by the frequency of a much larger text, the lowest."""
    counts = [0] * vocab
    for row in rows:
        for i in row["ids"][row["start"]:]:
            counts[i] += 1
    counts[eos] = 1 << 60
    return sorted(sorted(range(vocab), key=lambda i: (-counts[i], i))[:size])


def covered(ids, rows):
    """The share of answers' tokens that are among ids."""
    ids, tokens = set(ids), [i for row in rows for i in row["ids"][row["start"]:]]
    return sum(i in ids for i in tokens) / max(1, len(tokens))


def batch(rows, part):
    """ids, h, and (row, position) pairs p where x[p + 1] is to be guessed: all of the answers but their first."""
    ids = features.pad(rows, part)
    h = torch.zeros(*ids.shape, rows[part[0]]["h"].shape[1])
    for k, i in enumerate(part):
        h[k, :len(rows[i]["ids"])] = rows[i]["h"].float()
    at = [(k, p) for k, i in enumerate(part) for p in range(rows[i]["start"], len(rows[i]["ids"]) - 1)]
    return ids, h, tuple(torch.tensor(at).T) if at else None


class CrossEntropy(torch.autograd.Function):
    """Mean cross-entropy of softmax(head · y) with the distributions goal. Its gradient is made on the way, since the
    logits are what takes the time and the memory."""

    @staticmethod
    def forward(ctx, y, head, goal):
        logits = F.linear(y.to(head.dtype), head).float()
        log_sum = logits.logsumexp(-1, keepdim=True)
        loss = (log_sum.squeeze(-1) - (goal * logits).sum(-1)).mean()
        d = logits.sub_(log_sum).exp_().sub_(goal).mul_(1 / len(goal)).to(head.dtype)
        ctx.save_for_backward(d @ head)
        return loss

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors[0].float() * grad, None, None


def loss_of(drafter, target, head, rows, part, args):
    ids, h, at = batch(rows, part)
    with torch.no_grad():
        direction = rms(h[at], target.norm, drafter.c.eps)
        goal = torch.softmax(F.linear(direction.bfloat16(), head).float() / args.temperature, -1)
    total, losses = 0, []
    for j, y in enumerate(drafter.unroll(ids, h, args.depth)):
        some = slice(None) if not j else slice(int(torch.randint(2, ())), None, 2)  # every second one of the later
        normed = rms(y[at[0][some], at[1][some] - j].float(), drafter.norm_of(j), drafter.c.eps)
        one = CrossEntropy.apply(normed, head, goal[some])
        losses.append(one.item())
        total = total + one * 0.8 ** j
        if args.feature_weight:
            total = total + F.smooth_l1_loss(normed, direction[some]) * (args.feature_weight * 0.8 ** j)
    return total, losses


def chains(right, n):
    """right[j][t] over t: how many guesses in a row are right at each t of n."""
    out = []
    for t in range(n):
        a = 0
        while a < len(right) and t + a < n and right[a][t]:
            a += 1
        out.append(a)
    return out


@torch.no_grad()
def measure(drafter, rows, tokens=4096):
    """By kind of prompt: how often at least j guesses in a row are right, and tokens a step in a walk."""
    found = {}
    for part in features.batches(rows, tokens):
        ids, h, _ = batch(rows, part)
        with torch.autocast("cpu", torch.bfloat16):
            guesses = [drafter.ids[drafter.logits(y, j).argmax(-1)]
                       for j, y in enumerate(drafter.unroll(ids, h, DEPTH_MEASURED))]
        for k, i in enumerate(part):
            first, last = rows[i]["start"], len(rows[i]["ids"]) - 1
            right = [[p + j < last and bool(g[k, p] == ids[k, p + 1 + j]) for p in range(first, last)]
                     for j, g in enumerate(guesses)]
            lengths = chains(right, last - first)
            at = steps = 0
            while at < len(lengths):
                at, steps = at + lengths[at] + 1, steps + 1
            one = found.setdefault(rows[i]["kind"], {"positions": 0, "tokens": 0, "steps": 0,
                                                     "least": [0] * len(guesses)})
            one["positions"] += len(lengths)
            one["tokens"] += at
            one["steps"] += steps
            for a in lengths:
                for j in range(a):
                    one["least"][j] += 1
    return {kind: {"positions": f["positions"], "acceptance": [round(c / f["positions"], 4) for c in f["least"]],
                   "tokens_per_step": round(f["tokens"] / f["steps"], 3)} for kind, f in sorted(found.items())}


def optimizers(drafter, lr):
    """A matrix that writes to the target's residual stream itself is to take steps of the stream's size (about 30)."""
    wide = {n: p for n, p in drafter.named_parameters() if p.dim() == 2}
    rest = [p for p in drafter.parameters() if p.dim() != 2]
    groups = [{"params": [p for n, p in wide.items() if n.startswith("downs") == big], "scale": 30 if big else 1}
              for big in (False, True) if any(n.startswith("downs") == big for n in wide)]
    return [torch.optim.Muon(groups, lr=lr, weight_decay=0, adjust_lr_fn="match_rms_adamw", ns_steps=4),
            torch.optim.AdamW(rest, lr=lr, weight_decay=0, betas=(0.9, 0.95))]


def order_of(rows, tokens, epoch, seed):
    """Batches of one epoch: rows of like length together, so that little is padding, in a new order."""
    rng = random.Random(seed * 1000 + epoch)
    order = sorted(range(len(rows)), key=lambda i: (len(rows[i]["ids"]) + rng.randrange(40), i))
    parts = list(features.batches(rows, tokens, order))
    rng.shuffle(parts)
    return parts


def train(drafter, target, rows, args, path):
    head = drafter.head.bfloat16()
    opts, step, epoch, parts = optimizers(drafter, args.lr), 0, 0, []
    if os.path.exists(path + ".ckpt"):
        saved = torch.load(path + ".ckpt")
        drafter.load_state_dict(saved["drafter"])
        for opt, state in zip(opts, saved["opts"]):
            opt.load_state_dict(state)
        step, epoch = saved["step"], saved["epoch"]
        parts = order_of(rows, args.tokens, epoch - 1, args.seed)[saved["left"]:] if epoch else []
    log = open(path + ".csv", "a" if step else "w", newline="")
    writer, begun, first, mean = csv.writer(log), time.time(), step, []
    if not step:
        writer.writerow(["step", "epoch"] + [f"loss_{j + 1}" for j in range(args.depth)])
    while step < args.steps:
        if not parts:
            parts, epoch = order_of(rows, args.tokens, epoch, args.seed), epoch + 1
        rate = min(1, (step + 1) / 20) * (1 - 0.9 * step / args.steps)
        for opt in opts:
            for group in opt.param_groups:
                group["lr"] = args.lr * rate * group.get("scale", 1)
        with torch.autocast("cpu", torch.bfloat16):
            loss, losses = loss_of(drafter, target, head, rows, parts.pop(0), args)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        mean.append(losses)
        step += 1
        if step % 10 == 0 or step == args.steps:
            row = [f"{sum(m[j] for m in mean) / len(mean):.4f}" for j in range(len(losses))]
            writer.writerow([step, epoch] + row)
            log.flush()
            mean = []
            print(f"{step} of {args.steps}: {' '.join(row)}  "
                  f"{(time.time() - begun) / (step - first):.2f} s a step", flush=True)
        if step % 50 == 0 or step == args.steps:
            whole = len(order_of(rows, args.tokens, epoch - 1, args.seed))
            torch.save({"drafter": drafter.state_dict(), "opts": [o.state_dict() for o in opts], "step": step,
                        "epoch": epoch, "left": whole - len(parts), "ids": drafter.ids,
                        "shape": args.shape}, path + ".ckpt.part")
            os.rename(path + ".ckpt.part", path + ".ckpt")
    log.close()
    return epoch


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("features")
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--tokens", type=int, default=2048, help="of a batch, padding counted")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--depth", type=int, default=3, help="guesses ahead that are trained")
    parser.add_argument("--feature-weight", type=float, default=0.1)
    parser.add_argument("--temperature", type=float, default=0.7, help="of the target's distribution")
    parser.add_argument("--vocab", type=int, default=8192, help="ids of the trimmed vocabulary")
    parser.add_argument("--layers", default="0,29", help="model: the target's layers that it begins as")
    parser.add_argument("--heads", type=int, default=4, help="medusa")
    parser.add_argument("--ffn", type=int, default=768, help="medusa")
    parser.add_argument("--begin", help="a checkpoint of the same kind and shape, whose weights it begins with")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", help="of the files; without it: KIND")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    if args.kind != "eagle":
        args.feature_weight = 0
    if args.kind == "model":
        args.depth = 1
    if args.kind == "medusa":
        args.depth = args.heads
    os.makedirs(args.out, exist_ok=True)
    target, rows = Target(args.model), features.load(args.features)
    seen = [r for r in rows if not r["held_out"]]
    kept = [r for r in rows if r["held_out"] and r["temp"] == 0]
    ids = trimmed(seen, args.vocab, target.c.eos, target.c.vocab)
    coverage = covered(ids, [r for r in rows if r["held_out"]])
    more = {"model": {"layers": [int(i) for i in args.layers.split(",")]},
            "medusa": {"heads": args.heads, "ffn": args.ffn}}.get(args.kind, {})
    drafter = KINDS[args.kind](target, torch.tensor(ids), **more)
    args.shape = more
    if args.begin:
        drafter.load_state_dict(torch.load(args.begin)["drafter"])
    del target.blocks
    path = os.path.join(args.out, args.name or args.kind)
    print(f"{args.kind}: {sum(p.numel() for p in drafter.parameters())} parameters, {len(ids)} ids, coverage "
          f"{coverage:.4f}; {len(seen)} conversations of {sum(len(r['ids']) for r in seen)} tokens, {len(kept)} held out",
          flush=True)
    begun = time.time()
    epochs = train(drafter, target, seen, args, path)
    figures = measure(drafter, kept)
    for kind, f in figures.items():
        print(f"{kind}: acceptance {f['acceptance']}, {f['tokens_per_step']} tokens a step of {f['positions']}")
    with open(path + ".json", "w") as file:
        json.dump({"args": vars(args), "coverage": coverage, "tokens": sum(len(r["ids"]) for r in seen),
                   "answer_tokens": sum(len(r["ids"]) - r["start"] for r in seen), "epochs": epochs,
                   "seconds": round(time.time() - begun), "held_out": figures}, file, indent=1)


if __name__ == "__main__":
    sys.exit(main())
