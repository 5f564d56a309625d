#!/usr/bin/env python3
"""The interpreter of chat templates against jinja2, set up as transformers has it: the templates that llama.cpp ships for
its tests, over conversations of many forms, byte for byte, refusals included. TAP."""
import glob
import itertools
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from tap import PROGRAM, ROOT, check, finish, sample, skip

RENDER = os.path.join(ROOT, "build/tests/jinja_render")
READ = os.path.join(ROOT, "build/tests/parts_read")
PYTHON = os.path.join(ROOT, "build/jinja2/bin/python3")
TEMPLATES = os.path.join(ROOT, "build/vendor/models/templates")
NOW = 1767225600 + 43200  # noon of the first of January 2026, UTC

SYSTEMS = {"no system": None, "system": "Be brief.", "empty system": "", "odd system": "  Größe — 月亮 \n\n"}
TURNS = {
    "one turn": [("user", "Hi")],
    "three turns": [("user", "Hi"), ("assistant", "Hello."), ("user", " Who? \n"), ("assistant", "Me."), ("user", "Why?")],
    "answered": [("user", "Hi"), ("assistant", "Hello.")],
    "unicode": [("user", "привет 🙂\t'\"<b>&"), ("assistant", "👩‍🔬 é\\n"), ("user", "\u2028x\u00a0")],
    "empty": [("user", ""), ("assistant", ""), ("user", "")],
    "thoughts": [("user", "2+2?"), ("assistant", "<think>\nTwo and two.\n</think>\n\n4"), ("user", "3+3?"),
                 ("assistant", "<think>six</think>6"), ("user", "So?")],
    "reasons": [("user", "2+2?"), ("assistant", "4", "Two and two."), ("user", "3+3?"), ("assistant", "6", "six"), ("user", "So?")],
    "two users": [("user", "a"), ("user", "b")],
    "assistant first": [("assistant", "a"), ("user", "b")],
    "system later": [("user", "a"), ("system", "b"), ("user", "c")],
    "other role": [("user", "a"), ("narrator", "b")],
    "nothing": [],
}
OPTIONS = {"": {}, "thinking": {"enable_thinking": True}, "no thinking": {"enable_thinking": False}}
TOOL = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a \"place\".", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "Where"}, "days": {"type": "integer", "enum": [1, 2], "default": 2**53 + 1},
            "units": {"type": ["string", "null"], "default": None},
            "more": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}}}}}}
TOOL_TURNS = [
    {"role": "user", "content": "Weather in Köln?"},
    {"role": "assistant", "content": "", "tool_calls": [{"id": "call_0001", "type": "function", "function": {
        "name": "weather", "arguments": {"place": "Köln", "days": 2, "half": 0.5, "whole": 20.0, "id": 2**60 + 1, "sure": True, "list": [1, "a"]}}}]},
    {"role": "tool", "tool_call_id": "call_0001", "name": "weather", "content": "{\"sky\": \"blue\"}"},
    {"role": "assistant", "content": "Blue."},
    {"role": "user", "content": "Thanks."},
]

REFERENCE = r"""
import datetime, functools, json, sys
import jinja2, jinja2.ext, jinja2.sandbox

class Generation(jinja2.ext.Extension):
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("pass_on"), [], [], body).set_lineno(line)
    def pass_on(self, caller):
        return caller()

class Refused(jinja2.exceptions.TemplateError):
    pass

def refuse(message):
    raise Refused(message)

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

@functools.lru_cache
def compiled(template, now):
    e = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    e.filters["tojson"] = tojson
    e.globals["raise_exception"] = refuse
    if now:
        e.globals["strftime_now"] = datetime.datetime.fromtimestamp(now, datetime.timezone.utc).strftime
    return e.from_string(template)

def render(ask):
    try:
        return {"text": compiled(ask["template"], ask.get("now")).render(**ask["vars"])}
    except Refused as why:
        return {"refused": str(why)}
    except Exception as why:
        return {"error": f"{type(why).__name__}: {why}"}

for line in sys.stdin:
    print(json.dumps(render(json.loads(line))), flush=True)
"""


def asked():
    """(template's name, what about, what to ask) of everything that is compared."""
    for path in sorted(glob.glob(TEMPLATES + "/*.jinja")):
        name = os.path.basename(path)
        with open(path, encoding="utf-8", newline="") as f:
            text = f.read()
        base = {"bos_token": "<s>", "eos_token": "</s>"}
        for (about, turns), (of, system), prompt, (how, options) in itertools.product(
                TURNS.items(), SYSTEMS.items(), (True, False), OPTIONS.items()):
            messages = [{"role": "system", "content": system}] if system is not None else []
            messages += [dict(zip(("role", "content", "reasoning_content"), turn)) for turn in turns]
            given = {**base, "messages": messages, "add_generation_prompt": prompt, **options}
            yield name, f"{about}, {of}, prompt {prompt} {how}", {"template": text, "vars": given, "now": NOW}
        given = {**base, "messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
        yield name, "no date", {"template": text, "vars": given}
        parts = [{"type": "text", "text": "Hi "}, {"type": "text", "text": "you"}]
        given = {**base, "messages": [{"role": "user", "content": parts}], "add_generation_prompt": True}
        yield name, "text in parts", {"template": text, "vars": given, "now": NOW}
        for k in range(1, len(TOOL_TURNS) + 1):
            given = {**base, "messages": TOOL_TURNS[:k], "tools": [TOOL], "add_generation_prompt": True}
            yield name, f"tools, {k} messages", {"template": text, "vars": given, "now": NOW}


def through(command, asks):
    lines = "".join(json.dumps(ask, ensure_ascii=False) + "\n" for ask in asks)
    out = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True).stdout
    return [json.loads(line) for line in out.split("\n") if line]


def same(theirs, ours):
    if "refused" in theirs:
        return ours.get("error", "").startswith("the template refuses: " + theirs["refused"][:300])
    if "error" in theirs:
        return "error" in ours
    return theirs.get("text") == ours.get("text")


def first_difference(about, theirs, ours):
    if "text" in theirs and "text" in ours:
        a, b = theirs["text"], ours["text"]
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return f"{about}: at {at} {a[max(0, at - 20):at + 20]!r} of jinja2, {b[max(0, at - 20):at + 20]!r} here"
    return f"{about}: jinja2 {str(theirs)[:150]}, here {str(ours)[:200]}"


def install():
    """jinja2 at the version that transformers asks for, and the templates. Why not, or nothing."""
    for command in ([os.path.join(ROOT, "tools/vendor_models.sh")], [os.path.join(ROOT, "tools/jinja2.sh")]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            return f"{os.path.basename(command[0])}: {(done.stdout.strip() or 'failed').splitlines()[-1]}"
    return ""


def goldens():
    """tests/data/jinja.jsonl, which the unit test goes by, is what jinja2 renders."""
    with open(os.path.join(ROOT, "tests/data/jinja.jsonl"), encoding="utf-8") as f:
        first, *lines = [json.loads(line) for line in f]
    theirs = through([PYTHON, "-c", REFERENCE], [{"template": line["template"], **first} for line in lines])
    wrong = [line["template"] for line, t in zip(lines, theirs)
             if any(line.get(k) != t.get(k) for k in ("text", "refused")) or ("error" in line) != ("error" in t)]
    check(f"{len(lines)} small templates of the unit test are as jinja2 renders them", not wrong, "\n".join(wrong))


TALKS = {
    "a question": [("user", "Hi")],
    "a system's and a second question": [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello."), ("user", "Who?")],
    "thoughts": [("user", "2+2?"), ("assistant", "<think>\nTwo and two.\n</think>\n\n4"), ("user", "So?")],
    "turns that do not alternate": [("user", "a"), ("user", "b"), ("assistant", "c"), ("assistant", "d"), ("system", "e"), ("user", "f")],
}


def as_template_takes(asks):
    """What jinja2 renders of each (template, messages, variables): of an answer with calls in the first form that the template takes,
    arguments as objects or texts and content null or empty; and `tools`, where there are none, none or undefined."""
    every = []
    for template, messages, given in asks:
        for undefined, empty, text in itertools.product((False, True), repeat=3):
            m = json.loads(json.dumps(messages))
            for one in m:
                for call in one.get("tool_calls", []):
                    if text:
                        call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False, separators=(",", ":"))
                if one.get("tool_calls") and not one["content"]:
                    one["content"] = "" if empty else None
            more = {k: v for k, v in given.items() if v is not None or not undefined}
            every.append({"template": template, "now": NOW, "vars": {**more, "messages": m}})
    got = through([PYTHON, "-c", REFERENCE], every)
    return [next((t for t in got[i:i + 8] if "text" in t), got[i]) for i in range(0, len(got), 8)]


def post(port, path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as why:
        return why.code, json.load(why)


def served(path, talks):
    """What a server makes of requests by the template of that file: (status, text or error) of each, and what it says of it."""
    with tempfile.TemporaryDirectory(prefix="cutaway-jinja-") as tmp:
        model = os.path.join(tmp, "m.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--template", path, model], check=True)
        with subprocess.Popen([PROGRAM, "serve", "--headless", "--port", "0", "--model", model, "--threads", "1", "--date", "2026-01-01"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "HOME": tmp}) as server:
            line = server.stdout.readline()
            port = int(line.split(":")[2].split("/")[0])
            told = []
            for talk in talks:
                status, got = post(port, "/tokenize", talk)
                if status == 200:
                    got = post(port, "/detokenize", {"tokens": got["tokens"]})[1]["prompt"]
                told.append((status, got))
            server.terminate()
            return told, server.stderr.read()


def through_serve():
    """Conversations that clients send: the prompt is the text that jinja2 renders of them; what the template refuses is refused."""
    talks = {about: {"messages": [dict(zip(("role", "content"), turn)) for turn in turns]} for about, turns in TALKS.items()}
    for k in (1, 2, 3, 5):
        talks[f"tools, {k} messages"] = {"messages": TOOL_TURNS[:k], "tools": [TOOL]}
    talks["not thinking"] = {"messages": [{"role": "user", "content": "Hi"}], "chat_template_kwargs": {"enable_thinking": False}}
    for path in sorted(glob.glob(TEMPLATES + "/*.jinja")):
        with open(path, encoding="utf-8", newline="") as f:
            text = f.read()
        given = {"add_generation_prompt": True, "bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "tools": None}
        form = through([READ], [{"template": text, "raw": ""}])[0]
        theirs = as_template_takes([((form["tells"] if "tool_calls" in t or "tools" in t else "") + text, t["messages"], {
            **given, "tools": t.get("tools"), **t.get("chat_template_kwargs", {})}) for t in talks.values()])
        ours, log = served(path, talks.values())
        if not form["format"]:  # tools are refused
            theirs = [{"refused": ""} if "tools" in talk else t for talk, t in zip(talks.values(), theirs)]
        wrong = [f"{about}: {t} {o}" for about, t, o in zip(talks, theirs, ours)
                 if (o != (200, t["text"]) if "text" in t else o[0] != 400)]
        if not any("text" in t for t in theirs):  # it wants what no conversation has: another is taken, and that is said
            wrong = [] if "not followed" in log else ["it does not say so"]
        check(f"serve: {os.path.basename(path)}: {sum('text' in t for t in theirs)} of {len(theirs)} conversations are rendered",
              not wrong, "\n".join(wrong) + log)


def main():
    why = install()
    if why:
        skip("chat templates render as jinja2 renders them", why)
        return finish()
    goldens()
    through_serve()
    every = list(asked())
    every = sample(every, len(every) * 3 // 7)  # a half would be three of the six pairs of prompt and options
    theirs = through([PYTHON, "-c", REFERENCE], [ask for _, _, ask in every])
    ours = through([RENDER], [ask for _, _, ask in every])
    check(f"an answer to each of {len(every)} questions", len(theirs) == len(ours) == len(every))
    for name, group in itertools.groupby(range(len(every)), key=lambda i: every[i][0]):
        ids = list(group)
        wrong = [i for i in ids if not same(theirs[i], ours[i])]
        texts = sum("text" in theirs[i] for i in ids)
        check(f"{name}: {texts} texts and {len(ids) - texts} refusals are jinja2's", not wrong,
              "\n".join(first_difference(every[i][1], theirs[i], ours[i]) for i in wrong))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
