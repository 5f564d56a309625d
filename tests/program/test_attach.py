#!/usr/bin/env python3
"""`cutaway attach`: chats through servers that are not ours, as they are recorded in tests/data/attach, through `cutaway serve`,
and, where `make peer-server` has built it, a real llama-server; what the recording and the screens say, and what comes of servers
that refuse, vanish, hang or lie. TAP; standard library alone."""
import http.server
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from tap import PROGRAM, ROOT, check, finish, skip
from terminal import Failure, Terminal

DATA = os.path.join(ROOT, "tests/data/attach")
PEER = os.path.join(ROOT, "build/peer/llama-server")
MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
OWN_IDS = 1 << 19
TOLD, PIECE = 8, 9  # codes of token.source
END, ENDED, LOST = 0, 8, 9  # of finish.reason
folder = tempfile.TemporaryDirectory()
ENV = {**os.environ, "XDG_DATA_HOME": folder.name, "XDG_CACHE_HOME": folder.name}
ENV.pop("CUTAWAY_API_KEY", None)
n_files = 0


def data(server, name):
    path = os.path.join(DATA, server, name)
    return open(path, "rb").read() if os.path.exists(path) else None


class Fake(http.server.BaseHTTPRequestHandler):
    """A server as its folder has recorded it, or with `stream` in place of its answers."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refused(self):
        s = self.server
        if s.key and self.headers.get("Authorization") != f"Bearer {s.key}":
            self.answer(401, b'{"error": {"message": "no"}}')
            return True
        return False

    def do_GET(self):
        s, path = self.server, self.path
        s.polls += path == "/metrics"
        if self.refused():
            return
        name = {"/v1/models": "models.json", "/metrics": "metrics.txt", "/slots": "slots.json", "/props": "info.json",
                "/version": "info.json", "/get_server_info": "info.json"}.get(path)
        body = data(s.name, name) if name else None
        self.answer(200 if body else 404, body or b'{"error": {"message": "there is no such path"}}')

    def do_POST(self):
        s = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        s.asked.append(json.loads(body))
        if self.refused():
            return
        stream = s.stream(s.asked[-1]) if callable(s.stream) else s.stream
        if isinstance(stream, tuple):
            self.answer(*stream)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for piece in stream.split(b"\n\n") if isinstance(stream, bytes) else stream:
                self.wfile.write(piece + b"\n\n")
                self.wfile.flush()
            while s.hangs:
                time.sleep(0.05)
        except OSError:
            pass


def fake(name, stream=None, key=None, hangs=False):
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fake)
    s.daemon_threads = True
    s.handle_error = lambda *args: None  # a client that goes away is none of its business
    s.name, s.key, s.hangs, s.asked, s.polls = name, key, hangs, [], 0
    s.stream = stream if stream is not None else data(name, "stream.txt")
    s.url = f"http://127.0.0.1:{s.server_address[1]}"
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s


def end(s):
    s.hangs = False
    s.shutdown()
    s.server_close()


def attach(url, *args, env=None):
    """The run, and its recording."""
    global n_files
    n_files += 1
    path = os.path.join(folder.name, f"{n_files}.db")
    run = subprocess.run([PROGRAM, "attach", url, "--record", path, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=300,
                         env={**ENV, **(env or {})})
    return run, path


def rows(path, sql):
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    found = [dict(r) for r in db.execute(sql)]
    db.close()
    return found


def one(path, sql):
    found = rows(path, sql)
    return found[0] if found else {}


def test_llama_server():
    s = fake("llama-server")
    run, path = attach(s.url + "/v1", "--temp", "0.5", "--top-k", "20", "--seed", "9", "--max-tokens", "6", "--stop", "END", "A fox?")
    text = "".join(json.loads(e[6:])["choices"][0]["delta"].get("content") or "" for e in s.stream.decode().split("\n\n")
                   if e.startswith("data: {") and json.loads(e[6:])["choices"])
    check("llama-server's answer is printed", run.returncode == 0 and run.stdout.decode() == text + "\n" and text, run)
    q = s.asked[0]
    check("settings travel", (q["temperature"], q["top_k"], q["seed"], q["max_tokens"], q["stop"]) == (0.5, 20, 9, 6, ["END"]), q)
    check("what this server adds is asked for", q["return_progress"] and q["logprobs"] and q["top_logprobs"] == 7, q)
    a = one(path, "SELECT * FROM attached")
    check("the recording says which server, version and model", (a["server"], a["version"], a["model"], a["slots"], a["ctx"], a["url"]) ==
          ("llama-server", "b1-0c1e570", "SmolLM2-135M-Instruct.Q4_1.gguf", 2, 2048, s.url), a)
    t = rows(path, "SELECT t.*, v.bytes FROM token t JOIN vocab v USING (id) ORDER BY t.pos")
    check("tokens have the server's ids and texts", len(t) == 6 and b"".join(r["bytes"] for r in t).decode() == text
          and all(r["id"] < OWN_IDS and r["source"] == TOLD for r in t), t)
    check("and probabilities with candidates", all(0 < r["p"] <= 1 and len(r["candidates"]) == 7 * 20 for r in t), t)
    check("what is not told is NULL", all(r[k] is None for r in t for k in ("hash", "p_draw", "entropy", "survivors", "stages", "rows"))
          and one(path, "SELECT * FROM session")["model_sha256"] is None and one(path, "SELECT * FROM step")["ns"] is None)
    f = one(path, "SELECT * FROM finish")
    check("the end, and the prompt's tokens", (f["reason"], f["generated"], f["prompt"], f["hit"]) == (1, 6, 36, 24), f)
    check("latencies are measured", f["first_token_ns"] > 0 and f["total_ns"] >= f["first_token_ns"] and f["itl_p50_ns"] is not None, f)
    check("slots and figures are polled", one(path, "SELECT * FROM slot WHERE busy = 1")["tokens"] == 36
          and one(path, "SELECT * FROM polled")["running"] == 1, rows(path, "SELECT * FROM polled"))
    check("the session ended in order", one(path, "SELECT * FROM closed"))
    end(s)
    return path


def test_others():
    s = fake("vllm")
    run, path = attach(s.url, "--top-k", "0", "A fox?", "And then?")
    check("vLLM's answer is printed", run.stdout == b"Foxes hunt alone\nFoxes hunt alone\n", run)
    check("no top-k is -1 there", s.asked[0]["top_k"] == -1 and s.asked[0]["return_token_ids"], s.asked[0])
    check("the second turn has the first", [m["role"] for m in s.asked[1]["messages"]] == ["user", "assistant", "user"]
          and s.asked[1]["messages"][1]["content"] == "Foxes hunt alone", s.asked[1])
    t = rows(path, "SELECT * FROM token WHERE request = 1 ORDER BY pos")
    check("its ids, two tokens of one piece, and the end of the turn", [r["id"] for r in t] == [40304, 288, 23330, 7484, 151645]
          and t[1]["step"] == t[2]["step"] and [r["is_end"] for r in t] == [None] * 4 + [1], t)
    ids = {int.from_bytes(r["candidates"][i:i + 4], "little") for r in t for i in range(0, len(r["candidates"]), 20)}
    check("candidates without an id have one of the recording's", {i for i in ids if i < OWN_IDS} == {r["id"] for r in t} and len(ids) > 5, ids)
    f, p, a = (one(path, f"SELECT * FROM {x}") for x in ("finish", "polled", "attached"))
    check("its cached tokens and pages", (f["prompt"], f["hit"], f["reason"], a["pages"], a["page_size"]) == (19, 16, END, 4096, 16), (f, a))
    check("its queue and cache", (p["running"], p["waiting"], p["kv_used"], p["kv_tokens"]) == (3, 4, 0.375, None), p)
    check("slots are not told", not rows(path, "SELECT * FROM slot"))
    end(s)
    s = fake("sglang")
    run, path2 = attach(s.url, "--stop", "END", "A fox?")
    t, f = rows(path2, "SELECT * FROM token"), one(path2, "SELECT * FROM finish")
    check("SGLang tells no ids", run.stdout == b"Foxes hunt alone\n" and len(t) == 5 and all(r["id"] >= OWN_IDS for r in t), t)
    check("but why it ended, and not what was cached", (f["reason"], f["prompt"], f["hit"]) == (END, 19, None), f)
    check("and no lookup is made up", not rows(path2, "SELECT * FROM lookup"))
    end(s)
    return path


def test_openai():
    s = fake("openai")
    run, path = attach(s.url, "--stop", "END", "A fox?", "Again?")
    t, f = rows(path, "SELECT * FROM token WHERE request = 1"), one(path, "SELECT * FROM finish")
    check("pieces of a stream are no tokens", run.stdout == b"Foxes hunt alone.\n" * 2 and len(t) == 3
          and all(r["source"] == PIECE and r["p"] is None and r["candidates"] is None for r in t), t)
    check("nor are they counted or timed as such", (f["generated"], f["itl_p50_ns"], f["prompt"]) == (None, None, None)
          and one(path, "SELECT sum(tokens) AS n FROM step")["n"] == 0, f)
    check("whether a stop string ended it is not known", f["reason"] == ENDED, f)
    check("what is no part of the interface is not sent", "top_k" not in s.asked[0] and "min_p" not in s.asked[0])
    check("log-probabilities are asked for once", "logprobs" in s.asked[0] and "logprobs" not in s.asked[1])
    check("nothing is polled", s.polls == 1 and not rows(path, "SELECT * FROM polled"), s.polls)
    run, _ = attach(s.url, "--min-p", "0.1", "A fox?")
    check("min-p is the server's to decide", run.returncode == 2 and b"this server decides" in run.stderr, run)
    end(s)
    refuses = fake("openai", lambda q: (400, b'{"error": {"message": "logprobs are not supported"}}') if "logprobs" in q
                   else data("openai", "stream.txt"))
    run, path = attach(refuses.url, "A fox?")
    check("a server that refuses log-probabilities is asked again", run.stdout == b"Foxes hunt alone.\n" and len(refuses.asked) == 2, run)
    check("and it is one request, that says so", len(rows(path, "SELECT * FROM request")) == 1
          and one(path, "SELECT * FROM setting WHERE name = 'logprobs'")["value"] == "off")
    end(refuses)


def event(**fields):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}, **fields}]}).encode()


def lost(name, pattern, stream, hangs=False, keeps=None, args=()):
    s = fake("llama-server", stream, hangs=hangs)
    run, path = attach(s.url, *args, "A fox?")
    f = one(path, "SELECT * FROM finish")
    check(name, run.returncode == 4 and re.search(pattern, run.stderr.decode()) and f["reason"] == LOST and f["why"]
          and one(path, "SELECT * FROM closed") and run.stderr.count(b"\n") == 1, f"{run}\n{f}")
    if keeps is not None:
        text = b"".join(r["bytes"] for r in rows(path, "SELECT v.bytes FROM token t JOIN vocab v USING (id) ORDER BY t.pos"))
        check("  what came is kept", run.stdout.startswith(keeps) and text == keeps, (run.stdout, text))
    end(s)


def test_bad_servers():
    whole = data("llama-server", "stream.txt").split(b"\n\n")
    first = [e for e in whole if b'"logprobs"' in e][0]
    word = json.loads(first[6:])["choices"][0]["delta"]["content"].encode()
    lost("a server that goes away in mid answer", "before the answer did|broke off", whole[:4], keeps=word)
    lost("one that hangs", "broke off", whole[:4], hangs=True, keeps=word, args=("--idle", "1"))
    lost("one that sends no JSON", "no JSON object", [first, b"data: {\"choices\": [", b"data: [DONE]"], keeps=word)
    lost("one whose line never ends", "1 MiB", [first, b"data: " + b"x" * (2 << 20)], keeps=word)
    lost("one that says an error in its stream", "broke off: out of pages", [first, b'data: {"error": {"message": "out of pages"}}'], keeps=word)
    lost("one that gives up", "says: abort", [first, event(delta={}, finish_reason="abort")], keeps=word)
    lost("one whose answer never ends", "does not end", [b'data: {"choices": [{"delta": {"content": "' + b"x" * 1000000 + b'"}}]}'] * 20)
    lost("a NUL byte in its JSON", "no JSON object", [first, b'data: {"choices": [{"delta": {"content": "a\0b"}}]}'], keeps=word)
    s = fake("openai", [b'data: {"choices": [{"delta": {"content": "a\\u0000b\\\\u0000"}}]}', b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}', b"data: [DONE]"])
    run, path = attach(s.url, "A fox?")
    check("an escaped one cuts no text", run.returncode == 0 and run.stdout == "a\ufffdb\\u0000\n".encode(), run)
    end(s)
    many = 100000  # where each looked for its place from the beginning, this took some 10 s
    s = fake("openai", [b'data: {"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [' + b",".join([b"{}"] * many) +
                        b']}, "token_ids": [' + b",".join(str(i % 7).encode() for i in range(many)) + b"]}]}", b"data: [DONE]"])
    run, path = attach(s.url, "A fox?")
    check("each token of a large piece has its own id", run.returncode == 0 and one(path, "SELECT count(*) n FROM token")["n"] == many, run)
    end(s)
    lost("one that answers with no event", "no event", [b"hello"])
    lost("one that refuses", "status 503: Loading", (503, b'{"error": {"message": "Loading model"}}'))
    lost("one that answers 500 with escapes", r"status 500: [^\x1b]*$", (500, b"\x1b]0;title\x07 <html>\xff"))
    token = {"id": -5, "token": "a\x1b[31m\udcff".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), "bytes": [300, -1], "logprob": 3,
             "top_logprobs": [{"token": 7, "logprob": "x"}, {"token": "b", "logprob": -1e300, "bytes": [255]}] * 20}
    lies = [event(logprobs={"content": [token]}, finish_reason=None),
            b'data: {"choices": [], "usage": {"prompt_tokens": -3, "completion_tokens": 1.5}, "prompt_progress": {"total": 3, "cache": 9}}',
            event(finish_reason="stop"), b"data: [DONE]"]
    s = fake("llama-server", lies)
    run, path = attach(s.url, "A fox?")
    t, f = one(path, "SELECT * FROM token"), one(path, "SELECT * FROM finish")
    check("numbers that make no sense are not told", run.returncode == 0 and t["p"] is None and t["id"] >= OWN_IDS
          and not rows(path, "SELECT * FROM lookup") and f["hit"] is None, f"{run}\n{t}\n{f}")
    check("and no candidate is beyond the room for them", len(t["candidates"]) == 7 * 20, len(t["candidates"]))
    replay = subprocess.run([PROGRAM, "export", path, "--view", "next", "-o", os.path.join(folder.name, "lies.svg")], capture_output=True, env=ENV)
    check("its recording can be looked at", replay.returncode == 0, replay)
    end(s)
    run, _ = attach("http://127.0.0.1:9", "A fox?")
    check("nobody there", run.returncode == 4 and b"127.0.0.1:9" in run.stderr, run)
    run, _ = attach("ftp://x", "A fox?")
    check("a URL that is none", run.returncode == 2, run)


def test_keys():
    s = fake("vllm", key="open sesame")
    run, _ = attach(s.url, "A fox?")
    check("a key is asked for", run.returncode == 2 and b"CUTAWAY_API_KEY" in run.stderr, run)
    run, path = attach(s.url.replace("//", "//me:secret@"), "A fox?", env={"CUTAWAY_API_KEY": "open sesame"})
    check("and taken from the environment", run.returncode == 0, run)
    recorded = open(path, "rb").read()
    check("neither key nor password is recorded", b"sesame" not in recorded and b"secret" not in recorded)
    run, _ = attach(s.url, "--api-key", "open sesame", "--served-model", "another", "A fox?")
    check("a model that it has not", run.returncode == 2 and b"Qwen/Qwen3-0.6B" in run.stderr, run)
    end(s)


def test_refusals(path):
    for args in (["verify", path], ["whatif", path], ["diff", path, path], ["why", "token", "--file", path]):
        run = subprocess.run([PROGRAM, *args], capture_output=True, env=ENV)
        check(f"{args[0]} refuses, and says why", run.returncode == 3 and b"another server" in run.stderr, run)
    for to, status in (("html", 3), ("perfetto", 3), ("csv", 0)):
        run = subprocess.run([PROGRAM, "export", path, "--to", to, *(["--table", "slot"] if to == "csv" else [])], capture_output=True, env=ENV)
        check(f"export to {to}", run.returncode == status and (not status or b"another server" in run.stderr), run)
    run = subprocess.run([PROGRAM, "attach", "x"], stdin=subprocess.DEVNULL, capture_output=True, env=ENV)
    check("without a server there is nothing", run.returncode != 0, run)


def svg(path, view):
    out = os.path.join(folder.name, view + ".svg")
    if os.path.exists(out):
        os.remove(out)
    run = subprocess.run([PROGRAM, "export", path, "--view", view, "--size", "100x30", "-o", out], capture_output=True, env=ENV)
    text = open(out).read() if run.returncode == 0 else run.stderr.decode()
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", text))


def test_views(llama, vllm):
    """The recordings of before, on the replay's screens."""
    v = svg(llama, "batch")
    check("the batch has the slots", "1 busy" in v and "36 of 2,048 tokens" in v and "0 idle" in v, v)
    check("when it was asked and tokens came, and no queue", "asked" in v and "tokens come" in v and "queued" not in v, v)
    v = svg(vllm, "batch")
    check("or says that they are not told", "slots unknown" in v and "3 run" in v and "4 wait" in v, v)
    v = svg(vllm, "pages")
    check("the pool as the server sums it up", "37.5 %" in v or "38 %" in v, v)
    check("its pages", "4,096" in v and "656 of 1,000" in v, v)
    v = svg(llama, "pages")
    check("unknown is unknown", "used unknown" in v and "preemptions unknown" in v, v)
    v = svg(llama, "next")
    check("candidates as they are told", "as the server tells it" in v and "before penalties" in v, v)
    for view in ("attention", "time", "spec", "prefix", "sampler", "roofline", "price"):
        v = svg(llama, view)
        check(f"{view}: unknown", "unknown: llama-server does not tell" in v, v)


def test_screens():
    s = fake("vllm")
    t = Terminal([PROGRAM, "attach", s.url], {**ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8"}, 120, 40)
    try:
        t.wait(r"vllm 0\.11\.0")
        t.send("A fox?\r")
        t.wait("Foxes hunt alone")
        t.wait("3 run")
        check("a turn on the screens", True)
        t.send("/policy shortest\r")
        t.wait("this server decides")
        t.send("/set repeat-penalty 1.2\r")
        t.wait("repeat-penalty: this server decides")
        t.send("/fork 2\r")
        t.wait("engine of one's own")
        t.send("/temp 0.25\r")
        t.wait("temp is now 0.25")
        t.send("/retry\r")
        t.wait("Foxes hunt alone[\\s\\S]*Foxes hunt alone")
        check("a turn again, with other settings", s.asked[1]["temperature"] == 0.25 and len(s.asked[1]["messages"]) == 1, s.asked)
        t.send("/system Be brief.\r")
        t.wait("new conversation begins")
        t.send("And owls?\r")
        t.wait("And owls")
        end_time = time.monotonic() + 60
        while len(s.asked) < 3 and time.monotonic() < end_time:
            t.read(0.1)
        check("a conversation anew", s.asked[2]["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And owls?"}],
              s.asked)
        t.send("/quit\r")
        check("/quit ends it, and advises what is possible", t.wait_end() == 0 and "see it again" in t.grid.text()
              and "go on with it" not in t.grid.text(), t.grid.text())
    except Failure as e:
        check("the screens", False, e)
    finally:
        t.close()
        end(s)
    s = fake("llama-server", [data("llama-server", "stream.txt").split(b"\n\n")[3]], hangs=True)
    t = Terminal([PROGRAM, "attach", s.url, "--no-record"], {**ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8"}, 80, 24)
    try:
        t.wait("llama-server")
        t.send("A fox?\r")
        t.wait("ai +\\S")
        t.send("And owls?\r")
        t.wait("waiting for the answer . Esc takes it back")
        t.send("\x1b")
        t.wait("you . And owls")
        check("a turn waits for the answer, and can be taken back", len(s.asked) == 1)
        t.send("\x03")
        t.wait("stopped by you")
        check("Ctrl-C stops an answer", True)
        t.send("\x15And crows?\rAnd jays?\r")
        t.wait("waiting for the answer . Esc")
        t.send("/quit\r")
        check("what waited at the end is told", t.wait_end() == 0 and "1 turn was not sent; the up key has it" in t.grid.text())
    except Failure as e:
        check("Ctrl-C", False, e)
    finally:
        t.close()
        end(s)


def listening(command, pattern, env):
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    for line in p.stdout:
        if re.search(pattern, line):
            return p, line
    return p, ""


def stop(p):
    p.send_signal(signal.SIGTERM)
    threading.Thread(target=p.stdout.read, daemon=True).start()
    p.wait(120)


def test_serve():
    tiny = os.path.join(folder.name, "tiny.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), tiny], check=True)
    p, line = listening([PROGRAM, "serve", "--port", "0", "--model", tiny, "--ctx", "256"], "serving", ENV)
    try:
        url = re.search(r"http\S+", line)[0]
        run, path = attach(url, "--temp", "0", "--max-tokens", "12", "A fox?")
        t, a, f = rows(path, "SELECT * FROM token"), one(path, "SELECT * FROM attached"), one(path, "SELECT * FROM finish")
        check("cutaway serve is a server, too", run.returncode == 0 and a["server"] == "cutaway" and f["generated"] - 1 <= len(t) > 0
              and all(0 <= r["p"] <= 1 for r in t), f"{run}\n{a}\n{f}")
        told = one(path, "SELECT n_prompt, generated FROM requests")
        check("its prompt is counted", told == {"n_prompt": f["prompt"], "generated": f["generated"]}, told)
        check("the end of a turn is no text of it", f["reason"] == 0 and not rows(path, "SELECT * FROM tokens WHERE text LIKE '%im_end%'"), f)
        run, path = attach(url, "--max-tokens", "4", "--seed", str(2**63 + 5), "A fox?")
        check("a seed of all 64 bits arrives", one(path, "SELECT seed FROM request")["seed"] == 5 - 2**63)
        check("it tells what its cache had", f["hit"] is not None and f["prompt"] > 0, f)
        check("and its queue", one(path, "SELECT * FROM polled")["waiting"] == 0)
    finally:
        stop(p)


def test_peer():
    if not os.path.exists(PEER) or not os.path.exists(MODEL):
        skip("a real llama-server", "it is not there: `make peer-server model` compiles it, for about 20 minutes")
        return
    port = fake("openai")
    number = port.server_address[1]
    end(port)  # a port that was free a moment ago
    p, _ = listening([PEER, "-m", MODEL, "--port", str(number), "--metrics", "--slots", "-np", "2", "-c", "2048"], "listening", ENV)
    try:
        run, path = attach(f"http://127.0.0.1:{number}", "--temp", "0", "--max-tokens", "24", "--poll", "100", "Say hello \U0001f98a!", "Once more.")
        t = rows(path, "SELECT t.*, v.bytes FROM token t JOIN vocab v USING (id) ORDER BY t.request, t.pos")
        f = rows(path, "SELECT * FROM finish ORDER BY request")
        text = b"".join(r["bytes"] for r in t if r["request"] == 1)
        check("a real llama-server answers", run.returncode == 0 and len(f) == 2 and run.stdout.startswith(text.strip()), f"{run}\n{text}")
        check("its tokens are its own", t and all((r["id"] < 49152 or r["id"] >= OWN_IDS) and 0 < r["p"] <= 1 for r in t), t)
        # a character of several tokens comes as one text, whose id is none of the model's
        check("greedy tokens are the first of their candidates",
              all(int.from_bytes(r["candidates"][:4], "little") == r["id"] for r in t if r["id"] < OWN_IDS), t)
        check("the second turn comes from its cache", f[1]["hit"] > f[0]["prompt"] - 8, f)
        check("a slot was seen at work", rows(path, "SELECT * FROM slot WHERE busy = 1"), rows(path, "SELECT * FROM slot"))
        own = os.path.join(folder.name, "own.db")
        subprocess.run([PROGRAM, "run", "--model", MODEL, "--temp", "0", "--max-tokens", "24", "--record", own, "Say hello \U0001f98a!"],
                       capture_output=True, env=ENV)
        theirs, ours = ({r["id"]: r["bytes"] for r in rows(x, "SELECT id, bytes FROM vocab")} for x in (path, own))
        both = theirs.keys() & ours.keys()
        check("ids mean there what they mean in the model's file", len(both) > 3 and all(theirs[i] == ours[i] for i in both),
              {i: (theirs[i], ours[i]) for i in both})
    finally:
        stop(p)


def main():
    llama = test_llama_server()
    vllm = test_others()
    test_openai()
    test_bad_servers()
    test_keys()
    test_refusals(llama)
    test_views(llama, vllm)
    test_screens()
    test_serve()
    test_peer()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
