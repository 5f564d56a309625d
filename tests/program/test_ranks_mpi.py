#!/usr/bin/env python3
"""Ranks that are processes of MPI: equal hashes, several engines of one program, and what a user sees when a rank is killed, stopped,
of another version or has another file, when numbers do not fit, and without the module. Without MPI it is skipped. TAP; standard
library alone."""
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid

from tap import PROGRAM, ROOT, check, finish, sample, skip
from terminal import Terminal

TMP = tempfile.TemporaryDirectory(prefix="cutaway-ranks-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "TMPDIR")},
       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
TINY, OTHER = os.path.join(TMP.name, "tiny.gguf"), os.path.join(TMP.name, "other/tiny.gguf")
MODULE = os.path.join(ROOT, "cutaway-mpi.so")
PROMPTS = os.path.join(TMP.name, "prompts")
RUN = ["run", "--greedy", "--threads", "1", "--ctx", "256", "--model", TINY]
PATIENCE = 120  # for what takes seconds


def mpirun(n, *command):
    return ["mpirun", "--oversubscribe", "-n", str(n), *command]


def left_of(mark):
    """All processes with the mark, whatever they run, that are still there after a while."""
    for _ in range(100):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if mark.encode() in f.read().split(b"\0"):
                        found.append(pid)
        if not found:
            break
        time.sleep(0.1)
    return found


class Started:
    """A program with all processes that come of it: their environment has its mark."""

    def __init__(self, command, env=None):
        self.mark = f"CUTAWAY_TEST_MARK={uuid.uuid4()}"
        own = dict([self.mark.split("=")])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        errors="replace", cwd=TMP.name,
                                        env={**ENV, **(env or {}), **own})

    def processes(self):
        """Numbers of those that run this program, but for rank 0."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as f:
                    env = f.read().decode(errors="replace").split("\0")
                if self.mark in env and os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("cutaway"):
                    if int(pid) != self.process.pid and not self.is_first(env):
                        found.append(int(pid))
        return sorted(found)

    def is_first(self, env):
        """Is it rank 0 of mpirun's? That of --ranks is the process itself."""
        return "OMPI_COMM_WORLD_RANK=0" in env and not any(e.startswith("CUTAWAY_RANK_OF=") for e in env)

    def left(self):
        return left_of(self.mark)

    def wait_for(self, n):
        end = time.monotonic() + PATIENCE
        while len(self.processes()) < n and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        return self.processes()

    def end(self):
        """(status, standard output, standard error); -1: it hangs."""
        try:
            out, told = self.process.communicate(timeout=PATIENCE)
            status = self.process.returncode
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, told = self.process.communicate()
            status = -1
        return status, out, told


def run(command, env=None):
    s = Started(command, env)
    return (*s.end(), s.left())


def hashes(record):
    with contextlib.closing(sqlite3.connect(record)) as db:
        return db.execute("SELECT request, pos, id, hash FROM token ORDER BY request, pos").fetchall()


def ranks(record):
    with contextlib.closing(sqlite3.connect(record)) as db:
        return db.execute("SELECT rank, transport FROM rank ORDER BY rank").fetchall()


def new_record():
    return os.path.join(TMP.name, f"{uuid.uuid4()}.db")


# ---- what works ----

def answer(name, command, n, plain):
    record = new_record()
    status, out, told, left = run([*command, "--record", record])
    check(f"{name}: ends well, and leaves no process", status == 0 and not told and not left, (status, told, left))
    if n > 1:
        check(f"{name}: {n} ranks of MPI are recorded", ranks(record) == [(r, "mpi") for r in range(n)], ranks(record))
        check(f"{name}: the hashes of one rank", hashes(record) == plain[0] and out == plain[1], out)
        told = subprocess.run([PROGRAM, "verify", "--model", TINY, record], capture_output=True, text=True, env=ENV, check=False)
        check(f"{name}: verified without MPI", told.returncode == 0, told.stdout + told.stderr)
    return hashes(record), out


def test_hashes():
    batch = [PROGRAM, *RUN, "--batch", PROMPTS, "--max-tokens", "20"]
    plain = answer("one rank", batch, 1, None)
    check("one rank answers", len(plain[0]) > 40, plain)
    answer("--ranks 2", [*batch, "--ranks", "2"], 2, plain)
    answer("--ranks 3", [*batch, "--ranks", "3"], 3, plain)
    answer("mpirun -n 2", mpirun(2, *batch), 2, plain)
    answer("mpirun -n 3, tensor-parallel 3", mpirun(3, *batch, "--tensor-parallel", "3"), 3, plain)


def test_several():
    record = os.path.join(TMP.name, "c.db")
    status, out, told, left = run([PROGRAM, "compare", *RUN[1:], "--max-tokens", "8", "--ranks", "2", "--record", record, "spec=off",
                                   "spec=ngram:4", "Hello there"])
    check("compare: one engine after the other, both on two ranks",
          status == 0 and not left and ranks(record[:-3] + "-a.db") == ranks(record[:-3] + "-b.db") == [(0, "mpi"), (1, "mpi")],
          (status, out, told, left))


def test_served():
    """A server whose last rank idles, and ends with it on SIGTERM."""
    s = Started([PROGRAM, "serve", "--model", TINY, "--ctx", "256", "--threads", "1", "--port", "0", "--ranks", "2"])
    line = s.process.stdout.readline()
    check("a server on two ranks", line.startswith("serving "), line)
    s.process.send_signal(signal.SIGTERM)
    status, _, told = s.end()
    check("ends on SIGTERM, with its ranks", status == 0 and not told and not s.left(), (status, told, s.left()))


def handed(record):
    with contextlib.closing(sqlite3.connect(record)) as db:
        return db.execute("SELECT count(*), sum(computed = tokens AND equal), max(rank), max(why) FROM handover").fetchone()


ALONE = [PROGRAM, *RUN, "--prefill-least", "4"]


def test_prompts():
    """Prompts that processes of their own compute."""
    batch = [*ALONE, "--batch", PROMPTS, "--max-tokens", "20"]
    plain = answer("one rank", batch, 1, None)
    for name, n, command in (("--ranks 2", 1, [*batch, "--prefill-ranks", "1", "--ranks", "2"]),
                             ("mpirun -n 3", 2, mpirun(3, *batch, "--prefill-ranks", "2"))):
        record = new_record()
        status, out, told, left = run([*command, "--record", record])
        check(f"{name}: prompts elsewhere: ends well, and leaves no process", status == 0 and not told and not left, (status, told, left))
        check(f"{name}: prompts elsewhere: the hashes of one rank", hashes(record) == plain[0] and
              sorted(out.splitlines()) == sorted(plain[1].splitlines()), out)  # in the order in which they end
        done = handed(record)
        check(f"{name}: prompts were computed by {n}, whole", done[0] > 2 and done[0] == done[1] and done[2] == n, done)
    refused("--ranks 4 for one prefill rank", [*batch, "--no-record", "--prefill-ranks", "1", "--ranks", "4"], "as many are needed")


def test_prompts_lost():
    """Rank 0 computes what a rank that was killed had not."""
    many = [*ALONE, "--batch", PROMPTS + "-many", "--max-tokens", "40", "--slots", "2"]
    plain, record = new_record(), new_record()
    run([*many, "--record", plain])
    s = Started([*many, "--prefill-ranks", "1", "--ranks", "2", "--record", record])
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and s.process.poll() is None and not (os.path.exists(record) and count_tokens(record) > 20):
        time.sleep(0.01)
    for pid in s.processes():
        os.kill(pid, signal.SIGKILL)
    status, _, told = s.end()
    check("without the rank for prompts all are answered", status == 0 and hashes(record) == hashes(plain) and not s.left(),
          (status, told, s.left()))
    check("and it is said why not all was computed there", "rank 1 has ended" in (handed(record)[3] or ""), handed(record))
    check_record("a killed rank for prompts", record)


def count_tokens(record):
    with contextlib.suppress(sqlite3.Error):
        with contextlib.closing(sqlite3.connect(f"file:{record}?mode=ro", uri=True)) as db:
            return db.execute("SELECT count(*) FROM token").fetchone()[0]
    return 0


# ---- what cannot work ----

def refused(name, command, words, status=2, env=None):
    got, out, told, left = run(command, env=env)
    said = [line for line in told.splitlines() if line.startswith("cutaway: ")]
    check(f"{name}: {words}", got == status and len(said) == 1 and words in said[0] and not left, (got, out, told, left))


def test_refused():
    hello = [*RUN, "--no-record", "Hello"]
    refused("three ranks, two processes", mpirun(2, PROGRAM, *hello, "--tensor-parallel", "3"), "2 processes")
    refused("--ranks 3, two processes", mpirun(2, PROGRAM, *hello, "--ranks", "3"), "mpirun started 2")
    refused("two ranks, --ranks 3", [PROGRAM, *hello, "--ranks", "3", "--tensor-parallel", "2"], "3 processes")
    refused("an unknown option", mpirun(2, PROGRAM, "run", "--nonsense"), "--nonsense")
    status, out, told, left = run(mpirun(2, PROGRAM, "--version"))
    check("a verb that has no model: rank 0 alone", status == 0 and out.count("arithmetic") == 1 and not told and not left,
          (status, out, told))


def mixed(first, second):
    """Two processes of mpirun, each (program, folder)."""
    command = ["mpirun", "--oversubscribe"]
    for program, folder in (first, second):
        command += ["-n", "1", "-wdir", folder, program, "run", "--greedy", "--no-record", "--model", "tiny.gguf", "Hello", ":"]
    return command[:-1]


def test_differing():
    other = os.path.join(TMP.name, "cutaway-other")
    with open(PROGRAM, "rb") as f:
        text = f.read()
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[1].encode()
    with open(other, "wb") as f:
        f.write(text.replace(version + b"\0", version[:-1] + b"x\0"))
    os.chmod(other, 0o700)
    env = {"CUTAWAY_MPI": MODULE}
    refused("another file of that name", mixed((PROGRAM, TMP.name), (PROGRAM, os.path.dirname(OTHER))), "another file", 3)
    refused("no file of that name", mixed((PROGRAM, TMP.name), (PROGRAM, "/")), "rank 1: cannot open the model tiny.gguf", 4)
    refused("another version", mixed((PROGRAM, TMP.name), (other, TMP.name)), "of one version", env=env)


def test_without():
    alone = os.path.join(TMP.name, "alone")
    os.mkdir(alone)
    program = shutil.copy(PROGRAM, alone)
    hello = [*RUN, "--no-record", "Hello"]
    refused("without the module", [program, *hello, "--ranks", "2"], "make mpi")
    refused("without the module, under mpirun", mpirun(2, program, *hello), "make mpi")
    refused("a module that is not there", [PROGRAM, *hello, "--ranks", "2"], "/nowhere", env={"CUTAWAY_MPI": "/nowhere"})
    refused("what is no module", [PROGRAM, *hello, "--ranks", "2"], "make mpi", env={"CUTAWAY_MPI": TINY})
    status, _, told, _ = run([program, *hello, "--tensor-parallel", "2"])
    check("without the module threads are ranks", status == 0, told)


# ---- faults ----

def look_at(record):
    """(whether it is whole, what verify says of it, how many requests failed)"""
    with contextlib.closing(sqlite3.connect(record)) as db:
        whole = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        begun = db.execute("SELECT count(*) FROM session").fetchone()[0]
        failed = db.execute("SELECT count(*) FROM finish WHERE reason = 6").fetchone()[0]
    told = subprocess.run([PROGRAM, "verify", "--model", TINY, record], capture_output=True, text=True, env=ENV, check=False)
    return whole and (not begun or not told.returncode), told.stdout + told.stderr, failed


def check_record(name, record):
    """Returns how many requests failed."""
    whole, told, failed = look_at(record)
    check(f"{name}: the recording is whole", whole, told)
    return failed


LONG = [PROGRAM, *RUN, "--batch", PROMPTS + "-many", "--max-tokens", "200", "--tensor-parallel", "3"]


def begun(command):
    """A program on two ranks that has answered something, and the other rank."""
    record = new_record()
    s = Started([*command, "--record", record])
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and s.process.poll() is None:
        with contextlib.suppress(sqlite3.Error):
            with contextlib.closing(sqlite3.connect(f"file:{record}?mode=ro", uri=True)) as db:
                if db.execute("SELECT count(*) FROM token").fetchone()[0] > 20:
                    return s, record, db.execute("SELECT process FROM rank WHERE rank = 1").fetchone()[0]
        time.sleep(0.02)
    raise AssertionError(s.end())


def test_error():
    s, record, victim = begun([PROGRAM, *RUN, "--batch", PROMPTS + "-many", "--max-tokens", "200", "--ranks", "2"])
    os.kill(victim, signal.SIGKILL)
    status, _, told = s.end()
    check("a killed rank is named", status == 6 and f"rank 1 has ended (process {victim} on {os.uname().nodename})" in told and
          not s.left(), (status, told))
    check("and requests that ran have failed", check_record("a killed rank", record))


def test_rank0():
    for name, command in (("--ranks 2", [*LONG[:-2], "--ranks", "2"]), ("mpirun", mpirun(2, *LONG[:-2]))):
        s, record, _ = begun(command)
        with contextlib.closing(sqlite3.connect(record)) as db:
            first = db.execute("SELECT process FROM rank WHERE rank = 0").fetchone()[0]
        os.kill(first, signal.SIGKILL)
        status, _, told = s.end()
        check(f"{name}: without rank 0 all end", status != 0 and not s.left(), (status, told, s.left()))
        check_record(f"{name}, rank 0 is killed", record)


def test_stopped():
    some, record = [*LONG[:-4], "--max-tokens", "100"], new_record()
    s, stopped, pid = begun([*some, "--ranks", "2"])
    os.kill(pid, signal.SIGSTOP)
    line = s.process.stderr.readline()
    check("a stopped rank: it is said that it is waited for", f"rank 1 (process {pid} on" in line and "waiting" in line, line)
    os.kill(pid, signal.SIGCONT)
    status, _, told = s.end()
    run([*some, "--record", record])
    check("and when it goes on, so do the answers", status == 0 and hashes(record) == hashes(stopped) and not s.left(), told)


# ---- the chat ----

def in_terminal(command):
    mark = f"CUTAWAY_TEST_MARK={uuid.uuid4()}"
    return Terminal(command, {**ENV, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **dict([mark.split("=")])}), mark


def test_chat():
    t, _ = in_terminal(mpirun(2, PROGRAM, "chat", "--model", TINY))
    status = t.wait_end()
    check("a chat under mpirun names --ranks", status == 2 and "--ranks 2" in t.grid.text().replace("\n", " "), t.grid.text())
    t.close()
    record = new_record()
    t, mark = in_terminal([PROGRAM, "chat", "--model", TINY, "--ctx", "256", "--max-tokens", "8", "--threads", "1", "--ranks", "2",
                           "--record", record])
    t.wait("ready|/help|tok/s|tokens")
    t.send("Hello\r")
    end = time.monotonic() + PATIENCE
    victim = None
    while time.monotonic() < end and not victim:
        t.read(0.05)
        with contextlib.suppress(sqlite3.Error, TypeError):
            with contextlib.closing(sqlite3.connect(f"file:{record}?mode=ro", uri=True)) as db:
                if db.execute("SELECT count(*) FROM finish").fetchone()[0]:
                    victim = db.execute("SELECT process FROM rank WHERE rank = 1").fetchone()[0]
    check("a chat on two ranks answers", victim, t.grid.text())
    os.kill(victim, signal.SIGSTOP)
    t.send("And again\r")
    time.sleep(1)
    t.send("\x03")
    time.sleep(0.3)
    t.send("\x03")
    status = t.wait_end()
    t.close()
    check("with a stopped rank Ctrl-C twice quits", status in (0, 130), (status, t.grid.text()))
    check("and leaves no process", not left_of(mark), left_of(mark))
    check_record("chat", record)


def test_lost():
    s, record, pid = begun([*LONG[:-2], "--ranks", "2"])
    os.kill(pid, signal.SIGSTOP)
    status, _, told = s.end()
    check("a rank that stays stopped ends the step", status == 6 and f"did not answer for 30 s (process {pid} on" in told and
          not s.left(), (status, told, s.left()))
    check("with failed requests", check_record("a stopped rank", record))


def make():
    os.mkdir(os.path.dirname(OTHER))
    tiny = [os.path.join(ROOT, "build/tests/mktiny"), "--heads", "6", "--kv-heads", "3", "--dim", "192", "--ffn", "384"]
    for seed, file in (("1", TINY), ("2", OTHER)):
        subprocess.run([*tiny, "--seed", seed, file], check=True)
    for name, n in ((PROMPTS, 3), (PROMPTS + "-many", 100)):
        with open(name, "w", encoding="utf-8") as f:
            f.write("".join(f"Tell me of number {i}\n" for i in range(n)))


def main():
    make()
    tests = [test_hashes, test_prompts, test_prompts_lost, test_several, test_served, test_refused, test_differing, test_without, test_error,
             test_rank0, test_stopped, test_chat]
    tests += sample([test_lost], 0)  # half a minute
    words = sys.argv[1:]
    for test in tests:
        if not words or any(word in test.__name__ for word in words):
            test()
    return finish()


def missing():
    """Whether there is no MPI, which is told."""
    if shutil.which("mpirun") and os.path.exists(MODULE):
        return False
    skip("ranks that are processes", "no mpirun or no cutaway-mpi.so: make mpi")
    return True


if __name__ == "__main__":
    sys.exit(finish() if missing() else main())
