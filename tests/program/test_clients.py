#!/usr/bin/env python3
"""`cutaway serve` used by clients that nobody here wrote: the packages openai and anthropic, LangChain, the llm program, curl. TAP."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap

from tap import PROGRAM, ROOT, check, finish, skip

MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
BIN = os.path.join(ROOT, "build/clients/bin")
TMP = tempfile.TemporaryDirectory(prefix="cutaway-clients-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "LLM_USER_PATH")}}

OPENAI = """
    import json, sys, openai
    client = openai.OpenAI(base_url=sys.argv[1], api_key="secret")
    told = {}
    model = client.models.list().data[0].id
    told["model"] = [model, client.models.retrieve(model).id]
    messages = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name a colour. 月亮, привет, Größe"}]
    same = dict(model=model, messages=messages, max_tokens=16, seed=7, temperature=0.8)
    whole = client.chat.completions.create(**same, n=2, logprobs=True, top_logprobs=3, stop=["\\n\\n"])
    told["texts"] = [c.message.content for c in whole.choices]
    told["top"] = [len(t.top_logprobs) for t in whole.choices[0].logprobs.content]
    told["fingerprint"] = whole.system_fingerprint
    pieces = list(client.chat.completions.create(**same, stream=True, stop=["\\n\\n"], stream_options={"include_usage": True}))
    told["streamed"] = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    told["usage"] = pieces[-1].usage.completion_tokens
    told["cached"] = pieces[-1].usage.prompt_tokens_details.cached_tokens
    told["text"] = client.completions.create(model=model, prompt="The sea was", max_tokens=6, logprobs=2).choices[0].text
    forced = client.chat.completions.create(**{**same, "max_tokens": 4}, logit_bias={"28": 100}, logprobs=True, top_logprobs=20).choices[0]
    told["forced"] = [forced.message.content, [len(t.top_logprobs) for t in forced.logprobs.content]]
    scored = client.completions.create(model=model, prompt="The sea was blue", max_tokens=0, echo=True, logprobs=1).choices[0]
    told["scored"] = [scored.text, scored.logprobs.token_logprobs]
    told["many"] = len(client.completions.create(model=model, prompt=["a", "b"], max_tokens=2).choices)
    tools = [{"type": "function", "function": {"name": "set_colour", "parameters": {"type": "object", "required": ["red", "on"],
              "properties": {"red": {"type": "integer", "minimum": 0, "maximum": 255}, "on": {"type": "boolean"}}, "additionalProperties": False}}}]
    asked = dict(model=model, messages=messages, max_tokens=120, seed=7, tools=tools, tool_choice="required", parallel_tool_calls=False)
    answer = client.chat.completions.create(**asked).choices[0]
    call = answer.message.tool_calls[0]
    told["call"] = [answer.finish_reason, answer.message.content, call.function.name, json.loads(call.function.arguments), call.type]
    with client.chat.completions.stream(**asked) as stream:
        final = stream.get_final_completion().choices[0]
    told["streamed call"] = [final.finish_reason, final.message.content or None, final.message.tool_calls[0].function.name,
                             json.loads(final.message.tool_calls[0].function.arguments), final.message.tool_calls[0].type]
    later = messages + [answer.message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]
    told["after the call"] = client.chat.completions.create(**{**asked, "messages": later, "tool_choice": "none", "max_tokens": 8}).choices[0].message.content
    for name, call in {"bad": dict(model=model, messages=[]), "long": dict(model=model, messages=[{"role": "user", "content": "a b c " * 9000}])}.items():
        try:
            client.chat.completions.create(**call)
        except openai.BadRequestError as e:
            told[name] = e.message
    try:
        openai.OpenAI(base_url=sys.argv[1], api_key="wrong").models.list()
    except openai.AuthenticationError as e:
        told["key"] = e.message
    with client.chat.completions.create(**{**same, "max_tokens": 400}, stream=True) as left:
        for _ in zip(left, range(3)):
            pass
    print(json.dumps(told))
"""

RESPONSES = """
    import json, sys, openai
    client = openai.OpenAI(base_url=sys.argv[1], api_key="secret")
    told = {}
    same = dict(model="here", input="Name a colour. 月亮", instructions="You are brief.", max_output_tokens=5, temperature=0)
    whole = client.responses.create(**same)
    told["whole"] = [whole.status, whole.output_text, whole.usage.output_tokens, whole.incomplete_details.reason]
    chat = client.chat.completions.create(model="here", temperature=0, max_tokens=5, messages=[
        {"role": "system", "content": same["instructions"]}, {"role": "user", "content": same["input"]}])
    told["chat"] = chat.choices[0].message.content
    with client.responses.stream(**same) as stream:
        events = list(stream)
    told["streamed"] = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    told["kinds"] = sorted({e.type for e in events})
    tool = {"type": "function", "name": "set_colour", "strict": True, "parameters": {"type": "object", "required": ["red"], "additionalProperties": False,
            "properties": {"red": {"type": "integer", "minimum": 0, "maximum": 255}}}}
    asked = dict(model="here", input=[{"role": "user", "content": [{"type": "input_text", "text": "Red!"}]}], tools=[tool], temperature=0,
                 tool_choice={"type": "function", "name": "set_colour"}, parallel_tool_calls=False, max_output_tokens=80)
    called = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        for event in stream:
            pass
        again = stream.get_final_response()
    told["calls"] = [[o.type, o.name, json.loads(o.arguments)] for r in (called, again) for o in r.output]
    later = asked["input"] + [o.model_dump() for o in called.output] + [
        {"type": "function_call_output", "call_id": called.output[0].call_id, "output": "done"}]
    told["later"] = client.responses.create(**{**asked, "input": later, "tool_choice": "none", "max_output_tokens": 6}).output_text
    bound = client.responses.create(model="here", input="A colour", temperature=0, text={"format": {"type": "json_schema", "name": "c", "schema": {
        "type": "object", "required": ["c"], "properties": {"c": {"enum": ["red", "blue"]}}, "additionalProperties": False}}})
    told["bound"] = json.loads(bound.output_text)["c"]
    for name, call in {"kept": dict(previous_response_id="resp_1"), "long": dict(max_output_tokens=-1), "tool": dict(tools=[{"type": "web_search"}])}.items():
        try:
            client.responses.create(**{**same, **call})
        except openai.BadRequestError as e:
            told[name] = e.message
    print(json.dumps(told))
"""

ANTHROPIC = """
    import json, sys, anthropic
    client = anthropic.Anthropic(base_url=sys.argv[1].removesuffix("/v1"), api_key="secret")
    told = {}
    same = dict(model="here", system="You are brief.", messages=[{"role": "user", "content": "Name a colour. 月亮"}], max_tokens=5, extra_body={"temperature": 0})
    whole = client.messages.create(**same)
    told["whole"] = [whole.content[0].text, whole.stop_reason, whole.usage.output_tokens]
    told["input"] = whole.usage.input_tokens + whole.usage.cache_read_input_tokens
    told["counted"] = client.messages.count_tokens(**{k: same[k] for k in ("model", "system", "messages")}).input_tokens
    with client.messages.stream(**same) as stream:
        told["streamed"] = "".join(stream.text_stream)
    word = whole.content[0].text.split()[1]
    stopped = client.messages.create(**{**same, "stop_sequences": [word]})
    told["stopped"] = [stopped.stop_reason, stopped.stop_sequence == word]
    tool = {"name": "set_colour", "description": "Sets it.", "input_schema": {"type": "object", "required": ["red"], "additionalProperties": False,
            "properties": {"red": {"type": "integer", "minimum": 0, "maximum": 255}}}}
    asked = {**same, "tools": [tool], "tool_choice": {"type": "tool", "name": "set_colour", "disable_parallel_tool_use": True}, "max_tokens": 80}
    called = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        again = stream.get_final_message()
    told["calls"] = [[m.stop_reason, b.type, b.name, b.input] for m in (called, again) for b in m.content]
    later = same["messages"] + [{"role": "assistant", "content": [b.model_dump() for b in called.content]}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": called.content[0].id, "content": [{"type": "text", "text": "done"}]}, {"type": "text", "text": "Thanks."}]}]
    told["later"] = client.messages.create(**{**asked, "messages": later, "tool_choice": {"type": "none"}, "max_tokens": 6}).content[0].text
    try:
        client.messages.create(**{**same, "stop_sequences": [""]})
    except anthropic.BadRequestError as e:
        told["bad"] = e.message
    try:
        anthropic.Anthropic(base_url=sys.argv[1].removesuffix("/v1"), api_key="wrong").messages.create(**same)
    except anthropic.AuthenticationError as e:
        told["key"] = e.message
    print(json.dumps(told))
"""

LANGCHAIN = """
    import json, sys
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel
    class River(BaseModel):
        name: str
    told = {}
    chat = ChatOpenAI(base_url=sys.argv[1], api_key="secret", model="here", max_tokens=12, seed=7, temperature=0.8, max_retries=0)
    one = chat.invoke([("system", "Be brief."), ("human", "Name a river.")])
    told["text"], told["usage"], told["end"] = one.content, one.usage_metadata["output_tokens"], one.response_metadata["finish_reason"]
    told["pieces"] = [c.content for c in chat.stream([("system", "Be brief."), ("human", "Name a river.")])]
    told["batch"] = [m.content for m in chat.batch(["Name a river.", "Name a tree.", "Name a river."])]
    longer = chat.model_copy(update={"max_tokens": 60})
    told["bound"] = longer.with_structured_output(River, method="json_schema").invoke("Name a river.").name
    told["called"] = longer.with_structured_output(River, method="function_calling").invoke("Name a river.").name
    bound = longer.bind_tools([River], tool_choice="any", parallel_tool_calls=False)
    told["calls"] = [[c["name"], c["args"]] for c in bound.invoke("Name a river.").tool_calls]
    pieces = list(bound.stream("Name a river."))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole = whole + piece
    told["streamed calls"] = [[c["name"], c["args"]] for c in whole.tool_calls]
    print(json.dumps(told))
"""


def run(*args, data=None):
    done = subprocess.run(args, capture_output=True, text=True, env=ENV, cwd=TMP.name, input=data, check=False, timeout=600)
    return done.returncode, done.stdout, done.stderr


def test_openai(url):
    status, out, err = run(os.path.join(BIN, "python"), "-c", textwrap.dedent(OPENAI), url)
    check("openai: every call came back", status == 0, err)
    told = json.loads(out) if status == 0 else {}
    check("openai: the model by its name", len(set(told["model"])) == 1, told["model"])
    check("openai: n, log-probabilities, fingerprint", len(told["texts"]) == 2 and set(told["top"]) == {3} and
          told["fingerprint"].startswith("cutaway-"), told)
    check("openai: the stream is the first answer, with its usage", told["streamed"] == told["texts"][0] and told["usage"] > 0 and
          told["cached"] > 0, told)
    check("openai: texts", told["text"] and told["many"] == 2, told)
    check("openai: logit_bias, and twenty candidates", told["forced"] == [",,,,", [20] * 4], told["forced"])
    check("openai: a prompt scored by echo", told["scored"][0] == "The sea was blue" and told["scored"][1][0] is None and
          all(p < 0 for p in told["scored"][1][1:]) and len(told["scored"][1]) > 3, told["scored"])
    check("openai: a call of a tool, whole and streamed alike", told["call"] == told["streamed call"] and told["call"][:3] ==
          ["tool_calls", None, "set_colour"] and 0 <= told["call"][3]["red"] <= 255 and isinstance(told["call"][3]["on"], bool), told)
    check("openai: the conversation goes on after it", told["after the call"], told)
    check("openai: errors are of its kinds, in words", "messages" in told["bad"] and "8192" in told["long"] and "key" in told["key"], told)


def test_responses(url):
    status, out, err = run(os.path.join(BIN, "python"), "-c", textwrap.dedent(RESPONSES), url)
    check("openai's responses: every call came back", status == 0, err)
    told = json.loads(out) if status == 0 else {}
    check("openai's responses: the text is the chat's, whole and streamed", told["whole"][1] == told["streamed"] == told["chat"] and
          told["whole"][0] == "incomplete" and told["whole"][2] == 5 and told["whole"][3] == "max_output_tokens", told)
    check("openai's responses: the events of a text", {"response.created", "response.output_item.added", "response.content_part.added",
          "response.output_text.delta", "response.output_text.done", "response.output_item.done", "response.incomplete"} <= set(told["kinds"]), told)
    check("openai's responses: a call, whole and streamed alike", told["calls"][0] == told["calls"][1] and
          told["calls"][0][:2] == ["function_call", "set_colour"] and 0 <= told["calls"][0][2]["red"] <= 255, told)
    check("openai's responses: the conversation goes on after it", told["later"], told)
    check("openai's responses: a text bound by a schema", told["bound"] in ("red", "blue"), told)
    check("openai's responses: what is not served, and whose field is wrong", "not kept" in told["kept"] and
          "max_output_tokens" in told["long"] and "tools" in told["tool"], told)


def test_anthropic(url):
    status, out, err = run(os.path.join(BIN, "python"), "-c", textwrap.dedent(ANTHROPIC), url)
    check("anthropic: every call came back", status == 0, err)
    told = json.loads(out) if status == 0 else {}
    check("anthropic: a text, whole and streamed alike", told["whole"][0] == told["streamed"] and told["whole"][1:] == ["max_tokens", 5], told)
    check("anthropic: tokens counted before are those of the answer's input", told["input"] == told["counted"] > 10, told)
    check("anthropic: the stop sequence that came is told", told["stopped"] == ["stop_sequence", True], told)
    check("anthropic: a call, whole and streamed alike", told["calls"][0] == told["calls"][1] and
          told["calls"][0][:3] == ["tool_use", "tool_use", "set_colour"] and 0 <= told["calls"][0][3]["red"] <= 255, told)
    check("anthropic: the conversation goes on after it", told["later"], told)
    check("anthropic: errors in words, by the field's name there, and the key", "stop_sequences" in told["bad"] and "key" in told["key"], told)


def test_langchain(url):
    status, out, err = run(os.path.join(BIN, "python"), "-c", textwrap.dedent(LANGCHAIN), url)
    check("langchain: every call came back", status == 0, err)
    told = json.loads(out) if status == 0 else {}
    check("langchain: an answer, and its stream", told["text"] and "".join(told["pieces"]) == told["text"] and len(told["pieces"]) > 3 and
          0 < told["usage"] <= 12 and told["end"] in ("stop", "length"), told)
    check("langchain: a batch", told["batch"][0] == told["batch"][2] != told["batch"][1], told)
    check("langchain: structured output by a schema", isinstance(told["bound"], str) and told["bound"], told["bound"])
    check("langchain: structured output by a tool", isinstance(told["called"], str) and told["called"], told["called"])
    check("langchain: calls of tools, whole and streamed alike", told["calls"] == told["streamed calls"] and
          told["calls"][0][0] == "River" and isinstance(told["calls"][0][1]["name"], str), told)


def test_llm(url):
    with open(os.path.join(TMP.name, "extra-openai-models.yaml"), "w", encoding="ascii") as f:
        f.write(f"- model_id: here\n  model_name: here\n  api_base: {url}\n  api_key_name: here\n")
    run(os.path.join(BIN, "llm"), "keys", "set", "here", "--value", "secret")
    args = [os.path.join(BIN, "llm"), "-m", "here", "-o", "max_tokens", "12", "-o", "seed", "3", "Name a river."]
    flat, piece = run(*args, "--no-stream"), run(*args)
    check("llm: an answer, whole and streamed alike", flat[0] == 0 and flat[1].strip() and flat[1] == piece[1], (flat, piece))
    more = run(os.path.join(BIN, "llm"), "-c", "-o", "max_tokens", "12", "And another?")
    check("llm: the conversation goes on", more[0] == 0 and more[1].strip(), more)


def test_curl(url):
    body = '{"messages": [{"role": "user", "content": "Name a tree."}], "max_tokens": 8, "seed": 1'
    key = ("-H", "Authorization: Bearer secret")
    whole = run("curl", "-sS", *key, url + "/chat/completions", "-d", body + "}")
    stream = run("curl", "-sSN", *key, url + "/chat/completions", "-d", "@-", data=body + ', "stream": true}')
    check("curl: whole, and as a stream", '"finish_reason":' in whole[1] and stream[1].rstrip().endswith("data: [DONE]"), (whole, stream))
    chunked = run("curl", "-sS", *key, "-H", "Transfer-Encoding: chunked", url + "/chat/completions", "-d", body + "}")
    check("curl: a body in chunks", '"finish_reason":' in chunked[1], chunked)
    head = run("curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", *key, "-X", "DELETE", url + "/models")
    check("curl: another method is 405", head[1] == "405", head)


def main():
    if not os.path.exists(MODEL):
        skip("clients", "the model is not here: make model")
        return finish()
    made = subprocess.run([os.path.join(ROOT, "tools/clients.sh")], capture_output=True, text=True, check=False)
    server = subprocess.Popen([PROGRAM, "serve", "--port", "0", "--model", MODEL], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**ENV, "CUTAWAY_API_KEY": "secret"})
    url = server.stdout.readline().decode().split()[1]
    try:
        test_curl(url)
        if made.returncode:
            skip("openai, anthropic, langchain and llm", "they cannot be installed here: " + made.stderr.strip().splitlines()[-1][:200])
        else:
            test_openai(url)
            test_responses(url)
            test_anthropic(url)
            test_langchain(url)
            test_llm(url)
    finally:
        server.send_signal(signal.SIGTERM)
        told = server.communicate()[1].decode()
        check("the server ends by itself", server.returncode == 0, told)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
