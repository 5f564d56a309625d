#!/usr/bin/env python3
"""What somebody who follows a recording does to the session: one long answer is recorded while `cutaway replay --follow` shows it on
a pseudo-terminal of 120 x 40; the follower is stopped and let go on every second. Prints by how many percent the median decode step
took longer with it, second by second against the two beside, and where the median lies with 95 % confidence.

    tools/bench/follower.py [--tokens N] [--cutaway FILE] [--model FILE]
"""
import argparse
import fcntl
import os
import pty
import signal
import sqlite3
import statistics
import struct
import subprocess
import tempfile
import termios
import threading
import time

from recorded import PROGRAM
from turns import interval

PROMPT = "Tell a very long story about a lighthouse keeper and a lost boat, with many chapters."


def follow(program, record):
    """The process on a terminal whose output a thread reads and throws away."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen([program, "replay", "--follow", record], stdin=slave, stdout=slave, stderr=slave,
                               start_new_session=True, env=dict(os.environ, TERM="xterm-256color"))
    os.close(slave)
    drawn = []

    def read():
        try:
            while data := os.read(master, 1 << 14):
                drawn.append(len(data))
        except OSError:
            pass

    threading.Thread(target=read, daemon=True).start()
    return process, drawn


def session(o, record):
    """Seconds since the first turn and ns of each decode step; whether the follower ran in each second."""
    options = ["--max-tokens", str(o.tokens), "--record", record, *(["--model", o.model] if o.model else [])]
    run = subprocess.Popen([o.cutaway, "run", *options, PROMPT], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    follower, drawn = follow(o.cutaway, record)
    turns = []
    while run.poll() is None:
        turns.append((time.time_ns(), len(turns) % 2 == 0))
        follower.send_signal(signal.SIGCONT if turns[-1][1] else signal.SIGSTOP)
        time.sleep(1)
    follower.send_signal(signal.SIGCONT)
    follower.terminate()
    follower.wait()
    if not sum(drawn):
        raise SystemExit("the follower drew nothing")
    with sqlite3.connect(record) as db:
        begun = db.execute("SELECT unix_ns FROM session").fetchone()[0]
        steps = db.execute("SELECT t_ns, ns FROM step WHERE prefill_rows = 0").fetchall()
    return turns, [(begun + t, ns) for t, ns in steps]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=4000)
    options.add_argument("--cutaway", default=PROGRAM)
    options.add_argument("--model")
    o = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        turns, steps = session(o, os.path.join(folder, "session.db"))
    seconds = [(on, [ns for t, ns in steps if at <= t < end]) for (at, on), (end, _) in zip(turns, turns[1:])]
    found = [100 * (statistics.median(b[1]) / statistics.mean((statistics.median(a[1]), statistics.median(c[1]))) - 1)
             for a, b, c in zip(seconds, seconds[1:], seconds[2:]) if b[0] and a[1] and b[1] and c[1]]
    if len(found) < 3:
        raise SystemExit("the answer was too short: ask for more --tokens")
    low, high = interval(found)
    print(f"{statistics.median(found):+.2f} % (95 %: {low:+.2f} … {high:+.2f}; {len(found)} seconds)")


if __name__ == "__main__":
    main()
