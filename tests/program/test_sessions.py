#!/usr/bin/env python3
"""The recordings of the default folder from outside: the list, names, deletion, and how a command takes one. Runs on a
tiny random model. TAP; Python's standard library alone."""
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

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-sessions-")
TINY = os.path.join(TMP.name, "tiny.gguf")
FOLDER = os.path.join(TMP.name, "cutaway", "sessions")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")},
       "TZ": "UTC"}


def cutaway(*args, stdin=""):
    """(exit status, output, errors)."""
    done = subprocess.run([PROGRAM, *args], input=stdin.encode(), capture_output=True, cwd=TMP.name, env=ENV,
                          check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def listed():
    return json.loads(cutaway("sessions", "--json")[1])


def age(name, seconds):
    """The file was written so long ago."""
    then = time.time() - seconds
    os.utime(os.path.join(FOLDER, name), (then, then))


def record(text, name, seconds):
    path = os.path.join(FOLDER, name)
    cutaway("run", "--model", TINY, "--max-tokens", "5", "--record", path, text)
    age(name, seconds)


def test_list():
    for args in (("sessions",), ("replay",)):
        done = subprocess.run([PROGRAM, *args], capture_output=True, env={**ENV, "XDG_DATA_HOME": "/proc/none"}, check=False)
        check(f"{args[0]} only reads, and makes no folder", b"cannot make" not in done.stderr, done.stderr)
    check("no recordings are a list of none", cutaway("sessions")[0] == 0 and listed() == [])
    os.makedirs(FOLDER, exist_ok=True)
    for i, text in enumerate(("the oldest", "one\nof two \x1b[31mlines", "the newest")):
        record(text, ("old.db", "mid.db", "new.db")[i], 300 - 100 * i)
    rows = listed()
    check("the newest comes first", [r["name"] for r in rows] == ["new.db", "mid.db", "old.db"], rows)
    check("with its question, turns, tokens, size and state",
          rows[0]["text"] == "the newest" and rows[0]["turns"] == 1 and rows[0]["tokens"] == 5 and
          rows[0]["bytes"] == os.path.getsize(os.path.join(FOLDER, "new.db")) and rows[0]["state"] == "closed" and
          rows[0]["model"].startswith("tiny") and abs(rows[0]["unix_ns"] / 1e9 - time.time()) < 3600, rows[0])
    check("a question of several lines is one line, its escapes no escapes",
          "\n" not in rows[1]["text"] and "\x1b" not in rows[1]["text"], rows[1])
    status, out, _ = cutaway("sessions", "--find", "OF two")
    check("--find lists those in which words were said, in any case", status == 0 and "mid.db"[:3] in out and
          "of two" in out and "1 recording" in out and "oldest" not in out, out)
    record("what stands before in this folder", "long.db", 0)
    out = cutaway("sessions", "--find", "folder")[1]
    check("with whole words around them", " · stands before in this folder\n" in out, out)
    record("a question " + "of many words " * 12 + "to its end", "whole.db", 0)
    out = cutaway("sessions")[1]
    os.remove(os.path.join(FOLDER, "whole.db"))
    check("into a pipe a text is whole", "of many words to its end\n" in out, out)
    os.remove(os.path.join(FOLDER, "long.db"))
    answer, = sqlite3.connect(os.path.join(FOLDER, "old.db")).execute("SELECT CAST(answer AS BLOB) FROM answers").fetchone()
    letters = max(re.findall(rb"[A-Za-z]*", answer), key=len).decode()
    found = [r["name"] for r in json.loads(cutaway("sessions", "--json", "--find", letters)[1])]
    check("in answers, too", letters and "old.db" in found, (answer, found))
    check("and none where they were not", json.loads(cutaway("sessions", "--json", "--find", "nowhere said")[1]) == [])
    out = cutaway("sessions")[1]
    check("the table has them too", all(r["text"] in out for r in rows) and "3 recordings" in out, out)


def test_damaged():
    with open(os.path.join(FOLDER, "garbage.db"), "w", encoding="ascii") as f:
        f.write("no recording at all")
    with open(os.path.join(FOLDER, "old.db"), "rb") as f:
        whole = f.read()
    for name, size in (("cut.db", 30000), ("head.db", 100)):
        with open(os.path.join(FOLDER, name), "wb") as f:
            f.write(whole[:size])
    sqlite3.connect(os.path.join(FOLDER, "other.db")).execute("CREATE TABLE t (a)").connection.close()
    with open(os.path.join(FOLDER, "liar.db"), "wb") as f:
        f.write(whole)
    db = sqlite3.connect(os.path.join(FOLDER, "liar.db"))
    db.execute("UPDATE session SET unix_ns = 9223372036854775807, model_name = ?", ("\x1b]0;x\x07" * 100,))
    db.execute("UPDATE step SET tokens = 9223372036854775807")
    db.execute("UPDATE request SET text = ?", ("\u202e" + "\u0301" * 10000,))
    db.commit()
    db.close()
    open(os.path.join(FOLDER, "empty.db"), "wb").close()
    os.mkdir(os.path.join(FOLDER, "folder.db"))
    rows = {r["name"]: r for r in listed()}
    for name in ("garbage.db", "cut.db", "head.db", "other.db"):
        check(f"{name} is listed as unreadable, with the reason",
              rows[name]["state"] == "unreadable" and len(rows[name]["why"]) > 8, rows.get(name))
    check("a recording that lies is listed in plain characters", rows["liar.db"]["state"] == "closed" and
          not any(c < " " or c == "\u202e" for c in rows["liar.db"]["model"] + rows["liar.db"]["text"]),
          rows["liar.db"])
    check("a file without bytes and a folder are no recordings", not {"empty.db", "folder.db"} & set(rows))
    status, out, err = cutaway("sessions")
    check("the table says so and goes on", status == 0 and not err and "unreadable: " in out and "the newest" in out, out)
    status, out, _ = cutaway("sessions", "delete", "--yes", "garbage", "cut", "head", "other", "liar")
    check("unreadable ones can be deleted", status == 0 and len(listed()) == 3, out)
    os.rmdir(os.path.join(FOLDER, "folder.db"))


def test_lesson():
    path = os.path.join(FOLDER, "2026-01-01-000000.db")
    shutil.copy(os.path.join(FOLDER, "old.db"), path)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO lesson (seq, t_ns, action, name, part) VALUES (1, 1, 0, 'kv-cache', 0)")
    db.close()
    out = cutaway("sessions")[1]
    check("a recording of a lesson says of which", " lesson kv-cache · the oldest" in out, out)
    os.unlink(path)


def test_names():
    status, out, _ = cutaway("sessions", "name", "2", "foxes")
    check("a number of the list gets a name", status == 0 and out.strip() == os.path.join(FOLDER, "foxes.db") and
          [r["name"] for r in listed()] == ["new.db", "foxes.db", "old.db"], out)
    check("the list has it", "foxes · one of two" in cutaway("sessions")[1], cutaway("sessions")[1])
    found = [r["name"] for r in json.loads(cutaway("sessions", "--json", "--find", "FOX")[1])]
    check("--find finds a name, too", found == ["foxes.db"], found)
    for new, why in (("old", "exists already"), ("a/b", "no name"), ("..", "no name"), ("7", "no name"),
                     ("-x", "no name"), ("a\nb", "no name"), ("", "no name")):
        status, _, err = cutaway("sessions", "name", "--", "foxes", new)
        check(f"but not {new!r}", status != 0 and why in err and "foxes.db" in [r["name"] for r in listed()], err)
    check("what is no recording is not moved", cutaway("sessions", "name", TINY, "x")[0] == 3 and
          os.path.exists(TINY))


def test_selection():
    for what in ("2", "foxes", "fo", "foxes.db", os.path.join(FOLDER, "foxes.db")):
        status, out, err = cutaway("verify", "--model", TINY, what)
        check(f"verify takes {os.path.basename(what)}", status == 0 and "all equal: 5 rows" in out, err)
    check("so do export, whatif, why and diff",
          cutaway("export", "fo", "--to", "csv")[1] == cutaway("export", "2", "--to", "csv")[1] != "" and
          cutaway("whatif", "fo")[0] == 0 and "request" in cutaway("why", "wait", "--file", "2")[1] and
          cutaway("diff", "1", "fox")[0] == 1)
    status, _, err = cutaway("verify", "9")
    check("a number beyond the list is an error with the count", status == 2 and "lists 3" in err, err)
    status, _, err = cutaway("verify", "nothing-like-it")
    check("a word that names nothing is the file that is missing", status == 4 and "nothing-like-it: No such" in err, err)
    shutil.copy(os.path.join(FOLDER, "foxes.db"), os.path.join(FOLDER, "foal.db"))
    age("foal.db", 1000)
    status, _, err = cutaway("verify", "fo")
    check("a beginning of several names is an error", status == 2 and "several" in err, err)
    shutil.copy(os.path.join(FOLDER, "foal.db"), os.path.join(TMP.name, "1"))
    check("a file that is there goes before a number", "one" in cutaway("export", "1", "--to", "jsonl")[1])
    os.unlink(os.path.join(TMP.name, "1"))


def test_delete():
    status, out, _ = cutaway("sessions", "delete", "foal", stdin="n\n")
    check("deletion asks, and no is no", status == 0 and "[y/N]" in out and len(listed()) == 4, out)
    check("so is the end of the input", cutaway("sessions", "delete", "foal")[0] == 0 and len(listed()) == 4)
    status, out, _ = cutaway("sessions", "delete", "1", "2", stdin="n" * 15 + "y\n")
    check("a line is one answer, however long", status == 0 and out.count("kept") == 2 and len(listed()) == 4, out)
    status, out, _ = cutaway("sessions", "delete", "foal", stdin="y\n")
    check("yes deletes", status == 0 and len(listed()) == 3, out)
    status, _, err = cutaway("sessions", "delete", "--yes", "1")
    check("a number may mean another one by now: not without asking", status == 2 and "say the name" in err and len(listed()) == 3, err)
    status, _, err = cutaway("sessions", "delete", "1", "99", stdin="y\n")
    check("one wrong operand and nothing is deleted", status == 2 and len(listed()) == 3, err)
    check("what is no recording is not deleted", cutaway("sessions", "delete", "--yes", TINY)[0] == 3 and
          os.path.exists(TINY))


def test_written():
    """A session that runs, and one that was killed."""
    path = os.path.join(FOLDER, "live.db")
    flag = os.path.join(TMP.name, "flag")  # the answers wait for their score as long as it is there
    open(flag, "wb").close()
    with subprocess.Popen([PROGRAM, "run", "--model", TINY, "--record", path, "--max-tokens", "5", "--best-of", "2",
                           "--score", f"while [ -e {flag} ]; do sleep 0.1; done; echo 1", "a question"],
                          stdout=subprocess.DEVNULL, cwd=TMP.name, env=ENV) as run:
        end = time.monotonic() + 60
        while time.monotonic() < end and not any(r["name"] == "live.db" and r["tokens"] for r in listed()):
            time.sleep(0.05)
        row = [r for r in listed() if r["name"] == "live.db"]
        check("a session that runs is listed as being written", row and row[0]["state"] == "being written", row)
        for verb in ("delete", "name"):
            status, _, err = cutaway("sessions", verb, *(["--yes", "live"] if verb == "delete" else ["live", "x"]))
            check(f"and {verb} refuses it", status == 2 and "being written" in err and os.path.exists(path), err)
        run.send_signal(signal.SIGKILL)
        os.unlink(flag)
    row = [r for r in listed() if r["name"] == "live.db"]
    check("after a kill it is cut off", row and row[0]["state"] == "cut off", row)
    before = cutaway("export", "live", "--to", "jsonl")[1]
    status, _, err = cutaway("sessions", "name", "live", "killed")
    check("named, it has all that it had", status == 0 and cutaway("export", "killed", "--to", "jsonl")[1] == before,
          err)
    cutaway("sessions", "delete", "--yes", "killed")
    check("deleted, nothing of it is left", not [n for n in os.listdir(FOLDER) if n.startswith(("live", "killed"))],
          os.listdir(FOLDER))


def test_usage():
    for args in (["nmae", "1", "x"], ["name", "1"], ["delete"], ["open", "1", "2"]):
        status, _, err = cutaway("sessions", *args)
        check(f"sessions {' '.join(args)} is a usage error", status == 2 and "sessions" in err, err)
    status, _, err = cutaway("sessions", "open", "new")
    check("sessions open replays, in a terminal", status != 0 and "terminal" in err, err)


subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
for name, test in list(globals().items()):
    if name.startswith("test_") and (len(sys.argv) < 2 or name[5:] in sys.argv[1:]):
        test()
sys.exit(finish())
