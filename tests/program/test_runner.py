#!/usr/bin/env python3
"""The runner judges by TAP: what must count as failed does. TAP itself."""
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("runner", os.path.join(TESTS, "run"))
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
loader.exec_module(runner)

CASES = [  # output, (passed, failed, skipped), are there complaints?
    ("all well", "1..2\nok 1 - a\nok 2 - b\n", (2, 0, 0), False),
    ("the plan at the end", "ok 1 - a\n# note\n1..1\n", (1, 0, 0), False),
    ("a failure", "1..2\nok 1 - a\nnot ok 2 - b\n", (1, 1, 0), False),
    ("a skip", "1..2\nok 1 - a # SKIP no such thing here\nok 2\n", (1, 0, 1), False),
    ("a skip as cmocka 1.1.5 writes it", "1..1\nnot ok 1 # SKIP a\n", (0, 0, 1), False),
    ("all skipped", "1..0 # SKIP no compiler\n", (0, 0, 1), False),
    ("two groups", "1..1\nok 1 - a\n1..1\nok 1 - b\n", (2, 0, 0), False),
    ("fewer than planned", "1..3\nok 1 - a\n", (1, 0, 0), True),
    ("no plan", "ok 1 - a\n", (1, 0, 0), True),
    ("nothing at all", "", (0, 0, 0), True),
    ("a bail-out", "1..1\nok 1 - a\nBail out! no model\n", (1, 0, 0), True),
    ("words that begin like a result", "okay then\nnothing\n1..1\nok 1 - a\n", (1, 0, 0), False),
]


def ends():
    """(name, good) for ways a suite may end."""
    out, ending = runner.run("c", ["/bin/sh", "-c", "kill -SEGV $$"], 10)
    yield "a crash is told", "SIGSEGV" in ending
    out, ending = runner.run("c", ["/bin/sh", "-c", "echo here; exit 3"], 10)
    yield "so is an exit status, and the output is kept", ending == "exit status 3" and out == "here\n"
    out, ending = runner.run("c", ["/bin/sh", "-c", "echo here; sleep 60"], 1)
    yield "so is a suite that does not end", "still running" in ending and out == "here\n"
    out, ending = runner.run("c", ["tests/there_is_no_such_suite"], 1)
    yield "so is one that is not built", "not built" in ending
    yield "control characters do not reach the terminal", runner.visible("a\x1b[31m\x9b\tb\n") == "a�[31m�\tb\n"


def choices():
    """Each C suite runs every day, in one form or both, but for those of kernels that passed."""
    suites = [(kind, name) for kind, name, _, _ in runner.suites()]
    compiled = [suite for suite in suites if suite[0] in ("c", "asan")]
    names = {name for _, name in compiled}
    yield "each C suite is run in one form at least", names == {s[1] for s in compiled if runner.is_daily(*s, False)}
    yield "the heavy ones exist", {f"test_{name}" for name in runner.HEAVY} <= names
    yield "none of them runs twice", not any(runner.is_daily("asan", f"test_{name}", False) for name in runner.HEAVY)
    saved = [s for s in suites if runner.is_daily(*s, False) and not runner.is_daily(*s, True)]
    yield "proved kernels save suites", ("c", "test_cuda_matmul") in saved and ("script", "test_arm") in saved
    yield "and none but theirs", all(kind == "isa" or re.search("cuda|arm|ptx", name) or runner.kernel_source(name) for kind, name in saved)
    yield "not those that run models", not any(name in ("test_cuda_run", "test_cuda_host", "test_cuda_faults") for _, name in saved)


def proofs():
    """A proof is of the content, and of a processor with all of this one's instruction sets."""
    was = runner.ROOT, runner.PROVED, runner.isas
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernels", "deep", "a.cuh")
        os.makedirs(os.path.dirname(source))
        runner.ROOT, runner.PROVED = folder, os.path.join(folder, "proved")

        def passed(content, sets):
            with open(source, "w", encoding="utf-8") as f:
                f.write(content)
            runner.isas = lambda: sets
            return runner.are_kernels_proved()

        yield "without a proof nothing is proved", not passed("a", ["avx2", "scalar"])
        runner.prove_kernels()
        yield "what passed is", passed("a", ["avx2", "scalar"])
        yield "on less of a processor, too", passed("a", ["scalar"])
        yield "on more of one it is not", not passed("a", ["avx512", "avx2", "scalar"])
        runner.prove_kernels()
        yield "the wider proof takes the place of the other", len(runner.proofs()) == 1 and passed("a", ["avx2", "scalar"])
        yield "another content is not proved", not passed("b", ["scalar"])
        yield "the same again is, whatever its date", passed("a", ["scalar"])
    runner.ROOT, runner.PROVED, runner.isas = was


def growth():
    was = runner.durations
    runner.durations = lambda: {"c/a": 10.0, "c/b": 10.0, "c/c": 10.0}
    busy = [("c/a", (1, 0, 0), 50.0), ("c/b", (1, 0, 0), 52.0), ("c/c", (1, 0, 0), 49.0)]
    yield "a busy machine is not a slow suite", runner.grown(busy) == []
    grown = runner.grown(busy[:2] + [("c/c", (1, 0, 0), 120.0)])
    yield "one that takes twice as long beside the others is said", len(grown) == 1 and "c/c took 120 s" in grown[0]
    runner.durations = was


def main():
    results = []
    for name, text, counts, complains in CASES:
        passed, failed, skipped, complaints = runner.judge(text)
        results.append((name, (passed, failed, skipped) == counts and bool(complaints) == complains))
    results += [*ends(), *choices(), *proofs(), *growth()]
    print(f"1..{len(results)}")
    for i, (name, good) in enumerate(results):
        print(f"{'ok' if good else 'not ok'} {i + 1} - {name}")
    return not all(good for _, good in results)


if __name__ == "__main__":
    sys.exit(main())
