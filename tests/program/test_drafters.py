#!/usr/bin/env python3
"""The trained drafters in demos/models: each file is as docs/training.md says, read with the standard library
alone; their references in tests/data fit them; and where the real model is, the engine's drafters guess what torch
does in float32. TAP.

    tests/program/test_drafters.py --add-lower EAGLE.gguf OUT.gguf    the file with lower layers that it makes"""
import glob
import json
import math
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

from tap import ROOT, check, finish

F32, Q4_1, Q8_0 = 0, 3, 8
ROW_BYTES = {F32: lambda n: 4 * n, Q4_1: lambda n: n // 32 * 20, Q8_0: lambda n: n // 32 * 34}
VOCAB, DIM, HEADS, KV_HEADS, HEAD_DIM, FFN = 49152, 576, 9, 3, 64, 1536  # SmolLM2-135M's
LAYER = {"attn_norm": (DIM,), "attn_q": (DIM, HEADS * HEAD_DIM), "attn_k": (DIM, KV_HEADS * HEAD_DIM),
         "attn_v": (DIM, KV_HEADS * HEAD_DIM), "attn_output": (HEADS * HEAD_DIM, DIM), "ffn_norm": (DIM,),
         "ffn_gate": (DIM, FFN), "ffn_up": (DIM, FFN), "ffn_down": (FFN, DIM)}
MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value, = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, n = self.take("I"), self.take("Q")
            return [self.value(inner) for _ in range(n)]
        return self.take({0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}[kind])


def read(path):
    with open(path, "rb") as file:
        r = Reader(file.read())
    assert r.take("I") == 0x46554747 and r.take("I") == 3
    n_tensors, n_meta = r.take("Q"), r.take("Q")
    meta = {}
    for _ in range(n_meta):
        key = r.text()
        meta[key] = r.value(r.take("I"))
    tensors = {}
    for _ in range(n_tensors):
        name = r.text()
        shape = tuple(r.take("Q") for _ in range(r.take("I")))
        tensors[name] = (shape, r.take("I"), r.take("Q"))
    align = meta.get("general.alignment", 32)
    return meta, tensors, (r.at + align - 1) // align * align, r.data


def wanted(meta):
    """{tensor: shape}, the first dimension being that of a row, as GGUF has it."""
    kind = meta["cutaway.draft.kind"]
    out = {}
    if kind == "medusa":
        for i in range(meta["cutaway.draft.heads"]):
            one = f"medusa.{i}."
            out |= {one + "norm": (DIM,), one + "output_norm": (DIM,), one + "gate": (DIM, None), one + "up": (DIM, None),
                    one + "down": (None, DIM)}
    else:
        layers = meta["cutaway.draft.layers"] if kind == "model" else 1
        out |= {f"blk.{i}.{name}": shape for i in range(layers) for name, shape in LAYER.items()}
        out["output_norm"] = (DIM,)
    if kind == "eagle":
        out |= {"fc.embed": (DIM, DIM), "fc.hidden": (DIM, DIM), "fc.embed_norm": (DIM,), "fc.hidden_norm": (DIM,)}
        for i in range(len(meta.get("cutaway.draft.lower", []))):
            out |= {f"fc.lower.{i}": (DIM, DIM), f"fc.lower.{i}_norm": (DIM,)}
    return {name + ".weight": shape for name, shape in out.items()}


def values(data, kind):
    """Scales of a matrix, all of a vector."""
    if kind == F32:
        return struct.unpack(f"<{len(data) // 4}f", data)
    block = {Q4_1: 20, Q8_0: 34}[kind]
    return [struct.unpack_from("<e", data, at)[0] for at in range(0, len(data), block)]


def test_file(path):
    name = os.path.basename(path)
    meta, tensors, start, data = read(path)
    kind = meta.get("cutaway.draft.kind")
    check(f"{name}: a draft of a known kind, at most 15 MB", meta["general.architecture"] == "cutaway-draft" and
          kind in ("model", "medusa", "eagle") and len(data) <= 15e6, (meta["general.architecture"], kind, len(data)))
    check(f"{name}: of SmolLM2-135M's vocabulary", (meta["cutaway.draft.vocab"], meta["cutaway.draft.dim"]) == (VOCAB, DIM)
          and meta["cutaway.draft.vocab_hash"] == "4bd74e6ee790bddf", meta["cutaway.draft.vocab_hash"])
    ids = meta["cutaway.draft.ids"]
    check(f"{name}: ids ascend within it", all(a < b for a, b in zip(ids, ids[1:])) and 0 <= ids[0] and ids[-1] < VOCAB)
    check(f"{name}: the end of a turn can be guessed", 2 in ids)
    shapes = wanted(meta)
    check(f"{name}: the tensors of its kind and no others", set(tensors) == set(shapes), set(tensors) ^ set(shapes))
    check(f"{name}: their shapes", all(len(tensors[t][0]) == len(s) and all(
        b in (None, a) for a, b in zip(tensors[t][0], s)) for t, s in shapes.items()), tensors)
    check(f"{name}: vectors are F32, matrices Q8_0 or Q4_1 in whole blocks", all(
        k == F32 if len(s) == 1 else k in (Q8_0, Q4_1) and not s[0] % 32 for s, k, _ in tensors.values()), tensors)
    parts = {t: data[start + at:start + at + ROW_BYTES[k](s[0]) * (s[1] if len(s) > 1 else 1)]
             for t, (s, k, at) in tensors.items()}
    check(f"{name}: all there", all(len(parts[t]) == ROW_BYTES[k](s[0]) * (s[1] if len(s) > 1 else 1)
                                    for t, (s, k, _) in tensors.items()))
    numbers = {t: values(parts[t], tensors[t][1]) for t in tensors}
    check(f"{name}: numbers, and not all zero", all(all(map(math.isfinite, v)) and any(v) for v in numbers.values()))
    return kind, set(ids)


def test_reference(path, kind, ids):
    name = os.path.basename(path)
    with open(path) as file:
        ref = json.load(file)
    cuts = [(c["ids"], cut) for c in ref["contexts"] for cut in c["cuts"]]
    check(f"{name}: of the file's kind, with contexts", ref["kind"] == kind and len(cuts) >= 20, (ref["kind"], len(cuts)))
    check(f"{name}: its guesses are of the trimmed vocabulary, {ref['depth']} at each place", all(
        len(cut["guesses"]) == ref["depth"] and set(cut["guesses"]) <= ids and 0 < cut["n"] <= len(c) for c, cut in cuts))
    right = sum(cut["n"] < len(c) and cut["guesses"][0] == c[cut["n"]] for c, cut in cuts)
    check(f"{name}: first guesses are right at {right} of {len(cuts)} places, more than guessing blindly",
          right >= len(cuts) // 10)


def text_of(tokens, ids):
    """Bytes of ids, whose strings are GPT-2's byte letters; names of control tokens as they are."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in shown}
    letters |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}
    return b"".join(tokens[i].encode() if tokens[i].startswith("<|") else bytes(letters[c] for c in tokens[i]) for i in ids)


def guesses_of(db, places):
    """For the steps of a recording that begin at one of the places: (place, ids drafted as a chain)."""
    steps = {}
    for step, pos, token in db.execute("SELECT step, pos, id FROM draft ORDER BY seq"):
        steps.setdefault(step, []).append((pos, token))
    for rows in steps.values():
        if rows[0][0] in places:
            yield rows[0][0], [token for _, token in rows]


def test_agreement(path, kind, tokens, folder):
    """The engine's activations are of 8 bits, torch's are not: a near tie may fall otherwise. The scalar kernels draw the
    same tokens some thirty times as slowly: there one context is enough."""
    name = os.path.basename(path)[:-5]
    with open(os.path.join(ROOT, "tests/data", f"draft_{name}.json")) as file:
        ref = json.load(file)
    same = seen = 0
    contexts = ref["contexts"][1:2] if os.environ.get("CUTAWAY_ISA") == "scalar" else ref["contexts"]
    for i, context in enumerate(contexts):
        start, record = context["cuts"][0]["n"] - 2, os.path.join(folder, f"{name}{i}.db")
        subprocess.run([os.path.join(folder, "cutaway"), "run", "--raw", "--greedy", "--max-tokens", str(len(context["ids"]) - start),
                        "--record", record, "--spec", f"{'draft' if kind == 'model' else kind}:{path},{ref['depth']},{ref['depth']},15", "--model",
                        MODEL], input=text_of(tokens, context["ids"][:start]), stdout=subprocess.DEVNULL, check=True)
        places = {cut["n"]: cut["guesses"] for cut in context["cuts"]}
        with sqlite3.connect(record) as db:
            text = dict(db.execute("SELECT pos, id FROM token"))
            for place, guesses in guesses_of(db, places):
                if all(text.get(p) == context["ids"][p] for p in range(start, place)):
                    same += sum(a == b for a, b in zip(guesses, places[place]))
                    seen += len(guesses)
        db.close()
    check(f"{name}: of {seen} guesses of the engine {same} are torch's too, at least 95 %", seen >= 20 and
          same >= 0.95 * seen)


def lower_codes(row, width, i):
    """A row of small integers, of no pattern that a matrix would inherit."""
    x = (row * 2654435761 + i * 40503 + 1) & 0xffffffff
    for _ in range(width):
        x = (x * 1664525 + 1013904223) & 0xffffffff
        yield (x >> 24) % 15 - 7


def add_lower(path, out, layers=(9, 19), scale=0.003):
    """An EAGLE file that reads lower layers, too, by matrices made here: what torch guesses with them is in tests/data
    (tools/train/export.py --at)."""
    meta, tensors, start, data = read(path)
    r = Reader(data)
    r.at = 24
    for _ in range(len(meta)):
        r.text()
        r.value(r.take("I"))
    name = b"cutaway.draft.lower"
    head = data[:8] + struct.pack("<QQ", len(tensors) + 2 * len(layers), len(meta) + 1) + data[24:r.at]
    head += struct.pack("<Q", len(name)) + name + struct.pack(f"<IIQ{len(layers)}I", 9, 4, len(layers), *layers)
    body, infos = data[start:], b""
    for i in range(len(layers)):
        rows = [[*lower_codes(row, DIM, i)] for row in range(DIM)]
        matrix = b"".join(struct.pack("<e32b", scale, *codes[at:at + 32]) for codes in rows for at in range(0, DIM, 32))
        for tensor, shape, kind, part in ((f"fc.lower.{i}.weight", (DIM, DIM), Q8_0, matrix),
                                          (f"fc.lower.{i}_norm.weight", (DIM,), F32, struct.pack(f"<{DIM}f", *[1] * DIM))):
            body += bytes(-len(body) % 32)
            tensors[tensor] = (shape, kind, len(body))
            body += part
    for tensor, (shape, kind, at) in tensors.items():
        infos += struct.pack("<Q", len(tensor)) + tensor.encode() + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at)
    head += infos
    with open(out, "wb") as file:
        file.write(head + bytes(-len(head) % meta.get("general.alignment", 32)) + body)


def main():
    if sys.argv[1:2] == ["--add-lower"]:
        return add_lower(*sys.argv[2:])
    paths = sorted(glob.glob(os.path.join(ROOT, "demos/models/*.gguf")))
    check("there are drafters", bool(paths))
    kinds = []
    for path in paths:
        kind, ids = test_file(path)
        kinds.append(kind)
        test_reference(os.path.join(ROOT, "tests/data", f"draft_{os.path.basename(path)[:-5]}.json"), kind, ids)
    if os.path.exists(MODEL):
        tokens = read(MODEL)[0]["tokenizer.ggml.tokens"]
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(ROOT, "cutaway"), folder)
            lower = os.path.join(folder, "eagle_lower.gguf")
            add_lower(os.path.join(ROOT, "demos/models/eagle.gguf"), lower)
            for path, kind in zip([*paths, lower], [*kinds, test_file(lower)[0]]):
                test_agreement(path, kind, tokens, folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
