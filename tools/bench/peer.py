#!/usr/bin/env python3
"""llama.cpp beside cutaway on the same file, threads and lengths, in one run.

Without --venv it makes a virtual environment in build/peer and installs llama-cpp-python there, which compiles
llama.cpp for this machine (about 15 minutes, once); --isa avx2 makes another, compiled for AVX2 without VNNI, and
cutaway uses no more either. llama.cpp is then driven through its C interface, and its runs
take turns with those of `cutaway bench --turns` (turns.py). Each start is that of a fresh process.
Prints a table with the ratios of the pairs (above 1: cutaway is faster), their median, where that lies with 95 %
confidence, and the range of the middle eight tenths; or JSON.
"""
import argparse
import glob
import json
import os
import re
import statistics
import subprocess
import sys
import time

import turns

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSION = "0.3.36"  # of llama-cpp-python
# figure of `cutaway bench`, what it is, whether more is better
FIGURES = [
    ("decode_tok_s", "decode, 32 tokens", True),
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
        self.filled = None

    def close(self):
        self.c.llama_batch_free(self.batch)
        self.c.llama_free(self.ctx)
        self.c.llama_model_free(self.model)

    def clear(self):
        self.filled = None
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

    def fill(self, depth, sequences):
        """The prompts; they stay from run to run, as cutaway's prefix cache keeps them."""
        if self.filled == (depth, sequences):
            for s in range(sequences):
                self.c.llama_memory_seq_rm(self.c.llama_get_memory(self.ctx), s, depth, -1)
            return
        self.clear()
        for s in range(sequences):
            self.prompt(depth, s)
        self.filled = (depth, sequences)

    def decode(self, depth, sequences, n):
        self.fill(depth, sequences)
        start = None
        warm = 4
        for i in range(warm + n):
            if i == warm:
                start = time.perf_counter()
            self.step([(self.token(i + s), depth + i, s, True) for s in range(sequences)])
        return sequences * n / (time.perf_counter() - start)


def peer_figure(peer, name):
    return {"decode_tok_s": lambda: peer.decode(16, 1, 32),
            "decode_1k_tok_s": lambda: peer.decode(1024, 1, 32),
            "prefill_tok_s": lambda: peer.prefill(512),
            "prefill64_tok_s": lambda: peer.prefill(64),
            "batch8_tok_s": lambda: peer.decode(16, 8, 16),
            "batch16_tok_s": lambda: peer.decode(16, 16, 16)}[name]()


def start_to_first(path, threads):
    import llama_cpp  # noqa: F401: loading the library is no part of what is measured
    start = time.perf_counter()
    peer = Peer(path, threads)
    peer.prompt(16)
    ms = 1e3 * (time.perf_counter() - start)
    peer.close()
    return ms


def fresh_start():
    """The same in a process of its own."""
    return float(subprocess.run([sys.executable, *sys.argv, "--start"], stdout=subprocess.PIPE, check=True).stdout)


def measure_figure(args, name, what):
    isa = ["--isa", args.isa] if args.isa else []
    ours = turns.Turns(args.cutaway, name, "--threads", str(args.threads), "--model", args.model, *isa)
    if name == "start_to_first_token_ms":
        found = turns.pairs(what, ours.run, fresh_start, args.pairs)
    else:
        peer = Peer(args.model, args.threads)
        found = turns.pairs(what, ours.run, lambda: peer_figure(peer, name), args.pairs)
        peer.close()
    ours.close()
    return found


def measure(args):
    for name, what, more in FIGURES:
        if args.only and name not in args.only:
            continue
        found = measure_figure(args, name, what)
        yield name, what, {"cutaway": [a for a, _ in found], "llama_cpp": [b for _, b in found],
                           "ratio": [a / b if more else b / a for a, b in found]}


def print_head(args):
    import llama_cpp
    print(f"{os.path.basename(args.model)}, {args.threads} threads, {args.pairs} pairs; llama-cpp-python "
          f"{llama_cpp.__version__}:{llama_cpp.llama_print_system_info().decode().split('CPU', 1)[-1]}\n")
    print(f"{'':26} {'cutaway':>9} {'llama.cpp':>9} {'ratio':>7}  {'95 %':14} middle eight tenths")


def print_line(what, r):
    ratio = turns.summary(r["ratio"])
    (low, high), (least, most) = ratio["confidence95"], ratio["tenths"]
    print(f"{what:26} {statistics.median(r['cutaway']):9.1f} {statistics.median(r['llama_cpp']):9.1f} "
          f"{ratio['median']:6.2f}x  {low:.2f} … {high:.2f}    {least:.2f} … {most:.2f}", flush=True)


def enter_venv(folder, isa):
    """Goes on in the virtual environment's own python; makes it if it is not there."""
    python = os.path.join(folder, "bin/python3")
    if not glob.glob(os.path.join(folder, "lib/python3*/site-packages/llama_cpp")):
        print(f"Installing llama-cpp-python into {folder}: this compiles llama.cpp, about 15 minutes.", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        flags = {"CMAKE_ARGS": "-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON"} if isa else {}
        # pip's cache has a wheel by its name alone, whatever it was compiled for
        subprocess.run([python, "-m", "pip", "install", "--no-cache-dir", "--no-binary", "llama-cpp-python", f"llama-cpp-python=={VERSION}"],
                       env={**os.environ, **flags}, check=True)
    if os.path.realpath(sys.prefix) != os.path.realpath(folder):
        os.execv(python, [python, os.path.abspath(sys.argv[0]), *sys.argv[1:]])


def sets_of(info):
    """The instruction sets in llama.cpp's own words: "CPU : SSE3 = 1 | AVX2 = 1 | ..."."""
    return {name for name, value in re.findall(r"(\w+) = (\d+)", info) if value != "0"}


def check_sets(folder, isa):
    """What is compared uses what it was asked to use."""
    import llama_cpp
    sets = sets_of(llama_cpp.llama_print_system_info().decode())
    beyond = sorted(s for s in sets if s.startswith(("AVX512", "AVX_VNNI", "AMX")))
    if isa == "avx2" and (beyond or "AVX2" not in sets):
        raise SystemExit(f"the llama.cpp in {folder} is not one for AVX2 alone: it has {', '.join(beyond) or 'no AVX2'}. Remove the folder; "
                         "the next run compiles it anew.")
    if not isa and ours_beyond() and not beyond:
        raise SystemExit(f"the llama.cpp in {folder} was compiled for less than this processor has. Remove the folder; the next run "
                         "compiles it anew.")


def ours_beyond():
    """Whether this processor has more than AVX2."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return re.search(r"\b(avx512f|avx_vnni)\b", f.read()) is not None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf"))
    p.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    p.add_argument("--venv", help="with llama-cpp-python in it (default: build/peer, build/peer-avx2)")
    p.add_argument("--isa", choices=["avx2"], help="for both")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--pairs", type=int, default=15, help="of each figure")
    p.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--only", action="append", choices=[name for name, _, _ in FIGURES])
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    enter_venv(args.venv or os.path.join(ROOT, "build", "peer" + ("-" + args.isa if args.isa else "")), args.isa)
    check_sets(sys.prefix, args.isa)
    if args.start:
        print(start_to_first(args.model, args.threads))
        return
    if not args.json:
        print_head(args)
    results = {}
    for name, what, r in measure(args):
        results[name] = r
        if not args.json:
            print_line(what, r)
    if args.json:
        print(json.dumps({"model": os.path.basename(args.model), "threads": args.threads, "figures": results}))


if __name__ == "__main__":
    main()
