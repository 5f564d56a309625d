"""The target model in torch: weights dequantised from its GGUF file, and the parts that drafters borrow.

Plain Llama: RMS norms, rotary positions over pairs (2i, 2i + 1), which is the row order of GGUF files, grouped
queries, SwiGLU, tied or own output matrix. It is here to give features (the residual stream after the last
layer) and distributions to learn from; the engine's own arithmetic quantises activations, so the two agree on
nearly every greedy choice, and `check` says on how many."""
import sys

import gguf
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import xxhash


def read_meta(path):
    return {name: field.contents() for name, field in gguf.GGUFReader(path).fields.items()}


def read_gguf(path):
    """Metadata as {key: value}, tensors as {name: f32 tensor}."""
    reader = gguf.GGUFReader(path)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: torch.from_numpy(np.array(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float32))
               for t in reader.tensors}
    return meta, tensors


class Config:
    def __init__(self, meta):
        arch = meta["general.architecture"]
        get = lambda key, default=None: meta.get(f"{arch}.{key}", default)
        self.dim, self.layers = get("embedding_length"), get("block_count")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.head_dim = get("attention.key_length", self.dim // self.heads)
        self.ffn, self.eps = get("feed_forward_length"), get("attention.layer_norm_rms_epsilon")
        self.theta = get("rope.freq_base", 10000.0)
        tokens = meta["tokenizer.ggml.tokens"]
        self.vocab = len(tokens)
        self.eos = meta["tokenizer.ggml.eos_token_id"]
        self.name = meta.get("general.name", "")
        hashed = xxhash.xxh64()
        for token in tokens:
            hashed.update(token.encode() + b"\0")
        self.vocab_hash = f"{hashed.intdigest():016x}"


def rms(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rope_table(config, n):
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    angle = torch.arange(n, dtype=torch.float64)[:, None] / config.theta ** half
    return angle.cos().float(), angle.sin().float()


def rope(x, table):
    """x [batch, heads, n, head_dim]; rows of the table are positions."""
    cos, sin = (t.to(x.dtype) for t in table)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


class Layer(nn.Module):
    """One Llama layer. Names of its parameters are those of the GGUF's tensors, without ".weight"."""

    def __init__(self, config):
        super().__init__()
        self.c = config
        d, q, kv = config.dim, config.heads * config.head_dim, config.kv_heads * config.head_dim
        matrix = lambda rows, cols: nn.Parameter(torch.randn(rows, cols) * cols ** -0.5)
        self.attn_norm, self.ffn_norm = nn.Parameter(torch.ones(d)), nn.Parameter(torch.ones(d))
        self.attn_q, self.attn_k, self.attn_v = matrix(q, d), matrix(kv, d), matrix(kv, d)
        self.attn_output = matrix(d, q)
        self.ffn_gate, self.ffn_up, self.ffn_down = matrix(config.ffn, d), matrix(config.ffn, d), matrix(d, config.ffn)

    def load(self, tensors, prefix):
        with torch.no_grad():
            for name, p in self.named_parameters():
                p.copy_(tensors[f"{prefix}.{name}.weight"])
        return self

    def split(self, x, matrix):
        return F.linear(x, matrix).unflatten(-1, (-1, self.c.head_dim)).transpose(1, 2)

    def query(self, n, table):
        """n: the normed input."""
        return rope(self.split(n, self.attn_q), table)

    def key_value(self, n, table):
        return rope(self.split(n, self.attn_k), table), self.split(n, self.attn_v)

    def rest(self, x, attended):
        x = x + F.linear(attended.transpose(1, 2).flatten(-2), self.attn_output)
        n = rms(x, self.ffn_norm, self.c.eps)
        return x + F.linear(F.silu(F.linear(n, self.ffn_gate)) * F.linear(n, self.ffn_up), self.ffn_down)

    def forward(self, x, table):
        """x [batch, n, dim], causal."""
        n = rms(x, self.attn_norm, self.c.eps)
        q, (k, v) = self.query(n, table), self.key_value(n, table)
        return self.rest(x, F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))


class Target(nn.Module):
    def __init__(self, path):
        super().__init__()
        meta, tensors = read_gguf(path)
        self.c = Config(meta)
        self.embed = tensors["token_embd.weight"]
        self.head = tensors.get("output.weight", self.embed)
        self.norm = tensors["output_norm.weight"]
        self.blocks = nn.ModuleList(Layer(self.c).load(tensors, f"blk.{i}") for i in range(self.c.layers))
        self.requires_grad_(False)

    def features(self, ids, lower=()):
        """The residual stream after the lower layers and the last, [batch, n, layers * dim], of ids [batch, n]."""
        x, table, out = self.embed[ids], rope_table(self.c, ids.shape[1]), []
        for i, block in enumerate(self.blocks):
            x = block(x, table)
            out += [x] if i in lower else []
        return torch.cat([*out, x], -1)

    def logits(self, h, ids=None):
        """Rows `ids` of the output matrix, or all."""
        return F.linear(rms(h.float(), self.norm, self.c.eps), self.head if ids is None else self.head[ids])


def main():
    """target.py MODEL FEATURES: holds this model beside the engine's, on held-out conversations."""
    import features
    target = Target(sys.argv[1])
    rows = [r for r in features.load(sys.argv[2]) if r["held_out"] and r["temp"] == 0][::8]
    same = seen = 0
    with torch.no_grad():
        for row in rows:
            best = target.logits(target.features(torch.tensor([row["ids"]]))[0, row["start"] - 1:-1]).argmax(-1)
            same += (best == torch.tensor(row["ids"][row["start"]:])).sum().item()
            seen += len(best)
    print(f"of {seen} greedy tokens of the engine {same} are this model's too: {same / seen:.4f}")
    return same < 0.98 * seen


if __name__ == "__main__":
    sys.exit(main())
