#!/usr/bin/env python3
"""What searches cost and share: six prompts of demos/kinds.txt, two of each kind, each under every method and as one plain sample beside
it, without the prefix cache. Speed is tokens of all branches a second against the plain sample's, prompts included: median, least
and most. Pages are KV pages that the branches read at most, and those that they would need if none were shared.

    tools/bench/searches.py [--tokens N] [--cutaway FILE] [--model FILE] [METHOD ...]       best:8 beam:4 mcts:32
"""
import argparse
import statistics

from recorded import PROGRAM, answer, prompts

OPTION = {"best": "--best-of", "beam": "--beam", "mcts": "--mcts"}
TOKENS = "SELECT count(*) FROM token WHERE source <> (SELECT value FROM code WHERE list = 'source' AND name = 'taken')"


def speed(db):
    """Tokens a second."""
    return db.execute(TOKENS).fetchone()[0] * 1e9 / db.execute("SELECT sum(ns) FROM step").fetchone()[0]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tokens", type=int, default=64)
    options.add_argument("--cutaway", default=PROGRAM)
    options.add_argument("--model")
    options.add_argument("method", nargs="*", default=["best:8", "beam:4", "mcts:32"])
    o = options.parse_args()
    common = ["--max-tokens", str(o.tokens), *(["--model", o.model] if o.model else [])]
    asked = [prompt for _, prompt in prompts(of_each=2)]
    print(f"{'search':<12} {'tokens':>7} {'tok/s':>7}  {'against plain':<22} {'pages':>6} {'unshared':>9} {'saved':>7}")
    for method in o.method:
        name, _, args = method.partition(":")
        found, tokens, rates, pages, unshared, sums = [], 0, [], 0, 0, [0, 0]
        for prompt in asked:
            plain = speed(answer(o.cutaway, prompt, "--no-prefix-cache", *common)[1])
            db = answer(o.cutaway, prompt, OPTION[name], args, *common)[1]
            rates.append(speed(db))
            found.append(rates[-1] / plain)
            tokens += db.execute(TOKENS).fetchone()[0]
            most = db.execute("SELECT max(pages), max(unshared), sum(pages), sum(unshared) FROM sharing").fetchone()
            pages, unshared = pages + most[0], unshared + most[1]
            sums = [sums[0] + most[2], sums[1] + most[3]]
        n = len(asked)
        print(f"{method:<12} {tokens / n:7.1f} {statistics.median(rates):7.1f}  {statistics.median(found):5.2f}x "
              f"({min(found):.2f} .. {max(found):.2f})  {pages / n:6.1f} {unshared / n:9.1f} {1 - sums[0] / sums[1]:7.1%}",
              flush=True)


if __name__ == "__main__":
    main()
