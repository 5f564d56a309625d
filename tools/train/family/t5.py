"""T5 in torch (Raffel et al. 2020; the gated form of Shazeer 2020): an encoder, and a decoder that reads what it gave. Names are those
of the file's tensors. The engine computes the same (engine/arch/t5.c), an input at once and an answer row by row.

T5 does not scale its scores; here they are, so that queries learn as the other matrices do, and the file has queries divided."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

from model import HEAD, matrix, rms

BUCKETS, FAR = 32, 128  # of distances; from FAR on all have the last
START, STOP, CONTEXT = 0, 2, 512  # ids: <|endoftext|> begins an answer, <|im_end|> ends input and answer


@dataclass(frozen=True)
class Shape:
    dim: int
    encoder: int  # layers
    decoder: int
    ffn: int
    vocab: int = 1024

    @property
    def heads(self):
        return self.dim // HEAD


SIZES = {"mend": Shape(dim=128, encoder=5, decoder=5, ffn=256), "mend-small": Shape(dim=128, encoder=1, decoder=1, ffn=128)}


def buckets(rows, columns, both):
    """[rows, columns]: which bias a row gives a column; both: later columns have half of them."""
    back, n = torch.arange(rows)[:, None] - torch.arange(columns), BUCKETS // 2 if both else BUCKETS
    far = back.abs() if both else back.clamp_min(0)
    log = (far.double().clamp_min(1) * 2 / n).log() / math.log(FAR * 2 / n) * (n - n // 2)
    near = torch.where(far < n // 2, far, (n // 2 + (log + 1e-9).long()).clamp_max(n - 1))
    return near + (back < 0) * n if both else near


def attend(q, k, v, seen):
    """q, k, v [batch, n, heads * HEAD]; seen: what is added to the scores."""
    q, k, v = (x.unflatten(-1, (-1, HEAD)).transpose(1, 2) for x in (q, k, v))
    return (((q @ k.transpose(-1, -2)) * HEAD ** -0.5 + seen).softmax(-1) @ v).transpose(1, 2).flatten(-2)


def neighbours(heads, decodes):
    """A table to begin with: heads that see the token before, the next, the one before that … and the last ones, which see all.
    With these, and cross-attention that begins by finding the same token, copying is learnt in hundreds of steps, not thousands."""
    table = torch.zeros(BUCKETS, heads)
    for head in range(heads - 2):
        table[head + 1 if decodes else head // 2 + 1 + head % 2 * BUCKETS // 2, head] = 4
    return table


class Layer(nn.Module):
    def __init__(self, s, n, decodes, first):
        super().__init__()
        wide, less = s.heads * HEAD, ((3 if decodes else 2) * n) ** -0.5
        for kind in ("attn", "cross_attn")[:1 + decodes]:
            for part in "qkv":
                self.register_parameter(f"{kind}_{part}", matrix(wide, s.dim))
            self.register_parameter(f"{kind}_o", matrix(s.dim, wide, less))
            self.register_parameter(f"{kind}_norm", nn.Parameter(torch.ones(s.dim)))
        self.ffn_norm, self.ffn_down = nn.Parameter(torch.ones(s.dim)), matrix(s.dim, s.ffn, less)
        self.ffn_gate, self.ffn_up = matrix(s.ffn, s.dim), matrix(s.ffn, s.dim)
        if decodes:
            self.cross_attn_k.data.copy_(self.cross_attn_q)
        if first:
            self.attn_rel_b = nn.Parameter(neighbours(s.heads, decodes))

    def forward(self, x, bias, given, given_seen):
        n = rms(x, self.attn_norm)
        x = x + F.linear(attend(*(F.linear(n, w) for w in (self.attn_q, self.attn_k, self.attn_v)), bias), self.attn_o)
        if given is not None:
            q = F.linear(rms(x, self.cross_attn_norm), self.cross_attn_q)
            mixed = attend(q, F.linear(given, self.cross_attn_k), F.linear(given, self.cross_attn_v), given_seen)
            x = x + F.linear(mixed, self.cross_attn_o)
        n = rms(x, self.ffn_norm)
        return x + F.linear(F.gelu(F.linear(n, self.ffn_gate), approximate="tanh") * F.linear(n, self.ffn_up), self.ffn_down)


class Stack(nn.Module):
    def __init__(self, s, n, decodes):
        super().__init__()
        self.decodes = decodes
        self.blk = nn.ModuleList(Layer(s, n, decodes, not i) for i in range(n))
        self.output_norm = nn.Parameter(torch.ones(s.dim))

    def forward(self, x, seen, given=None, given_seen=None):
        n = x.shape[1]
        bias = self.blk[0].attn_rel_b[buckets(n, n, not self.decodes)].permute(2, 0, 1) + seen
        for layer in self.blk:
            x = layer(x, bias, given, given_seen)
        return rms(x, self.output_norm)


class T5(nn.Module):
    def __init__(self, s, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.s = s
        self.token_embd = nn.Parameter(torch.randn(s.vocab, s.dim) * 0.3)  # not lost beside what layers add
        self.enc, self.dec = Stack(s, s.encoder, False), Stack(s, s.decoder, True)
        self.dec.output_norm.data.fill_(0.3)

    def forward(self, given, ids, given_length):
        """Logits [batch, n, vocab] of ids [batch, n] after inputs [batch, m], of which each has its length."""
        n, m = ids.shape[1], given.shape[1]
        nothing = torch.zeros(()).masked_fill(torch.ones((), dtype=torch.bool), float("-inf"))
        there = torch.where(torch.arange(m) < given_length[:, None], 0.0, nothing)[:, None, None]
        before = torch.where(torch.ones(n, n, dtype=torch.bool).tril(), 0.0, nothing)
        state = self.enc(self.token_embd[given], there)
        return F.linear(self.dec(self.token_embd[ids], before, state, there), self.token_embd)
