"""The family in torch: one decoder, whose layers mix positions in different ways. Names are those of the file's tensors.

Each layer is x += mixer(norm(x)), x += SwiGLU(norm(x)); RMS norms, an embedding that is the output matrix too. The engine
computes the same from the file (engine/arch/mixed.c), a row at a time; here whole texts are trained in the parallel form."""
import math
from dataclasses import dataclass, replace

import torch
import torch.nn as nn
import torch.nn.functional as F

HEAD, EPS, THETA = 32, 1e-5, 10000.0
TAPS, EXPERTS, USED = 4, 4, 2
FEW, RANK = 16, 16  # of Mamba's first form: states of a channel; dim / RANK is the rank of its steps


@dataclass(frozen=True)
class Shape:
    dim: int
    layers: int
    heads: int
    vocab: int
    window: int
    rank: int      # latent attention: values of a position that are kept,
    turned: int    # and those that turn
    states: int    # of Mamba-2 a value, numbers; of S4D as many, half as many complex ones. Inner widths are dim
    features: int  # of a query of linear attention, before Taylor's terms
    ffn: int       # of the member with the largest mixers


TEXT = Shape(dim=128, layers=8, heads=4, vocab=1024, window=32, rank=32, turned=16, states=32, features=16, ffn=128)
LADDER = {name: Shape(dim=dim, layers=layers, heads=dim // HEAD, vocab=1024, window=32, rank=32, turned=16, states=32, features=16, ffn=ffn)
          for name, dim, layers, ffn in (("0.5M", 96, 4, 256), ("1M", 128, 4, 352), ("2M", 160, 6, 416), ("4M", 224, 6, 608),
                                         ("8M", 288, 8, 768))}  # sizes of one architecture
FILLS = "2M"  # of the member that fills masks: smaller, and in as few steps as the others, it never writes a sentence
RECALL = Shape(dim=64, layers=2, heads=2, vocab=256, window=16, rank=32, turned=16, states=16, features=8, ffn=128)
BYTES = 256  # tokens of a byte, which come before all others
RECALL_MANY = replace(RECALL, vocab=BYTES + 26 * 26, features=16, states=64)  # and those of two small letters


def rarely(s, every, rare, common):
    """`rare` in one layer of `every`, and in the last if there are fewer."""
    every = min(every, s.layers)
    return [rare if i % every == every - 1 else common for i in range(s.layers)]


def neighbours(windows):
    """Whose keys and values layers read: the second of two that see as much those of the first."""
    lender = list(range(len(windows)))
    for i in range(1, len(windows)):
        if windows[i] == windows[i - 1] and lender[i - 1] == i - 1:
            lender[i] = i - 1
    return lender


# mixers of the layers, windows, and what the feed-forward is wider by, which makes the numbers of all members nearly equal
MEMBERS = {
    "multi-head": lambda s: dict(),
    "grouped": lambda s: dict(kv_heads=s.heads // 2, wider=1 / 4),
    "single": lambda s: dict(kv_heads=1, wider=1 / 2),
    "latent": lambda s: dict(mixer=["latent"] * s.layers, wider=1 / 4),
    "shared": lambda s: dict(kv_from=[i // 2 * 2 for i in range(s.layers)], wider=1 / 4),
    "window": lambda s: dict(window=[s.window] * s.layers),
    "one-global": lambda s: dict(window=rarely(s, 6, 0, s.window)),
    "mamba2": lambda s: dict(mixer=["mamba2"] * s.layers),
    "based": lambda s: dict(mixer=rarely(s, 2, "linear", "attention"), window=rarely(s, 2, 0, s.window)),
    "jamba": lambda s: dict(mixer=rarely(s, 8, "attention", "mamba2")),
    "experts": lambda s: dict(experts=EXPERTS, wider=-3 / 4),
    "diffusion": lambda s: dict(causal=False),
    "s4d": lambda s: dict(mixer=["s4d"] * s.layers),
    "mamba1": lambda s: dict(mixer=["mamba"] * s.layers),
    "lightning": lambda s: dict(mixer=rarely(s, 8, "attention", "lightning"), wider=-1 / 4),
    "jamba-experts": lambda s: dict(mixer=rarely(s, 8, "attention", "mamba2"), experts=EXPERTS, wider=-3 / 4),
    "one-global-shared": lambda s: dict(window=(w := rarely(s, 6, 0, s.window)), kv_from=neighbours(w), wider=1 / 4),
    "relu": lambda s: dict(act="relu", wider=1 / 2),
    "relu2": lambda s: dict(act="relu2", wider=1 / 2),
}


def matrix(rows, cols, by=1.0):
    return nn.Parameter(torch.randn(rows, cols) * by * cols ** -0.5)


def rms(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, EPS)


def rope(x):
    """x [batch, heads, n, dim]: neighbours turn together."""
    n, dim = x.shape[-2:]
    angle = torch.arange(n, dtype=torch.float64)[:, None] / THETA ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def split(x, w, heads):
    return F.linear(x, w).unflatten(-1, (heads, -1)).transpose(1, 2)


def seen(n, window, causal=True):
    """[n, n]: which positions a row reads."""
    i = torch.arange(n)
    back = i[:, None] - i[None, :]
    if not causal:
        return torch.ones(n, n, dtype=torch.bool)
    return (back >= 0) & (back < (window or n))


class Mixer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s, self.less = s, (2 * s.layers) ** -0.5


class Attention(Mixer):
    def __init__(self, s, kv_heads, window=0, causal=True, own=True):
        super().__init__(s)
        self.kv_heads, self.window, self.causal = kv_heads, window, causal
        self.attn_q, self.attn_output = matrix(s.heads * HEAD, s.dim), matrix(s.dim, s.heads * HEAD, self.less)
        if own:
            self.attn_k, self.attn_v = matrix(kv_heads * HEAD, s.dim), matrix(kv_heads * HEAD, s.dim)

    def forward(self, n, shared):
        q = rope(split(n, self.attn_q, self.s.heads))
        kv = (rope(split(n, self.attn_k, self.kv_heads)), split(n, self.attn_v, self.kv_heads)) if shared is None else shared
        mask = seen(n.shape[1], self.window, self.causal)
        out = F.scaled_dot_product_attention(q, *kv, attn_mask=mask, enable_gqa=True)
        return F.linear(out.transpose(1, 2).flatten(-2), self.attn_output), kv


class Latent(Mixer):
    """Latent attention (DeepSeek-AI 2024, section 2.1): keys and values are made of RANK values a position."""

    def __init__(self, s):
        super().__init__(s)
        self.attn_q = matrix(s.heads * (HEAD + s.turned), s.dim)
        self.attn_kv_a_mqa, self.attn_kv_a_norm = matrix(s.rank + s.turned, s.dim), nn.Parameter(torch.ones(s.rank))
        self.attn_k_b = nn.Parameter(torch.randn(s.heads, s.rank, HEAD) * s.rank ** -0.5)
        self.attn_v_b = nn.Parameter(torch.randn(s.heads, HEAD, s.rank) * s.rank ** -0.5)
        self.attn_output = matrix(s.dim, s.heads * HEAD, self.less)

    def forward(self, n, _):
        q = split(n, self.attn_q, self.s.heads)
        c, turned = F.linear(n, self.attn_kv_a_mqa).split((self.s.rank, self.s.turned), -1)
        c = rms(c, self.attn_kv_a_norm)[:, None]
        k = torch.cat((c @ self.attn_k_b, rope(turned[:, None]).expand(-1, self.s.heads, -1, -1)), -1)
        q = torch.cat((q[..., :HEAD], rope(q[..., HEAD:])), -1)
        out = F.scaled_dot_product_attention(q, k, c @ self.attn_v_b.transpose(1, 2), is_causal=True)
        return F.linear(out.transpose(1, 2).flatten(-2), self.attn_output), None


class Linear(Mixer):
    """Linear attention by Taylor's terms of exp (BASED: Arora et al. 2024, section 4): a row reads all before it by
    1 + s + s²/2, which is a product of features; the norm of each head stands for the denominator. No rotation."""

    def __init__(self, s):
        super().__init__(s)
        self.attn_q, self.attn_k = matrix(s.heads * s.features, s.dim), matrix(s.heads * s.features, s.dim)
        self.attn_v, self.attn_output = matrix(s.heads * HEAD, s.dim), matrix(s.dim, s.heads * HEAD, self.less)
        self.attn_gate, self.attn_norm_2 = matrix(s.heads * HEAD, s.dim), nn.Parameter(torch.ones(s.heads * HEAD))

    def forward(self, n, _):
        q, k = split(n, self.attn_q, self.s.heads), split(n, self.attn_k, self.s.heads)
        s = (q @ k.transpose(-1, -2)) * self.s.features ** -0.5
        out = ((1 + s + s * s / 2) * seen(n.shape[1], 0)) @ split(n, self.attn_v, self.s.heads)
        out = F.rms_norm(out, (HEAD,), None, EPS).transpose(1, 2).flatten(-2) * self.attn_norm_2
        return F.linear(out * F.linear(n, self.attn_gate).sigmoid(), self.attn_output), None


def conv(x, w, b):
    """Causal, a filter a channel; x [batch, n, channels]."""
    x = F.pad(x.transpose(1, 2), (w.shape[1] - 1, 0))
    return F.silu(F.conv1d(x, w[:, None], b, groups=w.shape[0]).transpose(1, 2))


def step_bias(n):
    """softplus of it: steps from 0.001 to 0.1."""
    step = torch.exp(torch.rand(n) * 4.6 - 6.9)
    return nn.Parameter(step + torch.log(-torch.expm1(-step)))


class Mamba2(Mixer):
    """Dao and Gu 2024, in its quadratic form: a matrix of decays from column to row."""

    def __init__(self, s):
        super().__init__(s)
        wide = s.dim + 2 * s.states
        self.ssm_in = matrix(s.dim + wide + s.heads, s.dim)
        self.ssm_conv1d, self.ssm_conv1d_b = matrix(wide, TAPS), nn.Parameter(torch.zeros(wide))
        self.ssm_dt_b, self.log_a = step_bias(s.heads), nn.Parameter(torch.log(torch.arange(1.0, s.heads + 1) * 2))
        self.ssm_d, self.ssm_norm = nn.Parameter(torch.ones(s.heads)), nn.Parameter(torch.ones(s.dim))
        self.ssm_out = matrix(s.dim, s.dim, self.less)

    def forward(self, n, _):
        z, x, dt = F.linear(n, self.ssm_in).split((self.s.dim, self.s.dim + 2 * self.s.states, self.s.heads), -1)
        x, b, c = conv(x, self.ssm_conv1d, self.ssm_conv1d_b).split((self.s.dim, self.s.states, self.s.states), -1)
        dt = F.softplus(dt + self.ssm_dt_b).transpose(1, 2)                    # [batch, heads, n]
        total = (dt * -self.log_a.exp()[:, None]).cumsum(-1)
        decay = (total[..., :, None] - total[..., None, :]).masked_fill(~seen(n.shape[1], 0), float("-inf")).exp()
        x = x.unflatten(-1, (self.s.heads, -1)).transpose(1, 2)
        y = (decay * (c @ b.transpose(1, 2))[:, None]) @ (x * dt[..., None]) + self.ssm_d[:, None, None] * x
        return F.linear(rms(y.transpose(1, 2).flatten(-2) * F.silu(z), self.ssm_norm), self.ssm_out), None


class Scan(torch.autograd.Function):
    """h[t] = decay[t] h[t-1] + x[t], by step; all [n, ...]."""

    @staticmethod
    def forward(ctx, decay, x):
        h = torch.empty_like(x)
        h[0] = x[0]
        for t in range(1, len(x)):
            torch.addcmul(x[t], decay[t], h[t - 1], out=h[t])
        ctx.save_for_backward(decay, h)
        return h

    @staticmethod
    def backward(ctx, grad):
        decay, h = ctx.saved_tensors
        g, to_decay = grad.clone(), torch.zeros_like(decay)
        for t in range(len(g) - 2, -1, -1):
            g[t].addcmul_(decay[t + 1], g[t + 1])
        torch.mul(g[1:], h[:-1], out=to_decay[1:])
        return to_decay, g


class Mamba(Mixer):
    """Mamba's first form (Gu and Dao 2023, algorithm 2): each channel has steps and states of its own."""

    def __init__(self, s):
        super().__init__(s)
        self.rank = s.dim // RANK
        self.ssm_in = matrix(2 * s.dim, s.dim)
        self.ssm_conv1d, self.ssm_conv1d_b = matrix(s.dim, TAPS), nn.Parameter(torch.zeros(s.dim))
        self.ssm_x, self.ssm_dt = matrix(self.rank + 2 * FEW, s.dim), matrix(s.dim, self.rank)
        self.ssm_dt_b, self.log_a = step_bias(s.dim), nn.Parameter(torch.arange(1.0, FEW + 1).log().repeat(s.dim, 1))
        self.ssm_skip, self.ssm_out = nn.Parameter(torch.ones(s.dim)), matrix(s.dim, s.dim, self.less)

    def forward(self, n, _):
        x, z = F.linear(n, self.ssm_in).chunk(2, -1)
        x = conv(x, self.ssm_conv1d, self.ssm_conv1d_b)
        dt, b, c = (v.transpose(0, 1).float() for v in F.linear(x, self.ssm_x).split((self.rank, FEW, FEW), -1))
        dt = F.softplus(F.linear(dt, self.ssm_dt).float() + self.ssm_dt_b)[..., None]      # [n, batch, dim, 1]
        wide = x.transpose(0, 1).float()
        h = Scan.apply((dt * -self.log_a.exp()).exp(), dt * wide[..., None] * b[:, :, None])
        y = (h @ c[..., None])[..., 0] + self.ssm_skip * wide
        return F.linear(y.transpose(0, 1) * F.silu(z), self.ssm_out), None


def powers(x, n):
    """[..., n]: 1, x, x² …, by doubling: torch's own powers of complex numbers are slow."""
    out, by = torch.ones_like(x)[..., None], x[..., None]
    while out.shape[-1] < n:
        out, by = torch.cat((out, out * by), -1), by * by
    return out[..., :n]


class S4D(Mixer):
    """Diagonal state space (Gu et al. 2022, S4D-Lin: poles at -1/2 + i pi n, held for a step of each channel's own), gated.
    What a channel remembers does not depend on what it reads, so a text is one convolution."""

    def __init__(self, s):
        super().__init__(s)
        poles = s.states // 2
        self.ssm_in, self.ssm_out = matrix(2 * s.dim, s.dim), matrix(s.dim, s.dim, self.less)
        self.log_dt = nn.Parameter(torch.rand(s.dim) * 4.6 - 6.9)                          # steps from 0.001 to 0.1
        self.pole = nn.Parameter(torch.stack((torch.full((s.dim, poles), 0.5).log(),
                                              math.pi * torch.arange(poles).repeat(s.dim, 1).float())))
        self.read, self.ssm_skip = nn.Parameter(torch.randn(2, s.dim, poles) * 0.5 ** 0.5), nn.Parameter(torch.ones(s.dim))

    def discrete(self):
        """Poles of a step, and by what a state is read whose input has the factor 1; both complex."""
        a = torch.complex(-self.pole[0].exp(), self.pole[1])
        held = (self.log_dt.exp()[:, None] * a).exp()
        return held, 2 * torch.complex(*self.read) * (held - 1) / a

    def forward(self, n, _):
        x, z = F.linear(n, self.ssm_in).float().chunk(2, -1)
        (held, read), size = self.discrete(), n.shape[1]
        kernel = (read[..., None] * powers(held, size)).sum(1).real                        # [dim, n]
        x = x.transpose(1, 2)
        y = torch.fft.irfft(torch.fft.rfft(x, 2 * size) * torch.fft.rfft(kernel, 2 * size), 2 * size)[..., :size]
        y = (y + self.ssm_skip[:, None] * x).transpose(1, 2)
        return F.linear(y * F.silu(z), self.ssm_out), None


class Lightning(Mixer):
    """Linear attention with a decay for each head (Qin et al. 2024; as in MiniMax-01). share: of the layer in the decays."""

    def __init__(self, s, share):
        super().__init__(s)
        self.attn_qkv, self.attn_output = matrix(3 * s.heads * HEAD, s.dim), matrix(s.dim, s.heads * HEAD, self.less)
        self.attn_gate, self.attn_norm_2 = matrix(s.heads * HEAD, s.dim), nn.Parameter(torch.ones(s.heads * HEAD))
        self.rate = 2 ** (-8 * (torch.arange(s.heads) + 1) / s.heads) * share

    def forward(self, n, _):
        q, k, v = F.silu(split(n, self.attn_qkv, self.s.heads)).chunk(3, -1)
        i = torch.arange(n.shape[1])
        decay = (-self.rate[:, None, None] * (i[:, None] - i).clamp_min(0)).exp() * seen(n.shape[1], 0)
        out = (((q @ k.transpose(-1, -2)) * decay) @ v).transpose(1, 2).flatten(-2)
        return F.linear(rms(out.float(), self.attn_norm_2) * F.linear(n, self.attn_gate).sigmoid(), self.attn_output), None


ACTS = {"relu": F.relu, "relu2": lambda x: F.relu(x).square()}


class FeedForward(nn.Module):
    """SwiGLU, a mixture of such, or, with one of ACTS, a plain one without a gate."""

    def __init__(self, s, width, experts, act=None):
        super().__init__()
        n, less = max(experts, 1), (2 * s.layers) ** -0.5
        self.experts, self.act = experts, ACTS.get(act)
        make = lambda rows, cols, by=1.0: torch.randn(*((n,) if experts else ()), rows, cols) * by * cols ** -0.5
        last = "_exps" if experts else ""
        shapes = ("ffn_gate", width, s.dim, 1), ("ffn_up", width, s.dim, 1), ("ffn_down", s.dim, width, less)
        for name, rows, cols, by in shapes[1 if act else 0:]:
            self.register_parameter(name + last, nn.Parameter(make(rows, cols, by)))
        if experts:
            self.ffn_gate_inp = matrix(experts, s.dim)

    def forward(self, n):
        if self.act:
            return F.linear(self.act(F.linear(n, self.ffn_up)), self.ffn_down), 0
        if not self.experts:
            return F.linear(F.silu(F.linear(n, self.ffn_gate)) * F.linear(n, self.ffn_up), self.ffn_down), 0
        p = F.linear(n, self.ffn_gate_inp).softmax(-1)
        best, which = p.topk(USED, -1)
        weight = torch.zeros_like(p).scatter(-1, which, best / best.sum(-1, keepdim=True))
        wide = F.silu(torch.einsum("bnd,efd->bnef", n, self.ffn_gate_exps)) * torch.einsum("bnd,efd->bnef", n, self.ffn_up_exps)
        out = torch.einsum("bnef,edf->bnd", wide * weight[..., None], self.ffn_down_exps)
        share = (weight > 0).float().mean((0, 1)) / USED
        return out, self.experts * (share * p.mean((0, 1))).sum()  # load balance (Fedus et al. 2022, section 2.2)


MIXERS = {"attention": Attention, "latent": Latent, "linear": Linear, "lightning": Lightning, "mamba": Mamba, "mamba2": Mamba2,
          "s4d": S4D}


class Layer(nn.Module):
    def __init__(self, s, kind, width, experts=0, act=None, **how):
        super().__init__()
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(s.dim)), nn.Parameter(torch.ones(s.dim))
        self.mixer = MIXERS[kind](s, **how)
        self.ffn = FeedForward(s, width, experts, act)

    def forward(self, x, shared):
        mixed, kv = self.mixer(rms(x, self.attn_norm), shared)
        x = x + mixed
        fed, balance = self.ffn(rms(x, self.ffn_norm))
        return x + fed, kv, balance


class Family(nn.Module):
    def __init__(self, s, name, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.s, m = s, MEMBERS[name](s)
        self.mixers, self.window = m.get("mixer", ["attention"] * s.layers), m.get("window", [0] * s.layers)
        self.kv_from, self.kv_heads = m.get("kv_from", list(range(s.layers))), m.get("kv_heads", s.heads)
        self.causal, self.experts, self.act = m.get("causal", True), m.get("experts", 0), m.get("act")
        self.width = round(s.ffn * (1 + m.get("wider", 0)))
        self.token_embd = nn.Parameter(torch.randn(s.vocab, s.dim) * s.dim ** -0.5)
        self.output_norm = nn.Parameter(torch.ones(s.dim))
        self.layers = nn.ModuleList(Layer(s, kind, self.width, self.experts, self.act, **self.how(i, kind))
                                    for i, kind in enumerate(self.mixers))

    def how(self, i, kind):
        if kind == "lightning":
            return dict(share=1 - i / max(self.s.layers - 1, 1) + 1e-5)
        if kind != "attention":
            return {}
        return dict(kv_heads=self.kv_heads, window=self.window[i], causal=self.causal, own=self.kv_from[i] == i)

    def forward(self, ids):
        """Logits [batch, n, VOCAB] and what the routers' imbalance costs."""
        x, kept, balance = self.token_embd[ids], {}, 0
        for i, layer in enumerate(self.layers):
            x, kept[i], more = layer(x, kept.get(self.kv_from[i]))
            balance = balance + more
        return F.linear(rms(x, self.output_norm), self.token_embd), balance / self.s.layers
