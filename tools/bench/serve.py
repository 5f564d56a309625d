#!/usr/bin/env python3
"""What serving adds to a request: the first token over HTTP against the engine's own first token, and a streamed token against the same
token of an answer that is not streamed, which differs from one in process by nothing that a token has (streamed and whole answers by
turns). Of several streams, which begin together, the first tokens count from the beginning of the round on both sides, as who gives the
engine eight prompts waits, in process too, for the step that the first of them began. The client is Python on the same machine; after
its first piece it sleeps until the answer is whole, so that only the server's time counts. Python's standard library alone."""
import argparse
import concurrent.futures
import http.client
import json
import os
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import time

import turns

SLEEP = 1 << 17  # bytes that wake the client after its first piece; more than an answer has
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def http_thread(pid):
    """The file in which the kernel counts the nanoseconds of the HTTP thread."""
    for _ in range(100):
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as f:
                if f.read().strip() == "http":
                    return f"/proc/{pid}/task/{tid}/schedstat"
        time.sleep(0.05)
    raise SystemExit("there is no HTTP thread")


def busy_ns(path):
    with open(path, encoding="ascii") as f:
        return int(f.read().split()[0])


def process_ns(pid):
    return sum(busy_ns(f"/proc/{pid}/task/{tid}/schedstat") for tid in os.listdir(f"/proc/{pid}/task"))


def ask(port, question, tokens, stream):
    """Number of the request, and the time of its first piece with a token, or 0."""
    c, first, request = http.client.HTTPConnection("127.0.0.1", port, timeout=600), 0, 0
    body = json.dumps({"messages": [{"role": "user", "content": question}], "max_tokens": tokens, "temperature": 0, "stream": stream})
    c.request("POST", "/v1/chat/completions", body, {"Connection": "close"})
    sock, told = c.sock, c.getresponse()  # the connection gives its socket to the response
    for line in told if stream else [b"data: " + told.read()]:
        if not line.startswith(b"data: {"):
            continue
        choice = json.loads(line[6:])["choices"][0]
        request = choice.get("request", request)
        if not first and choice.get("delta", {}).get("content"):
            first = time.monotonic_ns()
            with socket.socket(fileno=os.dup(sock.fileno() if sock else told.fp.fileno())) as s:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, SLEEP)
    c.close()
    return request, first


def ask_round(s, port, clock, i, args, stream):
    """Of one round: when it began, its requests and their first pieces, ns of the HTTP thread and of all threads."""
    with concurrent.futures.ThreadPoolExecutor(args.streams) as pool:
        http_ns, all_ns, begin = busy_ns(clock), process_ns(s.pid), time.monotonic_ns()
        told = list(pool.map(lambda k: ask(port, f"Tell me something about the number {args.streams * i + k}.", args.tokens, stream),
                             range(args.streams)))
        return begin, told, busy_ns(clock) - http_ns, process_ns(s.pid) - all_ns


def measure(s, port, args):
    """Pairs of rounds: streamed, whole."""
    clock, got = http_thread(s.pid), []
    for i in range(args.n + 2):
        both = {stream: ask_round(s, port, clock, i, args, stream) for stream in ((True, False) if i % 2 else (False, True))}
        if i > 1:  # the first ones find pages and memory new
            got.append((both[True], both[False]))
    return got


def token_times(round_, engine):
    """Of a round, a token: ns from one to the next, ns of the HTTP thread, ns of all threads."""
    of = [engine[request] for request, _ in round_[1]]
    generated = sum(n for _, _, _, n in of)
    return (sum(total - first for _, first, total, _ in of) / max(1, generated - len(of)), round_[2] / generated, round_[3] / generated)


def first_tokens(round_, engine):
    """(ns over HTTP, ns in the engine) of each request."""
    begin, told, _, _ = round_
    arrived = min(engine[request][0] for request, _ in told)
    return [(first - begin, engine[request][0] + engine[request][1] - arrived) for request, first in told if first]


def tell(what, values, unit):
    low, high = turns.tenths(values)
    print(f"{what:58} {statistics.median(values):8.3f} {unit}  ({low:.3f} … {high:.3f})")


def report(got, engine, args):
    first = [pair for streamed, _ in got for pair in first_tokens(streamed, engine)]
    times = [(token_times(streamed, engine), token_times(whole, engine)) for streamed, whole in got]
    print(f"{len(got)} pairs of rounds, {args.streams} at once, {args.tokens} tokens at most: median (middle eight tenths)")
    tell("first token over HTTP", [http / 1e6 for http, _ in first], "ms")
    tell("  more than in the engine", [(http - inside) / 1e6 for http, inside in first], "ms")
    for name, k in (("streamed", 0), ("whole", 1)):
        tell(f"a token, {name}", [pair[k][0] / 1e6 for pair in times], "ms")
        tell("  CPU time of the HTTP thread", [pair[k][1] / 1e3 for pair in times], "us")
        tell("  CPU time of all threads", [pair[k][2] / 1e3 for pair in times], "us")
    for what, k in (("time", 0), ("CPU time of all threads", 2)):
        more = [100 * (streamed[k] / whole[k] - 1) for streamed, whole in times]
        tell(f"a streamed token takes more {what}", more, "%")
        print("  with 95 % confidence {:57.2f} … {:.2f} %".format(*turns.interval(more)))
    tell("the HTTP thread's part of a token's time", [100 * streamed[1] / streamed[0] for streamed, _ in times], "%")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-n", type=int, default=40, help="pairs of rounds")
    p.add_argument("--streams", type=int, default=1, help="at once")
    p.add_argument("--tokens", type=int, default=64)
    p.add_argument("--program", default=os.path.join(ROOT, "cutaway"), help="another build of it")
    p.add_argument("options", nargs="*", help="of cutaway serve, after --")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "served.db")
        s = subprocess.Popen([args.program, "serve", "--port", "0", "--record", record, *args.options],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        got = measure(s, int(s.stdout.readline().split(":")[2].split("/")[0]), args)
        s.terminate()
        s.wait()
        db = sqlite3.connect(record)
        engine = {row[0]: row[1:] for row in db.execute("SELECT finish.request, request.t_ns, first_token_ns, total_ns, generated FROM finish "
                                                        "JOIN request ON request.request = finish.request")}
        db.close()
    report(got, engine, args)


if __name__ == "__main__":
    main()
