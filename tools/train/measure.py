"""What a drafter would have had accepted: batches of conversations, and counts of right guesses on those held out."""
import torch

import features

DEPTH = 5


def held_out(rows):
    """Those to measure on: the greedy conversations that are never trained on."""
    return [r for r in rows if r["held_out"] and r["temp"] == 0]


class Batch:
    """Conversations padded to one length, and the places of their answers: x[p + 1] is guessed at places p from the
    answer's first token to the one before its last."""

    def __init__(self, rows):
        self.ids = features.pad(rows, range(len(rows)))
        self.h = torch.zeros(*self.ids.shape, rows[0]["h"].shape[1])
        for k, row in enumerate(rows):
            self.h[k, :len(row["ids"])] = row["h"].float()
        self.start = torch.tensor([r["start"] for r in rows])
        self.counts = [len(r["ids"]) - 1 - r["start"] for r in rows]
        self.width = max(self.counts)
        self.real = torch.arange(self.width) < torch.tensor(self.counts)[:, None]

    def unroll(self, drafter, depth):
        return drafter.unroll(self.ids, self.h, self.start, self.width, depth)


def chains(right, n):
    """right[j][t] over t: how many guesses in a row are right at each t of n."""
    out = []
    for t in range(n):
        a = 0
        while a < len(right) and t + a < n and right[a][t]:
            a += 1
        out.append(a)
    return out


def count(found, lengths, depth):
    """Every position counts as a beginning; a walk begins after what the step before it kept."""
    at = steps = 0
    while at < len(lengths):
        at, steps = at + lengths[at] + 1, steps + 1
    for key, n in (("positions", len(lengths)), ("tokens", at), ("steps", steps)):
        found[key] = found.get(key, 0) + n
    least = found.setdefault("least", [0] * depth)
    for a in lengths:
        for j in range(a):
            least[j] += 1


@torch.no_grad()
def measure(drafter, rows, tokens=4096):
    """By kind of prompt: how often at least j guesses in a row are right, and tokens a step in a walk."""
    found = {}
    for part in features.batches(rows, tokens):
        b = Batch([rows[i] for i in part])
        with torch.autocast("cpu", torch.bfloat16):
            guesses = [drafter.ids[drafter.logits(y, j).argmax(-1)] for j, y in enumerate(b.unroll(drafter, DEPTH))]
        for k, i in enumerate(part):
            answer = torch.tensor(rows[i]["ids"][rows[i]["start"] + 1:])
            right = [(g[k, j:len(answer)] == answer[j:]).tolist() + [False] * j for j, g in enumerate(guesses)]
            count(found.setdefault(rows[i]["kind"], {}), chains(right, len(answer)), len(guesses))
    return {kind: {"positions": f["positions"], "acceptance": [round(c / f["positions"], 4) for c in f["least"]],
                   "tokens_per_step": round(f["tokens"] / f["steps"], 3)} for kind, f in sorted(found.items())}


def told(figures):
    return "\n".join(f"{kind}: acceptance {f['acceptance']}, {f['tokens_per_step']} tokens a step of {f['positions']}"
                     for kind, f in figures.items())
