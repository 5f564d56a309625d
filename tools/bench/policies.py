#!/usr/bin/env python3
"""Three loads under every policy, by counted time: the second table of docs/scheduling.md, the same on every machine.
Nothing is computed, so it takes seconds.

    tools/bench/policies.py            the table
    tools/bench/policies.py --write    into docs/scheduling.md
    tools/bench/policies.py --check    status 1 if the document says something else
"""
import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from recorded import PROGRAM, ROOT  # noqa: E402

DOC = os.path.join(ROOT, "docs/scheduling.md")
BEGIN, END = "<!-- loads -->\n", "<!-- end of loads -->\n"
POLICIES = "fcfs,static,prefill-first,decode-first,tgi,shortest,shortest-job,priority,fair,deadline"
COMMON = "--counted --scale 0.3 --ctx 2048 --pages 512 --seed 1"
# name, options, and the kind whose first tokens stand before those of the others (the index of its users, 8 of a kind), or None
LOADS = (
    ("Bursts of chats", "--kind chat --arrivals gamma:3 --rate 3 --requests 2000 --slo ttft=1s,itl=100ms", None),
    ("Questions about documents, and code edits", "--kind document,edit --rate 2 --requests 1500 --slo ttft=1s,itl=200ms",
     0),
    ("Chats, and a batch of an application", "--kind chat,system --rate 6.5 --requests 1500 --slo ttft=1s,itl=200ms",
     0),
)


def time(s):
    """Three digits."""
    if s is None or math.isnan(s):
        return "-"
    if s < 0.9995:
        return f"{s * 1e3:.3g} ms"
    return f"{s:.3g} s" if s < 999.5 else f"{s:.0f} s"


def rank(values, share):
    """A percentile by nearest rank, as the program's."""
    values = sorted(values)
    return values[max(math.ceil(share * len(values)), 1) - 1]


def shares(table, policy, index):
    """Median wait for the first token of the users of one kind, and of the others."""
    waits = [[], []]
    for row in table:
        if row["policy"] == policy:
            waits[int(row["user"]) // 8 != index].append(float(row["first_s"]) - float(row["arrived_s"]))
    return [rank(w, 0.5) for w in waits]


def measure(options):
    """Runs of all policies, and their requests."""
    with tempfile.TemporaryDirectory(prefix="cutaway-policies-") as folder:
        path = os.path.join(folder, "requests.csv")
        done = subprocess.run([PROGRAM, "load", *f"{COMMON} {options} --policies {POLICIES}".split(), "--table", path, "--json"],
                              capture_output=True, text=True, check=True, env={**os.environ, "HOME": folder})
        with open(path, encoding="utf-8") as f:
            return json.loads(done.stdout)["runs"], list(csv.DictReader(f))


HEAD = ("policy", "TTFT p50", "p99", "p50 by kind", "ITL p99", "longest gap", "whole p50", "waiting", "within the target, %")


def rows_of(options, apart):
    """Of one load: a list of cells for each policy."""
    runs, requests = measure(options)
    for r in runs:
        own = [" and ".join(time(w) for w in shares(requests, r["policy"], apart))] if apart is not None else [""]
        yield [f"`{r['policy']}`", time(r["ttft_p50_s"]), time(r["ttft_p99_s"]), *own, time(r["itl_p99_s"]), time(r["itl_max_s"]),
               time(r["e2e_p50_s"]), f"{r['queue_mean']:.1f}", f"{100 * r['good'] / r['requests']:.0f}"]


def table():
    """Each cell has the figure of every load."""
    lines = ["", *(f"{i + 1}. {name}: `{options}`" for i, (name, options, _) in enumerate(LOADS)), "",
             "| " + " | ".join(HEAD) + " |", "|" + " --- |" * len(HEAD)]
    for loads in zip(*(rows_of(options, apart) for _, options, apart in LOADS)):
        cells = ["; ".join(c for c in cell if c) for cell in zip(*loads)]
        lines.append("| " + " | ".join([loads[0][0], *cells[1:]]) + " |")
    return "\n".join(lines) + "\n\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true")
    options.add_argument("--check", action="store_true")
    o = options.parse_args()
    text = table()
    if not o.write and not o.check:
        print(text, end="")
        return 0
    with open(DOC, encoding="utf-8") as f:
        before, rest = f.read().split(BEGIN)
    old, after = rest.split(END)
    if o.write:
        with open(DOC, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + text + END + after)
    elif old != text:
        print("docs/scheduling.md: tools/bench/policies.py --write says otherwise", file=sys.stderr)
    return int(o.check and old != text)


if __name__ == "__main__":
    sys.exit(main())
