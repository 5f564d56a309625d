#!/usr/bin/env python3
"""Links of the documents lead to files that are there, and to headings that stand in them; folders in tables of docs/design.md
are there, too. TAP; Python's standard library alone."""
import os
import re
import subprocess
import sys

from tap import ROOT, check, finish


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def anchors(text):
    """Of the headings, as GitHub makes them."""
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)}


def lost(path):
    """Links of a document that lead nowhere."""
    for link in re.findall(r"\]\(([^)\s]+)\)", read(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(ROOT, target)) or heading and heading not in anchors(read(target)):
            yield link


def folders():
    """Those of the first column in design.md: `a/b`, `c` are a/b and a/c, or c."""
    for row in re.findall(r"^\| ((?:`[a-z/]+`(?:, )?)+) \|", read("docs/design.md"), re.M):
        names = re.findall(r"`([a-z/]+)`", row)
        above = os.path.dirname(names[0])
        for name in names:
            if not any(os.path.isdir(os.path.join(ROOT, d, name)) for d in ("", above)):
                yield name


FILES = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
for file in FILES or ["README.md"]:
    bad = list(lost(file))
    check(f"links of {file}", not bad, bad)
gone = list(folders())
check("folders of docs/design.md", not gone, gone)
sys.exit(finish())
