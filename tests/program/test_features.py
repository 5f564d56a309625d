#!/usr/bin/env python3
"""What cutaway does with a model, on every tiny model of tests/data/zoo (in a run of the day, on some): paths through the engine give the same lines, lossy settings
are recorded and verified, and what a family's memory rules out is refused with the reason. TAP; standard library alone."""
import glob
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish, sample

MODELS = sorted(glob.glob(os.path.join(ROOT, "tests/data/zoo/*.gguf")))
PROMPT = "The cat sat on the mat. The dog sat on the log. The cat sat on the"
TMP = tempfile.TemporaryDirectory(prefix="cutaway-features-")
LINES, DB = os.path.join(TMP.name, "lines"), os.path.join(TMP.name, "record.db")
ENV = {**os.environ, "HOME": TMP.name, "XDG_CACHE_HOME": TMP.name, "XDG_DATA_HOME": TMP.name}
STATES, ENCODER = "keeps? states", "encoder"
SAME = {"chunks": ["--prefill-chunk", "7"], "no KV cache": ["--kv-cache", "off"], "long pages": ["--page-size", "64"],
        "ngram": ["--spec", "ngram:4"], "jacobi": ["--spec", "jacobi:4"], "lookahead": ["--spec", "lookahead"],
        "skip": ["--spec", "skip:1,3"], "itself": ["--spec", "draft:{model},3"], "beside": ["--spec", "beside:{model},3"],
        "shadows": ["--shadow", "all"],
        "rejection": ["--spec", "ngram:4", "--rule", "rejection"]}
LOSSY = {"cache-format": ("f32", "bf16", "e4m3", "q8", "kivi4"), "visible": ("window:16", "sinks:4+window:16",
         "stream:4+window:28", "block:16+last:16", "top:50%", "h2o:32"), "activations": ("int8-tensor",), "weights": ("3/32",),
         "exchange": ("f16 --tensor-parallel 3",)}
REASONS = {"spec": f"{ENCODER}|{STATES}", "cache-format": f"latent|no keys|{ENCODER}|{STATES}",
           "visible": f"latent|cannot be turned|no keys|{ENCODER}|{STATES}",
           "activations": f"experts|{ENCODER}|{STATES}", "weights": f"experts|{STATES}"}
DIFFUSION = {"--spec": ("ngram:4", "no next token"), "--shadow": ("all", "no next token"), "--twin": ("on", "no next token"),
             "--visible": ("window:16", "see all positions"), "--cache-format": ("kivi4", "see later ones"),
             "--activations": ("int8-tensor", "see what comes after"), "--best-of": ("2", "no next token"), "--beam": ("2", "no next token"),
             "--mcts": ("4", "no next token")}
DENOISED = {"chunks": ["--prefill-chunk", "7"], "no KV cache": ["--kv-cache", "off"], "long pages": ["--page-size", "64"],
            "ref": ["--backend", "ref"], "prefix cache": ["--prefix-cache", "on"]}
SCHEDULES = ([], ["--denoise-steps", "5"], ["--denoise", "entropy", "--denoise-block", "6", "--denoise-steps", "6"],
             ["--denoise", "threshold", "--denoise-above", "0.1", "--temp", "0.8"], ["--cache-format", "q8"], ["--weights", "3/32"])
SEARCHES = (["--best-of", "2"], ["--beam", "2"], ["--mcts", "4"])
BATCHES = (["--slots", "6"], ["--slots", "6", "--pages", "16", "--policy", "tgi", "--spec", "ngram:3"])


def cutaway(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, errors="replace", env=ENV)


def run(model, *args, record=None):
    if record and os.path.exists(record):
        os.remove(record)
    return cutaway("run", "--raw", "--model", model, *(["--record", record] if record else ["--no-record"]), *args)


def is_refused(r, setting):
    return r.returncode == 2 and r.stderr.startswith("cutaway: ") and re.search(REASONS.get(setting, "^$"), r.stderr)


def test_same(name, model):
    base = run(model, "--greedy", "--json", "--max-tokens", "16", PROMPT)
    check(f"{name}: runs", base.returncode == 0 and base.stdout, base.stderr)
    for what, args in SAME.items():
        r = run(model, "--greedy", "--json", "--max-tokens", "16", *(a.format(model=model) for a in args), PROMPT)
        check(f"{name}: {what}: the same lines, or why not",
              (r.returncode == 0 and r.stdout == base.stdout) or is_refused(r, args[0][2:]), r.stdout + r.stderr)


def test_lossy(name, model):
    for setting, values in LOSSY.items():
        for value in values:
            r = run(model, f"--{setting}", *value.split(), "--max-tokens", "12", PROMPT, record=DB)
            v = r.returncode == 0 and cutaway("verify", DB)
            check(f"{name}: {setting} {value} is verified, or refused with the reason",
                  is_refused(r, setting) if r.returncode else v.returncode == 0, r.stderr + (v.stdout + v.stderr if v else ""))


def test_batches(name, model, whatif=True):
    answers = None
    for args in (["--slots", "1"], *BATCHES) if whatif else (["--slots", "1"], ["--slots", "6"], ["--slots", "6", "--pages", "6"]):
        r = run(model, "--greedy", "--max-tokens", "16", "--batch", LINES, *args, record=DB)
        got = sorted((j["line"], j["finish"], j["ids"]) for j in map(json.loads, r.stdout.splitlines()))
        answers = answers or got
        check(f"{name}: batch {' '.join(args)}: each answer as alone", len(got) == 6 and got == answers, r.stderr)
    v = cutaway("verify", DB)
    check(f"{name}: few pages are verified", v.returncode == 0, v.stdout + v.stderr)
    if not whatif:
        return
    w = cutaway("whatif", DB, "--pages", "64", "--verify")  # with the recorded model, whatever the default one is
    check(f"{name}: what if there were more", w.returncode == 0, w.stderr)


def test_beside():
    """A model that drafts for itself: what it drafts ahead is used, is told of in the log, and is replayed and verified."""
    model = os.path.join(ROOT, "tests/data/zoo/gemma3.gguf")
    turns = run(model, "--max-tokens", "24", "--spec", f"draft:{model},2,2,0", PROMPT)
    r = run(model, "--max-tokens", "24", "--spec", f"beside:{model},2,2,0", PROMPT, record=DB)
    check("beside: the answer in turns", r.returncode == 0 and r.stdout == turns.stdout, r.stdout + r.stderr)
    with sqlite3.connect(DB) as db:
        kept = db.execute("SELECT min(step), sum(nodes), min(held = assumed) FROM ahead WHERE came = 0").fetchone()
    check("beside: blocks that came as assumed", kept[1] and kept[2] == 1, kept)
    says = cutaway("why", "slow", str(kept[0]), "--file", DB)
    check("beside: why slow tells of them", "they were the next draft" in says.stdout, says.stdout + says.stderr)
    v = cutaway("verify", DB)
    check("beside: verified", v.returncode == 0, v.stdout + v.stderr)


def is_diffusion(model):
    return any(a in os.path.basename(model) for a in ("llada", "dream"))


def test_diffusion(name, model):
    """An answer is a function of prompt, settings and seed; what needs a next token is refused with the reason."""
    base = run(model, "--greedy", "--json", "--max-tokens", "16", "--denoise-steps", "6", PROMPT)
    check(f"{name}: denoises", base.returncode == 0 and len(base.stdout.splitlines()) > 0, base.stderr)
    for what, args in DENOISED.items():
        r = run(model, "--greedy", "--json", "--max-tokens", "16", "--denoise-steps", "6", *args, PROMPT)
        check(f"{name}: {what}: the same lines", r.stdout == base.stdout, r.stderr)
    r = run(model, "--greedy", "--json", "--max-tokens", "80", "--denoise-steps", "1", PROMPT, record=DB)
    with sqlite3.connect(DB) as db:
        told = db.execute("SELECT pos FROM token ORDER BY pos").fetchall()
    check(f"{name}: a step that ends the answer, all its tokens are printed", len(told) > 32 and
          [json.loads(line)["pos"] for line in r.stdout.splitlines()] == [pos for pos, in told], (len(told), r.stderr))
    for setting, (value, why) in DIFFUSION.items():
        r = run(model, setting, value, "--max-tokens", "8", PROMPT)
        check(f"{name}: {setting} {value} is refused with the reason", r.returncode and why in r.stderr, r.stderr)
    for args in SCHEDULES:
        r = run(model, "--max-tokens", "16", *args, PROMPT, record=DB)
        v = cutaway("verify", DB)
        check(f"{name}: {' '.join(args) or 'one a step'} is verified", r.returncode == 0 and v.returncode == 0, r.stderr + v.stderr)
    for args, why in ((["score", "README.md"], "no next token"), (["bench"], "whole answers")):
        r = cutaway(*args, "--model", model)
        check(f"{name}: {args[0]} is refused with the reason", r.returncode and why in r.stderr, r.stderr)
    w = cutaway("whatif", DB, "--pages", "64")
    check(f"{name}: what-if is refused with the reason", w.returncode and "whole answers" in w.stderr, w.stderr)


def main():
    with open(LINES, "w") as f:
        f.writelines(f"{PROMPT} {i}\n" for i in range(6))
    for model in sample(MODELS, 8):
        name = os.path.basename(model)[:-5]
        if is_diffusion(model):
            test_diffusion(name, model)
            test_batches(name, model, whatif=False)
            continue
        test_same(name, model)
        test_lossy(name, model)
        test_batches(name, model)
        for args in SEARCHES:
            r = run(model, *args, "--max-tokens", "8", PROMPT)
            check(f"{name}: {' '.join(args)}", r.returncode == 0, r.stderr)
    test_beside()
    for name, what in ("gpt2", "a context of 128 tokens"), ("llada", "a canvas"), ("t5", "an encoder's input"):
        r = cutaway("certify", "--quick", "--seconds", "1", "--model", os.path.join(ROOT, f"tests/data/zoo/{name}.gguf"))
        check(f"{name}: {what} can be certified", r.returncode == 0 and "all equal" in r.stdout, r.stderr)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
