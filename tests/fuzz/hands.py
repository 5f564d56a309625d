#!/usr/bin/env python3
"""Random hands on the chat and the replay of the build with sanitizers: commands with good and bad values, keys, mouse, pastes,
sizes, over random models. The program must answer at all times, report nothing, and end when told to. By hand: what is typed is
the seed's, but not when the program reads it.

    make SANITIZE=1 build-asan/cutaway && tests/fuzz/hands.py [SECONDS [SEED]]      what was typed: build-asan/hands-SEED.log
"""
import glob
import os
import random
import re
import signal
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "program"))
from terminal import PATIENCE, Terminal  # noqa: E402 pylint: disable=wrong-import-position

PROGRAM = os.path.join(ROOT, "build-asan", "cutaway")
TABLE = "".join(open(os.path.join(ROOT, f), encoding="utf-8").read() for f in ("tui/app/commands.def", "engine/settings/settings.def"))


def stems(pattern):
    return [os.path.splitext(os.path.basename(f))[0] for f in glob.glob(os.path.join(ROOT, pattern))]


# Each command and setting, with the words of its table.
NAMES = {m[1]: re.findall('"([^"]*)"', (re.search(r"SETTING_WORDS\(([^)]*)\)", m[2]) or [0, ""])[1])
         for m in re.finditer(r'(?:\.name = |(?:ACT|CHAT)\([^"]*)"([a-z0-9-]+)"(.*?)(?=\.name = |\n\t?(?:ACT|CHAT)\(|\Z)', TABLE, re.S)}
VIEWS, LESSONS = stems("tui/views/help/*.txt"), stems("demos/lessons/*.md")
MODELS = glob.glob(os.path.join(ROOT, "tests/data/zoo/*.gguf")) + glob.glob(os.path.join(ROOT, "demos/models/family/*.gguf"))
EXPRESSIONS = ["entropy > 3", "p < 0.5", "step > 5", "token = 'a'", "nonsense(", "(select count(*) from token)", "'", "1/0", "max(p)"]
TEXTS = ["hello", "Größe", "月亮在哪里？", "привет, как дела", "👩‍👩‍👧 family", "a" * 300, "e\u0301", "مرحبا", "# head", "| a | b |", "@/etc/passwd what", "/",
         "//x", "'", "the the the the the", "Tell me a story about a dog."]
VALUES = ["", "0", "1", "-1", "3", "64", "100000000000", "0.5", "nan", "off", "on", "mean", "turn 1", "turn 0", "-3", "#5", "@4", "last", "/nope/file",
          "out.svg", "out.png 80x24", "conv.txt", "conv.db", "'--temp 0' '--temp 2'", "'the dog' 5s", "8 chat", "miss", "evict", "slow", "token",
          "ngram:3", "window:8", "stream:2+window:8", "top:4", "e4m3", "kivi4", "beam 3", "best 3", "mcts 8"]
KEYS = [f"\x1bO{c}" for c in "PQRSABCD"] + [f"\x1b[{n}~" for n in (2, 3, 5, 6, 15, 17, 18, 19, 20, 21, 23, 24)] + \
       [f"\x1b[{c}" for c in "ABCDHFZ"] + ["\r"] * 3 + list("\t\x1b\x7f \x0f\x10\x0c\x12\x17\x15\x01\x05\x0b\x19\x03?jkqnNwgbftyx+-129") + \
       ["\x1b[1;5C", "\x1bb", "\x1bd", "\x1b.", "\x1b[<0;10;10M", "\x1b[<0;10;10m", "\x1b[<2;3;3M", "\x1b[<2;3;3m", "\x1b[<64;5;5M",
        "\x1b[I", "\x1b[200~pasted\ntext\x1b[201~", "\x1b[99;99R", "\x1b]11;rgb:0000/0000/0000\x07"]
TERMS = ["xterm-256color", "xterm-256color", "linux", "screen-256color", "vt100", "xterm-direct"]


class Hands:
    def __init__(self, seed):
        self.r, self.home = random.Random(seed), tempfile.TemporaryDirectory(prefix="cutaway-hands-")
        self.log = open(os.path.join(ROOT, "build-asan", f"hands-{seed}.log"), "w", encoding="utf-8")
        self.bad, self.t = 0, None
        home = self.home.name
        with open(os.path.join(home, "known"), "w", encoding="utf-8") as f:
            f.write("leak:libreadline\n")
        self.env = {"PATH": os.environ["PATH"], "HOME": home, "EDITOR": "true", "LC_ALL": "C.UTF-8",
                    "ASAN_OPTIONS": f"log_path={home}/report", "UBSAN_OPTIONS": f"log_path={home}/report:print_stacktrace=1",
                    "LSAN_OPTIONS": f"suppressions={home}/known:print_suppressions=0"}

    def note(self, *what):
        print(time.strftime("%H:%M:%S"), *what, file=self.log, flush=True)

    def command(self):
        r = self.r
        args = ["chat", "--model", r.choice(MODELS), "--threads", r.choice("12")]
        for share, more in ((.4, ["--pages", r.choice(["8", "16", "40"])]), (.3, ["--spec", r.choice(["ngram", "auto", "skip", "lookahead"])]),
                            (.2, ["--twin", "on"]), (.2, ["--ascii"]), (.1, ["--projector"]), (.2, ["--tensor-parallel", "2"])):
            args += more if r.random() < share else []
        old = glob.glob(os.path.join(self.home.name, "**", "*.db"), recursive=True)
        return r.choice([["replay", r.choice(old)], ["chat", "--continue", r.choice(old)]]) if old and r.random() < .4 else args

    def start(self):
        args, term = self.command(), self.r.choice(TERMS)
        self.note("START", term, " ".join(args))
        os.chdir(self.home.name)
        self.t = Terminal([PROGRAM, *args], {**self.env, "TERM": term}, *self.r.choice([(80, 24), (120, 40), (200, 50)]))
        self.settle(2)

    def settle(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.t.ended():
            self.t.read(end - time.monotonic())

    def value(self, name):
        if NAMES[name] and self.r.random() < .6:
            return self.r.choice(NAMES[name])
        return self.r.choice([*VALUES, *TEXTS, *EXPRESSIONS, *("x " + e for e in EXPRESSIONS), *VIEWS, *LESSONS])

    def line(self):
        name = self.r.choice(list(NAMES) + VIEWS)
        if name == "quit" or self.r.random() < .25:
            return self.r.choice(TEXTS)
        return f"/{name} {self.value(name) if name in NAMES else ''}".rstrip()

    def act(self):
        k = self.r.random()
        if k < .1:
            size = self.r.choice([(80, 24), (120, 40), (200, 50), (self.r.randint(1, 220), self.r.randint(1, 60)), (1, 1), (20, 5)])
            self.note("SIZE", *size)
            self.t.resize(*size)
        else:
            sent = [self.line() + "\r"] if k < .55 else self.r.choices(KEYS, k=self.r.randint(1, 8))
            self.note("TYPE", *map(repr, sent))
            for text in sent:
                self.t.send(text)
        self.settle(self.r.choice([.01, .05, .2, .5, 2]))

    def answers(self):
        """It draws another size."""
        for _ in range(2):
            self.t.resize(80, 49 - self.t.grid.lines if self.t.grid.lines in (24, 25) else 24)
            end = time.monotonic() + PATIENCE
            while not self.t.read(.2) and not self.t.ended():
                if time.monotonic() > end:
                    return False
        return True

    def check(self):
        if not self.t.ended() and not self.answers():
            self.fail("it does not answer; process", self.t.child)
            os.kill(self.t.child, signal.SIGABRT)
            self.settle(PATIENCE)
        if self.t.ended() and (os.WIFSIGNALED(self.t.status) or os.WEXITSTATUS(self.t.status) > 4):
            self.fail("it ended with", self.t.status)
        for name in glob.glob(os.path.join(self.home.name, "report*")):
            self.fail(open(name, encoding="utf-8", errors="replace").read())
            os.remove(name)

    def fail(self, *what):
        self.bad += 1
        self.note(*what)
        print("#", *what)

    def run(self, seconds):
        end = time.monotonic() + seconds
        self.start()
        while time.monotonic() < end:
            try:
                self.act()
            except OSError:
                self.settle(PATIENCE)
            if self.t.ended() or self.r.random() < .03:
                self.check()
            if self.t.ended():
                self.t.close()
                self.start()
        if not self.t.ended():
            os.kill(self.t.child, signal.SIGTERM)
            self.settle(PATIENCE)
        if not self.t.ended():
            self.fail("SIGTERM does not end it")
        self.check()
        self.t.close()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
    hands = Hands(seed)
    hands.run(seconds)
    print(f"{'not ok' if hands.bad else 'ok'} 1 - {seconds:g} s of seed {seed}\n1..1")
    return hands.bad > 0


if __name__ == "__main__":
    sys.exit(main())
