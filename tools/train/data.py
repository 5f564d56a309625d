#!/usr/bin/env python3
"""Text for training drafters, all of it written by the target itself through our own batched engine.

    data.py OUT [--rounds N] [--cutaway PROGRAM]

1. turns: what a user would say, sampled after the chat template's "user" opening with nothing to answer
   yet (Magpie, Xu et al. 2024, section 2.1), or after a few opening words, so that code is among it,
   and as many questions of people, made of forms (questions.py);
2. answers to them, two thirds greedy, one third at temperature 0.7;
3. edits: answers and code of step 2 put into a dozen requests (correct this, shorten this, rename that),
   and the answers to those.

A round makes about 400 thousand tokens of answers; rounds differ in their seeds and questions. Each step is cut into
shards, each shard is one `cutaway run --batch`, and a shard that is there is not made again: stop it at any time. Draws
are keyed by seed, position and line, so the same text comes on any machine.
A line of OUT/*.jsonl: {"kind", "temp", "prompt": ids, "ids": ids of the answer, "finish", "text"}. Only the
standard library is needed."""
import argparse
import json
import os
import random
import subprocess
import sys

from questions import questions

SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
USER = SYSTEM + "<|im_start|>user\n"
CHAT_OPENINGS = ["", "", "", "", "", "", "What", "How", "Why", "Explain", "Write a", "Tell me", "Give me", "List",
                 "Can you", "I"]
CODE_OPENINGS = ["Write a Python function", "Write a function", "Write a C program", "Implement", "Write code",
                 "Write a Python class", "Write a JavaScript function", "Write an SQL query", "Fix this code:\n"]
EDITS = [
    "Correct the spelling and grammar of this text:\n\n{}",
    "Rewrite the following text in the past tense:\n\n{}",
    "Summarize the following text in two sentences:\n\n{}",
    "Make this text shorter, and keep its wording where you can:\n\n{}",
    "Repeat this text exactly:\n\n{}",
    "Turn the following text into a bulleted list:\n\n{}",
    "Rewrite this text for a child:\n\n{}",
    "Rewrite this in a more formal tone:\n\n{}",
    "{}\n\nWhat are the main points of the text above?",
    "Add a closing sentence to this text and write it out in full:\n\n{}",
]
CODE_EDITS = [
    "Add comments to this code:\n\n{}",
    "Rename the variables in this code so that they say what they hold:\n\n{}",
    "Add type hints to this code and write it out in full:\n\n{}",
    "Explain what this code does:\n\n{}",
    "Find the bug in this code, if there is one, and write it out corrected:\n\n{}",
]
SHARD = 256
ASKED = 1024  # questions of people a round


def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\0", "")


class Maker:
    def __init__(self, args, out):
        self.args, self.out = args, out
        os.makedirs(out, exist_ok=True)

    def shard(self, name, prompts, options):
        """Answers of a list of prompts, in their order, from the file or made now."""
        path = os.path.join(self.out, name + ".raw")
        if not os.path.exists(path):
            command = [self.args.cutaway, "run", "--batch", "-", "--no-record", "--slots", str(self.args.slots),
                       "--threads", str(self.args.threads), *options]
            if self.args.model:
                command += ["--model", self.args.model]
            with open(path + ".part", "wb") as part:
                subprocess.run(command, input="\n".join(map(escape, prompts)).encode() + b"\n", stdout=part, check=True)
            os.rename(path + ".part", path)
        with open(path) as file:
            rows = sorted(map(json.loads, file), key=lambda row: row["line"])
        print(f"{name}: {len(rows)} answers, {sum(len(r['ids']) for r in rows)} tokens", flush=True)
        return rows

    def turns(self, kind, openings, n, seed):
        found = {}
        for k in range(0, n, SHARD):
            lines = [openings[(k + i) % len(openings)] for i in range(min(SHARD, n - k))]
            rows = self.shard(f"turns-{kind}-{k // SHARD:02d}", [USER + o for o in lines],
                              ["--raw", "--temp", "1", "--top-p", "0.95", "--max-tokens", "120", "--seed",
                               str(seed + k)])
            for opening, row in zip(lines, rows):
                text = (opening + row["text"]).strip()
                if row["finish"] == "end" and len(row["ids"]) > 4:
                    found[text] = True
        return list(found)

    def answers(self, kind, prompts, seed, most):
        """All prompts answered, every third shard at temperature 0.7."""
        out = []
        for i, k in enumerate(range(0, len(prompts), SHARD // 2)):
            temperature = 0.7 if i % 3 == 2 else 0
            rows = self.shard(f"answers-{kind}-{i:02d}", prompts[k:k + SHARD // 2],
                              ["--temp", str(temperature), "--seed", str(seed + k), "--max-tokens", str(most)])
            out += [{"kind": kind, "temp": temperature, "prompt": r["prompt"], "ids": r["ids"], "finish": r["finish"],
                     "text": r["text"]} for r in rows if r["finish"] in ("end", "length")]
        path = os.path.join(self.out, kind + ".jsonl")
        with open(path + ".part", "w") as file:
            for row in out:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
        os.rename(path + ".part", path)
        return out

    def round(self, number):
        seed = 100000 * number
        rng = random.Random(seed)
        chat = self.turns("chat", CHAT_OPENINGS, 768, seed + 1000)
        code = self.turns("code", CODE_OPENINGS, 128, seed + 2000)
        code_answers = self.answers("code", code, seed + 3000, 320)
        chat_answers = self.answers("chat", chat, seed + 4000, 320)
        self.answers("asked", questions(ASKED * number, ASKED), seed + 6000, 240)
        texts = list(filter(None, (passage(a["text"], rng, 700) for a in chat_answers)))[:120]
        codes = list(filter(None, (code_of(a["text"]) for a in code_answers)))[:40]
        prompts = [EDITS[i % len(EDITS)].format(t) for i, t in enumerate(texts)]
        prompts += [CODE_EDITS[i % len(CODE_EDITS)].format(t) for i, t in enumerate(codes)]
        rng.shuffle(prompts)
        self.answers("edit", prompts, seed + 5000, 320)


def passage(text, rng, most):
    """The beginning of a text, cut where a sentence or line ends."""
    text = text.strip()[:rng.randrange(most // 2, most)]
    cut = max(text.rfind(". ") + 1, text.rfind("\n"))
    return text[:cut].strip() if cut > 80 else ""


def code_of(text):
    parts = text.split("```")
    return "```" + parts[1].strip()[:700] + "\n```" if len(parts) > 2 and len(parts[1]) > 60 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="round to begin with: several may be made at once")
    parser.add_argument("--threads", type=int, default=0, help="of the engine; 0: one a core")
    parser.add_argument("--cutaway", default="./cutaway")
    parser.add_argument("--model")
    parser.add_argument("--slots", type=int, default=32)
    args = parser.parse_args()
    for r in range(args.first, args.rounds):
        Maker(args, os.path.join(args.out, f"round-{r:02d}")).round(r)


if __name__ == "__main__":
    sys.exit(main())
