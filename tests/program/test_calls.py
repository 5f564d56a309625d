#!/usr/bin/env python3
"""Calls and thoughts in the marks of each model family, against jinja2: of the templates that llama.cpp ships for its tests,
each whose format is in the table renders a conversation with calls; what it makes of the answer our grammar takes, and our
reader reads back. TAP."""
import atexit
import functools
import glob
import json
import os
import subprocess
import tempfile
import urllib.request

from tap import PROGRAM, ROOT, check, finish, skip
from test_jinja import NOW, PYTHON, READ, REFERENCE, TEMPLATES, install, post, through

ENDS = ["", "<|im_end|>", "</s>", "<|eot_id|>", "<｜end▁of▁sentence｜>", "<turn|>", "<|eom_id|>", "<eos>", "<|tool_response>",
        "<|end_of_text|>", "<|endoftext|>", "<sep>", "<|end|>\n</s>"]
FORMATS = {"gemma", "deepseek", "deepseek-v3.1", "mistral-v11", "mistral-v13", "mistral-tekken", "llama", "qwen-coder", "hermes"}
WEATHER = {"name": "weather", "description": "The weather of a place.", "parameters": {
    "type": "object", "required": ["place"], "additionalProperties": False, "properties": {
        "place": {"type": "string", "description": "Where"}, "days": {"type": "integer"},
        "sure": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "string"}},
        "unit": {"type": "string", "enum": ["C", "F"]}}}}
CLOCK = {"name": "get_time", "description": "The time.", "parameters": {"type": "object", "properties": {}}}
CALLS = {
    "one": [("weather", {"place": "Köln \"am\" Rhein\n<b> \\ {", "days": 2, "sure": True, "list": ["a", "ß"], "unit": "C"})],
    "without arguments": [("get_time", {})],
    "two": [("weather", {"place": "Oslo"}), ("get_time", {})],
}

def message(calls, text):
    return {"role": "assistant", "content": text, "tool_calls": [
        {"id": f"call0000{i}", "type": "function", "function": {"name": name, "arguments": args}} for i, (name, args) in enumerate(calls)]}

@functools.lru_cache(maxsize=1)
def jinja2_at_work():
    """One process for all questions: a start takes as long as a hundred answers."""
    child = subprocess.Popen([PYTHON, "-c", REFERENCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    atexit.register(child.communicate)
    return child

def by_jinja2(question):
    child = jinja2_at_work()
    child.stdin.write(json.dumps(question, ensure_ascii=False) + "\n")
    child.stdin.flush()
    return json.loads(child.stdout.readline())

def rendered(template, messages, prompt, **more):
    """By jinja2, in the first form that the template takes: arguments as objects or texts, content null or empty."""
    for empty, text in ((False, False), (False, True), (True, False), (True, True)):
        m = json.loads(json.dumps(messages))
        for one in m:
            for call in one.get("tool_calls", []):
                if text:
                    call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
            if one.get("tool_calls") and one["content"] is None and empty:
                one["content"] = ""
        tools = [{"type": "function", "function": f} for f in (WEATHER, CLOCK)]
        given = {"bos_token": "", "eos_token": "</s>", "messages": m, "tools": tools, "add_generation_prompt": prompt, **more}
        got = by_jinja2({"template": template, "vars": given, "now": NOW})
        if "text" in got:
            return got["text"]
    return None

def turn_of(template, calls, text=None):
    """What the template makes of an answer with these calls, behind the prompt that it answers; None: it refuses it."""
    user = [{"role": "user", "content": "Weather?"}]
    prompt, whole = rendered(template, user, True), rendered(template, [*user, message(calls, text)], False)
    if prompt is None or whole is None:
        return None
    at = len(os.path.commonprefix([prompt, whole]))
    if at < len(prompt):  # it opens a thought that the whole has not: from the mark on that they part in
        mark = prompt.rfind("<", 0, at)
        at = mark if mark >= 0 and ">" not in prompt[mark:at] else at
    return whole[at:]

def value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text

def read(template, raw, **more):
    return through([READ], [{"template": template, "raw": raw, "tools": [WEATHER, CLOCK], **more}])[0]

def of_template(path, seen):
    with open(path, encoding="utf-8", newline="") as f:
        template = f.read()
    form = read(template, "")["format"]
    if not form:
        return
    template = read(template, "")["tells"] + template
    wrong, told = [], 0
    for about, calls in CALLS.items():
        raw = turn_of(template, calls)
        # DeepSeek's own template leaves out the mark that ends the calls where there is only one
        if raw is not None and form == "deepseek" and len(calls) == 1 and "<｜tool▁calls▁end｜>" not in raw:
            raw = raw.replace("<｜end▁of▁sentence｜>", "") + "<｜tool▁calls▁end｜>"
        if raw is None:
            continue
        told += 1
        got = read(template, raw.lstrip("\n"))
        begun = read(template, raw.lstrip("\n"), begun=True) if got["thought"] else got
        got = got if got["taken"] >= begun["taken"] else begun
        left = raw.lstrip("\n").encode()[max(0, got["taken"]):].decode()
        back = [(c["name"], value(c["arguments"])) for c in got["parts"]["calls"]] if not got.get("error") else got["error"]
        if got["taken"] <= 0 or left.strip() not in ENDS:
            wrong.append(f"{about}: of {raw!r} the grammar takes all but {left!r}\n{got.get('grammar')}")
        if back != calls or got["differ"]:
            wrong.append(f"{about}: {raw!r} is read as {got['parts']}")
    if not told:
        return
    seen.add(form)
    check(f"{form}: {os.path.basename(path)}: calls as jinja2 renders them are taken and read back, {told} of {len(CALLS)}",
          not wrong, "\n".join(wrong))

SWITCH = {"name": "switch", "parameters": {"type": "object", "required": ["lamp", "level"], "additionalProperties": False, "properties": {
    "lamp": {"type": "string", "enum": ["hall", "attic"]}, "level": {"type": "integer", "minimum": 0, "maximum": 9},
    "slow": {"type": "boolean"}}}}
SERVED = {"hermes": "Qwen-Qwen3-0.6B", "llama": "meta-llama-Llama-3.1-8B-Instruct", "mistral-v11": "Mistral-Small-3.2-24B-Instruct-2506",
          "mistral-tekken": "mistralai-Mistral-Nemo-Instruct-2407", "qwen-coder": "Qwen3-Coder", "deepseek-v3.1": "deepseek-ai-DeepSeek-V3.1",
          "gemma": "google-gemma-4-31B-it", "deepseek": "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"}

# Turns by hand: the template's words, the turn, whether the prompt ends within a thought; thoughts, text and calls in it.
THINKS, HERMES = "</think>{{tools}}", "{{tools}}<tool_call></tool_call>arguments"
BY_HAND = {
    "functiongemma": ("{{tools}}<start_function_call>", "<start_function_call>call:weather{place:<escape>a \"b\"\n<escape>}<end_function_call>", False,
                      "", "", [("weather", {"place": "a \"b\"\n"})]),
    "mistral": ("{{tools}}[TOOL_CALLS] [", '[TOOL_CALLS] [{"name": "get_time", "arguments": {}, "id": "abcdefghi"}]', False, "", "", [("get_time", {})]),
    "a thought, then text": (THINKS, "<think>\nTwo and\n two.\n\n</think>\n\n4 </think>", False, "Two and\n two.", "4 </think>", []),
    "a thought that was begun": (THINKS, "hm</thin </think>x", True, "hm</thin", "x", []),
    "a thought that breaks off": (THINKS, "<think>hm </thin", False, "hm </thin", "", []),
    "no thought": (THINKS, " <thing> is <think>", False, "", " <thing> is <think>", []),
    "Gemma's channel": ("<channel|>", "<|channel>thought\nhm\n<channel|>x", False, "hm", "x", []),
    "Gemma's channel, which says its own head": ("<channel|>", "<|channel>thought\n\nthought\nhm<channel|>x", False, "thought\nhm", "x", []),
    "a thought, text and a call": (HERMES + THINKS, '<think>a</think>\n\nb \n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>',
                                   False, "a", "b", [("get_time", {})]),
    "text that looks like a call": (HERMES, "a <tool_cal l>", False, "", "a <tool_cal l>", []),
    "a call that breaks off": (HERMES, '<tool_call>\n{"name": "weather", "arguments": {"place": "Os', False, "", "", [("weather", '{"place": "Os')]),
    "a name that breaks off": (HERMES, '<tool_call>\n{"name": "weath', False, "", "", []),
    "Llama's text": ("{{tools}}\"parameters\": ipython", " a {\"name\": ", False, "", " a {\"name\": ", []),
}

def by_hand():
    for about, (template, raw, begun, thoughts, text, calls) in BY_HAND.items():
        got = read(template, raw, begun=begun)
        back = got["parts"]["thoughts"], got["parts"]["text"], [(c["name"], value(c["arguments"])) for c in got["parts"]["calls"]]
        check(f"{about}: read, at once and byte by byte", back == (thoughts, text, calls) and not got["differ"], f"{back}\n{got}")

def of_wide():
    """Formats whose rules are written property by property."""
    names = [f"a{i}" for i in range(2000)]
    wide = {"name": "f", "parameters": {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": names}}
    told = [read(template, "", tools=[wide])["error"] for template in ("<tool_call><function=<parameter=", "<|tool_call>call:")]
    check("objects of very many properties are refused", all("so many properties" in t for t in told), told)

def accumulated(pieces):
    """A stream's message, as the openai package makes it."""
    text, thought, calls, end = "", "", [], None
    for piece in pieces:
        for choice in piece["choices"]:
            delta, end = choice["delta"], choice["finish_reason"] or end
            text, thought = text + (delta.get("content") or ""), thought + delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "type": call["type"], "function": {"name": call["function"]["name"], "arguments": ""}})
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return text, thought, [(c["function"]["name"], c["function"]["arguments"]) for c in calls], end, [c["id"] for c in calls]

def of_whole(got):
    c = got["choices"][0]
    calls = c["message"].get("tool_calls", [])
    return (c["message"]["content"] or "", c["message"].get("reasoning_content", ""),
            [(x["function"]["name"], x["function"]["arguments"]) for x in calls], c["finish_reason"], [x["id"] for x in calls])

def is_valid(name, text):
    args = value(text)
    return name == "switch" and isinstance(args, dict) and set(args) <= {"lamp", "level", "slow"} and args.get("lamp") in ("hall", "attic") \
        and type(args.get("level")) is int and 0 <= args["level"] <= 9 and isinstance(args.get("slow", True), bool)

def of_server(form, name):
    tools = [{"type": "function", "function": f} for f in (SWITCH, CLOCK)]
    ask = {"messages": [{"role": "user", "content": "Light!"}], "tools": tools, "seed": 3, "max_tokens": 400, "temperature": 1,
           "thinking_token_budget": 12, "tool_choice": {"type": "function", "function": {"name": "switch"}}}
    if "think" not in open(os.path.join(TEMPLATES, name + ".jinja"), encoding="utf-8").read() and form != "gemma":
        del ask["thinking_token_budget"]
    with Server(os.path.join(TEMPLATES, name + ".jinja")) as s:
        whole = of_whole(s.post(ask))
        status, text = s.stream({**ask, "stream": True})
        streamed = accumulated(text)
        check(f"{form}: a call that is asked for, whole and streamed alike", status == 200 and whole[:4] == streamed[:4] and whole[3] in ("tool_calls", "length") and
              whole[2] and all(is_valid(*c) for c in whole[2]), f"{whole}\n{streamed}")
        check(f"{form}: ids of nine letters and digits, no two alike", all(len(i) == 9 and i.isalnum() for i in whole[4]) and
              len(set(whole[4] + streamed[4])) == len(whole[4]) + len(streamed[4]), whole)
        one = of_whole(s.post({**ask, "parallel_tool_calls": False}))
        check(f"{form}: one call where one is allowed", len(one[2]) == 1 and one[3] == "tool_calls" and
              is_valid(*one[2][0]), one)
        later = ask["messages"] + [{"role": "assistant", "content": None, "tool_calls": [{"id": one[4][0], "type": "function", "function": {
            "name": one[2][0][0], "arguments": one[2][0][1]}}]}, {"role": "tool", "tool_call_id": one[4][0], "content": "on"}]
        free = s.post({**ask, "messages": later, "tool_choice": "auto", "max_tokens": 20})
        check(f"{form}: the conversation goes on after it", free["choices"][0]["finish_reason"] in ("length", "stop", "tool_calls"), free)
        if "thinking_token_budget" in ask:
            used = s.post({**ask, "max_tokens": 40})["usage"]["completion_tokens_details"]["reasoning_tokens"]
            check(f"{form}: a thought keeps to its budget", used <= 12 + 4, used)
        forms = [s.post({**ask, "temperature": 0, "n": n})["choices"][0]["hash"] for n in (1, 3)]
        check(f"{form}: the same bits alone and among others", forms[0] == forms[1], forms)

def of_faults():
    """What strangers found: tools whose names and keys are parts of control tokens, and what else bound or broke an answer."""
    qwen, llama, thinks = (os.path.join(TEMPLATES, n + ".jinja") for n in ("Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct", "Qwen-Qwen3-0.6B"))
    hi = [{"role": "user", "content": "Hi"}]

    def controls(s, body):
        return sum(i < 3 for i in s.ask("/tokenize", body)["tokens"])

    with Server(qwen) as s:
        for about, key in (("an infix", "|im_end|"), ("a whole name", "<|im_end|>"), ("a beginning", "<|im_"), ("an end", "im_end|>")):
            tools = [{"type": "function", "function": {"name": "f", "description": key, "parameters": {"type": "object", "properties": {
                "a": {"type": "string", key: key, "description": key}}}}}]
            plain = json.loads(json.dumps(tools).replace(key, "x" * len(key)))
            check(f"a tool's words that are {about} of a control token's are text", controls(s, {"messages": hi, "tools": tools}) ==
                  controls(s, {"messages": hi, "tools": plain}), about)
        many = {"type": "object", "$defs": {"d": {"description": "x" * 200000}}, "properties": {f"p{i}": {} for i in range(1500)}}
        got = s.post({"messages": hi, "max_tokens": 1, "tools": [{"type": "function", "function": {"name": "f", "parameters": many}}]})
        check("definitions are copied only where they are referred to", got["choices"][0]["finish_reason"] in ("length", "stop", 400), str(got)[:300])
    with Server(llama) as s:
        bound = {"type": "json_schema", "json_schema": {"schema": {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}},
                                                                   "additionalProperties": False}}}
        got = of_whole(s.post({"messages": hi, "tools": [{"type": "function", "function": CLOCK}], "response_format": bound, "max_tokens": 60}))
        check("an answer that is bound otherwise has no calls taken out of it", list(value(got[0])) == ["ok"] and not got[2], got)
    with Server(thinks) as s:
        got = of_whole(s.post({"messages": hi, "enable_thinking": False, "guided_choice": ["a <tool_call> b"], "max_tokens": 60}))
        check("where no thought is asked for the text is bound from its beginning", got[0] == "a <tool_call> b" and not got[1], got)
        tool = [{"type": "function", "function": SWITCH}]
        ask = {"messages": hi, "tools": tool, "tool_choice": "required", "enable_thinking": False, "stop": ['"lamp'], "max_tokens": 80}
        got = of_whole(s.post(ask))
        check("a call that a stop string cut is no reason to call", got[3] == "stop" and len(got[2]) == 1, got)
        anthropic = {"messages": hi, "max_tokens": 80, "stop_sequences": ['"lamp'], "thinking": {"type": "disabled"},
                     "tools": [{"name": "switch", "input_schema": SWITCH["parameters"]}], "tool_choice": {"type": "any"},
                     "metadata": {"user_id": "user_" + "ä" * 100}}
        got = s.ask("/v1/messages", anthropic)
        check("nor for Messages, whose users have long names", got.get("stop_reason") == "stop_sequence" and got["stop_sequence"] == '"lamp', got)
        for about, path, body, words in (
                ("a field that is said twice", "/v1/responses", {"input": "a", "max_tokens": 2, "max_output_tokens": 7}, "max_output_tokens"),
                ("messages beside input", "/v1/responses", {"input": "a", "messages": hi}, "called input"),
                ("a choice that is no object", "/v1/messages", {**anthropic, "tool_choice": "any"}, "tool_choice"),
                ("an answer to go on from", "/v1/messages", {**anthropic, "messages": hi + [{"role": "assistant", "content": "I"}]}, "messages"),
                ("arguments with more behind them", "/v1/chat/completions", {"messages": hi + [{"role": "assistant", "tool_calls": [{"id": "a", "function": {
                    "name": "f", "arguments": "{} junk"}}]}]}, "messages: tool_calls")):
            got = s.ask(path, body)
            check(f"{about}: refused in words", words in got["error"]["message"], got)
        cut = s.ask("/v1/responses", {"input": "a", "tools": [{"type": "function", **SWITCH}], "tool_choice": "required", "max_output_tokens": 30,
                                      "reasoning": {"effort": "none"}})
        check("an item that was cut is incomplete", cut["status"] == "incomplete" and cut["output"][-1]["status"] == "incomplete", cut)
        role = {"messages": [{"role": "us<|im_end|>er", "content": "Hi"}]}
        plain = {"messages": [{"role": "us<xim_end|>er", "content": "Hi"}]}
        check("a role spells no control token", controls(s, role) == controls(s, plain), (role, plain))

class Server:
    def __init__(self, template):
        self.template = template

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="cutaway-calls-")
        model = os.path.join(self.tmp.name, "m.gguf")
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--ctx", "8192", "--template", self.template, model], check=True)
        self.process = subprocess.Popen([PROGRAM, "serve", "--headless", "--port", "0", "--model", model, "--threads", "2", "--date", "2026-01-01",
                                         "--ctx", "8192"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        env={**os.environ, "HOME": self.tmp.name})
        self.port = int(self.process.stdout.readline().split(":")[2].split("/")[0])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.tmp.cleanup()

    def ask(self, path, body):
        return post(self.port, path, body)[1]

    def post(self, body):
        status, got = post(self.port, "/v1/chat/completions", body)
        return got if status == 200 else {"choices": [{"message": {"content": str(got)}, "finish_reason": status, "hash": status}],
                                          "usage": {"completion_tokens_details": {"reasoning_tokens": 1e9}}}

    def stream(self, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=300) as answer:
            lines = [line[6:] for line in answer.read().decode().split("\n\n") if line.startswith("data: {")]
            return answer.status, [json.loads(line) for line in lines]

def main():
    why = install()
    if why:
        skip("calls are as jinja2 renders them", why)
        return finish()
    seen = set()
    for path in sorted(glob.glob(TEMPLATES + "/*.jinja")):
        of_template(path, seen)
    by_hand()
    of_wide()
    of_faults()
    for form, name in SERVED.items():
        of_server(form, name)
    check(f"templates of {len(FORMATS)} formats were rendered", seen == FORMATS, str(FORMATS ^ seen))
    return finish()

if __name__ == "__main__":
    main()
