#!/usr/bin/env python3
"""What stands between two texts, by `cutaway serve`: /infill as llama-server and the plugins of editors have it, and the field
suffix of /v1/completions. TAP; standard library alone."""
import os
import re
import sqlite3
import struct
import subprocess
import sys

import test_serve
from tap import ROOT, check, finish
from test_serve import CHAT, HELLO, TEXT, TMP, Server

PATH = "/infill"
PRE, SUF, MID, REPO, FILE = 4, 5, 6, 7, 8  # bytes that no text here has
KEYS = [f"tokenizer.ggml.{name}_token_id={i}" for name, i in (("fim_pre", PRE), ("fim_suf", SUF), ("fim_mid", MID))]
MORE = [f"tokenizer.ggml.{name}_token_id={i}" for name, i in (("fim_rep", REPO), ("fim_sep", FILE))]
CODE = {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n    return c\n", "n_predict": 8, "temperature": 0}
BANNED = {str(i): -100 for i in (0, 1, 2, PRE, SUF, MID, REPO, FILE)}  # so that an answer has all its tokens


def model(name, *keys, as_=None):
    path = os.path.join(TMP.name, name)
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *[a for key in keys for a in ("--key", key)], path], check=True)
    for old, new in (as_ or {}).items():
        with open(path, "rb") as f:
            data = f.read()
        assert len(old) == len(new) and old.encode() in data
        with open(path, "wb") as f:
            f.write(data.replace(old.encode(), new.encode()))
    return path


class Recorded(Server):
    def __init__(self, file, *args):
        self.record = os.path.join(TMP.name, f"{os.path.basename(file)}.db")
        test_serve.TINY = file
        super().__init__("--headless", "--record", self.record, *args)

    def ids(self, text):
        return self.post("/tokenize", prompt=text)["tokens"] if text else []

    def prompts(self):
        """Of all requests, once the server has ended."""
        assert self.end() == 0, self.told()
        with sqlite3.connect(self.record) as db:
            rows = db.execute("SELECT prompt FROM request ORDER BY request").fetchall()
        return [list(struct.unpack(f"<{len(p) // 4}I", p)) for p, in rows]


def test_shape(s):
    told = s.post(PATH, **CODE, logit_bias=BANNED)
    check("it answers in llama-server's words", told["content"] and told["stop"] is True and told["stop_type"] == "limit" and
          told["tokens_predicted"] == 8 and told["tokens_evaluated"] == told["usage"]["prompt_tokens"] and told["truncated"] is False, told)
    want = [[PRE, *s.ids(CODE["input_prefix"]), SUF, *s.ids(CODE["input_suffix"]), MID]]
    check("tokens_evaluated are those of the prompt", told["tokens_evaluated"] == len(want[0]), told)
    again = s.post(PATH, **{**CODE, "max_tokens": 8, "n_predict": None}, logit_bias=BANNED)
    check("max_tokens is n_predict", again["content"] == told["content"] and again["hash"] == told["hash"], again)
    want.append(want[0])
    text = s.post(TEXT, prompt=CODE["input_prefix"], suffix=CODE["input_suffix"], max_tokens=8, temperature=0, logit_bias=BANNED)
    check("suffix of /v1/completions is the same", text["choices"][0]["text"] == told["content"] and
          text["choices"][0]["hash"] == told["hash"], text)
    want.append(want[0])
    pieces = s.stream(TEXT, prompt=s.ids(CODE["input_prefix"]), suffix=CODE["input_suffix"], max_tokens=8, temperature=0, logit_bias=BANNED)
    check("and streams, of token ids, too", "".join(p["choices"][0]["text"] for p in pieces) == told["content"], pieces)
    want.append(want[0])
    s.post(PATH, **CODE, prompt="x = ")
    want.append([PRE, *s.ids(CODE["input_prefix"]), *s.ids("x = "), SUF, *s.ids(CODE["input_suffix"]), MID])
    s.post(PATH, n_predict=1)
    want.append([PRE, SUF, MID])
    plain = s.post(TEXT, prompt="abc", suffix="", max_tokens=1)
    want.append(s.ids("abc"))
    check("an empty suffix asks for nothing", plain["usage"]["prompt_tokens"] == len(want[-1]), plain)
    ended = s.post(PATH, **CODE, logit_bias={str(MID): 100})
    check("an answer ends where the model goes on to another part", ended["content"] == "" and ended["stop_type"] == "eos" and
          ended["tokens_predicted"] == 1, ended)
    want.append(want[0])
    word = re.search("[a-z]+", told["content"])
    line = s.post(PATH, **CODE, stop=[word[0]], logit_bias=BANNED)
    check("or at a stop string", line["stop_type"] == "word" and line["content"] == told["content"][:word.start()], line)
    want.append(want[0])
    none = s.post(PATH, **{**CODE, "n_predict": 0})
    check("n_predict 0: nothing is computed", none["content"] == "" and none["tokens_predicted"] == 0 and "request" not in none, none)
    vim = {**CODE, "id_slot": 0, "input_extra": [], "prompt": "", "stop": [], "n_indent": 4, "top_k": 40, "top_p": 0.9, "stream": False,
           "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1000,
           "response_fields": ["content", "timings/prompt_n", "truncated", "tokens_cached"]}
    check("what llama.vim sends is taken", s.post(PATH, **vim, logit_bias=BANNED)["content"] == told["content"])
    want.append(want[0])
    return want


def test_refusals(s):
    for path, fields, words in ((PATH, {**CODE, "stream": True}, "stream: it is a field of"), (PATH, {"input_prefix": 3}, "input_prefix: a text"),
                                (PATH, {"input_extra": [{"filename": "a"}]}, "input_extra: a list of"), (PATH, {"input_extra": "a"}, "input_extra: a list"),
                                (PATH, {**CODE, "suffix": "a"}, "suffix: it is a field of /v1/completions"),
                                (TEXT, {"prompt": "a", "suffix": "b", "echo": True}, "suffix"), (TEXT, {"prompt": "a", "suffix": 3}, "suffix: a text"),
                                (CHAT, {"messages": HELLO, "suffix": "b"}, "suffix: it is a field of /v1/completions"),
                                (CHAT, {"messages": HELLO, "samplers": ["top_k"]}, "samplers is not served"),
                                (TEXT, {"prompt": "a", "n_predict": 3}, "its name here is max_tokens"),
                                (TEXT, {"prompt": "a", "input_prefix": "b"}, "it is a field of /infill")):
        status, told, _ = s.ask("POST", path, fields)
        check(f"refused in words: {words}", status == 400 and words in told["error"]["message"], told)


def test_extra(file):
    s = Recorded(file)
    extra = [{"text": "int x;\n", "filename": "x.c", "time": 5}, {"text": "int y;\n"}]
    s.post(PATH, **CODE, input_extra=extra)
    around = [PRE, *s.ids(CODE["input_prefix"]), SUF, *s.ids(CODE["input_suffix"]), MID]
    before = [REPO, *s.ids("myproject\n"), FILE, *s.ids("x.c\n"), *s.ids("int x;\n"), FILE, *s.ids("tmp\n"), *s.ids("int y;\n")]
    last = [FILE, *s.ids("filename\n")]
    told = s.post(PATH, **CODE, input_extra=[{"text": "many words " * 200}])
    check("what does not fit is left out, and that is told", told["truncated"] is True and told["tokens_evaluated"] == 256 - 8 - 1, told)
    long = s.post(PATH, **{**CODE, "input_prefix": "abc " * 300, "input_suffix": "xyz " * 300})
    check("so are the ends of what is around the gap", long["truncated"] is True and long["tokens_evaluated"] <= 256 - 8, long)
    status, refused, _ = s.ask("POST", TEXT, {"prompt": "abc " * 300, "suffix": "xyz", "max_tokens": 8})
    check("not of /v1/completions, which refuses it", status == 400 and refused["error"]["code"] == "context_length_exceeded", refused)
    a, b, c = s.ids("abc " * 300), s.ids("xyz " * 300), s.ids("many words " * 200)
    got = s.prompts()
    check("texts of elsewhere come first, in the form of Qwen", got[0] == [*before, *last, *around], got[0])
    tail = [*c, *last]
    check("the newest of them stay", got[1][-len(around):] == around and got[1][:-len(around)] == tail[len(tail) + len(around) - len(got[1]):], got[1])
    at = got[2].index(SUF)
    check("of the prefix the end stays, of the suffix the beginning", got[2][0] == PRE and got[2][-1] == MID and at > 150 and
          got[2][1:at] == a[-(at - 1):] and got[2][at + 1:-1] == b[:len(got[2]) - at - 2], got[2])


def test_files():
    s = Recorded(model("former.gguf", *[f"tokenizer.ggml.{name}_token_id={i}" for name, i in (("prefix", PRE), ("suffix", SUF), ("middle", MID))]))
    s.post(PATH, **CODE, input_extra=[{"text": "a"}])
    want = [*s.ids("\n\n--- snippet ---\n\n"), *s.ids("a"), PRE, *s.ids(CODE["input_prefix"]), SUF, *s.ids(CODE["input_suffix"]), MID]
    got = s.prompts()
    check("keys of before, and a model without names of files", got == [want], got)
    s = Recorded(model("names.gguf", KEYS[2], as_={"<|im_start|>": "<fim_prefix>", "<|im_end|>": "<|suffix|>"}))
    s.post(PATH, **CODE)
    got = s.prompts()
    check("the names that families give them", got[0][0] == 1 and got[0][-1] == MID and 2 in got[0], got)
    s = Recorded(model("none.gguf"))
    for path, fields in ((PATH, CODE), (TEXT, {"prompt": "a", "suffix": "b"})):
        status, told, _ = s.ask("POST", path, fields)
        check(f"{path}: a model that was not trained for it is refused in words", status == 400 and
              "was not trained to fill one" in told["error"]["message"], told)
    s.prompts()


def main():
    s = Recorded(model("fim.gguf", *KEYS))
    want = test_shape(s)
    test_refusals(s)
    got = s.prompts()
    check("the prompts are what the model was trained with", got == want, next((g for g in zip(got, want) if g[0] != g[1]), None))
    test_extra(model("extra.gguf", *KEYS, *MORE))
    test_files()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
