"""Writes formats.bin, for tests/unit/kernels/test_formats.c: of each quantised format 512 random weights, blocks as in
a file and then the values as the gguf package reads them (f32). Needs packages: pip install gguf numpy."""
import os
import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

COUNT = 512
HALVES = {T.Q4_1: [0, 2], T.Q5_1: [0, 2], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
          T.MXFP4: []}
random = numpy.random.default_rng(4)
with open(os.path.join(os.path.dirname(__file__), "formats.bin"), "wb") as out:
    for t in (T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
              T.IQ4_NL, T.IQ4_XS, T.MXFP4):  # as in kernels/format/format_table.h
        block, size = GGML_QUANT_SIZES[t]
        raw = random.integers(0, 256, (COUNT // block, size), dtype=numpy.uint8)
        for at in HALVES.get(t, [0]):
            scale = random.normal(0, 0.05, len(raw)).astype(numpy.float16)
            scale[0] = 3e-6  # subnormal
            raw[:, at:at + 2] = scale.view(numpy.uint8).reshape(-1, 2)
        if t == T.MXFP4:  # subnormal twice, and the largest
            raw[:5, 0] = 0, 1, 2, 254, 255
        values = dequantize(raw.reshape(-1), t).astype(numpy.float32)
        assert values.size == COUNT
        out.write(raw.tobytes() + values.tobytes())
