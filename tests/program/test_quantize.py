#!/usr/bin/env python3
"""`cutaway quantize` from outside: what it says, files it refuses, a run that is killed, and that the result is used and
named. Runs on tiny random models. TAP; Python's standard library alone."""
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-quantize-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}


def at(name):
    return os.path.join(TMP.name, name)


def make(name, *args):
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *args, at(name)], check=True)


def cutaway(*args):
    """(exit status, output, errors)."""
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name, env=ENV, stdin=subprocess.DEVNULL,
                          check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def score(model, *args):
    return json.loads(cutaway("score", "--json", "--model", at(model), *args, at("text"))[1])


def digest(name):
    with open(at(name), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def test_result():
    status, out, err = cutaway("quantize", "--format", "Q8_0", "f32.gguf", "q8.gguf")
    check("a file is quantised, and what was done is told", status == 0 and not err and "8.5 bits each" in out and
          "already quantised" not in out, out + err)
    check("nothing is left beside it", not os.path.exists(at("q8.gguf.partial")))
    close, far = score("q8.gguf"), score("f32.gguf")
    gap = sum(abs(a - b) for a, b in zip(close["logp"], far["logp"])) / len(far["logp"])
    check("its log-probabilities are near those of the source", 0 < gap < 0.1, gap)
    status, out, err = cutaway("quantize", "--json", "--format", "q4_0", "q8.gguf", "q4.gguf")
    told = json.loads(out)
    check("--json: sizes, bits, error, source", status == 0 and told["bits_a_weight"] == 4.5 and
          told["bytes"] == os.path.getsize(at("q4.gguf")) and told["source_bytes"] == os.path.getsize(at("q8.gguf")) and
          0.01 < told["relative_error"] < 0.2 and told["from_quantised"] and told["source"] == "Q8_0", out + err)
    name = score("q4.gguf")["model"]
    check("an already quantised source is named where the file is used", name == "q4 Q4_0 from Q8_0", name)
    check("score says it in words, too", name in cutaway("score", "--model", at("q4.gguf"), at("text"))[1])
    cert = cutaway("certify", "--quick", "--json", "--model", at("q4.gguf"))[1]
    check("and a certificate", name in cert, cert)


def test_refusals():
    def refused(what, status, words, *args):
        before = sorted(os.listdir(TMP.name))
        got, out, err = cutaway("quantize", *args)
        check(what, got == status and words in err and not out and sorted(os.listdir(TMP.name)) == before, err)

    refused("a format that does not exist", 2, "no such format", "--format", "q9_9", "f32.gguf", "x.gguf")
    refused("rows that no block divides", 2, "--else", "--format", "q6_k", "f32.gguf", "x.gguf")
    refused("the source itself", 2, "the source itself", "f32.gguf", "f32.gguf")
    refused("a result that is there", 2, "there already", "f32.gguf", "q8.gguf")
    refused("nothing to round", 2, "no matrix", "--keep", "weight", "f32.gguf", "x.gguf")
    refused("a source that is not there", 4, "nowhere", "nowhere.gguf", "x.gguf")
    refused("a folder that is not there", 4, "No such file", "f32.gguf", "nowhere/x.gguf")
    refused("one operand", 2, "IN OUT", "f32.gguf")


def test_kill():
    make("large.gguf", "--dim", "1024", "--ffn", "4096", "--layers", "8", "--vocab", "2000", "--type", "F16", "--repeat")
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen([PROGRAM, "quantize", "--format", "q5_k", "large.gguf", "large-q.gguf"], cwd=TMP.name,
                                 env=ENV, stdout=null, stderr=null)
        partial, least = at("large-q.gguf.partial"), os.path.getsize(at("large.gguf")) // 8
        while child.poll() is None and (not os.path.exists(partial) or os.path.getsize(partial) < least):
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
    check("a killed run leaves no file under the final name", not os.path.exists(at("large-q.gguf")) and
          os.path.exists(partial), os.listdir(TMP.name))
    status, out, err = cutaway("quantize", "--json", "--format", "q5_k", "large.gguf", "large-q.gguf")
    check("the next one goes on from it", status == 0 and json.loads(out)["resumed"] > 0, out + err)
    cutaway("quantize", "--threads", "3", "--format", "q5_k", "large.gguf", "again.gguf")
    check("and the file is that of an undisturbed run with other threads", digest("large-q.gguf") == digest("again.gguf"))


def main():
    make("f32.gguf", "--type", "F32", "--embd-type", "F32")
    with open(at("text"), "w", encoding="ascii") as f:
        f.write("The quick brown fox jumps over the lazy dog, and then it sleeps.")
    test_result()
    test_refusals()
    test_kill()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
