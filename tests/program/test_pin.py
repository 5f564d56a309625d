#!/usr/bin/env python3
"""Declared prefixes from outside: `cutaway pin`, cache_control and cache_prefix over HTTP, /pin in the chat; what a pin keeps
while others need room, and that verify, what-if and replay repeat it. TAP; standard library alone."""
import json
import os
import re
import sqlite3
import subprocess
import sys

from tap import PROGRAM, ROOT, check, finish
from terminal import Failure, Terminal
from test_serve import CHAT, ENV, TEXT, TINY, TMP, Server, until

WORDS = "the model reads a page of tokens and the cache keeps what it has read for the next one "
DOCUMENT = "Document. " + WORDS * 4
PATH = os.path.join(TMP.name, "document.txt")
RECORD = os.path.join(TMP.name, "pins.db")


def cutaway(*args):
    return subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV, cwd=TMP.name, text=True, check=False)


def pin(s, *args):
    return cutaway("pin", "--url", f"http://127.0.0.1:{s.port}/v1", *args)


def others(s, n=8):
    """Prompts that share nothing, until the cache has only what is kept."""
    for i in range(n):
        s.post(TEXT, prompt=[3 + (i * 37 + k * 11 + k // 7) % 200 for k in range(120)], max_tokens=2)


def question(text, ttl="1h"):
    part = {"type": "text", "text": DOCUMENT}
    if ttl:
        part["cache_control"] = {"type": "ephemeral", "ttl": ttl}
    return [{"role": "user", "content": [part, {"type": "text", "text": text}]}]


def cached(told):
    return told["usage"]["prompt_tokens_details"]


def test_declared(s):
    first = s.post(CHAT, messages=question(" What?"), max_tokens=4, seed=1)
    made = first["pin"]
    check("an answer tells its pin", made["state"] == "kept" and made["tokens"] % 16 == 0 and made["tokens"] <= made["declared_tokens"], made)
    check("usage tells what was written", first["usage"]["cache_creation_input_tokens"] == made["tokens"], first["usage"])
    others(s)
    then = s.post(CHAT, messages=question(" Why?", None), max_tokens=4, seed=1)
    check("others did not evict it", cached(then)["pinned_tokens"] == made["tokens"] == then["usage"]["cache_read_input_tokens"], then)
    again = s.post(CHAT, messages=question(" What?"), max_tokens=4, seed=1)
    check("the same seed, the same bits", again["choices"][0]["hash"] == first["choices"][0]["hash"])
    check("asked for again it is renewed", again["pin"]["pin"] == made["pin"] and again["usage"]["cache_creation_input_tokens"] == 0, again["pin"])
    check("/metrics counts it", s.metric("prefix_pins") == 1 and s.metric("prefix_pages_pinned") == made["pages"] and
          s.metric("prefix_pinned_hits_total") >= 2 * made["tokens"])
    parts = s.stream(CHAT, messages=question(" How?"), max_tokens=2, stream_options={"include_usage": True})
    check("a stream's usage, too", any(p.get("usage") and cached(p)["pinned_tokens"] == made["tokens"] for p in parts), parts[-1])
    return made


def test_texts(s):
    text = WORDS * 2
    n = len(s.post("/tokenize", prompt=text)["tokens"])
    told = s.post(TEXT, prompt=text + " and then", cache_prefix=text, max_tokens=1)
    check("a text that the prompt begins with", abs(told["pin"]["declared_tokens"] - n) <= 1, (told["pin"], n))
    told = s.post(TEXT, prompt=list(range(10, 60)), cache_prefix=40, cache_control={"type": "ephemeral", "ttl": "2m"}, max_tokens=1)
    check("so many tokens of ids", told["pin"]["tokens"] == 32 and told["pin"]["declared_tokens"] == 40 and told["pin"]["ttl"] == 120, told["pin"])
    listed = s.ask("GET", "/pins")[1]
    check("GET /pins", len(listed["data"]) == 3 and listed["pages_pinned"] == sum(p["pages"] for p in listed["data"]), listed)
    check("DELETE /pins/N", s.ask("DELETE", f"/pins/{told['pin']['pin']}")[1] == {"removed": 1})
    check("only once", s.ask("DELETE", f"/pins/{told['pin']['pin']}")[0] == 404)


def test_hostile(s):
    status, told, _ = s.ask("POST", "/pin", {"prompt": "hello", "ttl": "5m"})
    check("less than a page cannot be kept", status == 400 and told["error"]["code"] == "pin_refused", told)
    bad = [("/pin", {"prompt": "hello", "ttl": t}) for t in ("5x", "", -1, 0, 1e30, "0s", "25h", "9" * 30 + "s", True, [], {}, "5m\0")]
    bad += [("/pin", b) for b in ({}, {"messages": []}, {"prompt": []}, {"prompt": ["a", "b"]}, {"prompt": "x", "n": 2}, {"messages": [{"role": "user"}]})]
    bad += [(CHAT, {"messages": [{"role": "user", "content": "x", "cache_control": c}]}) for c in ("5m", {"type": "forever"}, {"type": "ephemeral", "ttl": "1y"}, [])]
    bad += [(TEXT, {"prompt": "hello there", "cache_prefix": c}) for c in (0, -3, 1e9, 1.5, "", "something else entirely", [], True)]
    for path, body in bad:
        status, told, _ = s.ask("POST", path, body)
        check(f"refused: {path} {str(body)[:60]}", status == 400 and told["error"]["message"], told)
    for path in ("/pins/0", "/pins/-1", "/pins/x", "/pins/1x", "/pins/99999999999999999999", "/pins/1/2"):
        status, told, _ = s.ask("DELETE", path)
        check(f"refused: DELETE {path}", status in (400, 404), told)
    check("pins are as before", len(s.ask("GET", "/pins")[1]["data"]) == 2)


def test_verb(s):
    told = pin(s, PATH, "--ttl", "1h")
    check("cutaway pin FILE", told.returncode == 0 and re.match(r"pin \d+: \d+ of \d+ tokens in whole pages: \d+ pages, [\d.]+ MB; 3600 s left", told.stdout), told)
    number = re.match(r"pin (\d+)", told.stdout)[1]
    # the document of test_declared with other words after it: the same pages
    check("it is the beginning of a first turn", json.loads(pin(s, "--list", "--json").stdout)["data"][0]["pin"] == int(number), told)
    listed = pin(s, "--list")
    check("--list", listed.returncode == 0 and f"pin {number}: " in listed.stdout and "gave" in listed.stdout, listed)
    check("--remove", pin(s, "--remove", number).returncode == 0 and f"pin {number}: " not in pin(s, "--list").stdout)
    for args, words in (((), "one of FILE"), ((PATH, "--list"), "one of FILE"), ((PATH, "--ttl", "1y"), "from 1s to 24h"), (("/nowhere",), "/nowhere"),
                        (("--remove", "77"), "no pin 77")):
        told = pin(s, *args)
        check(f"pin {' '.join(args)}: a clear error", told.returncode != 0 and words in told.stderr and not told.stdout, told)
    told = cutaway("pin", "--list", "--url", "http://127.0.0.1:1")
    check("no server: a clear error", told.returncode != 0 and "127.0.0.1:1" in told.stderr, told)


def test_refused(s):
    long = [3 + i % 250 for i in range(200)]
    status, told, _ = s.ask("POST", "/pin", {"prompt": long})
    check("more than the limit is refused with its numbers", status == 400 and told["error"]["code"] == "pin_refused" and
          re.search(r"\d+ of 40 pages would be pinned, and at most 10 may be", told["error"]["message"]), told)
    told = s.post(TEXT, prompt=long, cache_prefix=200, max_tokens=1)
    check("a prompt is answered all the same", told["pin"]["state"] == "refused" and told["choices"], told)


def test_expiry(s):
    short = s.post("/pin", prompt="Once more, " + WORDS, ttl="1s")
    check("it expires by itself, while nothing runs", until(lambda: all(p["pin"] != short["pin"] for p in s.ask("GET", "/pins")[1]["data"])))
    others(s, 2)


def test_log():
    told = cutaway("verify", "--model", TINY, RECORD)
    check("verify repeats it", told.returncode == 0 and "all equal" in told.stdout, told)
    again = cutaway("whatif", RECORD)
    check("what-if repeats every count", again.returncode == 0 and "every count is that of the log" in again.stdout, again)
    none = cutaway("whatif", RECORD, "--pin-limit", "0")
    check("and says what it would be without pins", none.returncode == 0 and re.search(r"of them found there +\d+ +\d+ +-", none.stdout), none)
    db = sqlite3.connect(RECORD)
    actions = {a for a, in db.execute("SELECT DISTINCT name FROM pin JOIN code ON list = 'pin_action' AND value = action")}
    check("the log has what happened", {"asked", "kept", "renewed", "refused", "expired", "removed"} <= actions, actions)
    left = db.execute("SELECT (SELECT count(*) FROM page WHERE action = 8) - (SELECT count(*) FROM page WHERE action = 9)").fetchone()[0]
    live = db.execute("SELECT pages_pinned FROM step ORDER BY step DESC LIMIT 1").fetchone()[0]
    check("pages that are pinned add up", left >= 0 and live >= 0 and left <= live, (left, live))
    page = db.execute("SELECT page FROM page WHERE action = 5 AND other IS NOT NULL ORDER BY seq DESC LIMIT 1").fetchone()[0]
    why = cutaway("why", "evict", str(page), "--file", RECORD)
    check("why evict knows pins", re.search("pinned pages? stayed", why.stdout), why)
    request = db.execute("SELECT request FROM lookup WHERE pinned > 0 AND reason <> 0 LIMIT 1").fetchone()[0]
    why = cutaway("why", "miss", str(request), "--file", RECORD)
    check("why miss knows them", re.search(r"pin \d+ had kept the first \d+", why.stdout), why)


def test_replay():
    """The pins of a step are those of the log then: gone where it goes back to before them, back where it goes on."""
    db = sqlite3.connect(RECORD)
    kept = "(SELECT min(seq) FROM pin, code WHERE list = 'pin_action' AND name = 'kept' AND action = value)"
    step, pages = db.execute(f"SELECT step, pages_pinned FROM step WHERE seq > {kept} ORDER BY seq LIMIT 1").fetchone()
    t = Terminal([PROGRAM, "replay", RECORD], {**ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8"}, 120, 40)
    try:
        t.wait("step ")
        for name, at, there in (("after it", step + 1, True), ("before it", step - 1, False), ("after it again", step, True)):
            t.send(f"/goto {at}\r")
            t.wait(f"step {at} of")
            t.wait(rf"\b{pages} pinned", gone=not there)
            check(f"replay, {name}: {pages} pages are {'' if there else 'not '}pinned", True)
        t.send("/quit\r")
        check("the replay ends", t.wait_end() == 0)
    except Failure as e:
        check("pins in a replay", False, e)
    finally:
        t.close()


def test_chat():
    t = Terminal([PROGRAM, "chat", "--model", TINY, "--ctx", "512", "--no-record"], {**ENV, "TERM": "xterm-256color", "LANG": "C.UTF-8"}, 120, 40)
    try:
        t.wait("ready|Ask|ask|type")
        t.send(f"/pin {PATH} 1h\r")
        t.wait(r"pin 1: \d+ tokens in \d+ pages")
        check("/pin FILE", True)
        t.send("/pin\r")
        t.wait(r"1 a +\d+ tokens .* left +gave 0 +document.txt")
        check("/pin lists, with the time left", True)
        t.send("\x1b")
        t.send("/unpin 1\r")
        t.wait("pin 1 has ended")
        t.send("/unpin 1\r")
        t.wait("there is no pin 1")
        check("/unpin", True)
        t.send("/pin /nowhere\r")
        t.wait("/pin /nowhere: No such file")
        check("a file that is not there", True)
        t.send('/pin "One and two, three and four, five and six, seven and eight" 1h\r')
        t.wait(r"pin \d+: \d+ tokens in \d+ pages")
        t.send('/pin "open\r')
        t.wait("a text stands between double quotes")
        t.send('/pin "hello" 1x\r')
        t.wait("what follows the text is a time, such as 90s, 5m or 1h")
        check("a text in place of a file", True)
        t.send("/quit\r")
        check("it ends", t.wait_end() == 0)
    except Failure as e:
        check("pins in the chat", False, e)
    finally:
        t.close()


def main():
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), TINY], check=True)
    with open(PATH, "w", encoding="utf-8") as f:
        f.write(DOCUMENT)
    s = Server("--record", RECORD, "--pages", "40", "--pin-limit", "0.6")
    try:
        test_declared(s)
        test_texts(s)
        test_hostile(s)
        test_verb(s)
        test_expiry(s)
    finally:
        check("SIGTERM ends it", s.end() == 0, s.told())
    test_log()
    test_replay()
    s = Server("--pages", "40", "--pin-limit", "0.25")
    try:
        test_refused(s)
    finally:
        check("and the other", s.end() == 0, s.told())
    test_chat()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
