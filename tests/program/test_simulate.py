#!/usr/bin/env python3
"""`cutaway simulate`: the same twice, what its options do, a recording beside its simulation, and bad input. TAP;
standard library alone."""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-simulate-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}
COST = "cutaway cost 1\nstep 2e6\nrequest 0\nrow 25e4\nfirst_rows 0\nlogits 2e5\nposition 800\npair 300\ntoken_bytes 23040\n"


def path(name):
    return os.path.join(TMP.name, name)


def cutaway(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name, env=ENV, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def simulate(*args):
    status, out, err = cutaway("simulate", "--json", "--cost", "cost", "--scale", "0.3", "--ctx", "2048", *args)
    assert status == 0, err
    return json.loads(out)


def figures(*args):
    return simulate(*args)["runs"][0]


def test_load():
    args = ["--replicas", "5", "--rate", "30", "--requests", "3000", "--router", "two-choices", "--seed", "9"]
    one, again = simulate(*args), simulate(*args)
    check("the same options give the same figures", one == again, one)
    check("another seed another load", simulate(*args[:-1], "10") != one)
    check("all requests ended", one["runs"][0]["requests"] == 3000 and not one["runs"][0]["failed"], one)
    check("steps took the time that replicas were busy", 0 < one["busy_s"] < 5 * one["simulated_s"] and
          one["rows"] > one["steps"] > 3000, one)
    by_router = {name: figures("--replicas", "8", "--rate", "50", "--requests", "3000", "--kind", "system", "--router", name)
                 for name in ("round-robin", "random", "two-choices", "least-loaded", "prefix")}
    check("every router has a result of its own", len({f["ttft_mean_s"] for f in by_router.values()}) == 5, by_router)
    check("two choices wait less than one (Mitzenmacher 2001)",
          by_router["two-choices"]["ttft_p99_s"] < by_router["random"]["ttft_p99_s"], by_router)
    slow, fast = (figures("--rate", "8", "--requests", "800", "--slots", "8", "--policy", policy) for policy in ("static", "fcfs"))
    check("batching by the step gives earlier first tokens than by the request", fast["ttft_p50_s"] < slow["ttft_p50_s"], slow)
    status, out, _ = cutaway("simulate", "--requests", "50", "--csv", "f.csv", "--table", "t.csv", "--slo", "ttft=1s")
    with open(path("f.csv"), encoding="utf-8") as f, open(path("t.csv"), encoding="utf-8") as t:
        check("text and tables", status == 0 and "goodput" in out and "simulated" in out and len(list(f)) == 2 and
              len(list(t)) == 51, out)


def test_apart():
    args = ["--prefill-ranks", "2", "--replicas", "2", "--rate", "10", "--requests", "500"]
    near, far = simulate(*args, "--bandwidth", "100"), simulate(*args, "--bandwidth", "0.001")
    tokens = near["moved_bytes"] / 23040
    check("all of a prompt but its last token moves", tokens == int(tokens) and 0 < tokens <= near["runs"][0]["prompt_tokens"], near)
    check("a slow link costs time before the first token", far["runs"][0]["ttft_p50_s"] > near["runs"][0]["ttft_p50_s"], far)
    status, out, _ = cutaway("simulate", *args)
    check("the text says so", status == 0 and "2 ranks a replica" in out and "moved" in out, out)


def test_recording():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), path("tiny.gguf")], check=True)
    status, _, err = cutaway("load", "--model", "tiny.gguf", "--requests", "40", "--rate", "100", "--scale", "0.05", "--record",
                             "a.db", "--quiet")
    check("a real run is recorded", status == 0, err)
    status, out, err = cutaway("simulate", "--against", "a.db", "--json")
    rows = {r["figure"]: r for r in json.loads(out or "[]")}
    db = sqlite3.connect(path("a.db"))
    (tokens,), (cached,) = db.execute("SELECT count(*) FROM token").fetchone(), db.execute("SELECT sum(hit) FROM finish").fetchone()
    (first,) = db.execute("SELECT avg(ns) / 1e6 FROM (SELECT min(token.t_ns) - request.t_ns AS ns FROM token JOIN request "
                          "USING (request) GROUP BY request)").fetchone()
    check("what was measured is the recording's", status == 0 and rows["tokens cached"]["measured"] == cached and
          abs(rows["TTFT mean, ms"]["measured"] / first - 1) < 1e-6, out + err)
    check("every figure is simulated, too", all(r["simulated"] > 0 for r in rows.values() if r["measured"] > 0 and
                                                not r["figure"].startswith(("waiting", "tokens cached"))), out)
    status, out, err = cutaway("simulate", "--against", "a.db", "--fit", "a.db", "--save-cost", "fitted")
    check("and printed with the error", status == 0 and f"{tokens}" and "measured" in out and " %" in out and "held out" in out,
          out + err)
    again, once = (cutaway("simulate", "--against", "a.db", "--cost", "fitted", "--json")[1] for _ in range(2))
    check("the saved prices give the same again", once == again and json.loads(once)[0]["simulated"] > 0, once)
    status, _, err = cutaway("load", "--model", "tiny.gguf", "--requests", "40", "--rate", "100", "--scale", "0.1", "--prefill-ranks", "1",
                             "--prefill-least", "8", "--record", "apart.db", "--quiet")
    status, out, err = cutaway("simulate", "--against", "apart.db", "--json") if not status else (status, "", err)
    apart = {r["figure"]: r["simulated"] for r in json.loads(out or "[]")}
    check("prompts on a rank of their own, from its recording", status == 0 and apart["TTFT p50"] > 0, out + err)
    with open(path("fitted"), encoding="utf-8") as f:
        check("prices are text, none below 0", all(float(line.split()[1]) >= 0 for line in list(f)[3:] if not line.startswith(("#", "product"))))
    db.executescript("CREATE TABLE keep AS SELECT 1; DELETE FROM finish;")
    db.commit()
    db.close()
    status, out, err = cutaway("simulate", "--against", "a.db", "--cost", "cost")
    check("a recording without ends is refused", status == 3 and "ended" in err and not out, err)


def test_refusals():
    bad = {"junk": b"\x00\xff" * 400, "empty": b"", "nan": COST.replace("2e6", "nan").encode(),
           "minus": COST.replace("2e6", "-1").encode(), "still": COST.replace("2e6", "0").replace("25e4", "0").encode(),
           "twice": (COST + "row 1\n").encode(), "long": COST.encode() + b"row " + b"9" * 5000,
           "short": COST.rsplit("pair", 1)[0].encode()}
    with open(path("nobytes"), "w", encoding="utf-8") as f:
        f.write(COST.rsplit("token_bytes", 1)[0])
    for name, text in bad.items():
        with open(path(name), "wb") as f:
            f.write(text)
        status, out, err = cutaway("simulate", "--cost", name)
        check(f"a cost file that is {name} is refused", status == 3 and name in err and not out, err)
    with open(path("rows"), "w", encoding="utf-8") as f:
        f.write(COST.replace("2e6", "0").replace("25e4", "0").replace("first_rows 0", "first_rows 2e6"))
    check("prices of the first rows alone are enough", simulate("--cost", "rows")["runs"][0]["requests"] > 0)
    for args in (["--cost", "nowhere"], ["--against", "nowhere.db"], ["--fit", "cost"]):
        status, out, err = cutaway("simulate", *args)
        check(f"{' '.join(args)}: no such file", status in (3, 4) and err and not out, err)
    for args in (["--replicas", "0"], ["--rate", "0"], ["--rate", "nan"], ["--router", "best"], ["--prefill-ranks", "2", "--tensor-parallel", "2"],
                 ["--prefill-ranks", "1", "--cost", "nobytes"], ["--users", "3", "--arrivals", "uniform"],
                 ["--kind", "song"], ["--spec", "ngram"], ["--longest", "3"], ["--slo", "soon"], ["--cost", "cost", "--fit", "cost"],
                 ["--users", "3", "--rate", "2"], ["--against", "a.db", "--kind", "edit"], ["more"]):
        status, out, err = cutaway("simulate", *args)
        check(f"{' '.join(args)} is refused", status == 2 and err and not out, err)


with open(path("cost"), "w", encoding="utf-8") as cost:
    cost.write(COST)
test_load()
test_apart()
test_recording()
test_refusals()
sys.exit(finish())
