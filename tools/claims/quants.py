"""Measurements of tools/claims that make files with `cutaway quantize`. The only source here is the Q4_1 file, which was
quantised before: what is measured is the difference to that, by its twin, on a text that no calibration read."""
import os

import lab
from lab import Numbers, measure

HELD_OUT = os.path.join(lab.ROOT, "demos/texts/search.txt")
CALIBRATION = os.path.join(lab.ROOT, "demos/texts/readme.txt")


@measure("minutes")
def quantised(*options):
    """A file made with these options, scored beside the source: perplexity, divergence, bits of a weight, minutes."""
    name = "-".join(os.path.basename(o).strip("-") for o in options)
    path = os.path.join(lab.FOLDER.name, f"quantised-{name}.gguf")  # a command that was run is not run again
    told = lab.report("quantize", *options, lab.MODEL, path)
    score = lab.report("score", "--model", path, "--twin", lab.MODEL, HELD_OUT)
    os.unlink(path)
    return Numbers(bits=told["bits_a_weight"], minutes=told["seconds"] / 60, error=told["relative_error"],
                   apart=told["outliers"] / told["weights"], ppl=score["perplexity"], source=score["exact_perplexity"],
                   kl=score["mean_kl"])


def by(method, *options):
    return quantised(*options, "--method", method, "--calibrate", CALIBRATION)


@measure()
def granularity():
    """4 bits with a scale a tensor, a row, a group of 128 and of 32."""
    at = {group: quantised("--bits", "4", "--group", str(group)) for group in ("tensor", "row", 128, 32)}
    return Numbers(at=at, source=at["row"].source, spread=at["tensor"].kl / at[32].kl)


@measure("rtn3.minutes rtn4.minutes gptq3.minutes gptq4.minutes")
def second_order():
    """Each weight to the nearest, and GPTQ, at 3 and 4 bits in groups of 128."""
    return Numbers(rtn3=quantised("--bits", "3"), rtn4=quantised("--bits", "4"), gptq3=by("gptq", "--bits", "3"),
                   gptq4=by("gptq", "--bits", "4"))


@measure("rtn3.minutes awq3.minutes")
def salient():
    """Each weight to the nearest, and AWQ, at 3 bits in groups of 128 with a zero point, as its authors' code has it."""
    return Numbers(rtn3=quantised("--bits", "3", "--zero-point"), awq3=by("awq", "--bits", "3", "--zero-point"))


@measure()
def kept():
    """The same, and a share of the columns, of the largest inputs, in 16 bits."""
    return Numbers(at={share: by("salient", "--bits", "3", "--zero-point", "--apart", share) for share in ("0.001", "0.01")})


@measure("row.minutes apart.minutes")
def apart():
    """8 bits with a scale a row, all of it and but for the columns of outliers."""
    return Numbers(row=quantised("--bits", "8", "--group", "row"), apart=by("llm.int8"))


@measure()
def rounded_live(bits):
    """The model, whose layers were rounded when it was opened, in groups of 32, beside its exact twin."""
    score = lab.report("score", "--model", lab.MODEL, "--weights", f"{bits}/32", "--twin", "on", HELD_OUT)
    return Numbers(ppl=score["perplexity"], source=score["exact_perplexity"], kl=score["mean_kl"])


@measure()
def fewer_bits():
    """Groups of 32 in 8 … 2 bits."""
    at = {bits: rounded_live(bits) for bits in (8, 6, 5, 4, 3, 2)}
    return Numbers(at=at, source=at[8].source)
