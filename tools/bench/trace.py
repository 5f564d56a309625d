#!/usr/bin/env python3
"""A trace for `cutaway load` and `cutaway simulate`: prompts of one length, answers of exponentially distributed length, in the form
of the Azure LLM traces. The default is the load of Anyscale's comparison (June 2023): 1,000 prompts of 512 tokens, answers of 128
in the mean, all at once, which is 1 ms apart here, since a trace has an order.

    tools/bench/trace.py [--requests N] [--prompt N] [--answer N] [--gap S] [--seed N] > FILE
"""
import argparse
import random


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=1000)
    options.add_argument("--prompt", type=int, default=512)
    options.add_argument("--answer", type=float, default=128, help="the mean")
    options.add_argument("--gap", type=float, default=0.001, help="seconds between two requests")
    options.add_argument("--seed", type=int, default=1)
    o = options.parse_args()
    draw = random.Random(o.seed)
    print("TIMESTAMP,ContextTokens,GeneratedTokens")
    for i in range(o.requests):
        print(f"{i * o.gap:.6f},{o.prompt},{1 + int(draw.expovariate(1 / o.answer))}")


if __name__ == "__main__":
    main()
