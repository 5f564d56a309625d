#!/usr/bin/env python3
"""cutaway compare from outside, on tiny random models: the table, its JSON, the recordings that give it again, two
models, and what is said of wrong settings. No check depends on how fast the machine is. TAP; standard library alone."""
import json
import os
import signal
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-compare-")
TINY, OTHER = os.path.join(TMP.name, "tiny.gguf"), os.path.join(TMP.name, "other.gguf")
HOMES = {name: os.path.join(TMP.name, name) for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}


def compare(*args):
    done = subprocess.run([PROGRAM, "compare", *args], capture_output=True, cwd=TMP.name, stdin=subprocess.DEVNULL,
                          env={**os.environ, **HOMES})
    return done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace")


def tiny(*args):
    return compare("--model", TINY, "--max-tokens", "8", *args)


def is_range(m):
    return m["low"] <= m["median"] <= m["high"] and m["low"] > 0 and m["confidence"] >= 0.95


def test_equal_sides():
    status, out, err = tiny("temp=0", "--temp 0", "--json", "--no-record", "one two", "three")
    t = json.loads(out)
    check("A with A: as many pairs as were asked for", status == 0 and t["pairs"] == 12 and t["prompts"] == 2, out + err)
    check("A with A: all texts are equal", t["equal_texts"] == 12 and not t["differences"], out)
    check("A with A: the ratios are ranges around their medians", all(is_range(m) for m in t["ratio"].values()), out)
    counted = ("tokens", "steps", "rows", "pages_at_most", "bytes", "perplexity_of_a")
    check("A with A: equal counts", all(t["a"][name] == t["b"][name] > 0 for name in counted), out)
    check("a line of progress for each pair", len(err.splitlines()) == 12 and "prompt 2 of 2, run 6 of 6" in err, err)
    check("nothing was recorded", not os.path.exists(os.path.join(HOMES["XDG_DATA_HOME"], "cutaway/sessions")))


def test_recordings():
    words = ("spec=off", "--spec ngram:4 prefix-cache=off", "--repeat", "2", "--temp", "0", "go on and go on and go on")
    status, live, err = tiny(*words, "--record", "both.db")
    check("two sides are recorded", status == 0 and os.path.exists(os.path.join(TMP.name, "both-a.db")) and
          os.path.exists(os.path.join(TMP.name, "both-b.db")), live + err)
    check("the table names the settings", "A  spec=off  (" in live and "B  --spec ngram:4 prefix-cache=off  (" in live, live)
    check("and has what was asked of it", all(word in live for word in (
        "tokens a second", "TTFT", "ITL p50", "ITL p99", "steps", "rows computed", "KV pages at most",
        "read, written, GB", "perplexity of A", "50.0 % range", "texts: equal in 2 of 2 pairs")), live)
    status, again, err = compare("both-a.db", "both-b.db")
    check("the recordings alone give the same table", status == 0 and again == live, again + err)
    status, out, err = compare("both-b.db", "both-a.db", "--json")
    check("the order of the files decides which is A", status == 0 and json.loads(out)["a"]["settings"].startswith("--spec ngram"), out + err)
    done = subprocess.run([PROGRAM, "diff", "both-a.db", "both-b.db"], capture_output=True, cwd=TMP.name)
    check("diff compares the same recordings", done.returncode == 0 and b"are equal" in done.stdout, done.stdout + done.stderr)
    done = subprocess.run([PROGRAM, "verify", "--model", TINY, "both-b.db"], capture_output=True, cwd=TMP.name)
    check("verify computes one again", done.returncode == 0 and b"all equal" in done.stdout, done.stdout + done.stderr)


def test_differences():
    status, out, err = tiny("", "seed=1 --temp=2", "--repeat", "2", "--no-record", "--json", "some words")
    t = json.loads(out)
    found = t["differences"][0] if t["differences"] else {}
    check("other draws give another text", status == 0 and t["equal_texts"] == 0 and len(t["differences"]) == 1, out + err)
    check("the first token that differs is told", found.get("pos", 0) > found.get("at", -1) >= 0 and found["a"] != found["b"], out)
    status, out, err = tiny("", "visible=window:16", "--repeat", "1", "--temp", "0", "--no-record", "--json", "word " * 60)
    t = json.loads(out)
    check("what is lossy has another perplexity", status == 0 and t["a"]["perplexity_of_a"] != t["b"]["perplexity_of_a"], out + err)
    status, out, err = compare("model=" + TINY, "model=" + OTHER, "--max-tokens", "8", "--repeat", "1", "--no-record", "x")
    check("tokens of different vocabularies are not compared", status == 0 and "different vocabularies" in out and
          "texts: equal" not in out, out + err)


def test_shipped_prompts():
    status, out, err = compare("--model", TINY, "", "", "--max-tokens", "1", "--repeat", "1", "--no-record", "--json")
    check("without a prompt the shipped ones are taken", status == 0 and json.loads(out)["prompts"] > 5, out + err)
    check("answers of one token have no rate", json.loads(out)["ratio"]["tokens_a_second"]["median"] is None, out)


def test_errors():
    for a, b, words in (("", "spce=off", ("B: unknown option --spce", "did you mean --spec")),
                        ("tmep 0", "", ("A: unknown option --tmep", "--temp")),
                        ("temp=1e9", "", ("A: --temp 1e9: a number from 0 to 100",)),
                        ("", "temp", ("B: --temp needs a value",)), ("", "json", ("B: --json is no setting",)),
                        ("", "overflow=drop", ("B: --overflow changes nothing",)), ("", "spec=nonsense", ("B: no drafter is called",)),
                        ("", "repeat=3", ("B: --repeat is no setting",)), ("", "model=nowhere.gguf", ("B: ", "nowhere.gguf"))):
        status, out, err = tiny(a, b, "--no-record", "x")
        check(f"'{a}' and '{b}' are refused", status in (2, 4) and not out and all(word in err for word in words), err)
    status, out, err = compare("nowhere.db", "elsewhere.db")
    check("a recording that is not there", status == 4 and "nowhere.db" in err, err)
    status, out, err = compare("both-a.db", "both-b.db", "a prompt")
    check("recordings take no prompt", status == 2 and "PROMPT" in err, err)
    subprocess.run([PROGRAM, "run", "--model", TINY, "--record", "run.db", "--max-tokens", "4", "x"], cwd=TMP.name,
                   capture_output=True, check=True)
    status, out, err = compare("run.db")
    check("a recording without a comparison says so", status == 2 and "holds no comparison" in err, err)
    status, out, err = compare("run.db", "run.db")
    check("any two recordings can be compared", status == 0 and "1 pairs of answers to 1 prompt" in out, out + err)
    check("one side alone is not enough", compare("spec=off")[0] == 2)
    status, out, err = tiny("", "", "--ctx", "32", "--no-record", "word " * 100)
    check("a prompt that does not fit", status == 2 and "A: the prompt 'word" in err, err)


def test_interrupt():
    p = subprocess.Popen([PROGRAM, "compare", "--model", TINY, "--no-record", "", "", "--repeat", "1000", "x"], cwd=TMP.name,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **HOMES})
    for line in p.stderr:
        if b"run 3 of" in line:
            break
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=60)
    check("Ctrl-C ends it with what was measured", p.returncode == 130 and b"tokens a second" in out and
          b"2 pairs of answers" in out.replace(b"3 pairs", b"2 pairs"), out + err)


def main():
    made = [subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *args], capture_output=True).returncode
            for args in ([TINY], ["--tokenizer", "spm", OTHER])]
    if any(made):
        print("Bail out! build/tests/mktiny failed")
        return 1
    for test in (test_equal_sides, test_recordings, test_differences, test_shipped_prompts, test_errors, test_interrupt):
        test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
