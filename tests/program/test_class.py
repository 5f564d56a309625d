#!/usr/bin/env python3
"""A class: eight terminals chat with one server, which draws its own screen for a projector (200x50, in tmux). Who asks what is
seen there while it is asked. The clients share nothing with the program: curl, and chat_client.py, of the standard library alone; with
build/clients (tools/clients.sh) the llm program, too. Speaks TAP.

    tests/program/test_class.py [OUT.png]     the screen as a picture while all chat (tools/ansi2png.py)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from screens import Failure as ScreenFailure, Screen
from tap import PROGRAM, ROOT, check, finish, skip
from terminal import Failure, Terminal

NAMES = ("anna", "ben", "chloé", "dmitri", "eva", "farid")  # the others give no name
FIRST = ("Why is the sky blue?", "Name three rivers.", "What is a prime?", "A haiku on rain!", "Who was Ada?", "How do eggs boil?",
         "What is recursion?", "List the planets.")
SECOND = ("And red at sunset?", "The longest?", "Is 91 one?", "Now on snow!", "Born when?", "And soft ones?", "In C, please?", "The largest?")
MODEL = os.path.join(ROOT, "models/SmolLM2-135M-Instruct.Q4_1.gguf")
LLM = os.path.join(ROOT, "build/clients/bin/llm")
FOLDER = tempfile.mkdtemp(prefix="cutaway-class-")
ENV = {**os.environ, "HOME": FOLDER, "LLM_USER_PATH": FOLDER, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
READY = r"^> *$"


def chat(url, i):
    """The terminal of a pupil, ready for a question."""
    if i < len(NAMES) or not os.path.exists(LLM):
        command = [sys.executable, os.path.join(ROOT, "tests/program/chat_client.py"), url, *NAMES[i:i + 1]]
    else:
        command = [LLM, "chat", "-m", "here"]
    t = Terminal(command, ENV, 60, 40)
    t.wait(READY)
    return t


def ask(t, question):
    """Until the answer is whole: the client waits for the next question then."""
    t.grid.resize(t.grid.columns, t.grid.lines)  # what was there is gone
    t.send(question + "\r")
    t.wait(r"\S[^?!]*\n+> *$")


def curl(url, question):
    """One terminal has only curl."""
    t = Terminal(["curl", "-sN", url + "/chat/completions", "-d",
                  '{"messages": [{"role": "user", "content": "%s"}], "max_tokens": 40, "stream": true}' % question], ENV, 60, 40)
    t.wait(r"\[DONE\]")
    t.wait_end()
    t.close()


def pupils(url, questions, failed):
    def work(i):
        try:
            if i == 7:
                curl(url, questions[i])
            else:
                ask(terminals[i], questions[i])
        except Failure as e:
            failed.append(f"{i}: {e}")
    if not terminals:
        terminals.extend(chat(url, i) for i in range(7))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    return threads


terminals = []


def seen(screen, threads, questions):
    """Which questions, and which with their names, were on the screen at some time until the last answer and the frame after it."""
    found, pictures = set(), []
    for last in (False, True):
        while last or any(t.is_alive() for t in threads):
            text = screen.text()
            pictures.append(text)
            found |= {i for i, q in enumerate(questions) if re.search((re.escape(NAMES[i] + ": ") if i < len(NAMES) else r"\b[a-z]+ +") +
                                                                     re.escape(q), text)}
            if last:
                break
    return found, pictures


def picture(screen, path):
    drawn = subprocess.run(["tmux", "-L", screen.socket, "capture-pane", "-e", "-p", "-t", "t"], capture_output=True, check=True).stdout
    subprocess.run([sys.executable, os.path.join(ROOT, "tools/ansi2png.py"), path, "--cols", "200"], input=drawn, check=True)


def lesson(screen, out):
    screen.type(f"{PROGRAM} serve --port 0 --slots 8 --max-tokens 200 --model {MODEL}")
    screen.keys("Enter")
    where = re.search(r"http://127\.0\.0\.1:\d+/v1", screen.wait(r"cutaway +http://127\.0\.0\.1:\d+/v1"))[0]
    with open(os.path.join(FOLDER, "extra-openai-models.yaml"), "w", encoding="ascii") as f:
        f.write(f"- model_id: here\n  model_name: here\n  api_base: {where}\n")
    for nth, questions in enumerate((FIRST, SECOND)):
        failed = []
        threads = pupils(where, questions, failed)
        if out and nth:
            threads[0].join(1.5)
            picture(screen, out)
        found, pictures = seen(screen, threads, questions)
        check(f"round {nth + 1}: eight terminals have their answers", not failed, failed[:1])
        check(f"round {nth + 1}: who asks what is on the screen", len(found) == 8, (sorted(found), pictures[-1]))
        check(f"round {nth + 1}: and where, all the time", all(where in p.splitlines()[0] for p in pictures), pictures[-1])
    screen.type("/quit")
    screen.keys("Enter")
    screen.wait(r"^\$$")


def main():
    if not shutil.which("tmux") or not shutil.which("curl") or not os.path.exists(MODEL):
        skip("a class", "tmux, curl or the model is not here: make model")
        return finish()
    screen = Screen(FOLDER, 200, 50)
    try:
        lesson(screen, sys.argv[1] if len(sys.argv) > 1 else None)
    except (Failure, ScreenFailure) as e:
        check("the class goes on", False, e)
    finally:
        screen.close()
        for t in terminals:
            t.close()
        shutil.rmtree(FOLDER)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
