"""Matrices that are less free than their numbers: rounded to a grid, with adapters, or with zeros that stay.

Each is a parametrization in torch's sense (torch.nn.utils.parametrize): the layer goes on reading `attn_q`, and gets what
this makes of the parameter below it."""
import torch
import torch.nn as nn
from torch.nn.utils import parametrize


def on_grid(w, bits, group, zero_point=False):
    """The values that `cutaway quantize --bits B --group G --format f32` writes for w, bit for bit (engine/model/form.c)."""
    x, most = w.unflatten(-1, (-1, group)), 2 ** bits - 1
    low, high = x.amin(-1, keepdim=True).clamp(max=0), x.amax(-1, keepdim=True).clamp(min=0)
    if not zero_point:
        high = torch.maximum(high, -low)
        low = -high
    scale = ((high - low) / most).half().float()
    safe = torch.where(scale > 0, scale, 1)
    zero = (-low / safe).round() if zero_point else (most + 1) / 2
    q = ((x / safe).round() + zero).clamp(0, most)
    return (scale * (q - zero)).flatten(-2)


class StraightThrough(torch.autograd.Function):
    """The rounded matrix, whose gradient moves the exact one as if nothing were rounded (Bengio et al. 2013)."""

    @staticmethod
    def forward(ctx, w, *grid):
        return on_grid(w, *grid)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None, None


class Rounded(nn.Module):
    def __init__(self, bits, group, zero_point):
        super().__init__()
        self.grid = bits, group, zero_point

    def forward(self, w):
        return StraightThrough.apply(w, *self.grid)


class Adapter(nn.Module):
    """LoRA (Hu et al. 2021): w stays, and b @ a of a low rank is added, which begins as 0."""

    def __init__(self, shape, rank, draw):
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, shape[1], generator=draw) * shape[1] ** -0.5)
        self.b = nn.Parameter(torch.zeros(shape[0], rank))

    def forward(self, w):
        return w + self.b @ self.a


class Masked(nn.Module):
    """Zeros of the file stay zeros."""

    def __init__(self, w):
        super().__init__()
        self.register_buffer("mask", w != 0)

    def forward(self, w):
        return w * self.mask


def matrices(model):
    """(layer, name) of the layers' matrices; embedding and head are not among them."""
    return [(block, name) for block in model.blocks for name, p in list(block.named_parameters()) if p.dim() == 2]


def narrow(model, grid=None, rank=0, seed=0):
    """grid: (bits, group, zero point). With a rank only the adapters are trained."""
    draw = torch.Generator().manual_seed(seed)
    model.requires_grad_(not rank)
    for block, name in matrices(model):
        w = getattr(block, name).detach()
        if grid:
            parametrize.register_parametrization(block, name, Rounded(*grid), unsafe=True)
        elif rank:
            parametrize.register_parametrization(block, name, Adapter(w.shape, rank, draw))
        elif (w == 0).any():
            parametrize.register_parametrization(block, name, Masked(w))


def values(model, below=False):
    """{name in the file: tensor} of a whole model; `below`: what is under a grid, for `cutaway quantize` to round."""
    out = {"token_embd.weight": model.embed, "output_norm.weight": model.norm}
    if model.head is not model.embed:
        out["output.weight"] = model.head
    for i, block in enumerate(model.blocks):
        found = dict(block.named_parameters(recurse=False))
        for name in getattr(block, "parametrizations", {}):
            found[name] = block.parametrizations[name].original if below else getattr(block, name)
        out |= {f"blk.{i}.{name}.weight": p for name, p in found.items()}
    return out
