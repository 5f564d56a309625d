#!/usr/bin/env python3
"""A server that is asked far more than it can do: what does not fit into the queue gets 429 with Retry-After, and those admitted wait
no longer than with a few clients. Latencies are counted in steps, from the recording: those between the events of a request's arrival
and of its end. TAP; standard library alone."""
import json
import os
import sqlite3
import subprocess
import sys
import threading

from tap import ROOT, check, finish
from test_serve import CHAT, TEXT, TINY, TMP, Server
from test_storm import resident

SLOTS, QUEUE, TOKENS, EACH = 4, 4, 24, 12
# Steps of an answer: a token each, and its prompt's. As many as fit into the queue go before it at most, SLOTS at a time; a
# prompt may wait for the rows of others.
LONGEST = (QUEUE // SLOTS + 1) * (TOKENS + SLOTS + 1)


class Load:
    def __init__(self, clients):
        self.name = os.path.join(TMP.name, f"load{clients}.db")
        self.s = Server("--slots", str(SLOTS), "--queue", str(QUEUE), "--pages", "64", "--record", self.name)
        self.full, self.answered, self.odd, self.lock = [], 0, [], threading.Lock()
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(clients)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.status = self.s.end()

    def client(self, number):
        """Asks until EACH of its requests were answered, and comes again at once when it is refused."""
        done = 0
        while done < EACH:
            status, told, r = self.s.ask("POST", CHAT, {"messages": [{"role": "user", "content": f"{number}: why?"}], "temperature": 1.2,
                                                        "max_tokens": TOKENS})
            done += status == 200
            with self.lock:
                self.answered += status == 200
                if status == 429:
                    self.full.append(r.getheader("Retry-After"))
                elif status != 200:
                    self.odd.append(told)

    def steps(self):
        """Of each request from its arrival to its end, ascending."""
        db = sqlite3.connect(self.name)
        found = db.execute("SELECT (SELECT count(*) FROM step WHERE step.seq BETWEEN r.seq AND f.seq) FROM request r JOIN finish f"
                           " USING (request)").fetchall()
        db.close()
        return sorted(n for n, in found)


def test_refused():
    """Refused prompts, however long and many, stay neither in memory nor on disk."""
    record = os.path.join(TMP.name, "refused.db")
    s = Server("--record", record)
    before = resident(s.process.pid)
    long = json.dumps({"prompt": "a" * 1000000, "max_tokens": 1})
    got = [s.ask("POST", TEXT, long)[1]["error"]["code"] for _ in range(40)]
    got += [s.ask("POST", TEXT, {"prompt": [5] * 300})[1]["error"]["code"] for _ in range(200)]
    grown = resident(s.process.pid) - before
    wide, told, _ = s.ask("POST", TEXT, {"prompt": "Once", "stop": "x" * 100000})
    check("prompts longer than the context are refused", set(got) == {"context_length_exceeded"}, got)
    check("and a stop string without end", wide == 400 and "stop" in told["error"]["message"], told)
    check("memory has not grown by 20 MB", grown < 20 << 20, grown)
    check("SIGTERM ends it", s.end() == 0, s.told()[-2000:])
    check("nor has the recording", os.path.getsize(record) < 5 << 20, os.path.getsize(record))
    db = sqlite3.connect(record)
    kept = db.execute("SELECT count(*), min(n_prompt), max(length(prompt)) FROM request").fetchone()
    db.close()
    check("it has each, with the length and the first tokens of its prompt", kept == (240, 300, 256), kept)


def test_wide():
    """A body of a megabyte, whatever is in it, takes no time that grows with its square: the thread that reads it reads for all."""
    s = Server()
    turn = [{"type": "function_call", "name": "f", "call_id": "a"}, {"type": "function_call_output", "call_id": "a", "output": ""}]
    thoughts = [{"type": "thinking", "thinking": "y" * 8}] * 19000
    bodies = [("/v1/messages", {f"a{i}": 1 for i in range(75000)}), ("/v1/responses", {"input": turn * 8000, "stop": 1}),
              ("/v1/messages", {"messages": [{"role": "assistant", "content": thoughts}]})]
    told = [s.ask("POST", path, body)[0] for path, body in bodies]
    with open(f"/proc/{s.process.pid}/stat", encoding="ascii") as f:
        ticks = sum(int(n) for n in f.read().rpartition(")")[2].split()[11:13])
    s.end()
    check("wide bodies are refused", told == [400] * 3, told)
    check("within three seconds of the processor", ticks < 3 * os.sysconf("SC_CLK_TCK"), ticks)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    few, many = Load(SLOTS), Load(48)
    check("a few clients are all admitted", few.answered == SLOTS * EACH and not few.full and not few.odd, (few.full, few.odd))
    check(f"48 clients: {len(many.full)} times 429, each with Retry-After", many.full and all(many.full) and not many.odd, many.odd)
    check("and all are answered in the end", many.answered == 48 * EACH and many.status == 0, (many.answered, many.s.told()))
    a, b = few.steps(), many.steps()
    check(f"steps of those admitted: p50 {b[len(b) // 2]}, p99 {b[len(b) * 99 // 100]}, most {b[-1]} (a few clients: p50 {a[len(a) // 2]},"
          f" most {a[-1]}), at most {LONGEST}", len(b) == many.answered and a[-1] <= LONGEST and b[-1] <= LONGEST, (a, b))
    test_refused()
    test_wide()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
