"""What trainings found that take longer than a row may: a table in docs, and the command that makes it again."""
import re

import lab
from lab import Numbers, measure


def table():
    return lab.table("docs/repair.csv", "tools/train/repair.sh")


@measure("seconds rounding")
def repairs():
    """A small model's compressed files and their repairs, each held against the teacher by the engine, by run: divergence and
    where it lies with 95 % confidence, perplexity, how many numbers were trained by how many tokens in how many seconds."""
    rows = table()
    m = Numbers(**{name: {r["run"]: float(r[name]) for r in rows} for name in ("kl", "low", "high", "trained", "tokens", "seconds")})
    m.rounding = m.seconds["qat-2-labels"] / m.seconds["unrounded-labels"]
    m.judged = {r["run"]: float(r["own_by_teacher"]) for r in rows if r["own_by_teacher"]}
    m.surprise = {r["run"]: float(r["own"]) for r in rows if r["own"]}
    return m


@measure()
def places():
    """Which two of six layers are removed: the divergence, and what is left of it after the repair; where the pair that the measure
    of influence names stands among them."""
    kl = repairs().kl
    pairs = {name[-2:]: (value, kl[name + "-full"]) for name, value in kl.items() if re.fullmatch("without-[0-9]+", name)}
    chosen = min(pairs, key=lambda pair: abs(pairs[pair][0] - kl["layers"]))
    ranked = [sorted(pairs, key=lambda pair, i=i: pairs[pair][i]) for i in (0, 1)]
    return Numbers(n=len(pairs), chosen=chosen, place=[order.index(chosen) + 1 for order in ranked], best=[order[0] for order in ranked],
                   least=[pairs[order[0]][i] for i, order in enumerate(ranked)], most=[pairs[order[-1]][i] for i, order in enumerate(ranked)])


@measure()
def sweep():
    """Hinton's loss: perplexity of a small student by temperature, weight of the labels, and seed."""
    m = Numbers(**{to: {r["run"]: float(r[name]) for r in table() if r["study"] == "labels"} for to, name in (("at", "perplexity"), ("kl", "kl"))})
    m.alone = [m.at[f"t1-labels1-seed{seed}"] for seed in (1, 2)]
    m.taught = [m.at[f"t1-labels0.1-seed{seed}"] for seed in (1, 2)]
    m.noise = max(abs(m.at[f"t1-labels{w}-seed1"] - m.at[f"t1-labels{w}-seed2"]) for w in ("0.1", "1"))
    best = min((name for name in m.at if name.endswith("seed1")), key=m.at.get)
    m.best = Numbers(**dict(zip(("temperature", "labels"), map(float, re.findall(r"[0-9.]+", best)))))
    return m


def figures(row):
    """The numbers of a line."""
    return Numbers(**{name: float(value) for name, value in row.items() if re.fullmatch(r"-?[0-9.]+", value)})


@measure("alone.seconds together.seconds kept.seconds")
def heads():
    """Medusa's heads alone, trained with their model on its text, and with what the model was as its goal."""
    rows = lab.table("docs/heads.csv", "tools/train/heads.py build/repair build/heads docs/heads.csv")
    alone, together, kept = (next(figures(r) for r in rows if r["run"] == run) for run in ("heads", "joint", "joint-keep"))
    each = [getattr(together, f"{what}_bytes") / together.trained for what in ("weight", "gradient", "optimizer")]
    return Numbers(alone=alone, together=together, kept=kept, each=each, all=sum(each))


@measure()
def conversions():
    """Members of other architectures that begin with multi-head attention's weights, or with none, and learn its distribution."""
    rows = lab.table("docs/convert.csv", "tools/train/family/conversions.py build/repair/stories.json build/convert docs/convert.csv")
    m = Numbers(loss={r["run"]: float(r["loss"]) for r in rows})
    m.taken = {r["run"]: float(r["taken"]) / float(r["numbers"]) for r in rows if float(r["numbers"])}
    m.steps = int(rows[-1]["steps"])
    m.wins = min(m.loss[f"{name}-nothing"] - m.loss[f"{name}-copied"] for name in ("jamba", "based"))
    return m


@measure("first.sampling_s first.judging_s first.training_s")
def best_of():
    """Rounds of sampling, judging, and training on the best."""
    rows = [figures(r) for r in lab.table("docs/best_of.csv", "tools/train/best_of.py build/repair build/best docs/best_of.csv")]
    return Numbers(first=rows[0], last=rows[-1], risen=rows[-1].reward - rows[0].reward)


@measure()
def ladder():
    """Sizes of one architecture, smallest first: each column of the table as a list, and what the rows ask of it."""
    rows = lab.table("docs/ladder.csv", "tools/train/family/ladder.py build/train/family build/ladder docs/ladder.csv")
    m = Numbers(**{name: [float(r[name] or "nan") for r in rows] for name in rows[0] if name != "size"})
    m.sizes = ", ".join(r["size"] for r in rows)
    m.grows = m.worst[-1] / m.worst[0]
    m.said = {name: ", ".join(f"{x:.{places}f}" for x in getattr(m, name)) for name, places in
              (("worst", 2), ("down", 2), ("int8_tensor", 4), ("int8_token", 4), ("qkv", 1), ("rtn_3", 4), ("awq_3", 4))}
    m.half = {bits: [fewer / more for more, fewer in zip(getattr(m, f"ppl_{bits}"), getattr(m, f"ppl_{bits // 2}")[1:])] for bits in (8, 6)}
    m.halves = {bits: ", ".join(f"{x:.3f}" for x in ratios) for bits, ratios in m.half.items()}
    for bits in (4, 3):
        m.said[bits] = ", ".join(f"{a / b:.3f}" for a, b in zip(getattr(m, f"ppl_{bits}"), m.ppl_8))
    m.awq_lost = sum(awq > nearest for awq, nearest in zip(m.awq_3, m.rtn_3))
    m.awq_most = max(1 - awq / nearest for awq, nearest in zip(m.awq_3, m.rtn_3))
    m.guessed = ", ".join(f"{x:.0%}" for x in m.kept[1:])
    return m
