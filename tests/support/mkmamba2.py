#!/usr/bin/env python3
"""mkmamba2.py OUT.gguf [--dim N] [--layers N]: a Mamba-2 of the shape of a published one (130M: 768
wide, 24 layers, heads of 64, states of 128) with random weights of F16, for measurements of time; the
vocabulary is that of tests/data/zoo/mamba2.gguf. With --hybrid N attention and Mamba-2 by turns:
see granitehybrid in docs/models.md."""
import argparse
import os
import random
import struct
import sys

ZOO = os.path.join(os.path.dirname(__file__), "../data/zoo/mamba2.gguf")
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


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("out")
    p.add_argument("--dim", type=int, default=768)
    p.add_argument("--layers", type=int, default=24)
    o = p.parse_args()
    dim, inner, states = o.dim, 2 * o.dim, 128
    heads = inner // 64
    mixed = inner + 2 * states
    numbers = {"embedding_length": dim, "block_count": o.layers, "ssm.inner_size": inner,
               "ssm.state_size": states, "ssm.time_step_rank": heads, "ssm.group_count": 1}
    kv = b""
    pairs = keys(open(ZOO, "rb").read())
    for name, value in pairs:
        short = name.removeprefix("mamba2.")
        if short in numbers:
            value = struct.pack("<II", 4, numbers[short])
        kv += string(name) + value
    rng = random.Random(1)
    noise = [rng.gauss(0, 1) for _ in range(1 << 16)]
    f16, f32 = 1, 0
    tensors = [("token_embd.weight", (dim, 272), f16, 1.0, 0)]
    for i in range(o.layers):
        b = "blk.%d." % i
        tensors += [
            (b + "ssm_a", (1, heads), f32, 0, -1.0), (b + "ssm_d", (1, heads), f32, 0, 1.0),
            (b + "ssm_conv1d.bias", (mixed,), f32, 0, 0), (b + "ssm_conv1d.weight", (4, mixed), f32, 0.5, 0),
            (b + "ssm_dt.bias", (heads,), f32, 0, -4.0), (b + "ssm_norm.weight", (inner, 1), f32, 0, 1.0),
            (b + "ssm_in.weight", (dim, 2 * inner + 2 * states + heads), f16, dim ** -0.5, 0),
            (b + "ssm_out.weight", (inner, dim), f16, inner ** -0.5, 0),
            (b + "attn_norm.weight", (dim,), f32, 0, 1.0)]
    tensors.append(("output_norm.weight", (dim,), f32, 0, 1.0))
    info, at, sizes = b"", 0, []
    for name, dims, kind, _, _ in tensors:
        n = 1
        for d in dims:
            n *= d
        info += string(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        info += struct.pack("<IQ", kind, at)
        sizes.append(n)
        at += -(-n * (2 if kind == f16 else 4) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + kv + info
    with open(o.out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for (_, _, kind, scale, shift), n in zip(tensors, sizes):
            code = "e" if kind == f16 else "f"
            block = struct.pack("<%d%s" % (len(noise), code), *(x * scale + shift for x in noise))
            size = n * struct.calcsize(code)
            f.write((block * (-(-size // len(block))))[:size] + b"\0" * (-size % 32))
    print("%d parameters" % sum(sizes), file=sys.stderr)


main()
