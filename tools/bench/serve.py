#!/usr/bin/env python3
"""What serving adds, on an otherwise idle server: the first token over HTTP against the same request's first token in the engine
(the client's clock less what the recording says of the request), and the CPU time that the HTTP thread spends on a streamed token
against the time of a token. The client is Python on the same machine, and its time counts as the server's. Python's standard
library alone."""
import argparse
import concurrent.futures
import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time

import turns

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def http_thread(pid):
    """The file in which the kernel counts the nanoseconds of the HTTP library's thread."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as f:
            if f.read().startswith("MHD"):
                return f"/proc/{pid}/task/{tid}/schedstat"
    raise SystemExit("the HTTP library's thread has no name of its own here")


def busy_ns(path):
    with open(path, encoding="ascii") as f:
        return int(f.read().split()[0])


def ask(c, question, tokens):
    """Seconds to the first piece with a token; tokens after it, and seconds from it to the last; number of its request."""
    begin, first, last, n, request = time.monotonic(), 0, 0, 0, 0
    c.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"role": "user", "content": question}], "max_tokens": tokens,
                                                          "temperature": 0, "stream": True}))
    for line in c.getresponse():
        if not line.startswith(b"data: {"):
            continue
        choice = json.loads(line[6:])["choices"][0]
        if choice["delta"].get("content"):
            last = time.monotonic()
            first, n = first or last, n + 1
        request = choice.get("request", request)
    return first - begin, n - 1, last - first, request


def measure(s, port, n, tokens, streams):
    """Rounds of as many streams at once: of each answer seconds to its first token, the thread's ns a token of the round, ns from
    token to token, number of its request."""
    client = [http.client.HTTPConnection("127.0.0.1", port, timeout=600) for _ in range(streams)]
    clock, got = http_thread(s.pid), []
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        for i in range(n + 2):
            before = busy_ns(clock)
            told = list(pool.map(lambda c: ask(c, f"Tell me something about the number {i}.", tokens), client))
            cost = (busy_ns(clock) - before) / sum(count + 1 for _, count, _, _ in told)
            if i > 1:  # the first ones find pages and memory new
                got += [(first, cost, 1e9 * seconds / count, request) for first, count, seconds, request in told if count > 4]
    return got


def tell(what, values, unit):
    low, high = turns.tenths(values)
    print(f"{what:58} {statistics.median(values):8.3f} {unit}  ({low:.3f} … {high:.3f})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=40, help="requests, or rounds of them")
    p.add_argument("--streams", type=int, default=1, help="at once")
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("options", nargs="*", help="of cutaway serve, after --")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "served.db")
        s = subprocess.Popen([os.path.join(ROOT, "cutaway"), "serve", "--port", "0", "--record", record, *args.options],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = int(s.stdout.readline().split(":")[2].split("/")[0])
        got = measure(s, port, args.n, args.tokens, args.streams)
        s.terminate()
        s.wait()
        db = sqlite3.connect(record)
        inside = dict(db.execute("SELECT request, first_token_ns FROM finish"))
        db.close()
    print(f"{len(got)} requests of {args.tokens} tokens at most, {args.streams} at once: median (middle eight tenths)")
    tell("first token over HTTP", [1000 * f for f, _, _, _ in got], "ms")
    tell("  more than in the engine", [1000 * f - inside[r] / 1e6 for f, _, _, r in got], "ms")
    tell("a token", [t / 1e6 for _, _, t, _ in got], "ms")
    tell("  CPU time of the HTTP thread", [cost / 1e3 for _, cost, _, _ in got], "us")
    tell("  of a token's time", [100 * cost / t for _, cost, t, _ in got], "%")


if __name__ == "__main__":
    main()
