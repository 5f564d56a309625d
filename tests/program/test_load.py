#!/usr/bin/env python3
"""`cutaway load`: the engine inside, by counted time the same byte for byte, over HTTP against `cutaway serve` and against a server that
fails in every way, curves and files, Ctrl-C, a recording, bad input. TAP; standard library alone."""
import csv
import http.server
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-load-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}
TINY = os.path.join(TMP.name, "tiny.gguf")
INSIDE = ["--model", TINY, "--ctx", "1024", "--threads", "1"]


def path(name):
    return os.path.join(TMP.name, name)


def load(*args, env=None, **more):
    return subprocess.run([PROGRAM, "load", *args], capture_output=True, text=True, timeout=600, cwd=TMP.name, env={**ENV, **(env or {})}, **more)


def runs(*args, **more):
    r = load("--json", *args, **more)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)["runs"]


def test_counted():
    files = ["--svg", path("a.svg"), "--csv", path("a.csv"), "--table", path("a.table")]
    first, told = load("--counted", "--requests", "150", "--rate", "1,4,16", "--policies", "fcfs,static", *files), []
    for name in ("a.svg", "a.csv", "a.table"):
        with open(path(name), encoding="utf-8") as f:
            told.append(f.read())
    second = load("--counted", "--requests", "150", "--rate", "1,4,16", "--policies", "fcfs,static", *files)
    again = []
    for name in ("a.svg", "a.csv", "a.table"):
        with open(path(name), encoding="utf-8") as f:
            again.append(f.read())
    check("counted twice, what is printed and all files are equal byte for byte",
          first.returncode == 0 and first.stdout == second.stdout and told == again and "knee" in first.stdout, first.stdout + first.stderr)
    table = list(csv.DictReader(told[2].splitlines()))
    points = list(csv.DictReader(told[1].splitlines()))
    check("the files have a row for each run and for each request", len(points) == 6 and len(table) == 900 and told[0].startswith("<svg"), told[1])
    xml.etree.ElementTree.fromstring(told[0])
    for p in points:
        rows = [r for r in table if (r["policy"], r["load"]) == (p["policy"], p["load"])]
        ttft = sorted(float(r["first_s"]) - float(r["arrived_s"]) for r in rows)
        if abs(ttft[(150 * 99 + 99) // 100 - 1] / float(p["ttft_p99_s"]) - 1) > 1e-6 or sum(int(r["generated"]) for r in rows) != float(p["output_tokens"]):
            check("the figures of a run are those of its requests", False, p)
            break
    else:
        check("the figures of a run are those of its requests", True)
    latency = [float(p["e2e_mean_s"]) for p in points]
    check("more load has longer latencies, and a static batch longer ones than the mixed step",
          latency[:3] == sorted(latency[:3]) and latency[3:] == sorted(latency[3:]) and all(a < b for a, b in zip(latency, latency[3:])), latency)


def test_queue():
    files = {name: path("q." + name) for name in ("svg", "csv", "table")}
    r = load("--counted", "--requests", "60", "--rate", "8", "--scale", "0.3", "--svg", files["svg"], "--queue-csv", files["csv"], "--table", files["table"])
    svg = xml.etree.ElementTree.parse(files["svg"]).getroot()
    with open(files["csv"], encoding="utf-8") as f:
        queue = [(float(row["at_s"]), int(row["waiting"])) for row in csv.DictReader(f)]
    with open(files["table"], encoding="utf-8") as f:
        waits = [(float(row["arrived_s"]), float(row["admitted_s"])) for row in csv.DictReader(f)]
    most = max(n for _, n in queue)
    check("the queue over time is of those who came and were not yet admitted", r.returncode == 0 and most > 1 and
          all(n == sum(came <= at < admitted for came, admitted in waits) for at, n in queue), queue)
    text = [t.text for t in svg.iter("{http://www.w3.org/2000/svg}text")]
    check("it is drawn below the requests, as text and as SVG", f"queue up to {most} |" in r.stdout and f"queue, at most {most}" in text and
          len(list(svg.iter("{http://www.w3.org/2000/svg}path"))) == 1, r.stdout)
    r = load("--counted", "--requests", "1", "--svg", files["svg"])
    xml.etree.ElementTree.parse(files["svg"])
    check("where nobody waits it says so", r.returncode == 0 and "queue: nobody waited" in r.stdout, r.stdout)


def test_cost():
    with open(path("cost"), "w", encoding="utf-8") as f:
        f.write("cutaway cost 1\nstep 1000000\nrequest 0\nrow 0\nfirst_rows 0\nlogits 0\nposition 0\npair 0\ntoken_bytes 1\n")
    r = runs("--counted", "--cost", path("cost"), "--requests", "50", "--rate", "1", "--kind", "edit", "--slots", "1")[0]
    check("prices of a file: each gap is a step of a millisecond", abs(r["itl_p99_s"] - 1e-3) < 1e-9 and r["itl_max_s"] < 1.0001e-3, r)


def test_inside():
    how = ["--requests", "16", "--rate", "200", "--scale", "0.2", "--kind", "chat,document,edit,system", "--longest", "300"]
    inside, counted = runs(*INSIDE, *how)[0], runs("--counted", *how)[0]
    check("the engine inside answers all, with as many tokens as the load says",
          inside["requests"] == 16 and inside["failed"] == 0 and inside["output_tokens"] == counted["output_tokens"] > 100, inside)
    check("latencies are measured", 0 < inside["ttft_p50_s"] <= inside["ttft_p99_s"] <= inside["e2e_p99_s"] and inside["itl_p50_s"] > 0, inside)
    r = load(*INSIDE, *how, "--slo", "ttft=10min,itl=10min")
    check("a run is told with its goodput and its requests over time", r.returncode == 0 and "16 of 16 met the target" in r.stdout and "#" in r.stdout,
          r.stdout + r.stderr)
    check("nothing is recorded without --record", not any(name.endswith(".db") for _, _, names in os.walk(TMP.name) for name in names))
    users = runs(*INSIDE, "--users", "1,4", "--requests", "12", "--scale", "0.1", "--longest", "200")
    check("users: so many at a time", [u["load"] for u in users] == [1, 4] and all(u["running_max"] <= u["load"] for u in users), users)


def test_record():
    r = load(*INSIDE, "--requests", "6", "--rate", "100", "--scale", "0.1", "--longest", "200", "--record", path("load.db"))
    v = subprocess.run([PROGRAM, "verify", path("load.db")], capture_output=True, text=True, timeout=600, env=ENV, cwd=TMP.name)
    check("a recording of a load is verified", r.returncode == 0 and v.returncode == 0 and "of 6 requests" in v.stdout, r.stderr + v.stdout + v.stderr)
    c = runs("--counted", "--cost", path("load.db"), "--requests", "5", "--rate", "10") if r.returncode == 0 else []
    check("and steps are priced by it", bool(c) and c[0]["requests"] == 5, c)


def test_trace():
    with open(path("trace.csv"), "w", encoding="utf-8") as f:
        f.write("TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,48,10\r\n2023-11-16 18:17:04.0319600,31,8\r\n")
    r = runs(*INSIDE, "--arrivals", "trace:" + path("trace.csv"), "--requests", "0")[0]
    check("a trace in the form of Azure's", r["requests"] == 2 and r["output_tokens"] == 18, r)
    c = load("--counted", "--arrivals", "trace:" + path("trace.csv"), "--requests", "0", "--rate", "0.1", "--table", path("t.csv"))
    with open(path("t.csv"), encoding="utf-8") as f:
        rows = sorted(csv.DictReader(f), key=lambda row: int(row["request"]))
    check("ten times as slow", c.returncode == 0 and abs(float(rows[1]["arrived_s"]) - 0.52) < 1e-6 and rows[0]["prompt"] == "48", rows)
    with open(path("trace.csv"), "a", encoding="utf-8") as f:
        f.write("2023-11-16 18:17:05,-1,8\n")
    r = load("--counted", "--arrivals", "trace:" + path("trace.csv"), "--requests", "0")
    check("a damaged trace is an error with its line", r.returncode == 3 and "trace.csv line 4" in r.stderr, r.stderr)


def test_documents():
    r = subprocess.run([os.path.join(ROOT, "tools/bench/policies.py"), "--check"], capture_output=True, text=True, timeout=600)
    check("docs/scheduling.md has the figures of its loads", r.returncode == 0, r.stderr)


# ---- over HTTP ----

def test_serve():
    server = subprocess.Popen([PROGRAM, "serve", "--port", "0", *INSIDE, "--api-key", "key"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=ENV, cwd=TMP.name)
    url = server.stdout.readline().decode().split()[-1]
    key = {"CUTAWAY_API_KEY": "key"}
    how = ["--url", url, "--requests", "12", "--rate", "100", "--scale", "0.2", "--kind", "chat,document,edit,system", "--longest", "300"]
    counted = runs("--counted", *how[2:])[0]
    for more in ([], ["--completions"]):
        r = runs(*how, *more, env=key)[0]
        check(f"over HTTP {' '.join(more)} all are answered in full", r["requests"] == 12 and r["failed"] == 0 and
              r["output_tokens"] == counted["output_tokens"] and 0 < r["ttft_p50_s"] <= r["e2e_p50_s"] and r["cached_tokens"] > 0, r)
    r = load(*how)
    check("without the key it says how to give it", r.returncode == 2 and "CUTAWAY_API_KEY" in r.stderr, r.stderr)
    server.send_signal(signal.SIGTERM)
    check("the server ends well", server.wait(120) == 0)
    server.stdout.close()
    r = load(*how, env=key)
    check("a server that is not there is an error", r.returncode not in (0, 130) and "/v1/models" in r.stderr, r.stderr)


class Broken(http.server.BaseHTTPRequestHandler):
    """Answers well, or fails in one of many ways, by turns."""
    turn = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.reply(200, "application/json", json.dumps({"data": [{"id": "b\u00e4d\x1b[31m\x9b31m\u202e"}]}).encode())

    def reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:  # enough was heard
            pass

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            turn, Broken.turn = Broken.turn, Broken.turn + 1
        good = b'data: {"choices": [{"delta": {"content": "a"}}]}\r\n\r\n'
        end = b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\n'
        stream = [
            good + good + end + b'data: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}\n\ndata: [DONE]\n\n',
            b'data: {"choices": [{"delta": {}}]}\n\n',                                 # no text
            b'data: {"choices": 7, "usage": "x"}\n\n' + b"data: [[[\n\n",              # nonsense
            b'data: {"error": {"message": "out of \x01luck"}}\n\n',
            good + end + b'data: {"usage": {"completion_tokens": -1, "prompt_tokens": 1e99}}\n\n',
            good + good,                                                               # broken off, and so told
            good + end.replace(b"length", b"abort") + b"data: [DONE]\n\n",
            b'data: ' + b"x" * 3000000 + b"\n\n",
        ]
        if turn % 10 == 8:
            self.reply(503, "text/plain", b"no\x1b[2J room" + b"!" * 5000)
        elif turn % 10 == 9:
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(good)
        else:
            self.reply(200, "text/event-stream", stream[turn % 10])


class Endless(Broken):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        try:
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n' * 1000)
        except ConnectionError:
            pass


LOCK = threading.Lock()


def test_broken_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        how = ["--url", f"http://127.0.0.1:{server.server_port}/v1", "--requests", "40", "--rate", "400", "--users"]
        r = runs(*how[:-1])[0]
        # turns 0 and 4 of 10 are good: 8 of them, of 5 tokens and of 1
        check("of a server that fails the good answers count", r["requests"] == 40 and r["failed"] == 32 and r["good"] == 8, r)
        check("tokens that come in one piece have gaps of 0", r["itl_p50_s"] == 0 < r["itl_max_s"], r)
        check("and their tokens are what usage says", r["ttft_p50_s"] > 0 and r["output_tokens"] >= 4 * 5 + 4, r)
        r = load(*how[:-3], "--users", "2")
        check("the first failure is told, without its control characters", r.returncode == 0 and "failed       32" in r.stdout, r.stdout)
        check("nor has the model's name any", "b\u00e4d" in r.stdout and not set("\x1b\x9b\u202e") & set(r.stdout), r.stdout)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# ---- a person before it ----

def test_endless():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        r = load("--json", "--url", f"http://127.0.0.1:{server.server_port}", "--requests", "2", "--rate", "100")
        check("an answer without end is cut, and has failed", '"failed":2' in r.stdout and "does not end" in r.stdout + r.stderr, r)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_interrupt():
    p = subprocess.Popen([PROGRAM, "load", *INSIDE, "--requests", "100000", "--rate", "20", "--scale", "0.1", "--longest", "100"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV, cwd=TMP.name)
    time.sleep(4)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=120)
    check("Ctrl-C ends early with the figures of what was done", p.returncode == 130 and "TTFT" in out and "stopped" in err, out + err)


def test_progress():
    def drawn(*args):
        ours, theirs = pty.openpty()
        p = subprocess.Popen([PROGRAM, "load", *INSIDE, "--requests", "12", "--rate", "4", "--arrivals", "uniform", "--scale", "0.1",
                              "--longest", "100", *args], stdout=subprocess.DEVNULL, stderr=theirs, env=ENV, cwd=TMP.name)
        os.close(theirs)
        told = b""
        try:
            while piece := os.read(ours, 65536):
                told += piece
        except OSError:
            pass
        os.close(ours)
        return p.wait(120), told.decode(errors="replace")
    status, told = drawn()
    check("progress on a terminal", status == 0 and "ended" in told and "tokens/s" in told, told)
    status, told = drawn("--quiet")
    check("and none with --quiet", status == 0 and told == "", told)


def test_bad_input():
    for args, says in [
        (["--rate", "0"], "--rate 0"), (["--rate", "1,x"], "--rate x"), (["--rate", "nan"], "--rate"), (["--rate", "1,,2"], "--rate"),
        (["--users", "1.5"], "whole numbers"), (["--users", "9999"], "whole numbers"), (["--users", "2", "--arrivals", "uniform"], "exclude"), (["--users", "2", "--rate", "3"], "exclude"),
        (["--kind", "poem"], "chat, document, edit and system"), (["--kind", ""], "--kind"), (["--arrivals", "gamma"], "gamma:CV"),
        (["--arrivals", "gamma:99"], "coefficient"), (["--arrivals", "onoff:1"], "onoff"), (["--arrivals", "trace:/nowhere"], "/nowhere"),
        (["--arrivals", "storm"], "poisson, uniform"), (["--slo", "ttft=soon"], "ttft=500ms"), (["--policies", "fcfs,best"], "best"),
        (["--cost", "/nowhere"], "--counted"), (["--counted", "--cost", "/nowhere"], "/nowhere"), (["--completions"], "--url"),
        (["--counted", "--record", "x.db"], "--record"), (["--rate", "1,2", "--record", "x.db"], "--record takes one run"),
        (["--url", "http://127.0.0.1:1", "--counted"], "--url"), (["--url", "gopher://x"], "x"), (["--counted", "--spec", "ngram"], "--spec off"),
        (["--longest", "3"], "8 tokens"), (["--requests", "0"], "at least one request"), (["--model", "/nowhere.gguf"], "/nowhere.gguf"),
        (["--counted", "--svg", "/nowhere/x.svg"], "/nowhere/x.svg"),
    ]:
        r = load("--model", TINY, *args) if "--model" not in args else load(*args)
        if r.returncode in (0, 130) or says not in r.stderr or r.stderr.count("\n") != 1:
            check("bad input: " + " ".join(args), False, f"{r.returncode} {r.stderr}")
            return
    check("bad input is an error of one line that says what is possible", True)
    r = load("--counted", "--requests", "5", "--csv", "/nowhere/x.csv")
    check("a file that cannot be written takes no figure along", r.returncode not in (0, 130) and "TTFT" in r.stdout and "/nowhere/x.csv" in r.stderr, r)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "1024", TINY], check=True, stdout=subprocess.DEVNULL)
    for test in (test_counted, test_queue, test_cost, test_inside, test_record, test_trace, test_documents, test_serve, test_broken_server, test_endless, test_interrupt,
                 test_progress, test_bad_input):
        try:
            test()
        except Exception as error:  # pylint: disable=broad-except
            check(test.__name__, False, repr(error))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
