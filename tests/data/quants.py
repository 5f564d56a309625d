"""Writes quants.bin, for tests/unit/kernels/test_encode.c: 1,024 weights (f32), and then their bytes in each format that the
gguf package has a quantizer for. Needs packages: pip install gguf numpy."""
import os
import numpy
from gguf import GGMLQuantizationType as T
from gguf.quants import quantize

random = numpy.random.default_rng(7)
x = random.normal(0, 0.05, (32, 32)).astype(numpy.float32)
x[0] = 0
x[1] = 0.25
x[2] = -3
x[3] *= 1e-5  # scales are subnormal as f16
x[4] *= 1e4
x[5, 3], x[5, 9] = 0.5, -0.5  # two extremes: the first counts
x[6, 9], x[6, 3] = 0.5, -0.5
x[7] = numpy.arange(32) - 16  # halves between codes
x[8] = (numpy.arange(32) - 15.5) / 4
x[9] = 2.0 ** -numpy.arange(32)
x[10] = abs(x[10])
x[11] = -abs(x[11])
x[12, :31] = 0
with open(os.path.join(os.path.dirname(__file__), "quants.bin"), "wb") as out:
    out.write(x.tobytes())
    for t in (T.F16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.BF16, T.MXFP4):  # as in format_table.h
        out.write(quantize(x, t).tobytes())
