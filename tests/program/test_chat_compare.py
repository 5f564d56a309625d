#!/usr/bin/env python3
"""/compare in a chat and the screen of `cutaway compare`, in a real terminal (tmux): its table, what it leaves of settings and conversation, a stop, and
what is said of wrong words. Speaks TAP; names as arguments run only these. Only the standard library.
"""
import re
import subprocess
import sys
import time

from screens import PATIENCE, Failure, main, rows


def enter(screen, text):
    screen.type(text)
    screen.keys("Enter")


def now(screen, name):
    """A setting as it stands at the end of the recording."""
    return rows(screen, "c.db", f"SELECT value FROM setting WHERE name = '{name}' ORDER BY seq DESC LIMIT 1")[0][0]


def test_table(suite):
    """the last turn by turns under both, its table, the settings of before, and the conversation goes on"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "c.db")
        suite.ask(s, "go on and go on and go on and", 20)
        enter(s, "/compare 'temp=0' \"--page-size 32 spec=ngram:4\"")
        s.wait("texts: equal in 6 of 6 pairs")
        for word in ("A  temp=0", "B  --page-size 32 spec=ngram:4", "6 pairs of answers to 1 prompt", "perplexity of A"):
            s.wait(word)
        shown = s.text()
        s.keys("Escape")
        s.wait("key closes", gone=True)
        s.wait("the comparison is over; all settings are as before it")
        enter(s, "/page-size")
        s.wait("page-size is 16")
        enter(s, "and then")
        s.wait(r"(?s)you go on and.*you and then.*limit")
        suite.quit(s)
        if now(s, "page-size") != "16" or now(s, "spec") != "off" or now(s, "compare") != "off":
            raise Failure("settings were not put back")
        kinds = rows(s, "c.db", "SELECT kind, count(*) FROM request GROUP BY kind ORDER BY kind")
        if kinds != [(0, 2), (2, 14), (4, 2)]:
            raise Failure(f"requests: {kinds}")
        found, = rows(s, "c.db", "SELECT max(hit) FROM lookup JOIN request USING (request) WHERE kind = 2")[0]
        if found:
            raise Failure(f"{found} tokens of a prompt came from the prefix cache")
        table = subprocess.run(suite.command("compare", "c.db"), shell=True, cwd=s.folder, capture_output=True, text=True)
        if table.returncode or not all(line.strip() in shown for line in table.stdout.splitlines() if "%" in line or "GB" in line):
            raise Failure(f"{table.stdout}{table.stderr}\nis not\n{shown}")
    finally:
        s.close()


def test_stop(suite):
    """Ctrl-C stops it, and the settings are put back; another one begins anew"""
    s = suite.screen(100, 30)
    try:
        suite.chat(s, "--record", "c.db")
        s.keys("F5")
        s.wait("paused")
        enter(s, "/compare page-size=32 page-size=64 'some words'")
        s.wait("comparing: answer 1 of 14")
        s.keys("C-c")
        s.wait("the comparison was stopped; all settings are as before it")
        s.keys("F5")
        s.wait("paused", gone=True)
        enter(s, "/page-size")
        s.wait("page-size is 16")
        enter(s, "/compare '' temp=2 'some words'")
        s.wait("texts: equal in 0 of 6 pairs")
        s.keys("Escape")
        s.wait("key closes", gone=True)
        suite.quit(s)
        if now(s, "page-size") != "16":
            raise Failure("page-size was not put back")
    finally:
        s.close()


def test_wrong_words(suite):
    """a wrong setting is told with its side and name, and nothing is begun"""
    s = suite.screen(120, 30)
    try:
        suite.chat(s, "--record", "c.db")
        for typed, said in (("", "needs|/compare 'A' 'B'"), ("spec=off", "/compare 'A' 'B' .PROMPT.: A and B are settings"),
                            ("'' ''", "there is no turn yet"), ("spce=off '' x", "/compare: A: there is no setting spce"),
                            ("'' page-size=17 x", "/compare: B: page-size 17: a whole number"),
                            ("'' ctx=99 x", "/compare: B: ctx is fixed when the model is opened"),
                            ("'' temp x", "/compare: B: temp needs a value"),
                            ("'' system=x x", "/compare: B: system cannot be compared here"),
                            ("'' spec=nonsense x", "no drafter is called 'nonsense'")):
            enter(s, f"/compare {typed}")
            s.wait(said)
        suite.quit(s)
        begun = rows(s, "c.db", "SELECT count(*) FROM request WHERE kind != 2")[0][0]
        if begun:
            raise Failure(f"{begun} requests were begun")
    finally:
        s.close()


def test_not_recorded(suite):
    """without a recording there is no table, and it says so"""
    s = suite.screen(100, 30)
    try:
        suite.chat(s, "--no-record")
        enter(s, "/compare '' '' x")
        s.wait("this session is not recorded")
        suite.quit(s)
    finally:
        s.close()


def test_live(suite):
    """`cutaway compare` on a terminal: two columns and the table while it runs, then the table in the shell"""
    s = suite.screen(80, 24)
    try:
        words = suite.command("compare", "--model", suite.model, "--no-record", "--greedy", "spec=off", "spec=ngram:4", "one two",
                              "three four")
        enter(s, f"clear; {words}; echo status $?")
        s.wait("over; q prints the table")
        for word in ("A spec=off", "B spec=ngram:4", "three four", "tokens a second", r"98.\d % range|96.\d % range", "perplexity of A"):
            s.wait(word)
        s.keys("p")
        s.wait("one two")
        s.keys("q")
        s.wait("texts: equal in 12 of 12 pairs")
        s.wait("status 0")
        enter(s, f"clear; {words} --max-tokens 400 --repeat 1000; echo status $?")
        end = time.monotonic() + PATIENCE
        while not re.search(r"run \d+ of 1000", s.text()) and time.monotonic() < end:
            time.sleep(0.1)  # wait() wants a screen that stands still
        s.keys("C-c")
        s.wait("status 130")
    finally:
        s.close()


if __name__ == "__main__":
    sys.exit(main(globals()))
