"""Measurements on two sizes of one family that were never rounded before: a model of 689 thousand numbers that tells stories, and
its students of 140 thousand (demos/models/README.md), all in 16 bits. Texts: stories held out from their training."""
import math
import os

import lab
from lab import Numbers, measure, run

FOLDER = os.path.join(lab.ROOT, "demos/models/family")
LARGE, SMALL, DISTILLED = (os.path.join(FOLDER, f"stories-{name}.gguf") for name in ("f16", "labels", "distilled"))
BITS = (8, 6, 5, 4, 3, 2)


def held_out():
    """The stories, one after the other."""
    folder = os.path.join(FOLDER, "held_out")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            yield f.read()


def scored(*options):
    """Perplexity of the first half of the stories under options, that of the exact twin, and the divergence, a token."""
    lossy = exact = kl = n = 0
    for i, story in enumerate(list(held_out())[:16]):
        path = os.path.join(lab.FOLDER.name, f"story-{i}.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(story)
        told = lab.report("score", *options, path)
        tokens = len(told["logp"])
        lossy, exact = lossy + sum(told["logp"]), exact - math.log(told["exact_perplexity"]) * tokens
        kl, n = kl + told["mean_kl"] * tokens, n + tokens
    return Numbers(ppl=math.exp(-lossy / n), source=math.exp(-exact / n), kl=kl / n)


@measure("seconds")
def file_of(*options, source=LARGE):
    """A file in 16 bits, quantised, and what it costs; bits of a weight."""
    path = os.path.join(lab.FOLDER.name, "-".join(["stories", *(o.strip("-") for o in options if "/" not in o)]) + ".gguf")
    made = lab.report("quantize", *options, source, path)
    m = scored("--model", path, "--twin", source)
    os.unlink(path)
    m.bits, m.smaller, m.seconds = made["bits_a_weight"], made["source_bytes"] / made["bytes"], made["seconds"]
    return m


def by(method, bits, source=LARGE, group=32):
    return file_of("--bits", str(bits), "--group", str(group), "--zero-point", "--method", method,
                   *() if method == "rtn" else ("--calibrate", os.path.join(lab.ROOT, "demos/texts/readme.txt")), source=source)


@measure()
def methods():
    """From 16 bits to 4 and 3, by three methods."""
    return Numbers(**{f"{method}{bits}": by(method, bits) for method in ("rtn", "gptq", "awq") for bits in (4, 3)})


@measure()
def formats():
    """From 16 bits to whole formats of files, and to 4 bits by GPTQ; how many times smaller than in 16 and 32 bits."""
    m = Numbers(q8=file_of("--format", "q8_0"), q4=file_of("--format", "q4_0"), bf16=file_of("--format", "bf16"), gptq=by("gptq", 4, group=128))
    for x in vars(m).values():
        x.less, x.less32 = 16 / x.bits, 32 / x.bits
    return m


@measure()
def by_tensor():
    """From 16 bits to 8 with one scale a tensor, with a zero point and without."""
    return Numbers(scale=file_of("--bits", "8", "--group", "tensor"), zero=file_of("--bits", "8", "--group", "tensor", "--zero-point"))


@measure()
def laws():
    """Perplexity by bits of both sizes, rounded in groups of 32 when opened."""
    m = Numbers(large={}, small={})
    for model, at in ((LARGE, m.large), (SMALL, m.small)):
        for bits in BITS:
            found = scored("--model", model, "--weights", f"{bits}/32", "--twin", "on")
            at[bits], at[16] = found.ppl, found.source
    m.times = weights(LARGE) / weights(SMALL)
    m.bits = max(bits for bits in BITS if bits * m.times <= 16)
    m.at_bits = m.large[m.bits]
    return m


@measure()
def eights():
    """8 bits a weight, a scale a row: floats and integers."""
    at = {form: scored("--model", LARGE, "--weights", form, "--twin", "on") for form in ("e4m3/row", "8/row")}
    return Numbers(fp8=at["e4m3/row"], int8=at["8/row"])


@measure()
def weights(model):
    return run("--model", model, "--raw", "--greedy", "--max-tokens", "1", text="Once").one("SELECT params FROM session")


@measure("speed")
def pair(drafter, target=LARGE):
    """Eight stories told on by a model, with a whole smaller model four ahead, and without: tokens a step, share of first
    guesses that are kept, equal answers, and the speed."""
    m, sums = Numbers(equal=0, n=0), [0] * 6
    for story in list(held_out())[:8]:
        begin = " ".join(story.split()[:10])
        options = ("--model", target, "--raw", "--temp", "0.8", "--seed", "5", "--max-tokens", "120")
        plain, drafted = run(*options, text=begin), run(*options, "--spec", f"draft:{drafter},4,4,1", text=begin)
        m.n, m.equal = m.n + 1, m.equal + (plain.lines == drafted.lines)
        found = (*drafted.rows("SELECT sum(tokens), count(*), sum(ns) FROM step WHERE prefill_rows = 0")[0],
                 *drafted.rows("SELECT sum(verdict = 0), sum(verdict < 2) FROM draft WHERE depth = 1")[0],
                 plain.one("SELECT sum(ns) FROM step WHERE prefill_rows = 0"))
        sums = [a + b for a, b in zip(sums, found)]
    m.tokens, m.first, m.speed = sums[0] / sums[1], sums[3] / sums[4], sums[5] / sums[2]
    return m


@measure("taught.speed alone.speed")
def pairs():
    """The small model as its training by text left it, and distilled from the large one."""
    return Numbers(alone=pair(SMALL), taught=pair(DISTILLED))
