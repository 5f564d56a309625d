#!/usr/bin/env python3
"""A chat in a terminal for any server of OpenAI's interface, by the standard library alone: lines typed are turns, answers come
as they grow. `chat_client.py URL [NAME]`. For test_class.py; not a suite itself."""
import http.client
import json
import sys
import urllib.parse


def say(url, body):
    at = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(at.hostname, at.port, timeout=600)
    c.request("POST", at.path + "/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    if r.status != 200:
        raise SystemExit(r.read().decode())
    text = ""
    for line in r:
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                piece = choice["delta"].get("content", "")
                text += piece
                print("".join(c if c.isprintable() or c == "\n" else "?" for c in piece), end="", flush=True)
    c.close()
    return text


def main():
    turns, fields = [], {"user": sys.argv[2]} if len(sys.argv) > 2 else {}
    while True:
        try:
            turns.append({"role": "user", "content": input("> ")})
        except EOFError:
            return
        turns.append({"role": "assistant", "content": say(sys.argv[1], {"messages": turns, "stream": True, **fields})})
        print(flush=True)


if __name__ == "__main__":
    main()
