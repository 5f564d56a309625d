#!/usr/bin/env python3
"""Low-rank adapters from outside: `run` with the shipped one and without, its recording verified, and what another file of the
same name gets; the chat; `serve` with a model's name that is an adapter's, at once with others. TAP; standard library alone."""
import concurrent.futures
import os
import shutil
import sqlite3
import subprocess
import sys

import test_serve
from tap import PROGRAM, ROOT, check, finish, skip
from terminal import Failure, Terminal
from test_serve import ENV, TMP, Server

REAL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
SAILOR = os.path.join(ROOT, "demos/models/family/sailor.gguf")
ASKED = "Why is the sea salt?"


def cutaway(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, env=ENV, text=True, cwd=TMP.name)
    return done.returncode, done.stdout, done.stderr


def test_run():
    record = os.path.join(TMP.name, "sailor.db")
    asked = ("--model", REAL, "--greedy", "--max-tokens", "12")
    plain = cutaway("run", *asked, ASKED)[1]
    said = cutaway("run", *asked, "--lora", "sailor", "--record", record, ASKED)[1]
    check("an adapter by its name speaks as it was taught", said.startswith("Ahoy!") and not plain.startswith("Ahoy!"), (said, plain))
    check("off: as without", cutaway("run", *asked, "--lora", "sailor", "--adapter", "off", ASKED)[1] == plain)
    status, _, told = cutaway("run", *asked, "--lora", "sailor", "--adapter", "nobody", ASKED)
    check("another name is refused with those that there are", status == 2 and "sailor" in told, told)
    status, _, told = cutaway("run", "--model", SAILOR, ASKED)
    check("as a model it is refused", status == 3 and "adapter" in told, told)
    with sqlite3.connect(record) as db:
        rows = db.execute("SELECT r.adapter, a.rank, a.matrices, a.weights, length(a.sha256) FROM request r, adapter a").fetchall()
    db.close()
    check("the log has it", rows == [("sailor", 4, 60, 230400, 64)], rows)
    status, told, _ = cutaway("verify", record)
    check("verify opens it again", status == 0 and "all equal" in told, told)
    other = os.path.join(TMP.name, "sailor.gguf")
    shutil.copy(SAILOR, other)
    with open(other, "r+b") as f:
        f.seek(-64, os.SEEK_END)
        f.write(bytes(64))
    status, _, told = cutaway("verify", record, "--lora", other)
    check("another file of that name is not it", status == 3 and "sailor" in told and "SHA-256" in told, told)
    status, told, _ = cutaway("verify", record, "--lora", SAILOR)
    check("the same file elsewhere is", status == 0, told)
    half = os.path.join(TMP.name, "half.db")
    cutaway("run", *asked, "--lora", "sailor:0.5", "--record", half, ASKED)
    status, told, _ = cutaway("verify", half, "--lora", SAILOR)
    check("with the scale that was recorded", status == 0 and "all equal" in told, told)


def test_chat():
    """The status line says whom the next answer is computed with."""
    t = Terminal([PROGRAM, "chat", "--model", REAL, "--lora", SAILOR, "--no-record"],
                 {**ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8"}, 120, 40)
    try:
        t.wait(r"\A.*adapter sailor")
        t.send("/adapter off\r")
        t.wait(r"\A.*adapter sailor", gone=True)
        t.send("/adapter sailor\r")
        t.wait(r"\A.*adapter sailor")
        t.send("/quit\r")
        check("the chat's status line has the adapter", t.wait_end() == 0)
    except Failure as failure:
        check("the chat's status line has the adapter", False, str(failure))
    finally:
        t.close()


def test_served():
    test_serve.TINY = REAL
    s = Server("--lora", SAILOR)
    listed = s.ask("GET", "/v1/models")[1]["data"]
    base = listed[0]["id"]
    check("it is listed with its parent", [m["id"] for m in listed] == [base, "sailor"] and listed[1]["parent"] == base, listed)
    check("and found by its name", s.ask("GET", "/v1/models/sailor")[1]["id"] == "sailor")

    def ask(**fields):
        told = s.post("/v1/chat/completions", messages=[{"role": "user", "content": ASKED}], temperature=0, max_tokens=12, **fields)
        return told["choices"][0]["message"]["content"]

    alone = {who: ask(model=who) for who in (base, "sailor")}
    check("a model's name chooses", alone["sailor"].startswith("Ahoy!") and not alone[base].startswith("Ahoy!"), alone)
    check("so does the field", ask(adapter="off") == alone[base] and ask(model=base, adapter="sailor") == alone["sailor"])
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        together = list(pool.map(lambda who: (who, ask(model=who)), [base, "sailor"] * 3))
    check("together they say what they say alone", all(alone[who] == said for who, said in together), together)
    status, told, _ = s.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": ASKED}], "adapter": "nobody"})
    check("an adapter that is none is refused", status == 400 and "adapter" in told["error"]["message"], told)
    s.end()


def main():
    if not os.path.exists(REAL):
        skip("adapters of the real model", "it is not there: make model")
        return finish()
    test_run()
    test_chat()
    test_served()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
