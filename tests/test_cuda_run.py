#!/usr/bin/env python3
"""The whole program on the CUDA back end, its kernels on the shim (tests/cuda_shim): the same tokens and
the same hashes of logits as on the CPU, in each way to run a step, on the fast and on the checked build; and
what a device does that runs out of memory, faults, or goes away. TAP, the standard library."""
import os
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
FAST, CHECKED = "build/tests/libcuda_shim.so", "build/tests/libcuda_shim_checked.so"
REAL = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
n = failed = 0


def ok(good, what, why=""):
    global n, failed
    n += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}")
    for line in [] if good else str(why).splitlines()[-12:]:
        print("#", line)
    sys.stdout.flush()


def cutaway(*args, library=FAST, **env):
    """(exit status, output, errors)"""
    done = subprocess.run(["./cutaway", *args], env=dict(os.environ, CUTAWAY_CUDA_DRIVER=library, **env), text=True,
                          errors="replace", stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def answer(model, backend, *more, tokens=12, prompt="Hello there, you", **env):
    return cutaway("run", "--json", "--greedy", "--backend", backend, "--model", model, "--max-tokens", str(tokens), *more,
                   prompt, **env)


def tiny(folder, name, *options):
    path = os.path.join(folder, name + ".gguf")
    subprocess.run(["build/tests/mktiny", *options, path], check=True, stdout=subprocess.DEVNULL)
    return path


def test_equal(model, what, ways, **more):
    status, expected, errors = answer(model, "cpu", **more)
    ok(status == 0 and expected.count('"hash"') >= 2, f"{what}: the CPU answers", errors)
    for mode, library, seed in ways:
        status, out, errors = answer(model, "cuda", "--cuda-mode", mode, library=library, CUTAWAY_SHIM_SEED=str(seed),
                                     **more)
        build = "checked" if library == CHECKED else "fast"
        ok(status == 0 and out == expected, f"{what}: {mode}, {build} build, seed {seed}: every hash is the CPU's",
           errors or f"{out}\nexpected\n{expected}")


def test_models(folder):
    types = [("Q4_1", []), ("Q8_0", ["--tied", "0"]), ("F16", ["--bias", "--arch", "qwen2", "--pre", "qwen2"]),
             ("IQ4_NL", ["--kv-heads", "1"]), ("Q4_K", ["--dim", "256", "--ffn", "256"]),
             ("Q6_K", ["--dim", "256", "--ffn", "256"])]
    for i, (kind, options) in enumerate(types):
        model = tiny(folder, kind, "--type", kind, *options)
        checked = ["persistent", "launches", "graph"][i % 3]
        test_equal(model, kind, [("persistent", FAST, i), ("graph", FAST, 0), ("launches", FAST, 7),
                                 (checked, CHECKED, i)], tokens=6)


def test_grids(model):
    """The bits do not depend on how many blocks there are."""
    expected = answer(model, "cpu")[1]
    for processors in ("1", "7"):
        out = answer(model, "cuda", CUTAWAY_SHIM_MULTIPROCESSORS=processors)[1]
        ok(out == expected, f"{processors} multiprocessors: every hash is the CPU's", out)


def test_failures(model):
    """Errors are said, in words that name the device, with an exit status, and nobody crashes."""
    cases = [("out of device memory", 5, {"CUTAWAY_SHIM_FAIL": "cuMemAlloc_v2:2=2"}, "has no room"),
             ("a small device", 5, {"CUTAWAY_SHIM_MEMORY": "200000"}, "has no room"),
             ("out of pinned memory", 5, {"CUTAWAY_SHIM_FAIL": "cuMemHostAlloc:1=2"}, "pinned"),
             ("a kernel faults", None, {"CUTAWAY_SHIM_FAIL": "cuStreamSynchronize:9=719!"}, "given up"),
             ("the device goes away", None, {"CUTAWAY_SHIM_FAIL": "cuMemcpyHtoDAsync_v2:6=999!"}, "given up"),
             ("no GPU", 6, {"CUTAWAY_SHIM_DEVICES": "0"}, "no GPU"),
             ("an old GPU", 6, {"CUTAWAY_SHIM_CAPABILITY": "75"}, "below 8.0"),
             ("an old driver", 6, {"CUTAWAY_SHIM_VERSION": "11040"}, "11.4")]
    for what, expected, env, words in cases:
        status, _, errors = answer(model, "cuda", **env)
        good = (status == expected if expected else 0 < status < 100) and words in errors
        ok(good, f"{what}: exit status and words", f"exit status {status}: {errors}")
    for call in (1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 28):  # whatever fails, at whatever moment: no crash
        for name in ("cuMemAlloc_v2", "cuStreamSynchronize"):
            status, _, errors = answer(model, "cuda", tokens=2, CUTAWAY_SHIM_FAIL=f"{name}:{call}=2")
            if status not in (0, 5, 6):
                ok(False, f"{name} fails at call {call}", f"exit status {status}: {errors}")
                return
    ok(True, "allocations and waits that fail at any moment end in an error, none in a crash")


def test_real():
    if not os.path.exists(REAL):
        print("# no real model here: make model")
        return
    test_equal(REAL, "SmolLM2 135M", [("persistent", FAST, 0)], tokens=3, prompt="What is the capital of France?")


def main():
    if not os.path.exists(FAST) or not os.path.exists(CHECKED):
        print("1..0 # skip the shim is not built")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        test_models(folder)
        model = tiny(folder, "small")
        test_grids(model)
        test_failures(model)
    test_real()
    print(f"1..{n}")
    return failed > 0


sys.exit(main())
