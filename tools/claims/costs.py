"""Measurements of what a token costs: time of the whole machine, and its energy where a counter can be read."""
import glob

import lab
from lab import Numbers, Range, batch, measure
from steps import DECODE, questions


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read().strip()


def joules():
    """Energy of the processors' packages since a start, by counter; nothing where none can be read."""
    try:
        return {path: int(read(path + "/energy_uj")) / 1e6 for path in glob.glob("/sys/class/powercap/intel-rapl*")
                if read(path + "/name").startswith("package")}
    except (OSError, ValueError):
        return {}


def spent(before, after):
    """Joules between two readings, of counters that begin again at their largest value; None without a counter."""
    if not before or before.keys() != after.keys():
        return None
    return sum(after[path] - joule + (int(read(path + "/max_energy_range_uj")) / 1e6 if after[path] < joule else 0)
               for path, joule in before.items())


def priced(lines, slots, tokens, where, column):
    """Seconds of the machine for a million of what `column` counts, in the steps that `where` names; milliseconds of one; answers."""
    before = joules()
    r = batch(lines, "--greedy", "--slots", str(slots), "--max-tokens", str(tokens), "--no-prefix-cache", again="cost")
    energy, rows = spent(before, joules()), r.one("SELECT sum(rows) FROM step")
    ns, n = r.rows(f"SELECT sum(ns), sum({column}) FROM step WHERE {where}")[0]
    m = Numbers(seconds=ns / n / 1e3, ms=Range([x / 1e6 for x in r.values(f"SELECT ns FROM step WHERE {where}")]), n=n)
    m.hours, m.joules = m.seconds / 3600, None if energy is None else energy / rows
    m.answers = {line["line"]: line["ids"] for line in r.lines}
    return m


@measure("seconds hours cheaper energy")
def cost():
    """16 answers one after the other and 8 at once, in full steps, and eight different prompts of about 200 tokens."""
    text = lab.text_of(1600)
    documents = [text[i * len(text) // 8:(i + 1) * len(text) // 8].replace("\n", " ") for i in range(8)]
    m = Numbers(one=priced(questions(16), 1, 32, DECODE, "tokens"), eight=priced(questions(16), 8, 32, f"{DECODE} AND rows = 8", "tokens"),
                prompt=priced(documents, 8, 1, "prefill_rows > 0 AND decode_rows = 0", "prefill_rows"))
    m.cheaper, m.equal = m.one.seconds / m.eight.seconds, sum(m.eight.answers[line] == ids for line, ids in m.one.answers.items())
    m.answers = len(m.one.answers)
    known = [f"{name} {x.joules:.2f} J a row" for name, x in (("alone", m.one), ("8 at once", m.eight), ("prompts", m.prompt))
             if x.joules is not None]
    m.energy = "energy of the packages, start included: " + ", ".join(known) if known else "no counter of energy can be read here"
    return m
