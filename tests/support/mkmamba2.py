#!/usr/bin/env python3
"""mkmamba2.py OUT.gguf [--dim N] [--layers N]: a Mamba-2 of the shape of a published one (130M: 768
wide, 24 layers, heads of 64, states of 128) with random weights of F16, for measurements of time; the
vocabulary is that of tests/data/zoo/mamba2.gguf. With --attention N every Nth layer is attention,
and each has a feed-forward (granitehybrid): `--attention 8 --layers 32` is a Granite 4.0 H of 350M."""
import argparse
import os
import random
import struct

ZOO = os.path.join(os.path.dirname(__file__), "../data/zoo")
HEAD, STATES, F32, F16 = 64, 128, 0, 1
KINDS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, kind):
        v = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize("<" + kind)
        return v

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            item, n = self.take("I"), self.take("Q")
            for _ in range(n):
                self.skip(item)
        else:
            self.take(KINDS[kind])


def keys(data):
    """[(name, bytes of type and value)]"""
    r, out = Reader(data), []
    r.at = 16
    for _ in range(r.take("Q")):
        name, at = r.text().decode(), r.at
        r.skip(r.take("I"))
        out.append((name, data[at:r.at]))
    return out


def string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def kinds(o):
    """Of each layer: whether it is attention."""
    return [bool(o.attention) and i % o.attention == o.attention - 1 for i in range(o.layers)]


def numbers(o, inner):
    given = {"embedding_length": o.dim, "block_count": o.layers, "ssm.inner_size": inner, "ssm.state_size": STATES,
             "ssm.time_step_rank": inner // HEAD, "ssm.group_count": 1}
    if o.attention:
        given |= {"attention.head_count": o.dim // HEAD, "feed_forward_length": o.ffn, "rope.dimension_count": HEAD,
                  "expert_shared_feed_forward_length": o.ffn, "expert_count": 0, "expert_used_count": 0}
    return {name: struct.pack("<II", 4, n) for name, n in given.items()}


def file_keys(o, inner):
    name = "granitehybrid" if o.attention else "mamba2"
    new, out = numbers(o, inner), []
    if o.attention:
        new["attention.head_count_kv"] = struct.pack("<IIQ%dI" % o.layers, 9, 4, o.layers, *(x * o.kv_heads for x in kinds(o)))
    with open(os.path.join(ZOO, name + ".gguf"), "rb") as f:
        for key, value in keys(f.read()):
            out.append(string(key) + new.get(key.removeprefix(name + "."), value))
    return out


def mamba2(o, b, inner):
    mixed, heads = inner + 2 * STATES, inner // HEAD
    return [(b + "ssm_a", (1, heads), F32, 0, -1.0), (b + "ssm_d", (1, heads), F32, 0, 1.0),
            (b + "ssm_conv1d.bias", (mixed,), F32, 0, 0), (b + "ssm_conv1d.weight", (4, mixed), F32, 0.5, 0),
            (b + "ssm_dt.bias", (heads,), F32, 0, -4.0), (b + "ssm_norm.weight", (inner, 1), F32, 0, 1.0),
            matrix(b + "ssm_in", o.dim, 2 * inner + 2 * STATES + heads), matrix(b + "ssm_out", inner, o.dim)]


def matrix(name, inputs, outputs):
    return name + ".weight", (inputs, outputs), F16, inputs ** -0.5, 0


def attention(o, b):
    return [matrix(b + "attn_q", o.dim, o.dim), matrix(b + "attn_output", o.dim, o.dim),
            matrix(b + "attn_k", o.dim, o.kv_heads * HEAD), matrix(b + "attn_v", o.dim, o.kv_heads * HEAD)]


def feed_forward(o, b):
    return [(b + "ffn_norm.weight", (o.dim,), F32, 0, 1.0), matrix(b + "ffn_gate", o.dim, o.ffn),
            matrix(b + "ffn_up", o.dim, o.ffn), matrix(b + "ffn_down", o.ffn, o.dim)]


def tensors(o, inner):
    """(name, dimensions, kind, factor of the noise, what is added)"""
    out = [("token_embd.weight", (o.dim, 272), F16, 1.0, 0)]
    for i, attends in enumerate(kinds(o)):
        b = "blk.%d." % i
        out.append((b + "attn_norm.weight", (o.dim,), F32, 0, 1.0))
        out += attention(o, b) if attends else mamba2(o, b, inner)
        out += feed_forward(o, b) if o.attention else []
    return out + [("output_norm.weight", (o.dim,), F32, 0, 1.0)]


def size_of(tensor):
    n = 1
    for d in tensor[1]:
        n *= d
    return n * (2 if tensor[2] == F16 else 4)


def write(f, all_keys, all_tensors):
    rng, info, at = random.Random(1), b"", 0
    noise = [rng.gauss(0, 1) for _ in range(1 << 16)]
    for tensor in all_tensors:
        name, dims, kind = tensor[:3]
        info += string(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind, at)
        at += -(-size_of(tensor) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(all_tensors), len(all_keys)) + b"".join(all_keys) + info
    f.write(head + b"\0" * (-len(head) % 32))
    for tensor in all_tensors:
        _, _, kind, factor, shift = tensor
        block = struct.pack("<%d%s" % (len(noise), "e" if kind == F16 else "f"), *(x * factor + shift for x in noise))
        size = size_of(tensor)
        f.write((block * (-(-size // len(block))))[:size] + b"\0" * (-size % 32))


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("out")
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--layers", type=int, default=24)
    p.add_argument("--attention", type=int, default=0)
    p.add_argument("--kv-heads", type=int, default=4)
    p.add_argument("--ffn", type=int, default=2048)
    o = p.parse_args()
    inner = 2 * o.dim
    with open(o.out, "wb") as f:
        write(f, file_keys(o, inner), tensors(o, inner))


main()
