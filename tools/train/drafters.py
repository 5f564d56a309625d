"""The three drafters in torch, as the engine computes them: see docs/training.md for their files.

Each has unroll(ids, h, start, width, depth): for a batch of conversations and the places start .. start + width - 1 of
each, with features h of the target's lower layers and the last, y[0 .. depth - 1] [batch, width, dim], where y[j] at place p is what it guesses x[p + 1] from when
x[.. p - j] and h[.. p - j - 1] are known (x[p - j] was just drawn) and its earlier guesses were right. Right guesses
are the text itself, so one pass over a text gives the guesses of every depth at every place, in training as in
measuring. y[j] at the first j places means nothing: they would need guesses from before `start`. Logits are
Head[ids] · output_norm(y); the head is the target's and frozen."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from target import Layer, rms, rope_table


def matrix(rows, cols, scale=1.0):
    return nn.Parameter(torch.randn(rows, cols) * (scale * cols ** -0.5))


def late(x, by):
    """x[t - by] at t of x [batch, n, dim]; zeros before the first."""
    return F.pad(x, (0, 0, by, 0))[:, :x.shape[1]]


def places(start, width, n):
    """[batch, width] of positions; those beyond the last stand at it."""
    return (start[:, None] + torch.arange(width)).clamp(max=n - 1)


def pick(x, at):
    """x [batch, n, ...] at positions [batch, width]."""
    return x[torch.arange(len(x))[:, None], at]


class Drafter(nn.Module):
    lower = ()

    def __init__(self, target, ids):
        super().__init__()
        self.c = target.c
        self.ids = ids
        self.register_buffer("head", target.head[ids].contiguous(), persistent=False)
        self.register_buffer("embed", target.embed, persistent=False)

    def norm_of(self, j):
        return self.output_norm

    def logits(self, y, j):
        return F.linear(rms(y, self.norm_of(j), self.c.eps), self.head)


class Model(Drafter):
    """A small model of a few of the target's layers."""

    kind = "model"

    def __init__(self, target, ids, layers=(0, 29)):
        super().__init__(target, ids)
        self.made_of = list(layers)
        self.blocks = nn.ModuleList(Layer(self.c) for _ in layers)
        for block, i in zip(self.blocks, layers):
            block.load_state_dict(target.blocks[i].state_dict())
        self.output_norm = nn.Parameter(target.norm.clone())

    def run(self, ids):
        x, table = self.embed[ids], rope_table(self.c, ids.shape[1])
        for block in self.blocks:
            x = block(x, table)
        return x

    def unroll(self, ids, h, start, width, depth):
        return [pick(self.run(ids), places(start, width, ids.shape[1]))] * depth

    def tensors(self):
        out = {f"blk.{i}.{name}.weight": p for i, b in enumerate(self.blocks) for name, p in b.named_parameters()}
        return out | {"output_norm.weight": self.output_norm}


class Eagle(Drafter):
    """One layer over the target's feature of the token before and the embedding of the token itself (EAGLE, Li et al.
    2024); trained on its own outputs as EAGLE-3 and HASS do. lower: layers whose features it reads, too, where the
    target has computed them."""

    kind = "eagle"

    def __init__(self, target, ids, lower=()):
        super().__init__(target, ids)
        d, self.lower = self.c.dim, list(lower)
        self.embed_norm, self.hidden_norm = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.fc_embed = matrix(d, d, 0.5)
        self.fc_hidden = nn.Parameter(torch.eye(d))
        self.fc_lower = nn.ParameterList(matrix(d, d, 0.1) for _ in lower)
        self.lower_norm = nn.ParameterList(torch.ones(d) for _ in lower)
        self.layer = Layer(self.c)
        self.layer.load_state_dict(target.blocks[-1].state_dict())
        with torch.no_grad():  # its residual stream begins at size 1, not at that of the 30th layer
            self.layer.attn_output.mul_(1 / 30)
            self.layer.ffn_down.mul_(1 / 30)
        self.output_norm = nn.Parameter(target.norm.clone())

    def inputs(self, ids, hidden):
        """hidden[t] stands for h[t - 1], of all layers or of the last alone."""
        norms, matrices = [self.hidden_norm], [self.fc_hidden]
        if hidden.shape[-1] > self.c.dim:
            norms, matrices = [*self.lower_norm, *norms], [*self.fc_lower, *matrices]
        parts = hidden.split(self.c.dim, -1)
        return (sum(F.linear(rms(p, n, self.c.eps), m) for p, n, m in zip(parts, norms, matrices)) +
                F.linear(rms(self.embed[ids], self.embed_norm, self.c.eps), self.fc_embed)).float()

    def unroll(self, ids, h, start, width, depth):
        n = ids.shape[1]
        at, table = places(start, width, n), rope_table(self.c, n)
        here, columns = [t[at][:, None] for t in table], torch.arange(n)
        z = self.inputs(ids, late(h, 1))
        normed = rms(z, self.layer.attn_norm, self.c.eps)
        keys, values = map(list, zip(self.layer.key_value(normed, table)))
        z, normed, ids, out = pick(z, at), pick(normed, at), pick(ids, at), []
        for j in range(depth):
            if j:
                z = self.inputs(ids, late(out[-1], 1))
                normed = rms(z, self.layer.attn_norm, self.c.eps)
                k, v = self.layer.key_value(normed, here)
                keys.append(k)
                values.append(v)
            # There is no z[0], since there is no h[-1]. At p: the keys of the first round from 1 to p - j, and one of
            # each later round after them.
            seen = [(columns > 0) & (columns <= at[..., None] - j)]
            seen += [torch.ones(width, width, dtype=torch.bool).tril(i - j).triu(i - j).expand(len(at), -1, -1)
                     for i in range(1, j + 1)]
            attended = F.scaled_dot_product_attention(
                self.layer.query(normed, here), torch.cat(keys, 2), torch.cat(values, 2),
                torch.cat(seen, 2)[:, None], enable_gqa=True)
            out.append(self.layer.rest(z, attended))
        return out

    def tensors(self):
        out = {"fc.embed.weight": self.fc_embed, "fc.hidden.weight": self.fc_hidden,
               "fc.embed_norm.weight": self.embed_norm, "fc.hidden_norm.weight": self.hidden_norm,
               "output_norm.weight": self.output_norm}
        for i, (n, m) in enumerate(zip(self.lower_norm, self.fc_lower)):
            out |= {f"fc.lower.{i}_norm.weight": n, f"fc.lower.{i}.weight": m}
        return out | {f"blk.0.{name}.weight": p for name, p in self.layer.named_parameters()}


class Medusa(Drafter):
    """Heads that guess further ahead from one feature (Cai et al. 2024), with a gated block in place of SiLU's."""

    kind = "medusa"

    def __init__(self, target, ids, heads=4, ffn=768):
        super().__init__(target, ids)
        d = self.c.dim
        self.norms = nn.ParameterList(target.norm.clone() for _ in range(heads))
        self.gates = nn.ParameterList(matrix(ffn, d) for _ in range(heads))
        self.ups = nn.ParameterList(matrix(ffn, d) for _ in range(heads))
        self.downs = nn.ParameterList(torch.zeros(d, ffn) for _ in range(heads))
        self.output_norms = nn.ParameterList(target.norm.clone() for _ in range(heads))

    def norm_of(self, j):
        return self.output_norms[j]

    def guess(self, h, i):
        """What head i guesses from features h."""
        n = rms(h, self.norms[i], self.c.eps)
        return h + F.linear(F.silu(F.linear(n, self.gates[i])) * F.linear(n, self.ups[i]), self.downs[i])

    def unroll(self, ids, h, start, width, depth):
        """Here y[0] guesses x[p + 1] from h[p - 1]: the target itself gave x[p]."""
        at, h = places(start, width, ids.shape[1]), h[..., -self.c.dim:]
        return [self.guess(pick(late(h, 1 + i), at), i) for i in range(min(depth, len(self.norms)))]

    def tensors(self):
        out = {}
        for i in range(len(self.norms)):
            for name, p in zip(("norm", "gate", "up", "down", "output_norm"),
                               (self.norms, self.gates, self.ups, self.downs, self.output_norms)):
                out[f"medusa.{i}.{name}.weight"] = p[i]
        return out


KINDS = {c.kind: c for c in (Model, Eagle, Medusa)}
