#!/usr/bin/env python3
"""A document and ten questions, with other traffic between them that evicts what is not in use:
once with the automatic prefix cache alone, once with the document declared stable.

    tools/bench/pinned.py [--cutaway ./cutaway] [--pages 208] [--others 5] [--keep DIR]

Counted, not timed: tokens that were cached, rows of prompts, and steps from a question's arrival to
its first token, all from the recording of `cutaway serve`. One client sends one request at a time,
so that every run gives the same numbers. Answers of both runs are compared by their hashes."""
import argparse
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import urllib.request

QUESTIONS = ["What is it about?", "Who wrote it?", "Which words are used most?",
             "What does it say first?", "What does it say last?", "Is there an example?",
             "What does one need to begin?", "Which numbers does it name?",
             "What should a reader try?", "What is missing in it?"]
DOCUMENT_BYTES = 5600  # about 1,500 tokens
OTHERS = ["attention.md", "guessing-ahead.md", "paging.md", "price.md", "search.md", "outliers.md"]
OTHER_BYTES = 1500


def text_of(path, first, size):
    with open(path, encoding="utf-8") as f:
        return f.read()[first:first + size]


class Server:
    def __init__(self, program, record, pages):
        self.p = subprocess.Popen(
            [program, "serve", "--headless", "--port", "0", "--record", record, "--pages", str(pages),
             "--ctx", "2048", "--slots", "4", "--max-tokens", "8", "--temp", "0", "--threads", "2"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.p.stdout.readline()
        found = re.search(r"http://\S+:\d+", line)
        if not found:
            sys.exit(f"the server did not start: {line}")
        self.url = found.group(0)

    def ask(self, messages):
        body = json.dumps({"messages": messages}).encode()
        with urllib.request.urlopen(self.url + "/v1/chat/completions", body) as r:
            return json.load(r)

    def end(self):
        self.p.terminate()
        self.p.wait(60)


def question(document, q, declared):
    part = {"type": "text", "text": document}
    if declared:
        part["cache_control"] = {"type": "ephemeral", "ttl": "1h"}
    return [{"role": "user", "content": [part, {"type": "text", "text": "\n\n" + q}]}]


def run(args, root, declared, record):
    document = text_of(os.path.join(root, "demos/lessons/tokens-and-sampling.md"), 0, DOCUMENT_BYTES)
    others = [text_of(os.path.join(root, "demos/lessons", OTHERS[i % len(OTHERS)]),
                      i // len(OTHERS) * 100, OTHER_BYTES)
              for i in range(args.others * len(QUESTIONS))]
    server, asked = Server(args.cutaway, record, args.pages), []
    try:
        for i, q in enumerate(QUESTIONS):
            asked.append(server.ask(question(document, q, declared)))
            for k in range(args.others):
                server.ask([{"role": "user", "content": others[i * args.others + k]}])
    finally:
        server.end()
    return asked


def figures(record, asked):
    """Of the ten questions: [(prompt, cached, rows computed, steps to the first token)]."""
    db = sqlite3.connect(record)
    out = []
    for a in asked:
        r = a["choices"][0]["request"]
        rows, steps = db.execute(
            "SELECT sum(rows), count(*) FROM batch WHERE request = ? AND work = 0", (r,)).fetchone()
        out.append((a["usage"]["prompt_tokens"], a["usage"]["prompt_tokens_details"]["cached_tokens"],
                    rows, steps))
    evicted, pinned = db.execute(
        "SELECT sum(evicted), max(pages_pinned) FROM step").fetchone()
    return out, evicted, pinned


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--cutaway", default="./cutaway")
    p.add_argument("--pages", type=int, default=208)
    p.add_argument("--others", type=int, default=5, help="other prompts between two questions")
    p.add_argument("--keep", help="a folder for the two recordings")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folder = args.keep or tempfile.mkdtemp(prefix="pinned-")
    told, hashes = {}, []
    for name, declared in ("automatic", False), ("declared", True):
        record = os.path.join(folder, name + ".db")
        asked = run(args, root, declared, record)
        rows, evicted, pinned = figures(record, asked)
        hashes.append([a["choices"][0]["hash"] for a in asked])
        later = sorted(r[3] for r in rows[1:])
        told[name] = {"asked": sum(r[0] for r in rows), "cached": sum(r[1] for r in rows),
                      "rows": sum(r[2] for r in rows), "first": rows[0][3],
                      "others": later[len(later) // 2], "evicted": evicted, "pinned": pinned}
    if hashes[0] != hashes[1]:
        sys.exit("the answers differ: a pin may not change a bit")
    if args.json:
        print(json.dumps(told))
        return
    print("| ten questions | prompt tokens | cached | rows computed | steps to the first token: "
          "first, others | evicted pages | pinned pages |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, t in told.items():
        print(f"| {name} | {t['asked']:,} | {t['cached']:,} | {t['rows']:,} "
              f"| {t['first']}, {t['others']} | {t['evicted']:,} | {t['pinned']} |")
    print("the last rows of logits of all ten answers are equal, bit for bit")


if __name__ == "__main__":
    main()
