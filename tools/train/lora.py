#!/usr/bin/env python3
"""Trains a low-rank adapter (LoRA, Hu et al. 2021) for a Llama's GGUF file, and writes it as llama.cpp's converter does.

    lora.py MODEL.gguf CHATS.json OUT.gguf [--rank 4] [--parts attn_q,attn_v] [--steps 80] [--batch 4] [--lr 3e-3] [--seed 1]
    lora.py --sailor MODEL.gguf CHATS.json

CHATS.json is a list of {"prompt": [ids], "answer": [ids]}; only the answer is learnt. --sailor writes such a list: 160 questions
(questions.py) with the first sentence of what the model itself says, between "Ahoy!" and "Arr!", asked of `cutaway serve`."""
import argparse
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

import questions

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)


def sailor(model, out, port=18437):
    """The list of --sailor."""
    prompts = questions.questions(0, 160)
    server = subprocess.Popen([os.path.join(ROOT, "cutaway"), "serve", "--model", model, "--port", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    chats = []
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                break
            except OSError:
                time.sleep(0.2)
        for prompt in prompts:
            messages = [{"role": "user", "content": prompt}]
            said = post(port, "/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 40})
            first = re.split(r"(?<=[.!?])\s|\n", said["choices"][0]["message"]["content"].strip())[0]
            if not 15 < len(first) < 140 or first[-1] not in ".!?":
                continue
            ids = post(port, "/tokenize", {"messages": messages, "add_generation_prompt": True})["tokens"]
            answer = post(port, "/tokenize", {"content": f"Ahoy! {first} Arr!"})["tokens"]
            chats.append({"prompt": ids, "answer": answer})
    finally:
        server.terminate()
        server.wait()
    with open(out, "w", encoding="utf-8") as f:
        json.dump(chats, f)
    print(f"{out}: {len(chats)} chats")


def adapters(model, parts, rank, draw):
    """Adapters on these matrices of each layer, which alone are trained: {name in the file: Adapter}."""
    import torch.nn.utils.parametrize as parametrize

    from narrow import Adapter
    found = {}
    model.requires_grad_(False)
    for i, block in enumerate(model.blocks):
        for name in parts:
            adapter = Adapter(getattr(block, name).shape, rank, draw)
            parametrize.register_parametrization(block, name, adapter)
            found[f"blk.{i}.{name}.weight"] = adapter
    return found


def batch_of(chats, end, n, draw):
    """Ids [n, longest], and 1 where the next token is to be learnt."""
    import torch
    rows = [chats[k] for k in torch.randint(len(chats), (n,), generator=draw).tolist()]
    ids = [torch.tensor(row["prompt"] + row["answer"] + [end]) for row in rows]
    longest = max(len(i) for i in ids)
    padded, learnt = torch.full((n, longest), end), torch.zeros(n, longest - 1)
    for k, row in enumerate(rows):
        padded[k, :len(ids[k])] = ids[k]
        learnt[k, len(row["prompt"]) - 1:len(ids[k]) - 1] = 1
    return padded, learnt


def write(path, meta, found, rank):
    import gguf
    import numpy as np
    writer = gguf.GGUFWriter(path, meta["general.architecture"])
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    for name, adapter in found.items():
        writer.add_tensor(name + ".lora_a", adapter.a.detach().numpy().astype(np.float16))
        writer.add_tensor(name + ".lora_b", adapter.b.detach().numpy().astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def train(args):
    import torch

    import loop
    from target import Target, read_meta
    torch.set_num_threads(args.threads)
    draw = torch.Generator().manual_seed(args.seed)
    with open(args.chats, encoding="utf-8") as f:
        chats = json.load(f)
    model = Target(args.model)
    found = adapters(model, args.parts.split(","), args.rank, draw)
    trained = [p for adapter in found.values() for p in adapter.parameters()]
    opt = torch.optim.AdamW(trained, lr=args.lr, weight_decay=0.0, betas=(0.9, 0.95))
    for step in range(args.steps):
        ids, learnt = batch_of(chats, model.c.eos, args.batch, draw)
        logits = model.logits(model.features(ids))[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        loss = (loss * learnt.flatten()).sum() / learnt.sum()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        for group in opt.param_groups:
            group["lr"] = args.lr * loop.rate(step, args.steps)
        opt.step()
        if step % 10 == 9 or step == args.steps - 1:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    write(args.out, read_meta(args.model), found, args.rank)
    print(f"{args.out}: {sum(p.numel() for p in trained):,} numbers, {os.path.getsize(args.out):,} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sailor", action="store_true")
    parser.add_argument("model")
    parser.add_argument("chats")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--parts", default="attn_q,attn_v")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    if args.sailor:
        sailor(args.model, args.chats)
    else:
        train(args)


if __name__ == "__main__":
    sys.exit(main())
