#!/usr/bin/env python3
"""Exports: each format is read back by another reader and held against the recording itself. The session's texts
try to break out of every format. TAP; Python's standard library alone, and Chromium where it is installed."""
import csv
import html.parser
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TMP = tempfile.TemporaryDirectory(prefix="cutaway-export-")
PROGRAM = os.path.join(ROOT, "cutaway")
TINY, FILE = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "session.db"))
NASTY = 'a "quote", a <b>tag</b>, </script><script>document.title="broken"</script> <!-- =1+1 \x1b[31m \u202e é'
count = failures = 0


def check(name, good, more=""):
    global count, failures
    count += 1
    print(f"{'ok' if good else 'not ok'} {count} - {name}")
    if not good:
        failures += 1
        for line in str(more).splitlines()[:20]:
            print("# " + line)


def skip(name, why):
    global count
    count += 1
    print(f"ok {count} - {name} # SKIP {why}")


def cutaway(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name,
                          env={**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name})
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def query(sql):
    db = sqlite3.connect(f"file:{FILE}?mode=ro", uri=True)
    rows = db.execute(sql).fetchall()
    db.close()
    return rows


def export(form, *more):
    status, out, err = cutaway("export", FILE, "--to", form, *more)
    if status:
        check(f"export --to {form}", False, err)
    return out.decode("utf-8")


def test_perfetto():
    events = json.loads(export("perfetto"))["traceEvents"]
    steps = [e for e in events if e["ph"] == "X" and e["name"] == "step"]
    check("perfetto: a slice a step, as long as measured",
          [round(e["dur"] * 1000) for e in steps] == [ns for ns, in query("SELECT ns FROM step ORDER BY seq")])
    check("perfetto: every event has what its phase needs",
          all({"ph", "pid", "name"} <= e.keys() and (e["ph"] == "M" or "ts" in e) and
              (e["ph"] != "X" or e["dur"] >= 0) for e in events))
    answers = [e for e in events if e["ph"] == "X" and e["name"] == "answer"]
    check("perfetto: an answer a request", [e["args"]["tokens"] for e in answers] ==
          [n for n, in query("SELECT generated FROM finish ORDER BY seq")])
    used = [e["args"]["value"] for e in events if e["ph"] == "C" and e["name"] == "pages read by requests"]
    check("perfetto: pages as a counter", used == [n for n, in query("SELECT pages_used FROM step ORDER BY seq")])
    stages = [e for e in events if e["pid"] == 3 and e["tid"] == 2 and e["ph"] == "X"]
    check("perfetto: stages lie within their steps", len(stages) > len(steps) and all(
        any(s["ts"] <= e["ts"] + .002 and e["ts"] + e["dur"] <= s["ts"] + s["dur"] + .002 for s in steps) for e in stages))
    check("perfetto: drafters are a part of the steps in which they did something",
          [round(e["dur"] * 1000) for e in stages if e["name"] == "drafters"] ==
          [ns for ns, in query("SELECT drafters_ns FROM step WHERE drafters_ns > 0 ORDER BY seq")] != [])


def test_csv():
    for table in ("token", "step", "request", "page"):
        rows = list(csv.DictReader(io.StringIO(export("csv", "--table", table), newline="")))
        want = query(f"SELECT seq FROM {table} ORDER BY seq")
        check(f"csv: table {table}, row by row", [int(r["seq"]) for r in rows] == [s for s, in want])
    rows = list(csv.DictReader(io.StringIO(export("csv", "--table", "request"), newline="")))
    check("csv: a text that tries to break out is one field", rows[0]["text"] == NASTY, rows[0]["text"])
    check("csv: what a spreadsheet would run is marked", rows[1]["text"] == "'=cmd()", rows[1]["text"])
    status, _, err = cutaway("export", FILE, "--to", "csv", "--table", "nothing")
    check("csv: a table that is not there", status == 2 and "docs/trace.md" in err, err)


def test_jsonl():
    rows = [json.loads(line) for line in export("jsonl").splitlines()]
    kinds = [k for k, in query("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('code', 'doc')")]
    total = sum(query(f"SELECT count(*) FROM {k}")[0][0] for k in kinds if not k.startswith("sqlite_"))
    check("jsonl: every event, in order", [r["seq"] for r in rows] == list(range(1, total + 1)), f"{len(rows)} {total}")
    token = next(r for r in rows if r["event"] == "token")
    first = query("SELECT id, hash, p FROM token ORDER BY seq LIMIT 1")[0]
    check("jsonl: values are exact", (token["id"], token["hash"], token["p"]) == first, token)
    check("jsonl: packed columns are unpacked", token["candidates"][0]["p"] > 0 and len(token["stages"]) == 5 and
          isinstance(next(r for r in rows if r["event"] == "request")["prompt"], list))
    check("jsonl: texts come through", next(r for r in rows if r["event"] == "request")["text"] == NASTY)


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.scripts, self.tags, self.links = [], [], []
        self.inside = False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href")]
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def test_html():
    path = os.path.join(TMP.name, "page.html")
    status, _, err = cutaway("export", FILE, "-o", path)
    check("html: the format comes from the file's ending", status == 0, err)
    page = Page()
    with open(path, encoding="utf-8") as f:
        page.feed(f.read())
    data = json.loads(page.scripts[0])
    check("html: two scripts, no more than we wrote, and nothing from elsewhere",
          len(page.scripts) == 2 and not page.links and "b" not in page.tags, page.tags)
    check("html: the data are those of the recording", len(data["tokens"]) == query("SELECT count(*) FROM token")[0][0]
          and len(data["steps"]) == query("SELECT count(*) FROM step")[0][0] and data["requests"][0]["text"] == NASTY)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        skip("html: Chromium runs the page", "no Chromium here")
        return
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                           f"--user-data-dir={TMP.name}/chromium", "file://" + path], capture_output=True)
    dom = done.stdout.decode("utf-8", "replace")
    check("html: Chromium runs the page to its end", 'data-ready="1"' in dom and "<svg" in dom and
          "<title>cutaway session</title>" in dom, done.stderr.decode("utf-8", "replace")[-500:])


def test_asciicast():
    lines = [json.loads(line) for line in export("asciicast").splitlines()]
    head, frames = lines[0], lines[1:]
    check("asciicast: a header of version 2", head["version"] == 2 and (head["width"], head["height"]) == (120, 40))
    times = [f[0] for f in frames]
    check("asciicast: frames in order of time", times == sorted(times) and all(
        len(f) == 3 and f[1] == "o" and isinstance(f[2], str) for f in frames) and len(frames) > 2)
    text = "".join(f[2] for f in frames)
    check("asciicast: the views are in it, and nothing of the session commands the terminal",
          "KV pages" in text and "\x1b[31m" not in text and "\u202e" not in text)


def test_errors():
    status, _, err = cutaway("export", FILE)
    check("export asks for a format", status == 2 and "perfetto" in err, err)
    status, _, err = cutaway("export", FILE, "-o", "/nonexistent/x.html")
    check("a folder that is not there", status == 4 and "/nonexistent/x.html" in err, err)
    status, _, err = cutaway("export", TINY, "--to", "jsonl")
    check("a file that is no recording", status == 3, err)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([PROGRAM, "export", FILE, "--to", "jsonl"], stdout=full, stderr=subprocess.PIPE)
    check("a full disk", done.returncode == 4, done.stderr)
    out = os.path.join(TMP.name, "old.jsonl")
    with open(out, "w") as f:
        f.write("old")
    status, _, _ = cutaway("export", TINY, "-o", out)
    check("a failure leaves what was there, and no remains", status == 3 and open(out).read() == "old" and
          not os.path.exists(out + ".part"))


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    status, _, err = cutaway("run", "--model", TINY, "--record", FILE, "--max-tokens", "40", "--spec", "ngram:4",
                             "--temp", "0.9", NASTY)
    if status:
        print("Bail out!", err)
        return 1
    # a second request, whose text a spreadsheet would run
    db, seq = sqlite3.connect(FILE), query("SELECT max(seq) FROM (SELECT seq FROM step UNION ALL SELECT seq FROM closed)")[0][0]
    columns = [c[1] for c in db.execute("PRAGMA table_info(request)")]
    row = dict(zip(columns, db.execute("SELECT * FROM request").fetchone()))
    row.update(seq=seq + 1, request=2, text="=cmd()")
    db.execute(f"INSERT INTO request VALUES ({','.join('?' * len(columns))})", [row[c] for c in columns])
    db.commit()
    db.close()
    for test in (test_perfetto, test_csv, test_jsonl, test_html, test_asciicast, test_errors):
        test()
    print(f"1..{count}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
