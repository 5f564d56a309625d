#!/usr/bin/env python3
"""Files beside llama.cpp: perplexity of a text by both, and the mean |difference of log-probability| of a token. Takes the virtual
environment of peer.py, or makes it.

Both round activations to 8 bits where weights are quantised, each in its own way, so such files differ by about 0.06; an F16 file,
whose activations are not rounded, by about 0.001."""
import argparse
import json
import math
import os
import subprocess

import peer


def llama_logps(path, ids):
    import numpy
    p = peer.Peer(path, os.cpu_count())
    p.clear()
    p.step([(t, i, 0, True) for i, t in enumerate(ids)])
    found = []
    for i in range(len(ids) - 1):
        row = numpy.ctypeslib.as_array(p.c.llama_get_logits_ith(p.ctx, i), shape=(p.vocab,)).astype(numpy.float64)
        found.append(float(row[ids[i + 1]] - row.max() - numpy.log(numpy.exp(row - row.max()).sum())))
    p.close()
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--venv", default=os.path.join(peer.ROOT, "build/peer"), help="with llama-cpp-python in it")
    p.add_argument("--text", default=os.path.join(peer.ROOT, "tests/data/score.txt"), help="of at most 512 tokens")
    p.add_argument("models", nargs="+", metavar="FILE.gguf")
    args = p.parse_args()
    peer.enter_venv(args.venv)
    for model in args.models:
        ours = json.loads(subprocess.run([os.path.join(peer.ROOT, "cutaway"), "score", "--json", "--model", model, args.text],
                                         check=True, stdout=subprocess.PIPE).stdout)
        theirs = llama_logps(model, ours["ids"])
        gap = sum(abs(a - b) for a, b in zip(theirs, ours["logp"])) / len(theirs)
        print(f"{ours['model']:40} perplexity {ours['perplexity']:.3f}, llama.cpp {math.exp(-sum(theirs) / len(theirs)):.3f}; "
              f"{gap:.4f} nats a token", flush=True)


if __name__ == "__main__":
    main()
