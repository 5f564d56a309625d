#!/usr/bin/env python3
"""Methods that move factors between tensors (AWQ, SmoothQuant) and prunings of heads and channels on the tiny models of many families (in a run of the day, of three):
what a norm, a bias or a gate has to take differs from one to the next, and a mistake changes the model. TAP; standard library alone."""
import os
import re
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish, sample

ZOO = os.path.join(ROOT, "tests/data/zoo")
FAMILIES = ("qwen3", "phi3", "gemma2", "gemma3", "olmo2", "hunyuan", "glm4", "cohere2", "smollm3", "gptneox", "bitnet")
TMP = tempfile.TemporaryDirectory(prefix="cutaway-factors-")
OUT, TEXT = os.path.join(TMP.name, "out.gguf"), os.path.join(TMP.name, "text")
ENV = {**os.environ, "HOME": TMP.name, "XDG_CACHE_HOME": TMP.name, "XDG_DATA_HOME": TMP.name}


def cutaway(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=ENV)


def perplexity(model):
    r = cutaway("score", TEXT, "--model", model, "--ctx", "128", "--cache-format", "f32")
    found = re.search(r"perplexity ([\d.]+)", r.stdout)
    assert found, r.stdout + r.stderr
    return float(found[1])


def main():
    with open(TEXT, "w") as f:
        f.write("Why does the sun rise over a river of stones, and seven foxes run from it?")
    for family in sample(FAMILIES, 2):
        model = os.path.join(ZOO, family + ".gguf")
        exact = perplexity(model)
        for method in ("awq", "smoothquant"):
            r = cutaway("quantize", "--format", "f16", "--method", method, model, OUT)
            got = perplexity(OUT) if r.returncode == 0 else 0
            os.path.exists(OUT) and os.remove(OUT)
            check(f"{family}: {method} in 16 bits keeps the model", abs(got / exact - 1) < 0.005, (got, exact, r.stderr))
    shared = os.path.join(ROOT, "demos/models/family/shared.gguf")  # a layer's values are read by the next one, too
    r = cutaway("quantize", "--format", "f16", "--method", "awq", shared, OUT)
    check("a layer that reads another's keys and values is refused", r.returncode == 2 and "layer 1 is not" in r.stderr, r.stderr)
    cutaway("prune", "--method", "kv-heads", "--remove", "1", os.path.join(ZOO, "olmo2.gguf"), OUT)
    r = cutaway("score", TEXT, "--model", OUT)  # a width of 24 cannot be read, but every tensor has it
    check("olmo2: norms of all heads lose those of pruned ones", "one of 24" in r.stderr, r.stderr)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
