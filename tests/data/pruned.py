"""Writes pruned.bin, for tests/unit/engine/test_pruned.c: plain versions of magnitude, Wanda, 2:4, block influence and the
importance of heads and channels in double, straight from the papers' formulas, on one small matrix. Needs a package: pip
install numpy."""
import os
import numpy

ROWS, COLS, SAMPLES, HEAD = 24, 96, 320, 32
random = numpy.random.default_rng(7)


def magnitude(w, share):
    """The least of the whole matrix."""
    order = numpy.argsort(abs(w).ravel(), kind="stable")
    out = w.ravel().copy()
    out[order[:int(share * w.size)]] = 0
    return out.reshape(w.shape)


def wanda(w, x, share):
    """Algorithm 1: of each row, the least |w| times norm of the input."""
    score = abs(w) * numpy.linalg.norm(x, axis=0)
    out = w.copy()
    numpy.put_along_axis(out, numpy.argsort(score, axis=1, kind="stable")[:, :int(share * w.shape[1])], 0, axis=1)
    return out


def pattern(w, score, keep, of):
    out = w.copy()
    for at in range(0, w.shape[1], of):
        least = numpy.argsort(score[:, at:at + of], axis=1, kind="stable")[:, :of - keep]
        numpy.put_along_axis(out[:, at:at + of], least, 0, axis=1)
    return out


def influence(before, after):
    cosine = (before * after).sum(1) / numpy.linalg.norm(before, axis=1) / numpy.linalg.norm(after, axis=1)
    return numpy.mean(1 - cosine)


def main():
    w = random.normal(0, 0.05, (ROWS, COLS)).astype(numpy.float32).astype(numpy.float64)
    mix = random.normal(0, 1, (COLS, COLS)) * (random.random((COLS, 1)) ** 3)
    x = (random.normal(0, 1, (SAMPLES, COLS)) @ mix / 4).astype(numpy.float32).astype(numpy.float64)
    x[:, 17] *= 8
    x[:, 40] = 0
    after = (x + 0.3 * random.normal(0, 1, x.shape)).astype(numpy.float32).astype(numpy.float64)
    norm = numpy.linalg.norm(x, axis=0)
    heads = [numpy.linalg.norm(x[:, at:at + HEAD] @ w[:, at:at + HEAD].T) ** 2 for at in range(0, COLS, HEAD)]
    channels = [numpy.linalg.norm(numpy.outer(x[:, j], w[:, j])) ** 2 for j in range(COLS)]
    results = [magnitude(w, 0.5), wanda(w, x, 0.5), pattern(w, abs(w), 2, 4), pattern(w, abs(w) * norm, 2, 4), after,
               numpy.array([influence(x, after)]), numpy.array(heads), numpy.array(channels)]
    with open(os.path.join(os.path.dirname(__file__), "pruned.bin"), "wb") as out:
        for a in [w, x] + results:
            out.write(a.astype(numpy.float32).tobytes())


main()
