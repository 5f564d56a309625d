#!/usr/bin/env python3
"""Pictures of a recording: every view as SVG and PNG, by name, size and step. The session's texts try to become markup.
TAP; Python's standard library alone."""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unicodedata
import xml.etree.ElementTree as xml

from tap import PROGRAM, ROOT, check, finish, skip

TMP = tempfile.TemporaryDirectory(prefix="cutaway-picture-")
TINY, FILE = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "session.db"))
NASTY = "<b>&amp;</b> ]]> \x1b[31m \u202e \x9b <script>x</script> 日本 é"
SVG = "{http://www.w3.org/2000/svg}"


def cutaway(*args, **env):
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name, check=False,
                          env={**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name, **env})
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def svg(*args):
    """The root of the picture, and its rows of text as a list of lines."""
    status, out, err = cutaway("export", FILE, "--to", "svg", *args)
    if status:
        check(f"export --to svg {' '.join(args)}", False, err)
        return xml.Element("svg"), []
    root = xml.fromstring(out)
    rows = {}
    for e in root.iter(SVG + "text"):
        rows.setdefault(int(e.get("y")), []).append((int(e.get("x")), e.text))
    lines = [" ".join(text for _, text in sorted(row)) for _, row in sorted(rows.items())]
    return root, lines


def views():
    """Those that the error for an unknown one lists"""
    status, _, err = cutaway("export", FILE, "--to", "svg", "--view", "nonsense")
    check("a view that is not there: the error lists those that are", status == 2 and "screen|chat|next|pages" in err, err)
    return err.split("one of ")[1].split(" ")[0].split("|")


def ground(root):
    return root.find(SVG + "rect").get("fill")


def test_views():
    for view in views():
        for size in "80x24", "200x50":
            w, h = (int(n) for n in size.split("x"))
            dark, lines = svg("--view", view, "--size", size)
            light, same = svg("--view", view, "--size", size, "--theme", "light")
            box = [0 if dark.get(a) is None else int(dark.get(a)) for a in ("width", "height")]
            check(f"{view} at {size}: a picture of that size, dark and light with the same texts",
                  box == [10 * w + 20, 20 * h + 20] and lines == same != [] and ground(dark) != ground(light), lines)
        inside = [e for e in dark.iter(SVG + "text") if not 0 <= int(e.get("x")) < 2000 or not 0 < int(e.get("y")) < 1000]
        check(f"{view}: all of it lies inside", not inside, inside)


def test_texts():
    _, lines = svg("--view", "chat")
    text = "\n".join(lines)
    check("the chat has its texts, as text", "<b>&amp;</b>" in text and "日" in text and "<script>" in text, text)
    status, out, _ = cutaway("export", FILE, "--to", "svg", "--view", "chat")
    bad = {c for c in out.decode("utf-8") if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cn", "Co")}
    check("no control character comes out", status == 0 and not bad, bad)
    check("nothing of a text is markup", b"<b>" not in out and b"<script" not in out and b"]]>" not in out)
    root, _ = svg("--size", "120x40", "--theme", "mono")
    check("without colours: one on white", {e.get("fill") for e in root.iter() if e.get("fill")} == {"#ffffff", "#30343c"})
    root, _ = svg("--view", "next", "--at", "3")
    check("the title says view and step", root.findtext(SVG + "title").startswith("cutaway: next token, step 3"))


def test_steps():
    early, late, end = (svg("--view", "chat", "--at", at)[1] for at in ("2", "8", "end"))
    check("a later step shows more", early != late != end)
    status, _, err = cutaway("export", FILE, "--to", "svg", "--at", "0")
    check("step 0 is before the first", status == 0, err)
    status, out, err = cutaway("export", FILE, "--to", "svg", "--at", "100000")
    check("a step beyond the end: the error says how many there are", status == 2 and not out and
          "step 100000: the recording has " in err, err)
    for at, why in (("x", "no column"), ("-1", "no such step"), ("1x", "unrecognized"), ("", "an expression is needed"), ("9" * 20, "the recording has")):
        status, _, err = cutaway("export", FILE, "--to", "svg", "--at=" + at)
        check(f"--at '{at}' is refused", status == 2 and why in err, err)


def test_sizes():
    for size in "x", "80", "80x", "80x24x", "-80x24", "0x0", "19x24", "80x4", "501x24", "80x201", "99999x99999":
        status, _, err = cutaway("export", FILE, "--to", "svg", "--size=" + size)
        check(f"size {size} is refused", status == 2 and "from 20x5 to 500x200" in err, err)
    check("the largest", svg("--size", "500x200")[0].get("width") == "5020")
    for form, option, value in (("csv", "view", "next"), ("html", "at", "3"), ("jsonl", "theme", "light"),
                                ("perfetto", "size", "80x24"), ("asciicast", "view", "next")):
        status, _, err = cutaway("export", FILE, "--to", form, f"--{option}", value)
        check(f"--{option} means nothing for {form}, and is refused", status == 2 and f"--{option} is for svg and png" in err, err)
    status, out, err = cutaway("export", FILE, "--to", "asciicast", "--size", "80x24")
    check("a terminal recording has a size, too", status == 0 and b'"width": 80, "height": 24' in out, err)


def test_png():
    status, out, err = cutaway("export", FILE, "--to", "png", PATH="/nonexistent")
    check("without rsvg-convert the error says what to install, and what needs it not",
          status == 4 and not out and "librsvg2-bin" in err and "SVG" in err, err)
    fake = os.path.join(TMP.name, "bin")
    os.mkdir(fake)
    with open(os.path.join(fake, "rsvg-convert"), "w", encoding="ascii") as f:
        f.write("#!/bin/sh\necho 'no \033[31m fonts' >&2\nexit 1\n")
    os.chmod(os.path.join(fake, "rsvg-convert"), 0o755)
    target = os.path.join(TMP.name, "kept.png")
    with open(target, "wb") as f:
        f.write(b"old")
    status, _, err = cutaway("export", FILE, "-o", target, PATH=f"{fake}:{os.environ['PATH']}")
    with open(target, "rb") as f:
        check("if rsvg-convert fails, its error is said, and the old file is kept", status == 4 and "fonts" in err and
              "\x1b" not in err and f.read() == b"old", err)
    if not shutil.which("rsvg-convert"):
        skip("png", "rsvg-convert is not installed")
        return
    for args, size in (((), (2440, 1640)), (("--view", "pages"), (1640, 1000)), (("--size", "200x50"), (4040, 2040))):
        path = os.path.join(TMP.name, "picture.png")
        status, _, err = cutaway("export", FILE, "-o", path, *args)
        with open(path, "rb") as f:
            head = f.read(24)
        check(f"png {' '.join(args)}: two pixels a unit", status == 0 and head[:8] == b"\x89PNG\r\n\x1a\n" and
              struct.unpack(">II", head[16:24]) == size, err or head)
    status, out, err = cutaway("export", FILE, "--to", "png", "--view", "next")
    check("png on standard output", status == 0 and out[:4] == b"\x89PNG" and out.endswith(b"IEND\xaeB`\x82"), err)


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    status, _, err = cutaway("run", "--model", TINY, "--record", FILE, "--max-tokens", "40", "--spec", "ngram:4",
                             "--temp", "0.9", NASTY)
    if status:
        print("Bail out!", err)
        return 1
    test_views()
    test_texts()
    test_steps()
    test_sizes()
    test_png()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
