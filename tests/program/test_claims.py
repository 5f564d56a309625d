#!/usr/bin/env python3
"""The table of claims: each row once and whole, verdicts that follow from numbers, docs/claims.md made of it, and three quick rows
measured. TAP; Python's standard library alone."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from types import SimpleNamespace as Numbers

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "tools/claims")
TOOL = os.path.join(FOLDER, "claims")
sys.dont_write_bytecode = True
sys.path.insert(0, FOLDER)
loader = importlib.machinery.SourceFileLoader("claims", TOOL)
claims = importlib.util.module_from_spec(importlib.util.spec_from_loader("claims", loader))
loader.exec_module(claims)
ROWS = {row.number: row for row in claims.ROWS}

# Claims of each text, and those between two of them.
COUNTS = (31, 27, 20, 22, 54)
BETWEEN = ("0.7b 0.23b 1.23b 1.24b 2.12b 3.5b 3.11b 3.17b 3.21b 3.21c 4.7b 4.18b 4.24b 4.32b 4.39b 4.39c 4.46b 4.47b 4.47c 4.47d "
           "4.52b 2.10b 4.18c 4.30b").split()
results = []


def check(name, good, more=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        for line in str(more).splitlines()[:20]:
            print("# " + line)


def span(*values):
    return claims.lab.Range(values)


def verdict(number, **numbers):
    return claims.verdict(ROWS[number], Numbers(**numbers))


def test_form():
    numbers = [row.number for row in claims.ROWS]
    wanted = {f"{text}.{n}" for text, most in enumerate(COUNTS) for n in range(1, most + 1)} | set(BETWEEN)
    check("the texts' rows, each once", len(numbers) == len(wanted) and set(numbers) == wanted, set(numbers) ^ wanted)
    bad = [r.number for r in claims.ROWS if bool(r.measure) + bool(r.missing) + bool(r.untestable) != 1]
    check("a row is measured, or says what is missing, or why it cannot be", not bad, bad)
    bad = [r.number for r in claims.ROWS if r.measure and not (r.says and r.holds and r.but)]
    check("what is measured has numbers to show, a rule and a mechanism", not bad, bad)
    bad = [r.number for r in claims.ROWS if r.measure and not re.search(r"\{", r.says)]
    check("no row shows figures that were typed in", not bad, bad)


def test_rules():
    """Both verdicts of rules of every kind, on made numbers."""
    slow, fast = (dict(tokens=1.05, speed=span(x - 0.1, x, x + 0.1), equal=9, n=9, nodes=4) for x in (0.7, 1.2))
    check("Jacobi that is slower is no free lunch", verdict("0.18", **slow).startswith("does not hold here, because its guesses"))
    check("Jacobi that is not slower would be", verdict("0.18", **fast) == "holds")
    kv = dict(kv_token=23040, over=3.0)
    check("a formula that is too large", "3 times too large" in verdict("2.5", kv_heads_all=69120, **kv))
    check("a formula that fits", verdict("2.5", kv_heads_all=23040, **kv) == "holds")
    cache = dict(equal=True, more_rows=44, slower=5, others=Numbers(batch=2.5, bits=3, guesses=1.5))
    check("the cache pays", verdict("0.1", **cache) == "holds")
    check("other hashes without the cache refute it, and another trick that pays as much",
          verdict("0.1", **{**cache, "equal": False}) != "holds" and verdict("0.1", **{**cache, "slower": 4}) != "holds")
    tree = dict(equal=3, n=3, places=100, several=40, kept=20, second=5, corrected=9)
    check("completions of which the best is taken; a chain has one", verdict("2.12", **tree) == "holds" and
          verdict("2.12", **{**tree, "several": 0, "second": 0}) != "holds")
    longest = dict(steps=9, kept={n: 1 for n in range(5)}, other=0)
    check("the longest right prefix, and another", verdict("1.21", **longest) == "holds" and
          verdict("1.21", **{**longest, "other": 2}) == "does not hold here, because 2 steps kept others")
    check("probabilities at once, and other ones", verdict("4.36", steps=96, apart=5e-7) == "holds" and verdict("4.36", steps=96, apart=1e-3) != "holds")
    heads = dict(plain=Numbers(tokens=1.2), seen=2.0)
    check("features that are used, and a matrix that does nothing", verdict("4.39b", **heads, blind=1.2) == "holds" and
          verdict("4.39b", **heads, blind=2.0) != "holds")
    check("a cheap batch, and one that costs what its rows cost", verdict("0.7", rows=4.0, cost=span(2.5)) == "holds" and
          verdict("0.7", rows=4.0, cost=span(3.9)) != "holds")
    half = dict(ladder=Numbers(half={8: [0.92, 1.005], 6: [1.05, 1.1]}), laws=Numbers(large={16: 22.6, 5: 22.7, 4: 23.3}))
    check("twice the weights in half the bits, with 4 that cost something", verdict("0.27", **half).startswith("holds under: twice") and
          verdict("0.27", **{**half, "ladder": Numbers(half={8: [0.92, 1.05], 6: [1.05, 1.1]})}).startswith("does not hold") and
          verdict("0.27", **{**half, "ladder": Numbers(half={8: [0.92, 1.005], 6: [0.98, 1.1]})}).startswith("does not hold"))
    kinds = {kind: span(0.9, 1.0, 1.1) for kind in ("chat", "edit", "code", "summary", "document", "turns")}
    fast, n = span(2.0, 2.2, 2.4), dict(equal=18, n=18, tokens=1.5, other=1.2)
    none = dict(kind=kinds, most=kinds["chat"], best="chat", **n)
    some = dict(kind={**kinds, "edit": fast}, most=fast, best="edit", **n)
    most = dict(kind={kind: span(1) if kind in ("chat", "code") else fast for kind in kinds}, most=fast, best="edit", **n)
    check("n-grams on one kind of text", verdict("2.14", **some).startswith("holds under: edit alone"))
    check("n-grams on none", "the best kind is chat" in verdict("2.14", **none))
    check("n-grams on all that repeats its input", verdict("2.14", **most) == "holds")
    check("other answers refute them", verdict("2.14", **{**most, "equal": 17}).startswith("does not hold"))
    paid = dict(equal=16, answers=16)
    check("a batch that makes a token cheaper, one that does not, and one that answers otherwise",
          verdict("1.23b", cheaper=2.0, **paid) == "holds" and "1.20 times cheaper" in verdict("1.23b", cheaper=1.2, **paid)
          and verdict("1.23b", cheaper=2.0, equal=15, answers=16) != "holds")
    seen = dict(full=80.0, stream=92.0)
    check("sinks that cost nothing, that help, and that do not", verdict("3.20", full=80.0, stream=82.0, lost=0.02) == "holds" and
          verdict("3.20", lost=0.1, **seen).startswith("holds under: all but 10%") and "90%" in verdict("3.20", lost=0.9, **seen))
    pool = dict(tokens_of=dict(chat=1.08, edit=1.74), model=Numbers(tokens_of=dict(chat=1.20, edit=1.14)), kept=21)
    check("n-grams of its own that are guessed right, and the text's", verdict("0.17", alone=15, **pool).startswith("holds under: edits") and
          verdict("0.17", alone=3, **pool).startswith("does not hold here, because its own n-grams gave 3 of 21"))
    ratio = dict(obeyed=True, later=True)
    check("a ratio that pauses whoever runs, that waits for free slots, and that is not kept", verdict("2.10", full=True, **ratio) == "holds" and
          verdict("2.10", full=False, **ratio).startswith("holds under") and verdict("2.10", full=False, obeyed=False, later=True)[:4] == "does")
    quick, slow = (Numbers(name="x", speed=span(x - 0.1, x, x + 0.1), passes=3.0) for x in (2.2, 1.4))
    check("a T5 that is drafted for: fast, slow, and with other answers", verdict("3.22", best=quick, fewest=quick, equal=9, n=9) == "holds" and
          "is the fastest, 1.40" in verdict("3.22", best=slow, fewest=quick, equal=9, n=9) and
          verdict("3.22", best=quick, fewest=quick, equal=8, n=9).startswith("does not hold here, because 8 of 9"))
    law = dict(free=89, limit=130.0, least=1)
    check("a distribution that is kept, and one that is not",
          verdict("4.37", chi=80.0, **law) == "holds" and verdict("4.37", chi=200.0, **law) != "holds")


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_document():
    with open(os.path.join(ROOT, "docs/claims.md"), encoding="utf-8") as f:
        text = f.read()
    table = {c[0]: c for c in map(cells, re.findall(r"^\| \d\..*$", text, re.M))}
    check("docs/claims.md has every row", list(table) == [r.number for r in claims.ROWS], set(table) ^ set(ROWS))
    bad = [n for n, c in table.items() if c[1] != ROWS[n].claim.replace("|", "\\|")]
    check("with its claim as it stands in the table", not bad, bad)
    words = ("holds", "does not hold here, because ", "not testable here, because ", "missing technique: ")
    bad = [n for n, c in table.items() if not c[3].startswith(words)]
    check("and a verdict", not bad, bad)
    bad = [n for n, c in table.items() if c[2] and not (c[4] in ("counted", "timed", "read") and c[6])]
    check("what was measured says how, where and when", not bad, bad)
    count = re.search(rf"\*\*{len(claims.ROWS)} rows: (\d+) done, (\d+) partly .*?(\d+) missing.*?(\d+) not testable", text, re.S)
    missing = sum(bool(r.missing) for r in claims.ROWS)
    check("the counts at its head are the table's", count and sum(map(int, count.groups())) == len(claims.ROWS) and int(count[3]) == missing,
          count and count.groups())
    usage = subprocess.run([claims.lab.PROGRAM, "--help"], capture_output=True, text=True).stdout
    verbs = set(re.findall(r"`cutaway (\w+)", "\n".join(c[5] for c in table.values())))
    bad = [v for v in verbs if not re.search(rf"^\s+cutaway {v}\b", usage, re.M)]
    check("its commands are verbs of the program", len(verbs) >= 3 and not bad, bad)


def tool(*args):
    run = subprocess.run([TOOL, *args], capture_output=True, text=True, timeout=300)
    return run.returncode, run.stdout, run.stderr


def test_tool():
    status, out, err = tool("2.5", "3.19", "4.25")
    check("three rows are measured", status == 0 and out.count("  verdict   ") == 3 and out.count("  measured  ") == 3, out + err)
    check("numbers, and a verdict from them", "formula 69,120 B a token, counted 23,040" in out and "3 times too large" in out, out)
    check("with the commands", "cutaway run --greedy" in out and "tests/data/zoo/mamba.gguf" in out, out)
    check("and progress", "[3/3]" in err, err)
    status, out, _ = tool("--list")
    check("--list has all rows", status == 0 and len(out.splitlines()) == len(claims.ROWS), out)
    status, out, _ = tool("--missing")
    wanted = [row.number for row in claims.ROWS if claims.state(row) != "done"]
    check("--missing has those that lack something", [line.split()[0] for line in out.splitlines()] == wanted, out)
    status, _, err = tool("9.9")
    check("a row that is not there is an error", status == 2 and "no row 9.9" in err, err)


def main():
    test_form()
    test_rules()
    test_document()
    test_tool()
    print(f"1..{len(results)}")
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
