#!/usr/bin/env python3
"""A rank killed at random moments: the program says so, ends, leaves no process, and its recording is whole. 100 in `make test-all`. TAP;
standard library alone."""
import concurrent.futures
import contextlib
import os
import random
import signal
import sys
import time

from tap import check, finish, sample
from test_ranks_mpi import LONG, Started, look_at, make, missing, mpirun, new_record

AT_ONCE = 3  # they mostly wait


def kill(nth):
    """With --ranks from the moment on that a process is there; Open MPI's mpirun may itself hang if one ends while it starts."""
    how, command = ("--ranks", [*LONG, "--ranks", "3"]) if nth % 2 else ("mpirun", mpirun(3, *LONG))
    record, dice = new_record(), random.Random(nth)
    s = Started([*command, "--record", record])
    few = 1 if how == "--ranks" and nth % 4 == 3 else 2
    s.wait_for(few)
    while (how == "mpirun" or nth % 4 == 1) and s.process.poll() is None and not os.path.exists(record):
        time.sleep(0.01)
    time.sleep(dice.random())
    # looked at again: a fork that MPI begins its daemon with runs this program for a moment, too
    victim = dice.choice(s.wait_for(few) or [1 << 30])
    with contextlib.suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)
    status, out, told = s.end()
    said = any(words in told for words in (f"(process {victim} on", "one of them has ended", "MPI starts no 3 ranks", "mpirun noticed"))
    recorded = os.path.exists(record) and os.path.getsize(record)
    return f"kill {nth}, {how}", status > 0 and said and not s.left(), (status, out[-200:], told, s.left()), recorded and look_at(record)


def main():
    make()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for name, good, more, recorded in pool.map(kill, sample(range(100), 7)):
            check(f"{name}: an error that says so, and no process is left", good, more)
            if recorded:
                check(f"{name}: the recording is whole", recorded[0], recorded[1])
    return finish()


if __name__ == "__main__":
    sys.exit(finish() if missing() else main())
