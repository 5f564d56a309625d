"""Measurements of tools/claims that make files with `cutaway quantize`. The only source here is the Q4_1 file, which was
quantised before: what is measured is the difference to that, by its twin, on a text that no calibration read."""
import os
import statistics

import lab
from lab import Numbers, Range, batch, measure, merge, run
from prices import price
from steps import DECODE, formats, questions, shape

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


@measure("rtn3.minutes awq3.minutes rtn4.minutes awq4.minutes")
def salient():
    """Each weight to the nearest, and AWQ, at 3 and 4 bits in groups of 128 with a zero point, as its authors' code has it."""
    return Numbers(rtn3=quantised("--bits", "3", "--zero-point"), awq3=by("awq", "--bits", "3", "--zero-point"),
                   rtn4=quantised("--bits", "4", "--zero-point"), awq4=by("awq", "--bits", "4", "--zero-point"))


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


TURNS = 3  # of each way, one after the other


def decoded(again, texts, way, model, *more):
    """Median milliseconds of a decode step of one row and of 16."""
    options = ("--model", model, "--greedy", "--activations", way, *more)
    one = run(*options, "--max-tokens", "32", text=texts[0] if texts else lab.prompts()[0][1], again=again)
    many = batch(texts or questions(16), *options, "--slots", "16", "--max-tokens", "16", again=again)
    return [statistics.median(r.values(f"SELECT kernel_ns FROM step WHERE {DECODE} AND rows = ?", n)) / 1e6
            for r, n in ((one, 1), (many, 16))]


def raced(texts=None, **ways):
    """Of ways, models and options how long a step takes, and how many times as long as by the first, in pairs."""
    turns = [{name: decoded(again, texts, *way) for name, way in ways.items()} for again in range(TURNS)]
    first = next(iter(ways))
    return {name: Numbers(one=Range([t[name][0] for t in turns]), many=Range([t[name][1] for t in turns]),
                          one_times=Range([t[name][0] / t[first][0] for t in turns]),
                          many_times=Range([t[name][1] / t[first][1] for t in turns])) for name in ways}


@measure()
def three_bits():
    """Random matrices of one shape in 3, 4 and 16 bits: bytes of a token, and steps."""
    at = {kind: lab.random_model("0.4B-" + kind, *shape(1024, 24, 16, 4, 4096, 49152, kind, kind)) for kind in ("F16", "Q4_K", "Q3_K")}
    texts = [f"a {i}" for i in range(16)]  # to a random vocabulary a question is long
    ways = raced(texts, f16=("model", at["F16"]), q4=("model", at["Q4_K"]), q3=("model", at["Q3_K"]), q3a16=("f16", at["Q3_K"]))
    smaller = {kind: os.path.getsize(at["F16"]) / os.path.getsize(path) for kind, path in at.items()}
    faster = {way: Numbers(one=Range([1 / x for x in ways[way].one_times.values]), many=Range([1 / x for x in ways[way].many_times.values]))
              for way in ("q4", "q3", "q3a16")}
    return Numbers(smaller=smaller, faster=faster)


@measure()
def thinned():
    """The model with two of each four weights, multiplied whole and without half of the zeros: steps, and whether hashes are equal."""
    path = os.path.join(lab.FOLDER.name, "pairs.gguf")
    lab.report("prune", "--method", "magnitude", "--pattern", "2:4", lab.MODEL, path)
    both = {name: ("model", path, "--pack-zeros", packed) for name, packed in (("whole", "off"), ("packed", "on"))}
    ways = raced(**both)
    hashes = [[line["hash"] for line in run("--model", path, "--greedy", "--max-tokens", "32", "--pack-zeros", packed,
                                            text=lab.prompts()[0][1]).lines] for packed in ("off", "on")]
    return Numbers(packed=ways["packed"], equal=hashes[0] == hashes[1])


@measure()
def weight_only():
    """The file's 4-bit weights with activations in 8 bits, and as computed or in f16 with weights decoded on the way."""
    ways = raced(w4a8=("model", lab.MODEL), w4a32=("f32", lab.MODEL), w4a16=("f16", lab.MODEL))
    return Numbers(**ways, kl=price("--activations", "f32").kl, kl16=price("--activations", "f16").kl)


@measure("opens16 opens4")
def opened():
    """Q4_0 and F16 of one shape: to one token, and Q4_0 with activations of 16 bits."""
    m = formats()
    at = {kind: os.path.join(lab.MODELS, f"135M-{kind}.gguf") for kind in ("F16", "Q4_0")}
    ways = raced(f16=("model", at["F16"]), w4a16=("f16", at["Q4_0"]))
    seconds = {kind: run("--model", path, "--raw", "--packed-cache", "off", "--greedy", "--max-tokens", "1", text="a").seconds
               for kind, path in at.items()}
    return merge(m, Numbers(w4a16=ways["w4a16"], opens16=seconds["F16"], opens4=seconds["Q4_0"]))


@measure()
def split():
    """LLM.int8() at run time, beside products in integers and in 16 bits of the same weights."""
    at = {kind: os.path.join(lab.FOLDER.name, f"split-{kind}.gguf") for kind in ("f16", "q8_0")}
    for kind, path in at.items():
        lab.report("quantize", "--format", kind, lab.MODEL, path)
    ways = raced(f16=("model", at["f16"]), int8=("model", at["q8_0"]), split=("llm.int8", at["q8_0"]))
    kl = {way: price("--model", at["q8_0"], "--activations", way, "--twin", at["f16"]).kl for way in ("model", "int8-token", "llm.int8")}
    return Numbers(**ways, kl=kl)
