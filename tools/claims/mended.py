#!/usr/bin/env python3
"""Damaged passages of the family's stories, which the T5s `mend` and `mend-small` were trained to write whole again: how many they do,
of stories that no training read, and what the small one and n-grams save when they draft for the other. As a program: the first as a
table for docs/family.md. The trainer damages its texts by the same rules (tools/train/family/mend.py)."""
import functools
import os
import random
import re
import sys

import lab
from family import FOLDER, numbers, path
from lab import Numbers, Range, batch, measure

SHARE, LETTERS = 0.15, "abcdefghijklmnopqrstuvwxyz"  # of the words that are damaged
SHORT, LONG = 40, 240  # characters of a passage


def misspelt(word, draw):
    """One letter beside the first is dropped, doubled, replaced, or swapped with the next."""
    i = draw.randrange(1, len(word) - 1)
    kind = draw.randrange(4)
    if kind == 3:
        return word[:i] + word[i + 1] + word[i] + word[i + 2:]
    return word[:i] + ("", word[i] * 2, draw.choice(LETTERS))[kind] + word[i + 1:]


def damaged(passage, draw):
    """Words dropped, doubled, swapped with the next, misspelt."""
    words, out = passage.split(" "), []
    while words:
        word = words.pop(0)
        kind = draw.randrange(4) if draw.random() < SHARE else -1
        if kind == 1:
            out += [word, word]
        elif kind == 2 and words:
            out += [words.pop(0), word]
        elif kind == 3 and len(word) > 3 and word.isalpha():
            out.append(misspelt(word, draw))
        elif kind != 0 or not (out or words):
            out.append(word)
    return " ".join(out)


def passages(story, draw):
    """Some sentences each, of one paragraph."""
    for paragraph in re.split(r"\s*\n\s*", story.strip()):
        now, most = "", draw.randrange(SHORT, LONG)
        for sentence in re.findall(r"\S.*?[.!?][\"”’')]*(?=\s|$)|\S.*$", paragraph):
            if now and len(now) + len(sentence) > most:
                yield now
                now, most = "", draw.randrange(SHORT, LONG)
            now = (now + " " + sentence).strip()
        if now:
            yield now


def pairs(stories, seed):
    """[(damaged, whole)]"""
    draw = random.Random(seed)
    return [(damaged(whole, draw), whole) for story in stories for whole in passages(story, draw)]


@functools.cache
def held_out(seed=1):
    """Of the stories that are shipped."""
    folder, stories = os.path.join(FOLDER, "held_out"), []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            stories.append(file.read())
    return pairs(stories, seed)


def edits(a, b):
    """Words to insert, delete or replace (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def judged(texts):
    """Texts beside the passages as they were: exact ones, and words that are wrong of all words."""
    whole = [b for _, b in held_out()]
    wrong = sum(edits(a.split(), b.split()) for a, b in zip(texts, whole))
    return Numbers(exact=sum(a == b for a, b in zip(texts, whole)), n=len(whole), wrong=wrong / sum(len(b.split()) for b in whole))


def answers(name, *options, again=0):
    return batch([a for a, _ in held_out()], "--model", path(name), "--raw", "--greedy", "--threads", "1", "--attention-every", "1024",
                 "--max-tokens", "160", *options, again=again)


@measure()
def mended(name):
    """What it writes, and nats a token of the passages as they were."""
    r, logp = answers(name), []
    m = judged([line["text"] for line in sorted(r.lines, key=lambda line: line["line"])])
    m.endless = sum(line["finish"] == "length" for line in r.lines)
    for i, (a, b) in enumerate(held_out()[::3]):
        text = os.path.join(lab.FOLDER.name, f"pair-{i}.txt")
        with open(text, "w", encoding="utf-8") as file:
            file.write(f"{a}<|im_end|><|endoftext|>{b}<|im_end|>")
        logp += lab.report("score", "--model", path(name), text)["logp"]
    m.loss = -sum(logp) / len(logp)
    return m


HASHES = "SELECT request, pos, id, hash FROM token ORDER BY request, pos"
STEPS = "SELECT request, ns, tokens, accepted, s.draft_rows FROM step s JOIN batch b USING (step) WHERE s.prefill_rows = 0 ORDER BY step"
ROUNDS = 3


def by_request(runs):
    """Of runs with the same steps: nanoseconds of each request, of each step the fastest, since others on the machine only add time."""
    sums = {}
    for same in zip(*(r.rows(STEPS) for r in runs)):
        sums[same[0]["request"]] = sums.get(same[0]["request"], 0) + min(row["ns"] for row in same)
    return sums


@measure()
def mended_with(spec):
    """Passages mended by `mend` one after the other, plainly and with a drafter, by turns: the text, passes of the target, time."""
    sides = ("off", spec)
    rounds = [{side: answers("mend", "--slots", "1", "--spec", side, again=(spec, n)) for side in sides[::1 - n % 2 * 2]} for n in range(ROUNDS)]
    plain, drafted = ([one[side] for one in rounds] for side in sides)
    a, b = ({} for _ in sides)
    for kept, r in (a, plain[0]), (b, drafted[0]):
        for row in r.rows(HASHES):
            kept.setdefault(row["request"], []).append(tuple(row))
    m = Numbers(name=spec, n=len(a), equal=sum(a[i] == b.get(i) for i in a))
    ns, less = by_request(plain), by_request(drafted)
    m.speed = Range([ns[i] / less[i] for i in ns])
    m.whole = sum(ns.values()) / sum(less.values())
    steps = drafted[0].rows(STEPS)
    m.steps, m.plain = len(steps), len(plain[0].rows(STEPS))
    m.tokens, m.accepted = sum(s["tokens"] for s in steps) / m.steps, sum(s["accepted"] for s in steps) / m.steps
    m.passes, m.right = m.plain / m.steps, sum(s["accepted"] for s in steps) / max(1, sum(s["draft_rows"] for s in steps))
    return m


AHEAD = ("ngram:4", "draft:mend-small,4,4,0")


@measure()
def mended_ahead():
    """A trained encoder-decoder whose answers n-grams of its input and a smaller T5 draft."""
    m = Numbers(at={spec: mended_with(spec) for spec in AHEAD}, model=mended("mend"), itself=judged([a for a, _ in held_out()]))
    m.grams, m.small = m.at.values()
    m.equal, m.n = sum(x.equal for x in m.at.values()), sum(x.n for x in m.at.values())
    m.numbers, m.few = (numbers(name) for name in ("mend", "mend-small"))
    m.best, m.fewest = max(m.at.values(), key=lambda x: x.speed.median), max(m.at.values(), key=lambda x: x.passes)
    return m


def main():
    rows = [("the damaged passage itself", judged([a for a, _ in held_out()]), "")]
    rows += [(f"`{name}`", m, f"{m.loss:.3f}") for name in ("mend", "mend-small") for m in (mended(name),)]
    print("| text | passages as they were | words wrong | nats a token |\n| --- | --- | --- | --- |")
    for said, m, loss in rows:
        print(f"| {said} | {m.exact} of {m.n} | {m.wrong:.1%} | {loss} |")


if __name__ == "__main__":
    sys.exit(main())
