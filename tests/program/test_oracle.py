#!/usr/bin/env python3
"""The real models against reference data from independent code (numpy and the tokenizers library; see
tests/README.md). TAP; Python's standard library alone.

With a file's own weights, activations of 8 bits make rounding chaotic: only means are compared. With
the same weights as F32 only the f16 KV cache differs, so single tokens are."""
import json
import os
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish, sample, skip

DATA = os.path.join(ROOT, "tests", "data")
MARGIN = 0.02  # between the best two logits; below it either may win


class Model:
    def __init__(self, file, data, near, how):
        self.path = os.path.join(ROOT, "models", file)
        self.name = file.split(".")[0]
        self.data = data  # where its references are, before "tokens.jsonl" and the like
        self.near = near  # the file's perplexity, relative; its mean |difference|
        self.how = how    # to fetch it


MODELS = [Model("SmolLM2-135M-Instruct.Q4_1.gguf", "", (0.015, 0.10), "model"),
          # llama.cpp on the file itself: 0.9 % and 0.072
          Model("gemma-3-270m-q4_k_m.gguf", "zoo/gemma-3-270m.", (0.015, 0.10), "model MODEL=gemma")]


def cutaway(verb, *args, model, stdin=b""):
    done = subprocess.run([PROGRAM, verb, "--model", model, *args], input=stdin, capture_output=True, timeout=3000)
    if done.returncode:
        raise RuntimeError(f"cutaway {verb}: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout


def load(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def test_tokens(model):
    wrong = []
    texts = load(model.data + "tokens.jsonl")
    plain = ["--plain"] if model.data else []
    for line in texts:
        ids = json.loads(cutaway("tokenize", "--json", *plain, model=model.path, stdin=line["text"].encode()))
        if ids != line["ids"]:
            wrong.append(f"{line['text']!r}: {ids}, should be {line['ids']}")
    check(f"{model.name}: the ids of {len(texts)} texts are exact", texts and not wrong, "\n".join(wrong))


def score(data, model):
    """(perplexity, mean |difference of log-probability|)."""
    with open(os.path.join(DATA, data + "score.json"), encoding="utf-8") as f:
        oracle = json.load(f)
    ours = json.loads(cutaway("score", "--json", os.path.join(DATA, "score.txt"), model=model))
    if ours["ids"] != oracle["ids"]:
        raise RuntimeError("score: other ids than the oracle's")
    delta = [abs(a - b) for a, b in zip(ours["logp"], oracle["logp"])]
    return ours["perplexity"], sum(delta) / len(delta), oracle["perplexity"]


def test_file(model):
    perplexity, delta, oracle = score(model.data, model.path)
    relative, most = model.near
    check(f"the file's perplexity {perplexity:.3f} is within {100 * relative} % of {oracle:.3f}",
          abs(perplexity / oracle - 1) < relative)
    check(f"its mean |difference of log-probability| {delta:.4f} is below {most}", delta < most)


def follow(golden, model):
    """(steps compared, complaint) of our greedy answer along the oracle's; it may part where the oracle's best
    two logits are too near each other, and then nothing more is compared."""
    steps = golden["steps"]
    out = cutaway("run", "--raw", "--json", "--greedy", "--no-record", "--ctx", "512", "--max-tokens",
                  str(len(steps)), model=model, stdin=golden["prompt"].encode())
    ours = [json.loads(line)["id"] for line in out.splitlines()]
    for i, step in enumerate(steps):
        if i == len(ours) or ours[i] != step["token"]:
            near = step["margin"] <= MARGIN
            return i, "" if near else f"{golden['text']!r}: token {i} of {ours}, should be {step['token']}"
    return len(steps), ""


def test_f32(real):
    with tempfile.TemporaryDirectory(prefix="f32-", dir=os.path.join(ROOT, "build")) as folder:
        model = os.path.join(folder, "f32.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/dequant"), real.path, model], check=True)
        perplexity, delta, oracle = score(real.data, model)
        check(f"with F32 weights the mean |difference| {delta:.6f} is below 0.002", delta < 0.002)
        check(f"and perplexity {perplexity:.4f} within 0.1 % of {oracle:.4f}", abs(perplexity / oracle - 1) < 0.001)
        compared, total, wrong = 0, 0, []
        for golden in sample(load(real.data + "goldens.jsonl"), 4):
            n, complaint = follow(golden, model)
            compared += n
            total += len(golden["steps"])
            wrong += [complaint] if complaint else []
        check(f"and greedy tokens are the oracle's wherever it is decided ({compared} of {total} compared)",
              not wrong and compared > 0.8 * total, "\n".join(wrong))


def main():
    if not os.path.exists(MODELS[0].path):
        print("Bail out! there is no model: call make model")
        return 1
    for model in MODELS:
        for test in (test_tokens, test_file, test_f32):
            if os.path.exists(model.path):
                test(model)
            else:
                skip(f"{model.name}: {test.__name__}", f"it is not there: make {model.how}")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
