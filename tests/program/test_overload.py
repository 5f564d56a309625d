#!/usr/bin/env python3
"""A server that is asked far more than it can do: what does not fit into the queue gets 429 with Retry-After, and those admitted wait
no longer than with a few clients. Latencies are counted in steps, from the recording: those between the events of a request's arrival
and of its end. TAP; standard library alone."""
import os
import sqlite3
import subprocess
import sys
import threading

from tap import ROOT, check, finish
from test_serve import CHAT, TINY, TMP, Server

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


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    few, many = Load(SLOTS), Load(48)
    check("a few clients are all admitted", few.answered == SLOTS * EACH and not few.full and not few.odd, (few.full, few.odd))
    check(f"48 clients: {len(many.full)} times 429, each with Retry-After", many.full and all(many.full) and not many.odd, many.odd)
    check("and all are answered in the end", many.answered == 48 * EACH and many.status == 0, (many.answered, many.s.told()))
    a, b = few.steps(), many.steps()
    check(f"steps of those admitted: p50 {b[len(b) // 2]}, p99 {b[len(b) * 99 // 100]}, most {b[-1]} (a few clients: p50 {a[len(a) // 2]},"
          f" most {a[-1]}), at most {LONGEST}", len(b) == many.answered and a[-1] <= LONGEST and b[-1] <= LONGEST, (a, b))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
