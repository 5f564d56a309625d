#!/usr/bin/env python3
"""`cutaway serve` for those who operate it: what /metrics counts, the dashboard, systemd, other models by SIGHUP, and
other recordings. TAP; standard library alone."""
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from tap import PROGRAM, ROOT, check, finish
from test_serve import CHAT, ENV, HELLO, TEXT, TINY, TMP, Server, pieces, read_all, request, unchunked, until

MODEL, OTHER = os.path.join(TMP.name, "served.gguf"), os.path.join(TMP.name, "other.gguf")


# As systemd does: the socket is descriptor 3, and the process knows that it is meant.
PASS = ("import os, sys; os.dup2(int(sys.argv[1]), 3); os.environ.update(LISTEN_FDS=sys.argv[2], LISTEN_PID=sys.argv[3] or str(os.getpid()));"
        "os.execv(sys.argv[4], sys.argv[4:])")


def row(path, sql):
    db = sqlite3.connect(path)
    found = db.execute(sql).fetchall()
    db.close()
    return found


def samples(text):
    """Of each quantity, by its labels but the model's name."""
    return {(m[1], re.sub(r'model_name="[^"]*",?', "", m[2]).strip(",")): float(m[3])
            for m in re.finditer(r"^cutaway:(\w+)\{(.*)\} (\S+)$", text, re.M)}


def test_metrics():
    """What is counted is what the recording has."""
    path = os.path.join(TMP.name, "metrics.db")
    s = Server("--spec", "ngram:4", "--record", path)
    s.post(TEXT, prompt="a b a b a b a b", max_tokens=40, temperature=0)
    s.post(TEXT, prompt="a b a b a b a b", max_tokens=1)
    s.post(TEXT, prompt="Once", max_tokens=200, temperature=0, stop="\n")
    refused = s.ask("POST", TEXT, {"prompt": [5] * 300})[0]
    text = s.ask("GET", "/metrics", raw=True)[1]
    s.end()
    told = samples(text)
    one = {name: n for (name, of), n in told.items() if not of}
    counted = dict(zip(("generation_tokens_total", "spec_decode_num_drafts_total", "spec_decode_num_draft_tokens_total",
                        "spec_decode_num_accepted_tokens_total", "iteration_tokens_total_sum", "iteration_tokens_total_count",
                        "prompt_tokens_total", "prefix_cache_hits_total", "prefix_cache_queries_total"), row(path, """
        SELECT (SELECT count(*) FROM token), (SELECT count(*) FROM draft WHERE nth = 1), (SELECT count(*) FROM draft),
               (SELECT count(*) FROM draft WHERE verdict = 0), (SELECT sum(prefill_rows + tokens) FROM step), (SELECT count(*) FROM step),
               (SELECT sum(n_prompt) FROM request JOIN lookup USING (request)), sum(hit), sum(asked) FROM lookup""")[0]))
    check("tokens, steps and drafts are those of the recording", refused == 400 and {n: one[n] for n in counted} == counted and
          counted["spec_decode_num_draft_tokens_total"] > counted["spec_decode_num_drafts_total"] > 0, (counted, one))
    depths = {("spec_decode_num_accepted_tokens_per_pos_total", f'position="{d - 1}"'): n
              for d, n in row(path, "SELECT depth, count(*) FROM draft WHERE verdict = 0 GROUP BY 1")}
    check("and what was accepted at each position", depths and {k: told.get(k) for k in depths} == depths, (depths, told))
    ends = {of: n for (name, of), n in told.items() if name == "request_success_total"}
    check("ends by vLLM's names, without those refused", set(ends) == {f'finished_reason="{w}"' for w in ("stop", "length", "abort", "error")} and
          sum(ends.values()) == 3, ends)
    counts = {name: n for name, n in one.items() if name.endswith("_count")}
    check("of three requests each time is known", all(counts[f"{n}_count"] == 3 for n in (
        "time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds", "request_inference_time_seconds",
        "request_prefill_time_seconds", "request_decode_time_seconds", "request_prompt_tokens", "request_generation_tokens")) and
        counts["request_time_per_output_token_seconds_count"] == 2, counts)
    parts = [one[f"{n}_seconds_sum"] for n in ("e2e_request_latency", "request_queue_time", "request_prefill_time", "request_decode_time")]
    check("and they add up", abs(parts[0] - sum(parts[1:])) < 1e-6, parts)
    return {name for name, _ in told}


def test_dashboard(names):
    with open(os.path.join(ROOT, "docs/grafana.json"), encoding="utf-8") as f:
        panels = json.load(f)["panels"]
    used = {name for p in panels for t in p["targets"] for name in re.findall(r"\bcutaway:(\w+)", t["expr"])}
    check("the dashboard asks for quantities that there are", len(used) > 12 and used <= names, used - names)
    check("each panel for some", all(re.search("cutaway:", t["expr"]) for p in panels for t in p["targets"]) and
          len({(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}) == len(panels), panels)


def passing(sock, n="1", pid=""):
    return {"before": [sys.executable, "-c", PASS, str(sock.fileno()), n, pid], "fds": (sock.fileno(),)}


def listener(name):
    """Where a server tells its state."""
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.settimeout(60)
    told.bind(name)
    return told


def test_unit():
    with open(os.path.join(ROOT, "docs/systemd/cutaway.service"), encoding="utf-8") as f:
        start = re.search("(?m)^ExecStart=/usr/local/bin/cutaway (serve .*)", f.read())[1].split()
    told = subprocess.run([PROGRAM, *start, "--help"], env=ENV, capture_output=True, text=True, check=False)
    check("the unit starts a server with options that there are", told.returncode == 0 and "--headless" in told.stdout, told.stderr)


def test_systemd():
    port = socket.create_server(("127.0.0.1", 0))
    other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    path = os.path.join(TMP.name, "notify")
    told = listener(path)
    s = Server(env={"NOTIFY_SOCKET": path}, **passing(port))
    check("the socket that was passed is served", s.port == port.getsockname()[1] and s.ask("GET", "/health")[0] == 200, s.told())
    check("READY=1", told.recv(100) == b"READY=1")
    check("SIGTERM ends it", s.end() == 0, s.told())
    check("STOPPING=1", told.recv(100) == b"STOPPING=1")
    early = socket.create_connection(port.getsockname())
    early.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    told = listener("\0cutaway-" + os.path.basename(TMP.name))
    s = Server(env={"NOTIFY_SOCKET": "@cutaway-" + os.path.basename(TMP.name)}, **passing(port))
    check("who came while no server ran is answered", early.recv(100).startswith(b"HTTP/1.1 200"))
    check("READY=1 at a name of no file", told.recv(100) == b"READY=1")
    s.end()
    s = Server(**passing(port, pid="1"))
    check("a socket for another process is none", s.port != port.getsockname()[1])
    s.end()
    for sock, n in ((other, "1"), (port, "2")):
        done = subprocess.run([*passing(sock, n)["before"], PROGRAM, "serve", "--model", TINY], pass_fds=(sock.fileno(),), env=ENV,
                              capture_output=True, text=True, check=False)
        check("any other is refused", done.returncode == 2 and "one listening TCP socket" in done.stderr, done.stderr)


def total(s, name):
    return sum(n for (of, _), n in samples(s.ask("GET", "/metrics", raw=True)[1]).items() if of == name)


def late(s, **fields):
    """Asks for a long stream, and reads nothing of it: until it does, the request is not at its end."""
    c = socket.socket()
    c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    c.settimeout(60)
    c.connect(("127.0.0.1", s.port))
    before = total(s, "generation_tokens_total")
    c.sendall(request(json.dumps({**fields, "stream": True})).replace(b"Host: x", b"Host: x\r\nConnection: close"))
    assert until(lambda: total(s, "generation_tokens_total") > before and total(s, "num_requests_running") == 0)
    return c


LONG = {"messages": HELLO, "seed": 3, "n": 16, "max_tokens": 200, "logprobs": True, "top_logprobs": 20}


def answers(s, fingerprints):
    fingerprints.append(s.post(TEXT, prompt="Once", max_tokens=2)["system_fingerprint"])


def hold(s, n, fingerprints):
    """Asks until n requests wait for the model."""
    asked = []

    def more():
        if sum(t.is_alive() for t in asked) < n:
            asked.append(threading.Thread(target=answers, args=(s, fingerprints)))
            asked[-1].start()
        return s.metric("requests_held") == n
    check(f"{n} requests wait", until(more))
    return asked


def reload(s, told, model):
    """Another file takes the model's place, and the server is told."""
    shutil.copy(model, MODEL + ".new")
    os.replace(MODEL + ".new", MODEL)
    s.process.send_signal(signal.SIGHUP)
    said = told.recv(100).decode()
    check("RELOADING=1, and since when", re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", said) and
          int(said.split("=")[-1]) <= time.monotonic_ns() // 1000, said)


def verified(path, model):
    done = subprocess.run([PROGRAM, "verify", path, "--model", model], env=ENV, capture_output=True, text=True, check=False)
    check(f"{os.path.basename(path)} is a whole recording", done.returncode == 0 and row(path, "SELECT count(*), min(seq) FROM session") == [(1, 1)] and
          row(path, "SELECT count(*) FROM closed") == [(1,)] and not os.path.exists(path + "-wal"), done.stdout + done.stderr)


def test_reload():
    folder = os.path.join(TMP.name, "reload")
    os.mkdir(folder)
    shutil.copy(TINY, MODEL)
    path = os.path.join(TMP.name, "notify2")
    told = listener(path)
    s = Server("--model", MODEL, "--record", folder, "--slots", "2", "--queue", "1", env={"NOTIFY_SOCKET": path})
    told.recv(100)
    whole, first, then = s.post(CHAT, **LONG), [], []
    answers(s, first)
    c = late(s, **LONG)
    reload(s, told, OTHER)
    waiting = hold(s, 3, then)
    check("while requests wait for one that runs, the port is open", s.ask("GET", "/health")[0] == 200)
    status, _, r = s.ask("POST", TEXT, {"prompt": "Once"})
    check("beyond --queue they are refused", status == 429 and r.getheader("Retry-After"), status)
    text = pieces(unchunked(read_all(c).split(b"\r\n\r\n", 1)[1]))
    check("the one that ran ends with its model", text == {i["index"]: i["message"]["content"] for i in whole["choices"]}, text)
    for t in waiting:
        t.join()
    check("READY=1", told.recv(100) == b"READY=1")
    answers(s, then)
    check("those that waited are answered by the other", set(first) == {whole["system_fingerprint"]} and len(set(then[-4:])) == 1 and
          then[-1] != first[0], (first, then))
    before = s.metric("kv_cache_usage_perc"), s.metric("num_requests_running"), s.metric("requests_held")
    check("nothing is left of the former", before == (0, 0, 0) and s.metric("generation_tokens_total") > 3200, before)
    with open(MODEL + ".bad", "wb") as f:
        f.write(b"GGUF, but for the rest")
    reload(s, told, MODEL + ".bad")
    check("READY=1, though it failed", told.recv(100) == b"READY=1" and "the model that was open goes on: " in s.told(), s.told())
    answers(s, then)
    check("and the model that was open goes on", then[-1] == then[-2], then)
    check("SIGTERM ends it", s.end() == 0, s.told())
    files = sorted(os.listdir(folder), key=lambda name: os.stat(os.path.join(folder, name)).st_mtime_ns)
    check("a recording each", len(files) == 2, files)
    for name, model in zip(files, (TINY, OTHER)):
        verified(os.path.join(folder, name), model)


def test_reload_limits():
    """Who does not take its answer is cut off after --drain; replicas are all opened anew."""
    shutil.copy(TINY, MODEL)
    path, files = os.path.join(TMP.name, "notify3"), [os.path.join(TMP.name, f"many{i}.db") for i in ("", ".1", "-2", "-2.1")]
    told = listener(path)
    s = Server("--model", MODEL, "--record", files[0], "--replicas", "2", "--router", "round-robin", "--drain", "0", env={"NOTIFY_SOCKET": path})
    told.recv(100)
    then = []
    answers(s, then)
    c = late(s, **LONG)
    reload(s, told, OTHER)
    check("nobody waits for it", told.recv(100) == b"READY=1")
    for _ in range(3):
        answers(s, then)
    check("both replicas have the other model", len(set(then)) == 2 and len(set(then[1:])) == 1, then)
    c.close()
    s.end()
    for name, model in zip(files, (TINY, TINY, OTHER, OTHER)):
        verified(name, model)


def test_reload_stops():
    """What is told as a whole or not at all is asked for again; a text may break off, and says so."""
    s = Server("--ctx", "512", "--overflow", "sinks", "--slots", "2", "--drain", "0")
    long = {"messages": HELLO, "max_tokens": 8000, "ignore_eos": True}
    scored = {"prompt": [[5] * 250, [6] * 250], "echo": True, "logprobs": 1, "max_tokens": 1}
    asked = [("/v1/messages", long, 503), (CHAT, long, 200), (TEXT, scored, 503), ("/score", {"prompt": [5] * 250}, 503),
             ("/v1/embeddings", {"input": [[5] * 250]}, 503)]
    got = {}

    def ask(i):
        got[i] = s.ask("POST", *asked[i][:2], raw=True)
    clients = [threading.Thread(target=ask, args=(i,)) for i in range(len(asked))]
    for i, client in enumerate(clients):
        client.start()
        until(lambda: s.metric("generation_tokens_total" if i < 2 else "num_requests_waiting") > max(0, i - 2))
    s.process.send_signal(signal.SIGHUP)
    for client in clients:
        client.join()
    for i, (path, body, status) in enumerate(asked):
        if i > 1 and got[i][0] == 200:  # it had the place of one that was stopped before it
            status = 200
        check(f"{path} is stopped, or told: {status}", got[i][0] == status and (status == 200 or got[i][2].getheader("Retry-After")), (body, got[i]))
    check("what breaks off says so", json.loads(got[1][1])["choices"][0]["finish_reason"] == "abort", got[1][1][-300:])
    check("and the server goes on", s.post(TEXT, prompt="Once", max_tokens=2)["choices"] and s.end() == 0, s.told())


def recordings(folder):
    return [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".db")]


def test_rotation():
    """Three clients ask on and on: another recording begins all the same, and nothing is lost."""
    folder = os.path.join(TMP.name, "rotated", "")
    os.mkdir(folder)
    s = Server("--record", folder, "--record-size", "1")
    stop, asked = threading.Event(), []

    def client():
        while not stop.is_set():
            asked.append(s.post(TEXT, prompt="Once", max_tokens=100, n=4, temperature=1)["usage"]["completion_tokens"])
    clients = [threading.Thread(target=client) for _ in range(3)]
    for t in clients:
        t.start()
    check("other recordings begin while clients ask", until(lambda: len(recordings(folder)) >= 3), os.listdir(folder))
    stop.set()
    for t in clients:
        t.join()
    tokens = total(s, "generation_tokens_total")
    check("SIGTERM ends it", s.end() == 0, s.told())
    files = recordings(folder)
    has = [(row(f, "SELECT count(*) FROM request")[0][0], row(f, "SELECT count(*) FROM token")[0][0]) for f in files]
    check("every request and token is in one of them", sum(n for n, _ in has) == 4 * len(asked) and sum(n for _, n in has) == tokens == sum(asked) and
          sum(n > 0 for n, _ in has) >= 2, (has, len(asked), tokens, sum(asked)))
    verified(min(files, key=os.path.getsize), TINY)
    verified(min(files, key=os.path.getmtime), TINY)


def test_rotation_keep():
    """By age, with replicas: the newest are kept."""
    folder = os.path.join(TMP.name, "kept", "")
    os.mkdir(folder)
    s = Server("--record", folder, "--record-age", "1s", "--record-keep", "1", "--replicas", "2")
    first = recordings(folder)
    begun = 0
    while begun < 2 and s.process.poll() is None:
        s.post(TEXT, prompt="Once", max_tokens=2)
        begun = s.told().count("is recorded in")
    s.end()
    files = recordings(folder)
    check("those before are removed", len(first) == len(files) == 2 and not set(first) & set(files), (first, files, s.told()))
    check("where it goes on is told", all(f in s.told() for f in files if not f.endswith(".1.db")), (s.told(), files))
    for args in (["--record", "x.db", "--record-size", "1"], ["--record-age", "1h"], ["--record", folder, "--record-age", "2d"]):
        done = subprocess.run([PROGRAM, "serve", "--model", TINY, *args], env=ENV, cwd=TMP.name, capture_output=True, text=True, check=False)
        check(f"refused: {' '.join(args[-2:])}", done.returncode == 2 and args[-2] in done.stderr, done.stderr)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--seed", "7", "--vocab", "700", OTHER], check=True)
    test_dashboard(test_metrics())
    test_unit()
    test_systemd()
    test_reload()
    test_reload_limits()
    test_reload_stops()
    test_rotation()
    test_rotation_keep()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
