#!/usr/bin/env python3
"""Lessons from outside: all shipped ones are run on the real model and must tell the truth; one is read by hand at 80x24; own
ones, wrong ones and hostile ones; the report of a class. TAP; Python's standard library alone."""
import csv
import glob
import html.parser
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

from tap import PROGRAM, ROOT, check, finish, sample
from terminal import Failure, Terminal

TMP = tempfile.TemporaryDirectory(prefix="cutaway-lessons-")
TINY = os.path.join(TMP.name, "tiny.gguf")
OWN = os.path.join(TMP.name, "cutaway", "lessons")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")},
       "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
LESSON = """# Does two times two make four?

A page with **bold** words.

```predict
? How many tokens will it say?
= number, 10 %
SELECT count(*), 'of ' || 5 FROM token
```

```predict
? Is it so?
= one of yes, no
SELECT 'yes'
```

```look pages
free
```

```do
/max-tokens 5
two times two
```

```check
? It said five.
SELECT count(*) = 5 FROM token
```

---

The end.
"""


def cutaway(*args):
    done = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, cwd=TMP.name, env=ENV, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def write(name, text):
    os.makedirs(OWN, exist_ok=True)
    with open(os.path.join(OWN, name + ".md"), "w", encoding="utf-8") as f:
        f.write(text)


def test_shipped():
    model = os.path.join(ROOT, "models", "SmolLM2-135M-Instruct.Q4_1.gguf")
    texts = {}
    for path in sorted(glob.glob(os.path.join(ROOT, "demos/lessons/*.md"))):
        with open(path, encoding="utf-8") as f:
            texts[os.path.basename(path)[:-3]] = " ".join(f.read().split())
    names = list(texts)
    tried = sample(sorted(names, key=lambda name: texts[name].count("/load")), 4)  # those with the most requests are not among four
    listed = re.findall(r"^ *\d+  (\S+)", cutaway("lesson")[1], re.M)
    check("each lesson's file is in the program", names and set(names) <= set(listed), (names, listed))
    with open(os.path.join(ROOT, "docs/claims.md"), encoding="utf-8") as f:
        rows = set(re.findall(r"^\| (\S+) \|", f.read(), re.M))
    for name, text in texts.items():
        named = re.findall(r"docs/claims\.md, (\S+?)[,;:.)]*(?= )", text)
        check(f"{name} names its sources", not re.search(r"\b(says|said|reports) (one|another|a) |\bone (text|paper) \w+s\b|the paper |founding text|the texts (say|on) ", text, re.I)
              and set(named) <= rows, named)
        if name not in tried:
            continue
        status, out, err = cutaway("lesson", "--test", name, "--model", model)
        check(f"{name} tells the truth", status == 0 and out.count("\nok ") + out.startswith("ok ") == len(out.splitlines()) > 2,
              out + err)


def test_queries():
    """What lessons tell a reader to ask of a recording: sqlite3 prepares it."""
    record = os.path.join(TMP.name, "asked.db")
    cutaway("run", "--model", TINY, "--max-tokens", "2", "--record", record, "hello")
    with sqlite3.connect(record) as db:
        for path in sorted(glob.glob(os.path.join(ROOT, "demos/lessons/*.md"))):
            with open(path, encoding="utf-8") as f:
                queries = [q for block in re.findall(r"```sql\n(.*?)```", f.read(), re.S) for q in block.split(";") if q.strip()]
            for query in queries:
                try:
                    db.execute("EXPLAIN " + query)
                    wrong = None
                except sqlite3.Error as e:
                    wrong = e
                check(f"{os.path.basename(path)} asks what a recording has", not wrong, (query, wrong))


def test_own():
    status, out, err = cutaway("lesson", "new", "mine")
    path = os.path.join(OWN, "mine.md")
    check("lesson new writes a beginning", status == 0 and os.path.exists(path) and path in out + err, out + err)
    status, out, err = cutaway("lesson", "--test", "mine", "--model", TINY)
    check("which can be run as it is, and says that a random model is no teacher", "ok - mine: How many tokens" in out, out + err)
    status, out, err = cutaway("lesson", "new", "mine")
    check("it is not written over", status == 2 and "is there already" in err, err)
    check("the list has it", " mine " in cutaway("lesson")[1])
    for args in ([], ["--test"], ["sheet"]):
        status, out, err = cutaway("lesson", *args, "kv-cash", "--model", TINY)
        check("a name that is not there", status == 2 and "did you mean kv-cache?" in err, (args, status, out + err))
    status, out, err = cutaway("lesson", TMP.name + "/", "--model", TINY)
    check("a folder is no lesson", "Is a directory" in err, (status, out + err))


def test_sheet():
    """What a teacher needs of a lesson, with the answers that a run of it measured."""
    write("taught", LESSON.replace("SELECT 'yes'", "SELECT CASE WHEN count(*) > 4 THEN 'yes' ELSE 'no' END FROM token"))
    status, out, err = cutaway("lesson", "sheet", "taught", "--model", TINY)
    check("a sheet says what the lesson is and needs", status == 0 and re.search(
        r"^taught: Does two times two make four\?\nyour own; about \d+ minutes: 25 words at 200 a minute, 2 questions at one, runs of [\d.]+ s here\n"
        r"needs any model; answers are of ", out), out + err)
    check("each question with its tolerance and the answer that was measured", "asks    How many tokens will it say?\n          a number; within 10 % "
          "is right\n    ->    5: of 5\n  asks    Is it so?\n          a yes   b no\n    ->    yes\n" in out, out)
    check("what is shown, typed and stated", "  shows   pages\n  types   /max-tokens 5\n          two times two\n  states  It said five.\n"
          "    ->    holds\n\npage 2\n" in out, out)
    write("taught", LESSON.replace("/max-tokens 5", "/max-tokens 4"))
    status, out, err = cutaway("lesson", "sheet", "taught", "--model", TINY)
    check("answers are measured, each time", status == 0 and "->    4: of 5" in out and "->    does not hold" in out, out + err)
    check("a run for a sheet is nobody's reading", re.search(r" taught  +1 |taught +2 ", cutaway("lesson")[1]), cutaway("lesson")[1])
    table = os.path.join(TMP.name, "sheet.csv")
    status, out, err = cutaway("lesson", "sheet", "taught", "--model", TINY, "--json", "--csv", table)
    with open(table, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    check("and as rows", status == 0 and [(r["part"], r["answer"]) for r in json.loads(out)] == [
        ("asks", "4: of 5"), ("asks", "yes"), ("shows", None), ("types", None), ("states", "does not hold")] and len(rows) == 5, (out, rows))
    write("taught", LESSON.replace("/max-tokens 5", "/max-tokens many"))
    status, out, err = cutaway("lesson", "sheet", "taught", "--model", TINY)
    check("what is refused is said of the line that was typed", status == 0 and "\n    ->    /max-tokens many: a whole number of tokens" in out, out + err)
    write("taught", LESSON.replace("look pages", "look the-moon"))
    status, out, err = cutaway("lesson", "sheet", "taught", "--model", TINY)
    check("a lesson that cannot be run has no sheet", status == 1 and not out and "no view the-moon" in err and "1 lesson could not" in err, out + err)


def test_paused():
    lines = "/max-tokens 20\n/pause\ntwo times two\n/load 2\n/step 8\n/rewind -2\n/continue"
    write("paused", LESSON.replace("/max-tokens 5\ntwo times two", lines).replace(
        "count(*) = 5 FROM token", "count(*) = 1 AND min(had - kept) = 2 AND (SELECT max(running) FROM step) = 3 FROM rewind"))
    status, out, err = cutaway("lesson", "--test", "paused", "--model", TINY)
    check("lines before a /continue are typed while an answer is held", "ok - paused: It said five. (1)" in out.splitlines(), out + err)


def test_load():
    write("load", LESSON.replace("two times two", "/load 3").replace("count(*) = 5 FROM token", "count(*) = 3 FROM finish"))
    status, out, err = cutaway("lesson", "--test", "load", "--model", TINY)
    check("a check waits for background requests", status == 0 and "ok - load: It said five. (1)" in out, out + err)
    write("kinds", LESSON.replace("two times two", "/load 2 chat\n/load 1 edit").replace(
        "count(*) = 5 FROM token", "group_concat(text, '+') = 'chat 1+chat 2+edit 3' FROM request"))
    status, out, err = cutaway("lesson", "--test", "kinds", "--model", TINY)
    check("background requests are of the kind that was asked for", "ok - kinds: It said five. (1)" in out, out + err)


def child_that_catches(process, signal_number):
    """Waits for the child of that process in which a handler of the signal is set."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as f:
            for child in f.read().split():
                with open(f"/proc/{child}/status", encoding="utf-8") as status:
                    caught = int(re.search(r"SigCgt:\s*(\w+)", status.read())[1], 16)
                if caught >> (signal_number - 1) & 1:
                    return int(child)
        time.sleep(0.02)
    raise Failure("ended before its child set a handler: " + process.communicate()[0].decode())


def test_hangs():
    write("hangs", LESSON.replace("/max-tokens 5\ntwo times two", "/max-tokens 5\n/pause\ntwo times two"))  # nothing goes on
    p = subprocess.Popen([PROGRAM, "lesson", "--test", "hangs", "--model", TINY], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=TMP.name, env=ENV)
    os.kill(child_that_catches(p, signal.SIGALRM), signal.SIGALRM)
    out = p.communicate()[0].decode()
    check("a line that never ends is named", p.returncode == 1 and re.search(
        r'not ok - hangs, line 2[2-4]: ".*" has not ended after \d+ s', out), out)


def test_wrong():
    write("false", LESSON.replace("count(*) = 5", "count(*) = 6"))
    status, out, err = cutaway("lesson", "--test", "false", "--model", TINY)
    check("what does not hold is found", status == 1 and "not ok - false: It said five. (0)" in out and "1 of what" in err, out + err)
    write("command", LESSON.replace("/max-tokens 5", "/max-tokens many\n/max-tokens 5"))
    status, out, err = cutaway("lesson", "--test", "command", "--model", TINY)
    check("a command that is refused is found", status == 1 and "not ok - command" in out and "max-tokens" in out, out + err)
    write("itself", LESSON.replace("/max-tokens 5", "/lesson itself\n/max-tokens 5"))
    status, out, err = cutaway("lesson", "--test", "itself", "--model", TINY)
    check("a lesson cannot begin itself", status == 1 and "may not type" in out, out + err)
    os.mkfifo(os.path.join(OWN, "pipe.md"))
    status, out, err = cutaway("lesson", "--test", "pipe", "--model", TINY)
    check("a FIFO is no lesson, and hangs nothing", status and "pipe" in out + err and "pipe" in cutaway("lesson")[1], out + err)
    os.unlink(os.path.join(OWN, "pipe.md"))
    for name, sql in (("writes", "DELETE FROM token"), ("attaches", "ATTACH 'x.db' AS x"),
                      ("endless", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n")):
        write(name, LESSON.replace("SELECT count(*) = 5 FROM token", sql))
        status, out, err = cutaway("lesson", "--test", name, "--model", TINY)
        check(f"a query that {name} is refused", status == 1 and f"not ok - {name}: It said five." in out, out + err)
    write("secret", "a secret")
    for name, line in (("shell", "!touch x\n$(touch x)\n/score touch x; cat >/dev/null; echo 1\n/search best:2"),
                       ("set", "/set score touch x; echo 1\n/search best:2"), ("saves", "/save x"), ("draws", "/export x.svg pages"),
                       ("pins", f"/pin {OWN}/secret.md 5m"), ("opens", "/spec draft:x.gguf"), ("twin", f"/twin {TINY}"),
                       ("compares", "/compare 'spec=off' 'spec=draft:x.gguf'")):
        write(name, LESSON.replace("two times two", line + "\ntwo times two"))
        status, out, err = cutaway("lesson", "--test", name, "--model", TINY)
        check(f"no shell, no file: a lesson that {name} is refused", status == 1 and "a lesson may not" in out and
              not [f for f in os.listdir(TMP.name) if f.startswith("x")], out + err)
    write("torn", "```predict\n? What\n```\n")
    status, out, err = cutaway("lesson", "--test", "torn", "--model", TINY)
    check("a block that is not as it must be, by its line", status == 1 and "line 1" in out, out + err)
    write("views", LESSON.replace("look pages", "look the-moon"))
    status, out, err = cutaway("lesson", "--test", "views", "--model", TINY)
    check("a view that is not there", status == 1 and "no view the-moon" in out, out + err)


def answer(t, word):
    """A question is left out by Enter, and Enter once more."""
    t.send(word + "\r")
    if not word:
        t.wait("Enter once more leaves it out")
        t.send("\r")


def read_by_hand(record, number, word, reader=None):
    more = ["--reader", reader] if reader else []
    t = Terminal([PROGRAM, "lesson", "truth", "--model", TINY, "--record", record, *more], ENV)
    try:
        t.wait("type what you expect")
        t.send("many\r")
        t.wait("a number is needed")
        answer(t, number)
        t.wait("a yes +b no")
        answer(t, word)
        t.wait("Enter types these lines")
        t.send("\r")
        screen = t.wait("Enter goes on")
        t.send("\r")
        end = t.wait("The end: ")
        t.send("/quit\r")
        return t.wait_end(), screen, end
    finally:
        t.close()


def test_by_hand():
    write("truth", LESSON)
    record = os.path.join(TMP.name, "hand.db")
    status, screen, end = read_by_hand(record, "5", "b", "Ada")
    check("read at 80x24 to its end", status == 0 and "The end." in end, end)
    check("prediction and measurement stand side by side", "you said 5, measured 5: of 5" in screen and
          "you said no, measured yes" in screen and re.search("✓ It said five", screen), screen)
    check("what it looks at is on the screen", "KV pages" in screen and "chat" in screen, screen)
    with sqlite3.connect(record) as db:
        rows = db.execute("SELECT lesson, predicted, found, verdict FROM answer a WHERE seq = (SELECT max(seq) FROM answer b "
                          "WHERE a.part = b.part) ORDER BY part").fetchall()
        shown = [part for part, in db.execute("SELECT part FROM lesson WHERE action < 2 ORDER BY seq")]
    db.close()
    check("the log has what was predicted and what was measured",
          rows == [("truth", "5", "5: of 5", 1), ("truth", "no", "yes", 2), ("truth", None, "1", 1)], rows)
    check("and how the reader went on", shown == sorted(shown) and len(shown) > 4, shown)
    t = Terminal([PROGRAM, "replay", record], ENV)
    try:
        t.wait("cutaway")
        t.send("/goto 1000000\r")
        replay = t.wait("It said five")
        check("the replay shows the lesson as it was read", "you said no, measured yes" in replay and "KV pages" in replay, replay)
        check("and does not say what Enter did", "Enter" not in replay and "/lesson" not in replay, replay)
        t.send("\x03\x03")
        t.wait_end()
    finally:
        t.close()
    check("the list knows that it is done", re.search(r"truth +done", cutaway("lesson")[1]))


def test_end():
    """At the end, by /lesson off and by another lesson the settings of before come back; Enter goes to the next one."""
    write("truth", LESSON.replace("/max-tokens 5", "/max-tokens 5\n/policy static"))
    write("truthful", LESSON.replace("/max-tokens 5", "/max-tokens 6").replace("two times two", "/spec ngram:4"))
    t = Terminal([PROGRAM, "lesson", "truth", "--model", TINY, "--record", os.path.join(TMP.name, "end.db"), "--max-tokens", "9"], ENV, 120, 40)

    def read():
        t.wait("a number; within 10 % is right")
        answer(t, "5")
        t.wait("a yes +b no")
        answer(t, "")
        t.wait("Enter types these lines")
        t.send("\r")
        t.wait("Enter goes on")
    try:
        read()
        t.send("\r")
        end = t.wait("as before the lesson: max-tokens 9, policy fcfs")
        words = " ".join(" ".join(line[:56] for line in end.splitlines()).split())
        check("the end says how it went",
              "The end: 1 of 2 questions predicted, 1 of them right; 1 of 1 statements hold here" in words, end)
        check("and what Enter does", "Enter: the next lesson, truthful" in end, end)
        t.send("/policy\r")
        t.wait("policy is fcfs")
        t.send("\r")
        t.wait("truthful")
        read()
        t.send("/lesson\r")
        t.wait(" tokens-and-sampling +[0-9]+ min +Does a model choose words")
        t.send("\x1b")
        t.send("/lesson truth\r")
        check("so does another lesson", t.wait("as before the lesson: max-tokens 9, spec off"))
        read()
        t.send("/lesson off\r")
        check("and /lesson off", t.wait("as before the lesson: max-tokens 9, policy fcfs"))
        t.send("/quit\r")
        t.wait_end()
    finally:
        t.close()


def test_whole_runs():
    """What a lesson shows of a load is all of it, one policy above the other, in a few columns; also in the chat, by a command."""
    lines = "/max-tokens 40\n/policy static\n/load 12\n/policy fcfs\n/load 12\n/set pages 9\n/load 12"
    write("runs", LESSON.replace("look pages\nfree", "look runs all").replace("/max-tokens 5\ntwo times two", lines).replace(
        "count(*) = 5 FROM token", "count(*) = 36 FROM finish"))
    t = Terminal([PROGRAM, "lesson", "runs", "--model", TINY, "--slots", "4", "--pages", "64", "--record", os.path.join(TMP.name, "runs.db")], ENV)
    try:
        for _ in range(2):
            t.wait("type what you expect")
            answer(t, "")
        t.wait("Enter types these lines")
        t.send("\r")
        screen = t.wait("more lines: Enter")
        check("a run with few pages below one with enough", re.search(r"fcfs: \d+ steps, \d+ % of the slots idle.*fcfs: [^\n]* [1-9]\d* preempted",
                                                                      screen, re.S) and "×" in screen, screen)
        t.send("/lesson off\r")
        t.wait("as before the lesson: .*policy fcfs|pages")
        t.send("/view runs\r")
        screen = t.wait("static: ")
        check("the three of them one above the other", screen.count("fcfs: ") == 2 and screen.index("static: ") < screen.index("fcfs: "), screen)
        t.send("\x0f/quit\r")
        t.wait_end()
    finally:
        t.close()


class Page(html.parser.HTMLParser):
    """The tags of a page, and its texts by the tag that they are in."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("class")))

    def handle_data(self, data):
        if self.tags and data.strip():
            self.texts.append((self.tags[-1][0], data.strip()))


def test_page(records):
    """A class as a page: a dot a prediction, a line a measurement, a row a reader; nothing foreign becomes markup."""
    path, foreign = os.path.join(TMP.name, "class.html"), os.path.join(TMP.name, "foreign.db")
    status, out, err = cutaway("lesson", "report", "--html", path, *records)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page(text)
    check("the page has a dot for each prediction, right or wrong", status == 0 and "right 1 of 2" in out and sorted(
        c for tag, c in page.tags if tag == "circle") == ["right", "wrong"] and ("title", "Ada: 5") in page.texts, (out, err, page.texts))
    check("what was measured, and what counts as right", page.tags.count(("line", "found")) == 2 and page.tags.count(("rect", "band")) == 1, page.tags)
    check("words by how many said them", {c for tag, c in page.tags if (c or "").startswith("bar ")} == {"bar right", "bar wrong"}, page.tags)
    check("and a row for each reader", re.findall(r"<tr><td>(\w+)</td>.*<td>(\d of \d)</td></tr>", text) == [("Ada", "1 of 2"), ("second", "1 of 2")], text)
    shutil.copy(records[0], foreign)
    with sqlite3.connect(foreign) as db:
        db.execute("UPDATE lesson SET reader = ?", ("</title><script>1</script>&lt;\x1b[31m\u202e",))
        db.execute("UPDATE answer SET lesson = '</h2><img src=x>', question = '<b>' || part, value = 9e999, measured = -9e999, tolerance = 1e300")
        db.execute("UPDATE answer SET predicted = '<i>', found = '\"><s>', value = 1e308, measured = -1e308 WHERE part = 2")
        db.execute("UPDATE answer SET predicted = '1', value = 1e-300, measured = 1e300 WHERE part = 3")
    db.close()
    status, out, err = cutaway("lesson", "report", "--html", path, foreign)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    known = {tag for tag, _ in page.tags}
    check("foreign texts stay texts", status == 0 and {tag for tag, _ in Page(text).tags} <= known and "&lt;script&gt;1&lt;/script&gt;&amp;lt;" in text and
          not re.search("[\x00-\x09\x0b-\x1f\u202e]|nan", text), (err, text[-3000:]))
    status, out, err = cutaway("lesson", "kv-cache", "--html", path)
    check("a page is of a report", status == 2 and "lesson report" in err, err)


def test_report():
    records = [os.path.join(TMP.name, name) for name in ("hand.db", "second.db")]
    read_by_hand(records[1], "9", "a")
    status, out, err = cutaway("lesson", "report", *records)
    check("the report has spread and result", status == 0 and "predicted 7 (5 to 9)  measured 5  right 1 of 2" in out, out + err)
    check("a reader who gave a name has it, the other that of the file", re.findall(r"^ +(\w+) +\d -> 5", out, re.M) == ["Ada", "second"], out)
    check("how many predicted what", re.search(r"^ +5 +# 1\n +9 +# 1\n", out, re.M), out)
    table = os.path.join(TMP.name, "class.csv")
    status, out, err = cutaway("lesson", "report", "--csv", table, *records)
    with open(table, encoding="utf-8", newline="") as f:
        rows = list(csv.DictReader(f))
    check("a row for each answer, for a spreadsheet", status == 0 and len(rows) == 6 and
          [(r["reader"], r["predicted"], r["right"]) for r in rows if r["question"].startswith("How many")] == [("Ada", "5", "1"), ("second", "9", "0")],
          (rows, err))
    status, out, err = cutaway("lesson", "report", "--json", *records)
    answers = json.loads(out)
    check("and as JSON", len(answers) == 6 and answers[0]["reader"] == "Ada" and answers[0]["right"], out + err)
    folder = os.path.join(ENV["XDG_DATA_HOME"], "cutaway/sessions")
    os.makedirs(folder, exist_ok=True)
    newest = shutil.copy(records[0], os.path.join(folder, "newest.db"))
    status, out, err = cutaway("lesson", "report", "1", records[1])
    check("a number of the list is a recording, as for other verbs", status == 0 and "predicted 7 (5 to 9)" in out, out + err)
    os.unlink(newest)
    test_page(records)
    skipped = os.path.join(TMP.name, "skipped.db")
    read_by_hand(skipped, "", "")
    status, out, err = cutaway("lesson", "report", skipped)
    check("where nobody predicted it says so", status == 0 and "measured 5  nobody predicted it" in out and
          "left out -> 5" in out, out + err)
    page = os.path.join(TMP.name, "skipped.html")
    status, out, err = cutaway("lesson", "report", "--json", "--csv", table, "--html", page, skipped)
    with open(page, encoding="utf-8") as f, open(table, encoding="utf-8", newline="") as g:
        text, rows = f.read(), list(csv.DictReader(g))
    check("left-out questions are counted apart, in a question and for a reader", status == 0 and "right 0 of 0; 1 left it out" in text and
          "<td>0 of 0; 2 left out</td>" in text, (err, text))
    check("and are neither right nor wrong in a table", [a["right"] for a in json.loads(out) if a["ask"] == "predict"] == [None, None] and
          [r["right"] for r in rows if r["ask"] == "predict"] == ["", ""], (out, rows))
    with sqlite3.connect(skipped) as db:
        db.execute("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
                   "INSERT INTO lesson (seq, t_ns, action) SELECT 1000000 + i, 0, 1 FROM n")
    db.close()
    status, out, err = cutaway("lesson", "report", skipped)
    check("a recording of more marks than any class makes", status == 3 and "more than 10000 answers" in err, err)
    status, out, err = cutaway("lesson", "report", TINY)
    check("what is no recording", status == 3 and "not a recording" in err, err)


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    mktiny = os.path.join(ROOT, "build", "tests", "mktiny")
    subprocess.run([mktiny, TINY], check=True, stdout=subprocess.DEVNULL)
    for test in (test_own, test_queries, test_sheet, test_load, test_paused, test_hangs, test_wrong, test_by_hand, test_end, test_whole_runs, test_report, test_shipped):
        try:
            test()
        except Failure as e:
            check(test.__name__, False, e)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
