#!/usr/bin/env python3
"""kill -9 of a recording server under load: the recording opens and verifies, and what clients had received by then is in it, but
for the last 100 ms. Counted on the clients' clocks: from the first token received that the recording lacks to the last one. The log
commits every 95 ms; the bound leaves room for a machine five times as busy. TAP; standard library alone."""
import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time

from tap import PROGRAM, ROOT, check, finish
from test_serve import CHAT, ENV, TMP, Server

CLIENTS, BOUND_MS = 4, 500
SLOW = os.path.join(TMP.name, "slow.gguf")  # so large that clients in Python keep up


class Client(threading.Thread):
    """Asks and asks, and notes when each token of its newest answer came."""

    def __init__(self, server, number):
        super().__init__()
        self.server, self.number, self.label, self.times, self.all = server, number, "", [], 0

    def ask(self, i):
        label = f"client {self.number} asks {i}"
        c = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        c.request("POST", CHAT, json.dumps({"messages": [{"role": "user", "content": label}], "max_tokens": 180, "stream": True,
                                            "temperature": 1.5, "logprobs": True}))
        r = c.getresponse()
        self.label, self.times = label, []  # the one before was whole, or the last
        for line in r:
            if line.startswith(b"data: {"):
                for choice in json.loads(line[6:])["choices"]:
                    n = len(choice["logprobs"]["content"]) if choice["logprobs"] else 0
                    self.times += [time.monotonic()] * n
                    self.all += n
        c.close()

    def run(self):
        try:
            for i in range(100000):
                self.ask(i)
        except (OSError, http.client.HTTPException):
            pass  # it was killed


def lost_ms(db, client):
    have = db.execute("SELECT count(*) FROM token JOIN request USING (request) WHERE text = ?", (client.label,)).fetchone()[0]
    lost = client.times[have:]
    return (lost[-1] - lost[0]) * 1000 if lost else 0.0, len(lost)


def kill_once(nth, seed):
    record = os.path.join(TMP.name, f"killed{nth}.db")
    s = Server("--model", SLOW, "--record", record)
    clients = [Client(s, i) for i in range(CLIENTS)]
    for c in clients:
        c.start()
    while min(c.all for c in clients) < 100:
        time.sleep(0.01)
    time.sleep(random.Random(seed).random())
    s.process.kill()
    s.process.wait()
    for c in clients:
        c.join()
    s.process.stdout.close()
    db = sqlite3.connect(record)
    good = db.execute("PRAGMA quick_check").fetchall() == [("ok",)]
    found = [lost_ms(db, c) for c in clients]
    rows = db.execute("SELECT count(*) FROM token").fetchone()[0]
    check(f"kill {nth}: tokens of requests without an end are counted",
          db.execute("SELECT sum(generated) FROM requests").fetchone()[0] == rows)
    db.close()
    told = subprocess.run([PROGRAM, "verify", "--model", SLOW, record], capture_output=True, text=True, env=ENV, check=False)
    check(f"kill {nth}: the recording is whole, with {rows} tokens", good and rows > 100 * CLIENTS / 2 and told.returncode == 0,
          told.stdout + told.stderr)
    worst, tokens = max(found)
    check(f"kill {nth}: {worst:.0f} ms lost, {tokens} tokens of one client", worst <= BOUND_MS, found)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--dim", "512", "--ffn", "2048", "--layers", "12", SLOW], check=True)
    for nth in range(int(sys.argv[1]) if len(sys.argv) > 1 else 4):
        kill_once(nth + 1, nth)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
