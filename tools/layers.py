#!/usr/bin/env python3
"""The picture of docs/design.md: the folders in the layers that tests/program/layers.sh allows, with the way of the data.

    tools/layers.py            the picture on standard output
    tools/layers.py --write    into docs/layers.svg
    tools/layers.py --check    fails if that file is another (tests/program/test_layers_figure.sh)

Folders, their layers and what lies in them are read from that test and from the disk. The arrows are the list FLOWS below;
each is refused unless one of its ends includes headers of the other. Standard library alone."""
import html
import os
import re
import subprocess
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIGURE = os.path.join(ROOT, "docs/layers.svg")
WIDTH, ROW, GAP, LANE, PAD = 960, 74, 40, 150, 10
# from, where in its box (parts of width and height), to, where, label, where the label stands beside the middle
FLOWS = [
    ("tui", (0.07, 1), "engine", (0.155, 0), "commands,\nrequests", (10, 0)),
    ("sessions", (0.2, 1), "engine", (0.55, 0), "opens, drives", (10, 4)),
    ("engine", (0.3, 1), "kernels", (0.3, 0), "a program of ops", (-112, 4)),
    ("kernels", (0.6, 0), "engine", (0.6, 1), "logits, times", (10, 4)),
    ("engine", (1, 0.85), "event", (0, 0.7), "events", (-24, 32)),
    ("event", (0.3, 0), "fold", (0.3, 1), "a ring: live", (10, 4)),
    ("event", (0, 0.2), "trace", (0, 0.5), "a ring:\nto SQLite", (-98, -30)),
    ("trace", (0.3, 1), "fold", (0.3, 0), "a reader: replay", (10, 4)),
    ("fold", (1, 0.4), "tui", (0.97, 1), "timeline:\nscreens", (-40, -115)),
    ("trace", (0.55, 0), "sessions", (0.8, 1), "recordings", (10, 4)),
]
ROLES = {"cli": "command line: a file a verb", "tui": "screens of chat, replay and attach", "sessions": "questions to an engine or a recording",
         "serve": "the OpenAI interface", "load": "requests put on an engine", "simulate": "a fleet in simulated time",
         "lab": "model files: quantise, prune", "trace": "recordings: SQLite", "fold": "the state of the screens, from events", "event": "what is reported: one table",
         "engine": "decides and computes", "kernels": "arithmetic: the same bits everywhere", "base": "errors, text, files, clock"}


def rules():
    """What each folder may include, as layers.sh says; folders that it bounds in no way may include all."""
    with open(os.path.join(ROOT, "tests/program/layers.sh"), encoding="utf-8") as f:
        text = f.read()
    names = re.search(r"^all=\$\(ls -d ([^)]*?) 2>", text, re.M)[1].split()
    names = [n for n in names if os.path.isdir(os.path.join(ROOT, n))]
    said = dict(re.findall(r"^may_include (\w+) '([^']*)'", text, re.M))
    allowed = {n: set(said[n].split("|")) - {""} for n in names if n in said}
    rest = [n for n in names if n not in said]  # in the order of that list: the last sees all before
    for i, name in enumerate(rest):
        allowed[name] = set(allowed) | set(rest[:i])
    return {n: allowed[n] & set(names) for n in names}


def included(folder):
    """The other folders whose headers a folder includes."""
    run = subprocess.run(["grep", "-rhoE", '^#include "[a-z]+/', folder, "--include=*.[ch]", "--include=*.cu*"], cwd=ROOT,
                         capture_output=True, text=True, check=False)
    return {line.split('"')[1].rstrip("/") for line in run.stdout.splitlines()} - {folder}


def levels(allowed):
    level = {}
    while len(level) < len(allowed):
        for name, below in allowed.items():
            if name not in level and below <= set(level):
                level[name] = 1 + max((level[b] for b in below), default=-1)
    return level


def column(name, allowed):
    """Where what computes and what reports stand side by side; all: boxes across both."""
    if not allowed[name] or "engine" in allowed[name]:
        return "all"
    return "left" if name == "kernels" or "kernels" in allowed[name] else "right"


def boxes(allowed):
    """name: (x, y, width, height); the lowest level at the bottom."""
    level, place = levels(allowed), {}
    top = max(level.values())
    side = {n: column(n, allowed) for n in allowed}
    for name in allowed:
        row = [n for n in allowed if level[n] == level[name] and side[n] == side[name]]
        y, height = (top - level[name]) * (ROW + GAP), ROW
        if side[name] == "all":
            lane = LANE if 0 < level[name] < level.get("tui", top) else 0
            width = (WIDTH - 2 * lane - GAP * (len(row) - 1)) / len(row)
            x = lane + row.index(name) * (width + GAP)
        else:
            above = [level[n] for n in allowed if level[n] > level[name] and side[n] in (side[name], "all")]
            free = min(above, default=top + 1) - level[name] - 1  # rows above it that nothing else fills
            y, height = y - free * (ROW + GAP), height + free * (ROW + GAP)
            width = (WIDTH - GAP * 3) / 2 - 60
            x = 0 if side[name] == "left" else WIDTH - width - 60
        place[name] = (x, y, width, height)
    return place


def parts(name):
    folder = os.path.join(ROOT, name)
    return sorted(d for d in os.listdir(folder) if os.path.isdir(os.path.join(folder, d)))


def words(x, y, lines, kind):
    return [f'<text class="{kind}" x="{x:g}" y="{y + 15 * i:g}">{html.escape(line)}</text>' for i, line in enumerate(lines)]


def box(name, at):
    x, y, width, height = at
    inside = textwrap.wrap(" · ".join(parts(name)), int((width - 2 * PAD) / 6.3))
    return [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>',
            *words(x + PAD, y + 20, [name], "name"),
            *words(x + PAD + 9.5 * len(name) + 8, y + 20, [ROLES.get(name, "")], "role"), *words(x + PAD, y + 40, inside, "part")]


def arrow(flow, place):
    a, (ax, ay), b, (bx, by), label, (dx, dy) = flow
    one, two = place[a], place[b]
    x1, y1, x2, y2 = one[0] + ax * one[2], one[1] + ay * one[3], two[0] + bx * two[2], two[1] + by * two[3]
    path = f"M{x1:g} {y1:g} L{x2:g} {y2:g}"
    if ax == bx and ax in (0, 1) or ax == by == 1:  # around what stands between
        bend = 40 if ax else -40
        end = f"{x2 + bend:g} {y2:g}" if ax == bx else f"{x2:g} {y2 + 3 * bend:g}"
        path = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {end} {x2:g} {y2:g}"
    return [f'<path d="{path}"/>', *words((x1 + x2) / 2 + dx, (y1 + y2) / 2 + dy, label.split("\n"), "flow")]


def picture():
    allowed = rules()
    place = boxes(allowed)
    flows = [f for f in FLOWS if f[0] in allowed and f[2] in allowed]
    for a, _, b, *_ in flows:
        if b not in included(a) and a not in included(b):
            sys.exit(f"{a} and {b} include nothing of each other: mend FLOWS in tools/layers.py")
    height = max(y + h for _, y, _, h in place.values())
    body = [line for name in allowed for line in box(name, place[name])] + [line for f in flows for line in arrow(f, place)]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {WIDTH + 16} {height + 16}" font-family="sans-serif">',
        "<!-- made by tools/layers.py: an upper box may include the lower ones; arrows are the way of the data -->",
        "<style>rect{fill:#f6f4ee;stroke:#8a8577}path{fill:none;stroke:#b0561b;stroke-width:1.6;marker-end:url(#end)}"
        ".name{font-size:15px;font-weight:bold;fill:#222}.part{font-size:12px;fill:#555}.role{font-size:12px;fill:#222}.flow{font-size:12px;fill:#8f3f0c}</style>",
        '<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#b0561b;stroke:none;marker-end:none"/></marker></defs>',
        f'<rect x="-8" y="-8" width="{WIDTH + 16}" height="{height + 16}" style="fill:#fff;stroke:none"/>', *body, "</svg>", ""])


def main():
    text = picture()
    if "--write" in sys.argv:
        with open(FIGURE, "w", encoding="utf-8") as f:
            f.write(text)
    elif "--check" in sys.argv:
        with open(FIGURE, encoding="utf-8") as f:
            if f.read() != text:
                sys.exit("docs/layers.svg is not what the folders are: tools/layers.py --write makes it anew")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
