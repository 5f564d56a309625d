"""Measurements of plain decoding and prompts: shapes, depth, batches, the machine's roofs, formats, sizes."""
import math
import os
import statistics

import lab
from lab import Numbers, Range, batch, measure, merge, run

DECODE = "prefill_rows = 0 AND draft_rows = 0"
STAGE = "SELECT coalesce(sum({}), 0) FROM kernel_stages k JOIN step s USING (step) WHERE k.stage LIKE ? AND {}"


def stage(r, name, column, where=DECODE):
    """Sum of ns, bytes or ops of a stage (% for all) over the steps that `where` names."""
    return r.one(STAGE.format("k." + column, "s." + where.replace(" AND ", " AND s.")), name)


def a_byte(r, name, where=DECODE):
    """Operations a byte, both counted from shapes."""
    return stage(r, name, "ops", where) / stage(r, name, "bytes", where)


@measure()
def shapes():
    """The model's numbers as a recording has them, and what follows from them by the formulas."""
    r = run("--greedy", "--max-tokens", "48", text=lab.prompts()[0][1])
    m = Numbers(**dict(r.rows("SELECT * FROM session")[0]))
    m.kv_token = m.page_bytes / m.page_size
    m.kv_formula = 2 * 2 * m.n_kv_heads * m.head_dim * m.n_layers
    m.kv_heads_all, m.kv_one_head = m.kv_formula * m.n_heads / m.n_kv_heads, m.kv_formula / m.n_kv_heads
    m.over = m.n_heads / m.n_kv_heads
    m.kv_full_mb, m.weights_mb = m.kv_token * m.ctx / 1e6, m.weight_bytes / 1e6
    m.n_prompt = r.one("SELECT n_prompt FROM request")
    m.prompt_rows, m.prompt_steps = r.one("SELECT sum(prefill_rows) FROM step"), r.one("SELECT sum(prefill_rows > 0) FROM step")
    m.steps, m.rows, m.tokens = r.rows(f"SELECT count(*), max(rows), sum(tokens) FROM step WHERE {DECODE}")[0]
    m.qkv_prompt, m.qkv_decode = a_byte(r, "qkv", "prefill_rows > 0"), a_byte(r, "qkv")
    m.gate_decode, m.attention_decode = a_byte(r, "gate_up"), a_byte(r, "attention")
    m.waste, m.reserved = r.rows("SELECT max(tail_waste_bytes), max(reserve_waste_bytes) FROM step")[0]
    m.decode_bytes = r.one(f"SELECT avg(bytes) FROM step WHERE {DECODE}")
    m.decode_ops = r.one(f"SELECT avg(ops) FROM step WHERE {DECODE}")
    reads = r.values(f"SELECT k.bytes FROM kernel_stages k JOIN step s USING (step) WHERE k.stage = 'attention' AND s.{DECODE.replace(' AND ', ' AND s.')} ORDER BY s.step")
    m.read_token, m.q_token = statistics.median(b - a for a, b in zip(reads, reads[1:])), 2 * m.n_heads * m.head_dim * m.n_layers
    return m


@measure()
def sequences():
    """Pages that eight answers of their own lengths took, beside the formula's bytes for the tokens whose K and V they hold."""
    r = answered(8)
    s = Numbers(**dict(r.rows("SELECT * FROM session")[0]))
    # the last token of an answer is not computed
    tokens = r.values("SELECT r.n_prompt + f.generated - 1 FROM finish f JOIN request r USING (request)")
    pages = r.one("SELECT count(DISTINCT request || ':' || block) FROM page WHERE action = 0")
    m = Numbers(n=len(tokens), tokens=sum(tokens), page=s.page_size, held=pages * s.page_bytes)
    each = 2 * 2 * s.n_kv_heads * s.head_dim * s.n_layers
    m.formula = m.tokens * each
    m.over = (m.held - m.formula) / each / m.n
    return m


@measure()
def kept():
    """Bytes of the pages of B sequences of S tokens, and by the formula, whose tokens fill whole pages."""
    m, shape = Numbers(table={}), shapes()
    for b, s in ((1, 256), (4, 256), (1, 1024), (4, 1024)):
        text = lab.text_of(b * s * 1.5)
        r = batch([text[i * len(text) // b:(i + 1) * len(text) // b].replace("\n", " ") for i in range(b)], "--raw", "--greedy",
                  "--slots", str(b), "--max-tokens", "2", "--no-prefix-cache")
        tokens = r.values("SELECT n_prompt + 1 FROM request")  # the last token of an answer is not computed
        held = r.one("SELECT count(DISTINCT request || ':' || block) FROM page WHERE action = 0") * shape.page_bytes
        filled = sum(-(-n // shape.page_size) for n in tokens) * shape.page_size * shape.kv_formula
        m.table[b, s] = Numbers(tokens=sum(tokens), held=held, filled=filled)
    m.equal = all(x.held == x.filled for x in m.table.values())
    m.counted = ", ".join(f"{b} of {x.tokens // b:,} tokens {x.held / 1e6:.1f} MB" for (b, _), x in m.table.items())
    return m


@measure()
def heads():
    """The same formula for models with other numbers of heads."""
    found = {}
    for name in ("multi-head", "grouped", "single"):
        r = run("--model", os.path.join(lab.ROOT, f"demos/models/family/{name}.gguf"), "--raw", "--max-tokens", "1", text="A")
        s = Numbers(**dict(r.rows("SELECT * FROM session")[0]))
        found[name] = 2 * 2 * s.n_kv_heads * s.head_dim * s.n_layers, s.page_bytes / s.page_size
    return Numbers(others=", ".join(f"{name} {a:,} and {b:,.0f}" for name, (a, b) in found.items()),
                   others_equal=all(a == b for a, b in found.values()))


@measure("attention_share prompt_ms prompt_attention prompt_attention_ms")
def depth(tokens, way="flash"):
    """One answer of 16 tokens after a prompt of about so many."""
    r = run("--raw", "--greedy", "--max-tokens", "16", "--attention-every", "1", "--no-prefix-cache",
            *(["--attention", way] if way != "flash" else []), text=lab.text_of(tokens))
    m = Numbers(tokens=r.one("SELECT n_prompt FROM request"))
    m.hashes = r.values("SELECT hash FROM token ORDER BY pos")
    m.prompt_attention_ms = stage(r, "attention", "ns", "prefill_rows > 0") / 1e6
    steps = r.one(f"SELECT count(*) FROM step WHERE {DECODE}")
    m.ms = Range([ns / 1e6 for ns in r.values(f"SELECT ns FROM step WHERE {DECODE}")])
    m.attention_share = stage(r, "attention", "ns") / stage(r, "%", "ns")
    m.attention_ops, m.ops = stage(r, "attention", "ops") / steps, stage(r, "%", "ops") / steps
    m.attention_mb, m.bytes = stage(r, "attention", "bytes") / steps / 1e6, stage(r, "%", "bytes") / steps
    m.prompt_ms = r.one("SELECT sum(ns) / 1e6 FROM step WHERE prefill_rows > 0")
    m.prompt_attention = stage(r, "attention", "ns", "prefill_rows > 0") / stage(r, "%", "ns", "prefill_rows > 0")
    m.prompt_attention_ops = stage(r, "attention", "ops", "prefill_rows > 0")
    m.prompt_attention_mb = stage(r, "attention", "bytes", "prefill_rows > 0") / 1e6
    m.near_zero = statistics.mean(r.values("SELECT share FROM near_zero"))
    return m


@measure("slower prompt_slower")
def depths():
    """From 64 tokens to 8,000, and the laws that the counts follow."""
    at = {n: depth(n) for n in (64, 1024, 4096, 8000)}
    near, far, model = at[1024], at[8000], shapes()
    m = Numbers(at=at, slower=far.ms.median / at[64].ms.median)
    m.power = math.log(far.prompt_attention_ops / near.prompt_attention_ops) / math.log(far.tokens / near.tokens)
    m.even = near.tokens * (near.ops - near.attention_ops) / near.attention_ops
    m.prompt_slower = (far.prompt_ms / far.tokens) / (near.prompt_ms / near.tokens)
    m.held = model.kv_token * far.tokens / 1e6
    return m


@measure("faster split")
def ways():
    """Attention in tiles that stay in a cache, without sharing a head's spans, and with all scores in memory."""
    at = {way: depth(4096, way) for way in ("flash", "heads", "matrix")}
    m = Numbers(at=at, same=all(d.hashes == at["flash"].hashes for d in at.values()))
    m.faster = at["matrix"].prompt_attention_ms / at["flash"].prompt_attention_ms
    return m


@measure()
def spans():
    """Attention of tokens 4,096 deep where threads do not share a head's spans, against where they do, by turns: of the model, and of one
    head."""
    one, m = lab.random_model("one-head", *shape(64, 4, 1, 1, 256, 512)), {}
    for name, model, text in (("many", (), lab.text_of(4096)), ("single", ("--model", one), "a " * 4095)):
        times = []
        for again in range(3):
            ns = [stage(run(*model, "--raw", "--greedy", "--max-tokens", "32", "--no-prefix-cache", "--attention", way, text=text,
                            again=("spans", again)), "attention", "ns") for way in ("heads", "flash")]
            times.append(ns[0] / ns[1])
        m[name] = Range(times)
    return Numbers(**m)


@measure("bytes ops reads integers floats ridge tok_s prompt_tok_s")
def roofs():
    """Where decoding and prompts stand against plain reads and 8-bit multiply-adds."""
    b = lab.report("bench", "--only", "decode_tok_s")
    m = Numbers(reads=b["read_gb_s"], integers=b["int_gmac_s"], floats=b["float_gmac_s"], tok_s=b["decode_tok_s"])
    m.prompt_tok_s = lab.report("bench", "--only", "prefill_tok_s")["prefill_tok_s"]
    m.ridge = 2 * m.integers / m.reads
    r = run("--raw", "--greedy", "--max-tokens", "32", text=lab.text_of(512))
    for name, where, rate in (("decode", DECODE, m.tok_s), ("prompt", "prefill_rows > 0", m.prompt_tok_s)):
        rows = r.one(f"SELECT sum(rows) FROM step WHERE {where}")
        moved, ops = (stage(r, "%", column, where) for column in ("bytes", "ops"))
        share = Numbers(bytes=moved / rows * rate / m.reads / 1e9, ops=ops / rows * rate / (2 * m.integers) / 1e9)
        setattr(m, name, merge(share, a_byte=ops / moved))
    m.decode.bytes = b["weights_fraction"]  # of reads of the weights beside each run
    return m


@measure("flat")
def row_costs():
    """c(K): a step of K rows against one of 1, as dummy steps; the median of three measurements."""
    found = {}
    for again in range(3):
        r = run("--greedy", "--max-tokens", "8", "--shadow", "ngram:4", text=lab.prompts()[0][1], again=again)
        points = dict(r.rows("SELECT rows, min(ns) FROM cost WHERE depth = 0 GROUP BY rows"))
        for rows, ns in points.items():
            found.setdefault(rows, []).append(ns / points[1])
    m = Numbers(at={rows: Range(values) for rows, values in found.items() if len(values) == 3})
    m.flat = max(rows for rows, c in m.at.items() if c.median < 1.1)
    return m


@measure("by work")
def predictions():
    """Milliseconds of a step by its bytes and the rate of plain reads, and by its operations and that of integers, beside the time that
    it took."""
    m, roof, model = loads(), roofs(), shapes()
    cache = 48 * model.kv_token / 1e6  # a sequence of the load is about 48 tokens deep
    return Numbers(at=m.at, reads=roof.reads, integers=roof.integers,
                   by={n: (model.weights_mb + n * cache) / roof.reads for n in (1, 32)},
                   work={n: n * model.decode_ops / (2e6 * roof.integers) for n in (1, 32)})


def questions(n):
    return [f"Question {i + 1}: {prompt}".replace("\n", "\\n") for i, (_, prompt) in zip(range(n), lab.prompts() * 4)]


def answered(slots):
    """At least 16 questions, answered so many at once."""
    return batch(questions(max(16, slots)), "--greedy", "--slots", str(slots), "--max-tokens", "32", "--no-prefix-cache")


@measure("seconds tok_s whole")
def load(slots):
    """Speed, shapes and waits of such a batch."""
    r = answered(slots)
    m = Numbers(slots=slots, seconds=r.one("SELECT sum(ns) / 1e9 FROM step"), tokens=r.one("SELECT sum(tokens) FROM step"))
    full = f"{DECODE} AND rows = {slots}"
    m.ms = Range([ns / 1e6 for ns in r.values(f"SELECT ns FROM step WHERE {full}")])
    m.most_rows = r.one(f"SELECT max(rows) FROM step WHERE {DECODE}")
    m.tok_s, m.whole = slots * 1e3 / m.ms.median, m.tokens / m.seconds
    m.gate, m.attention = a_byte(r, "gate_up", full), a_byte(r, "attention", full)
    m.waited = Range([ns / 1e6 for ns in r.values("SELECT first_token_ns FROM finish")])
    m.busy = r.one("SELECT avg(running) FROM step WHERE waiting > 0") / slots
    m.lengths = sorted(r.values("SELECT generated FROM finish"))
    m.rows, m.padded = r.rows("SELECT sum(rows), sum(padded) FROM (SELECT sum(rows) AS rows, count(*) * max(rows) AS padded "
                              "FROM batch GROUP BY step)")[0]
    m.each = r.one("SELECT max(b.rows) FROM batch b JOIN step s USING (step) WHERE s.prefill_rows = 0 AND s.draft_rows = 0")
    m.path = r.path
    return m


@measure("cost gain best")
def loads():
    at = {n: load(n) for n in (1, 2, 4, 8, 16, 32)}
    m = Numbers(at=at, cost={n: x.ms.median / at[1].ms.median for n, x in at.items()})
    m.gain = at[16].whole / at[1].whole
    m.best = max(at.values(), key=lambda x: x.tok_s)
    return m


@measure()
def paged():
    """16 answers one after the other and 4, 8, 16 at once: every hash of logits, and how many of their pages have neighbours."""
    rows = [{tuple(x) for x in answered(n).rows("SELECT request, pos, id, hash FROM token")} for n in (1, 4, 8, 16)]
    blocks = answered(8).rows("SELECT request, block, page FROM page WHERE action = 0 ORDER BY request, block")
    pairs = [(a, b) for a, b in zip(blocks, blocks[1:]) if a["request"] == b["request"]]
    return Numbers(equal=all(r == rows[0] for r in rows), tokens=len(rows[0]), pairs=len(pairs),
                   apart=sum(b["page"] != a["page"] + 1 for a, b in pairs))


@measure("gain naive rate rate_static")
def static_batches():
    """24 questions with answers of up to 192 tokens on 8 slots: as they end, in three batches that wait for their longest, and one
    after the other."""
    options, lines = ("--greedy", "--max-tokens", "192", "--no-prefix-cache"), questions(24)
    apart = [batch(lines[i:i + 8], *options, "--slots", "8") for i in (0, 8, 16)]
    one, flow = (batch(lines, *options, "--slots", n) for n in "18")
    m = Numbers(steps=flow.one("SELECT count(*) FROM step"), tokens=flow.one("SELECT sum(tokens) FROM step"))
    m.steps_static, m.tokens_static = (sum(r.one(f"SELECT {x} FROM step") for r in apart) for x in ("count(*)", "sum(tokens)"))
    m.busy, m.busy_static = m.tokens / m.steps / 8, m.tokens_static / m.steps_static / 8
    seconds = [r.one("SELECT sum(ns) / 1e9 FROM step") for r in (flow, one)]
    m.rate, m.rate_static = m.tokens / seconds[0], m.tokens / sum(r.one("SELECT sum(ns) / 1e9 FROM step") for r in apart)
    m.naive = m.tokens / seconds[1]
    m.gain = m.rate / m.naive
    m.by_end, m.by_length = (flow.one("SELECT count(*) FROM finish WHERE reason = ?", reason) for reason in (0, 1))
    lengths = sorted(flow.values("SELECT generated FROM finish"))
    m.ended = [lengths[len(lengths) * i // 10] for i in (1, 5, 9)]
    return m


@measure("longest usual")
def pause(chunk):
    """Eight answers under way, or ended one by one, when a prompt of about 1,500 tokens comes in."""
    lines = questions(8) + [lab.text_of(1500).replace("\n", "\\n")]
    r = batch(lines, "--greedy", "--slots", "8", "--max-tokens", "48", "--prefill-chunk", str(chunk), "--budget", "2048")
    m = Numbers(both=r.one("SELECT count(*) FROM step WHERE prefill_rows > 0 AND decode_rows > 0"))
    m.longest = r.one("SELECT max(ns) / 1e6 FROM step WHERE decode_rows > 0")
    m.usual = r.one(f"SELECT avg(ns) / 1e6 FROM step WHERE {DECODE}")
    return m


@measure("ttft")
def prompts_together(budget):
    """Eight different prompts of about 200 tokens that come at once, in steps of at most so many rows: waits for the first token."""
    text = lab.text_of(1600)
    lines = [text[i * len(text) // 8:(i + 1) * len(text) // 8].replace("\n", " ") for i in range(8)]
    r = batch(lines, "--raw", "--greedy", "--slots", "8", "--max-tokens", "8", "--prefill-chunk", "0", "--budget", str(budget),
              "--no-prefix-cache")
    return Numbers(ttft=r.one("SELECT avg(first_token_ns) / 1e6 FROM finish"),
                   most=r.one("SELECT max(prefill_rows) FROM step"))


def formulas(*options):
    """The sheet of formulas, a line by its name."""
    return {line["what"]: Numbers(**line) for line in lab.report("formulas", *options)["formulas"]}


@measure()
def memory_sheet():
    """Memory by formula, beside what is counted of 8 requests; and what a published machine would hold."""
    sheet, large = formulas("--sequences", "8", "--depth", "256"), formulas("--machine", "h100", "--sequences", "8", "--depth", "4096")
    used, fits = sheet["memory in use"], large["largest batch that fits"]
    small = formulas("--machine", "rtx4090", "--sequences", "8", "--depth", "4096")["largest batch that fits"]
    deep = round((used.value - shapes().weight_bytes) / 8 / shapes().kv_formula)  # the sheet's: prompts are of words
    return Numbers(deep=deep, formula_mb=used.value / 1e6, counted_mb=used.seen / 1e6, apart=abs(used.seen / used.value - 1), fits=int(fits.value),
                   fits_small=int(small.value))


def shape(dim, layers, heads, kv_heads, ffn, vocab, kind="Q4_1", head="Q8_0", ctx=8192):
    return ["--dim", str(dim), "--layers", str(layers), "--heads", str(heads), "--kv-heads", str(kv_heads), "--ffn", str(ffn),
            "--vocab", str(vocab), "--type", kind, "--embd-type", head, "--ctx", str(ctx), "--repeat"]


def random_run(name, options, prompt=256, tokens=24):
    """Speeds of a model of random weights."""
    path = lab.random_model(name, *options)
    r = run("--model", path, "--raw", "--greedy", "--max-tokens", str(tokens), text="a " * (prompt - 1))
    m = Numbers(deep=r.one("SELECT n_prompt FROM request"), mb=r.one("SELECT weight_bytes FROM session") / 1e6)
    m.kv_token = r.one("SELECT page_bytes / page_size FROM session")
    m.ms = Range([ns / 1e6 for ns in r.values(f"SELECT ns FROM step WHERE {DECODE}")])
    m.prompt_tok_s = r.one("SELECT sum(prefill_rows) * 1e9 / sum(ns) FROM step WHERE prefill_rows > 0")
    m.attention_ms = stage(r, "attention", "ns") / 1e6 / r.one(f"SELECT count(*) FROM step WHERE {DECODE}")
    m.gb_s = m.mb / m.ms.median
    return m


@measure("decode decode16 decode8 prompt prompt16 prompt8")
def formats():
    """The same shape, that of SmolLM2-135M, with all matrices in one format."""
    m = Numbers(at={})
    for kind in ("F32", "F16", "Q8_0", "Q4_1", "Q4_0"):
        m.at[kind] = random_run("135M-" + kind, shape(576, 30, 9, 3, 1536, 49152, kind, kind))
    m.smaller = m.at["F32"].mb / m.at["Q4_0"].mb
    m.bits_of = {kind: x.mb / m.at["F32"].mb * 32 for kind, x in m.at.items()}
    m.decode = m.at["F32"].ms.median / m.at["Q4_0"].ms.median
    m.decode16 = m.at["F16"].ms.median / m.at["Q4_0"].ms.median
    m.bytes16 = m.at["F16"].mb / m.at["Q4_0"].mb
    m.decode8 = m.at["F32"].ms.median / m.at["Q8_0"].ms.median
    m.bytes4 = m.at["F16"].mb / shapes().weights_mb
    m.file = shapes().weights_mb
    m.bits = m.file / m.at["F32"].mb * 32
    m.prompt = m.at["Q4_0"].prompt_tok_s / m.at["Q8_0"].prompt_tok_s
    m.prompt16 = m.at["Q8_0"].prompt_tok_s / m.at["F16"].prompt_tok_s
    m.prompt8 = m.at["Q8_0"].prompt_tok_s / m.at["F32"].prompt_tok_s
    m.bytes8 = m.at["F16"].mb / m.at["Q8_0"].mb
    m.falls = all(m.at[few].ms.median < m.at[many].ms.median for many, few in (("F32", "F16"), ("F16", "Q8_0"), ("Q8_0", "Q4_0")))
    return m


@measure()
def intensities():
    """Gate and up products of 16 bits a weight, random, in the shape of SmolLM2-135M: operations a byte by sequences at once."""
    path, m = lab.random_model("135M-F16", *shape(576, 30, 9, 3, 1536, 49152, "F16", "F16")), Numbers(at={})
    for n in (1, 4, 16):
        r = batch([f"a {i}" for i in range(n)], "--model", path, "--raw", "--greedy", "--slots", str(n), "--max-tokens", "8",
                  "--no-prefix-cache")
        m.at[n] = a_byte(r, "gate_up", f"{DECODE} AND rows = {n}")
    return m


@measure("time prompt_tok_s attention_ms gb_s")
def sizes():
    """Shapes of 135 M, 360 M and 1 B weights, Q4_1."""
    at = {"135M": random_run("135M", shape(576, 30, 9, 3, 1536, 49152)),
          "360M": random_run("360M", shape(960, 32, 15, 5, 2560, 49152)),
          "1B": random_run("1B", shape(2048, 16, 32, 8, 8192, 128256))}
    return Numbers(at=at, bytes=at["1B"].mb / at["135M"].mb, time=at["1B"].ms.median / at["135M"].ms.median)


@measure("attention step least attention_ms")
def groups():
    """Four layers of 16 heads of 64 dimensions with 1 to 16 key-value heads, 4,096 tokens deep."""
    at = {n: random_run(f"groups-{n}", shape(1024, 4, 16, n, 2048, 512), 4096, 32) for n in (1, 2, 4, 8, 16)}
    m = Numbers(at=at, attention=at[16].attention_ms / at[2].attention_ms)
    m.step, m.least = ({n: at[16].ms.median / at[n].ms.median for n in (2, 8)}, {n: at[16].ms.low / at[n].ms.high for n in (2, 8)})
    return m


def together(heads, depth, n):
    """n sequences that decode together, each so many tokens deep, in that shape with so many key-value heads."""
    path = lab.random_model(f"groups-{heads}", *shape(1024, 4, 16, heads, 2048, 512))
    r = batch(["a " * (depth - 1)] * n, "--model", path, "--raw", "--greedy", "--slots", str(n), "--pages", str(n * (depth // 16 + 4)),
              "--policy", "prefill-first", "--no-prefix-cache", "--max-tokens", "24")
    where = f"{DECODE} AND rows = {n}"
    return Numbers(ms=Range([ns / 1e6 for ns in r.values(f"SELECT ns FROM step WHERE {where}")]),
                   mb=r.one(f"SELECT avg(bytes) / 1e6 FROM step WHERE {where}"))


GPU_BYTES = {"135M": 0.097e9, "8B-Q4_1": 4.69e9}  # of the weights that a token reads (docs/performance.md)


@measure()
def on_gpu():
    """What a GPU took, when there was one: ms a token, what 16 and 64 sequences take for one, prompts of 8 bits for 16."""
    rows = lab.table("docs/gpu.csv", "make test-gpu")
    tok_s = {(row["model"], row["figure"]): float(row["value"]) for row in rows}
    one = {model: tok_s[model, "decode_tok_s"] for model in ("135M", "1B-Q4_1", "8B-Q4_1")}
    return Numbers(gpu=rows[0]["machine"].split(",")[0], gpu_ms={model: 1000 / x for model, x in one.items()},
                   gpu_time=one["135M"] / one["8B-Q4_1"], gpu_bytes=GPU_BYTES["8B-Q4_1"] / GPU_BYTES["135M"],
                   gpu16=16 * one["135M"] / tok_s["135M", "batch16_tok_s"], gpu64=64 * one["135M"] / tok_s["135M", "batch64_tok_s"],
                   gpu_prompt=tok_s["1B-Q8_0", "prefill_tok_s"] / tok_s["1B-F16", "prefill_tok_s"])


@measure("table fast")
def swept():
    """16 key-value heads against 2, by depth and batch: the whole token's time, and the bytes of a step."""
    found = {(n, depth): [together(heads, depth, n) for heads in (16, 2)] for n in (1, 8) for depth in (256, 1024, 4096)}
    at = {key: Numbers(time=many.ms.median / few.ms.median, least=many.ms.low / few.ms.high, bytes=many.mb / few.mb)
          for key, (many, few) in found.items()}
    m = Numbers(fast=", ".join(f"{n} at once and {depth:,} deep" for (n, depth), x in at.items() if x.least > 1.5) or "nowhere")
    m.deep = all(x.least > 1.5 for (_, depth), x in at.items() if depth == 4096)
    m.everywhere = all(x.least > 1.5 for x in at.values())
    m.table = "; ".join(f"{n} at once, {depth:,} deep: {x.time:.2f} ({x.bytes:.2f})" for (n, depth), x in at.items())
    return m


def pooled(heads, pages):
    """16 requests of 256 tokens at once, with a pool of so many pages: they run as room allows."""
    path = lab.random_model(f"groups-{heads}", *shape(1024, 4, 16, heads, 2048, 512))
    lines = [f"{chr(97 + i)} " * 159 for i in range(16)]
    r = batch(lines, "--model", path, "--raw", "--temp", "2", "--slots", "16", "--pages", str(pages), "--no-prefix-cache",
              "--ctx", "512", "--max-tokens", "96")
    m = Numbers(mb=pages * r.one("SELECT page_bytes FROM session") / 1e6, running=r.one("SELECT max(running) FROM step"))
    m.tokens, m.seconds, m.steps, m.rows = r.rows("SELECT sum(tokens), sum(ns) / 1e9, count(*), sum(rows) FROM step")[0]
    m.preempted, m.tok_s = r.one("SELECT count(*) FROM preempt"), m.tokens / m.seconds
    m.mean = r.one("SELECT avg(decode_rows) FROM step WHERE decode_rows > 0")
    return m


@measure("tok_s")
def pools():
    """A pool of the same bytes with 16 key-value heads and with 2."""
    m = Numbers(many=pooled(16, 64), few=pooled(2, 512))
    m.grown, m.steps = m.few.mean / m.many.mean, m.many.steps / m.few.steps
    return m


@measure("slower share seconds")
def beyond():
    """Random weights in the shape of SmolLM2-135M with a third of its layers and a context of 16,384: 1,024 to 16,000 tokens deep."""
    path = lab.random_model("deep", *shape(576, 10, 9, 3, 1536, 49152, ctx=16384))
    m = Numbers(at={})
    for tokens in (1024, 8000, 16000):
        r = run("--model", path, "--raw", "--greedy", "--ctx", "16384", "--max-tokens", "16", "--no-prefix-cache", text="a " * (tokens - 1))
        x = m.at[tokens] = Numbers(tokens=r.one("SELECT n_prompt FROM request"))
        x.ms = Range(r.values(f"SELECT ns / 1e6 FROM step WHERE {DECODE}"))
        x.seconds = r.one("SELECT sum(ns) / 1e9 FROM step WHERE prefill_rows > 0")
        x.share, x.ops = (stage(r, "attention", column) / stage(r, "%", column) for column in ("ns", "ops"))
        x.mb = x.tokens * r.one("SELECT 1.0 * page_bytes / page_size FROM session") / 1e6
        m.weights = r.one("SELECT weight_bytes / 1e6 FROM session")
    m.slower = m.at[16000].ms.median / m.at[1024].ms.median
    return m


@measure()
def threads():
    """Pairs of runs with one thread and two, after prompts of about so many tokens: by length, how many times as fast two are."""
    m = Numbers(prompt={}, decode={})
    for tokens in (16, 64, 512, 2048):
        found = {"decode": [], "prompt": []}
        for again in range(3):
            options = ("--raw", "--greedy", "--max-tokens", "32", "--threads")
            one, two = (run(*options, n, text=lab.text_of(tokens), again=again) for n in "12")
            for name, where in (("decode", DECODE), ("prompt", "prefill_rows > 0")):
                ns = [r.one(f"SELECT sum(ns) FROM step WHERE {where}") for r in (one, two)]
                found[name].append(ns[0] / ns[1])
        m.prompt[tokens], m.decode[tokens] = Range(found["prompt"]), Range(found["decode"])
    return m


@measure()
def replicas():
    """Two processes of one thread at once, one of them alone, and one process of two threads."""
    def speed(r):
        return r.one(f"SELECT sum(tokens) * 1e9 / sum(ns) FROM step WHERE {DECODE}")

    sums, singles = [], []
    for again in range(3):
        options, text = ("--greedy", "--max-tokens", "96", "--threads"), lab.prompts()[2][1]
        alone, wide = (speed(run(*options, n, text=text, again=again)) for n in "12")
        both = sum(speed(r) for r in lab.together(2, *options, "1", text=text))
        sums.append(both / alone)
        singles.append(both / wide)
    return Numbers(gain=Range(sums), against=Range(singles))


@measure("launches graph")
def cuda_modes():
    """Decoding on a GPU, by how a step is run."""
    speed = {name: lab.report("bench", "--only", "decode_tok_s", "--backend", "cuda", "--cuda-mode", name)["decode_tok_s"]
             for name in ("launches", "graph")}
    return Numbers(**speed)
