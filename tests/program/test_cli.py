#!/usr/bin/env python3
"""The command line from outside: help, errors and exit statuses, options in any order, JSON, pipes, a full
disk, and what reaches a terminal. Runs on a tiny random model. TAP; Python's standard library alone."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import tempfile

from tap import ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-cli-")
PROGRAM = os.path.join(TMP.name, "cutaway")  # a copy, so that no model lies beside it
TINY = os.path.join(TMP.name, "tiny.gguf")
VERBS = ["chat", "run", "replay", "tokenize", "sessions", "score", "bench", "certify", "cache", "why", "export", "whatif", "verify",
         "diff", "lesson", "attach", "serve", "pin", "load", "simulate", "record", "compare", "devices", "formulas", "quantize", "prune", "curve", "passkey"]
HOMES = {name: os.path.join(TMP.name, name) for name in
         ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
HOMES["TMPDIR"] = TMP.name


def cutaway(*args, stdin=b"", env=None, cwd=TMP.name, stdout=subprocess.PIPE, **more):
    """(exit status, output, errors)."""
    done = subprocess.run([PROGRAM, *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, cwd=cwd,
                          env={**os.environ, **HOMES, **(env or {})}, **more)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def tiny(verb, *args, **more):
    return cutaway(verb, "--model", TINY, *args, **more)


def run(*args, **more):
    return tiny("run", "--no-record", "--max-tokens", "12", *args, **more)


def lines(text):
    return [json.loads(line) for line in text.decode().splitlines()]


def test_help():
    status, out, err = cutaway("--help")
    text = out.decode()
    check("--help exits 0 and names every verb", status == 0 and not err and all(v in text for v in VERBS), text)
    for verb in VERBS:
        status, out, _ = cutaway(verb, "--help")
        check(f"{verb} --help", status == 0 and f"cutaway {verb}" in out.decode(), out)
    long = [line for args in ([], *([verb] for verb in VERBS)) for line in cutaway(*args, "--help")[1].decode().splitlines() if len(line) > 79]
    check("help lines fit 80 columns", not long, long)
    check("help is --help, of a verb, too", cutaway("help") == cutaway("--help") and cutaway("help", "run") == cutaway("run", "--help"))
    help_of_run = cutaway("run", "--help")[1].decode()
    check("help tells the defaults, and long lists of values whole", "(0.7)" in help_of_run and "|int8-tensor\n" in help_of_run)
    lists = [re.split(r",\s+", names) for names in re.findall(r"NAME: ([\w,\s-]+) \(", help_of_run)]
    check("a list of names has each once", lists and all(len(set(names)) == len(names) for names in lists), lists)
    status, out, _ = cutaway("--version")
    check("--version", status == 0 and re.match(rb"cutaway \d+\.\d+\.\d+ \(arithmetic \d+\)", out), out)
    status, out, _ = cutaway("--man")
    man = out.decode()
    options = set(re.findall(r"--([a-z-]+)", "".join(cutaway(v, "--help")[1].decode() for v in VERBS)))
    check("the manual has every option of every verb", status == 0 and
          all("\\-\\-" + o.replace("-", "\\-") in man for o in options - {"no"}), sorted(options))
    check("the manual has the exit statuses", ".SH \"EXIT STATUS\"" in man and ".B 130" in man)


def test_completion():
    script = cutaway("--completion", "bash")[1].decode()
    path = os.path.join(TMP.name, "completion")
    with open(path, "w") as f:
        f.write(script)

    def complete(*words):
        code = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cutaway; '
                'printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", code, "bash", path, "cutaway", *words], capture_output=True)
        return done.stdout.decode().split()
    check("completion of a verb after help", complete("help", "rep") == ["replay"], complete("help", "rep"))
    check("completion of verbs", complete("rep") == ["replay"], complete("rep"))
    check("completion of a verb's options", complete("tokenize", "--p") == ["--plain"], complete("tokenize", "--p"))
    for name in ("made.db", "made.gguf"):
        open(os.path.join(TMP.name, name), "w").close()
    for words in (["replay"], ["score"], ["certify"], ["certify", "x.gguf"], ["export"], ["whatif"], ["verify"], ["diff", "b.db"], ["compare"],
                  ["export", "b.db", "-o"], ["export", "b.db", "--out"], ["chat", "--model"], ["chat", "--commands"],
                  ["run", "--batch"], ["why", "miss", "--file"]):
        got = complete(*words, os.path.join(TMP.name, "made"))
        check(f"completion of files for {' '.join(words)}", sorted(os.path.basename(name) for name in got) == ["made.db", "made.gguf"],
              got)
    check("completion of what why explains", complete("why", "pre") == ["preempt"], complete("why", "pre"))
    check("completion of what a cache obeys", complete("cache", "c") == ["clear"], complete("cache", "c"))
    check("completion of values", complete("run", "--backend", "r") == ["ref"], complete("run", "--backend", "r"))
    check("completion of drafters", complete("run", "--spec", "loo") == ["lookahead"], complete("run", "--spec", "loo"))
    check("completion of a setting's other names", complete("whatif", "--cache", "o") == ["on", "off"] and
          "--no-prefix-cache" in complete("run", "--no-"), complete("run", "--no-"))


def test_every_setting():
    """Each option of the help is in the manual with what it does, completes where it has words, and refuses what is
    outside of the range that the manual gives, with its name and that range."""
    manual = cutaway("--man")[1].decode().replace("\\-", "-")
    rows = re.findall(r"\.TP\n\\fB--([a-z-]+)(?: ([^\\\n]*))?\\fR.*\n((?:[^.].*\n)+)", manual)
    names = [name for name, _, _ in rows]
    twice = [verb for verb in VERBS for of in [re.findall(r"(?m)^  --([a-z-]+)", cutaway(verb, "--help")[1].decode())]
             if len(of) != len(set(of))]
    check("an option of a verb has one name", not twice and len(set(names)) > 50, twice)
    check("an option has help", all(len(text.split("Commands:")[0]) > 10 for _, _, text in rows), rows)
    numbers = 0
    for name, arg, text in rows:
        found = re.search(r" From (\S+) to ([^ .]+)", text)
        verb = re.search(r"Commands: (\w+)", text)[1].replace("all", "run")
        if found and arg:
            numbers += 1
            for wrong in (float(found[1]) - 1, float(found[2]) + 1):
                status, _, err = cutaway(verb, f"--{name}={wrong:g}")
                check(f"{verb} --{name} {wrong:g} is refused", status == 2 and f"--{name} {wrong:g}" in err and
                      re.search(r"from \S+ to \S", err), err)
        elif arg and "|" in arg and not re.search(r"[A-Z+]", arg):  # words alone, no NAME
            status, _, err = cutaway(verb, f"--{name}=nonsense")
            check(f"{verb} --{name} nonsense is refused", status == 2 and f"--{name} nonsense: one of {arg}" in err, err)
    check("options have ranges", numbers > 15, numbers)


def test_usage_errors():
    for what, args, word in (
            ("unknown option, with a suggestion", ["run", "--gredy", "x"], "--greedy"),
            ("unknown option, nothing near that the verb takes", ["chat", "--foo"], "--foo; see"),
            ("unknown verb, with a suggestion", ["repaly", "x"], "did you mean replay? see cutaway help, or cutaway --help"),
            ("unknown verb, nothing near", ["frob"], "'frob'; see cutaway help"),
            ("no prompt at all", ["run"], "give a PROMPT"),
            ("an option of another verb", ["tokenize", "--temp", "1"], "--temp"),
            ("an option without its value", ["run", "x", "--temp"], "needs a value"),
            ("a flag with a value", ["run", "--greedy=1", "x"], "takes no value"),
            ("not a number", ["run", "--temp", "warm", "x"], "--temp warm: a number from 0 to 100"),
            ("nan is not a number either", ["run", "--temp", "nan", "x"], "--temp nan: a number from 0 to 100"),
            ("out of range", ["run", "--top-p", "1.5", "x"], "--top-p 1.5: a number from 0 to 1"),
            ("a number too large for any integer", ["run", "--top-k", "99999999999999999999", "x"], "from 0 to 16777216"),
            ("a page size that is no multiple of 16", ["run", "--page-size", "20", "x"], "multiple of 16"),
            ("a seed of more than 64 bits", ["run", "--seed", "18446744073709551616", "x"], "2^64"),
            ("a back end that is not there", ["run", "--backend", "gpu", "x"], "cpu|ref"),
            ("a drafter that is not there", ["run", "--spec", "magic", "--model", TINY, "x"], "ngram"),
            ("an instruction set that is not there", ["run", "--isa", "z80", "--model", TINY, "x"], "z80"),
            ("too many operands", ["run", "two", "words"], "quote"),
            ("too few operands", ["verify"], "FILE"),
            ("--record with --no-record", ["run", "--record", "a.db", "--no-record", "x"], "exclude"),
            ("a single dash", ["-x"], "two dashes"),
            ("a table where there is none", ["run", "--csv", "a.csv", "x"], "--csv"),
            ("a search of many prompts", ["run", "--batch", "a.txt", "--best-of", "2"], "search"),
            ("a judge without a search", ["run", "--score", "wc", "x"], "--best-of"),
            ("one table of a format that has all", ["export", "x.db", "--to", "jsonl", "--table", "token"], "--table is for csv"),
            ("JSON of what is no list", ["cache", "clear", "--json"], "--json"),
            ("JSON of a file that goes", ["sessions", "delete", "x", "--json"], "--json"),
            ("JSON of the lessons' list", ["lesson", "--json"], "--json"),
            ("a key that is no key", ["serve", "--api-key", ""], "--api-key"),
            ("an empty stop text", ["run", "--stop", "", "x"], "--stop")):
        status, out, err = cutaway(*args)
        good = err.count("\n") == 1 and err.startswith("cutaway: ") and word in err and not out
        check(f"exit 2: {what}", good and (status == 2 or what.startswith("an instruction") and status in (2, 6)),
              f"{status} {err}")


def test_file_errors():
    status, _, err = cutaway("run", "x")
    check("no model: exit 4, and how to get one", status == 4 and "make model" in err, f"{status} {err}")
    status, _, err = cutaway("run", "--model", "missing.gguf", "x")
    check("a missing file: exit 4, and its name", status == 4 and "missing.gguf" in err, f"{status} {err}")
    status, _, err = cutaway("run", "--model", __file__, "x")
    check("a file of another kind: exit 3", status == 3 and "test_cli.py" in err, f"{status} {err}")
    status, _, err = cutaway("run", "--model", TMP.name, "x")
    check("a folder as model: exit 3 or 4", status in (3, 4) and err, f"{status} {err}")
    status, _, err = tiny("score", "missing.txt")
    check("score of a missing file: exit 4", status == 4 and "missing.txt" in err, f"{status} {err}")
    status, _, err = cutaway("replay", "missing.db")
    check("replay of a missing file: exit 4", status == 4 and "missing.db" in err, f"{status} {err}")
    status, _, err = cutaway("replay", TINY)
    check("replay of a file of another kind: exit 3", status == 3 and "tiny.gguf" in err, f"{status} {err}")
    with open("/dev/full", "wb") as full:
        status, _, err = run("x", stdout=full)
        check("a full disk behind standard output: exit 4", status == 4 and "space" in err, f"{status} {err}")
        status, _, err = cutaway("--help", stdout=full)
        check("also for --help", status == 4 and "space" in err, f"{status} {err}")


def test_tokenize():
    status, out, err = tiny("tokenize", "--json", stdin=b"Hello world")
    ids = json.loads(out)
    check("tokenize --json is an array", status == 0 and ids and all(isinstance(i, int) for i in ids), out)
    status, out, _ = tiny("tokenize", stdin=b"Hello world")
    check("tokenize without it: the same ids, one a line", [int(x) for x in out.split()] == ids, out)
    parsed = json.loads(tiny("tokenize", "--json", stdin=b"<|im_end|>")[1])
    plain = json.loads(tiny("tokenize", "--json", "--plain", stdin=b"<|im_end|>")[1])
    check("control tokens are parsed", len(parsed) == 1, parsed)
    check("with --plain they are text", len(plain) > 1 and parsed[0] not in plain, plain)
    status, out, _ = tiny("tokenize", "--json", stdin=bytes(range(256)))
    check("any bytes", status == 0 and len(json.loads(out)) > 0, out)
    lacking = os.path.join(TMP.name, "lacking.gguf")  # its token of the byte ff is another
    with open(TINY, "rb") as f:
        data = f.read()
    with open(lacking, "wb") as f:
        f.write(data.replace(b"\2\0\0\0\0\0\0\0\xc3\xbf", b"\2\0\0\0\0\0\0\0~~", 1))
    status, out, err = cutaway("tokenize", "--json", "--model", lacking, stdin=b"a\xffb\xff")
    check("bytes without a token are named", status == 0 and len(json.loads(out)) == 2 and
          err == "cutaway: 2 bytes left out: this vocabulary has no token for (in hex) ff\n", f"{out} {err}")
    check("others are not", tiny("tokenize", "--json", stdin=bytes(range(256)))[2] == "")
    check("nothing gives nothing", json.loads(tiny("tokenize", "--json", stdin=b"")[1]) == [])
    check("the end of the text is not touched", json.loads(tiny("tokenize", "--json", stdin=b"a\n")[1]) !=
          json.loads(tiny("tokenize", "--json", stdin=b"a")[1]))


def test_run():
    status, out, err = run("--json", "Hello")
    rows = lines(out)
    check("run --json: a line a token", status == 0 and 1 <= len(rows) <= 12, err)
    check("each with pos, id, text, p and hash", all(
        set(r) == {"pos", "id", "text", "p", "hash"} and isinstance(r["text"], str) and 0 < r["p"] <= 1 and
        re.fullmatch("[0-9a-f]{16}", r["hash"]) for r in rows), rows[:2])
    check("positions ascend one by one", [r["pos"] for r in rows] == list(range(rows[0]["pos"],
          rows[0]["pos"] + len(rows))), rows)
    check("the same again", run("--json", "Hello")[1] == out)
    lossy = run("--json", "--cache-format=e4m3", "Hello")[1]
    check("--cache-format is named in each line", all(r["lossy"] == "cache-format e4m3" for r in lines(lossy)), lossy)
    check("and gives other logits", lines(lossy)[1]["hash"] != rows[1]["hash"] and "lossy" not in rows[0])
    check("the same from ref", run("--json", "--cache-format=e4m3", "--backend=ref", "Hello")[1] == lossy)
    status, _, err = run("--cache-format=f8", "Hello")
    check("which formats there are", status == 2 and "f16|f32|bf16|e4m3" in err, err)
    check("options before the verb, as --name=value, and after operands", cutaway(
        f"--model={TINY}", "run", "Hello", "--json", "--max-tokens=12", "--no-record")[1] == out)
    check("the prompt from standard input", run("--json", stdin=b"Hello")[1] == out)
    check("its last newline is the shell's", run("--json", stdin=b"Hello\n")[1] == out)
    check("but not with --raw", run("--json", "--raw", stdin=b"Hello\n")[1] != run("--json", "--raw", stdin=b"Hello")[1])
    check("a prompt that looks like an option, behind --", run("--json", "--", "--help")[0] == 0)
    check("another seed, another text", run("--json", "--seed", "1", "--temp", "2", "Hello")[1] !=
          run("--json", "--seed", "2", "--temp", "2", "Hello")[1])
    check("--greedy is --temp 0", run("--json", "--greedy", "Hello")[1] == run("--json", "--temp", "0", "Hello")[1])
    ref = run("--json", "--backend", "ref", "Hello")
    check("the reference back end gives the same lines, hashes and all", ref[0] == 0 and ref[1] == out, ref[2])
    for name, value in (("--threads", "3"), ("--page-size", "64"), ("--prefill-chunk", "1"), ("--spec", "ngram:4")):
        check(f"{name} {value} too", run("--json", name, value, "Hello")[1] == out)
    status, text, _ = run("--raw", "Hello")
    raw = lines(run("--raw", "--json", "Hello")[1])
    check("--raw: no template before the prompt", raw[0]["pos"] < rows[0]["pos"], raw[0])
    status, _, err = run("--raw", "")
    check("--raw of nothing: exit 2", status == 2, f"{status} {err}")


def test_instruction_sets():
    """CUTAWAY_ISA makes the processor a lesser one, everywhere, and changes no bit."""
    out = cutaway("devices")[1].decode()
    names = re.match(r"cpu +(.*)", out)[1].split()
    check("devices lists the instruction sets of the processor, the plainest last", names[-1] == "scalar", out)
    check("and as JSON", json.loads(cutaway("devices", "--json")[1])["cpu"] == names)
    best = run("--json", "Hello")[1]
    for i, name in enumerate(names):
        file = os.path.join(TMP.name, f"isa-{name}.db")
        env = {"CUTAWAY_ISA": name}
        status, out, err = tiny("run", "--record", file, "--max-tokens", "12", "--json", "Hello", env=env)
        with sqlite3.connect(file) as db:
            used = db.execute("SELECT isa FROM session").fetchone()[0]
        check(f"CUTAWAY_ISA={name}: the same lines, by {name}", status == 0 and out == best and used == name, (used, err))
        check("no better one is there", cutaway("devices", env=env)[1].decode().splitlines()[0].split()[1:] == names[i:])
        if i:
            status, _, err = run("--isa", names[0], "Hello", env=env)
            check("nor can it be asked for", status == 2 and names[0] in err, f"{status} {err}")
    status, _, err = run("Hello", env={"CUTAWAY_ISA": "mmx"})
    check("CUTAWAY_ISA=mmx is refused by name", status == 2 and "CUTAWAY_ISA=mmx" in err and "scalar" in err, f"{status} {err}")


def test_limit():
    """Nobody watches a run: it has a limit, and says what a reader of its answer would wonder about."""
    long = os.path.join(TMP.name, "long.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "1024", long], check=True)
    args = ("run", "--model", long, "--no-record", "--json", "--greedy", "--raw", "some words")
    status, out, err = cutaway(*args)
    check("without --max-tokens an answer ends at 512 tokens, and that is said",
          status == 0 and len(lines(out)) == 512 and "stops at 512 tokens: --max-tokens" in err, (len(lines(out)), err))
    err = cutaway(*args, "--max-tokens", "20")[2]
    check("who sets the limit is told nothing", not err, err)
    status, out, err = cutaway("run", "--no-record", "--json", "--greedy", "--max-tokens", "60",
                               "What is the capital of France?", cwd=ROOT)
    ids = [row["id"] for row in lines(out)]
    period = next((p for p in range(1, 15) if ids[-32:] == ids[-32 - p:-p]), 0)
    check("greedy text that goes in a loop is told, with how many tokens it repeats",
          status == 0 and period and f"repeat {period} token" in err and "--temp" in err, (period, err))


def test_beyond():
    """Longer than what the model was made for, with positions counted inside the cache."""
    short, db = os.path.join(TMP.name, "short.gguf"), os.path.join(TMP.name, "beyond.db")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "64", short], check=True)
    beyond = ("run", "--model", short, "--ctx", "512", "--max-tokens", "40", "--greedy", "one two three " * 25)
    stream = ("--visible", "stream:4+window:28")
    for refused, why in (((), "made for"), (("--visible", "sinks:4+window:28"), "made for"), (("--visible", "window:28"), "made for"),
                         (("--visible", "stream:4+window:61"), "together at most"), ((*stream, "--twin", "on"), "no exact twin")):
        status, out, err = cutaway(*beyond, "--no-record", *refused)
        check(f"a context that is too long is refused with {refused}", status == 2 and why in err and not out, f"{status} {err}")
    check("stream:4+window:60 is the longest of a model made for 64",
          cutaway(*beyond, "--no-record", "--visible", "stream:4+window:60")[0] == 0)
    status, out, err = cutaway(*beyond, *stream, "--record", db)
    check("stream goes beyond it", status == 0 and out, f"{status} {err}")
    check("with the same text on the reference", cutaway(*beyond, *stream, "--no-record", "--backend", "ref")[1] == out)
    check("and with drafts, pages of another size and chunks",
          cutaway(*beyond, *stream, "--no-record", "--spec", "ngram", "--page-size", "32", "--prefill-chunk", "16")[1] == out)
    with sqlite3.connect(db) as log:
        far, most = log.execute("SELECT max(pos), max(pairs) FROM token WHERE rows = 1").fetchone()
    check("past four times its length a row reads 32 positions", far > 256 and most <= 32, (far, most))
    status, out, err = cutaway("verify", db)
    check("verify computes it again", status == 0 and b"all equal" in out, f"{status} {out} {err}")


def test_stop():
    text = run("--raw", "--temp", "1.5", "--max-tokens", "60", "--seed", "3", "Hello")[1]
    at = len(text) // 2
    while at < len(text) - 3 and not all(32 <= b < 127 for b in text[at:at + 3]):
        at += 1
    stop = text[at:at + 3].decode("ascii", "replace")
    cut = run("--raw", "--temp", "1.5", "--max-tokens", "60", "--seed", "3", "--stop", stop, "Hello")[1]
    check("--stop ends the answer before the text", cut == text[:text.find(stop.encode())], (text, stop, cut))


def test_batch():
    file = b"Hello\n\nA\\nB \\\\ \\x\nHello\nBye"  # escapes: newline, backslash, and one that is none
    status, out, err = run("--batch", "-", "--slots", "2", "--temp", "1.5", stdin=file)
    rows = {row["line"]: row for row in lines(out)}
    check("run --batch: a line of JSON for each line that is not empty", status == 0 and sorted(rows) == [1, 3, 4, 5],
          f"{status} {err} {out}")
    alone = lines(run("--json", "--temp", "1.5", "Hello")[1])
    check("the first line's answer is that of run", rows[1]["ids"] == [t["id"] for t in alone], rows[1])
    check("equal prompts on other lines draw their own", rows[4]["prompt"] == rows[1]["prompt"] and
          rows[4]["ids"] != rows[1]["ids"], rows)
    many = run("--batch", "-", "--slots", "7", "--temp", "1.5", "--threads", "1", stdin=file)[1]
    check("an answer depends on its line alone, not on what runs beside it",
          {row["line"]: row for row in lines(many)} == rows, many)
    ids = json.loads(tiny("tokenize", "--json", stdin=b"A\nB \\ \\x")[1])
    raw = lines(run("--batch", "-", "--raw", stdin=b"A\\nB \\\\ \\x")[1])
    check("\\\\n and \\\\\\\\ are escapes, other backslashes are themselves", raw[0]["prompt"][-len(ids):] == ids, (raw, ids))
    check("finish says why", all(row["finish"] in ("end", "length") and len(row["ids"]) <= 12 for row in rows.values()), rows)
    long = lines(run("--batch", "-", stdin=b"word " * 3000 + b"\nHello")[1])
    check("a prompt that does not fit is refused, the others are answered",
          {row["line"]: row["finish"] == "refused" for row in long} == {1: True, 2: False}, long)
    whole = lines(run("--batch", "-", "--raw", "--temp", "0", stdin=b"Hello")[1])[0]["text"]
    stop = whole[len(whole) // 2:][:2]
    cut = lines(run("--batch", "-", "--raw", "--temp", "0", "--stop", stop, stdin=b"Hello")[1])[0]
    check("--stop ends the text before it", cut["text"] == whole[:whole.find(stop)] and cut["finish"] == "stop",
          (whole, stop, cut))
    status, _, err = run("--batch", "missing.txt")
    check("a missing file: exit 4", status == 4 and "missing.txt" in err, f"{status} {err}")
    status, out, _ = run("--batch", "-", stdin=b"")
    check("nothing to answer is no error", status == 0 and not out)
    check("with a PROMPT: exit 2", run("--batch", "-", "Hello")[0] == 2)


def test_score():
    path = os.path.join(TMP.name, "text.txt")
    with open(path, "w") as f:
        f.write("Once upon a time there was a model.")
    status, out, err = tiny("score", "--json", path)
    score = json.loads(out)
    check("score --json: ids, logp one fewer, perplexity", status == 0 and set(score) ==
          {"model", "ids", "logp", "perplexity"} and len(score["logp"]) == len(score["ids"]) - 1, err)
    mean = sum(score["logp"]) / len(score["logp"])
    check("perplexity is exp of the mean", abs(2.718281828459045 ** -mean / score["perplexity"] - 1) < 1e-4, score)
    check("log-probabilities are negative", all(x <= 0 for x in score["logp"]))
    twin = json.loads(tiny("score", "--json", "--twin", "on", path)[1])
    check("an exact text by its exact twin: no divergence", twin["mean_kl"] == 0 and twin["exact_perplexity"] == twin["perplexity"]
          and twin["best_equal"] == len(twin["logp"]) and twin["logp"] == score["logp"], twin)
    lossy = json.loads(tiny("score", "--json", "--twin", "on", "--cache-format", "e4m3", path)[1])
    check("a lossy one: some, and the exact perplexity beside it", lossy["mean_kl"] > 0 and lossy["logp"] != score["logp"] and
          abs(lossy["exact_perplexity"] / score["perplexity"] - 1) < 1e-7, lossy)
    check("and in words", b"exact: perplexity" in tiny("score", "--twin", "on", path)[1])
    status, _, err = tiny("score", "--twin", os.path.join(TMP.name, "none.gguf"), path)
    check("a twin that is not there: exit 4", status == 4 and "none.gguf" in err, f"{status} {err}")
    check("the table", tiny("score", path)[1].decode().count("\n") == len(score["ids"]) + 1)
    with open(path, "w") as f:
        f.write("the thing<|pad|>an in")
    status, out, err = cutaway("score", "--json", "--model", os.path.join(ROOT, "tests/data/zoo/t5.gguf"), path)
    score = json.loads(out)
    answer = len(score["ids"]) - 1 - score["ids"].index(268)
    check("of an encoder's input nothing is scored", status == 0 and len(score["logp"]) == answer > 1 and
          abs(2.718281828459045 ** (-sum(score["logp"]) / answer) / score["perplexity"] - 1) < 1e-4, err)
    with open(path, "w") as f:
        f.write("word " * 3000)
    status, _, err = tiny("score", path)
    check("a text longer than the context: exit 2, with the numbers", status == 2 and err.count("512") == 2, f"{status} {err}")
    further = re.search(r"--ctx \d+ --visible \S+", err)[0].split()
    check("and with what goes beyond it", tiny("score", *further, path)[0] == 0, further)
    with open(path, "w") as f:
        f.write("a")
    check("a text too short: exit 2", tiny("score", path)[0] == 2)


def test_recording():
    path = os.path.join(TMP.name, "s.db")
    status, out, err = tiny("run", "--record", path, "--max-tokens", "5", "--json", "Hi")
    rows = lines(out)
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    logged = db.execute("SELECT pos, id, p, hash FROM token ORDER BY seq").fetchall()
    db.close()
    check("--record: the log has what --json told", status == 0 and [
        (r["pos"], r["id"], r["hash"]) for r in rows] == [(p, i, f"{h & (2 ** 64 - 1):016x}")
                                                          for p, i, _, h in logged], (err, rows, logged))
    status, _, err = tiny("run", "--record", path, "--max-tokens", "5", "Hi")
    check("an existing file is not written over", status == 4 and "s.db" in err, f"{status} {err}")
    tiny("run", "--max-tokens", "2", "Hi")
    found = [f for _, _, files in os.walk(HOMES["XDG_DATA_HOME"]) for f in files]
    check("without it: a new file under XDG data", len(found) == 1, found)
    run("Hi")
    check("--no-record: none", [f for _, _, files in os.walk(HOMES["XDG_DATA_HOME"]) for f in files] == found)
    status, out, err = tiny("run", "--max-tokens", "2", "Hi", env={"XDG_DATA_HOME": "/proc/nowhere"})
    check("where the default cannot be written the answer comes all the same", status == 0 and out and
          "not recorded" in err, f"{status} {err}")
    status, _, err = tiny("run", "--record", "/proc/nowhere/s.db", "--max-tokens", "2", "Hi")
    check("where a named file cannot be made: exit 4", status == 4 and "/proc/nowhere" in err, f"{status} {err}")


def test_cache():
    plain = run("hi")[1]
    folder = os.path.join(HOMES["XDG_CACHE_HOME"], "cutaway", "packed")
    check("a small model's packed weights are not kept", not os.path.isdir(folder) or not os.listdir(folder))
    check("--packed-cache on gives the same answer", run("--packed-cache", "on", "hi")[1] == plain)
    files = os.listdir(folder)
    check("and keeps them, for this user alone", len(files) == 1 and
          os.stat(os.path.join(folder, files[0])).st_mode & 0o777 == 0o600, files)
    check("with them the same answer", run("--packed-cache", "on", "hi")[1] == plain)
    status, out, _ = cutaway("cache")
    check("cache lists them", status == 0 and b"tiny.gguf" in out and b"in 1 file under" in out, out)
    with open(os.path.join(folder, files[0]), "r+b") as f:
        f.seek(-9, os.SEEK_END)
        f.write(b"\xff" * 9)
    check("damaged ones are not believed", run("--packed-cache", "on", "hi")[1] == plain)
    status, out, _ = cutaway("cache", "clear")
    check("cache clear deletes them", status == 0 and b"1 file deleted" in out and not os.listdir(folder), out)
    check("cache knows no other word", cutaway("cache", "cler")[0] == 2)
    os.chmod(folder, 0o500)
    check("where they cannot be kept, nothing fails", run("--packed-cache", "on", "hi")[1] == plain)
    os.chmod(folder, 0o700)


def test_pipes():
    reading, writing = os.pipe()
    os.close(reading)  # before it starts, so that it cannot be done before
    status, _, err = run("--json", "Hello", stdout=writing)
    os.close(writing)
    check("a closed pipe ends it quietly", status == 4 and not err, f"{status} {err}")
    # A pipe that holds less than the answer, so that Ctrl-C cannot come too late.
    seed = next(s for s in map(str, range(99)) if len(tiny("run", "--no-record", "--json", "--seed", s, "Hello")[1]) > 16384)
    child = subprocess.Popen([PROGRAM, "run", "--model", TINY, "--json", "--seed", seed, "--record",
                              os.path.join(TMP.name, "int.db"), "Hello"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **HOMES})
    fcntl.fcntl(child.stdout, 1031, 4096)  # F_SETPIPE_SZ
    child.stdout.readline()
    child.send_signal(signal.SIGINT)
    out, err = child.communicate()
    check("Ctrl-C: exit 130 and nothing on standard error", child.returncode == 130 and not err,
          f"{child.returncode} {err}")
    db = sqlite3.connect(os.path.join(TMP.name, "int.db"))
    rows = db.execute("SELECT (SELECT count(*) FROM cancel), (SELECT count(*) FROM closed)").fetchone()
    check("and the recording is closed in order, with the cancel in it", rows == (1, 1), rows)
    db.close()


def on_terminal(*args):
    """What a program writes on a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(HOMES, NO_COLOR="1")
        os.execv(PROGRAM, [PROGRAM, *args])
    out = b""
    while True:  # tests/run ends what never ends
        try:
            part = os.read(fd, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not part:
            break
        out += part
    os.waitpid(pid, 0)
    os.close(fd)
    return out


def test_terminal():
    args = ["run", "--model", TINY, "--no-record", "--raw", "--temp", "9", "--top-p", "1", "--max-tokens", "200", "Hello"]
    raw = cutaway(*args)[1]
    controls = [b for b in raw if b < 32 and b not in b"\n\r"]
    check("the random model writes control characters into a pipe as they are", controls, raw)
    shown = on_terminal(*args)
    check("on a terminal none of them arrives", shown and not [b for b in shown if b < 32 and b not in b"\n\r" or b == 127],
          shown)
    try:
        shown.decode("utf-8")
        whole = True
    except UnicodeDecodeError:
        whole = False
    check("and what arrives is UTF-8, without C1 controls", whole and not re.search("[\x80-\x9f]", shown.decode()), shown)
    out = on_terminal("--help")
    check("help has no escape sequences", b"\x1b" not in out)


def test_whatif_and_why():
    file = os.path.join(TMP.name, "whatif.db")
    tiny("run", "--record", file, "--max-tokens", "30", "--spec", "ngram:3", "some words")
    status, out, err = tiny("whatif", file, "--page-size", "32", "--spec", "off", "--evict", "fifo", "--json", "--verify")
    w = json.loads(out) if not status else {}
    check("whatif --verify: predicted counts are those of the engine", status == 0 and
          {k: v for k, v in w["changed"].items() if k != "seconds_predicted"} ==
          {k: v for k, v in w["real"].items() if k != "seconds_measured"} and w["recorded"]["steps"] == w["again"]["steps"],
          f"{out} {err}")
    status, out, _ = cutaway("whatif", file, "--cache", "off")
    check("whatif needs no model and prints a table", status == 0 and b"run again as recorded" in out, out)
    status, out, _ = cutaway("whatif", file)
    rows = {line[:46].strip(): line[46:].split() for line in out.decode().split("\n")}
    predicted, measured = rows.get("seconds of all steps, predicted", []), rows.get("seconds of all steps, measured", [])
    check("whatif of the recorded settings says that nothing changes: predicted beside predicted, measured apart",
          status == 0 and b"%" not in out.split(b"cost of a step")[0] and len(predicted) == 2 and
          predicted[0] == predicted[1] and len(measured) == 1, out)
    check("whatif of settings that make no sense", cutaway("whatif", file, "--page-size", "20")[0] == 2)
    status, out, _ = cutaway("why", "token", "--file", file)
    check("why answers from a file", status == 0 and b"at position" in out, out)
    check("why asks for a question", cutaway("why", "--file", file)[0] == 2)
    folder = os.path.join(HOMES["XDG_DATA_HOME"], "cutaway", "sessions")
    os.makedirs(folder, exist_ok=True)
    shutil.copy(file, folder)
    status, _, err = cutaway("why", "nothing")
    check("what it cannot explain is said without a path before it", status == 2 and err.startswith("cutaway: "), err)
    check("whose answer is of the newest recording says which", "whatif.db" in cutaway("why", "token")[2])
    bound = os.path.join(TMP.name, "bound.db")
    schema = {"type": "object", "properties": {"a\x1b[31mb": {"enum": [1, 2]}}, "required": ["a\x1b[31mb"], "additionalProperties": False}
    status, out, err = tiny("run", "--record", bound, "--grammar", "schema:" + json.dumps(schema), "some words")
    check("an answer by a schema", status == 0 and json.loads(out)["a\x1b[31mb"] in (1, 2), (out, err))
    status, out, _ = cutaway("why", "token", "--file", bound)
    check("why says what a grammar forbids, and nothing of it steers a terminal", status == 0 and b"the grammar forbids it" in out and
          b"\x1b" not in out, out)
    pipe = os.path.join(TMP.name, "grammar.pipe")
    os.mkfifo(pipe)
    status, _, err = tiny("run", "--grammar", pipe, "some words")
    check("a grammar's file that is none is refused", status == 2 and "that is no file" in err, err)


def test_verify():
    path = os.path.join(TMP.name, "verified.db")
    tiny("run", "--raw", "--temp", "0.9", "--seed", "5", "--max-tokens", "30", "--record", path, "to verify")
    status, out, err = cutaway("verify", path)
    check("verify: all equal, exit 0", status == 0 and out.startswith(b"ok      request 1") and
          b"all equal: 30 rows of 1 request, 30 draws" in out and not err, f"{out} {err}")
    check("verify of one step counts one as one", b" 1 row, 1 draw\n" in cutaway("verify", path, "--range", "3")[1])
    status, out, err = cutaway("verify", path, "--range", "900:901")
    check("verify of nothing is no success: exit 3", status == 3 and "nothing to compute again" in err and b"equal" not in out, f"{out} {err}")
    status, out, err = cutaway("verify", path, "--backend", "ref", "--range", "3:9", "--json")
    report = json.loads(out or "{}")
    check("verify --json, of steps, by ref", status == 0 and report["equal"] and report["rows"] == 7 and
          report["backend"] == "ref" and report["requests"][0]["verdict"] == "ok", f"{out} {err}")
    for wrong in ("9:3", "x", ":", "", "-1:2", "1:2:3"):
        status, out, err = cutaway("verify", path, "--range", wrong)
        check(f"verify --range '{wrong}' is refused", status == 2 and b"--range" in err.encode() and not out)
    db = sqlite3.connect(path)
    db.execute("UPDATE token SET hash = hash + 1 WHERE seq = (SELECT max(seq) FROM token)")
    db.commit()
    db.close()
    status, out, err = cutaway("verify", path)
    check("verify: a difference, exit 1", status == 1 and out.startswith(b"DIFFERS") and
          b"agree with each other and not with the file" in out and "1 of 1 requests differ" in err, f"{out} {err}")
    status, out, err = cutaway("verify", path, "--json")
    report = json.loads(out or "{}")
    check("verify --json: a difference", status == 1 and report["differ"] == 1 and report["bisect"]["agree"] and
          report["requests"][0]["difference"]["what"] == "hash", f"{out} {err}")
    status, out, err = cutaway("verify", path, "--model", path)
    check("verify: another model", status == 3 and "not the model that was recorded" in err, err)
    path, here = (os.path.join(TMP.name, name) for name in ("named.db", "by-name"))
    os.makedirs(here + "/models")
    os.symlink(TINY, here + "/models/some-name.gguf")
    cutaway("run", "--model", "some-name", "--raw", "--max-tokens", "3", "--record", path, "by name", cwd=here)
    status, out, err = cutaway("verify", path, "--model", "some-name", cwd=here)
    check("verify: the model by the name that run takes", status == 0 and b"all equal: 3 rows" in out, f"{out} {err}")


def test_diff():
    paths = [os.path.join(TMP.name, f"diff-{i}.db") for i in range(3)]
    for path, seed in zip(paths, ("5", "5", "6")):
        tiny("run", "--raw", "--temp", "0.9", "--seed", seed, "--max-tokens", "30", "--record", path, "to compare")
    status, out, err = cutaway("diff", *paths[:2])
    check("diff: equal, exit 0", status == 0 and b"equal: 1 of 1" in out and not err, f"{out} {err}")
    status, out, err = cutaway("diff", *paths[1:])
    check("diff: another seed, exit 1", status == 1 and b"the draw, from equal logits: seed 5 and 6" in out and not err,
          f"{out} {err}")
    status, out, err = cutaway("diff", "--json", "--deep", *paths[1:])
    report = json.loads(out or "{}")
    pair = report["requests"][0]
    check("diff --json --deep", status == 1 and not report["equal"] and pair["cause"] == "setting" and
          pair["deep"]["kl"] > 0 and pair["a"]["id"] != pair["b"]["id"], f"{out} {err}")
    check("diff needs two files", cutaway("diff", paths[0])[0] == 2 and cutaway("diff", paths[0], "/nowhere.db")[0] == 4)
    status, out, err = cutaway("diff", "--side-by-side", *paths[1:])
    check("diff --side-by-side wants a terminal", status != 0 and "terminal" in err and not out, f"{out} {err}")
    check("diff --side-by-side ends with its terminal, though whoever has it goes on", ends_with_terminal("diff", "--side-by-side", *paths[1:]))


def ends_with_terminal(*args):
    """Whether a program ends when its terminal is closed, of which only the session's leader is told."""
    told, tell = os.pipe()
    leader, terminal = pty.fork()
    if not leader:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        child = subprocess.Popen([PROGRAM, *args], env={**os.environ, **HOMES, "TERM": "xterm"},
                                 preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        try:
            child.wait(10)
            os.write(tell, b"ended")
        except subprocess.TimeoutExpired:
            child.kill()
        os._exit(0)
    os.close(tell)
    drawn = b""
    while b"quit" not in drawn:
        drawn += os.read(terminal, 4096)
    os.close(terminal)
    ended = os.read(told, 16) == b"ended"
    os.waitpid(leader, 0)
    os.close(told)
    return ended


def test_certify():
    status, out, err = tiny("certify", "--quick", "--seconds", "3")
    text = out.decode()
    check("certify --quick: all equal, exit 0", status == 0 and "all equal" in text and re.search(r"coverage: \d+ axes", text),
          text + err)
    check("its hash is the same again", re.search(r"hash of all logits: (\w{16})", text)[1] in
          tiny("certify", "--quick", "--seconds", "1", "--seed", "5")[1].decode())
    status, out, err = tiny("certify", "--quick", "--json", "--seconds", "1")
    certificate = json.loads(out or "{}")
    check("certify --json: the certificate as JSON", status == 0 and certificate.get("equal") is True and
          certificate["hash"] in text and len(certificate["sha256"]) == 64 and certificate["cases"] and
          any(v["axis"] == "preemption" for v in certificate["values"]), f"{out} {err}")
    check("its pairs: met, left or impossible by a rule that is named", certificate.get("pairs_met", 0) +
          len(certificate.get("pairs_left", [])) == certificate.get("pairs_possible") and
          all(r["rule"] and r["pairs"] > 0 for r in certificate["pairs_impossible"]), f"{out} {err}")
    other = os.path.join(TMP.name, "q4k.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--dim", "256", "--ffn", "256", "--type", "Q4_K", other],
                   check=True)
    status, out, err = cutaway("certify", "--quick", "--json", "--seconds", "1", TINY, other)
    both = json.loads(out or "{}")
    check("certify of two models: both certificates, the formats of both", status == 0 and both.get("equal") is True and
          len(both["certificates"]) == 2 and {"Q4_1", "Q4_K"} <= set(both["formats_covered"]) and
          "IQ4_NL" in both["formats_not_covered"], f"{out} {err}")


def test_sentencepiece():
    model = os.path.join(TMP.name, "spm.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--tokenizer", "spm", model], check=True)
    status, out, err = cutaway("tokenize", "--json", "--model", model, stdin=b"a~</s>\n\xff")
    ids = json.loads(out or "[]")
    # a space before the text and after </s>; what has no token is bytes, which have the ids from 3 on
    check("SentencePiece: tokenize", status == 0 and ids[-4:] == [2, 259, 3 + 10, 3 + 255], f"{ids} {err}")
    first, rest = set(), set()
    for seed in range(24):
        _, out, _ = cutaway("run", "--no-record", "--json", "--temp", "9", "--top-p", "1", "--seed", str(seed),
                            "--max-tokens", "4", "--model", model, "hello")
        texts = [line["text"] for line in lines(out)]
        first |= {t[:1] for t in texts[:1]}
        rest |= {t[:1] for t in texts[1:]}
    check("SentencePiece: an answer does not begin with its words' own space", " " in rest and " " not in first and
          len(first) > 1, f"{first} {rest}")
    status, out, err = cutaway("certify", "--quick", "--seconds", "1", "--model", model)
    check("SentencePiece: certify --quick", status == 0 and b"all equal" in out, out.decode() + err)


def test_bench():
    deep = os.path.join(TMP.name, "deep.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "8192", deep], check=True)
    status, out, err = cutaway("bench", "--json", "--model", deep)
    figures = json.loads(out)
    names = {"read_gb_s", "reread_gb_s", "decode_tok_s", "bandwidth_fraction", "weights_fraction", "decode_1k_tok_s", "prefill_tok_s", "batch8_tok_s",
             "batch16_tok_s", "cost4", "start_ms", "ttft_ms", "rss_bytes", "record_percent",
             "int_gmac_s", "float_gmac_s", "prefill64_tok_s", "spec_speedup", "start_to_first_token_ms", "turn_ms"}
    run = figures.pop("run", {})
    check("bench --json: what was measured", run.get("backend") == "cpu" and
          run.get("threads", 0) > 0 and run.get("isa") and run.get("model"), out)
    check("bench --json: 64 sequences and 4,096 tokens are measured only if asked for",
          figures.pop("batch64_tok_s", 0) is None and figures.pop("decode_4k_tok_s", 0) is None, out)
    check("bench --json: one object of numbers", status == 0 and set(figures) == names and
          all(isinstance(x, (int, float)) for x in figures.values()), f"{out} {err}")
    check("rates and times are above 0", all(figures[name] > 0 for name in names - {"record_percent"}), figures)
    status, out, err = cutaway("bench", "--only", "batch64_tok_s", "--json", "--model", deep)
    check("bench --only batch64_tok_s: all 64 at once", status == 0 and json.loads(out)["batch64_tok_s"] > 0, f"{out} {err}")
    status, out, err = cutaway("bench", "--only", "nothing", "--model", deep)
    check("bench: an unknown figure is a wrong command line", status == 2 and b"nothing" in err.encode()
          if isinstance(err, str) else status == 2, err)
    status, out, err = cutaway("bench", "--help")
    check("bench --help", status == 0 and b"--turns" in out and b"--only" in out, out)
    for figure in ("decode_tok_s", "prefill64_tok_s", "start_to_first_token_ms"):
        status, out, err = cutaway("bench", "--only", figure, "--turns", "--model", deep, stdin=b"\n\n")
        lines = out.split()
        check(f"bench --turns: a value of {figure} for each line", status == 0 and lines[0] == b"ready" and
              len(lines) == 3 and all(float(x) > 0 for x in lines[1:]), f"{out} {err}")
    check("--turns wants a figure of single runs", cutaway("bench", "--turns", "--model", deep)[0] == 2 and
          cutaway("bench", "--turns", "--only", "cost4", "--model", deep)[0] == 2)
    check("its recording is gone", not [f for f in os.listdir(TMP.name) if f.startswith("cutaway-")])


def test_bench_tools():
    """tools/bench: what they count of recordings of the tiny model."""
    def tool(name, *args):
        return subprocess.run([sys.executable, os.path.join(ROOT, "tools/bench", name), *args], capture_output=True,
                              text=True, env={**os.environ, **HOMES}, check=False)
    run = tool("drafters.py", "--tokens", "8", "--of-each", "2", "--model", TINY, "ngram:4")
    lines = run.stdout.splitlines()
    check("drafters.py: a line for each rule, all answers equal", run.returncode == 0 and len(lines) == 3 and
          all(line.startswith("ngram:4") and "6 of 6" in line for line in lines[1:]), run.stdout + run.stderr)
    run = tool("searches.py", "--tokens", "6", "--model", TINY, "best:3", "beam:2")
    rows = [line.split() for line in run.stdout.splitlines()]
    check("searches.py: what branches share is saved", run.returncode == 0 and [row[0] for row in rows] ==
          ["search", "best:3", "beam:2"] and all(0 < float(row[-1][:-1]) < 100 for row in rows[1:]), run.stdout + run.stderr)
    record = os.path.join(TMP.name, "stages.db")
    status, _, err = tiny("run", "--record", record, "--max-tokens", "12", "some words")
    run = tool("stages.py", record, "--reads", "30", "--integers", "300")
    parts = [float(line.split()[-3 if line[0] == "a" else -1].rstrip("%")) for line in run.stdout.splitlines()
             if line.startswith(("all stages", "walk", "plan, draw"))]
    check("stages.py: the parts of a step add up to it, decoding and of prompts", status == 0 and len(parts) == 6 and
          all(abs(sum(parts[i:i + 3]) - 100) < 0.5 for i in (0, 3)), run.stdout + run.stderr + err)


def test_formulas():
    """What a formula gives and what the steps counted, of a run now and of a recording; predictions of other machines."""
    def sheet(*args):
        status, out, err = cutaway("formulas", "--json", *args)
        return status, json.loads(out) if not status else {}, err

    def line(of, what):
        return next(x for x in of["formulas"] if x["what"].startswith(what))
    status, now, err = sheet("--model", TINY, "--sequences", "3", "--depth", "40")
    check("formulas runs as many sequences as it is asked to", status == 0 and not now["predicted"] and now["batch"] == 3, err)
    kv = line(now, "KV a token")
    check("keys and values of a token are those of the pages", kv["formula"].startswith("2·L·N") and kv["seen"] > 0 and
          any(x["what"] == "KV a token" and x["value"] == x["seen"] for x in now["formulas"]), now)
    for product in ("qkv", "gate_up", "down", "head"):
        x = line(now, product)
        check(f"intensity of {product}: formula and count are one", abs(x["value"] / x["seen"] - 1) < 0.02, x)
    check("latency was measured", line(now, "latency")["seen"] > 0 and line(now, "latency")["value"] > 0)
    status, far, err = sheet("--model", TINY, "--machine", "h200", "--sequences", "64", "--depth", "1024")
    check("another machine is a prediction, and nothing stands beside it", status == 0 and far["predicted"] and
          far["machine"] == "h200" and all(x["seen"] is None for x in far["formulas"]), err)
    check("its ridge is the published one", abs(line(far, "ridge, floats")["value"] - 989 / 4.8) < 0.1)
    record = os.path.join(TMP.name, "formulas.db")
    tiny("run", "--record", record, "--max-tokens", "30", "--temp", "0", "Once upon a time")
    status, past, err = sheet(record)
    rows, pairs = line(past, "rows of a request"), line(past, "query-key pairs")
    check("a recording says the same without the model: rows and pairs are those of the formulas", status == 0 and
          rows["value"] == rows["seen"] and pairs["value"] == pairs["seen"], f"{rows} {pairs} {err}")
    status, out, err = cutaway("formulas", record)
    check("in words, too", status == 0 and "2·L·K·H·b" in out.decode() and b"seen" in out, err)
    for wrong in (["--machine", "abacus"], ["--model", TINY, "--sequences", "1000"], ["--sequences", "0"]):
        status, out, err = cutaway("formulas", *wrong)
        check(f"formulas {wrong} is refused", status == 2 and err, f"{status} {err}")
    check("no formulas of a file that is none", cutaway("formulas", TINY)[0] == 3)


def test_search():
    record = os.path.join(TMP.name, "search.db")
    for option, steps in (("--best-of=5", 3), ("--beam=3", 3), ("--mcts=9,2,4", 3)):
        status, out, err = tiny("run", "--record", record, "--max-tokens", "12", "--json", option, "Once")
        found = lines(out)
        check(f"{option} gives its answers, the best first", status == 0 and len(found) >= steps and
              [x["score"] for x in found] == sorted((x["score"] for x in found), reverse=True), f"{out} {err}")
        check("and says what sharing saved", re.search(r"KV pages: \d+ at most, \d+ if none were shared", err), err)
        status, out, err = tiny("verify", record)
        check("its recording is verified", status == 0 and b"all equal" in out, f"{out} {err}")
        status, out, err = cutaway("whatif", record, "--page-size", "32")
        check("whatif says that it cannot schedule a search", status == 3 and "search" in err, err)
        os.unlink(record)
    status, out, err = run("--best-of", "3", "--score", "wc -c", "--json", "Once")
    scores = [x["score"] for x in lines(out)]
    check("a command scores", status == 0 and len(scores) == 3 and all(x == int(x) and x >= 0 for x in scores), err)
    for command, word in (("false", "status 1"), ("echo no", "no number"), ("exit 9", "status 9"), ("kill -9 $$", "signal 9"),
                          ("echo nan", "no number"), ("head -c 100000 /dev/zero", "no number")):
        status, out, err = run("--best-of", "3", "--score", command, "Once")
        check(f"a command that fails is told: {command}", status == 3 and word in err, err)
    status, out, err = run("--best-of", "2", "--score", "sleep 40 2>/dev/null & echo 3", "--json", "Once", timeout=20)
    check("what a command leaves behind is not waited for", status == 0 and [x["score"] for x in lines(out)] == [3, 3], err)
    hung = subprocess.Popen([PROGRAM, "run", "--model", TINY, "--no-record", "--max-tokens", "4", "--best-of", "3", "--score",
                             "trap '' INT; echo $$ > hung; while :; do sleep 1; done", "Once"], cwd=TMP.name, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**os.environ, **HOMES})
    path, seen = os.path.join(TMP.name, "hung"), ""
    for _ in range(200):
        seen = open(path, encoding="ascii").read() if os.path.exists(path) else ""
        if seen.endswith("\n"):
            break
        time.sleep(0.05)
    hung.send_signal(signal.SIGINT)
    out, err = hung.communicate(timeout=20)
    alive = os.path.exists(f"/proc/{seen.strip()}/cmdline") and open(f"/proc/{seen.strip()}/cmdline").read()
    check("Ctrl-C ends a command that hangs", hung.returncode == 130 and b"interrupted" in err and not alive, f"{hung.returncode} {err}")
    first, second = os.path.join(TMP.name, "first.db"), os.path.join(TMP.name, "second.db")
    tiny("run", "--record", first, "--max-tokens", "12", "--beam=3", "Once")
    tiny("run", "--record", second, "--max-tokens", "12", "--best-of=3", "Once")
    status, out, err = cutaway("diff", first, second)
    check("diff compares the answers of searches, not their branches", b"a search chose" in out and b"0 of 1 requests" in out,
          f"{out} {err}")
    check("and finds a search equal to itself", b"1 of 1 requests are equal" in cutaway("diff", first, first)[1])
    status, out, err = cutaway("why", "token", "--file", first)
    check("why says of a search's answer that nobody drew it", status == 0 and b"of the best answer of a search" in out, out)
    status, out, err = cutaway("export", first, "--to", "csv", "--table", "search")
    check("export gives the tree of a search", status == 0 and out.count(b"\n") > 5, out[:200])
    for wrong in (["--beam", "0"], ["--mcts", "x"], ["--best-of", "65"], ["--beam", "2", "--best-of", "2"],
                  ["--beam", "4", "--slots", "2"]):
        status, out, err = run(*wrong, "Once")
        check(f"{wrong} is refused", status == 2 and err, f"{status} {err}")


def main():
    shutil.copy(os.path.join(ROOT, "cutaway"), PROGRAM)
    made = subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], capture_output=True)
    if made.returncode:
        print("Bail out! build/tests/mktiny failed:", made.stderr.decode())
        return 1
    for test in (test_help, test_completion, test_every_setting, test_usage_errors, test_file_errors, test_tokenize, test_run, test_instruction_sets,
                 test_limit, test_beyond, test_stop, test_batch, test_score, test_recording, test_cache, test_pipes, test_terminal, test_whatif_and_why, test_search, test_verify, test_diff,
                 test_certify, test_sentencepiece, test_formulas, test_bench, test_bench_tools):
        test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
