#!/usr/bin/env python3
"""`cutaway passkey`: a key is found where all is read and not where a window hides it; bad input. TAP; standard library alone."""
import json
import os
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish, skip

MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
TMP = tempfile.TemporaryDirectory(prefix="cutaway-passkey-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}


def passkey(*args):
    done = subprocess.run([PROGRAM, "passkey", *args], capture_output=True, cwd=TMP.name, env=ENV, stdin=subprocess.DEVNULL,
                          check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def found(*args):
    status, out, err = passkey("--json", "--model", MODEL, "--tokens", "300", "--depths", "3", "--keys", "1", "--seed", "4", *args)
    assert status == 0, err
    return json.loads(out)


def test_model():
    full, seen = found(), found("--visible", "sinks:4+window:60")
    check("keys at three depths, in texts of the length asked for", [k["depth_percent"] for k in full["keys"]] == [0, 50, 100] and
          all(250 < k["tokens"] <= 300 and len(k["key"]) == 5 for k in full["keys"]), full)
    check("one in the middle is found where everything is read", full["keys"][1]["found"], full)
    check("and not where it is out of sight", not seen["keys"][0]["found"] and not seen["keys"][1]["found"], seen)
    check("the same keys by the same seed", [k["key"] for k in full["keys"]] == [k["key"] for k in seen["keys"]], seen)
    check("found is their count", full["found"] == sum(k["found"] for k in full["keys"]), full)
    status, out, _ = passkey("--model", MODEL, "--tokens", "300", "--depths", "1", "--keys", "2", "--visible", "window:64")
    check("the table names what is lossy", status == 0 and "50 %   0 of 2" in out and "window:64" in out, out)


def test_refusals():
    tiny = os.path.join(TMP.name, "tiny.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), tiny], check=True)
    status, out, err = passkey("--model", tiny, "--tokens", "5000", "--keys", "1", "--depths", "1")
    check("a text longer than the context is refused", status == 2 and "context" in err and not out, err)
    for args in (["--tokens", "5"], ["--depths", "0"], ["--keys", "-1"], ["more"]):
        status, out, err = passkey("--model", tiny, *args)
        check(f"{' '.join(args)} is refused", status == 2 and err and not out, err)


if os.path.exists(MODEL):
    test_model()
else:
    skip("the keys", "no model: make model")
test_refusals()
sys.exit(finish())
