#!/usr/bin/env python3
"""A conversation that is taken up again (chat --continue) is the one that would have gone on. In a real terminal (tmux), on
a tiny random model. Speaks TAP; `tests/program/test_chat_continue.py NAME …` runs only these. Only the standard library.
"""
import contextlib
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import time

from screens import PATIENCE, ROOT, Failure, main


def rows(path, sql):
    db = sqlite3.connect(path)
    try:
        return db.execute(sql).fetchall()
    finally:
        db.close()


def talk(suite, screen, record, lines, *args, model=None, limit=True):
    """A chat that says these lines, one after the other, and ends; what the terminal has then."""
    with open(os.path.join(screen.folder, "lines"), "w", encoding="utf-8") as f:
        f.write("".join(line + "\n" for line in (*lines, "/quit")))
    screen.type("clear; " + suite.command("chat", "--commands", "lines", "--record", record,
                                          *(["--max-tokens", "9"] if limit else []),
                                          *(["--model", model or suite.model] if model != "" else []), *args)
                + "; echo status $?")
    screen.keys("Enter")
    return screen.wait(r"^status \d+")


def say(suite, screen, record, lines, *args):
    """A chat that says these lines as typed, each when so many requests have ended, and ends."""
    screen.type("clear; " + suite.command("chat", "--model", suite.model, "--max-tokens", "9", "--record", record, *args)
                + "; echo status $?")
    screen.keys("Enter")
    screen.wait("● rec")
    for line, ended in lines:
        screen.type(line)
        screen.keys("Enter")
        end = time.monotonic() + PATIENCE
        while rows(file(screen, record), "SELECT count(*) FROM finish") != [(ended,)]:
            if time.monotonic() > end:
                raise Failure(f"{line}: not {ended} answers\n{screen.text()}")
            time.sleep(0.1)
    suite.quit(screen)


def newest(path):
    """Prompt, and position, id, hash and p of each token, of the newest answer."""
    request, prompt = rows(path, "SELECT request, prompt FROM request ORDER BY seq DESC LIMIT 1")[0]
    return (struct.unpack(f"<{len(prompt) // 4}i", prompt),
            rows(path, f"SELECT pos, id, hash, p, p_draw FROM token WHERE request = {request} ORDER BY seq"))


def expect(what, good, more=""):
    if not good:
        raise Failure(f"{what}\n{more}")


def same(a, b, what):
    expect(what, a == b, f"{a}\n{b}")


def file(screen, name):
    return os.path.join(screen.folder, name)


def verified(suite, screen, name):
    return verified_by(screen, suite.model, name)


def verified_by(screen, model, name):
    done = subprocess.run([os.path.join(ROOT, "cutaway"), "verify", "--model", file(screen, model), file(screen, name)],
                          env=screen.env, capture_output=True, text=True, check=False)
    expect(f"verify {name}", done.returncode == 0, done.stdout + done.stderr)
    return done.stdout


SAID = ("--temp", "0.9", "--seed", "5", "--system", "Be brief.", "--spec", "ngram:3", "--stop", 'q"\\n', "--stop", "Größe\x02",
        "--visible", "sinks:4+window:64", "--logit-bias", "40:2.5,300:-100", "--user", "Größe", "--priority", "-3",
        "--deadline", "400")
TURNS = ("SELECT temperature, top_k, seed, stop, spec, max_tokens, logit_bias, user, priority, deadline FROM request"
         " ORDER BY seq DESC")
OF_REQUEST = TURNS + " LIMIT 1"


def test_goes_on(suite):
    """a conversation in two sessions has the prompt, tokens, hashes and settings of one that never stopped"""
    s = suite.screen(100, 30)
    try:
        lines = ("one two one two", "/temp 0.6", "three", "/top-k 30", "/user al", "/deadline 70")
        talk(suite, s, "whole.db", (*lines, "four"), *SAID)
        talk(suite, s, "a.db", lines, *SAID)
        talk(suite, s, "quiet.db", (), "--continue", "a.db", model="", limit=False)
        expect("a session in which nothing was said has the settings of each turn",
               rows(file(s, "quiet.db"), TURNS) == rows(file(s, "a.db"), TURNS))
        talk(suite, s, "later.db", ("four",), "--continue", "quiet.db", "--user", "al", "--deadline", "70", "--top-k", "30",
             model="", limit=False)
        same(newest(file(s, "whole.db")), newest(file(s, "later.db")), "the third turn, two sessions later")
        talk(suite, s, "b.db", ("four",), "--continue", "a.db", model="", limit=False)
        same(newest(file(s, "whole.db")), newest(file(s, "b.db")), "the third turn")
        for sql in (OF_REQUEST, "SELECT value FROM setting WHERE name = 'visible' ORDER BY seq DESC LIMIT 1"):
            same(rows(file(s, "whole.db"), sql), rows(file(s, "b.db"), sql), sql)
        same(rows(file(s, "b.db"), "SELECT value FROM setting WHERE name = 'continues'"),
             [(os.path.realpath(file(s, "a.db")),)], "names the one before")
        same(rows(file(s, "b.db"), "SELECT request, pos, id, hash FROM token WHERE source = 7 ORDER BY seq"),
             rows(file(s, "a.db"), "SELECT request, pos, id, hash FROM token ORDER BY seq"), "has its tokens")
        expect("verify says whose they are", "of an earlier session" in verified(suite, s, "b.db"))
        done = subprocess.run([os.path.join(ROOT, "cutaway"), "whatif", file(s, "b.db")], env=s.env,
                              capture_output=True, text=True, check=False)
        expect("whatif runs what ran", "every count is that of the log" in done.stdout, done.stdout + done.stderr)
        say(suite, s, "c.db", (("/rewind turn 2", 3), ("another way", 5)), "--continue", "b.db", "--temp", "0")
        prompt, _ = newest(file(s, "c.db"))
        first = rows(file(s, "c.db"), "SELECT n_prompt FROM request WHERE request = 1")[0][0]
        second = rows(file(s, "c.db"), "SELECT prompt FROM request WHERE request = 2")[0][0]
        ids = struct.unpack(f"<{len(second) // 4}i", second)
        expect("continued twice, it goes back to after its first turn", prompt[:first + 9] == ids[:first + 9] and
               prompt[:len(ids)] != ids, f"{prompt}\n{ids}")
        same(rows(file(s, "c.db"), "SELECT temperature, top_k FROM request ORDER BY seq DESC LIMIT 1"), [(0.0, 30)],
             "what is given goes before what was recorded")
        verified(suite, s, "c.db")
    finally:
        s.close()


THINKS = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}")


def make_model(s, template):
    with open(file(s, "t.jinja"), "w", encoding="utf-8") as f:
        f.write(template)
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--template", file(s, "t.jinja"), file(s, "t.gguf")], check=True)


def test_thoughts(suite):
    """a template that opens answers otherwise than it writes those of before: the turns stay one conversation, and go on"""
    s = suite.screen(100, 40)
    try:
        make_model(s, THINKS)
        lines = ("one two one two", "three", "four")
        talk(suite, s, "a.db", lines[:2], model="t.gguf")
        talk(suite, s, "b.db", lines[2:], "--continue", "a.db", model="")
        talk(suite, s, "whole.db", lines, model="t.gguf")
        same(newest(file(s, "whole.db")), newest(file(s, "b.db")), "the third turn")
        s.type("clear; " + suite.command("replay", "b.db"))
        s.keys("Enter", "End")
        text = s.wait("you four")
        expect("all turns are shown as one conversation", "you three" in text and "a new conversation" not in text, text)
        s.keys("C-d")
        verified_by(s, "t.gguf", "b.db")
    finally:
        s.close()


TODAY = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant {{ strftime_now('%d %m %Y') }}\n{% endif %}")


def test_day(suite):
    """the day that a template shows is the session's, is in the log, and is that of the conversation when it goes on"""
    s = suite.screen(100, 40)
    try:
        make_model(s, TODAY)
        said = "SELECT value FROM setting WHERE name = 'date'"
        talk(suite, s, "a.db", ("one two",), "--date", "2026-07-31", model="t.gguf")
        same(rows(file(s, "a.db"), said), [("2026-07-31",)], "the day in the log")
        talk(suite, s, "b.db", ("three",), "--continue", "a.db", model="")
        same(rows(file(s, "b.db"), said), [("2026-07-31",)], "the day of the conversation")
        talk(suite, s, "whole.db", ("one two", "three"), "--date", "2026-07-31", model="t.gguf")
        same(newest(file(s, "whole.db")), newest(file(s, "b.db")), "the second turn")
        before = time.strftime("%Y-%m-%d")
        talk(suite, s, "c.db", ("one",), model="t.gguf")
        expect("without --date it is this day", rows(file(s, "c.db"), said)[0][0] in (before, time.strftime("%Y-%m-%d")))
        text = talk(suite, s, "d.db", (), "--date", "2026-02-30", model="t.gguf")
        expect("no such day: exit 2, and how it is written", "status 2" in text and "as 2026-07-31" in text, text)
    finally:
        s.close()


def test_branch(suite):
    """of several branches the one in use last goes on; of forks the last"""
    s = suite.screen(100, 30)
    try:
        branch = (("one two one two", 1), ("three", 2), ("/rewind turn 2", 2), ("other", 4))
        say(suite, s, "whole.db", (*branch, ("five", 5)))
        say(suite, s, "a.db", branch)
        talk(suite, s, "b.db", ("five",), "--continue", "a.db")
        same(newest(file(s, "whole.db")), newest(file(s, "b.db")), "the turn after the branch")
        same([t for t, in rows(file(s, "b.db"), "SELECT text FROM request ORDER BY seq")],
             ["one two one two", "other", "five"], "its turns")
        talk(suite, s, "wf.db", ("one two", "/fork 3", "five"), "--temp", "1")
        talk(suite, s, "af.db", ("one two", "/fork 3"), "--temp", "1")
        talk(suite, s, "bf.db", ("five",), "--continue", "af.db")
        same(newest(file(s, "wf.db")), newest(file(s, "bf.db")), "the turn after forks")
        talk(suite, s, "ar.db", ("one two", "/fork @-4"), "--temp", "1")
        talk(suite, s, "wr.db", ("one two", "/fork @-4", "five"), "--temp", "1")
        talk(suite, s, "br.db", ("five",), "--continue", "ar.db")
        same(newest(file(s, "wr.db")), newest(file(s, "br.db")), "the turn after a fork within an answer")
        same(rows(file(s, "br.db"), "SELECT count(*) FROM request")[0], (2,), "which is one turn")
    finally:
        s.close()


def test_newest(suite):
    """without FILE it is the newest with a conversation; a number and the beginning of a name will do; the screens show it"""
    s = suite.screen(100, 30)
    try:
        folder = os.path.join(s.folder, "cutaway", "sessions")
        os.makedirs(folder)
        talk(suite, s, os.path.join(folder, "talk.db"), ("remember this",))
        subprocess.run([os.path.join(ROOT, "cutaway"), "run", "--model", suite.model, "--max-tokens", "3", "hello"],
                       env=s.env, stdout=subprocess.DEVNULL, check=True)
        for what in ((), ("2",), ("tal",)):
            s.type("clear; " + suite.command("chat", "--model", suite.model, "--no-record", "--continue", *what))
            s.keys("Enter")
            text = s.wait("talk.db goes on: 1 turn, ")
            expect("the screen shows the earlier turn", re.search(r"you +remember this", text), text)
            suite.quit(s)
    finally:
        s.close()


def test_refused(suite):
    """another model, a file without a conversation, a damaged or lying one: each a clear error, and no recording is left"""
    s = suite.screen(100, 30)

    def refused(why, *args, **more):
        text = talk(suite, s, "x.db", (), *args, **more)
        expect(why, re.search(why, text.replace("\n", "")) and not re.search("^status 0", text, re.M), text)
        expect("no recording is left", not os.path.exists(file(s, "x.db")) or "context" in why)

    def changed(name, *sql):
        shutil.copy(file(s, "a.db"), file(s, name))
        db = sqlite3.connect(file(s, name))
        for one in sql:
            db.execute(one)
        db.commit()
        db.close()

    try:
        other = file(s, "other.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--seed", "9", other], check=True)
        talk(suite, s, "a.db", ("one two", "three"))
        refused("SHA-256", "--continue", "a.db", model=other)
        refused("No such file", "--continue", "nothing.db")
        refused("no recording with a conversation", "--continue")
        subprocess.run([os.path.join(ROOT, "cutaway"), "run", "--model", suite.model, "--record", file(s, "run.db"),
                        "hello"], stdout=subprocess.DEVNULL, check=True)
        refused("no conversation in it", "--continue", "run.db")
        refused("SQLite", "--continue", "lines")
        changed("short.db", "UPDATE request SET n_prompt = 3")
        refused("not whole", "--continue", "short.db")
        changed("gap.db", "DELETE FROM token WHERE seq = (SELECT seq FROM token ORDER BY seq DESC LIMIT 1 OFFSET 3)")
        refused("not whole", "--continue", "gap.db")
        changed("id.db", "UPDATE request SET prompt = x'ffffff7f', n_prompt = 1")
        refused("not whole", "--continue", "id.db")
        changed("set.db", "UPDATE setting SET value = 'nonsense' WHERE name = 'visible'")
        refused("visible nonsense: ", "--continue", "set.db")
        refused("context holds", "--continue", "a.db", "--ctx", "64")  # known when the model is open
        changed("loop.db", "UPDATE request SET kind = 1, parent = request, text = 'x'")
        text = talk(suite, s, "loop2.db", ("four",), "--continue", "loop.db")
        expect("forks of themselves are turns", "status 0" in text, text)
    finally:
        s.close()


def written(path, query):
    """Until a recording that is being written has that."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db, contextlib.suppress(sqlite3.OperationalError):
            if db.execute(query).fetchone()[0]:
                return
        time.sleep(0.05)
    raise Failure(f"{path}: {query} finds nothing")


def test_killed(suite):
    """a session that was killed goes on from what it had said"""
    s = suite.screen(100, 30)
    try:
        s.type("clear; " + suite.command("chat", "--model", suite.model, "--record", "k.db", "--max-tokens", "9"))
        s.keys("Enter")
        s.wait(r"\brec\b")
        s.type("one two one")
        s.keys("Enter")
        s.wait("limit of 9 tokens")
        written(file(s, "k.db"), "SELECT count(*) FROM finish")  # the log is written behind what the screen shows
        os.kill(s.pid(), 9)
        s.wait("Killed")
        with open(file(s, "k.db-wal"), "rb") as wal:
            expect("it was cut off", wal.read())
        after = suite.screen(100, 30)  # the first one is left as the program had it
        shutil.copytree(s.folder, after.folder, dirs_exist_ok=True)
        s.close()
        s = after
        talk(suite, s, "l.db", ("and on",), "--continue", "k.db")
        talk(suite, s, "w.db", ("one two one", "and on"))
        same(newest(file(s, "w.db")), newest(file(s, "l.db")), "the second turn")
    finally:
        s.close()


if __name__ == "__main__":
    sys.exit(main(globals()))
