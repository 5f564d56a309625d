"""The three drafters in torch, as the engine computes them: see docs/training.md for their files.

Each has unroll(ids, h, depth): for a batch of conversations, features y[0 .. depth - 1] [batch, n, dim], where
y[j][t] is what it guesses x[t + 1 + j] from when x[.. t] and h[.. t - 1] are known (x[t] was just drawn) and its
earlier guesses were right. Right guesses are the text itself, so one pass over a text gives the guesses of every
depth at every position, in training as in measuring. Logits are Head[ids] · output_norm(y); the head is the target's
and frozen."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from target import Layer, rms, rope_table


def matrix(rows, cols, scale=1.0):
    return nn.Parameter(torch.randn(rows, cols) * (scale * cols ** -0.5))


class Drafter(nn.Module):
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

    def unroll(self, ids, h, depth):
        y = self.run(ids)
        return [F.pad(y, (0, 0, 0, j))[:, j:] for j in range(depth)]

    def tensors(self):
        out = {f"blk.{i}.{name}.weight": p for i, b in enumerate(self.blocks) for name, p in b.named_parameters()}
        return out | {"output_norm.weight": self.output_norm}


class Eagle(Drafter):
    """One layer over the target's feature of the token before and the embedding of the token itself (EAGLE, Li et al.
    2024); trained on its own outputs as EAGLE-3 and HASS do."""

    kind = "eagle"

    def __init__(self, target, ids):
        super().__init__(target, ids)
        d = self.c.dim
        self.embed_norm, self.hidden_norm = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.fc_embed = matrix(d, d, 0.5)
        self.fc_hidden = nn.Parameter(torch.eye(d))
        self.layer = Layer(self.c)
        self.layer.load_state_dict(target.blocks[-1].state_dict())
        with torch.no_grad():  # its residual stream begins at size 1, not at that of the 30th layer
            self.layer.attn_output.mul_(1 / 30)
            self.layer.ffn_down.mul_(1 / 30)
        self.output_norm = nn.Parameter(target.norm.clone())

    def inputs(self, ids, hidden):
        """hidden[t] stands for h[t - 1]."""
        return (F.linear(rms(hidden, self.hidden_norm, self.c.eps), self.fc_hidden) +
                F.linear(rms(self.embed[ids], self.embed_norm, self.c.eps), self.fc_embed)).float()

    def unroll(self, ids, h, depth):
        n = ids.shape[1]
        table, causal = rope_table(self.c, n), torch.ones(n, n, dtype=torch.bool).tril()
        causal[:, 0] = False
        late = lambda x, by: F.pad(x, (0, 0, by, 0))[..., :n, :]
        out, keys, values, hidden = [], [], [], late(h, 1)
        for j in range(depth):
            z = self.inputs(ids, hidden)
            q, k, v = self.layer.qkv(z, table)
            group = q.shape[1] // k.shape[1]
            keys.append(k.repeat_interleave(group, 1))
            values.append(v.repeat_interleave(group, 1))
            # There is no z[0], since there is no h[-1]. At t: the keys of the first round up to t - j, and one of each
            # later round behind them.
            scores = q @ keys[0].transpose(-1, -2)
            scores = [scores.float().masked_fill(~(causal if not j else causal.tril(-j)), -1e9)]
            scores += [(q * late(keys[i], j - i)).sum(-1, keepdim=True).float() for i in range(1, j + 1)]
            p = torch.softmax(torch.cat(scores, -1) * self.c.head_dim ** -0.5, -1).to(v.dtype)
            attended = p[..., :n] @ values[0]
            for i in range(1, j + 1):
                attended = attended + p[..., n + i - 1:n + i] * late(values[i], j - i)
            g = self.layer.rest(z, attended)
            out.append(g)  # at t: guesses x[t + 1] for the moment when x[t - j] was drawn
            hidden = late(g, 1)
        return [F.pad(g, (0, 0, 0, j))[:, j:] for j, g in enumerate(out)]

    def tensors(self):
        out = {"fc.embed.weight": self.fc_embed, "fc.hidden.weight": self.fc_hidden,
               "fc.embed_norm.weight": self.embed_norm, "fc.hidden_norm.weight": self.hidden_norm,
               "output_norm.weight": self.output_norm}
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

    def unroll(self, ids, h, depth):
        """Here y[0] guesses x[t + 1] from h[t - 1]: the target itself gave x[t]."""
        h, out = F.pad(h, (0, 0, 1, 0))[:, :-1], []
        for i in range(min(depth, len(self.norms))):
            n = rms(h, self.norms[i], self.c.eps)
            out.append(h + F.linear(F.silu(F.linear(n, self.gates[i])) * F.linear(n, self.ups[i]), self.downs[i]))
        return out

    def tensors(self):
        out = {}
        for i in range(len(self.norms)):
            for name, p in zip(("norm", "gate", "up", "down", "output_norm"),
                               (self.norms, self.gates, self.ups, self.downs, self.output_norms)):
                out[f"medusa.{i}.{name}.weight"] = p[i]
        return out


KINDS = {c.kind: c for c in (Model, Eagle, Medusa)}
