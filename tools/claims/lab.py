"""Runs of the program for tools/claims: each command once an invocation, its recording as SQLite; ranges; and which commands a
row rests on. Python's standard library alone."""
import concurrent.futures
import csv
import functools
import json
import os
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace as Numbers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools/bench"))
from recorded import prompts  # noqa: E402, F401
from turns import tenths  # noqa: E402

PROGRAM = os.environ.get("CUTAWAY", os.path.join(ROOT, "cutaway"))
MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
MODELS = os.path.join(ROOT, "build/claims")  # random models of any shape, which are kept
FOLDER = tempfile.TemporaryDirectory(prefix="cutaway-claims-")
HOME = {"HOME": FOLDER.name, "XDG_DATA_HOME": FOLDER.name, "XDG_CACHE_HOME": FOLDER.name}


class Range:
    """Repeated measurements: the median, and the bounds of the middle eight tenths."""

    def __init__(self, values):
        self.values = sorted(values)
        if not self.values:
            raise ValueError("nothing was measured")
        self.median = statistics.median(self.values)
        self.low, self.high = tenths(self.values)

    def __format__(self, how):
        return f"{self.median:{how}} ({self.low:{how}} … {self.high:{how}})"


def merge(*numbers, **named):
    """One namespace of several."""
    return Numbers(**{name: value for one in numbers for name, value in vars(one).items()}, **named)


class Evidence:
    """What the measurement that is under way rests on: its commands, which of its figures (by name) the clock gave, and tables of
    the repository that it reads, of runs that take too long for a row."""

    def __init__(self):
        self.commands, self.timed, self.tables = {}, set(), set()

    def add(self, command, times=1):
        self.commands[command] = self.commands.get(command, 0) + times

    def join(self, other):
        self.timed |= other.timed
        self.tables |= other.tables
        for command, times in other.commands.items():
            self.add(command, times)


STACK = [Evidence()]


def measure(timed=""):
    """A measurement that rows share: made once an invocation for the same arguments. Its evidence goes to each row. `timed` names
    the figures that the clock gave, beside those that are a Range; all others are counts, the same on any machine."""
    def wrap(f):
        known = {}

        @functools.wraps(f)
        def call(*args, **named):
            key = args, tuple(named.items())
            if key not in known:
                STACK.append(Evidence())
                STACK[-1].timed = set(timed.split())
                try:
                    known[key] = f(*args, **named), STACK[-1]
                finally:
                    STACK.pop()
            STACK[-1].join(known[key][1])
            return known[key][0]
        return call
    return wrap


def shown(words, text):
    """A command as a reader would type it."""
    words = [os.path.relpath(w, ROOT) if w.startswith(ROOT) else w.replace(FOLDER.name + "/", "") for w in words]
    return shlex.join(["cutaway", *words]) + (" < text" if text else "")


def execute(words, text):
    if words[0] in ("run", "bench", "score", "compare", "formulas") and "--backend" not in words and gpu():
        words = [*words, "--backend", "cpu"]  # what is said of a GPU is asked for
    done = subprocess.run([PROGRAM, *words], input=text.encode(), capture_output=True, env={**os.environ, **HOME}, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{shown(words, text)}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")


@measure()
def cutaway(*words, text=""):
    """Standard output of a verb."""
    STACK[-1].add(shown(words, text))
    return execute(words, text)


def report(*words):
    """What a verb says with --json."""
    return json.loads(cutaway(*words, "--json"))


class Run:
    """A recorded answer, or answers: its lines of JSON, and its recording."""

    def __init__(self, options, text):
        self.path = tempfile.mkstemp(suffix=".db", dir=FOLDER.name)[1]
        os.unlink(self.path)
        begun = time.monotonic()
        out = execute(["run", "--json", "--record", self.path, *options], text)
        self.seconds = time.monotonic() - begun
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.db = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, check_same_thread=False)
        self.db.row_factory = sqlite3.Row

    def rows(self, sql, *args):
        return self.db.execute(sql, args).fetchall()

    def one(self, sql, *args):
        """The only value of the only row; 0 where SQL has none."""
        return self.db.execute(sql, args).fetchone()[0] or 0

    def values(self, sql, *args):
        return [row[0] for row in self.db.execute(sql, args)]


RUNS = {}


def run(*options, text, again=0):
    """`cutaway run` of a prompt; `again` counts repetitions, which are runs of their own."""
    STACK[-1].add(shown(["run", *options], text))
    key = (options, text, again)
    if key not in RUNS:
        RUNS[key] = Run(options, text)
    return RUNS[key]


def together(n, *options, text):
    """n processes at once."""
    STACK[-1].add(shown(["run", *options], text), n)
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        return [one.result() for one in [pool.submit(Run, options, text) for _ in range(n)]]


def batch(lines, *options, again=0):
    return run("--batch", "-", *options, text="\n".join(lines) + "\n", again=again)


def random_model(name, *options):
    """Path of a model of random weights, which is made where it is missing."""
    path = os.path.join(MODELS, name + ".gguf")
    if not os.path.exists(path):
        os.makedirs(MODELS, exist_ok=True)
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *options, path + ".new"], check=True)
        os.rename(path + ".new", path)
    return path


@functools.cache
def long_text():
    """Prose and tables of an earlier docs/design.md, kept so that counts stay what they are: 3.65 bytes a token."""
    with open(os.path.join(ROOT, "demos/texts/design.txt"), encoding="utf-8") as f:
        return f.read()


def text_of(tokens):
    """A text of about so many tokens."""
    return long_text()[:int(tokens * 3.65)]


def table(name, command):
    """Rows of a table of the repository, which the command writes anew in hours."""
    STACK[-1].add(command)
    STACK[-1].tables.add(name)
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return list(csv.DictReader(f))


@functools.cache
def committed(name):
    """Which version of a file this is: its last commit, and that one's day."""
    try:
        done = subprocess.run(["git", "log", "-1", "--format=%h of %cd", "--date=format:%-d %B %Y", "--", name], cwd=ROOT, check=False,
                              capture_output=True, text=True)
    except OSError:  # no git
        return "not known"
    return done.stdout.strip() or "not known"


@functools.cache
def gpu():
    """Name of a GPU that the program can use, or None."""
    usable = [d for d in json.loads(execute(["devices", "--json"], ""))["devices"] if not d.get("why")]
    return usable[0]["name"] if usable else None


@functools.cache
def machine():
    """Processor, threads and instruction set."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown processor")
    isa = json.loads(execute(["devices", "--json"], ""))["cpu"][0]
    return f"{os.cpu_count()} x {name}, {isa}" + (f"; {gpu()}" if gpu() else "")
