#!/usr/bin/env python3
"""What the program writes, and what it must not: a file that is there, a device, a link, a terminal, a descriptor that
was closed. And files that are made to take long. Runs on tiny random models. TAP; Python's standard library alone."""
import fcntl
import os
import pty
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-files-")
TINY, FILE = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "session.db"))
ENV = {**os.environ, **{name: os.path.join(TMP.name, name) for name in
                        ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}
ESCAPES = "\x1b[31m\x1b]0;owned\x07\x9b31m\u202e\x7f"


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


def catches(child, number):
    with open(f"/proc/{child.pid}/status", encoding="utf-8") as f:
        mask = next((line.split()[1] for line in f if line.startswith("SigCgt")), "0")
    return bool(int(mask, 16) >> number - 1 & 1)


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
    for end in ("-wal", "-journal"):
        status, _, err = export("--to", "csv", "-o", FILE + end)
        check(f"nor is {end} put beside it", status == 2 and not os.path.exists(FILE + end), f"{status} {err}")
    os.mkfifo(below("fifo"))
    child = subprocess.Popen([PROGRAM, "export", FILE, "--to", "csv", "-o", below("fifo")], stderr=subprocess.PIPE, env=ENV)
    while child.poll() is None:
        if catches(child, signal.SIGINT) and read(f"/proc/{child.pid}/stat").split(b") ")[1][:1] == b"S":
            child.send_signal(signal.SIGINT)
        time.sleep(0.02)
    err = child.communicate()[1]
    check("Ctrl-C ends the wait for a FIFO's reader, without a word", child.returncode in (130, -2) and not err, f"{child.returncode} {err}")
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
    for form in ("html", "asciicast"):
        child = subprocess.Popen([PROGRAM, "export", FILE, "--to", form, "-o", below("stopped.out")], stderr=subprocess.PIPE, env=ENV)
        while child.poll() is None and not [f for f in os.listdir(TMP.name) if f.startswith("stopped.out")]:
            pass
        child.send_signal(signal.SIGINT)
        err = child.communicate()[1]
        left = [f for f in os.listdir(TMP.name) if f.startswith("stopped.out.")]
        check(f"Ctrl-C in an export to {form}: all or nothing", child.returncode in (0, 130) and not left and not err,
              f"{child.returncode} {err} {left}")
        if os.path.exists(below("stopped.out")):
            os.unlink(below("stopped.out"))
    write(below("kept.csv"), b"kept")
    os.chmod(below("kept.csv"), 0o444)
    without = ["setpriv", "--bounding-set=-all"] if not os.geteuid() else []  # root may write to anything
    done = subprocess.run([*without, PROGRAM, "export", FILE, "--to", "csv", "-o", below("kept.csv")], stderr=subprocess.PIPE, env=ENV, check=False)
    check("a file that may not be written to is not replaced", done.returncode == 4 and b"Permission denied" in done.stderr and
          read(below("kept.csv")) == b"kept", done.stderr)
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
    newest = os.path.join(ENV["XDG_DATA_HOME"], "cutaway", "sessions", "\x1b[31mnamed.db")
    os.makedirs(os.path.dirname(newest), exist_ok=True)
    write(newest, read(path))
    verbs = [["export", "--to", form, path] for form in ("perfetto", "jsonl", "html", "asciicast", "svg")]
    verbs += [["export", "--to", "csv", "--table", table, path] for table in ("token", "request", "setting", "session")]
    verbs += [["diff", FILE, path], ["diff", "--json", FILE, path], ["verify", "--model", TINY, path],
              ["verify", "--model", TINY, "--json", path], ["compare", FILE, path],
              ["compare", "--json", path, FILE], ["why", "token", "--file", path], ["whatif", path],
              ["why", "slow"], ["sessions"]]
    for verb in verbs:
        shown = on_terminal(*verb)
        bad = [c for c in shown if (ord(c) < 32 and c not in "\r\n") or 0x7f <= ord(c) < 0xa0 or c == "\u202e"]
        check(f"{' '.join(verb[:-1])}: nothing of the recording commands the terminal", len(shown) > 20 and not bad,
              f"{bad[:5]} {shown[:300]!r}")
    os.unlink(newest)
    csv = export("--to", "csv", "--table", "setting")[1].decode()
    check("a table reads on a terminal as in a file", on_terminal("export", "--to", "csv", "--table", "setting", FILE) == csv)


def test_closed_pipes():
    for verb in (["export", FILE, "--to", "csv"], ["export", FILE, "--to", "asciicast"], ["export", FILE, "--to", "html"], ["export", FILE, "--to", "svg"],
                 ["export", FILE, "--to", "jsonl"], ["export", FILE, "--to", "perfetto"], ["--help"], ["diff", FILE, FILE],
                 ["compare", FILE, FILE],
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


def chat(*args, act):
    """A chat on a terminal from its first screen to /quit; act is called while it runs. (status, what it said at last)"""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    child = subprocess.Popen([PROGRAM, "chat", "--model", TINY, "--max-tokens", "30", *args], stdin=slave, stdout=slave,
                             stderr=subprocess.PIPE, cwd=TMP.name, env={**ENV, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    os.close(slave)
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    try:
        act(lambda text: os.write(master, text.encode() + b"\r"))
        os.write(master, b"/quit\r")
        err = child.communicate(timeout=60)[1].decode("utf-8", "replace")
    finally:
        child.kill()
        os.close(master)
    return child.returncode, err


def drain(fd):
    try:
        while os.read(fd, 65536):
            pass
    except OSError:
        pass


def rows(path, query):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    except sqlite3.Error:
        return []
    finally:
        db.close()


def wait_for(path, query="SELECT 1 FROM finish"):
    """Until a recording that is written has such a row."""
    while not (os.path.exists(path) and rows(path, query)):  # tests/run ends what never ends
        time.sleep(0.05)


def begin_recording(path):
    """A run that cannot be done until its output is read."""
    child = subprocess.Popen([PROGRAM, "run", "--model", TINY, "--json", "--temp", "3", "--top-p", "1", "--seed", "1", "--record",
                              path, "Hello"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV)
    fcntl.fcntl(child.stdout, 1031, 4096)  # F_SETPIPE_SZ: less than the answer
    wait_for(path, "SELECT 1 FROM step")
    return child


def test_save():
    path, copy = below("live.db"), below("copy.db")
    reader = []

    def act(type_line):
        type_line("Hello")
        wait_for(path)
        reader.append(sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False))
        reader[0].execute("BEGIN")
        reader[0].execute("SELECT count(*) FROM token").fetchone()  # holds the WAL as it is now
        type_line("Hello again")
        wait_for(path, "SELECT 1 FROM finish WHERE request = 2")
        type_line("/save copy.db")

    status, err = chat("--record", path, act=act)
    check("the chat ended in order", status == 0 and "recorded in" in err, f"{status} {err}")
    check("the copy of a recording that somebody reads is whole", rows(copy, "PRAGMA integrity_check") == [("ok",)] and
          rows(copy, "SELECT count(*) FROM closed") == [(1,)] and
          rows(copy, "SELECT * FROM token") == rows(path, "SELECT * FROM token"), err)
    reader[0].close()
    status, out, err = cutaway("verify", "--model", TINY, copy)
    check("and is verified", status == 0 and b"all equal" in out, f"{status} {out} {err}")
    left = sorted(f for f in os.listdir(TMP.name) if f.startswith("copy"))
    check("it is one file, out of WAL mode, for this user alone", left == ["copy.db"] and read(copy)[18:20] == b"\1\1" and
          os.stat(copy).st_mode & 0o777 == 0o600, f"{left} {oct(os.stat(copy).st_mode)}")


def test_modes():
    path = below("private.db")
    child = begin_recording(path)
    modes = {f: os.stat(below(f)).st_mode & 0o777 for f in os.listdir(TMP.name) if f.startswith("private")}
    child.communicate()
    check("a recording is for this user alone, with all that belongs to it", len(modes) == 3 and set(modes.values()) == {0o600}, modes)
    shared = below("shared.db")
    write(shared, b"")
    os.chmod(shared, 0o644)
    child = begin_recording(shared)
    modes = {f: os.stat(below(f)).st_mode & 0o777 for f in os.listdir(TMP.name) if f.startswith("shared")}
    child.communicate()
    check("but a file that was made to be read by others stays so", len(modes) == 3 and set(modes.values()) == {0o644}, modes)
    cutaway("run", "--model", TINY, "--max-tokens", "2", "Hello")
    found = [os.path.join(d, f) for d, _, files in os.walk(ENV["XDG_DATA_HOME"]) for f in files]
    check("also under its own name", found and all(os.stat(f).st_mode & 0o777 == 0o600 for f in found), found)


def test_failed_creation():
    folder, link = below("empty"), below("nowhere.db")
    os.mkdir(folder)
    limited = 'ulimit -f 16; exec "$0" "$@"'  # blocks of 512 or 1,024 bytes: less than the schema
    data = below("limited")
    for what, args in (("--record", ["--record", os.path.join(folder, "x.db")]), ("its own name", [])):
        done = subprocess.run(["sh", "-c", "trap '' XFSZ; " + limited, PROGRAM, "run", "--model", TINY, *args, "Hello"],
                              capture_output=True, env={**ENV, "XDG_DATA_HOME": data})
        left = [f for d, _, files in list(os.walk(folder)) + list(os.walk(data)) for f in files]
        check(f"a recording that cannot be begun leaves nothing ({what})", b"record" in done.stderr and not left,
              f"{done.stderr} {left}")
    os.symlink(below("gone/x.db"), link)
    status, _, err = cutaway("run", "--model", TINY, "--record", link, "Hello")
    check("--record of a link to nothing: what it is", status == 4 and "link" in err, f"{status} {err}")


def test_deleted_recording():
    path, other = below("deleted.db"), below("other.db")

    def act(type_line):
        type_line("Hello")
        wait_for(path)
        os.unlink(path)

    status, err = chat("--record", path, act=act)
    check("a recording that was deleted meanwhile is told, and not to be seen again", status == 4 and "deleted" in err and
          "recorded in" not in err, f"{status} {err}")

    def move(type_line):
        type_line("Hello")
        wait_for(path)
        os.rename(path, other)

    status, err = chat("--record", path, act=move)
    check("one that was moved is told, and whole where it is", status == 4 and "moved" in err and
          rows(other, "PRAGMA integrity_check") == [("ok",)] and rows(other, "SELECT count(*) FROM finish") == [(1,)],
          f"{status} {err}")


def test_full_context():
    model, path = below("short.gguf"), below("full.db")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "64", model], check=True)
    for seed in range(20):
        if os.path.exists(path):
            os.unlink(path)
        cutaway("run", "--model", model, "--raw", "--temp", "3", "--top-p", "1", "--seed", str(seed), "--record", path, "Hi")
        if rows(path, "SELECT max(pos) FROM token") == [(63,)]:
            break
    status, out, err = cutaway("verify", "--model", model, path)
    check("a recording that filled the model's context is verified", status == 0 and b"all equal" in out, f"{status} {err}")
    cutaway("run", "--model", model, "--raw", "--temp", "2", "--seed", "99", "--record", below("another.db"), "Hi")
    status, out, err = cutaway("diff", "--deep", "--model", model, path, below("another.db"))
    check("and compared in depth", status == 1 and b"the draw" in out and not err, f"{status} {out} {err}")
    db = sqlite3.connect(path)
    db.execute("UPDATE token SET hash = hash + 1 WHERE pos = 63")
    db.commit()
    db.close()
    status, out, err = cutaway("verify", "--model", model, path)
    check("a difference at its end is found", status == 1 and out.startswith(b"DIFFERS") and b"agree" in out,
          f"{status} {out} {err}")


def test_changed_model():
    model, path, other = below("change.gguf"), below("before.db"), below("other.gguf")
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--seed", "1", model], check=True)
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--seed", "2", other], check=True)
    args = ["--model", model, "--packed-cache", "on", "--max-tokens", "10"]
    cutaway("run", *args, "--record", path, "Hello")
    status, out, err = cutaway("verify", "--model", model, path)
    check("a recording and its model", status == 0 and b"all equal" in out, f"{status} {err}")
    times = os.stat(model)
    write(model, read(other))  # the same inode and size
    os.utime(model, ns=(times.st_atime_ns, times.st_mtime_ns))
    status, out, err = cutaway("verify", "--model", model, path)
    check("other weights under the same name and time are told", status == 3 and "not the model" in err,
          f"{status} {out} {err}")
    check("and computed with", cutaway("run", *args, "--no-record", "--json", "Hello")[1] ==
          cutaway("run", "--model", other, "--max-tokens", "10", "--no-record", "--json", "Hello")[1])


def test_endless_files():
    for args in (["certify", "/dev/zero"], ["certify", "--model", "/dev/zero"], ["verify", "--model", "/dev/zero", FILE],
                 ["run", "--model", "/dev/zero", "Hello"]):
        status, _, err = cutaway(*args)
        check(f"{' '.join(args[:-1])} …: refused", status in (3, 4) and "/dev/zero" in err, f"{status} {err}")


    path = below("zero.db")
    write(path, read(FILE))
    db = sqlite3.connect(path)
    db.execute("UPDATE session SET model_path = '/dev/zero'")
    db.commit()
    db.close()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
    child = subprocess.Popen([PROGRAM, "replay", path], stdin=slave, stdout=slave, stderr=slave, cwd=TMP.name,
                             env={**ENV, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"})
    os.close(slave)
    shown = b""
    while b"step" not in shown:  # tests/run ends what never ends
        shown += os.read(master, 65536)
    os.write(master, b"/goto 3\r/lens\r")
    while b"/dev/zero" not in shown:
        shown += os.read(master, 65536)
    os.write(master, b"\x1b/quit\r")
    threading.Thread(target=drain, args=(master,), daemon=True).start()
    check("/lens of a recording whose model has no end: told", child.wait() == 0)


def test_whatif_contradiction():
    path = below("contradiction.db")
    write(path, read(FILE))
    db = sqlite3.connect(path)
    db.execute("UPDATE request SET max_tokens = 1")
    db.commit()
    db.close()
    status, _, err = cutaway("whatif", path, timeout=20)
    check("whatif of a request that drew more than it might: refused at once", status == 3 and "request 1" in err,
          f"{status} {err}")


def test_no_tensors():
    path = below("words.gguf")
    whole = read(TINY)
    version, _, n_kv = struct.unpack_from("<IQQ", whole, 4)
    write(path, b"GGUF" + struct.pack("<IQQ", version, 0, n_kv) + whole[24:])
    status, _, err = cutaway("run", "--model", path, "Hello")
    check("a model without tensors is told", status == 3 and "no tensors" in err, f"{status} {err}")


def test_cut_shared_memory():
    path = below("cut.db")
    child = begin_recording(path)
    os.truncate(path + "-shm", 0)
    out, err = child.communicate()
    check("a -shm that is cut short ends a recording with a word", child.returncode == 4 and b"cut short" in err,
          f"{child.returncode} {err}")
    check("and it is whole up to there", rows(path, "PRAGMA integrity_check") == [("ok",)] and
          rows(path, "SELECT 1 FROM step LIMIT 1") == [(1,)])
    path = below("cut-chat.db")

    def act(type_line):
        type_line("Hello")
        wait_for(path)
        os.truncate(path + "-shm", 0)
        type_line("Hello again")

    status, err = chat("--record", path, act=act)
    check("so does it a chat", status == 4 and "cut short" in err and rows(path, "PRAGMA integrity_check") == [("ok",)],
          f"{status} {err}")


def test_score_command():
    args = ["run", "--model", TINY, "--no-record", "--max-tokens", "4", "--best-of", "2", "--json", "Once", "--score"]
    pid_file = below("left.pid")
    status, _, err = cutaway(*args, f"sleep 1000 >/dev/null 2>&1 & echo $! > {pid_file}; echo 1")
    left = int(read(pid_file))
    while status == 0 and os.path.exists(f"/proc/{left}") and " Z " not in read(f"/proc/{left}/stat").decode():
        time.sleep(0.05)  # tests/run ends what never ends
    check("what a scoring command left running is ended with it", status == 0, err)
    status, _, err = cutaway(*args, "echo -1e308")
    check("a score of any size is told shortly", status == 0 and "-1e+308" in err and len(err) < 500, err)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    write(TINY + ".txt", b"Once upon a time")
    status, _, err = cutaway("run", "--model", TINY, "--record", FILE, "--max-tokens", "40", "Hello")
    if status:
        print("Bail out!", err)
        return 1
    words = sys.argv[1:]
    for test in (test_export_file, test_terminal, test_closed_pipes, test_closed_descriptors, test_save, test_modes,
                 test_failed_creation, test_deleted_recording, test_full_context, test_changed_model,
                 test_endless_files, test_whatif_contradiction, test_no_tensors, test_cut_shared_memory, test_score_command):
        if not words or any(word in test.__name__ for word in words):
            test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
