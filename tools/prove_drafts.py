#!/usr/bin/env python3
"""Every drafter on the real model: are the tokens, and the hashes of the logits behind them, those of plain greedy
decoding? Runs the prompts of demos/kinds.txt (three kinds) under each drafter and rule and prints a table of
answers that are equal, and of tokens a step. Exit status 1 if any differs. With --temperature nothing is proved:
the table is of what each rule accepts of first guesses, and what the other rule says of the same ones (`other` of the draft
events). Only the standard library.

    tools/prove_drafts.py [--tokens N] [--temperature T] [--cutaway FILE] [DRAFTER ...]
"""
import argparse
import os
import sqlite3
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DRAFTERS = ["ngram", "ngram:8,1,4", "ngram:4,2,4,3", "ngram:4,pool", "ngram:4,1,4,4,pool", "jacobi", "jacobi:8",
            "lookahead", "lookahead:2,3,2", "lookahead:4,3,4", "lookahead:8,4,4"]


def prompts():
    """[(kind, prompt)]"""
    found, kind, lines = [], None, []
    with open(os.path.join(ROOT, "demos/kinds.txt"), encoding="utf-8") as f:
        for line in f.read().splitlines() + [""]:
            if line.startswith("[") and line.endswith("]") and not lines:
                kind = line[1:-1]
            elif kind and line:
                lines.append(line)
            elif lines:
                found.append((kind, "\n".join(lines)))
                lines = []
    return found


def answer(program, tokens, prompt, *options):
    """What --json says, byte for byte, and tokens and steps of decoding."""
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "session.db")
        run = subprocess.run([program, "run", "--greedy", "--json", "--max-tokens", str(tokens), "--record", record,
                              *options, prompt], stdout=subprocess.PIPE, check=True)
        with sqlite3.connect(record) as db:
            won, steps = db.execute("SELECT sum(tokens), count(*) FROM step WHERE prefill_rows = 0").fetchone()
    return run.stdout, won or 0, steps


# Of the guesses that hang on the newest token: how many steps had some, in how many one was kept, and of those
# on which the other rule has an opinion in how many it would keep one. Of several that were weighed (q < 1) it does not
# know what would come after a rejection: what it does say there is of acceptances more than of rejections, and left out.
FIRST_GUESSES = """
    SELECT count(*), sum(kept), sum(said), sum(said AND other_kept) FROM (
        SELECT max(verdict = 0) AS kept, coalesce(max(other = 0), 0) AS other_kept,
               (count(*) = 1 OR min(q) >= 1) AND (coalesce(max(other = 0), 0) OR min(other IS NOT NULL)) AS said
        FROM draft WHERE depth = 1 GROUP BY step, request HAVING max(verdict <> 2))"""  # 0: accepted, 2: unread


def accepted(program, tokens, prompt, *options):
    """Steps with a guess, kept, said by the other rule, kept by it; tokens, steps."""
    with tempfile.TemporaryDirectory() as folder:
        record = os.path.join(folder, "session.db")
        subprocess.run([program, "run", "--json", "--max-tokens", str(tokens), "--record", record, *options, prompt],
                       stdout=subprocess.DEVNULL, check=True)
        with sqlite3.connect(record) as db:
            guesses = db.execute(FIRST_GUESSES).fetchone()
            steps = db.execute("SELECT sum(tokens), count(*) FROM step WHERE prefill_rows = 0").fetchone()
    return [x or 0 for x in guesses + steps]


def compare_rules(o, asked):
    print(f"{'drafter':<20} {'rule':<10} {'guessed':>8} {'kept':>7} {'the other rule':>15} {'tokens a step':>14}")
    for drafter in o.drafter or DRAFTERS:
        for rule in ("race", "rejection"):
            sums = [0] * 6
            for seed, (_, prompt) in enumerate(asked):
                got = accepted(o.cutaway, o.tokens, prompt, "--spec", drafter, "--rule", rule, "--temp", str(o.temperature),
                               "--seed", str(seed))
                sums = [a + b for a, b in zip(sums, got)]
            n, kept, said, other, won, steps = sums
            print(f"{drafter:<20} {rule:<10} {n:>8} {kept / max(1, n):>7.1%} {other / max(1, said):>8.1%} of {said:<4}"
                  f" {won / max(1, steps):>12.3f}", flush=True)
    return 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--temperature", type=float)
    options.add_argument("--cutaway", default=os.path.join(ROOT, "cutaway"))
    options.add_argument("drafter", nargs="*")
    o = options.parse_args()
    asked = prompts()
    if o.temperature is not None:
        return compare_rules(o, asked)
    kinds = list(dict.fromkeys(kind for kind, _ in asked))
    plain = [answer(o.cutaway, o.tokens, prompt)[0] for _, prompt in asked]
    differ = 0
    print(f"{'drafter':<20} {'rule':<10} {'equal':>8}   " + "  ".join(f"{kind:>6}" for kind in kinds) + "   tokens a step")
    for drafter in o.drafter or DRAFTERS:
        for rule in ("race", "rejection"):
            equal, won, steps = 0, dict.fromkeys(kinds, 0), dict.fromkeys(kinds, 0)
            for (kind, prompt), want in zip(asked, plain):
                got, w, s = answer(o.cutaway, o.tokens, prompt, "--spec", drafter, "--rule", rule)
                equal += got == want
                won[kind] += w
                steps[kind] += s
            differ += len(asked) - equal
            rates = "  ".join(f"{won[kind] / max(1, steps[kind]):6.2f}" for kind in kinds)
            print(f"{drafter:<20} {rule:<10} {equal:>3} of {len(asked)}   {rates}", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
