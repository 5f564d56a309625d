#!/usr/bin/env python3
"""Trains an encoder-decoder to write damaged passages whole again: mend.py NAME OUT [--begin NAME] [--steps N] [--tokens N] [--cutaway PROGRAM]

Passages of the family's stories (text.py), damaged by the rules of tools/claims/mended.py, anew each time that they are read.
OUT/mend.pt: the pairs' ids, made once for both sizes. OUT/NAME-1.pt, .csv: loss by step, and of the stories held out; a
checkpoint every 50 steps, from which the same command goes on. One thread."""
import argparse
import csv
import json
import os
import subprocess
import sys
import time

import gguf
import torch
import torch.nn.functional as F
import torch.optim._muon as muon

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = os.path.dirname(HERE), os.path.join(HERE, "../../claims")
import loop  # noqa: E402
from member import optimizers, orthogonal  # noqa: E402
from mended import pairs  # noqa: E402
from t5 import SIZES, START, STOP, T5  # noqa: E402
from text import END  # noqa: E402

TIMES, SEED = 8, 1  # that each story is damaged


def texts(ids, tokens):
    """Of the stories in a row of ids."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte = {chr(b): b for b in own} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in own)}
    for story in " ".join(map(str, ids)).split(f" {END} "):
        yield bytes(byte[c] for i in story.split() if int(i) != END for c in tokens[int(i)]).decode("utf-8", "replace")


def tokenized(program, begin, lines):
    told = subprocess.run([program, "tokenize", "--json", "--model", begin], input="\n".join(lines).encode(), stdout=subprocess.PIPE, check=True)
    out, ids = [[]], json.loads(told.stdout)
    newline = gguf.GGUFReader(begin).fields["tokenizer.ggml.tokens"].contents().index("Ċ")
    for i in ids:
        if i == newline:
            out.append([])
        else:
            out[-1].append(i)
    assert len(out) == len(lines)
    return out


class Pairs:
    """(damaged ids, whole ids) by number; all in one row, as lists would take gigabytes."""

    def __init__(self, ids, ends):
        self.ids, self.ends = ids, ends.tolist()

    def __len__(self):
        return len(self.ends) // 2

    def __getitem__(self, i):
        a, b, c = self.ends[2 * i - 1] if i else 0, *self.ends[2 * i:2 * i + 2]
        return self.ids[a:b].long(), self.ids[b:c].long()


def packed(rows):
    return torch.tensor([i for row in rows for i in row], dtype=torch.int16), torch.tensor([len(row) for row in rows]).cumsum(0)


def prepare(args):
    """Pairs by name: "seen" and "held_out"."""
    path, begin = os.path.join(args.out, "mend.pt"), os.path.join(args.out, "begin.gguf")
    if os.path.exists(path):
        return {part: Pairs(*kept) for part, kept in torch.load(path).items()}
    told, tokens = torch.load(os.path.join(args.out, "text.pt")), gguf.GGUFReader(begin).fields["tokenizer.ggml.tokens"].contents()
    kept = {}
    for part, times in ("seen", TIMES), ("held_out", 1):
        stories = list(texts(told[part].tolist(), tokens))
        both = [pair for i in range(times) for pair in pairs(stories, SEED + i)]
        kept[part] = packed(tokenized(args.cutaway, begin, [text for pair in both for text in pair]))
    torch.save(kept, path + ".part")
    os.rename(path + ".part", path)
    return prepare(args)


def batch(some):
    """Inputs, their lengths, what the decoder reads, and what it is to write, -100 after the end."""
    fill = lambda rows, by: torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=by)
    start, stop = torch.tensor([START]), torch.tensor([STOP])
    given = [torch.cat((a, stop)) for a, _ in some]
    read, want = ([torch.cat(ends) for ends in each] for each in (((start, b) for _, b in some), ((b, stop) for _, b in some)))
    return fill(given, STOP), torch.tensor([len(g) for g in given]), fill(read, STOP), fill(want, -100)


def batches(kept, tokens, draw):
    """Without end, of at most so many tokens to write: neighbours in length, so that little is filled up."""
    while True:
        order = torch.randperm(len(kept), generator=draw).tolist()
        for at in range(0, len(order), 1024):
            some = sorted((kept[i] for i in order[at:at + 1024]), key=lambda pair: len(pair[1]))
            cut, now = [], []
            for pair in some:
                if now and (len(now) + 1) * len(pair[1]) > tokens:
                    cut.append(now)
                    now = []
                now.append(pair)
            cut.append(now)
            for i in torch.randperm(len(cut), generator=draw).tolist():
                yield cut[i]


def grow(model, held):
    """Begins with a smaller model's weights: further layers, and further units of the feed-forward, give nothing yet (Chen et al. 2016)."""
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith(("attn_o", "ffn_down")):
                p.zero_()
            if key in held:
                p[tuple(slice(n) for n in held[key].shape)] = held[key]


def loss(model, some, floats):
    given, length, ids, want = batch(some)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not floats):
        logits = model(given, ids, length)
    return F.cross_entropy(logits.flatten(0, 1).float(), want.flatten(), reduction="sum"), (want >= 0).sum().item(), logits, want


def judge(model, kept, floats):
    """Nats a token, and the share that comes as the likeliest, of passages held out."""
    total = n = right = 0
    with torch.no_grad():
        for at in range(0, len(kept), 32):
            value, some, logits, want = loss(model, [kept[i] for i in range(at, min(at + 32, len(kept)))], floats)
            total, n, right = total + value.item(), n + some, right + ((logits.argmax(-1) == want) & (want >= 0)).sum().item()
    return total / n, right / n


class Training:
    def __init__(self, args):
        self.args, self.kept = args, prepare(args)
        self.model = T5(SIZES[args.name], SEED)
        if args.begin:
            grow(self.model, torch.load(os.path.join(args.out, f"{args.begin}-1.pt")))
        self.opts = optimizers(self.model, args.lr, ".blk.")
        self.path = os.path.join(args.out, f"{args.name}-1")
        loop.go_on(self, self.model, self.opts)

    def one(self, some):
        total, n, _, _ = loss(self.model, some, self.args.floats)
        for opt in self.opts:
            opt.zero_grad()
        (total / n).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for opt in self.opts:
            opt.param_groups[0]["lr"] = self.args.lr * loop.rate(self.step, self.args.steps)
            opt.step()
        self.step += 1
        return total.item() / n

    def run(self):
        """Every 50 steps a line: the mean since the line before, and of 128 passages held out."""
        out, read, begun = open(self.path + ".csv", "a" if self.step else "w", newline=""), [], time.process_time()
        writer = csv.writer(out)
        if not self.step:
            writer.writerow(["step", "loss", "seconds", "held_out", "right"])
        source = batches(self.kept["seen"], self.args.tokens, torch.Generator().manual_seed(SEED))
        for _ in range(self.step):
            next(source)
        while self.step < self.args.steps:
            read.append(self.one(next(source)))
            if self.step % 50 == 0:
                self.seconds, begun = self.seconds + time.process_time() - begun, time.process_time()
                value, right = judge(self.model, [self.kept["held_out"][i] for i in range(128)], self.args.floats)
                writer.writerow([self.step, f"{sum(read) / len(read):.4f}", f"{self.seconds:.1f}", f"{value:.4f}", f"{right:.4f}"])
                out.flush()
                read = []
                loop.keep(self, self.model, self.opts)
        out.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=SIZES)
    parser.add_argument("out")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--begin", choices=SIZES, help="with the weights of a smaller one")
    parser.add_argument("--tokens", type=int, default=2048, help="that a step writes")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--floats", action="store_true")
    parser.add_argument("--cutaway", default="./cutaway")
    args = parser.parse_args()
    if args.floats:
        muon._zeropower_via_newtonschulz = orthogonal
    torch.set_num_threads(1)
    path = os.path.join(args.out, f"{args.name}-1.pt")
    if os.path.exists(path):
        return
    training = Training(args)
    training.run()
    loop.end(training, training.model, path)
    value, right = judge(training.model, training.kept["held_out"], True)
    print(f"{path}: {training.seconds:.0f} s of processor time; held out {value:.4f} nats a token, {right:.2%} right", flush=True)


if __name__ == "__main__":
    sys.exit(main())
