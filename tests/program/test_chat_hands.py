#!/usr/bin/env python3
"""A chat and a replay under a person's hands, in a real terminal (tmux): which key reaches what, and what the screen
says about it. Speaks TAP; `tests/program/test_chat_hands.py NAME …` runs only these. Only the standard library.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

from screens import PATIENCE, ROOT, Failure, main, rows


def prompt_line(screen):
    """What stands in the prompt, without its label."""
    lines = [m.group(1) for m in re.finditer(r"^ ?(?:you )?› ?(.*)$", screen.text(), re.M)]
    return lines[-1].rstrip() if lines else None


def expect_prompt(screen, text):
    screen.wait(r"^ ?(?:you )?› " + re.escape(text) + r"\s*$")


def reversed_text(screen, y):
    """What of a line is drawn in reverse."""
    parts = re.split(r"\x1b\[([\d;]*)m", screen.tmux("capture-pane", "-e", "-p", "-t", "t").split("\n")[y])
    found, on = "", False
    for style, text in zip(parts[1::2], parts[2::2]):
        codes = style.split(";")
        on = "7" in codes or (on and codes[0] not in ("", "0"))
        found += text if on else ""
    return found


def head_of(screen, name):
    """The line at whose beginning, or behind a gap, a view's head stands."""
    for y, line in enumerate(screen.text().split("\n")):
        if re.search(rf"(?:^|\s|[⁰-⁹¹²³]){name} ─", line):
            return y
    raise Failure(f"no head {name}:\n{screen.text()}")


def enter(screen, text):
    screen.type(text)
    screen.keys("Enter")


def paste(screen, text):
    screen.tmux("set-buffer", text)
    screen.tmux("paste-buffer", "-p", "-t", "t")


def test_a_key_that_closes_types(suite):
    """what begins a command or is pasted over a help reaches the prompt, a letter only closes; a replay takes its keys"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--record", "a.db")
        enter(s, "/break entropy > 99")
        enter(s, "/break")
        s.wait("key closes")
        enter(s, "/find text = ' nowhere'")
        s.wait("key closes", gone=True)
        if re.search(r"^ ai", s.text(), re.M):
            raise Failure("the command went to the model:\n" + s.text())
        s.keys("F1")
        s.wait("key closes")
        s.type("x")
        s.wait("key closes", gone=True)
        s.type("hello")
        expect_prompt(s, "hello")
        s.keys("F1")
        s.wait("key closes")
        paste(s, " world")
        s.wait("key closes", gone=True)
        expect_prompt(s, "hello world")
        s.keys("F1")
        s.wait("key closes")
        s.keys("Enter")
        s.wait("key closes", gone=True)
        expect_prompt(s, "hello world")
        s.keys("C-u")
        suite.ask(s, "a b c", 20)
        enter(s, "/goto 999")
        s.wait(r"the newest step is \d+")
        s.keys("Escape", "F1")  # in one read
        s.wait("key closes")
        s.type("/xy")  # Esc waits for no other key
        expect_prompt(s, "/xy")
        s.keys("C-u")
        suite.quit(s)
        suite.replay(s, "a.db")
        enter(s, "/goto 999")
        s.wait(r"there are steps 0 to \d+")
        s.keys("F1")
        s.wait("key closes")
        enter(s, "/goto 7")
        s.wait("step 7 of")
        enter(s, "/rfind text = ' nowhere'")
        s.wait("no step that way for which")
        s.keys("F1")
        s.wait("key closes")
        for key, there in (("G", "q +quits"), ("g", "This is a recorded"), ("j", "q +quits|← +one step")):  # as in a pager
            s.type(key)
            s.wait(there)
        s.wait("key closes")
        s.type("q")  # in a pager it leaves the text, and nothing else
        s.wait("key closes", gone=True)
        s.type("G")
        s.wait(r"step (\d+) of \1 ")
        s.keys("F1")
        s.wait("key closes")
        s.type("+")
        s.wait("2×")
        s.wait("key closes", gone=True)
        s.type("q")
        s.wait(r"^\$$")
        s.type("clear; " + suite.command("diff", "--side-by-side", "a.db", "a.db"))
        s.keys("Enter")
        s.wait("q quits|equal|A  ")
        s.keys("F1")
        s.wait("key closes")
        s.type("q")
        s.wait("key closes", gone=True)
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_a_paste_without_brackets(suite):
    """a terminal that sends what is pasted like keys: it is one text, in which no line is sent and none is a command"""
    s = suite.screen(120, 40)

    def pasted(text, last):
        with open(os.path.join(s.folder, "text"), "w", encoding="utf-8") as f:
            f.write(text)
        s.tmux("load-buffer", f.name)
        s.tmux("paste-buffer", "-t", "t")
        s.wait(last)
        time.sleep(0.2)  # an Enter that comes now is a person's

    try:
        s.type("export TERM=screen")  # terminfo knows no brackets of it
        s.keys("Enter")
        suite.chat(s, "--record", "pasted.db")
        pasted("one Größe\n/quit\n" + "word " * 4000 + "\nlast 月亮\n", "last 月亮")
        s.keys("C-u")  # of vi's and emacs' keys alike: nothing is left
        if re.search(r"^ ai", s.text(), re.M):
            raise Failure("a pasted line was sent:\n" + s.text())
        pasted("a b\n/quit\nc d", "c d")
        s.keys("Enter")
        s.wait("^ ai")
        suite.quit(s)
        turns = rows(s, "pasted.db", "SELECT cast(text AS blob) FROM request")
        if turns != [(b"a b\n/quit\nc d",)]:
            raise Failure(f"the turns are {turns}")
    finally:
        s.close()


def test_the_present(suite):
    """an earlier step: the ways to the present that the screen promises lead there, whatever has the keys"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "p.db")
        suite.ask(s, "a b c", 20)
        for focus in ("prompt", "typed", "views"):
            s.keys("F9")
            s.wait("the past: step 19")
            if focus == "typed":
                s.type("draft")
                s.wait("› draft")
            if focus == "views":
                s.keys("C-o")
                s.wait("Esc back")
            promise = re.search(r"F5 answers anew from here · (.*): the present", s.wait("the present")).group(1)
            for key in promise.split(" or "):
                if not re.search("the past", s.text()):
                    s.keys("F9")
                    s.wait("the past: step 19")
                s.keys({"Esc": "Escape"}.get(key, key))
                s.wait("the past", gone=True)
            if focus == "typed":
                expect_prompt(s, "draft")
                s.keys("C-u")
        s.keys("C-o")
        s.wait("Esc back", gone=True)
        s.keys("F9")
        s.wait("F5 answers anew from here")
        s.keys("F5")
        s.wait("the past", gone=True)
        suite.quit(s)
    finally:
        s.close()


def test_who_has_the_keys(suite):
    """prompt or views: a bar over the view that has the keys, and a dim prompt that says how to return"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--no-record")
        suite.ask(s, "a b c", 20)
        if "the views have the keys" in s.text() or reversed_text(s, head_of(s, "chat")):
            raise Failure("the prompt has the keys:\n" + s.text())
        s.keys("C-o")
        s.wait(r"the views have the keys · \^O")
        bar = reversed_text(s, head_of(s, "chat"))
        if not re.fullmatch(r"chat ─+ .*accepted", bar):
            raise Failure(f"no bar over the view: {bar!r}")
        s.keys("2", "Enter")
        s.wait("the views have the keys")
        s.keys("Escape")
        s.wait("KV pages")
        s.wait("the views have the keys")  # one step back, and that is seen
        s.type("x")
        s.wait(r"means nothing to them: \^O")
        s.keys("C-o")
        s.wait(r"\^O to type here", gone=True)
        enter(s, "3")
        s.wait(r"you +3\b")
        suite.quit(s)
    finally:
        s.close()


def test_projector(suite):
    """one view fills the screen: F8 and F7 go to those that have something to show, Esc and Ctrl-O stay there, a lesson is seen beside its view"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--projector", "--record", "p.db", "--max-tokens", "4", "--logit-bias", "0:-100,1:-100,2:-100")
        suite.ask(s, "a b c", 4)
        for key, head in (("F8", "next token"), ("F8", "KV pages"), ("F8", "batch"), ("F7", "KV pages"), ("F7", "next token"), ("F7", "chat"), ("F7", "runs")):
            s.keys(key)
            s.wait(f"(?m)^ {head} ─")
            if re.findall(r"(?m)^ (\w[\w ]*) ─", s.text()) != [head]:
                raise Failure(f"beside {head}: {s.text()}")
        s.keys("F8", "F8", "F8")
        s.wait("(?m)^ KV pages ─")
        for back in ("Escape", "C-o"):
            s.keys("C-o")
            s.wait("the views have the keys")
            s.keys(back)
            s.wait("the views have the keys", gone=True)
        s.type("letters type")
        expect_prompt(s, "letters type")
        s.wait("(?m)^ KV pages ─")
        s.keys("C-u")
        enter(s, "/projector off")
        s.wait("batch ─")
        enter(s, "/view latency")
        s.wait(r"latency · \^O gives it the keys")
        s.keys("F8")  # what was said of the view before it is gone
        s.wait(r"\^O gives it the keys", gone=True)
        s.keys("Escape")
        s.wait("batch ─")
        enter(s, "/projector on")
        s.wait("batch ─", gone=True)
        enter(s, "/lesson kv-cache")
        s.wait("lesson ─.* chat ─")
        suite.quit(s)
    finally:
        s.close()


def test_commands_leave_the_keys(suite):
    """a view that a command opens leaves the keys to the prompt: what is typed next is said; Esc leads back to the chat"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--record", "k.db", "--max-tokens", "4", "--logit-bias", "0:-100,1:-100,2:-100")
        suite.ask(s, "a b c", 4)
        commands = (("/view batch", "batch ─"), ("/tree", "branches ─"), ("/lens", "deep look ─"), ("/zoom", "deep look ─"))
        for n, (line, head) in enumerate(commands):
            enter(s, line)
            s.wait(head)
            s.wait("gives it the keys|keys to the view")
            text = f"gtl {n} w"  # each letter means something to the views
            s.type(text)
            expect_prompt(s, text)
            s.keys("Enter")
            s.wait(rf"step {4 * (n + 2)}\b")
            s.keys("Escape")
            s.wait(f"you +{text}")
        said = [text for text, in rows(s, "k.db", "SELECT text FROM request")]
        if said != ["a b c", "gtl 0 w", "gtl 1 w", "gtl 2 w", "gtl 3 w"]:
            raise Failure(f"{said}")
        suite.quit(s)
    finally:
        s.close()


def below(screen):
    """How many lines the chat says are below it."""
    return int(re.search(r"(\d+) lines? below", screen.wait(r"\d+ lines? below")).group(1))


def chat_top(screen):
    lines = screen.text().split("\n")
    return lines[head_of(screen, "chat") + 1:][:3]


def test_scrolled_up(suite):
    """what is read stays where it is while an answer grows, and its title counts; what is sent is seen"""
    s = suite.screen(80, 24)
    try:
        model = os.path.join(s.folder, "long.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "2048", model], check=True)
        suite.chat(s, "--model", model, "--no-record", "--max-tokens", "200", "--logit-bias", "0:-100,1:-100,2:-100")
        for n in (200, 400):
            suite.ask(s, "tell me", n)
        enter(s, "/pause")
        enter(s, "go on")
        s.wait("paused: F5 goes on")  # it is asked: else there would be nothing to step
        enter(s, "/step 40")
        s.wait(r"step 440\b")
        s.keys("PPage")
        before, read = below(s), chat_top(s)
        enter(s, "/step 60")
        s.wait(r"step 500\b")
        if chat_top(s) != read or below(s) <= before:
            raise Failure(f"{before}, {read}, then:\n{s.text()}")
        enter(s, "/continue")
        s.wait(r"step 600\b")
        s.wait("lines below")
        enter(s, "what now?")
        s.wait("lines? below", gone=True)
        s.wait(r"step 800\b")
        s.keys("PPage")
        below(s)
        enter(s, "/max-tokens 2")
        enter(s, "and now?")
        s.wait(r"you +and now\?")
        suite.quit(s)
    finally:
        s.close()


def test_the_head_line(suite):
    """speed, and how full the context is, are always in the head line; what is lossy gives way to them, with an ellipsis"""
    s = suite.screen(80, 24)
    try:
        model = os.path.join(s.folder, "a-name-of-some-length.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), model], check=True)
        suite.chat(s, "--model", model, "--no-record", "--max-tokens", "4")
        suite.ask(s, "a b c", 4)
        text = s.wait(r"ctx \d+ of 512 +\d+ tok/s")
        prompt = int(re.search(r"hit \d+ of (\d+) tokens", text).group(1))
        if f"ctx {prompt + 4} of 512 " not in text:
            raise Failure(text)
        enter(s, "/system Be brief.")
        s.wait("  system  ctx")
        enter(s, "/system default")
        s.wait("  system  ctx", gone=True)
        s.keys("C-o")
        s.wait("the views have the keys")
        s.keys("5")
        s.wait("Enter /spec ngram")  # what fills the view, which is empty
        s.keys("Enter")
        s.wait("spec is now ngram")
        s.keys("C-o")
        s.wait(r"\^O to type here", gone=True)
        enter(s, "/spec off")
        s.wait("spec is now off")
        for line in ("/visible stream:4+window:64", "/cache-format e4m3"):
            enter(s, line)
            s.wait("is now")
        for size, lossy in ((80, "LOSSY st[^·]*…"), (120, "LOSSY stream:4.window:64, [^·]*…"),
                            (200, "LOSSY stream:4.window:64, cache-format e4m3")):
            s.resize(size, 24)
            head = s.wait(rf"{lossy} · a-name.* ctx \d+ of 512 +\d+ tok/s").split("\n")[0]
            if "a-name-of-some-length" not in head:
                raise Failure(head)
        suite.quit(s)
    finally:
        s.close()


def test_a_fork_goes_on_from_the_last(suite):
    """after /fork the next turn follows the answer that the screen names, and the one that /tree marks"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "f.db", "--max-tokens", "6", "--temp", "1")
        suite.ask(s, "a b c", 6)
        enter(s, "/fork 3")
        s.wait("b to d · what you say next goes on from d · /tree")
        s.wait("› goes on from d · /tree chooses")
        enter(s, "next")
        await_answers(s, "f.db", 5)
        s.wait("goes on from", gone=True)
        own, from_d = (rows(s, "f.db", f"SELECT prompt FROM request WHERE request = {n}")[0][0] for n in (5, 4))
        said = rows(s, "f.db", "SELECT id FROM token WHERE request = 4 ORDER BY pos")
        said = b"".join(int(i).to_bytes(4, "little") for (i,) in said)
        if not own.startswith(from_d + said):
            raise Failure("the turn after /fork 3 follows another answer than d")
        context = re.search(r"ctx \d+ of", s.text())[0]
        enter(s, "/lesson kv-cache")
        s.wait("lesson off leaves it")
        enter(s, "/max-tokens 2")
        s.wait("is now 2")
        enter(s, "/retry")
        s.wait(context, gone=True)
        enter(s, "/lesson off")
        s.wait(context)  # of the answer from before the lesson, which goes on
        suite.quit(s)
    finally:
        s.close()


def test_waiting_turns(suite):
    """turns that wait are seen at once, with what they wait for; Esc takes the newest back; after the end the history has them"""
    s = suite.screen(120, 40)
    try:
        large = os.path.join(s.folder, "large.gguf")
        shutil.copy(suite.model, large)
        os.truncate(large, 1 << 40)  # of which only its hash asks: opening it takes until we are done
        s.type("clear; " + suite.command("chat", "--model", large, "--record", "w.db"))
        s.keys("Enter")
        s.wait("opening the model")
        enter(s, "early bird")
        s.wait(r"you +early bird")
        s.wait("waiting for the model · Esc takes it back")
        enter(s, "/spec ngram:4")
        s.wait(r"you +/spec ngram:4")
        s.wait("2 turns waiting for the model · Esc takes the newest back")
        enter(s, "a third")
        enter(s, "/temp 0.5")
        s.wait("… 1 more before")
        if "not there yet" in s.text():
            raise Failure(s.text())
        s.keys("C-c")
        s.wait("a third", gone=True)
        s.keys("C-c")
        s.wait(r"^\$$")
        suite.chat(s, "--no-record")
        s.keys("F5")
        s.wait("paused")
        enter(s, "first turn")
        s.wait("paused: F5 goes on")
        enter(s, "second turn")
        s.wait(r"you +second turn")
        enter(s, "third turn")
        s.wait(r"you +third turn")
        s.wait("^ +2 turns waiting: paused, F5 goes on · Esc takes the newest back")
        s.keys("Escape")
        s.wait(r"^ you +third turn", gone=True)
        expect_prompt(s, "third turn")
        s.keys("C-u")
        s.keys("F5")
        s.wait("step 40")
        if re.search("waiting:|waiting for|takes", s.text()) or not re.search(r"you +second turn", s.text()):
            raise Failure(s.text())
        s.keys("F5")
        s.wait("paused")
        turns = ["asked at once", "zum Mond 月亮", "привет"]
        for turn in turns:
            enter(s, turn)
            s.wait("you +" + turn)
        enter(s, "/quit")
        s.wait("^2 turns were not sent; the up key has them")
        suite.chat(s, "--no-record")
        for line in ["/quit", *reversed(turns)]:
            s.keys("Up")
            expect_prompt(s, line)
        s.keys("C-u")
        suite.quit(s)
    finally:
        s.close()


def test_an_error_changes_nothing(suite):
    """a /try that fails does not leave the session paused; a failing one while it is paused does not go on"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--no-record", "--max-tokens", "6")
        suite.ask(s, "a b c", 6)
        enter(s, "/try")
        s.wait("/try")
        enter(s, "/rewind 99999")
        s.wait("rewind|position")
        if "paused" in s.text().split("\n", maxsplit=1)[0]:
            raise Failure("an error paused the session:\n" + s.text())
        enter(s, "and on")
        s.wait("step 12")
        suite.quit(s)
    finally:
        s.close()


def test_the_focus_is_on_the_screen(suite):
    """Enter on a view that has no place beside the others leaves it, and F1 then explains what is there"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record")
        enter(s, "/view memory")
        s.wait("memory ─")
        s.keys("F1")
        s.wait("key closes")
        if "You are talking" in s.text():
            raise Failure(s.text())
        s.keys("Escape")
        s.wait("key closes", gone=True)
        s.keys("C-o")
        s.wait("Enter zoom|Esc back")
        s.keys("Enter")
        s.wait("memory ─", gone=True)
        s.keys("F1")
        s.wait("You are talking to a language model")
        s.keys("Enter")
        s.type("typed")
        expect_prompt(s, "typed")
        s.keys("C-u")
        s.type("/")
        s.keys("Tab")
        s.wait(r"… \d+ more")
        s.keys("C-u")
        suite.quit(s)
    finally:
        s.close()


def test_a_script_goes_on_after_a_rewind(suite):
    """--commands: the lines after /rewind, which pauses the answer, are read"""
    s = suite.screen(120, 40)
    try:
        with open(os.path.join(s.folder, "lines"), "w", encoding="utf-8") as f:
            f.write("a b c\n/rewind -4\n/continue\nthe second turn\n")
        suite.chat(s, "--no-record", "--max-tokens", "8", "--commands", "lines")
        s.wait(r"you +the second turn")
        s.wait("step 20")
        suite.quit(s)
    finally:
        s.close()


def test_all_that_goes_on_is_named(suite):
    """two answers that go on from an earlier step are both named"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "f.db", "--max-tokens", "40", "--seed", "3")
        suite.ask(s, "Hello there.", 40)
        enter(s, "/fork 2")
        s.wait("step 8[01]")
        for line in ("/back 20", "/temp 1.5", "/continue"):
            enter(s, line)
        s.wait("goes on from position .*; so does e from")
        suite.quit(s)
    finally:
        s.close()


def test_new_draws_a_line(suite):
    """/new draws a line at once, which stays when the next turn is said, and a replay has it"""
    line = "a new conversation: the model sees nothing from above"
    s = suite.screen(120, 60)
    try:
        suite.chat(s, "--record", "n.db", "--max-tokens", "4")
        suite.ask(s, "old text", 4)
        enter(s, "/new")
        s.wait(f"─ {line} ─")
        enter(s, "and quite another")
        s.wait("step 8")
        rows = s.text().split("\n")
        at = [next(i for i, row in enumerate(rows) if what in row) for what in ("old text", line, "and quite another")]
        if at != sorted(at) or s.text().count(line) != 1:
            raise Failure(s.text())
        enter(s, "/rewind -2")  # goes on within that answer, in a request of its own, which stands for it
        s.wait("goes its own way")
        if s.text().count(line) != 1:
            raise Failure(s.text())
        enter(s, "/continue")
        s.wait("step 10")
        enter(s, "/retry")  # asked again: no new one
        s.wait("step 14")
        if s.text().count(line) > 1:
            raise Failure(s.text())
        suite.quit(s)
        suite.replay(s, "n.db")
        s.keys("End")
        s.wait(f"─ {line} ─")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_another_answer(suite):
    """/retry after /fork, and /fork after /retry, draw with numbers that no answer to the turn had"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "r.db", "--temp", "1", "--max-tokens", "6")
        suite.ask(s, "one two", 6)
        for command, answers in (("/fork 3", 4), ("/retry", 5), ("/fork 2", 7), ("/search best:2", 7), ("/retry", 8),
                                 ("/search off", 8), ("/retry", 9)):
            enter(s, command)
            await_answers(s, "r.db", answers)
        suite.quit(s)
        drawn = "FROM request WHERE request NOT IN (SELECT request FROM token WHERE source = 6)"
        used = [n for n, in rows(s, "r.db", f"SELECT sample {drawn}")]
        if len(used) != 10 or len(set(used)) != len(used):
            raise Failure(f"samples {used}")
        texts = rows(s, "r.db", "SELECT group_concat(id) FROM token WHERE source != 6 GROUP BY request")
        if len(set(texts)) != len(texts):
            raise Failure(f"{texts}")
        s.type("clear; " + suite.command("verify", "r.db"))
        s.keys("Enter")
        s.wait("^all equal")
    finally:
        s.close()


def test_after_a_search(suite):
    """after a search the next token and the attention are those of the branch that won, in a replay too"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "s.db", "--temp", "0.8")
        for search, last in (("beam 3", 1), ("best 3", 2)):
            enter(s, f"/search {search}")
            s.wait("search is now")
            enter(s, "one two")
            s.wait(rf"(?s)(you +one two.*){{{last}}}")
            s.wait("the best of 3 answers" if last == 2 else "the best of")
            look_at_winner(s)
            s.keys("C-o", "1", "Left", "Left", "Left")
            s.wait("cursor on token")
            look_at_winner(s)
            s.keys("Escape", "C-o")
            s.wait(r"\^O to type here", gone=True)
        suite.quit(s)
        suite.replay(s, "s.db")
        s.keys("End")
        look_at_winner(s)
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_what_is_answered(suite):
    """answers to /cancel and /break off are sentences; views go by their names; replay without FILE shows the newest"""
    s = suite.screen(120, 110)
    try:
        suite.chat(s, "--max-tokens", "4000")
        s.keys("F5")
        s.wait("paused")
        enter(s, "a b c")
        s.wait("paused: F5 goes on")
        enter(s, "/cancel")
        s.wait("^ 1 request was stopped")
        enter(s, "/break rejected > 5")
        enter(s, "/break off 1")
        s.wait("of the breakpoints 1 is taken away")
        enter(s, "/break off")
        s.wait("all breakpoints are taken away")
        for typed, shown in (("/", " model +goes on with another"), ("/help repeat", " repeat-penalty +1 "), ("/view", " latency +How long"),
                             ("/help clear", " new +forgets"), ("/help nowhere to be found", "nothing is called so"),
                             ("/settings", " max-tokens +4000 ")):
            enter(s, typed)
            s.wait(shown)
            s.keys("Escape")
            s.wait("F1 explains", gone=True)
        s.keys("C-p")
        s.type("kv pag")
        if "F1 explain " in s.wait(" KV pages +The model keeps"):  # its keys are those of the list alone
            raise Failure(s.text())
        s.keys("F1")
        s.wait("key closes")
        s.keys("Escape", "Enter")
        s.wait(r"KV pages · \^O gives it the keys")
        s.keys("C-p")
        s.type("temper")
        s.wait("1 of ")
        s.keys("Enter")
        s.wait("^ you › /temp")
        s.keys("C-u")
        enter(s, "/batch")
        s.wait(r"batch · \^O gives it the keys")
        s.keys("C-o")
        s.wait("the views have the keys")
        if not reversed_text(s, head_of(s, "batch")).startswith("batch"):
            raise Failure(s.text())
        s.keys("C-o")
        s.wait(r"\^O to type here", gone=True)
        suite.quit(s)
        suite.replay(s)
        s.wait("the newest recording: .*[.]db")
        s.type("q")
        s.wait(r"^\$$")
    finally:
        s.close()


def test_a_loop_is_held(suite):
    """an answer that repeats itself is held: F5 goes on, another question ends it; /copy; /pace keeps steps apart"""
    s = suite.screen(120, 40)
    try:
        s.tmux("set", "-g", "set-clipboard", "on")
        suite.chat(s, "--max-tokens", "100", "--ctx", "512", "--logit-bias", "65:100", "--loops", "hold",
                   "--record", "r.db")
        enter(s, "/pace 40")
        s.wait("pace is now 40")
        enter(s, "a b c")
        s.wait("held: the answer repeats 1 token.")
        s.keys("F5")
        s.wait("stopped at its limit of 100 tokens")
        enter(s, "d e f")
        s.wait("held: the answer repeats")
        enter(s, "g h i")
        s.wait("stopped by you")
        s.wait("held: the answer repeats")
        s.keys("C-c")
        s.wait("stopped by you(.*\n)*.*stopped by you")
        for line in ("p q r", "/max-tokens 77", "/loops run", "/retry"):  # which is another question, too
            enter(s, line)
            s.wait({"p": "held: the answer repeats", "/m": "max-tokens is now 77", "/l": "loops is now run",
                    "/r": "limit of 77 tokens"}[line[:1 + (line[0] == "/")]])
        for line in ("/loops hold", "/max-tokens 100"):
            enter(s, line)
            s.wait(f"{line[1:].split()[0]} is now")
        enter(s, "m n o")
        s.wait("held: the answer repeats")
        s.wait("‖ paused")
        enter(s, "/cancel")  # as Ctrl-C does, it lets the engine go on
        s.wait("1 request was stopped")
        s.wait("‖ paused", gone=True)
        enter(s, "/copy")
        s.wait("bytes of the answer are on the clipboard")
        if len(set(s.tmux("show-buffer").strip())) != 1 or len(s.tmux("show-buffer")) < 32:
            raise Failure(s.tmux("show-buffer"))
        enter(s, "/copy code")
        s.wait("there is no code block to copy")
        enter(s, "/loops run")
        s.wait("loops is now run")
        enter(s, "/pace 10")
        s.wait("pace is now 10")
        enter(s, "/max-tokens 6")
        enter(s, "j k l")
        s.wait("limit of 6 tokens")
        for bad in ("fast", "1e-300"):  # a step a month is none
            enter(s, "/pace " + bad)
            s.wait(f"/pace {bad}: steps a second, 0.001 to 1000, or off")
        suite.quit(s)
        gaps = rows(s, "r.db", "SELECT t_ns - lag(t_ns) OVER (ORDER BY seq) FROM token WHERE request = (SELECT max(request) FROM request)")
        if len(gaps) != 6 or min(g[0] for g in gaps[1:]) < 5e7:  # the end of a step, which may have begun late
            raise Failure(gaps)
    finally:
        s.close()


def test_said_again_and_found(suite):
    """/edit sends an earlier turn anew, in its place; /grep goes to words; @FILE and /file send a file first"""
    s = suite.screen(120, 40)
    try:
        with open(os.path.join(s.folder, "some notes.txt"), "w", encoding="utf-8") as f:
            f.write("one two\nthree")
        suite.chat(s, "--max-tokens", "4", "--logit-bias", "0:-100,1:-100,2:-100", "--record", "e.db")
        for n, text in enumerate(("first words", "second words", "third words")):
            suite.ask(s, text, 4 * n + 4)
        enter(s, "/grep WORDS")
        s.wait('"WORDS": 3 of 3, in the question')
        s.wait("cursor on token")
        enter(s, "/grep")
        s.wait('"WORDS": 2 of 3, in the question')
        enter(s, "/grep nowhere")
        s.wait('"nowhere" was not said here')
        enter(s, "/edit 2")
        s.wait("turn 2: Enter sends it anew")
        s.wait("you third", gone=True)
        expect_prompt(s, "second words")
        s.type(" anew")
        s.keys("Enter")
        s.wait("you second words anew")
        s.wait(r"step 16\b")
        enter(s, "/undo")
        s.wait("you third words")
        enter(s, "/edit 9")
        s.wait("turns 1 to 3")
        enter(s, "/file some notes.txt")
        s.wait("what you say now is sent after some notes.txt")
        s.type("what?")
        s.keys("Enter")
        s.wait('you @"some notes.txt" what[?]')
        s.wait("after some notes.txt, 2 lines")
        s.wait(r"step 20\b")
        enter(s, "/edit")
        expect_prompt(s, '@"some notes.txt" what?')
        s.keys("C-u")
        s.type("@so")
        s.keys("Tab")
        s.wait("@some notes.txt")
        s.keys("C-u")
        enter(s, "/file .")
        s.wait("that is no file")
        suite.quit(s)
        said = [t for t, in rows(s, "e.db", "SELECT text FROM request")]
        if said[3:] != ["second words anew", '`some notes.txt`:\n```\none two\nthree\n```\n\n@"some notes.txt" what?']:
            raise Failure(f"{said}")
        first, again = (rows(s, "e.db", f"SELECT prompt FROM request WHERE request = {n}")[0][0] for n in (1, 4))
        if not again.startswith(first):
            raise Failure("the turn before is not what the edited one follows")
    finally:
        s.close()


def test_sessions_from_inside(suite):
    """/sessions lists what was recorded, and finds words said in it; one is continued, replayed, named, deleted"""
    s = suite.screen(120, 40)
    folder = os.path.join(s.env["XDG_DATA_HOME"], "cutaway", "sessions")
    limits = ("--max-tokens", "4", "--logit-bias", "0:-100,1:-100,2:-100")

    def listed(line, *shown):
        enter(s, line)
        s.wait(r"\d+ of \d+ *$")
        for text in shown:
            s.wait(text)

    try:
        shutil.rmtree(folder, ignore_errors=True)
        for text in ("of foxes", "of owls"):
            suite.chat(s, *limits)
            suite.ask(s, text, 4)
            suite.quit(s)
        suite.chat(s, *limits)
        suite.ask(s, "of neither", 4)
        listed("/sessions", "today", "1 turn +of owls", "1 turn +of foxes", "2 of 2")
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        first = min(n for n in os.listdir(folder) if n.endswith(".db"))
        os.rename(os.path.join(folder, first), os.path.join(folder, "my owls.db"))
        listed("/sessions owls", r"called so\s+my owls .*of foxes(?s:.*)of owls")  # before those in which it was said
        os.rename(os.path.join(folder, "my owls.db"), os.path.join(folder, first))
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        listed("/sessions FOX", 'sessions with "FOX"', "of foxes", "1 of 1")
        s.keys("Enter")
        s.wait("^ +of foxes ─")
        s.keys("Enter")
        s.wait("goes on: 1 turn")
        suite.ask(s, "and of cubs", 4)
        listed("/sessions", "of neither", "3 of 3")
        s.type("owls")
        s.wait("1 of 3")
        s.keys("Enter")
        s.wait("^ +of owls ─")
        s.keys("Down", "Enter")
        s.wait(r"replay .*step \d of 4")
        s.type("q")  # back in the chat that the replay was begun in
        s.wait("goes on: 2 turns")
        listed("/sessions", "of neither", "4 of 4")
        s.type("owls")
        s.wait("1 of 4")
        s.keys("Enter")
        s.wait("^ +of owls ─")
        s.keys("Down", "Enter")
        s.wait(r"replay .*step \d of 4")
        listed("/sessions", "of foxes", "5 of 5")
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        newest = sorted(os.listdir(folder))[-1]
        enter(s, f"/session name {newest} cubs of foxes")
        s.wait("it is .*cubs of foxes.db now")
        listed("/session delete cubs of foxes.db", "delete it for good", "2 turns, 0 tokens: of foxes")
        s.keys("Enter")
        s.wait("5 of 5")
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        listed("/session delete cubs of", "delete it for good")
        s.keys("Down", "Enter")
        s.wait("deleted .*cubs of foxes.db")
        enter(s, "/session name cubs.db")
        s.wait("a name is needed")
        s.type("q")  # that chat is deleted
        s.wait(r"^\$$")
        if len(os.listdir(folder)) != 4:
            raise Failure(f"{os.listdir(folder)}")
        suite.chat(s, *limits)
        enter(s, "/lesson kv-cache")
        s.wait("lesson ─")
        suite.quit(s)
        suite.chat(s, "--no-record")
        listed("/sessions", "0 turns +lesson kv-cache")  # nothing was said in it
        s.keys("Escape")
        suite.quit(s)
    finally:
        s.close()


def styled(screen, pattern):
    """A line with its styles."""
    y = next(y for y, text in enumerate(screen.text().split("\n")) if re.search(pattern, text))
    return screen.tmux("capture-pane", "-e", "-p", "-t", "t").split("\n")[y]


def test_tokens_are_seen(suite):
    """/tokens on: questions and answers show where their tokens begin, in styles alone; so do /tint and /markdown"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--no-record", "--max-tokens", "4", "--logit-bias", "65:100")
        suite.ask(s, "unseen words", 4)
        plain = styled(s, "you +unseen words")
        enter(s, "/tokens on")
        end = time.monotonic() + PATIENCE
        while styled(s, "you +unseen words").count("\x1b") <= plain.count("\x1b"):
            if time.monotonic() > end:
                raise Failure(s.text())
            time.sleep(0.1)
        enter(s, "/tint off")
        s.wait("/tint on shows")
        enter(s, "/markdown off")
        s.wait("ai +>>>>")
        suite.quit(s)
    finally:
        s.close()


def test_thoughts_are_folded(suite):
    """a thought is a line with its share of tokens and time, in a replay, too; /thoughts on and the cursor show it"""
    s = suite.screen(120, 40)
    try:
        thinks = r'gbnf:root ::= "<think>" [c-e]{40} "</think>\n\n" [x-z]{6}'
        suite.chat(s, "--record", "t.db", "--max-tokens", "200", "--grammar", thinks)
        enter(s, "Why?")
        s.wait(r"^ ai +thought: \d+ of \d+ tokens, [\d.]+ .?s of [\d.]+ .?s \(/thoughts\)")
        s.wait("<think>", gone=True)
        s.wait(r"^ +[xyz]{6}")
        enter(s, "/thoughts on")
        s.wait(r"^ ai +<think>[cde]{40}")
        enter(s, "/thoughts off")
        s.wait("<think>", gone=True)
        s.keys("C-o", "1", *["Left"] * 12)
        s.wait("<think>")  # where the cursor is there is something to be seen
        s.keys("Escape")
        s.keys("Escape")
        enter(s, "/thinking off")
        s.wait("/thinking off: this model's template has no word for it")
        enter(s, r'/grammar gbnf:root ::= "**b** is"')
        s.wait("grammar is now|grammar:")
        enter(s, "Bold")
        s.wait(r"^ ai +\*\*b\*\* is")  # what is bound to a form is shown in it, not as Markdown
        suite.quit(s)
        suite.replay(s, "t.db")
        s.keys("End")
        s.wait(r"^ ai +thought: \d+ of \d+ tokens")
        s.type("q")
    finally:
        s.close()


def test_no_frame_is_lost(suite):
    """frames of any length, each after one of another, reach the terminal"""
    s = suite.screen(80, 24)
    try:
        suite.chat(s, "--no-record")
        for n in range(1, 48):
            s.type("x")
            expect_prompt(s, "x")
            paste(s, "y" * n)
            expect_prompt(s, "x" + "y" * n)
            s.keys("C-u")
            s.wait(r"^ you ›\s*$")
        suite.quit(s)
    finally:
        s.close()


def test_presets(suite):
    """/preset save keeps what differs, in any case of text; /preset NAME and --preset NAME set it again; none is replaced"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--max-tokens", "4", "--no-record")
        for line, shown in (("/top-k 40", "top-k is now 40"), ("/system Be \\brief, \"please\".", "a new conversation"),
                            ("/preset save short one", r"preset short one has \d settings"),
                            ("/preset save short one", "there is a preset short one"),
                            ("/preset save ../x", "without a slash"), ("/preset nowhere", "No such file"),
                            ("/top-k 0", "top-k is now 0"), ("/system default", "a new conversation"),
                            ("/preset short one", "preset short one is set"),
                            ("/settings", r"top-k +40 "), ):
            enter(s, line)
            s.wait(shown)
        s.wait(r"system +Be ")
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        enter(s, "/preset")
        s.wait("short one +.*top-k 40, .*system Be")
        s.keys("Escape")
        s.wait("F1 explains", gone=True)
        suite.quit(s)
        enter(s, "clear; " + suite.command("run", "--model", suite.model, "--preset", "short one", "--max-tokens", "3",
                                           "--record", "p.db", "hi") + "; echo done $?")
        s.wait("done 0")
        if rows(s, "p.db", "SELECT top_k, max_tokens FROM request") != [(40, 3)]:
            raise Failure(rows(s, "p.db", "SELECT top_k, max_tokens FROM request"))
        suite.chat(s, "--max-tokens", "4", "--no-record")
        enter(s, "/preset delete short one")
        s.wait("preset short one is deleted")
        suite.quit(s)
    finally:
        s.close()


def test_clicks(suite):
    """a click chooses what stands there: a token, a page, a request; Esc gives the keys back"""
    s = suite.screen(120, 40)

    def click(column, line):
        y = next(y for y, text in enumerate(s.text().split("\n")) if re.search(line, text))
        at = [f"{33 + n:x}" for n in (column, y)]
        s.tmux("send-keys", "-t", "t", "-H", "1b", "5b", "4d", "20", *at, "1b", "5b", "4d", "23", *at)

    try:
        suite.chat(s, "--no-record", "--max-tokens", "4", "--logit-bias", "65:100")
        for n, text in enumerate(("a b c", "d e f")):
            suite.ask(s, text, 4 * n + 4)
        click(73, "^.{70}a  token limit")
        s.wait("the views have the keys")
        s.wait(r"hit 0 of \d+ tokens")  # of a: b found its pages
        click(5, "^ ai ")
        s.wait("cursor on token")
        click(70, r" a( a)+ b")
        s.wait("page 0 · tokens 0-15")
        s.keys("Escape")
        s.wait("page 0 ·", gone=True)
        s.keys("C-o")
        s.wait(r"\^O to type here", gone=True)
        enter(s, "g h i")
        s.wait("you g h i")
        suite.quit(s)
    finally:
        s.close()


def test_nothing_cuts_saving_off(suite):
    """Ctrl-C, SIGTERM and SIGHUP, any number of them while it saves: the recording is whole, copied, and named"""
    s = suite.screen(80, 24)
    try:
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            name = f"{kind.name}.db"
            suite.chat(s, "--record", name)
            suite.ask(s, "a b c", 20)
            enter(s, "/save other.db")
            s.wait(r"will be copied to other\.db when")
            enter(s, f"/save copy-{name}")
            s.wait(r"will be copied to .*, no longer to\s+other\.db")
            pid = s.pid()
            enter(s, "/quit")
            end = time.monotonic() + PATIENCE
            with contextlib.suppress(ProcessLookupError):  # it has ended
                while time.monotonic() < end:
                    os.kill(pid, kind)
            s.wait(rf"see it again:  cutaway replay {name}")
            for path in (name, "copy-" + name):
                if rows(s, path, "SELECT count(*) FROM token") != [(20,)]:
                    raise Failure(f"{path}: {rows(s, path, 'SELECT count(*) FROM token')}")
            left = [f for f in os.listdir(s.folder) if f.endswith(("-wal", "-shm", ".part"))]
            if left:
                raise Failure(f"{left}")
    finally:
        s.close()


def test_a_stopped_chat_is_told_to_end(suite):
    """Ctrl-Z, then `kill %1`, at once or after `bg`: it ends, saves, and leaves the shell its terminal"""
    s = suite.screen(80, 24)
    try:
        enter(s, "set -m")
        s.wait(r"^\$$")
        for how in ("kill", "bg"):
            name = how + ".db"
            suite.chat(s, "--record", name)
            suite.ask(s, "a b c", 20)
            pid = s.pid()
            s.keys("C-z")
            s.wait(r"^\[1\]")
            if how == "bg":
                enter(s, "clear; bg")
                s.wait(r"^\[1\].*\n(.*\n)*\$$")
            enter(s, f"clear; kill {pid}; kill -CONT {pid}")
            s.wait(rf"see it again:  cutaway replay {name}")
            enter(s, "clear; stty | grep -c icanon")  # none says that it is not as it is
            s.wait(r"^0$")
            if rows(s, name, "SELECT count(*) FROM closed") != [(1,)]:
                raise Failure(f"{name} was not closed: {os.listdir(s.folder)}")
    finally:
        s.close()


def test_a_limit_of_file_sizes(suite):
    """a limit of file sizes (SIGXFSZ) stops the recording, not the chat, and the terminal is left as it was"""
    s = suite.screen(80, 24)
    try:
        s.type("clear; (ulimit -f 60; " + suite.command("chat", "--model", suite.model, "--greedy", "--max-tokens", "20",
                                                          "--record", "limit.db") + ")")
        s.keys("Enter")
        s.wait("rec failed")
        s.wait("File too large|largest size")
        suite.ask(s, "a b c", 20)
        suite.quit(s)
        enter(s, "stty -a | tr ' ' '\\n' | grep -x -e icanon -e echo | tr '\\n' ' '")
        s.wait("icanon echo")
        for verb in (["run", "--model", suite.model, "--record", "r.db", "a b c"], ["export", "whole.db", "--to", "jsonl", "-o", "e"]):
            if verb[0] == "export":
                suite.chat(s, "--record", "whole.db")
                suite.ask(s, "a b c", 20)
                suite.quit(s)
            enter(s, f"clear; (ulimit -f 4; {suite.command(*verb)}); echo status $?")
            if not re.search("too large|largest size", s.wait(r"status [1-9]\d?$")):
                raise Failure(s.text())
    finally:
        s.close()


def test_commands_come_when_they_come(suite):
    """--commands of a pipe nobody writes to yet, or of lines without end: the screen lives, and obeys what comes; a terminal is refused"""
    s = suite.screen(80, 24)
    fifo = os.path.join(s.folder, "fifo")
    try:
        os.mkfifo(fifo)
        suite.chat(s, "--no-record", "--commands", "fifo")
        s.type("typed")
        expect_prompt(s, "typed")
        with open(fifo, "w", encoding="ascii") as f:
            f.write("/temp 0.")
            f.flush()
            s.type(" meanwhile")
            expect_prompt(s, "typed meanwhile")
            f.write("3\nsaid by the pipe")
            f.flush()
            s.wait("temp is now 0.3")
        s.wait("you said by the pipe")
        s.keys("C-u")
        suite.quit(s)
        with subprocess.Popen(["sh", "-c", f"exec yes /nothing > {fifo}"]) as endless:
            try:
                suite.chat(s, "--no-record", "--commands", "fifo")
                s.type("among lines without end")
                expect_prompt(s, "among lines without end")
                s.keys("C-u")
                suite.quit(s)
            finally:
                endless.kill()
        for path, why in (("/dev/tty", "that is a terminal"), ("nowhere", "No such file")):
            s.type("clear; " + suite.command("chat", "--model", suite.model, "--no-record", "--commands", path))
            s.keys("Enter")
            s.wait(why)
            s.wait(r"^\$$")
    finally:
        s.close()


def test_the_line_that_is_suggested_works(suite):
    """'see it again' can be given to a shell as it stands, whatever the recording is called"""
    s = suite.screen(120, 24)
    try:
        for name in ("plain.db", "it's $HOME `x`.db", "-- dash \\ é.db", "line\nbreak\x01 it's.db"):
            suite.chat(s, "--record", os.path.join(s.folder, name))
            suite.ask(s, "a b c", 20)
            suite.quit(s)
            line, = re.findall(r"^see it again:  cutaway (replay .*)$", s.text(), re.M)
            done = subprocess.run(["bash", "-c", "printf '%s\\0' " + line], capture_output=True, check=True)
            if done.stdout.split(b"\0")[1] != os.path.join(s.folder, name).encode():
                raise Failure(f"{line!r} is {done.stdout}")
            s.type("clear")
            s.keys("Enter")
            s.wait(r"^\$$")
    finally:
        s.close()


def test_a_terminal_that_nobody_reads(suite):
    """SIGTERM ends a chat whose terminal takes nothing any more, and all of it is recorded"""
    s = suite.screen(80, 24)  # for its folder and environment
    try:
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        chat = subprocess.Popen([os.path.join(ROOT, "cutaway"), "chat", "--model", suite.model, "--record", "u.db"],
                                stdin=theirs, stdout=theirs, stderr=theirs, cwd=s.folder, env=s.env,
                                start_new_session=True)
        seen = b""
        while b"rec" not in seen:
            seen += os.read(ours, 65536)
        other = os.open(os.ttyname(theirs), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            while True:
                os.write(other, b"x" * 4096)
        except BlockingIOError:
            pass
        chat.send_signal(signal.SIGTERM)
        try:
            chat.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            chat.kill()
            raise Failure("it waits for the terminal for ever") from None
        if rows(s, "u.db", "PRAGMA integrity_check") != [("ok",)] or os.path.exists(os.path.join(s.folder, "u.db-wal")):
            raise Failure("the recording is not closed")
    finally:
        s.close()


def test_the_end_of_the_context(suite):
    """what it will do is said before it is asked; turns that are left out are told, on the screen and in the log"""
    for width, height in ((80, 24), (120, 40)):
        s = suite.screen(width, height)
        try:
            suite.chat(s, "--record", "e.db", "--ctx", "256")
            for i in range(4):
                suite.ask(s, f"tell me of {i}", 20 * (i + 1))
            full = r"^ +(?:the context is full: /overflow drop leaves out|\d+ tokens? (?:is|are) left; )"
            s.wait(full)
            enter(s, "what else is there to be told of it " * 4)
            s.wait("the context is full: the conversation and this text are")
            s.keys("Escape", "C-u")
            enter(s, "/overflow drop")
            s.wait(full, gone=True)
            if not re.search(r"left, then the oldest|next: at least 1 turn left out", s.text()):
                raise Failure("the oldest turns are not announced:\n" + s.text())
            words = r"next: at least (\d) turns? left out \((\d+) tokens\), (\d+) computed again"
            for asked in range(5, 9):
                said = re.search(words, s.text())
                enter(s, f"go on {asked}")
                await_answers(s, "e.db", asked)
                s.wait(rf"you go on {asked}(?:.*\n)+ +{words}")
            if not re.search(r"the context was full: 1 turn \(\d+ tokens\) left out", s.text()):
                raise Failure("a turn that was left out is not told:\n" + s.text())
            s.keys("C-o")
            s.wait("Esc back")
            s.keys("1", "Enter", "PPage")
            s.wait("left out of the context from here up")
            s.keys("End", "Escape", "Escape")
            s.wait("Esc back", gone=True)
            suite.quit(s)
            turns, tokens = rows(s, "e.db", f"SELECT turns, tokens FROM trim WHERE request = {asked}")[0]
            again, = rows(s, "e.db", f"SELECT n_prompt - hit FROM request JOIN lookup USING (request) WHERE request = {asked}")[0]
            if (str(turns), str(tokens)) != said.groups()[:2] or not 0 < again - int(said.group(3)) < 40:
                raise Failure(f"announced {said.group()}, but left out were {turns}, {tokens}, and {again} were computed")
            suite.replay(s, "e.db")
            s.keys("End")
            s.wait(r"1 turn \(\d+ tokens\) left out")
            s.type("q")
            s.wait(r"^\$$")
        finally:
            s.close()


def test_an_answer_beyond_the_context(suite):
    """with sinks an answer goes on beyond --ctx in no more pages; that is named, and chosen at the start alone"""
    s = suite.screen(120, 40)
    try:
        suite.chat(s, "--record", "s.db", "--ctx", "256", "--overflow", "sinks", "--logit-bias", "0:-100,1:-100,2:-100", "--max-tokens", "240")
        s.wait("LOSSY stream:4\\+window:252")
        enter(s, "tell me a story")
        await_answers(s, "s.db", 1)
        s.wait(r"256 of \d+ tokens are seen: the first and the newest")
        enter(s, "go on")
        await_answers(s, "s.db", 2)
        s.wait(r"ctx 5\d\d of 4,096")
        suite.quit(s)
        pages, = rows(s, "s.db", "SELECT pages FROM session")[0]
        reasons = rows(s, "s.db", "SELECT reason FROM finish")
        if pages * 16 > 256 + 256 + 16 or reasons != [(1,), (1,)]:
            raise Failure(f"{pages} pages, ends {reasons}")
        suite.chat(s, "--no-record", "--ctx", "256")
        enter(s, "/overflow sinks")
        s.wait("cutaway chat --overflow sinks")
        suite.quit(s)
    finally:
        s.close()


def await_answers(screen, name, n):
    """Until so many answers of the conversation are complete in the recording."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, = rows(screen, name, "SELECT count(*) FROM finish JOIN request USING (request) WHERE kind < 2")[0]
        if done == n:
            return
        time.sleep(0.1)
    raise Failure(f"{done} answers, not {n}:\n{screen.text()}")


def look_at_winner(screen):
    screen.wait(r"next token ─(?:.*\n){1,7}?.* won ")
    screen.wait(r"attention ─+ .*\d pages")


if __name__ == "__main__":
    sys.exit(main(globals()))
