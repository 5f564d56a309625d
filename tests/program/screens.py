#!/usr/bin/env python3
"""Golden screens: keys in, screen text out, in a real terminal (tmux on a socket of its own). Speaks TAP.

    tests/program/screens.py             compares with tests/data/golden/*.txt
    tests/program/screens.py --update    writes them anew; look at the difference before you commit it
    tests/program/screens.py NAME …      only these

The model is a tiny random one, so the answers are nonsense, but always the same. What is measured (times,
rates, sizes of the time view's parts, names of instruction sets) is masked. Only the standard library.
"""
import difflib
import os
import re
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "data", "golden")
PATIENCE = 150  # seconds to wait for a text before a test fails; never a measure of speed


class Failure(Exception):
    pass


class Screen:
    """A terminal with a shell in it, in a folder of its own."""

    def __init__(self, folder, width, height, env=()):
        self.folder = folder
        self.socket = "cutaway-" + os.path.basename(folder)
        clean = {"PATH": os.environ["PATH"], "HOME": folder, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8",
                 "XDG_DATA_HOME": folder, "XDG_STATE_HOME": folder, "XDG_CACHE_HOME": folder, "PS1": "$ ",
                 "INPUTRC": "/dev/null", "TZ": "UTC"}
        self.env = clean | dict(env)
        conf = os.path.join(folder, "tmux.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write('set -g default-terminal "tmux-256color"\nset -g status off\nset -g escape-time 0\n')
        self.start("-f", conf, "new-session", "-d", "-s", "t", "-c", folder, "-x", str(width),
                  "-y", str(height), "-e", f"LC_ALL={self.env['LC_ALL']}", "env", "-u", "TMUX", "/bin/sh")
        self.wait(r"^\$$")

    def start(self, *args):
        """A tmux server now and then dies while it is being born."""
        for attempt in range(3):
            try:
                self.tmux(*args)
                self.text()
                return
            except Failure:
                if attempt == 2:
                    raise
                time.sleep(0.5)

    def tmux(self, *args):
        done = subprocess.run(["tmux", "-L", self.socket, *args], env=self.env, capture_output=True, text=True,
                              check=False)
        if done.returncode and args[0] != "kill-server":
            raise Failure(f"tmux {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def close(self):
        self.tmux("kill-server")

    def keys(self, *keys):
        self.tmux("send-keys", "-t", "t", *keys)

    def type(self, text):
        self.tmux("send-keys", "-t", "t", "-l", text)

    def text(self):
        return self.tmux("capture-pane", "-p", "-t", "t")

    def resize(self, width, height):
        """Until the program has drawn anew: what tmux made of the old screen stands still, too."""
        self.tmux("resize-window", "-t", "t", "-x", str(width), "-y", str(height))
        cut, end = self.text(), time.monotonic() + 1  # it may have drawn before this
        while self.text() == cut and time.monotonic() < end:
            time.sleep(0.04)

    def wait(self, pattern, gone=False):
        """Until the screen has (or no longer has) the pattern and stands still: twice the same."""
        end, before = time.monotonic() + PATIENCE, None
        while time.monotonic() < end:
            now = self.text()
            if bool(re.search(pattern, now, re.M)) != gone and masked(now) == before:
                return now
            before = masked(now)
            time.sleep(0.04)
        raise Failure(f"{'still' if gone else 'no'} /{pattern}/ on the screen:\n{now}")

    def pid(self):
        """Of the program that runs in the shell."""
        shell = self.tmux("display-message", "-p", "-t", "t", "#{pane_pid}").strip()
        with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as f:
            children = f.read().split()
        if not children:
            raise Failure("nothing runs in the shell")
        return int(children[0])


# --- masking what is measured ---

UNITS = r"(?:ns|us|µs|ms|s|min|tok/s|[kMGT]?B/s|% MBU|%? of [\d.]+ [kMGT]B/s|(?:op|flop)s?/byte|[kMGT]?(?:op|flop)s?/s)"
NUMBER = re.compile(r"([ ─-]*)(?<![\w.])\d[\d,]*(?:\.\d+)? " + UNITS + r"(?![\w/])")
CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")
# A tiny model is so fast that its speed may touch the column before it.
SPEED = re.compile(r"(?<=[ \d])[ \d]{15}\d tok/s")
MACHINE = re.compile(r"(?:cpu|ref)(?: [a-z]+\d*)?(?: [×x]\d+)?(?= |$)")


def mask_view(lines, title, blanks=False):
    """Puts ~ over a view that is measured all through: as wide as its head, down to the next head or, if it has none
    itself, blank."""
    for y, line in enumerate(lines):
        for m in re.finditer(r"(?:^|(?<=[ ⁸]))" + title + r" [─-]+(?: .*?)?(?=  |$)", line):
            x, width = m.start(), m.end() - m.start()
            lines[y] = line[:x] + title + " " + "~" * (width - len(title) - 1) + line[m.end():]
            for below in range(y + 1, len(lines)):
                part = lines[below][x:x + width]
                if (not blanks and not part.strip()) or re.match(r"\S[\w ]* [─-]{2}|[─-]{8}", part):
                    break
                lines[below] = lines[below][:x].ljust(x) + "~" * width + lines[below][x + width:]
    return lines


def mask_number(m):
    """What is aligned to the right keeps its right end."""
    pad, size = m.group(1), len(m.group(0))
    if pad[:1] in "─-" and pad.endswith(" "):
        return pad[0] * (size - 2) + " #"
    return " " * (size - 1) + "#" if len(pad) > 1 else pad + "#"


def masked(text):
    lines = text.split("\n")
    # what is measured is there or not, as there is room beside it
    lines[0] = re.sub(r" +(?:(?:TTFT|ITL p50|p99|above roof: [\d.]+ >) +)?#", "", NUMBER.sub("  #", lines[0]))
    lines[0] = re.sub(r" {2,}", "  ", MACHINE.sub("MACHINE", CLOCK.sub("CLOCK", lines[0])))
    lines[1:] = [SPEED.sub(lambda m: " " * (len(m.group(0)) - 1) + "#", line) for line in lines[1:]]
    lines = [NUMBER.sub(mask_number, line).rstrip() for line in mask_view(mask_view(lines, "roofline", True), "time")]
    lines = [re.sub(r" +# ago$", "", line) for line in lines]  # a message that is seconds old says so
    return "\n".join(lines).rstrip("\n") + "\n"


# --- the tests ---

class Suite:
    def __init__(self, update):
        self.update = update
        self.folder = tempfile.mkdtemp(prefix="cutaway-screens-")
        self.model = os.path.join(self.folder, "tiny.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), self.model], check=True)

    def command(self, verb, *args):
        program = os.path.join(ROOT, "cutaway")
        return " ".join(shlex.quote(a) for a in (program, verb, *args))

    def chat(self, screen, *args):
        loops = () if "--loops" in args else ("--loops", "run")  # random models repeat themselves
        screen.type("clear; " + self.command("chat", "--model", self.model, "--greedy", "--max-tokens", "20", *loops,
                                             *args))
        screen.keys("Enter")
        screen.wait(r"^ cutaway  (?!.*opening the model)")  # the head line of a model that is open

    def ask(self, screen, text, last_step):
        """The answer is complete after this step."""
        screen.type(text)
        screen.keys("Enter")
        screen.wait(rf"step {last_step}\b")

    def golden(self, screen, name):
        got, path = masked(screen.text()), os.path.join(GOLDEN, name + ".txt")
        if self.update:
            os.makedirs(GOLDEN, exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(got)
            return
        with open(path, encoding="utf-8") as f:
            expected = f.read()
        if got != expected:
            raise Failure("".join(difflib.unified_diff(expected.splitlines(True), got.splitlines(True),
                                                       f"golden/{name}.txt", "screen")))

    def screen(self, width, height, **env):
        return Screen(tempfile.mkdtemp(dir=self.folder), width, height, env.items())

    def replay(self, screen, *args):
        screen.type("clear; " + self.command("replay", *args))
        screen.keys("Enter")
        screen.wait(r"replay .*step")

    def quit(self, screen):
        screen.type("/quit")
        screen.keys("Enter")
        screen.wait(r"^\$$")


def test_chat_80x24(suite):
    """a chat at 80x24: first screen, an answer, help, commands, views"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record")
        suite.golden(s, "chat-80x24-first")
        suite.ask(s, "The cat sat on the mat. The cat sat on the", 20)
        suite.golden(s, "chat-80x24-answer")
        s.keys("F1")
        s.wait("any key closes|any other key closes")
        suite.golden(s, "chat-80x24-help")
        s.keys("Escape")
        s.wait("key closes", gone=True)
        s.type("/to")
        s.keys("Tab")
        s.wait("/top-k +K")
        suite.golden(s, "chat-80x24-tab")
        s.keys("C-u")
        s.keys("Escape")
        time.sleep(0.2)  # Esc alone, and not the beginning of Alt-/
        s.type("/temp x")
        s.keys("Enter")
        s.wait("/temp x: a number from 0 to 100 is needed")
        s.keys("Escape")
        s.wait("is needed", gone=True)
        s.keys("C-o")
        s.wait("Esc back")
        suite.golden(s, "chat-80x24-views")
        s.keys("2", "Enter")
        suite.golden(s, "chat-80x24-zoom") if s.wait("next token") else None
        s.keys("Escape", "Escape")
        s.wait("Esc back", gone=True)
        suite.quit(s)
    finally:
        s.close()


def test_chat_200x50(suite):
    """a chat at 200x50: an answer, a second turn that finds the first in the prefix cache"""
    s = suite.screen(200, 50)
    try:
        suite.chat(s, "--no-record")
        suite.ask(s, "The cat sat on the mat. The cat sat on the", 20)
        suite.golden(s, "chat-200x50-answer")
        suite.ask(s, "and then?", 40)
        s.wait("and then")
        suite.golden(s, "chat-200x50-second")
        suite.quit(s)
    finally:
        s.close()


def test_replay(suite):
    """a recording replays on the same screens, and steps both ways"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "r.db", "--spec", "ngram:4")
        suite.ask(s, "one two one two one two one", 20)
        live = masked(s.text())
        suite.quit(s)
        suite.replay(s, "r.db")
        s.keys("End")
        s.wait(r"step 20 of 20 +‖")
        suite.golden(s, "replay-120x40-end")
        chat = [line for line in live.split("\n") if re.match(r" (you|ai) +[^› ]", line)]
        if not chat or any(re.split(" {3,}", line)[0] not in s.text() for line in chat):
            raise Failure("the replay's chat is not the live one\n" + live + s.text())
        s.keys("Home", "Right", "Right", "Right")
        s.wait(r"step 3 of")
        suite.golden(s, "replay-120x40-step3")
        s.keys("Right", "Left")
        s.wait(r"step 3 of")
        suite.golden(s, "replay-120x40-step3")
        s.resize(80, 24)
        s.wait(r"step 3 of")
        suite.golden(s, "replay-80x24-step3")
        s.keys("g")
        if "space" in s.wait("› /goto").split("\n")[-2]:  # letters type now
            raise Failure(s.text())
        s.keys("Escape")
        s.wait("space play")
        s.keys("2", "Enter")
        hints = s.wait(r"^ logits +hash").split("\n")[-2]
        if "Enter" in hints or "pause" in hints:  # it takes no other token, zooms no more, and plays
            raise Failure(s.text())
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_resize(suite):
    """any size at any time: from tiny to large and back"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record")
        suite.ask(s, "a b c", 20)
        for width, height in ((20, 5), (300, 100), (21, 6), (40, 12), (100, 30), (80, 24)):
            s.resize(width, height)
            s.wait("^ ?you ›")
        s.resize(20, 5)
        s.wait("^ ?you ›")
        suite.golden(s, "chat-20x5")
        suite.quit(s)
    finally:
        s.close()


def test_ascii(suite):
    """an ASCII locale gets ASCII"""
    s = suite.screen(80, 24, LC_ALL="C")
    try:
        suite.chat(s, "--no-record")
        suite.ask(s, "a b c", 20)
        if not s.text().isascii():
            raise Failure("not ASCII:\n" + s.text())
        suite.golden(s, "chat-80x24-ascii")
        suite.quit(s)
    finally:
        s.close()


def test_typed_utf8(suite):
    """text beyond ASCII, typed and pasted, is on the screen and in the recording as it was sent"""
    sentence = "zé Größe 月亮 привет naïve 👍"
    pasted = "写一首关于月亮的诗。\nдва 🎉"
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "u.db", "--max-tokens", "4")
        s.type(sentence)
        s.wait("you › " + sentence)
        s.keys("BSpace", "BSpace", "BSpace", "é", "👍")
        s.wait("you › " + sentence[:-3] + "é👍")
        s.keys("Enter")
        s.wait(r"step 4\b")
        s.tmux("set-buffer", pasted)
        s.tmux("paste-buffer", "-p", "-t", "t")
        s.wait("два 🎉")
        s.keys("Enter")
        s.wait(r"step 8\b")
        suite.quit(s)
        turns = [bytes(text) for text, in rows(s, "u.db", "SELECT cast(text AS blob) FROM request ORDER BY seq")]
        if turns != [text.encode() for text in (sentence[:-3] + "é👍", pasted)]:
            raise Failure(f"the recording has {turns}")
    finally:
        s.close()


def test_linux_console(suite):
    """TERM=linux, whose terminfo has no size: the screens open, and nobody else writes on them"""
    s = suite.screen(80, 24)
    try:
        s.type("export TERM=linux")
        s.keys("Enter")
        suite.chat(s, "--no-record")
        suite.golden(s, "chat-80x24-first")
        suite.quit(s)
    finally:
        s.close()


def test_no_color(suite):
    """NO_COLOR: no colour reaches the terminal"""
    s = suite.screen(80, 24)
    try:
        s.type("export NO_COLOR=1")
        s.keys("Enter")
        suite.chat(s, "--no-record")
        suite.ask(s, "a b c", 20)
        raw = s.tmux("capture-pane", "-e", "-p", "-t", "t")
        colours = re.findall(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)(?:;\d+)*m", raw)
        if colours:
            raise Failure(f"colours: {colours[:5]}")
        suite.quit(s)
    finally:
        s.close()


def test_theme(suite):
    """/theme takes what --theme takes: light, none, and back to what the terminal says"""
    s = suite.screen(80, 24)

    def colours():
        return set(re.findall(r"[34]8[;:][\d;:]*\d", s.tmux("capture-pane", "-e", "-p", "-t", "t")))

    try:
        suite.chat(s, "--no-record")
        found = colours()
        for theme, good in (("light", lambda c: c and not c & found), ("mono", lambda c: not c), ("auto", lambda c: c == found)):
            s.type("/theme " + theme)
            s.keys("Enter")
            end = time.monotonic() + PATIENCE
            while not good(colours()):
                if time.monotonic() > end:
                    raise Failure(f"{theme}: {colours()}, at first {found}")
                time.sleep(0.04)
        suite.quit(s)
    finally:
        s.close()


def test_search(suite):
    """searches: the tree while it runs and when it is over, the chat goes on with the best, and a replay has the same"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--record", "s.db", "--temp", "0.8")
        for line, last in (("/search beam 4", "search is now beam:4"), ("/pause", "paused"), ("one two", "you one two"),
                           ("/step 8", r"step 8\b"), ("/view search", "steps")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.keys("C-o")
        s.wait("Esc back")
        suite.golden(s, "search-80x24-beam")
        s.keys("Escape", "Escape")
        s.wait("Esc back", gone=True)
        suite.golden(s, "search-80x24-chat")
        s.keys("F5")
        s.wait("beam:4: the best of")
        for line, last in (("/search best 3", "search is now best:3"), ("three", "best:3: the best of 3"),
                           ("/search mcts 8 2 4", "search is now mcts:8,2,4"), ("four", "mcts:8,2,4: the best of 8"),
                           ("/search off", "search is now off"), ("/fork 2", "2 futures"), ("/view search", "8 answers")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.keys("C-o")
        s.resize(120, 40)
        s.wait("pruned|visits")
        suite.golden(s, "search-120x40-mcts")
        s.type("[")
        s.wait("best:3")
        suite.golden(s, "search-120x40-best")
        s.type("[")
        s.wait("beam:4")
        suite.golden(s, "search-120x40-beam")
        suite.quit(s)
        suite.replay(s, "s.db")
        s.keys("End")
        s.type("/view search")
        s.keys("Enter")
        s.wait("8 answers")
        s.type("[[")
        s.wait("beam:4")
        live = open(os.path.join(GOLDEN, "search-120x40-beam.txt"), encoding="utf-8").read().split("\n")
        again = masked(s.text()).split("\n")
        if live[2:14] != again[2:14]:
            raise Failure("the replay's search is not the live one\n" + s.text())
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_search_stops(suite):
    """Esc ends a search: its pages are free, the question waits for another, and the chat goes on"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record", "--max-tokens", "100")
        for line, last in (("/search best 4", "search is now best:4"), ("/pause", "paused"), ("one two", "you one two"),
                           ("/step 5", r"step 5\b")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.type("/rewind -1")
        s.keys("Enter")
        s.wait("a search runs, whose branches do not go back")
        s.keys("Escape")
        s.wait("best:4 was stopped before it had an answer")
        s.wait("no answer: cancelled")
        s.wait("KV pages .* 0 of")
        for line, last in (("/pause", "paused"), ("/search off", "search is now off"), ("The cat sat on the", "you The cat")):
            s.type(line)
            s.keys("Enter")
            s.wait(last, gone=line == "/pause")
        s.wait(r"^ *ai +\S")
        suite.quit(s)
    finally:
        s.close()


def test_score_command(suite):
    """/score: a command scores while the screen goes on; one that hangs is ended by Ctrl-C, one that fails is reported"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--record", "j.db", "--max-tokens", "8")
        for line, last in (("/search best 3", "search is now best:3"),
                           ("/score echo $$ > pid; sleep 600", "score is now echo"), ("one", r"best:3: 0 run, 3 wait for a score"),
                           ("/temp 0.5", r"temp is now 0\.5")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        with open(os.path.join(s.folder, "pid"), encoding="ascii") as f:
            hung = int(f.read())
        s.keys("C-c")
        s.wait(r"stopped; \^C again quits")
        s.wait("no answer: cancelled")
        s.wait("KV pages .* 0 of")
        if os.path.exists(f"/proc/{hung}"):
            raise Failure("the command that hung lives on")
        # the message of the end comes after the answer's line: the roof is measured between the two
        for line, last in (("/score echo 'no idea' >&2; exit 3", "score is now"), ("two", "best:3: .* ended with status 3: no idea"),
                           ("/score echo good", "score is now"), ("three", 'best:3: .* gave no number, but "good'),
                           ("/score wc -c", "score is now wc -c"), ("four", r"by wc -c: the best of 3 answers, score \d+;"),
                           ("/score off", "score is now off")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        suite.quit(s)
        with sqlite3.connect(os.path.join(s.folder, "j.db")) as db:
            judges = [x for x, in db.execute("SELECT judge FROM search WHERE action = 0 ORDER BY seq")]
            scores = [x for x, in db.execute("SELECT score FROM search WHERE action = 3")]
        if [x.split()[0] for x in judges] != ["echo", "echo", "echo", "wc"]:
            raise Failure(f"the log's judges: {judges}")
        if len(scores) != 3 or any(x != int(x) or x < 1 for x in scores):
            raise Failure(f"the log's scores: {scores}")
        suite.replay(s, "j.db")
        s.keys("End")
        s.type("/view search")
        s.keys("Enter")
        s.wait("scored by wc -c .* 3 answers")
        s.wait(f"won: 'wc -c' gave it {max(scores):.0f};")
        s.type("[[[")
        s.wait("scored by echo .* cancelled")
        s.wait("it has no score from 'echo")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_spec_views(suite):
    """what guesses: lookahead's window with what entered its pool, trees with the verdicts of both rules, Jacobi's guesses"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record", "--spec", "lookahead:3,3,2")
        for line, last in (("/pause", "paused"), ("one two one two one two one", "you one two"), ("/step 9", r"step 9\b"),
                           ("/view spec", r"\^O")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.keys("C-o")
        s.wait("Enter zoom")
        s.keys("Enter")
        s.wait("entered")
        suite.golden(s, "spec-80x24-lookahead")
        s.resize(200, 50)
        s.wait("downwards, enters the pool")
        suite.golden(s, "spec-200x50-lookahead")
        s.keys("F10")
        s.wait(r"step 10\b")
        suite.golden(s, "spec-200x50-lookahead-next")
    finally:
        s.close()
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record", "--spec", "jacobi:4", "--rule", "rejection", "--temp", "1")
        for line, last in (("/pause", "paused"), ("three four", "you three"), ("/step 8", r"step 8\b"),
                           ("/view spec", r"\^O")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.keys("C-o")
        s.wait("Enter zoom")
        s.keys("Enter")
        s.wait("guessed")
        suite.golden(s, "spec-80x24-jacobi")
    finally:
        s.close()


SPECULATION_SQL = """
WITH since AS (SELECT max(seq) AS seq FROM setting WHERE name IN ('spec', 'rule')),
     decode AS (SELECT step, tokens FROM step WHERE prefill_rows = 0 AND seq > (SELECT seq FROM since)),
     guess AS (SELECT depth, max(verdict = 0) AS kept FROM draft JOIN decode USING (step)
               WHERE verdict <> 2 GROUP BY step, request, depth)
SELECT printf('%.2f tokens a step', 1.0 * (SELECT sum(tokens) FROM decode) /
              (SELECT count(*) FROM batch JOIN decode USING (step)))
UNION ALL SELECT printf('%d steps', count(*)) FROM decode
UNION ALL SELECT * FROM (SELECT printf('%d of %d', sum(kept), count(*)) FROM guess GROUP BY depth ORDER BY depth)
"""


def test_speculation_numbers(suite):
    """the numbers of speculation are of the drafter in the head alone, those that SQL finds in the log, and a replay's"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "s.db", "--spec", f"draft:{suite.model},4,4,12", "--page-size", "16")
        for line, last in (("one two", "limit of 20 tokens"), ("/spec jacobi:4", "spec is now jacobi"),
                           ("/pause", "paused"), ("three four", "you three four"), ("/step 18", r"step 20\b"),
                           ("/view spec", r"\^O")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        s.keys("C-o")
        s.wait("Enter zoom")
        s.keys("Enter")
        live = s.wait("acceptance rate")
        s.keys("Escape", "Escape")
        s.wait("Esc back", gone=True)
        suite.quit(s)
        with sqlite3.connect(f"file:{s.folder}/s.db?mode=ro", uri=True) as db:
            expected = [row[0] for row in db.execute(SPECULATION_SQL)]
        suite.replay(s, "s.db")
        s.keys("End")
        s.type("/view spec")
        s.keys("Enter")
        s.wait("Enter zoom")
        s.keys("Enter")
        again = s.wait("acceptance rate")
        for name, screen in (("live", live), ("replay", again)):
            for text in expected + ["jacobi:4 ·"]:
                if not re.search(rf"(?<!\d){re.escape(text)}(?!\d)", screen):
                    raise Failure(f"{name}: no '{text}' of {expected} in\n{screen}")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_shadow_view(suite):
    """who would have guessed best: the drafters view"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record")
        for line, last in (("/shadow ngram:3+lookahead:2,2,2", "shadow is now"), ("one two one two one", r"step 20\b"),
                           ("/view drafters", "ngram:3")):
            s.type(line)
            s.keys("Enter")
            s.wait(last)
        screen = s.text()
        for words in ("plain decoding", "ngram:3", "lookahead:2,2,2", "predicted"):
            if words not in screen:
                raise Failure(f"no '{words}':\n" + screen)
    finally:
        s.close()


def modes(screen, mark):
    screen.type(f"clear; stty -g; echo {mark}")
    screen.keys("Enter")
    return re.search(r"^([0-9a-f:]{20,})$", screen.wait(f"^{mark}$"), re.M).group(1)


def test_terminal_is_left_as_found(suite):
    """quitting, Ctrl-Z, SIGTERM, SIGHUP and a crash leave the terminal as it was"""
    s = suite.screen(80, 24)
    try:
        s.type("set -m")
        s.keys("Enter")
        before = modes(s, "before")
        suite.chat(s, "--no-record")
        s.keys("C-z")
        s.wait("Stopped|^\\[1\\]")
        if modes(s, "stopped") != before:
            raise Failure("modes after Ctrl-Z")
        s.type("fg")
        s.keys("Enter")
        s.wait("F1 explain")
        suite.quit(s)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT):
            suite.chat(s, "--no-record")
            os.kill(s.pid(), number)
            s.wait(r"^\$$")
            if "F1" in s.text():
                raise Failure(f"signal {number}: the screen was left as it was\n{s.text()}")
            if modes(s, f"after{int(number)}") != before:
                raise Failure(f"signal {number}: modes")
    finally:
        s.close()


def test_recording_is_whole(suite):
    """after SIGTERM in the middle of an answer the recording replays"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--record", "t.db", "--max-tokens", "400")
        s.type("go on for long")
        s.keys("Enter")
        s.wait(r"step \d+")
        os.kill(s.pid(), signal.SIGTERM)
        s.wait(r"^\$$")
        left = [name for name in os.listdir(s.folder) if name.startswith("t.db")]
        if left != ["t.db"]:
            raise Failure(f"files: {left}")
        suite.replay(s, "t.db")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_follow(suite):
    """a second terminal waits for a recording, follows it as it is written, goes back, returns, and is told of its end"""
    s, watcher = suite.screen(80, 24), suite.screen(80, 24)
    try:
        watcher.type("clear; " + suite.command("replay", "--follow", os.path.join(s.folder, "f.db")))
        watcher.keys("Enter")
        watcher.wait("waiting for it")
        suite.chat(s, "--record", "f.db")
        suite.ask(s, "the first turn", 20)
        watcher.wait("the first turn")
        watcher.wait("following")
        suite.ask(s, "another turn", 40)
        watcher.wait("another turn")
        watcher.keys("Home")
        watcher.wait("step 0 of")
        watcher.wait("following", gone=True)
        suite.ask(s, "the third one", 60)
        watcher.keys("End")
        watcher.wait("the third one")
        suite.quit(s)
        watcher.wait("the session has ended")
        watcher.wait("following", gone=True)
        watcher.type("q")
        watcher.wait(r"^\$$")
        if rows(s, "f.db", "SELECT count(*) FROM closed") != [(1,)] or rows(s, "f.db", "PRAGMA quick_check") != [("ok",)]:
            raise Failure("the recording is not whole")
    finally:
        watcher.close()
        s.close()


def rows(screen, name, query):
    """Of a recording, read-only."""
    db = sqlite3.connect(f"file:{os.path.join(screen.folder, name)}?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_travel(suite):
    """a chat goes back: earlier steps, the engine itself, another token, branches, and nothing is lost"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "b.db", "--max-tokens", "60", "--ctx", "512")
        suite.ask(s, "one two three", 60)
        s.wait("limit of 60 tokens")
        s.keys("F9", "F9", "F9")
        s.wait("the past: step 57 of 60")
        suite.golden(s, "travel-120x40-past")
        s.keys("F10")
        s.wait("the past: step 58 of 60")
        s.type("/goto 20")
        s.keys("Enter")
        s.wait("the past: step 20 of 60")
        s.keys("F5")
        s.wait("request b goes on from position")
        s.wait(r"step 100\b")
        first, again = (rows(s, "b.db", f"SELECT pos, id, hash FROM token WHERE request = {r} ORDER BY seq")
                        for r in (1, 2))
        if len(again) != 40 or again != first[-40:]:
            raise Failure(f"not the same tokens and bits again:\n{first[-40:]}\n{again}")
        s.type("/rewind -30")
        s.keys("Enter")
        s.wait("F5 goes on, /undo returns")
        s.type("/temp 2")
        s.keys("Enter")
        s.wait("temp is now 2")
        s.keys("F5")
        s.wait("changed: temp 0 to 2")
        s.wait(r"step 130\b")
        s.type("/undo")  # behind the request that was forked before it drew anything
        s.keys("Enter")
        s.wait("stands after position")
        s.type("/rewind turn 1")
        s.keys("Enter")
        s.wait("F5 goes on")
        s.type("/try #300")
        s.keys("Enter")
        s.wait(r"step 189\b")
        s.type("/tree")
        s.keys("Enter")
        s.wait("Enter goes to one")
        s.keys("C-o")
        s.wait("Enter go there")
        suite.golden(s, "travel-120x40-tree")
        s.resize(80, 24)
        s.wait("Enter goes to one")
        suite.golden(s, "travel-80x24-tree")
        s.resize(120, 40)
        s.keys("Up", "Up", "Up", "Up", "Up", "Up", "Enter")
        s.wait("stands after position")
        s.type("l")
        s.wait("same bits as in the log")
        suite.golden(s, "travel-120x40-lens")
        s.keys("Escape", "Escape")
        s.wait("Esc back", gone=True)
        s.type("and then")
        s.keys("Enter")
        s.wait("and then")
        s.wait("limit of 60 tokens")
        suite.quit(s)
        forced = rows(s, "b.db", "SELECT id FROM token WHERE source = 4")
        if forced or rows(s, "b.db", "SELECT forced FROM fork WHERE forced IS NOT NULL") != [(300,)]:
            raise Failure(f"the token that was tried: {forced}")
        suite.replay(s, "b.db")
        s.keys("End")
        s.type("t")
        s.wait("Enter goes to one")
        s.keys("Up", "Enter")
        s.wait(r"step \d+ of")
        s.type("l")
        s.wait("same bits as in the log")
        os.rename(suite.model, suite.model + ".away")
        try:
            s.type("q")
            s.wait(r"^\$$")
            suite.replay(s, "b.db")
            s.keys("End")
            s.type("l")
            s.wait("a look needs the model of this recording")
            shutil.copy(os.path.join(ROOT, "README.md"), suite.model)
            s.type("l")
            s.wait("is not the model that was recorded")
            # the same file elsewhere, named: only its hash counts
            s.type("q")
            s.wait(r"^\$$")
            suite.replay(s, "b.db", "--model", suite.model + ".away")
            s.keys("End")
            s.type("l")
            s.wait("same bits as in the log")
        finally:
            os.replace(suite.model + ".away", suite.model)
        # why answers for the step that is shown
        s.keys("Escape", "Escape")
        s.type("/goto 20")
        s.keys("Enter")
        s.wait(r"step 20 of")
        s.type("/why slow")
        s.keys("Enter")
        s.wait("Step 20 took")
        s.keys("Escape")
        s.type("/why")
        s.keys("Enter")
        s.wait("/why slow +STEP or REQUEST:POS  why a step")
        s.keys("Escape")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_rewind_costs_one_row(suite):
    """500 tokens back while the answer runs: nothing is computed again but the newest row, and the same tokens come"""
    s = suite.screen(80, 24)
    try:
        model = os.path.join(s.folder, "long.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "2048", "--seed", "4",
                        model], check=True)  # one whose answer does not end early
        s.type("clear; " + suite.command("chat", "--model", model, "--record", "c.db", "--max-tokens", "0", "--greedy",
                                            "--loops", "run"))
        s.keys("Enter")
        s.wait(r"\brec\b")
        s.keys("F5")
        s.wait("paused")
        s.type("say much")
        s.keys("Enter")
        s.wait("waiting")
        s.type("/step 700")
        s.keys("Enter")
        s.type("/rewind -5000")  # refused while the steps run, which go on to the 700th and no further
        s.keys("Enter")
        s.wait(r"(?<!/)step 700\b")
        s.type("/rewind -500")
        s.keys("Enter")
        s.wait("500 tokens")
        s.type("/step 520")
        s.keys("Enter")
        s.wait(r"(?<!/)step 1220\b")
        suite.quit(s)
        had, kept, recompute = rows(s, "c.db", "SELECT had, kept, recompute FROM rewind")[0]
        if had - kept != 500 or recompute != 1:
            raise Failure(f"had {had}, kept {kept}, recompute {recompute}")
        computed, = rows(s, "c.db", "SELECT sum(prefill_rows) FROM step WHERE seq > (SELECT seq FROM rewind)")[0]
        if computed > 1:
            raise Failure(f"{computed} rows were computed again as a prompt")
        copied, = rows(s, "c.db", "SELECT count(*) FROM page WHERE action = 2")[0]
        if copied > 1:  # the page that is gone back into, since the cache keeps it as it was
            raise Failure(f"{copied} pages were copied")
        differ = rows(s, "c.db", "SELECT a.pos FROM token a JOIN token b ON a.pos = b.pos AND a.seq < b.seq "
                                 "WHERE a.id != b.id OR a.hash != b.hash")
        same, = rows(s, "c.db", "SELECT count(*) FROM token a JOIN token b ON a.pos = b.pos AND a.seq < b.seq")[0]
        if differ or same < 500:
            raise Failure(f"{same} tokens came again, of them other ones at {differ[:5]}")
    finally:
        s.close()


def test_commands_file(suite):
    """--commands: turns and commands from a file, each when the one before is done"""
    s = suite.screen(80, 24)
    script = os.path.join(s.folder, "script")
    try:
        with open(script, "w", encoding="ascii") as f:
            f.write("# a demonstration\n/max-tokens 8\nfirst turn\n/seed 7\nsecond turn\n/save talk.txt\n/quit\n")
        s.type("clear; " + suite.command("chat", "--model", suite.model, "--greedy", "--no-record",
                                         "--commands", script))
        s.keys("Enter")
        s.wait(r"^\$$")
        with open(os.path.join(s.folder, "talk.txt"), encoding="utf-8", errors="replace") as f:
            talk = f.read()
        if not re.search(r"you: first turn\n\nai: .*you: second turn\n\nai: .", talk, re.S):
            raise Failure(talk)
    finally:
        s.close()


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def test_export(suite):
    """/export: a picture of what is looked at, live and in a replay the same as from the recording; never over a file"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "s.db")
        suite.ask(s, "The cat sat on the mat. The cat sat on the", 20)
        for words, said in (("next.svg next 80x24", "next token at step 20, 80x24 cells"),
                            ("next.svg pages", "next.svg exists already: choose another name"),
                            ("x.gif", "a picture is FILE.svg or FILE.png"),
                            ("x.svg nonsense", "none is called so; there are chat next"),
                            ("x.svg 3x3", "from 20x5 to 500x200"),
                            ("none/x.svg", "none/x.svg: no file can be made there"),
                            ("a screen.svg screen", "the screen at step 20, 120x40 cells, was drawn in a screen.svg")):
            s.type("/export " + words)
            s.keys("Enter")
            s.wait(said.replace(" ", r"\s+"))
        s.type("/export next.s")  # the file's name, then a view, completed
        s.keys("Tab")
        s.wait(r"/export next\.svg")
        s.keys("C-u")
        s.type("/view pages")
        s.keys("Enter", "C-o")
        s.wait("Esc back")
        s.keys("/")
        s.type("export focus.svg")
        s.keys("Enter")
        s.wait(r"KV pages at step 20")
        s.keys("Escape")
        s.wait("Esc back", gone=True)
        s.type("/back 15")
        s.keys("Enter")
        s.wait("the past: step 5")
        s.type("/export past.svg next 80x24")
        s.keys("Enter")
        s.wait("next token at step 5")
        suite.quit(s)
        suite.replay(s, "s.db")
        s.wait("step 20 of 20")
        s.keys("/")
        s.type("export replay.svg next 80x24")
        s.keys("Enter")
        s.wait("next token at step 20")
        s.keys("q")
        s.wait(r"^\$$")
        s.type(" && ".join(suite.command("export", "s.db", "--view", "next", "--at", at, "-o", name)
                           for at, name in (("5", "5.svg"), ("end", "end.svg"))) + "; echo done")
        s.keys("Enter")
        s.wait(r"^done$")
        if not read(s.folder, "next.svg") == read(s.folder, "replay.svg") == read(s.folder, "end.svg"):
            raise Failure("the picture of a live session is another than that of its recording")
        if read(s.folder, "past.svg") != read(s.folder, "5.svg"):
            raise Failure("the picture of an earlier step is another than that of the recording")
        if b">KV pages<" not in read(s.folder, "focus.svg") or b">cutaway<" not in read(s.folder, "a screen.svg"):
            raise Failure("a picture without its head")
        if os.path.exists(os.path.join(s.folder, "x.svg")):
            raise Failure("a refused picture left a file")
    finally:
        s.close()


def test_no_terminal(suite):
    """without a terminal, or on a dumb one, there is a clear error"""
    run = [os.path.join(ROOT, "cutaway"), "chat", "--model", suite.model, "--no-record"]
    done = subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 2 or "need a terminal" not in done.stderr or "'cutaway run' works" in done.stderr:
        raise Failure(f"{done.returncode} {done.stderr}")
    s = suite.screen(80, 24)
    try:
        s.type("clear; TERM=dumb " + " ".join(shlex.quote(a) for a in run) + "; echo status $?")
        s.keys("Enter")
        if "TERM=dumb cannot show screens" not in s.wait("status 2").replace("\n", ""):
            raise Failure(s.text())
    finally:
        s.close()


def main(space):
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    tests = [(n[5:], f) for n, f in space.items() if n.startswith("test_") and (not names or n[5:] in names)]
    if not shutil.which("tmux"):
        print("1..0 # SKIP tmux is not installed")
        return 0
    suite, failed = Suite("--update" in sys.argv), 0
    print(f"1..{len(tests)}")
    for i, (name, test) in enumerate(tests, 1):
        try:
            test(suite)
            print(f"ok {i} - {test.__doc__}")
        except Failure as e:
            failed += 1
            print(f"not ok {i} - {test.__doc__}")
            print("\n".join("# " + line for line in str(e).split("\n")))
        sys.stdout.flush()
    shutil.rmtree(suite.folder, ignore_errors=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(globals()))
