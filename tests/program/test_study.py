#!/usr/bin/env python3
"""Recordings without an engine: `cutaway record` of a trainer's lines, `quantize --record` and `prune --record`, and how
`replay --follow` shows them while they grow. On tiny random models. TAP; Python's standard library alone."""
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish
from terminal import Failure, Terminal

TMP = tempfile.TemporaryDirectory(prefix="cutaway-study-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}
BEGIN = {"training": "small", "teacher": "large", "params": 1000, "weight_bytes": 4000, "gradient_bytes": 4000,
         "optimizer_bytes": 8000, "steps": 40}


def at(name):
    return os.path.join(TMP.name, name)


def cutaway(*args, text=b""):
    done = subprocess.run([PROGRAM, *args], input=text, capture_output=True, cwd=TMP.name, env=ENV, check=False)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "replace")


def rows(name, query):
    db = sqlite3.connect(f"file:{at(name)}?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def lines(*objects):
    return "".join(json.dumps(o) + "\n" for o in objects).encode()


def test_lines():
    steps = [{"step": 10 * i, "loss": 4 / i, "held": None if i % 2 else 3.5, "tokens": 100 * i, "rate": 1e-3} for i in (1, 2, 3)]
    status, out = cutaway("record", "t.db", text=lines(BEGIN, *steps))
    check("a trainer's lines are recorded", status == 0 and "3 steps" in out, out)
    check("what is trained", rows("t.db", "SELECT name, teacher, params, weight_bytes, gradient_bytes, optimizer_bytes, steps "
                                  "FROM training") == [("small", "large", 1000, 4000, 4000, 8000, 40)])
    found = rows("t.db", "SELECT step, nth, loss, held, kl, tokens, rate FROM trained")
    check("each step, and what is not measured is absent", found == [(i, 10 * i, 4 / i, None if i % 2 else 3.5, None, 100 * i, 1e-3)
                                                                     for i in (1, 2, 3)], found)
    check("each is a step of the recording, which ended in order", rows("t.db", "SELECT step, tokens FROM step") ==
          [(1, 100), (2, 100), (3, 100)] and rows("t.db", "SELECT steps FROM closed") == [(3,)])
    status, out = cutaway("record", "t.db", text=b"")
    check("a recording that is there is not written over", status and "t.db" in out, out)
    for words in (["verify"], ["whatif"], ["diff", "t.db"]):
        status, out = cutaway(*words, "t.db")
        check(f"{words[0]} says what it is, and what shows it", status == 2 and "no engine answered there" in out, out)
    status, out = cutaway("export", "--to", "slides", "-o", "slides.html", "t.db")
    with open(at("slides.html"), encoding="utf-8") as f:
        check("slides of it are its view", status == 0 and "<h2>training" in f.read(), out)


def test_refused():
    wrong = {"no JSON": (b"{", "byte"), "no object": (b"[1]", "no object"), "a key nobody knows": (b'{"step": 1, "lose": 2}', '"lose"'),
             "a text for a number": (b'{"step": 1, "loss": "2"}', '"loss" must be a number'),
             "a number that is none": (b'{"step": 1, "loss": NaN}', ""), "less than nothing": (b'{"step": -1}', '"step"'),
             "neither step nor training": (b'{"loss": 1}', '"step"'), "a key twice": (b'{"step": 1, "step": 2}', "twice"),
             "the recording's own number": (b'{"nth": 1}', '"nth"'), "a line that does not end": (b'{"step":' + b" " * 70000, "longer"),
             "a NUL": (b'{"training": "a\\u0000b"}', "NUL"), "no UTF-8": (b'{"training": "\xff"}', "UTF-8"),
             "too deep": (b"[" * 5000, "levels")}
    for i, (what, (line, words)) in enumerate(wrong.items()):
        status, out = cutaway("record", f"w{i}.db", text=lines(BEGIN, {"step": 1, "loss": 2}) + line + b"\n" + lines({"step": 3}))
        kept = rows(f"w{i}.db", "SELECT nth FROM trained"), rows(f"w{i}.db", "SELECT count(*) FROM closed")
        check(f"refused with its line, and what is before it is kept: {what}",
              status == 3 and "line 3: " in out and words in out and kept == ([(1,)], [(0,)]), (status, out, kept))


def digest(name):
    with open(at(name), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def quantised(method, *options):
    name = method + "".join(options).replace("-", "")
    for more in ((), ("--record", name + ".db")):
        status, out = cutaway("quantize", "--method", method, *options, *more, "f32.gguf", f"{name}{len(more)}.gguf")
        if status:
            raise Failure(out)
    check(f"{name}: the file is the same, recorded or not", digest(name + "0.gguf") == digest(name + "2.gguf"))
    return rows(name + ".db", "SELECT layer, layers, method, nearest, error, weights_error, apart, weights FROM changed ORDER BY step")


def test_quantise():
    text = ("--calibrate", "text")
    gptq, awq = (quantised(m, "--bits", "3", "--group", "32", *text) for m in ("gptq", "awq"))
    check("a row for each layer", [r[:3] for r in gptq] == [(i, 3, "gptq") for i in range(3)], gptq)
    check("the nearest is the same by every method, in the first layer", gptq[0][3] == awq[0][3] > 0, (gptq[0], awq[0]))
    check("GPTQ changes weights more, and what the layer adds less", all(r[4] < r[3] for r in gptq) and gptq[0][5] > awq[0][5], gptq)
    alphas = rows("awqbits3group32calibratetext.db", "SELECT length(alphas) FROM changed")
    check("AWQ tells its exponents", alphas == [(16,)] * 3, alphas)
    errors = [quantised("gptq", "--bits", b, "--group", "32", *text)[0][4] for b in "248"]
    check("fewer bits, more error", errors[0] > 10 * errors[1] > 100 * errors[2] > 0, errors)
    plain = quantised("rtn", "--bits", "3", "--group", "32")
    check("without a text the weights' change alone is told", all(r[3] is r[4] is None and r[5] == p[5] for r, p in zip(plain[:1], plain))
          and plain[0][5] > 0, plain)
    apart = quantised("llm.int8", *text)
    check("LLM.int8() tells its columns", all(r[6] is not None for r in apart), apart)


def test_prune():
    found = []
    for share in ("0.1", "0.5", "0.9"):
        status, out = cutaway("prune", "--method", "wanda", "--sparsity", share, "--calibrate", "text", "--record", f"p{share}.db",
                              "f32.gguf", f"p{share}.gguf")
        check(f"pruned by {share}, and recorded", status == 0, out)
        found.append(rows(f"p{share}.db", "SELECT error, 1.0 * gone / weights, nearest FROM changed")[0])
    check("the share of the weights that went, and an error that grows with it",
          all(abs(f[1] - s) < 0.02 and f[2] is None for f, s in zip(found, (0.1, 0.5, 0.9))) and
          found[0][0] < found[1][0] < found[2][0], found)


def test_follow():
    """A trainer that goes on while somebody watches."""
    trainer = subprocess.Popen([PROGRAM, "record", at("live.db")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=ENV)
    trainer.stdin.write(lines(BEGIN, *({"step": i, "loss": 4 - i / 10} for i in range(1, 6))))
    trainer.stdin.flush()
    screen = Terminal([PROGRAM, "replay", "--follow", at("live.db")], {**ENV, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    try:
        screen.wait("training ─.*small from large")
        screen.wait(r"loss +3\.5\n")
        trainer.stdin.write(lines({"step": 6, "loss": 3.25}))
        trainer.stdin.flush()
        screen.wait(r"loss +3\.25\n")
        screen.wait("step 6,")
        trainer.stdin.close()
        screen.wait("the session has ended")
        screen.send("q")
        check("replay --follow shows a training as it goes on", screen.wait_end() == 0)
    except Failure as e:
        check("replay --follow shows a training as it goes on", False, e)
    finally:
        screen.close()
        trainer.wait()


def test_follow_killed():
    """A trainer that is killed: nobody writes the file any more, which its lock tells."""
    trainer = subprocess.Popen([PROGRAM, "record", at("killed.db")], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=ENV)
    trainer.stdin.write(lines(BEGIN, {"step": 1, "loss": 3.5}))
    trainer.stdin.flush()
    screen = Terminal([PROGRAM, "replay", "--follow", at("killed.db")], {**ENV, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    try:
        screen.wait(r"loss +3\.5\n")
        screen.wait("following")
        trainer.kill()
        trainer.wait()
        screen.wait("no program writes this file any more")
        screen.wait("following", gone=True)
        screen.send("q")
        check("replay --follow tells that the writer was killed", screen.wait_end() == 0)
    except Failure as e:
        check("replay --follow tells that the writer was killed", False, e)
    finally:
        screen.close()
        trainer.kill()


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--type", "F32", "--dim", "64", "--layers", "3", "--ffn", "128", at("f32.gguf")],
                   check=True)
    with open(at("text"), "w", encoding="utf-8") as f:
        f.write("the quick brown fox jumps over the lazy dog, and the cat sat on the mat. " * 300)
    for test in (test_lines, test_refused, test_quantise, test_prune, test_follow, test_follow_killed):
        test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
