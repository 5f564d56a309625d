"""What the trainings on stories share: their texts, the rows of a step, and the learning rate."""
import json

import torch

END = 0  # id between stories


def stories(path):
    """ids of those to learn from, and of those held out, as stories.py wrote them."""
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    return [torch.tensor([i for story in told[name] for i in [END, *story]], dtype=torch.long) for name in ("seen", "held_out")]


def rows(text, batch, length, seed, step):
    """ids [batch, length] of a step, and where more draws of it come from: the same for all trainings of a seed."""
    draw = torch.Generator().manual_seed(seed * 1000000 + step)
    at = torch.randint(len(text) - length, (batch, 1), generator=draw)
    return text[at + torch.arange(length)].long(), draw


def rate(step, steps):
    """Of the learning rate: it rises for 20 steps, and falls linearly to nothing."""
    return min(1, (step + 1) / 20) * (1 - step / steps)
