#!/usr/bin/env python3
"""/model: a conversation goes on with another model, in a recording of its own. In a real terminal (tmux), on tiny random
models. Speaks TAP; `tests/program/test_chat_model.py NAME …` runs only these. Only the standard library."""
import os
import re
import subprocess
import sys

from screens import ROOT, main
from test_chat_continue import expect, file, newest, rows, same, say, talk, verified


def make(screen, name, *args):
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *args, file(screen, name)], check=True)


def run(screen, *args):
    return subprocess.run([os.path.join(ROOT, "cutaway"), *args], env=screen.env, capture_output=True, text=True, check=False)


def test_changes(suite):
    """texts are kept and tokenised anew, settings too; both recordings verify, replay and go on exactly"""
    s = suite.screen(100, 30)
    try:
        make(s, "spm.gguf", "--seed", "9", "--tokenizer", "spm")
        text = talk(suite, s, "a.db", ("one two one two", "/spec ngram:3", "/visible sinks:4+window:64", "/logit-bias 40:2",
                                       "/twin spm.gguf", "three", "/model spm.gguf", "four"), "--temp", "0.9")
        expect("the terminal names both", "recorded in" in text.replace("\n", "") and "a-2.db" in text, text)
        old, new = file(s, "a.db"), file(s, "a-2.db")
        same(rows(old, "SELECT value FROM setting WHERE name = 'continued'"), [("a-2.db",)], "the old names the new")
        same(rows(new, "SELECT value FROM setting WHERE name = 'continues'"), [("a.db",)], "the new names the old")
        same([t for t, in rows(new, "SELECT text FROM request ORDER BY seq")], ["one two one two", "three", "four"], "its turns")
        for name, value in (("spec", "ngram:3"), ("visible", "sinks:4+window:64")):
            same(rows(new, f"SELECT value FROM setting WHERE name = '{name}' ORDER BY seq LIMIT 1"), [(value,)], name)
        same(rows(new, "SELECT round(temperature, 3), logit_bias FROM request ORDER BY seq DESC LIMIT 1"), [(0.9, None)], "draws")
        expect("earlier answers are told, not computed", rows(
            new, "SELECT DISTINCT source FROM token WHERE request < 3 AND hash IS NULL") == [(10,)])
        said = [b"".join(t for t, in rows(db, "SELECT vocab.bytes FROM token JOIN vocab ON vocab.id = token.id "
                                          "WHERE request = 1 AND NOT is_end ORDER BY token.seq")) for db in (old, new)]
        expect("the same text in other tokens", said[0].strip() == said[1].strip() and newest(old)[0] != newest(new)[0][:9], said)
        verified(suite, s, "a.db")
        done = run(s, "verify", "--model", file(s, "spm.gguf"), new)
        expect("the new one verifies, its own turn", done.returncode == 0 and "request 3  chat       9 rows, 9 draws" in
               done.stdout and len(re.findall("0 rows, 0 draws, [0-9]+ given and not compared; of another model", done.stdout)) == 2, done.stdout + done.stderr)
        done = run(s, "whatif", new)
        expect("whatif runs what ran", "every count is that of the log" in done.stdout, done.stdout + done.stderr)
        done = run(s, "export", new, "--to", "svg", "--view", "chat", "--out", file(s, "chat.svg"))
        with open(file(s, "chat.svg"), encoding="utf-8") as f:
            expect("a replay shows the turns before", "three" in f.read().replace("</tspan>", ""), done.stderr)
        talk(suite, s, "b.db", ("five",), "--continue", "a-2.db", model="")
        same(newest(file(s, "b.db"))[0][:len(newest(new)[0])], newest(new)[0], "it goes on from the new tokens")
        expect("what was carried stays so", rows(file(s, "b.db"), "SELECT DISTINCT source FROM token WHERE request < 3") == [(10,)])
        done = run(s, "verify", "--model", file(s, "spm.gguf"), file(s, "b.db"))
        expect("and that verifies", done.returncode == 0, done.stdout + done.stderr)
    finally:
        s.close()


def test_stays(suite):
    """what cannot be opened leaves the old model and no recording; not during an answer; no other file is written over"""
    s = suite.screen(120, 30)
    try:
        make(s, "short.gguf", "--ctx", "32")
        make(s, "other.gguf", "--seed", "9")
        with open(file(s, "broken.gguf"), "wb") as f:
            f.write(b"GGUF\3\0\0\0")
        with open(file(s, "a-2.db"), "w", encoding="utf-8") as f:
            f.write("mine")
        s.type("clear; " + suite.command("chat", "--model", suite.model, "--record", "a.db", "--max-tokens", "9"))
        s.keys("Enter")
        s.wait("● rec")

        def line(text, until):
            s.type(text)
            s.keys("Enter")
            return s.wait(until)

        line("one two one two", "limit of 9")
        for what, why in (("nothing.gguf", "No such file"), ("broken.gguf", "broken.gguf"), ("short.gguf", "does not fit")):
            line("/model " + what, f"{why}[^│]*stays")
            expect("no recording is left", not os.path.exists(file(s, "a-3.db")))
        line("/max-tokens 0", "max-tokens is now")
        line("/pause", "paused")
        line("and then", "paused")
        line("/model other.gguf", "not (while|during)")
        s.keys("C-c")
        line("/continue", "stopped|cancel")
        line("/model other.gguf", "conversation goes on with")  # the hint says the rest
        suite.quit(s)
        with open(file(s, "a-2.db"), encoding="utf-8") as f:
            same(f.read(), "mine", "a file of that name")
        same(rows(file(s, "a-3.db"), "SELECT value FROM setting WHERE name = 'continues'"), [("a.db",)], "the next name is taken")
    finally:
        s.close()


def test_names(suite):
    """a model of models/ by the beginning of its name; several are listed; without a recording it goes on, too"""
    s = suite.screen(100, 30)
    try:
        os.mkdir(file(s, "models"))
        make(s, "models/Tiny-A.gguf", "--seed", "7")
        make(s, "models/Tiny-B.gguf", "--seed", "8")
        text = talk(suite, s, "a.db", ("one", "/model tiny-b", "two", "/model tiny-a.gguf"))
        expect("status", "status 0" in text, text)
        flat = text.replace("\n", "")
        expect("all three are named, and how to go on with the last", [flat.count(f"recorded in {n}.db") for n in ("a", "a-2", "a-3")] ==
               [1, 1, 1] and flat.count("see it again") == 1 and re.search("cutaway replay [^ ]*a-3.db", flat), text)
        same(rows(file(s, "a-3.db"), "SELECT value FROM setting WHERE name = 'continues'"), [("a-2.db",)], "twice")
        same([t for t, in rows(file(s, "a-3.db"), "SELECT text FROM request ORDER BY seq")], ["one", "two"], "its turns")
        s.type("clear; " + suite.command("chat", "--model", suite.model, "--no-record", "--max-tokens", "5"))
        s.keys("Enter")
        s.wait("not recorded")
        s.type("/model tiny")
        s.keys("Enter")
        s.wait("could be Tiny")
        s.type("/model Tiny-A")
        s.keys("Tab")
        s.keys("Enter")
        s.wait("goes on with")
        suite.quit(s)
    finally:
        s.close()


if __name__ == "__main__":
    sys.exit(main(globals()))
