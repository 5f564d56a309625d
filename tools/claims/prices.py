"""Measurements of what is near zero, and of what leaving it out costs and saves."""
import os

import lab
from lab import Numbers, Range, measure, run
from steps import DECODE, questions, stage

TOKENS = 96
THRESHOLDS = ("0.005", "0.01", "0.02", "0.05", "0.1")
COMMON = ("--greedy", "--max-tokens", str(TOKENS), "--attention-every", "1")


def means(r, what):
    """Mean over the layers and tokens of what the log says of near-zero values."""
    return r.one("SELECT avg(share) FROM near_zero_values WHERE what = ?", what)


@measure()
def zeros():
    """Values below shares of their row's largest: what attention gives, and the inner values of the feed-forwards."""
    r = run(*COMMON, text=lab.prompts()[0][1])
    m = Numbers(output=[means(r, f"output_{k}") for k in (1, 2, 3, 4)], inner=[means(r, f"inner_{k}") for k in (1, 2, 3, 4)])
    m.overlap, m.kept = means(r, "overlap"), means(r, "kept")
    m.chance = r.one("SELECT avg(share / (2 - share)) FROM near_zero_values WHERE what = 'kept'")
    m.layers = r.values("SELECT avg(share) FROM near_zero_values WHERE what = 'inner_2' GROUP BY layer")
    m.weights = r.one("SELECT avg(share) FROM near_zero")
    return m


@measure()
def zeros_together(n):
    """What n requests of one step keep together."""
    r = lab.batch(questions(n), "--slots", str(n), "--greedy", "--max-tokens", "32", "--attention-every", "1", "--skip-below", "0.05")
    whole = r.rows("SELECT rows, avg(share) FROM near_zero_values WHERE what = 'together' GROUP BY rows ORDER BY rows DESC")[0]
    alone = r.one("SELECT avg(share) FROM near_zero_values WHERE what = 'kept' AND rows = ?", whole[0])
    free = 1 - (1 - alone)**whole[0]
    return Numbers(rows=whole[0], any=whole[1], one=alone, free=free, gone=1 - alone, all_gone=1 - whole[1], free_gone=1 - free)


@measure()
def price(*options):
    """Divergence and perplexities of a text under lossy settings, beside the exact twin."""
    s = lab.report("score", os.path.join(lab.ROOT, "tests/data/score.txt"), "--twin", "on", *options)
    return Numbers(kl=s["mean_kl"], lossy=s["perplexity"], exact=s["exact_perplexity"])


@measure("ms down_ms")
def skipping(threshold):
    """The last product of the feed-forwards in decode steps."""
    r = run(*COMMON[:-1], "16", "--skip-below", threshold, text=lab.prompts()[0][1])
    steps = r.one(f"SELECT count(*) FROM step WHERE {DECODE}")
    m = Numbers(threshold=threshold, down_mb=stage(r, "down", "bytes") / steps / 1e6)
    m.down_ms = stage(r, "down", "ns") / steps / 1e6
    m.ms = Range([ns / 1e6 for ns in r.values(f"SELECT kernel_ns FROM step WHERE {DECODE}")])
    return m


@measure("even all_columns_ms rows_ms")
def skips():
    """Bytes, time and price by threshold; from which share of bytes on reading by columns takes as long as reading by rows."""
    m = Numbers(rows=skipping("0"), at=[skipping(t) for t in THRESHOLDS], all=skipping("1e-7"))
    m.kl = [price("--skip-below", t).kl for t in THRESHOLDS]
    m.rows_ms, m.all_columns_ms = m.rows.down_ms, m.all.down_ms
    m.least_mb = min(one.down_mb for one in m.at)
    faster = [one for one in m.at if one.down_ms < m.rows_ms]
    m.even = faster[0].down_mb / m.rows.down_mb if faster else 0
    cheap = [one for one, kl in zip(m.at, m.kl) if one.down_ms < m.rows_ms and kl < 0.1]
    m.faster, m.dear = bool(cheap), bool(faster)
    m.table = "; ".join(f"below {one.threshold}: {one.down_mb:.1f} MB, {one.down_ms:.2f} ms, KL {kl:.3f}"
                        for one, kl in zip(m.at, m.kl))
    return m


ROUNDED = ("f32", "bf16", "e4m3", "e5m2", "int8-block", "int8-token", "int8-tensor")


@measure()
def rounded():
    """The same weights, as floats, with activations of each format, beside the model's own way (8 bits in blocks)."""
    at = {name: price("--activations", name) for name in ROUNDED}
    return Numbers(at=at, best8=min(at[n].kl for n in ROUNDED[2:]), exact=at["f32"].exact, f32=at["f32"].lossy,
                   token=at["int8-token"].kl, tensor=at["int8-tensor"].kl, block=at["int8-block"].kl, e4m3=at["e4m3"].kl,
                   tensor_ppl=at["int8-tensor"].lossy, block_more=at["int8-block"].lossy / at["f32"].lossy - 1)


@measure()
def outliers(model=lab.MODEL, text=None):
    """Channels of activations over a shipped prompt, or a text."""
    how = ("--raw",) if text else ()
    r = run("--model", model, *how, "--greedy", "--max-tokens", "1", "--outliers", "measure", text=text or lab.prompts()[0][1])
    m = Numbers(inputs=r.one("SELECT count(*) FROM outliers"))
    m.worst, m.layer, m.stage, m.smoothed = r.rows(
        "SELECT largest / median AS x, layer, (SELECT name FROM code WHERE list = 'stage' AND value = stage), smoothed FROM outliers "
        "ORDER BY x DESC LIMIT 1")[0]
    for name in ("qkv", "out", "gate_up", "down"):
        ratios = r.values("SELECT largest / median FROM outliers JOIN code ON list = 'stage' AND value = stage WHERE name = ? "
                          "ORDER BY 1", name)
        setattr(m, name, ratios[len(ratios) // 2])
    m.milder = r.one("SELECT avg(smoothed < largest / median) FROM outliers")
    m.apart = r.one("SELECT 1.0 * sum(above_six) / sum(channels) FROM outliers")
    return m


def smooth():
    """The model after SmoothQuant, its factors moved into the weights, which stay at 16 bits so that nothing else changes."""
    path = os.path.join(lab.FOLDER.name, "smooth.gguf")
    if not os.path.exists(path):
        text = os.path.join(lab.ROOT, "demos/texts/readme.txt")
        lab.report("quantize", "--format", "f16", "--method", "smoothquant", "--calibrate", text, lab.MODEL, path)
    return path


@measure()
def smoothed():
    """Activations of 8 bits, with a scale a tensor and a scale a token, before SmoothQuant and after it, beside the exact source."""
    m = Numbers(**vars(outliers()), before={}, after={})
    for name in ("f32", "int8-token", "int8-tensor"):
        m.before[name] = price("--activations", name)
        m.after[name] = price("--model", smooth(), "--activations", name, "--twin", lab.MODEL)
    return m


@measure()
def pruned(*options):
    """The model pruned, calibrated by demos/texts/readme.txt, beside itself."""
    path = os.path.join(lab.FOLDER.name, "pruned-" + "-".join(o.strip("-").replace(":", "") for o in options) + ".gguf")
    text = () if "magnitude" in options else ("--calibrate", os.path.join(lab.ROOT, "demos/texts/readme.txt"))
    made = lab.report("prune", *options, *text, lab.MODEL, path)
    s = lab.report("score", os.path.join(lab.ROOT, "tests/data/score.txt"), "--model", path, "--twin", lab.MODEL)
    os.unlink(path)
    return Numbers(kl=s["mean_kl"], lossy=s["perplexity"], exact=s["exact_perplexity"], gone=made["gone"] / made["weights"],
                   mb=made["bytes"] / 1e6, source_mb=made["source_bytes"] / 1e6, dense_mb=made["dense_bytes"] / 1e6,
                   pattern_mb=made["pattern_bytes"] / 1e6)


@measure()
def connections():
    """Weights that become zero, by method and share."""
    return Numbers(tenth=pruned("--sparsity", "0.1"), half=pruned("--sparsity", "0.5"),
                   tenth_plain=pruned("--method", "magnitude", "--sparsity", "0.1"),
                   plain=pruned("--method", "magnitude", "--sparsity", "0.5"))
