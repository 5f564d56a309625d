#!/usr/bin/env python3
"""Random clients at once against `cutaway serve`: whole, streamed and cut off, malformed, oversized, slow, pipelined, repeated.
Nothing may be left of them, and every answer is right by its hash. `test_storm.py N` for N requests. TAP; standard library alone."""
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

from tap import PROGRAM, ROOT, check, finish
from test_serve import CHAT, ENV, TEXT, TINY, Server, until

THREADS = 12


def job(r):
    """A request, and what its hash depends on."""
    if r.random() < 0.6:
        return CHAT, {"messages": [{"role": "user", "content": r.choice(["Why?", "月亮", "привет, мир", "Tell me more of it " * 4])}],
                      "max_tokens": r.choice([1, 3, 9, 24]), "seed": r.randrange(6), "temperature": r.choice([0, 0.7, 1.4])}
    return TEXT, {"prompt": r.choice(["Once", [7, 8, 9], "a b c " * 12]), "max_tokens": r.choice([1, 5, 16]), "seed": r.randrange(6),
                  "stop": r.choice([None, ["e"], ["th", "\n"]])}


class Storm:
    def __init__(self, server, seed):
        self.s, self.seed = server, seed
        self.lock, self.known, self.wrong, self.broken, self.answered = threading.Lock(), {}, [], [], 0

    def right(self, path, body, choice):
        key = json.dumps([path, body], sort_keys=True)
        with self.lock:
            self.answered += 1
            if self.known.setdefault(key, choice["hash"]) != choice["hash"]:
                self.wrong.append(key)

    def whole(self, path, body, _):
        status, told, _ = self.s.ask("POST", path, body)
        if status == 200:
            self.right(path, body, told["choices"][0])
        elif status != 429:
            self.broken.append(told)

    def streamed(self, path, body, _):
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=300)
        c.request("POST", path, json.dumps({**body, "stream": True}))
        r = c.getresponse()
        last = [e for e in r.read().decode().split("\n\n") if '"hash"' in e]
        if r.status == 200:
            self.right(path, body, json.loads(last[0][6:])["choices"][0])
        c.close()

    def raw(self, data, r, wait=True):
        c = socket.create_connection(("127.0.0.1", self.s.port), timeout=300)
        c.sendall(data)
        if wait and r.random() < 0.5:
            c.recv(r.choice([1, 100, 4000]))
        c.close()

    def text(self, path, body):
        data = json.dumps(body).encode()
        return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(data), data)

    def cut(self, path, body, r):
        self.raw(self.text(path, {**body, "max_tokens": 200, "stream": r.random() < 0.5}), r)

    def half(self, path, body, r):
        data = self.text(path, body)
        self.raw(data[:r.randrange(len(data))], r, wait=False)

    def pipelined(self, path, body, r):
        self.raw(self.text(path, body) * 3, r)

    def malformed(self, path, body, r):
        data = bytearray(self.text(path, body))
        for _ in range(r.randrange(1, 6)):
            data[r.randrange(len(data))] = r.randrange(256)
        self.raw(bytes(data) + b"\r\n\r\n", r, wait=False)

    def oversized(self, path, body, r):
        status = self.s.ask("POST", path, {**body, "user": "x" * (3 << 20)})[0]
        if status != 413:
            self.broken.append(status)

    def slow(self, path, body, r):
        c = socket.create_connection(("127.0.0.1", self.s.port), timeout=300)
        for byte in self.text(path, body)[:30]:
            c.sendall(bytes([byte]))
            time.sleep(0.002)
        c.close()

    def work(self, first, n):
        for i in range(first, n, THREADS):
            r = random.Random(self.seed * 1000003 + i)
            kinds = [self.whole] * 8 + [self.streamed] * 6 + [self.cut] * 4 + [self.half, self.pipelined, self.malformed, self.slow] * 1
            kind = self.oversized if r.random() < 0.005 else r.choice(kinds)
            try:
                kind(*job(r), r)
            except (ConnectionError, http.client.HTTPException) as e:
                if kind in (self.whole, self.streamed):
                    self.broken.append((i, kind.__name__, repr(e)))


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * 4096


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    s = Server("--slots", "6", "--pages", "64", "--idle", "5", "--max-tokens", "24")
    storm = Storm(s, 1)
    storm.work(0, THREADS * 4)  # what stays is there by now
    pid = s.process.pid
    time.sleep(0.5)
    before, files = resident(pid), len(os.listdir(f"/proc/{pid}/fd"))
    threads = [threading.Thread(target=storm.work, args=(i, n)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(f"{n} requests: {storm.answered} answered, all right by hash", storm.answered > n / 3 and not storm.wrong, storm.wrong[:5])
    check("no whole request was dropped", not storm.broken, storm.broken[:5])
    def idle():
        if s.metric("num_requests_running") or s.metric("num_requests_waiting"):
            return False
        time.sleep(0.5)  # the connections that asked are closed by now
        return len(os.listdir(f"/proc/{pid}/fd")) <= files

    check("nothing runs, waits or is open", until(idle), (s.ask("GET", "/metrics", raw=True)[1][:600], os.listdir(f"/proc/{pid}/fd")))
    check("no page is read by anyone", s.metric("kv_cache_usage_perc") == 0)
    check("memory has not grown by more than 64 MB", resident(pid) - before < 64 << 20, (before, resident(pid)))
    check("SIGTERM ends it", s.end() == 0, s.told()[-2000:])
    return finish()


if __name__ == "__main__":
    sys.exit(main())
