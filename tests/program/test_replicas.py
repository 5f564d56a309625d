#!/usr/bin/env python3
"""`cutaway serve --replicas`: the same answers from each, the router's choices as the recordings have them, metrics, pins, streams over
several replicas, the end by a signal, and a replica that fails. TAP; standard library alone."""
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading

from tap import PROGRAM, ROOT, check, finish, skip
from test_serve import CHAT, ENV, HELLO, TEXT, TINY, TMP, Server, until

SHIM = os.path.join(ROOT, "build/tests/libcuda_shim.so")


def record(name):
    """The file of replica 0, and the others'."""
    return [os.path.join(TMP.name, f"{name}{i}.db") for i in ("", ".1", ".2")]


def rows(path, sql):
    db = sqlite3.connect(path)
    found = db.execute(sql).fetchall()
    db.close()
    return found


def run(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, env=ENV, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_same():
    """Whichever replica answers, text and hash are those of one engine."""
    fields = [{"messages": HELLO, "max_tokens": 20, "seed": 4, "temperature": 1.1},
              {"messages": [{"role": "user", "content": "Count from one to nine."}], "max_tokens": 20, "temperature": 0}]
    alone = Server()
    expected = [alone.post(CHAT, **f)["choices"][0] for f in fields]
    check("one engine names no replica", all("replica" not in c for c in expected), expected)
    alone.end()
    for threads in ("1", "2"):
        s = Server("--replicas", "3", "--router", "round-robin", "--threads", threads)
        for f, one in zip(fields, expected):
            told = [s.post(CHAT, **f)["choices"][0] for _ in range(3)]
            check(f"three replicas of {threads} threads: each answers the same", {c["replica"] for c in told} == {0, 1, 2} and
                  {(c["message"]["content"], c["hash"]) for c in told} == {(one["message"]["content"], one["hash"])}, (told, one))
        streamed = s.stream(CHAT, **fields[0])
        last = [e["choices"][0] for e in streamed if e["choices"]][-1]
        check("a stream says which it was", last["hash"] == expected[0]["hash"] and last["replica"] in (0, 1, 2), last)
        check("SIGTERM ends all", s.end() == 0, s.told())


def test_prefix():
    """Prompts with a common beginning go where it went; the log says so, and the prefix cache has what the router says."""
    files = record("prefix")
    s = Server("--replicas", "3", "--router", "prefix", "--record", files[0], "--slots", "4")
    begin = [" ".join(f"{word}{i}" for i in range(12)) for word in ("alpha", "beta", "gamma")]
    where = {}
    for turn in range(4):
        for i, text in enumerate(begin):
            told = s.post(TEXT, prompt=f"{text} and {turn}", max_tokens=4, temperature=0)
            where.setdefault(i, []).append((told["choices"][0]["replica"], told["usage"]["prompt_tokens_details"]["cached_tokens"]))
    health = s.ask("GET", "/health")[1]
    metrics = s.ask("GET", "/metrics", raw=True)[1]
    check("SIGTERM ends all", s.end() == 0, s.told())
    check("health counts them", health == {"status": "ok", "replicas": 3, "live_replicas": 3}, health)
    check("each beginning stays where it went first", all(len({r for r, _ in w}) == 1 for w in where.values()) and
          {w[0][0] for w in where.values()} == {0, 1, 2}, where)
    check("and is found there", all(w[0][1] == 0 and all(hit >= 16 for _, hit in w[1:]) for w in where.values()), where)
    hits = {int(e): float(n) for e, n in re.findall(r'^cutaway:prefix_cache_hits_total\{engine="(\d)",.*\} (\S+)$', metrics, re.M)}
    check("metrics are by engine", hits == {w[0][0]: sum(hit for _, hit in w) for w in where.values()}, (hits, where))
    names = re.findall(r"^# TYPE (\S+)", metrics, re.M)
    check("each quantity is told once", len(names) == len(set(names)), names)
    for i, path in enumerate(files):
        told = rows(path, "SELECT r.request, r.replica, r.replicas, r.router, r.reason, ifnull(r.matched, -1), ifnull(r.last, -1), r.loads,"
                          " l.hit, q.n_prompt FROM route r JOIN lookup l USING (request) JOIN request q USING (request) ORDER BY request")
        check(f"replica {i}: why each request came", len(told) == 4 and all(t[1:4] == (i, 3, "prefix") for t in told) and
              told[0][4:7] == ("least loaded, since no beginning is known", 0, -1) and
              all(t[4] == "longest known beginning" and t[6] == i for t in told[1:]), told)
        check(f"replica {i}: what the router knows is what the cache has", all(t[5] == t[8] for t in told), told)
        check(f"replica {i}: loads", all(json.loads(t[7]) == [0, 0, 0] for t in told), told)
        status, told = run("verify", "--model", TINY, path)
        check(f"replica {i}: its recording is verified", status == 0 and "all equal" in told, told)
    asked = sorted(n for path in files for n, in rows(path, "SELECT asked FROM route"))
    check("the server's own numbers join the recordings", asked == list(range(1, 13)), asked)
    status, told = run("why", "route", "2", "--file", files[1])
    check("why says it", status == 0 and "Request 2 went to replica 1 of 3 by router prefix: longest known beginning." in told, told)


def test_files():
    """A recording that is there stops the server before anything is written."""
    files = record("there")
    with open(files[1], "w", encoding="ascii") as f:
        f.write("something\n")
    status, told = run("serve", "--port", "0", "--replicas", "2", "--model", TINY, "--record", files[0])
    check("no file is overwritten", status != 0 and files[1] in told and "exists" in told and not os.path.exists(files[0]), told)
    alone = os.path.join(TMP.name, "alone.db")
    s = Server("--record", alone)
    s.post(CHAT, messages=HELLO, max_tokens=2)
    s.end()
    check("one engine has no routes", rows(alone, "SELECT count(*) FROM route") == [(0,)])
    status, told = run("why", "route", "--file", alone)
    check("and why says so", status == 0 and "No router chose a replica" in told, told)


def test_many(s):
    """Prompts of one request go each its way, their answers come in order; a stream over several replicas is the whole."""
    prompts = [f"{word} upon a time there was" for word in ("Once", "Twice", "Thrice", "Never")]
    each = [s.post(TEXT, prompt=p, max_tokens=12, temperature=0)["choices"][0] for p in prompts]
    whole = s.post(TEXT, prompt=prompts, n=2, max_tokens=12, seed=3)
    check("prompts of a request go to several replicas, their answers together", {c["replica"] for c in whole["choices"]} == {0, 1} and
          all(whole["choices"][i]["replica"] == whole["choices"][i + 1]["replica"] for i in range(0, 8, 2)), whole)
    cold = s.post(TEXT, prompt=prompts, max_tokens=12, temperature=0)
    check("their answers are in order", [c["hash"] for c in cold["choices"]] == [c["hash"] for c in each] and
          [c["text"] for c in cold["choices"]] == [c["text"] for c in each], (cold, each))
    for _ in range(5):
        said = {}
        for event in s.stream(TEXT, prompt=prompts, n=2, max_tokens=12, seed=3):
            for c in event["choices"]:
                said[c["index"]] = said.get(c["index"], "") + c["text"]
        if said != {c["index"]: c["text"] for c in whole["choices"]}:
            break
    check("a stream over several replicas says the same", said == {c["index"]: c["text"] for c in whole["choices"]}, (said, whole))
    scored = s.post("/score", prompt="Once upon a time")
    check("log-probabilities", len(scored["logprobs"]) > 1 and scored["hash"], scored)


def test_load(s):
    """Clients at once: all is answered, by both, and nothing stays open."""
    told, lock = [], threading.Lock()

    def ask(i):
        answer = s.post(CHAT, messages=[{"role": "user", "content": f"Say {i % 4}."}], max_tokens=10, seed=i % 4)["choices"][0]
        with lock:
            told.append((i % 4, answer["hash"], answer["replica"]))
    threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check("under load equal requests have equal answers from either", len(told) == 24 and len({t[:2] for t in told}) == 4 and
          {t[2] for t in told} == {0, 1}, told)


def by_engine(s, name, more=""):
    text = s.ask("GET", "/metrics", raw=True)[1]
    return [float(n) for n in re.findall(rf"^cutaway:{name}\{{.*{more}\}} (\S+)$", text, re.M)]


def test_gone(s):
    """A client that goes away cancels what runs for it, on each replica."""
    body = json.dumps({"prompt": [f"{i} times" for i in range(64)], "max_tokens": 240, "temperature": 1.5, "ignore_eos": True})
    before = by_engine(s, "generation_tokens_total")
    c = socket.create_connection(("127.0.0.1", s.port))
    c.sendall(f"POST {TEXT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    until(lambda: min(by_engine(s, "num_requests_running")) > 0 or by_engine(s, "generation_tokens_total") != before)
    c.close()
    idle = until(lambda: by_engine(s, "num_requests_running") == [0, 0] and by_engine(s, "num_requests_waiting") == [0, 0])
    aborted = by_engine(s, "request_success_total", 'finished_reason="abort"')
    check("a client that goes away is cancelled on each replica", idle and len(aborted) == 2 and min(aborted) > 0, aborted)


def test_pins(s):
    """A pin lives at one replica; each numbers its own."""
    begin = [" ".join(f"{word}{i}" for i in range(10)) for word in ("north", "south")]
    pins = [s.post("/pin", prompt=text, ttl="1h") for text in begin]
    check("pins are at replicas", {p["replica"] for p in pins} == {0, 1} and all(p["state"] == "kept" for p in pins), pins)
    told = s.ask("GET", "/pins")[1]
    check("both are listed", [(p["replica"], p["pin"]) for p in told["data"]] == sorted((p["replica"], p["pin"]) for p in pins) and
          told["pages_pinned"] == sum(p["pages"] for p in pins), told)
    status, told = run("pin", "--list", "--url", f"http://127.0.0.1:{s.port}")
    check("as text, too", status == 0 and all(f"pin {p['pin']} at replica {p['replica']}:" in told for p in pins), told)
    one = pins[0]
    status, told, _ = s.ask("DELETE", f"/pins/{one['replica']}/{one['pin']}")
    check("one is ended by replica and number", status == 200 and told == {"removed": 1}, told)
    status, told, _ = s.ask("DELETE", f"/pins/{one['replica']}/{one['pin']}")
    check("it is gone", status == 404, told)
    status, told = run("pin", "--remove", str(pins[1]["pin"]), "--replica", str(pins[1]["replica"]), "--url", f"http://127.0.0.1:{s.port}")
    check("from the command line", status == 0 and s.ask("GET", "/pins")[1]["data"] == [], told)


def test_clash():
    """The same number at two replicas: which one is meant is asked."""
    s = Server("--replicas", "2", "--router", "round-robin")
    pins = [s.post("/pin", prompt=" ".join(f"{word}{i}" for i in range(10)), ttl="1h") for word in ("north", "south")]
    check("replicas number their own", [p["pin"] for p in pins] == [1, 1], pins)
    status, told, _ = s.ask("DELETE", "/pins/1")
    check("a number of two pins ends none", status == 400 and "/pins/REPLICA/1" in told["error"]["message"] and
          len(s.ask("GET", "/pins")[1]["data"]) == 2, told)
    check("all end without a number", s.ask("DELETE", "/pins")[1] == {"removed": 2})
    s.end()


def test_drain():
    """SIGTERM lets what runs on each replica end."""
    files = record("drain")
    s = Server("--replicas", "2", "--router", "round-robin", "--record", files[0])
    done = []
    ask = {"messages": HELLO, "max_tokens": 100, "seed": 2, "ignore_eos": True}
    threads = [threading.Thread(target=lambda: done.append(s.post(CHAT, **ask))) for _ in range(2)]
    for t in threads:
        t.start()
    until(lambda: len(done) == 2 or by_engine(s, "num_requests_running") == [1, 1])
    status = s.end()
    for t in threads:
        t.join()
    check("SIGTERM lets what runs on each end", status == 0 and {d["choices"][0]["replica"] for d in done} == {0, 1} and
          len({d["choices"][0]["hash"] for d in done}) == 1, (done, s.told()))
    check("both recordings are whole", all(rows(f, "SELECT count(*) FROM closed") == [(1,)] for f in files[:2]))


def test_failure():
    """A replica whose device is lost ends its requests; the server goes on with the other."""
    if not os.path.exists(SHIM):
        skip("a replica that fails", "make tests-build makes a device to lose")
        return
    files = record("lost")
    s = Server("--replicas", "2", "--router", "round-robin", "--backend", "cuda", "--spec", "off", "--record", files[0],
               env={"CUTAWAY_CUDA_DRIVER": SHIM, "CUTAWAY_SHIM_FAIL": "cuGraphLaunch:13=719"})
    told = [s.ask("POST", TEXT, {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 6}) for _ in range(8)]
    health = s.ask("GET", "/health")
    bad = [i for i, t in enumerate(told) if t[0] != 200]
    check("one request fails, and says why", len(bad) == 1 and told[bad[0]][0] == 500 and "given up" in told[bad[0]][1]["error"]["message"],
          [t[:2] for t in told])
    left = {t[1]["choices"][0]["replica"] for t in told[bad[0] + 1:]} if bad else set()
    check("the others go to the replica that is left, and are equal", len(left) == 1 and
          len({t[1]["choices"][0]["hash"] for t in told if t[0] == 200}) == 1, told)
    check("health counts it", health[0] == 200 and health[1] == {"status": "ok", "replicas": 2, "live_replicas": 1}, health)
    check("the log names it", "of 2 has stopped, and gets no more requests" in s.told(), s.told())
    check("SIGTERM ends it in order", s.end() == 0, s.told())
    failed = [n for f in files[:2] for n, in rows(f, "SELECT count(*) FROM finish JOIN code ON value = reason AND list = 'finish'"
                                                  " WHERE name = 'failed'")]
    check("recorded as failed, where it was", sorted(failed) == [0, 1] and
          all(rows(f, "SELECT count(*) FROM closed") == [(1,)] for f in files[:2]), failed)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    test_same()
    test_prefix()
    test_files()
    s = Server("--replicas", "2", "--router", "least-loaded")
    try:
        for test in (test_many, test_load, test_gone, test_pins):
            test(s)
    finally:
        check("SIGTERM ends all", s.end() == 0, s.told())
    test_clash()
    test_drain()
    test_failure()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
