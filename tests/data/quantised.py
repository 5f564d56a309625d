"""Writes quantised.bin, for tests/unit/engine/test_methods.c: plain versions of GPTQ, AWQ, SmoothQuant and LLM.int8() in
double, straight from the papers' formulas, on one small matrix. Needs a package: pip install numpy."""
import os
import numpy

ROWS, COLS, SAMPLES, GROUP = 24, 96, 320, 32
random = numpy.random.default_rng(11)


def half(x):
    return x.astype(numpy.float16).astype(numpy.float64)


def fit(w, bits, zero_point):
    """Scale and zero of each row of w."""
    low, high = numpy.minimum(w.min(1), 0), numpy.maximum(w.max(1), 0)
    if not zero_point:
        high = numpy.maximum(high, -low)
        low = -high
    scale = half((high - low) / (2 ** bits - 1))
    zero = numpy.round(-low / scale) if zero_point else numpy.full(len(w), 2.0 ** (bits - 1))
    return scale, zero


def nearest(w, scale, zero, bits):
    q = numpy.clip(numpy.round(w / scale) + zero, 0, 2 ** bits - 1)
    return half(scale * (q - zero))


def rtn(w, bits, group, zero_point):
    out = numpy.empty_like(w)
    for at in range(0, w.shape[1], group):
        part = w[:, at:at + group]
        scale, zero = fit(part, bits, zero_point)
        out[:, at:at + group] = nearest(part, scale[:, None], zero[:, None], bits)
    return out


def gptq(w, x, bits, group, zero_point, act_order):
    """Algorithm 1 of the paper, a column at a time."""
    w, n = w.copy(), w.shape[1]
    h = 2 * x.T @ x
    dead = numpy.diag(h) == 0
    h[dead, dead] = 1
    w[:, dead] = 0
    scales = [fit(w[:, at:at + group], bits, zero_point) for at in range(0, n, group)]  # of act_order
    order = numpy.argsort(-numpy.diag(2 * x.T @ x), kind="stable") if act_order else numpy.arange(n)
    h = h[order][:, order]
    h += 0.01 * numpy.mean(numpy.diag(h)) * numpy.eye(n)
    u = numpy.linalg.cholesky(numpy.linalg.inv(h)).T
    w, out = w[:, order], numpy.empty_like(w)
    for j in range(n):
        c = order[j]
        if not act_order and c % group == 0:
            scales[c // group] = fit(w[:, j:j + group], bits, zero_point)
        scale, zero = scales[c // group]
        out[:, c] = nearest(w[:, j], scale, zero, bits)
        error = (w[:, j] - out[:, c]) / u[j, j]
        w[:, j + 1:] -= numpy.outer(error, u[j, j + 1:])
    return out


def awq(w, x, bits, group):
    """Section 3.2: the alpha of least squared error of the outputs, of twenty."""
    size = abs(x).mean(0)
    best = None
    for i in range(20):
        s = numpy.maximum(size ** (i / 20), 1e-4)
        s /= numpy.sqrt(s.max() * s.min())
        error = (((rtn(w * s, bits, group, False) / s - w) @ x.T) ** 2).sum()
        if best is None or error < best[0]:
            best = error, s
    return best[1]


def smooth(w, x, alpha):
    inputs = abs(x).max(0)
    return numpy.where(inputs > 0, inputs ** alpha / abs(w).max(0) ** (1 - alpha), 1)


def int8(w, x):
    """Columns of inputs above 6 stay (in f16), the others have 8 bits and a scale a row."""
    outliers = abs(x).max(0) > 6
    rest = numpy.where(outliers, 0, w)
    return numpy.where(outliers, half(w), rtn(rest, 8, w.shape[1], False))


def q8_0(w):
    """Weights of Q8_0: a scale for 32."""
    blocks = w.reshape(len(w), -1, 32)
    most = abs(blocks).max(2, keepdims=True)
    return (half(most / 127) * numpy.round(blocks * 127 / most)).reshape(w.shape)


def split(w, x):
    """Section 3.2 at run time, with a row of inputs for a batch: values beyond 6 as floats, the others in 8 bits of the row's scale."""
    apart = abs(x) > 6
    rest = numpy.where(apart, 0, x).astype(numpy.float32)
    most = abs(rest).max(1, keepdims=True)
    codes = numpy.rint(rest.astype(numpy.float64) * (numpy.float32(127) / most))
    return (numpy.where(apart, x, codes * most / 127) @ q8_0(w).T).astype(numpy.float32)


def main():
    w = random.normal(0, 0.05, (ROWS, COLS)).astype(numpy.float32).astype(numpy.float64)
    mix = random.normal(0, 1, (COLS, COLS)) * (random.random((COLS, 1)) ** 3)
    x = (random.normal(0, 1, (SAMPLES, COLS)) @ mix / 4).astype(numpy.float32).astype(numpy.float64)
    x[:, 17] *= 8
    x[:, 40] = 0
    results = [gptq(w, x, 3, GROUP, False, False), gptq(w, x, 3, GROUP, True, False), gptq(w, x, 4, GROUP, False, True),
               awq(w, x, 3, GROUP), smooth(w, x, 0.5), int8(w, x), split(w, x)]
    with open(os.path.join(os.path.dirname(__file__), "quantised.bin"), "wb") as out:
        for a in [w, x] + results:
            out.write(a.astype(numpy.float32).tobytes())


main()
