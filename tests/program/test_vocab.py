#!/usr/bin/env python3
"""The vocabularies of llama.cpp (models/ggml-vocab-*.gguf, in the source archive of llama-cpp-python) with the ids that come with
them, or with tests/data/unigram_xlmr.out: every line of every file whose kind is read, and plain words for the others. The archive is fetched once, into build/vendor.
TAP; Python's standard library alone."""
import glob
import os
import subprocess
import sys

from tap import ROOT, check, finish, skip

FOLDER = os.path.join(ROOT, "build/vendor/models")
IDS = os.path.join(ROOT, "build/tests/vocab_ids")
BETWEEN = "\n__ggml_vocab_test__\n"
# No ids come with these; GPT-NeoX has the tokens of MPT.
SAME = {"gpt-neox": "mpt"}
# No ids come with this one either, which has the tokens of XLM-R: these are the sentencepiece library's.
OURS = {"nomic-bert-moe": ("gpt-2", os.path.join(ROOT, "tests/data/unigram_xlmr.out"))}
REFUSED = {"bert-bge": '"bert"'}


def fetch():
    """None, or why there are no files."""
    done = subprocess.run([os.path.join(ROOT, "tools/vendor_models.sh")], capture_output=True, text=True)
    return None if not done.returncode else (done.stderr.strip() or "tools/vendor_models.sh failed").splitlines()[-1]


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def test_ids(name, path, texts, ids):
    got = subprocess.run([IDS, path, texts], capture_output=True, text=True)
    # After the last text comes one more mark.
    wanted, said = [read(texts).split(BETWEEN), read(ids).split("\n")[:-1]], got.stdout.split("\n")[:-1]
    lines = [(line.split(), ids.split(), text) for text, line, ids in zip(wanted[0], wanted[1], said)]
    bad = [f"{text!r}: {' '.join(ids)}, not {' '.join(line)}" for line, ids, text in lines if line != ids]
    whole = not got.returncode and len(lines) == len(wanted[1]) and len(said) >= len(lines) > 40
    check(f"{name}: {len(lines)} texts have the ids that come with it", whole and not bad, got.stderr + "\n".join(bad))


def test_file(path):
    name = os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]
    like, ids = OURS.get(name, (SAME.get(name, name), None))
    texts = os.path.join(FOLDER, f"ggml-vocab-{like}.gguf")
    if name not in REFUSED and os.path.exists(texts + ".inp"):
        return test_ids(name, path, texts + ".inp", ids or texts + ".out")
    got = subprocess.run([IDS, path], capture_output=True, text=True)
    if name in REFUSED:
        why = f'kind {REFUSED[name]} (tokenizer.ggml.model); supported are "gpt2"'
        return check(f"{name} is refused with the kinds that are read", got.returncode == 1 and why in got.stderr, got.stderr)
    return check(f"{name} opens; no ids come with it", not got.returncode, got.stderr)


def main():
    why = fetch()
    if why:
        skip("the vocabularies of llama.cpp", why)
    files = sorted(glob.glob(os.path.join(FOLDER, "ggml-vocab-*.gguf")))
    for path in files:
        test_file(path)
    if not why:
        check("the archive has the files that are known", len(files) >= 19, files)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
