#!/usr/bin/env python3
"""Exports: each format is read back by another reader and held against the recording itself. The session's texts
try to break out of every format. TAP; Python's standard library alone, and Chromium where it is installed."""
import csv
import html
import html.parser
import io
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

from tap import PROGRAM, ROOT, check, finish, skip
from terminal import Terminal

TMP = tempfile.TemporaryDirectory(prefix="cutaway-export-")
TINY, FILE = (os.path.join(TMP.name, name) for name in ("tiny.gguf", "session.db"))
NASTY = 'a "quote", a <b>tag</b>, </script><script>document.title="broken"</script> <!-- =1+1 \x1b[31m \u202e é'


def cutaway(*args):
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name,
                          env={**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name})
    return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace")


def query(sql, file=FILE):
    db = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
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
    check("perfetto: its latencies", [[e["args"].get(k) for k in ("ttft_ms", "itl_p50_ms", "itl_p99_ms", "e2e_ms")]
                                      for e in answers] ==
          [[None if v is None else v / 1e6 for v in row] for row in
           query("SELECT first_token_ns, itl_p50_ns, itl_p99_ns, total_ns FROM finish ORDER BY seq")])
    cut = os.path.join(TMP.name, "cut.db")
    shutil.copy(FILE, cut)
    with sqlite3.connect(cut) as db:
        db.execute("DELETE FROM finish WHERE request > 1")
        db.execute("INSERT INTO request (seq, t_ns, request, kind) SELECT max(seq) + 9, max(t_ns), 2 + 4096, 0 FROM closed")
    db.close()
    left = [e for e in json.loads(cutaway("export", cut, "--to", "perfetto")[1])["traceEvents"] if e["ph"] == "X"]
    check("perfetto: however many of them there are", sorted(e["tid"] for e in left if e["name"] == "queue") == [1, 2, 2 + 4096], left[-3:])
    last, = query("SELECT max(t_ns) FROM request", cut)[0]
    check("perfetto: they last as long as the recording", {round(1000 * (e["ts"] + e["dur"])) for e in left if e["pid"] == 1 and e["tid"] > 1} == {last}, left[-3:])
    left = [e for e in left if e["name"] == "answer"]
    check("perfetto: also of requests that had not ended", sorted(e["tid"] for e in left) == sorted(e["tid"] for e in answers) and
          [e["tid"] for e in left if e["args"]] == [1], left)
    lost = [e for e in events if e["ph"] == "X" and e["name"] == "preempted"]
    check("perfetto: a slice for each preemption until it came back", len(lost) ==
          query("SELECT count(*) FROM admit WHERE readmitted = 1")[0][0])
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
    for view, in query("SELECT name FROM sqlite_schema WHERE type = 'view'"):
        rows = list(csv.reader(io.StringIO(export("csv", "--table", view), newline="")))
        db = sqlite3.connect(FILE)
        db.text_factory = lambda b: b.decode("utf-8", "surrogateescape")
        want = db.execute(f"SELECT * FROM {view}")
        names, values = [c[0] for c in want.description], want.fetchall()
        db.close()
        same = [[got == ("" if v is None else str(v)) or isinstance(v, float) and float(got) == v or isinstance(v, str) for got, v in zip(g, w)]
                for g, w in zip(rows[1:], values)]
        check(f"csv: view {view}, as sqlite gives it", rows[0] == names and len(rows) == len(values) + 1 and all(map(all, same)), (rows[:2], values[:1]))
    shown = list(csv.DictReader(io.StringIO(export("csv", "--table", "tokens"), newline="")))
    check("csv: tokens with their texts", any(r["text"] and float(r["p"]) <= 1 for r in shown), shown[:2])
    long, ids = os.path.join(TMP.name, "long.db"), [i * i % 70000 for i in range(700)]
    shutil.copy(FILE, long)
    with sqlite3.connect(long) as db:
        db.execute("UPDATE request SET prompt = ? WHERE request <> 2", (struct.pack("<700I", *ids),))
    told = list(csv.DictReader(io.StringIO(cutaway("export", long, "--to", "csv", "--table", "prompt_tokens")[1].decode(), newline="")))
    check("csv: a prompt of several parts, token by token", [(int(r["pos"]), int(r["id"])) for r in told if r["request"] != "2"] ==
          list(enumerate(ids)) * (query("SELECT count(*) FROM request")[0][0] - 1), told[:3])
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


def page_of(file):
    """the page of a recording, and the data in it"""
    path = file + ".html"
    status, _, err = cutaway("export", file, "-o", path)
    check(f"html: {os.path.basename(file)}, the format comes from the file's ending", status == 0, err)
    check("an export is as private as the recording", os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode))
    page = Page()
    with open(path, encoding="utf-8") as f:
        page.feed(f.read())
    check("html: two scripts, no more than we wrote, and nothing from elsewhere",
          len(page.scripts) == 2 and not page.links and "b" not in page.tags, page.tags)
    return json.loads(page.scripts[0])


class Shown(html.parser.HTMLParser):
    """what a browser shows: headings, tables as rows of cells, what is written at axes and in legends"""
    def __init__(self):
        super().__init__()
        self.heads, self.rows, self.into = [], [], None
        self.charts, self.legends, self.written = {}, [], []

    def handle_starttag(self, tag, attrs):
        if tag == "svg":
            self.written = self.charts[dict(attrs)["aria-label"]] = []
        elif tag == "div":
            self.written = []
            self.legends += [self.written] if "legend" in (dict(attrs).get("class") or "") else []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self.into = self.rows[-1]
        if tag in ("h2", "h3"):
            self.heads.append("")
            self.into = self.heads

    def handle_endtag(self, tag):
        if tag in ("td", "th", "h2", "h3"):
            self.into = None

    def handle_data(self, data):
        if self.into is not None:
            self.into[-1] += data
        self.written.append(data)


def browse(file, name):
    """None where there is no Chromium"""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        skip(f"html: Chromium runs the page {name}", "no Chromium here")
        return None
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                           f"--user-data-dir={TMP.name}/chromium", f"file://{file}.html"], capture_output=True)
    dom = done.stdout.decode("utf-8", "replace")
    browse.dom = dom
    check(f"html: Chromium runs the page {name} to its end", 'data-ready="1"' in dom and "<svg" in dom and
          "<title>cutaway session</title>" in dom, done.stderr.decode("utf-8", "replace")[-500:])
    shown = Shown()
    shown.feed(dom)
    return shown


def test_html():
    data = page_of(FILE)
    check("html: the data are those of the recording", len(data["tokens"]) == query("SELECT count(*) FROM token")[0][0]
          and len(data["steps"]) == query("SELECT count(*) FROM step")[0][0] and data["requests"][0]["text"] == NASTY)
    with open(FILE + ".html", encoding="utf-8") as f:
        page = f.read()
    own = re.sub(r'(?s)id="data">.*?</script>', "", page)
    check("html: the page itself is small, knows dark and light, and asks no network", len(own) < 36 << 10 and
          "prefers-color-scheme:light" in own and not re.search(r"https?://(?!www\.w3\.org/2000/svg)|fetch\(|import|@font-face|url\(", own), len(own))
    shown = browse(FILE, "of hostile texts")
    for name, unit in ("Time of a step, measured", "ms"), ("KV pages", "page"), ("Requests", "requests"):
        written = shown and shown.charts.get(f"{name}, in {unit}, by step")
        check(f"html: the axes of '{name}' have units", not shown or (written and {unit, "step", "0"} <= set(written)),
              shown and list(shown.charts))
    check("html: a chart says what its lines are", not shown or ["Time of a step, measured", "in all", "kernels"] in shown.legends,
          shown and shown.legends)
    check("html: what a recording has not has no heading", not shown or not any(h.startswith(("Search", "Drafters")) for h in shown.heads),
          shown and shown.heads)


def same(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return abs(a - b) <= 1e-8 * (1 + abs(b)) if isinstance(a, float) or isinstance(b, float) and a is not None else a == b


def absent(*columns):
    return ", ".join(f"coalesce({c}, -1)" for c in columns)


def test_html_prices():
    file = os.path.join(TMP.name, "prices.db")
    status, _, err = cutaway("run", "--model", TINY, "--record", file, "--max-tokens", "12", "--visible", "window:4", "--twin", "on", NASTY)
    check("html: a session beside its exact twin is recorded", status == 0, err)
    rows = query("SELECT step, request, pos, kl, best = exact_best FROM price ORDER BY seq", file)
    check("html: what each token cost", rows and same(page_of(file)["prices"], rows))
    shown = browse(file, "of prices")
    chart = "What the lossy settings cost: KL of the newest tokens to the exact twin, in nats, by step"
    check("html: a chart shows it", not shown or chart in shown.charts, shown and list(shown.charts))


def test_lossy():
    """what leaves the program says that it is lossy, and by what"""
    file = os.path.join(TMP.name, "prices.db")
    check("html: the page says LOSSY with the settings", page_of(file)["lossy"] == "window:4" and page_of(FILE)["lossy"] == "")
    status, out, err = cutaway("export", file, "--to", "perfetto")
    trace = json.loads(out)
    check("perfetto: so do its metadata", trace["otherData"]["lossy"] == "window:4" and
          "requests, LOSSY window:4" in [e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"], err)
    for view, size in ("roofline", "80x24"), ("next", "30x8"), ("screen", "20x5"):
        status, out, err = cutaway("export", file, "--to", "svg", "--view", view, "--size", size)
        text = re.sub("<[^>]*>", "", out.decode("utf-8").split("</title>", 1)[-1])
        check(f"svg: {view} at {size} says LOSSY with the settings", "LOSSY window:4" in text, err + text[-300:])
    status, out, err = cutaway("export", file, "--to", "asciicast", "--size", "40x10")
    check("asciicast: its title does", "LOSSY window:4" in json.loads(out.decode("utf-8").splitlines()[0])["title"], err)


def test_html_bytes():
    """characters of several tokens, and answers of an earlier session"""
    file = os.path.join(TMP.name, "bytes.db")
    shutil.copy(FILE, file)
    db = sqlite3.connect(file)
    request, = db.execute("SELECT request FROM token GROUP BY request HAVING count(DISTINCT id) > 3 ORDER BY request").fetchone()
    ids = [i for i, in db.execute("SELECT DISTINCT id FROM token WHERE request = ? ORDER BY seq", (request,))][:2]
    for id, part in zip(ids, (b"\xf0\x9f", b"\x8c\x9f")):
        db.execute("UPDATE vocab SET bytes = ? WHERE id = ?", (part, id))
    rows = [s for s, in db.execute("SELECT seq FROM token WHERE request = ? ORDER BY seq LIMIT 2", (request,))]
    for seq, id in zip(rows, ids):
        db.execute("UPDATE token SET id = ?, is_end = NULL WHERE seq = ?", (id, seq))
    other = db.execute("SELECT max(request) FROM token").fetchone()[0]
    db.execute("UPDATE token SET source = 7 WHERE request = ?", (other,))
    db.commit()
    db.close()
    data = page_of(file)
    own = [t[2] for t in data["tokens"] if t[0] == request]
    check("html: no byte of a token is lost", own[:2] == [[0xf0, 0x9f], [0x8c, 0x9f]], own[:3])
    status, out, err = cutaway("export", file, "--to", "csv")
    rows = [r for r in csv.DictReader(io.StringIO(out.decode("utf-8"), newline="")) if int(r["request"]) == request]
    check("csv: nor there", [r["text"] for r in rows[:2]] == ["<F0><9F>", "<8C><9F>"], err or rows[:2])
    if not browse(file, "of parts of characters"):
        return
    shown = browse.dom.split("<script", 1)[0]
    check("html: tokens that make a character together show it", "\U0001f31f" in shown, shown[-2000:])
    check("html: an answer of an earlier session has no latencies", "from the session before" in shown, shown[-2000:])


def test_html_search():
    file = os.path.join(TMP.name, "search.db")
    status, _, err = cutaway("run", "--model", TINY, "--record", file, "--max-tokens", "24", "--beam", "3", NASTY)
    check("html: a search is recorded", status == 0, err)
    data = page_of(file)
    rows = query(f"SELECT {absent('search', 'step', 'action', 'request', 'node', 'parent', 'tokens', 'visits')}, "
                 "logp, score, method, judge, (SELECT count(*) FROM token t WHERE t.seq < s.seq) FROM search s ORDER BY seq", file)
    check("html: the tree of a search is that of the log", len(rows) > 10 and same(data["searches"], rows), data["searches"][:2])
    check("html: and what sharing saved", data["sharing"] == [list(r) for r in query(
        "SELECT search, pages, unshared FROM sharing ORDER BY seq", file)] != [])
    shown = browse(file, "of a search")
    if not shown:
        return
    won = query("SELECT tokens, logp, score FROM search WHERE action = 5", file)[0]
    check("html: the winner, its log-probability and its score", [r[1:] for r in shown.rows if r[-1:] == ["won"]] ==
          [[str(won[0]), f"{won[1]:.2f}", f"{won[2]:.3f}", "won"]], shown.rows)
    texts = {str(r): "" for r, in query("SELECT DISTINCT request FROM search WHERE node >= 0", file)}
    for request, text in query("SELECT request, v.bytes FROM token t JOIN vocab v USING (id) WHERE t.is_end IS NOT 1 AND NOT EXISTS "
                               "(SELECT 1 FROM search a WHERE a.request = t.request AND a.action = 3 AND a.seq < t.seq) ORDER BY t.seq", file):
        if str(request) in texts:
            texts[str(request)] += text.decode("utf-8", "replace")
    plain = lambda texts: {request: re.sub("[^ -~]+", "?", text) for request, text in texts.items()}
    got = dict(re.match(r"(?:→ )?request (\d+) (.*)", r[0], re.S).groups() for r in shown.rows if "request" in r[0])
    check("html: each branch has its own text", plain(got) == plain(texts), f"{got}\n{texts}")
    want = query("SELECT request, tokens, logp, step FROM search s WHERE action = 4 AND NOT EXISTS "
                 "(SELECT 1 FROM search a WHERE a.action = 3 AND a.node = s.node)", file)
    got = [[r[0].replace("→ ", "").split()[1], *r[1:]] for r in shown.rows if r[-1:] and r[-1].startswith("pruned")]
    check("html: who was pruned, with its length-normalised score", sorted(got) == sorted(
        [str(q), str(n), f"{logp:.2f}", f"{logp / n:.3f}", f"pruned, step {step}"] for q, n, logp, step in want) and got, got)


def counts(blob):
    return [n for n, in struct.iter_unpack("<I", blob or bytes(64))][:16]


def test_html_drafters():
    file = os.path.join(TMP.name, "drafts.db")
    status, _, err = cutaway("run", "--model", TINY, "--record", file, "--max-tokens", "60", "--spec", "skip:1,3",
                             "--shadow", "all", "--temp", "0.3", "one two one two one two one two")
    check("html: a speculative run is recorded", status == 0, err)
    data = page_of(file)
    rows = query("SELECT drafter, count(DISTINCT step || '/' || request), count(*), sum(verdict <> 2), sum(verdict = 0), "
                 "(SELECT count(*) FROM token t WHERE t.source <= 3 AND EXISTS (SELECT 1 FROM draft x WHERE x.step = t.step "
                 "AND x.request = t.request AND x.drafter = d.drafter)), min(step), max(step) FROM draft d GROUP BY drafter", file)
    ahead = query("SELECT verified, accepted FROM acceptance ORDER BY ahead", file)
    verified, accepted = ([r[i] for r in ahead] + [0] * (16 - len(ahead)) for i in (0, 1))
    check("html: a drafter's counts are those of the log", data["drafters"] == [[*rows[0], verified, accepted]] and len(rows) == 1 and
          rows[0][4] > 0, data["drafters"])
    rows = query("SELECT drafter, used, step, coalesce(steps, -1), coalesce(tokens, -1), coalesce(nodes, -1), predicted, measured, "
                 "verified, accepted FROM shadow WHERE seq IN (SELECT max(seq) FROM shadow GROUP BY drafter)", file)
    rows = sorted([*r[:8], counts(r[8]), counts(r[9])] for r in rows)
    check("html: of drafters in shadow mode, what was told last", len(rows) > 2 and same(sorted(data["shadows"]), rows), data["shadows"])
    rows = query("SELECT step, request, pos, pages, threshold, lower(hex(share)), lower(hex(near_zero)) FROM attention ORDER BY seq", file)
    check("html: attention by layer and page is that of the log", len(rows) > 3 and same(data["attention"], rows), data["attention"][:1])
    shown = browse(file, "of drafts and attention")
    if not shown:
        return
    check("html: drafted tokens by step, accepted and rejected", "Drafted tokens of a step, in tokens, by step" in shown.charts and
          ["Drafted tokens of a step", "accepted", "rejected"] in shown.legends, shown.legends)
    name, times, proposed, verified, kept, tokens, first, last = data["drafters"][0][:8]
    row = next((r for r in shown.rows if r[0] == name), None)
    check("html: acceptance rate and tokens a step", row and row[1:8] == [str(n) for n in (times, proposed, verified, kept)] + [
        f"{100 * kept / verified:.1f} %", f"{kept / times:.2f}", f"{tokens / times:.2f}"] and row[-1] == f"{first} to {last}", shown.rows)
    n, share = rows[-1][3], bytes.fromhex(rows[-1][5])
    layers = [[(v / 255) ** 2 for v in share[at:at + n]] for at in range(0, len(share), n)]
    sink = sum(l[0] for l in layers) / sum(map(sum, layers))
    check("html: the sink's share, mean of layers and heads", f"{100 * sink:.1f} %" in [r[2] for r in shown.rows if r[0] == "mean"], sink)


def test_html_limits():
    """a recording from elsewhere: names that would be markup, rows without end"""
    file = os.path.join(TMP.name, "hostile.db")
    shutil.copy(os.path.join(TMP.name, "drafts.db"), file)
    db = sqlite3.connect(file)
    seq = max(db.execute(f"SELECT coalesce(max(seq), 0) FROM {t}").fetchone()[0] for t in ("step", "closed", "shadow"))
    def add(table, **values):
        nonlocal seq
        seq += 1
        db.execute(f"INSERT INTO {table} (seq, t_ns, {', '.join(values)}) VALUES ({', '.join('?' * (len(values) + 2))})",
                   [seq, 10 ** 9, *values.values()])
    db.execute("UPDATE draft SET drafter = ?", (NASTY,))
    for i in range(70):
        add("shadow", step=1, drafter=NASTY + str(i), used=0)
    for pages in (3 << 20, 3 << 20, 0, -5, 1 << 60):
        add("attention", step=1, request=1, pos=1, pages=pages, share=bytes(abs(pages) if pages < 1 << 30 else 7))
    for action, node, parent in ((0, None, None), (1, 0, 7), (1, 5, 5), (3, 9, None), (4, 1 << 50, 3), (1, 6, 1), (5, 2, None), (77, 1, 1)):
        add("search", step=1, search=9, action=action, node=node, parent=parent, tokens=1 << 62, method=NASTY, judge=NASTY)
    for i in range(2000): # deeper than a program that recurses can go
        add("search", step=1, search=9, action=1, request=1, node=10 + i, parent=9 + i if i else None, tokens=i, logp=-1.0)
    db.commit()
    db.close()
    data = page_of(file)
    check("html: names are data", data["drafters"][0][0] == data["searches"][0][10] == data["searches"][0][11] == NASTY)
    names = query("SELECT count(DISTINCT drafter) FROM shadow", file)[0][0]
    check("html: drafters are bounded, and the page knows what it lacks", len(data["shadows"]) == 64 and
          data["left_out"]["shadows"] == names - 64, data["left_out"])
    total = query("SELECT count(*) FROM attention", file)[0][0]
    check("html: so is attention", data["left_out"]["attention"] > 0 and
          len(data["attention"]) + data["left_out"]["attention"] == total and
          sum(len(a[5]) for a in data["attention"]) <= 8 << 20, data["left_out"])
    browse(file, "of a recording that lies")


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


def text_of(svg):
    return " ".join(html.unescape(re.sub(rb"<[^>]*>", b" ", svg).decode("utf-8", "replace")).split())


def test_hits():
    """/find and /break go to the token that they found, and a picture can be of it; a batch shows a request that runs."""
    texts, file = (os.path.join(TMP.name, name) for name in ("texts", "batch.db"))
    with open(texts, "w", encoding="utf-8") as f:
        f.writelines(f"one of six, number {i}\n" for i in range(6))
    status, _, err = cutaway("run", "--model", TINY, "--record", file, "--max-tokens", "20", "--temp", "1.5", "--slots", "3", "--batch", texts)
    check("a batch is recorded", status == 0, err)
    request, pos, step, entropy = query("SELECT request, pos, step, entropy FROM token t WHERE request = 2 AND entropy > (SELECT max(entropy) "
                                        "FROM token WHERE seq < t.seq) ORDER BY seq DESC LIMIT 1", file)[0]
    found = f"entropy >= {entropy!r}"
    told = rf"step {step}: {'?abcdef'[request]}:{pos}, "
    bits = f"─ {entropy:.2f} bits before"
    shown = f"request {'?abcdef'[request]} · position {pos} "
    _, out, err = cutaway("export", file, "--to", "svg", "--view", "sampler", "--at", found)
    check("a picture of what an expression finds", shown in text_of(out), err + text_of(out)[:200])
    _, out, err = cutaway("export", file, "--to", "svg", "--view", "sampler", "--at", str(query("SELECT min(step) FROM token", file)[0][0]))
    check("a batch shows a request that runs", "request c · position" in text_of(out), err + text_of(out)[:200])
    status, _, err = cutaway("export", file, "--to", "svg", "--at", "entropy > 99")
    check("and where there is none says so", status == 2 and "no such step" in err, err)
    t = Terminal([PROGRAM, "replay", file], {**os.environ, "HOME": TMP.name, "XDG_DATA_HOME": TMP.name, "TERM": "xterm-256color"}, columns=160, lines=50)
    try:
        t.wait("batch")
        t.send("\x1b[H/find " + found + "\r")
        screen = t.wait(told)
        check("/find goes to the token and names it", bits in screen, screen)
        t.send(f"/break {found}\r/goto {step - 1}\r")
        t.wait(f"step {step - 1} of")
        t.send("\x1b[C")
        screen = t.wait(f"stopped after step {step}")
        check("/break does", bits in screen and f"stopped after {told}"[:-2] in screen, screen)
        t.send("/find rows > 0\r")
        check("what is of a step has no token", t.wait(f"step {step + 1}: rows > 0"))
    finally:
        t.close()


class Deck(html.parser.HTMLParser):
    """Slides: by the id of each section its texts, and the tags of the page."""

    def __init__(self, page):
        super().__init__()
        self.slides, self.tags, self.hidden, self.at = {}, [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "section":
            self.at = self.slides[dict(attrs)["id"]] = []
            self.hidden += [dict(attrs)["id"]] if "hidden" in dict(attrs) else []

    def handle_data(self, data):
        self.at.append(data)


def slides(file, *more):
    path = os.path.join(TMP.name, "slides.html")
    status, out, err = cutaway("export", file, "--to", "slides", "-o", path, *more)
    with open(path, encoding="utf-8") as f:
        page = f.read()
    check(f"slides: {' '.join((os.path.basename(file), *more))}", status == 0 and not out, err)
    return Deck(page), page


def test_slides():
    deck, page = slides(FILE)
    names = list(deck.slides)
    check("slides: the views that have something to show, and no others", {"chat", "next", "pages", "batch", "time", "tree"} < set(names) and
          not {"lens", "watch", "experts", "lesson", "denoise"} & set(names) and names[0] == "views", names)
    steps = query("SELECT count(*) FROM step")[0][0]
    check("slides: captions say what one sees, and where", all(re.search(rf"step \d+ of {steps}; tiny", "".join(t)) for t in list(deck.slides.values())[1:]) and
          "Whole runs, the newest below" in "".join(deck.slides["runs"]), deck.slides["runs"])
    check("slides: a session's texts stay texts, and nothing comes from elsewhere", deck.tags.count("script") == 1 and "b" in deck.tags and
          "<b>tag" not in page and not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page) and not re.search("[\x1b\u202e]", page), deck.tags.count("script"))
    check("slides: exact runs are not called lossy", "LOSSY" not in page)
    deck, page = slides(os.path.join(TMP.name, "prices.db"), "--at", "2", "--theme", "light", "--size", "60x20")
    check("slides: a step, a size and a theme", all("step 2 of" in "".join(t) for t in list(deck.slides.values())[1:]) and 'width="620"' in page and
          '"light"' in page, list(deck.slides))
    check("slides: each says LOSSY with its settings", all("LOSSY window:4" in "".join(t) for t in list(deck.slides.values())[1:]), deck.slides)
    deck, _ = slides(os.path.join(TMP.name, "batch.db"))
    alone, _ = slides(os.path.join(TMP.name, "batch.db"), "--at", "end")
    check("slides: without a step, one at which the view shows much", "nobody waits" in "".join(alone.slides["queue"]) and
          "nobody waits" not in "".join(deck.slides["queue"]) and "every slot is taken" in "".join(deck.slides["queue"]), deck.slides["queue"])
    status, _, err = cutaway("export", FILE, "--to", "slides", "--view", "pages")
    check("slides: are of all views", status == 2 and "--view" in err, err)
    turn_pages(page)


def turn_pages(page):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        skip("slides: keys turn pages", "no Chromium here")
        return
    path = os.path.join(TMP.name, "keys.html")
    with open(path, "w", encoding="utf-8") as f:
        f.write(page + "<script>addEventListener('load', async () => { for (const key of ['ArrowRight', 'End', 'ArrowRight', 'ArrowLeft']) { dispatchEvent("
                "new KeyboardEvent('keydown', { key })); await new Promise(r => setTimeout(r)); } document.body.dataset.ready = 1; });</script>")
    done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom",
                           f"--user-data-dir={TMP.name}/chromium", f"file://{path}"], capture_output=True)
    deck = Deck(done.stdout.decode("utf-8", "replace"))
    shown = [name for name in deck.slides if name not in deck.hidden]
    check("slides: keys turn pages", shown == list(deck.slides)[-2:-1], (shown, list(deck.slides), done.stderr[-300:]))


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
    for test in (test_perfetto, test_csv, test_jsonl, test_html, test_html_prices, test_lossy, test_html_bytes, test_html_search, test_html_drafters, test_html_limits,
                 test_asciicast, test_hits, test_slides, test_errors):
        test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
