#!/usr/bin/env python3
"""What the program writes, and what it must not: a file that is there, a device, a link, a terminal, a descriptor that
was closed. And files that are made to take long. Runs on tiny random models. TAP; Python's standard library alone."""
import os
import pty
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TMP = tempfile.TemporaryDirectory(prefix="cutaway-files-")
PROGRAM = os.path.join(ROOT, "cutaway")
TINY, FILE = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "session.db"))
ENV = {**os.environ, **{name: os.path.join(TMP.name, name) for name in
                        ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}
ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b31m\u202e\x7f"
count = failures = 0


def check(name, good, more=""):
    global count, failures
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {name}", flush=True)
    if not good:
        failures += 1
        for line in str(more).splitlines()[:20]:
            print("# " + line)


def below(name):
    return os.path.join(TMP.name, name)


def cutaway(*args, **more):
    """(exit status, output, errors)."""
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "env": ENV, **more}
    done = subprocess.run([PROGRAM, *args], stderr=subprocess.PIPE, cwd=TMP.name, **more)
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def export(*args, **more):
    return cutaway("export", FILE, *args, **more)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def test_export_file():
    whole, before = export("--to", "csv")[1], read(FILE)
    os.symlink(FILE, below("link.db"))
    os.link(FILE, below("other-name.db"))
    for name in ("session.db", "link.db", "other-name.db"):
        status, _, err = export("--to", "csv", "-o", below(name))
        check(f"export -o {name}: a recording is not written over", status == 2 and name in err and read(FILE) == before,
              f"{status} {err}")
    os.unlink(below("link.db"))
    os.unlink(below("other-name.db"))
    os.mkfifo(below("fifo"))
    got = []
    reader = threading.Thread(target=lambda: got.append(read(below("fifo"))))
    reader.start()
    status, _, err = export("--to", "csv", "-o", below("fifo"))
    check("export -o FIFO writes into it", status == 0 and stat.S_ISFIFO(os.stat(below("fifo")).st_mode), err)
    if not stat.S_ISFIFO(os.stat(below("fifo")).st_mode) or status:
        return
    reader.join()
    check("all of it", got == [whole])
    folder = below("elsewhere")
    os.mkdir(folder)
    target, link = os.path.join(folder, "target.csv"), below("link.csv")
    write(target, b"old")
    os.chmod(target, 0o640)
    os.symlink(target, link)
    status, _, err = export("-o", link)
    check("export -o LINK: the link stays, what it points to is replaced and keeps its mode", status == 0 and
          os.path.islink(link) and read(target) == whole and os.stat(target).st_mode & 0o777 == 0o640, err)
    check("and nothing remains beside it", os.listdir(folder) == ["target.csv"], os.listdir(folder))
    os.unlink(target)
    status, _, err = export("-o", link)
    check("a link to nothing is told", status == 4 and "link" in err and not os.path.exists(target), f"{status} {err}")
    for kind in ("a file", "a link"):
        write(target, b"mine")
        part = below("out.csv.part")
        os.symlink(target, part) if kind == "a link" else write(part, b"mine")
        status, _, err = export("-o", below("out.csv"))
        check(f"{kind} named OUT.part is nobody's to write over", status == 0 and read(below("out.csv")) == whole and
              read(part) == b"mine", err)
        os.unlink(part)
    check("export -o a folder", export("-o", TMP.name, "--to", "csv")[0] == 4)
    device = below("null")
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except OSError:
        device = "/dev/null"  # and who is not root could not replace it
    status, _, err = export("--to", "csv", "-o", device)
    check("export -o a device writes to it", status == 0 and stat.S_ISCHR(os.stat(device).st_mode), err)


def on_terminal(*args):
    """What a program writes on a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen([PROGRAM, *args], stdin=slave, stdout=slave, stderr=slave, cwd=TMP.name, env=ENV)
    os.close(slave)
    out = b""
    while True:  # tests/run ends what never ends
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        out += part
    child.wait()
    os.close(master)
    return out.decode("utf-8", "replace")


def test_terminal():
    path = below("escapes.db")
    write(path, read(FILE))
    db = sqlite3.connect(path)
    for table, column in (("request", "text"), ("request", "stop"), ("session", "model_name"), ("session", "version"),
                          ("session", "model_path"), ("session", "build"), ("setting", "value"), ("finish", "why")):
        db.execute(f"UPDATE {table} SET {column} = ?", (ESCAPES,))
    db.execute("UPDATE vocab SET bytes = ?", (ESCAPES.encode(),))
    db.commit()
    db.close()
    verbs = [["export", "--to", form, path] for form in ("perfetto", "jsonl", "html", "asciicast")]
    verbs += [["export", "--to", "csv", "--table", table, path] for table in ("token", "request", "setting", "session")]
    verbs += [["diff", FILE, path], ["diff", "--json", FILE, path], ["verify", "--model", TINY, path],
              ["verify", "--model", TINY, "--json", path], ["why", "token", "--file", path], ["whatif", path]]
    for verb in verbs:
        shown = on_terminal(*verb)
        bad = [c for c in shown if (ord(c) < 32 and c not in "\r\n") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"]
        check(f"{' '.join(verb[:-1])}: nothing of the recording commands the terminal", len(shown) > 20 and not bad,
              f"{bad[:5]} {shown[:300]!r}")
    csv = export("--to", "csv", "--table", "setting")[1].decode()
    check("a table reads on a terminal as in a file", on_terminal("export", "--to", "csv", "--table", "setting", FILE) == csv)


def test_closed_pipes():
    for verb in (["export", FILE, "--to", "csv"], ["export", FILE, "--to", "asciicast"], ["export", FILE, "--to", "html"],
                 ["export", FILE, "--to", "jsonl"], ["export", FILE, "--to", "perfetto"], ["--help"], ["diff", FILE, FILE],
                 ["whatif", FILE], ["verify", "--model", TINY, FILE], ["why", "token", "--file", FILE], ["cache"], ["devices"],
                 ["score", "--model", TINY, TINY + ".txt"]):
        reading, writing = os.pipe()
        os.close(reading)  # before it starts, so that it cannot be done before
        status, _, err = cutaway(*verb, stdout=writing)
        os.close(writing)
        check(f"{verb[0]} {verb[-1] if verb[0] == 'export' else ''} into a closed pipe ends quietly",
              status == 4 and not err, f"{status} {err}")
    with open("/dev/full", "wb") as full:
        status, _, err = export("--to", "csv", stdout=full)
    check("a full disk is told", status == 4 and "space" in err, f"{status} {err}")


def test_closed_descriptors():
    path = below("closed.db")
    child = subprocess.Popen(["sh", "-c", 'exec "$0" "$@" <&- >&-', PROGRAM, "run", "--model", TINY, "--record", path, "--json",
                              "--max-tokens", "40", "Hello"], stderr=subprocess.PIPE, env=ENV)
    err = child.communicate()[1].decode()
    db = sqlite3.connect(path)
    try:
        good = db.execute("PRAGMA integrity_check").fetchone()[0] == "ok" and db.execute("SELECT count(*) FROM session")
    except sqlite3.DatabaseError as error:
        good, err = False, f"{error}: {err}"
    db.close()
    check("with standard input and output closed the recording is not written over", good and child.returncode == 4,
          f"{child.returncode} {err}")
    done = subprocess.run(["sh", "-c", 'exec "$0" --version >&-', PROGRAM], capture_output=True, env=ENV)
    check("a closed standard output is told", done.returncode == 4 and b"standard output" in done.stderr, done)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    write(TINY + ".txt", b"Once upon a time")
    status, _, err = cutaway("run", "--model", TINY, "--record", FILE, "--max-tokens", "40", "Hello")
    if status:
        print("Bail out!", err)
        return 1
    words = sys.argv[1:]
    for test in (test_export_file, test_terminal, test_closed_pipes, test_closed_descriptors):
        if not words or any(word in test.__name__ for word in words):
            test()
    print(f"1..{count}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
