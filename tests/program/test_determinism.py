#!/usr/bin/env python3
"""200 requests with seeds, of many shapes: alone, beside random load under five policies, and 64 of them co-resident. Every text and
every hash of a last row of logits must be that of the request alone. `test_determinism.py [MODEL]`. TAP; standard library alone."""
import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading

from tap import PROGRAM, ROOT, check, finish
from test_serve import CHAT, ENV, TEXT, TINY, TMP, Server, until

N, RESIDENT, THREADS, LOAD = 200, 64, 16, 6
TINY_CTX = 8192  # long enough for a stream that outlasts every arrival
POLICIES = ("fcfs", "prefill-first", "decode-first", "shortest-job", "fair")
WORDS = "why does the sun rise over a river of stones and seven foxes run from it to where nobody has been".split()


def shape(i):
    """The request number i: its path, and its body."""
    r = random.Random(i)
    text = " ".join(r.choice(WORDS) for _ in range(r.choice([1, 5, 20, 60])))
    body = {"seed": r.randrange(1 << 40), "max_tokens": r.choice([1, 7, 20, 48]), "temperature": r.choice([0, 0.4, 0.8, 1.3]),
            "top_p": r.choice([0.5, 0.9, 1]), "n": r.choice([1, 1, 1, 2, 3]), "stream": r.random() < 0.4}
    if r.random() < 0.3:
        body |= {"frequency_penalty": 0.5, "repeat_penalty": 1.1, "min_p": 0.02}
    if r.random() < 0.6:
        return CHAT, {**body, "messages": [{"role": "user", "content": text}]}
    return TEXT, {**body, "prompt": text}


def told(choice):
    return choice.get("text", choice.get("message", {}).get("content"))


def ask(s, path, body):
    """(text, hash) of each choice, in order."""
    if not body["stream"]:
        return [(told(c), c["hash"]) for c in s.post(path, **body)["choices"]]
    got = [["", None] for _ in range(body["n"])]
    for event in s.stream(path, **{k: v for k, v in body.items() if k != "stream"}):
        for c in event["choices"]:
            got[c["index"]][0] += c.get("text", c.get("delta", {}).get("content", ""))
            got[c["index"]][1] = c.get("hash", got[c["index"]][1])
    return [tuple(g) for g in got]


def disturb(s, seed, over):
    """Requests without a seed, some of them cut off, until it is over."""
    r = random.Random(seed)
    while not over.is_set():
        c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
        c.request("POST", TEXT, json.dumps({"prompt": " ".join(r.choice(WORDS) for _ in range(r.randrange(1, 80))), "stream": True,
                                            "max_tokens": r.choice([3, 30, 90]), "temperature": 1.2, "user": f"u{r.randrange(3)}"}))
        reply = c.getresponse()
        reply.read(200) if r.random() < 0.5 else reply.read()
        c.close()


def each(s, numbers):
    """What each gives, when as many run at once as there are threads."""
    got, rest, lock = {}, list(numbers), threading.Lock()

    def work():
        while True:
            with lock:
                if not rest:
                    return
                i = rest.pop()
            got[i] = ask(s, *shape(i))
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


def beside_load(model, policy, alone):
    s = Server("--model", model, "--ctx", "512", "--policy", policy, "--slots", "8", "--pages", "160", "--queue", "256")
    over = threading.Event()
    load = [threading.Thread(target=disturb, args=(s, i, over)) for i in range(LOAD)]
    for t in load:
        t.start()
    order = list(range(N))
    random.Random(policy).shuffle(order)
    got = each(s, order)
    over.set()
    for t in load:
        t.join()
    wrong = [i for i in range(N) if got.get(i) != alone[i]]
    check(f"{policy}: {N} beside random load, all texts and hashes equal", not wrong, wrong)
    check(f"{policy}: SIGTERM ends it", s.end() == 0, s.told())


def held(s, ctx):
    """A stream that keeps the engine busy until it is cut off."""
    c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=300)
    c.request("POST", TEXT, json.dumps({"prompt": "once", "n": 8, "max_tokens": ctx - 16, "ignore_eos": True, "stream": True}))
    c.getresponse().read(1)
    return c


def resident(model, alone, ctx):
    """Under the policy static those that wait are admitted together, once all that run have ended."""
    record = os.path.join(TMP.name, "resident.db")
    s = Server("--model", model, "--ctx", str(ctx), "--policy", "static", "--slots", str(RESIDENT), "--pages", str(ctx // 2 + 512),
               "--queue", "512", "--record", record)
    first = held(s, ctx)
    numbers = [i for i in range(N) if shape(i)[1]["max_tokens"] >= 20][:RESIDENT]
    got = {}

    def one(i):
        got[i] = ask(s, *shape(i))
    threads = [threading.Thread(target=one, args=(i,)) for i in numbers]
    for t in threads:
        t.start()
    wanted = sum(shape(i)[1]["n"] for i in numbers)
    until(lambda: s.metric("num_requests_waiting") >= wanted)
    first.close()
    for t in threads:
        t.join()
    s.end()
    db = sqlite3.connect(record)
    most = db.execute("SELECT max(n) FROM (SELECT count(DISTINCT b.request) n FROM batch b JOIN request r USING (request)"
                      " WHERE r.text != 'once' GROUP BY b.step)").fetchone()[0]
    db.close()
    wrong = [i for i in numbers if got.get(i) != alone[i]]
    check(f"{most} of them in one step, all texts and hashes equal", most >= RESIDENT and not wrong, (most, wrong))


def main():
    model = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else TINY
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", str(TINY_CTX), TINY], check=True)
    s = Server("--model", model, "--ctx", "512", "--slots", "1", "--prefix-cache", "off")
    alone = [ask(s, *shape(i)) for i in range(N)]
    check(f"{N} requests alone, {len({c[1] for a in alone for c in a})} different hashes", s.end() == 0, s.told())
    for policy in POLICIES:
        beside_load(model, policy, alone)
    resident(model, alone, 2048 if len(sys.argv) > 1 else TINY_CTX)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
