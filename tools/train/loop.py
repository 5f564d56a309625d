"""What the trainings on stories share: their texts, the rows of a step, the learning rate, and checkpoints."""
import json
import os

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


def keep(training, model, opts):
    """A checkpoint of a training, which has path, step and seconds (of processor time), in place of the one before."""
    path = training.path + ".ckpt"
    torch.save({"model": model.state_dict(), "opts": [o.state_dict() for o in opts], "step": training.step, "seconds": training.seconds},
               path + ".part")
    os.rename(path + ".part", path)


def go_on(training, model, opts):
    """From the checkpoint, if there is one; else from the beginning."""
    training.step, training.seconds = 0, 0.0
    if os.path.exists(training.path + ".ckpt"):
        saved = torch.load(training.path + ".ckpt")
        model.load_state_dict(saved["model"])
        for opt, state in zip(opts, saved["opts"]):
            opt.load_state_dict(state)
        training.step, training.seconds = saved["step"], saved["seconds"]


def end(training, model, path):
    """The weights that were learnt, and no checkpoint any more."""
    torch.save(model.state_dict(), path + ".part")
    os.rename(path + ".part", path)
    os.remove(training.path + ".ckpt")
