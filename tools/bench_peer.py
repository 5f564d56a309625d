#!/usr/bin/env python3
"""llama.cpp beside cutaway on the same file, threads and lengths, in one run.

Without --venv it makes a virtual environment in build/peer and installs llama-cpp-python there, which compiles
llama.cpp for this machine (about 15 minutes, once). llama.cpp is then driven through its C interface, and each of
its runs is followed by one of `cutaway bench --only NAME --json`, so that a drift of the machine touches both.
Prints a table with the ratios (above 1: cutaway is faster), median and spread, or JSON.
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# figure of `cutaway bench`, what it is, whether more is better
FIGURES = [
    ("decode_tok_s", "decode, 128 tokens", True),
    ("decode_1k_tok_s", "decode, 1,024 tokens deep", True),
    ("prefill_tok_s", "prefill, 512 tokens", True),
    ("prefill64_tok_s", "prefill, 64 tokens", True),
    ("batch8_tok_s", "8 sequences together", True),
    ("batch16_tok_s", "16 sequences together", True),
    ("start_to_first_token_ms", "start to first token, ms", False),
]


class Peer:
    """A model and a context of llama.cpp; each step is waited for, its logits are left where they are."""

    def __init__(self, path, threads):
        import llama_cpp
        self.c = c = llama_cpp
        self.quiet = c.llama_log_callback(lambda level, text, data: None)  # kept: llama.cpp calls it later
        c.llama_log_set(self.quiet, None)
        c.llama_backend_init()
        model = c.llama_model_default_params()
        model.n_gpu_layers = 0
        self.model = c.llama_model_load_from_file(path.encode(), model)
        if not self.model:
            raise SystemExit(f"{path}: llama.cpp does not read this file")
        self.vocab = c.llama_vocab_n_tokens(c.llama_model_get_vocab(self.model))
        params = c.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = 8192, 512, 512, 16
        params.n_threads = params.n_threads_batch = threads
        params.kv_unified = True
        self.ctx = c.llama_init_from_model(self.model, params)
        if not self.ctx:
            raise SystemExit("llama.cpp made no context")
        self.batch = c.llama_batch_init(512, 0, 1)

    def close(self):
        self.c.llama_batch_free(self.batch)
        self.c.llama_free(self.ctx)
        self.c.llama_model_free(self.model)

    def clear(self):
        self.c.llama_memory_clear(self.c.llama_get_memory(self.ctx), False)

    def step(self, rows):
        """rows: (token, position, sequence, whether its logits are wanted)."""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, pos, seq, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, pos, 1, wanted
            b.seq_id[i][0] = seq
        if self.c.llama_decode(self.ctx, b):
            raise SystemExit("llama_decode failed")
        self.c.llama_synchronize(self.ctx)

    def token(self, i):
        return 100 + i * 7919 % (self.vocab - 200)

    def prompt(self, n, seq=0):
        for at in range(0, n, 512):
            end = min(at + 512, n)
            self.step([(self.token(i), i, seq, i == n - 1) for i in range(at, end)])

    def prefill(self, n):
        self.clear()
        start = time.perf_counter()
        self.prompt(n)
        return n / (time.perf_counter() - start)

    def decode(self, depth, sequences, n):
        self.clear()
        for s in range(sequences):
            self.prompt(depth, s)
        start = None
        warm = 4
        for i in range(warm + n):
            if i == warm:
                start = time.perf_counter()
            self.step([(self.token(i + s), depth + i, s, True) for s in range(sequences)])
        return sequences * n / (time.perf_counter() - start)


def peer_figure(peer, name):
    return {"decode_tok_s": lambda: peer.decode(16, 1, 128),
            "decode_1k_tok_s": lambda: peer.decode(1024, 1, 64),
            "prefill_tok_s": lambda: peer.prefill(512),
            "prefill64_tok_s": lambda: peer.prefill(64),
            "batch8_tok_s": lambda: peer.decode(16, 8, 32),
            "batch16_tok_s": lambda: peer.decode(16, 16, 32)}[name]()


def start_to_first(path, threads):
    import llama_cpp  # noqa: F401: loading the library is no part of what is measured
    start = time.perf_counter()
    peer = Peer(path, threads)
    peer.prompt(16)
    ms = 1e3 * (time.perf_counter() - start)
    peer.close()
    return ms


def ours(args, name):
    out = subprocess.run([args.cutaway, "bench", "--only", name, "--json", "--threads", str(args.threads), "--model",
                          args.model], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(out)[name]


def measure(args):
    results = {}
    for name, _, more in FIGURES:
        if args.only and name not in args.only:
            continue
        # a context lives for a run alone: its threads must not stand beside cutaway's
        pairs = []
        for _ in range(args.runs):
            if name == "start_to_first_token_ms":
                theirs = start_to_first(args.model, args.threads)
            else:
                peer = Peer(args.model, args.threads)
                peer.decode(16, 1, 8)
                theirs = peer_figure(peer, name)
                peer.close()
            pairs.append((ours(args, name), theirs))
            print(f"\r{name}: {len(pairs)} of {args.runs} pairs", end="", file=sys.stderr, flush=True)
        print("\r\033[K", end="", file=sys.stderr)
        ratios = [a / b if more else b / a for a, b in pairs]
        results[name] = {"cutaway": [a for a, _ in pairs], "llama_cpp": [b for _, b in pairs], "ratio": ratios}
    return results


def print_table(args, results):
    import llama_cpp
    print(f"{os.path.basename(args.model)}, {args.threads} threads, {args.runs} pairs; llama-cpp-python "
          f"{llama_cpp.__version__}:{llama_cpp.llama_print_system_info().decode().split('CPU', 1)[-1]}\n")
    print(f"{'':28} {'cutaway':>10} {'llama.cpp':>10} {'ratio':>7}  lowest .. highest")
    for name, what, _ in FIGURES:
        if name in results:
            r = results[name]
            a, b, ratio = (statistics.median(r[k]) for k in ("cutaway", "llama_cpp", "ratio"))
            print(f"{what:28} {a:10.1f} {b:10.1f} {ratio:6.2f}x  {min(r['ratio']):.2f} .. {max(r['ratio']):.2f}")


def enter_venv(folder):
    """Goes on in the virtual environment's own python; makes it if it is the default one and not there."""
    python = os.path.join(folder, "bin/python3")
    if not glob.glob(os.path.join(folder, "lib/python3*/site-packages/llama_cpp")):
        print(f"Installing llama-cpp-python into {folder}: this compiles llama.cpp, about 15 minutes.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "llama-cpp-python"], check=True)
    if os.path.realpath(sys.prefix) != os.path.realpath(folder):
        os.execv(python, [python, os.path.abspath(__file__)] + sys.argv[1:])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    p.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("--venv", default=os.path.join(ROOT, "build/peer"), help="with llama-cpp-python in it")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--runs", type=int, default=3, help="pairs of each figure")
    p.add_argument("--only", action="append", choices=[name for name, _, _ in FIGURES])
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    enter_venv(args.venv)
    results = measure(args)
    if args.json:
        print(json.dumps({"model": os.path.basename(args.model), "threads": args.threads, "figures": results}))
    else:
        print_table(args, results)


if __name__ == "__main__":
    main()
