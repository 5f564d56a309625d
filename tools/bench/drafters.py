#!/usr/bin/env python3
"""Every drafter on the real model: what it gives, and whether the tokens, and the hashes of the logits after them, are those of
plain greedy decoding. Runs the prompts of demos/kinds.txt (three kinds) under each drafter and rule, each beside a plain run, and
prints a table: answers that are equal; tokens a step and, in brackets, the speed against plain decoding, kind by kind; the median
and the middle eight tenths of the speeds of all pairs; what a plain run with the drafter in the shadow predicted. Exit status 1 if
any answer differs. With --temperature nothing is proved: the table is of what each rule accepts of first guesses, and what the
other rule says of the same ones (`other` of the draft events). Only the standard library.

    tools/bench/drafters.py [--tokens N] [--of-each N] [--temperature T] [--cutaway FILE] [--model FILE] [DRAFTER ...]
"""
import argparse
import statistics
import sys

from recorded import PROGRAM, answer, decoding, prompts
from turns import tenths

DRAFTERS = ["ngram", "ngram:8,1,4", "ngram:4,2,4,3", "ngram:4,pool", "ngram:4,1,4,4,pool", "jacobi", "jacobi:8",
            "lookahead", "lookahead:2,3,2", "lookahead:4,3,4", "lookahead:8,4,4"]


# Of the guesses that are children of the newest token: how many steps had some, in how many one was kept, and of those
# on which the other rule has an opinion in how many it would keep one. Of several that were weighed (q < 1) it does not
# know what would come after a rejection: what it does say there is of acceptances more than of rejections, and left out.
FIRST_GUESSES = """
    SELECT count(*), sum(kept), sum(said), sum(said AND other_kept) FROM (
        SELECT max(verdict = 0) AS kept, coalesce(max(other = 0), 0) AS other_kept,
               (count(*) = 1 OR min(q) >= 1) AND (coalesce(max(other = 0), 0) OR min(other IS NOT NULL)) AS said
        FROM draft WHERE depth = 1 GROUP BY step, request HAVING max(verdict <> 2))"""  # 0: accepted, 2: discarded


def common(o):
    return ["--max-tokens", str(o.tokens), *(["--model", o.model] if o.model else [])]


def accepted(program, prompt, *options):
    """Steps with a guess, kept, said by the other rule, kept by it; tokens, steps."""
    db = answer(program, prompt, *options)[1]
    return [x or 0 for x in db.execute(FIRST_GUESSES).fetchone() + decoding(db)[:2]]


def compare_rules(o, asked):
    print(f"{'drafter':<20} {'rule':<10} {'guessed':>8} {'kept':>7} {'the other rule':>15} {'tokens a step':>14}")
    for drafter in o.drafter or DRAFTERS:
        for rule in ("race", "rejection"):
            sums = [0] * 6
            for seed, (_, prompt) in enumerate(asked):
                got = accepted(o.cutaway, prompt, *common(o), "--spec", drafter, "--rule", rule, "--temp", str(o.temperature),
                               "--seed", str(seed))
                sums = [a + b for a, b in zip(sums, got)]
            n, kept, said, other, won, steps = sums
            print(f"{drafter:<20} {rule:<10} {n:>8} {kept / max(1, n):>7.1%} {other / max(1, said):>8.1%} of {said:<4}"
                  f" {won / max(1, steps):>12.3f}", flush=True)
    return 0


def predicted(program, prompt, drafter, *options):
    """Speed that the shadow expects at the end of a plain run, against plain decoding; None if it says nothing."""
    db = answer(program, prompt, "--shadow", drafter, *options)[1]
    found = db.execute("SELECT predicted FROM shadow WHERE drafter <> 'off' ORDER BY seq DESC LIMIT 1").fetchone()
    plain = db.execute("SELECT predicted FROM shadow WHERE drafter = 'off' ORDER BY seq DESC LIMIT 1").fetchone()
    return found[0] / plain[0] if found and plain and found[0] and plain[0] else None


class Sum:
    """Tokens, steps and ns of runs with a drafter, and tokens and ns of the plain ones beside them."""

    def __init__(self):
        self.tokens = self.steps = self.ns = self.plain_tokens = self.plain_ns = 0

    def add(self, plain, drafted):
        self.tokens, self.steps, self.ns = self.tokens + drafted[0], self.steps + drafted[1], self.ns + drafted[2]
        self.plain_tokens, self.plain_ns = self.plain_tokens + plain[0], self.plain_ns + plain[2]

    def __str__(self):
        speed = self.plain_ns / max(1, self.plain_tokens) * self.tokens / max(1, self.ns)
        return f"{self.tokens / max(1, self.steps):.2f} ({speed:.2f}x)"


def prove(o, asked, drafter, rule):
    """One line of the table; how many answers differ."""
    options = ["--greedy", *common(o)]
    kinds = {kind: Sum() for kind, _ in asked}
    equal, speeds, guessed = 0, [], []
    for kind, prompt in asked:
        want, db = answer(o.cutaway, prompt, *options)
        plain = decoding(db)
        got, db = answer(o.cutaway, prompt, *options, "--spec", drafter, "--rule", rule)
        drafted = decoding(db)
        equal += got == want
        kinds[kind].add(plain, drafted)
        if plain[0] and drafted[0]:
            speeds.append(plain[2] / plain[0] * drafted[0] / drafted[2])
        if rule == "race":
            guessed.append(predicted(o.cutaway, prompt, drafter, *options))
    guessed = [x for x in guessed if x]
    low, high = tenths(speeds)
    shadow = f"{statistics.median(guessed):.2f}x" if guessed else ""
    print(f"{drafter:<20} {rule:<10} {equal:>3} of {len(asked)}   " + "  ".join(f"{str(x):>13}" for x in kinds.values()) +
          f"   {statistics.median(speeds):.2f}x ({low:.2f} .. {high:.2f})   {shadow}", flush=True)
    return len(asked) - equal


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--of-each", type=int, metavar="N", help="the first N prompts of each kind (all)")
    options.add_argument("--temperature", type=float)
    options.add_argument("--cutaway", default=PROGRAM)
    options.add_argument("--model")
    options.add_argument("drafter", nargs="*")
    o = options.parse_args()
    asked = prompts(of_each=o.of_each)
    if o.temperature is not None:
        return compare_rules(o, asked)
    kinds = list(dict.fromkeys(kind for kind, _ in asked))
    print(f"{'drafter':<20} {'rule':<10} {'equal':>9}   " + "  ".join(f"{kind:>13}" for kind in kinds) +
          "   speed, all pairs        predicted")
    differ = sum([prove(o, asked, drafter, rule) for drafter in o.drafter or DRAFTERS for rule in ("race", "rejection")])
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
