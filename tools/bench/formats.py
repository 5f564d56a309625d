#!/usr/bin/env python3
"""The weight formats that people's files have, on the real model: requantised by llama.cpp, computed by both.

For each format llama.cpp writes a file (kept in --folder), and both programs compute tests/data/score.txt and a
greedy answer from it: perplexity, the mean |difference of log-probability| of the text's tokens, and how often the
likeliest token is the same one along our answer. `cutaway certify --quick` and `cutaway bench` follow. Prints a
table in Markdown; ends with status 1 if a format is not opened, not equal on all paths, or off in its means by more
than activations of 8 bits explain (the limits of tests/program/test_oracle.py). Single tokens are counted, not judged:
`decided otherwise` are those of our answers that llama.cpp has more than MARGIN below its likeliest. Like
peer.py it makes a virtual environment with llama-cpp-python where --venv names none."""
import argparse
import ctypes
import json
import math
import os
import subprocess
import sys

from peer import ROOT, Peer, enter_venv

FORMATS = ["Q4_0", "Q4_1", "Q4_K_M", "IQ4_NL", "Q5_0", "Q5_1", "Q5_K_M", "Q6_K", "Q8_0"]
PROMPTS = ["The first five prime numbers are", "Once upon a time, in a small village by the sea,",
           "def fibonacci(n):\n", "Water boils at"]
ANSWER = 32
MOST_PERPLEXITY, MOST_MEAN, MARGIN = 0.015, 0.10, 0.5  # the last in logits


def quantise(source, target, name):
    import llama_cpp as c
    params = c.llama_model_quantize_default_params()
    params.allow_requantize = True
    params.ftype = getattr(c, "LLAMA_FTYPE_MOSTLY_" + name)
    if c.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(params)):
        raise SystemExit(f"{target}: llama.cpp could not write it")


def cutaway(args, verb, model, *more, stdin=b""):
    done = subprocess.run([args.cutaway, verb, "--model", model, *more], input=stdin, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"cutaway {verb}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout


def log_probabilities(logits):
    top = max(logits)
    total = math.log(sum(math.exp(x - top) for x in logits)) + top
    return [x - total for x in logits]


def peer_rows(peer, ids):
    """llama.cpp's log-probabilities after each token of ids."""
    peer.clear()
    peer.step([(token, i, 0, True) for i, token in enumerate(ids)])
    return [log_probabilities(peer.c.llama_get_logits_ith(peer.ctx, i)[:peer.vocab]) for i in range(len(ids))]


def compare_text(args, peer, model):
    """(our perplexity, theirs, mean |difference| of a token's log-probability)."""
    ours = json.loads(cutaway(args, "score", model, "--json", os.path.join(ROOT, "tests/data/score.txt")))
    ids = ours["ids"]
    theirs = [row[token] for row, token in zip(peer_rows(peer, ids), ids[1:])]
    delta = sum(abs(a - b) for a, b in zip(ours["logp"], theirs)) / len(theirs)
    return ours["perplexity"], math.exp(-sum(theirs) / len(theirs)), delta


def compare_answers(args, peer, model):
    """(tokens compared, those that are also llama.cpp's likeliest, those that are not though it is decided there,
    mean |difference| of their log-probability), each token after the same tokens."""
    total = same = wrong = 0
    delta = 0.0
    for prompt in PROMPTS:
        ids = json.loads(cutaway(args, "tokenize", model, "--json", stdin=prompt.encode()))
        out = cutaway(args, "run", model, "--raw", "--json", "--greedy", "--no-record", "--max-tokens", str(ANSWER),
                      stdin=prompt.encode())
        answer = [json.loads(line) for line in out.splitlines()]
        rows = peer_rows(peer, ids + [token["id"] for token in answer])[len(ids) - 1:]
        for token, row in zip(answer, rows):
            best = max(row)
            total += 1
            same += row[token["id"]] == best
            wrong += best - row[token["id"]] > MARGIN
            delta += abs(math.log(token["p"]) - row[token["id"]])
    return total, same, wrong, delta / total


def bench(args, model, name):
    out = subprocess.run([*args.bench_prefix.split(), args.cutaway, "bench", "--only", name, "--json", "--threads",
                          str(args.threads), "--model", model], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)[name]


def measure(args, name):
    base = os.path.basename(args.model)
    source_format = next((f for f in sorted(FORMATS, key=len, reverse=True) if f in base), None)
    model = args.model if name == source_format else os.path.join(
        args.folder, base.replace(source_format or ".gguf", name if source_format else f".{name}.gguf"))
    if not os.path.exists(model):
        quantise(args.model, model, name)
    peer = Peer(model, args.threads)
    ours, theirs, delta = compare_text(args, peer, model)
    total, same, wrong, answer_delta = compare_answers(args, peer, model)
    peer.close()
    certificate = json.loads(cutaway(args, "certify", model, "--quick", "--json"))
    row = {"format": name, "holds": certificate["formats"], "mb": os.path.getsize(model) / 1e6, "perplexity": ours,
           "perplexity_llama_cpp": theirs, "mean_difference": delta, "answer_tokens": total, "answer_same": same,
           "answer_wrong": wrong, "answer_difference": answer_delta, "certified": certificate["equal"]}
    for figure in ("decode_tok_s", "prefill_tok_s"):
        row[figure] = None if args.no_bench else bench(args, model, figure)
    row["good"] = (abs(ours / theirs - 1) < MOST_PERPLEXITY and max(delta, answer_delta) < MOST_MEAN
                   and certificate["equal"])
    return row


def print_row(r):
    speed = [f"{r[k]:,.0f}" if r[k] else "" for k in ("decode_tok_s", "prefill_tok_s")]
    print(f"| {r['format']} | {r['holds']} | {r['mb']:.1f} | {r['perplexity']:.2f} | {r['perplexity_llama_cpp']:.2f} | "
          f"{r['mean_difference']:.3f} | {r['answer_same']} of {r['answer_tokens']} | "
          f"{r['answer_wrong']} | "
          f"{'yes' if r['certified'] else 'NO'} | {speed[0]} | {speed[1]} |{'' if r['good'] else ' **off**'}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    p.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("--venv", default=os.path.join(ROOT, "build/peer"), help="with llama-cpp-python in it")
    p.add_argument("--folder", default=os.path.join(ROOT, "build/formats"), help="for the files")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--only", action="append", choices=FORMATS)
    p.add_argument("--no-bench", action="store_true")
    p.add_argument("--bench-prefix", default="", help='put before the bench, for instance "chrt -f 20"')
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    enter_venv(args.venv)
    os.makedirs(args.folder, exist_ok=True)
    rows = []
    if not args.json:
        print("| format | tensors | MB | perplexity | llama.cpp's | mean difference | same likeliest token | "
              "decided otherwise | certified | "
              "decode tok/s | prefill tok/s |\n|" + " --- |" * 11)
    for name in args.only or FORMATS:
        rows.append(measure(args, name))
        if not args.json:
            print_row(rows[-1])
    if args.json:
        print(json.dumps(rows))
    return not all(row["good"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
