#!/usr/bin/env python3
"""Vectors of texts by `cutaway serve`: the shape of OpenAI's interface, floats and base64, orders and batches, pooling, what is
refused, and the recording, which is verified. TAP; standard library alone."""
import base64
import math
import os
import sqlite3
import struct
import subprocess
import sys

import test_serve
from tap import PROGRAM, ROOT, check, finish
from test_serve import ENV, TEXT, TINY, TMP, Server

PATH = "/v1/embeddings"
DIM = 64
TEXTS = ["the cat sat on the mat", "a dog", "the cat sat on the mat", "the cat sat on the mat, and there it was seen by all"]


def model(name, *keys, more=()):
    path = os.path.join(TMP.name, name)
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *more, *[a for key in keys for a in ("--key", key)], path], check=True)
    return path


def vectors(s, texts, **fields):
    told = s.post(PATH, input=texts, **fields)
    assert [d["index"] for d in told["data"]] == list(range(len(told["data"]))), told
    return [d["embedding"] for d in told["data"]]


def packed(v):
    """As floats of 32 bits: what is told in digits is exact."""
    return struct.pack(f"<{len(v)}f", *v)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def test_shape(s):
    told = s.post(PATH, input=TEXTS, model="any", user="anna", encoding_format="float")
    data = told["data"]
    check("a list of vectors in the order of the texts", told["object"] == "list" and len(data) == 4 and
          all(d["object"] == "embedding" and d["index"] == i and len(d["embedding"]) == DIM for i, d in enumerate(data)), told)
    ids = [s.post("/tokenize", prompt=t)["tokens"] for t in TEXTS]
    n = sum(map(len, ids))
    check("the tokens of all texts are counted", told["usage"]["prompt_tokens"] == told["usage"]["total_tokens"] == n, told["usage"])
    check("it says what they are made of", told["pooling"] == "last", told["pooling"])
    check("their length is 1", all(abs(dot(d["embedding"], d["embedding"]) - 1) < 1e-6 for d in data))
    same = packed(data[0]["embedding"]) == packed(data[2]["embedding"]) and data[0]["hash"] == data[2]["hash"]
    check("the same text has the same bits and hash, another has not", same and data[0]["hash"] != data[1]["hash"] and
          packed(data[0]["embedding"]) != packed(data[1]["embedding"]), data)
    alone = [vectors(s, t)[0] for t in reversed(TEXTS)][::-1]
    check("alone they have the bits that they have together", [packed(v) for v in alone] == [packed(d["embedding"]) for d in data])
    check("token ids give what the text gives", [packed(v) for v in vectors(s, ids)] == [packed(v) for v in alone] and
          packed(vectors(s, ids[1])[0]) == packed(alone[1]))
    coded = [base64.b64decode(v) for v in vectors(s, TEXTS, encoding_format="base64")]
    check("base64 has the same bits", coded == [packed(v) for v in alone])
    short = vectors(s, TEXTS, dimensions=7)
    check("fewer dimensions are the first ones, of length 1 again", all(
        len(v) == 7 and abs(dot(v, v) - 1) < 1e-6 and abs(dot(v, w[:7]) - math.sqrt(dot(w[:7], w[:7]))) < 1e-6
        for v, w in zip(short, alone)), short)
    check("all dimensions change nothing", [packed(v) for v in vectors(s, TEXTS, dimensions=DIM)] == [packed(v) for v in alone])
    many = s.post(PATH, input=[f"text {i}" for i in range(64)])
    check("64 at once", len(many["data"]) == 64 and len({d["hash"] for d in many["data"]}) == 64)
    return alone


def test_pooling(s, last):
    mean = s.post(PATH, input=TEXTS, pooling="mean")
    got = [d["embedding"] for d in mean["data"]]
    check("the mean is asked for by a field", mean["pooling"] == "mean" and [packed(v) for v in got] != [packed(v) for v in last], mean["pooling"])
    one = s.post("/tokenize", prompt="a")["tokens"][:1]
    check("of one token both are the same", packed(vectors(s, one)[0]) == packed(vectors(s, one, pooling="mean")[0]))
    again = [vectors(s, t, pooling="mean")[0] for t in TEXTS]
    check("alone a mean has the same bits", [packed(v) for v in again] == [packed(v) for v in got])
    cached = s.post(PATH, input=TEXTS[3] * 3)["usage"]["prompt_tokens_details"]["cached_tokens"]
    cached = s.post(PATH, input=TEXTS[3] * 3)["usage"]["prompt_tokens_details"]["cached_tokens"] - cached
    none = s.post(PATH, input=TEXTS[3] * 3, pooling="mean")["usage"]["prompt_tokens_details"]["cached_tokens"]
    check("the prefix cache serves the last token, not the mean", cached > 0 and none == 0, (cached, none))
    return got


def test_refusals(s):
    for fields, words, param in (
            ({}, "input: it is missing", "input"), ({"input": []}, "input: it is empty", "input"), ({"input": 3}, "input: a text", "input"),
            ({"input": [[1], [99999]]}, "input: token ids", "input"), ({"input": ["a"] * 65}, "input: at most 64", "input"),
            ({"input": "a", "encoding_format": "int8"}, "encoding_format: float or base64", "encoding_format"),
            ({"input": "a", "dimensions": 0}, "dimensions: a whole number from 1 to 64", "dimensions"),
            ({"input": "a", "dimensions": 65}, "dimensions: a whole number from 1 to 64", "dimensions"),
            ({"input": "a", "pooling": "cls"}, "pooling", "pooling"), ({"input": "a", "pooling": 3}, "pooling: a text", "pooling"),
            ({"input": "a", "normalize": False}, "vectors have length 1", "normalize"),
            ({"input": "a", "embd_normalize": -1}, "vectors have length 1", "embd_normalize"),
            ({"input": "a", "stream": True}, "it is a field of", "stream"), ({"input": "a", "truncate_prompt_tokens": 5}, "not served", None),
            ({"input": "a", "inputs": "b"}, "did you mean input?", "inputs")):
        status, told, _ = s.ask("POST", PATH, fields)
        error = told.get("error", {})
        check(f"refused in words: {words}", status == 400 and words in error["message"] and param in (None, error["param"]), told)
    status, told, _ = s.ask("POST", PATH, {"input": "a", "normalize": True, "embd_normalize": 2, "pooling": None, "dimensions": None})
    check("what asks for nothing is taken", status == 200, told)
    status, told, _ = s.ask("POST", PATH, {"input": ["a", [5] * 257]})
    check("a text longer than the context is refused with its numbers", status == 400 and told["error"]["code"] == "context_length_exceeded" and
          "257 tokens do not fit a context of 256" in told["error"]["message"], told)
    status, told, _ = s.ask("POST", PATH, {"input": [5] * 256})
    check("one that fills it is not", status == 200, told)
    check("input is a field of this path", "/v1/embeddings" in s.ask("POST", TEXT, {"prompt": "a", "input": "b"})[1]["error"]["message"])


def test_engines(last, mean):
    """Other batches, threads, kernels, ranks and replicas: the same bits."""
    for name, args in (("small steps, two threads, other pages", ("--budget", "32", "--prefill-chunk", "5", "--threads", "2", "--page-size", "64")),
                       ("the reference", ("--backend", "ref", "--prefix-cache", "off")), ("two ranks", ("--tensor-parallel", "2")),
                       ("two replicas", ("--replicas", "2")), ("mean by default", ("--pooling", "mean"))):
        s = Server("--headless", *args)
        told = s.post(PATH, input=TEXTS)
        want = mean if "--pooling" in args else last
        check(f"{name}: the same bits", [packed(d["embedding"]) for d in told["data"]] == [packed(v) for v in want], name)
        check(f"{name}: it ends well", s.end() == 0, s.told())


def test_files():
    base = test_serve.TINY
    try:
        test_serve.TINY = model("mean.gguf", "llama.pooling_type=1", "tokenizer.ggml.add_eos_token=true")
        s = Server("--headless")
        told = s.post(PATH, input="a dog")
        ids = s.post("/tokenize", prompt="a dog")["tokens"]
        check("a file's pooling is obeyed", told["pooling"] == "mean" and s.post(PATH, input="a", pooling="last")["pooling"] == "last", told)
        check("a text ends with the token that the file says", told["usage"]["prompt_tokens"] == len(ids) + 1 and
              packed(told["data"][0]["embedding"]) == packed(vectors(s, ids + [2])[0]), told["usage"])
        s.end()
        test_serve.TINY = model("cls.gguf", "llama.pooling_type=2")
        s = Server("--headless")
        status, told, _ = s.ask("POST", PATH, {"input": "a"})
        check("one that is not here is refused in words", status == 400 and "first token's state" in told["error"]["message"] and
              told["error"]["param"] == "pooling" and s.ask("POST", PATH, {"input": "a", "pooling": "last"})[0] == 200, told)
        s.end()
    finally:
        test_serve.TINY = base


def test_log(record):
    def verify():
        done = subprocess.run([PROGRAM, "verify", "--model", TINY, record], capture_output=True, env=ENV, text=True)
        return done.returncode, done.stdout + done.stderr

    with sqlite3.connect(record) as db:
        rows = db.execute("SELECT e.pooling, e.hash, e.vector, r.kind FROM embedding e JOIN request r USING (request)").fetchall()
        code = {(kind, name): value for kind, value, name in db.execute("SELECT list, value, name FROM code")}
    check("the log has each vector with its hash, of requests of their kind", len(rows) > 64 and all(
        kind == code["request_kind", "embed"] and len(v) == 4 * DIM and h for _, h, v, kind in rows) and
        {p for p, *_ in rows} == {code["pooling", "last"], code["pooling", "mean"]}, rows[:1])
    status, told = verify()
    check("verify computes them again", status == 0 and "embed" in told and "all equal" in told, told)
    with sqlite3.connect(record) as db:
        db.execute("UPDATE embedding SET hash = hash + 1 WHERE seq = (SELECT max(seq) FROM embedding)")
    db.close()
    status, told = verify()
    check("a changed hash is found", status == 1 and "differ" in told, (status, told))


def main():
    model("tiny.gguf")
    record = os.path.join(TMP.name, "embed.db")
    s = Server("--headless", "--record", record)
    last = test_shape(s)
    mean = test_pooling(s, last)
    test_refusals(s)
    check("the server ends well", s.end() == 0, s.told())
    test_engines(last, mean)
    test_files()
    test_log(record)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
