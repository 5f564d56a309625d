#!/usr/bin/env python3
"""No function is over 40 lines (60 in kernels/), no file of the product is over 500, and no line of C or CUDA
is over 100 columns, tests included. Tables (.def) may have any number of lines. TAP.

A function is a definition whose head stands at column 0 and whose body's braces are lines of their own
at column 0, as the project's style has it; its lines are those from brace to brace.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("base", "kernels", "event", "engine", "fold", "trace", "sessions", "serve", "load", "simulate", "lab",
           "tui", "cli")
FILE_LINES = 500
FUNCTION_LINES = 40
KERNEL_LINES = 60
COLUMNS = 100


def sources(folders, endings):
    for folder in folders:
        for path, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(path, name), ROOT)


def functions(lines):
    """(line of the opening brace, head, lines of the body) of each definition at column 0."""
    start = None
    head = ""
    for at, line in enumerate(lines):
        if line.rstrip() == "{" and re.search(r"\)", head):
            start = at
        elif line.rstrip() == "}" and start is not None:
            yield start, head, at - start + 1
            start = None
        elif start is None and re.match(r"\w", line):
            head = line.rstrip()
        elif start is None and line.startswith(("\t", " ")):
            head += " " + line.strip()


def too_long(path, lines):
    limit = KERNEL_LINES if path.startswith("kernels/") else FUNCTION_LINES
    for start, head, count in functions(lines):
        if count > limit:
            yield f"{path}:{start + 1}: {count} lines: {head}"


def too_wide(path, lines):
    for at, line in enumerate(lines):
        columns = len(line.expandtabs(4))
        if columns > COLUMNS:
            yield f"{path}:{at + 1}: {columns} columns"


def report(number, name, found):
    print(f"{'not ok' if found else 'ok'} {number} - {name}")
    for line in found:
        print(f"# {line}")


def finds_what_is_long():
    """The check itself: a body one line over the limit is found, one at the limit is not."""
    body = ["static int head(int a,", "                int b)", "{"]
    if len(list(too_wide("tui/x.c", ["\t" + "x" * 97, "\t" + "x" * 96]))) != 1:
        return False
    at_limit = body + ["\tx;"] * (FUNCTION_LINES - 2) + ["}"]
    over = body + ["\tx;"] * (FUNCTION_LINES - 1) + ["}"]
    return len(list(too_long("tui/x.c", over))) == 1 and not list(too_long("tui/x.c", at_limit))


def read(folders, endings):
    texts = {}
    for path in sources(folders, endings):
        with open(os.path.join(ROOT, path), encoding="utf-8") as f:
            texts[path] = f.read().splitlines()
    return texts


def main():
    texts = read(FOLDERS, (".c", ".h", ".cu", ".cuh"))
    wide = [line for path, lines in read(FOLDERS + ("tests", "tools"), (".c", ".h", ".cu", ".cuh", ".cpp", ".def")).items()
            for line in too_wide(path, lines)]
    long_functions = [line for path, lines in texts.items() for line in too_long(path, lines)]
    long_files = [f"{path}: {len(lines)} lines" for path, lines in texts.items() if len(lines) > FILE_LINES]
    count = sum(1 for lines in texts.values() for _ in functions(lines))
    report(1, f"no function is over {FUNCTION_LINES} lines ({KERNEL_LINES} in kernels/), of {count}", long_functions)
    report(2, f"no file is over {FILE_LINES} lines, of {len(texts)}", long_files)
    report(3, f"no line is over {COLUMNS} columns", wide)
    report(4, "a function one line too long is found, and a line one column too wide",
           [] if finds_what_is_long() else ["it is not"])
    print("1..4")
    return 1 if long_functions or long_files or wide or not finds_what_is_long() else 0


if __name__ == "__main__":
    sys.exit(main())
