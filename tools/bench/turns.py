"""Comparisons by turns: two programs stand ready, one run of one follows one run of the other within a fraction of
a second, and what counts is the ratio of each pair. A machine that changes its speed within seconds changes it for
both. Python's standard library alone."""
import math
import statistics
import subprocess
import sys
import time

REST = 0.05  # seconds after a run: threads that spin before they sleep are not to stand in the next one's way


class Turns:
    """`cutaway bench --turns`: an engine that waits, and makes a run when asked."""

    def __init__(self, program, figure, *options):
        self.process = subprocess.Popen([program, "bench", "--turns", "--only", figure, *options],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.read()

    def read(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit(self.process.wait() or 1)
        return line

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.read())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def pairs(what, a, b, n):
    """n pairs of a() and b(), whose order changes from pair to pair; one pair before them is not counted."""
    found = []
    for i in range(-1, n):
        values = {}
        for side in ((a, b) if i % 2 else (b, a)):
            values[side] = side()
            time.sleep(REST)
        if i >= 0:
            found.append((values[a], values[b]))
        if sys.stderr.isatty():
            print(f"\r\033[K{what}: {i + 1} of {n} pairs", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return found


def interval(values):
    """Where the median lies with 95 % confidence, whatever the distribution (order statistics); the range if the
    values are too few for that."""
    values, n, tail, k = sorted(values), len(values), 0.0, 0
    while k < n // 2 and tail + math.comb(n, k) / 2**n <= 0.025:
        tail += math.comb(n, k) / 2**n
        k += 1
    k = max(k - 1, 0)
    return values[k], values[n - 1 - k]


def tenths(values):
    """Bounds of the middle eight tenths, as `cutaway bench` prints them."""
    values = sorted(values)
    cut = len(values) // 10
    return values[cut], values[len(values) - 1 - cut]


def summary(values):
    return {"median": statistics.median(values), "confidence95": interval(values), "tenths": tenths(values),
            "n": len(values)}
