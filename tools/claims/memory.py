"""Measurements of what a sequence keeps and sees: the cache and without it, prefixes, pages, visibility, formats of the cache, models
with other layers."""
import array
import json
import math
import os
import subprocess

import lab
from drafts import places_of
from lab import Numbers, Range, batch, measure, run
from steps import load, questions

ZOO = os.path.join(lab.ROOT, "tests/data/zoo")


def hashes(r):
    return [line["hash"] for line in r.lines]


@measure("slower")
def no_cache():
    """The same answer with keys and values kept and computed anew."""
    options = ("--greedy", "--max-tokens", "64")
    on, off = (run(*options, "--kv-cache", state, text=lab.prompts()[0][1]) for state in ("on", "off"))
    m = Numbers(equal=hashes(on) == hashes(off), tokens=len(on.lines))
    m.rows, m.rows_off = (r.one("SELECT sum(rows) FROM token") for r in (on, off))
    m.pairs, m.pairs_off = (r.one("SELECT sum(pairs) FROM token") for r in (on, off))
    m.ms, m.ms_off = (Range([ns / 1e6 for ns in r.values("SELECT ns FROM token")[1:]]) for r in (on, off))
    for name, r, skip in (("power", off, 0), ("power_kept", on, 1)):
        each = r.rows("SELECT pos, pairs FROM token ORDER BY pos")[skip:]
        setattr(m, name, math.log(each[-1]["pairs"] / each[0]["pairs"]) / math.log(each[-1]["pos"] / each[0]["pos"]))
    m.more_rows, m.more_pairs, m.slower = m.rows_off / m.rows, m.pairs_off / m.pairs, m.ms_off.median / m.ms.median
    return m


def asked_twice(again):
    text = f"Text {again}. " + lab.text_of(500)
    r = batch([text.replace("\n", "\\n")] * 2, "--raw", "--greedy", "--slots", "1", "--max-tokens", "4", again=again)
    return r.rows("SELECT first_token_ns - waited_ns, hit, n_prompt FROM finish JOIN admit USING (request) "
                  "JOIN request USING (request) ORDER BY request")


@measure()
def prefix():
    """A prompt of some 500 tokens and the same one again: to the first token, without the wait in the queue."""
    pairs = [asked_twice(again) for again in range(3)]
    m = Numbers(cold=Range([cold[0] / 1e6 for cold, _ in pairs]), hit=Range([hit[0] / 1e6 for _, hit in pairs]))
    m.tokens, m.found = pairs[0][1][2], pairs[0][1][1]
    m.faster = Range([cold[0] / hit[0] for cold, hit in pairs])
    return m


@measure("first")
def document():
    """Ten questions about one document of some 600 tokens, one after the other."""
    text = lab.text_of(600).replace("\n", "\\n")
    lines = [f"{text}\\n\\nQuestion {i + 1}: {prompt}".replace("\n", "\\n") for i, (_, prompt) in enumerate(lab.prompts()[:10])]
    r = batch(lines, "--greedy", "--slots", "1", "--max-tokens", "4")
    rows = r.rows("SELECT asked, hit FROM lookup ORDER BY request")
    ns = r.values("SELECT first_token_ns - waited_ns FROM finish JOIN admit USING (request) ORDER BY request")
    m = Numbers(first=ns[0] / 1e6, others=Range([x / 1e6 for x in ns[1:]]))
    m.asked, m.hit = sum(row["asked"] for row in rows[1:]), sum(row["hit"] for row in rows[1:])
    m.share = m.hit / m.asked
    return m


@measure()
def declared():
    """Ten questions about a document at a server, with other prompts between them that need its pages: found by itself, and declared."""
    lab.STACK[-1].add("tools/bench/pinned.py")
    told = json.loads(subprocess.run([os.path.join(lab.ROOT, "tools/bench/pinned.py"), "--cutaway", os.path.join(lab.ROOT, "cutaway"), "--json"],
                                     stdout=subprocess.PIPE, check=True).stdout)
    m = Numbers(**{name: Numbers(**t) for name, t in told.items()})
    m.saved = m.automatic.rows / m.declared.rows
    return m


@measure()
def passages():
    """Twelve questions about one passage, three at a time: pages that several requests read."""
    passage = lab.text_of(200).replace("\n", "\\n")
    r = batch([f"{passage}\\n\\n{q}" for q in questions(12)], "--greedy", "--slots", "3", "--max-tokens", "16")
    m = Numbers(shared=r.one("SELECT max(pages_shared) FROM step"), hit=r.one("SELECT sum(hit) FROM lookup"),
                asked=r.one("SELECT sum(asked) FROM lookup"))
    taken, begin = "SELECT count(*) FROM page WHERE action = 0 AND block < ?", r.one("SELECT max(hit_pages) FROM lookup")
    m.stored = r.one(taken, begin) / max(begin, 1)
    m.again = r.one(taken + " AND request IN (SELECT request FROM lookup WHERE hit > 0)", begin)
    return m


@measure()
def best_of():
    """Eight samples of one prompt: pages copied where a branch writes into one that others read."""
    r = run("--best-of", "8", "--max-tokens", "40", text="Write one sentence about the sea.")
    m = Numbers(copies=r.one("SELECT count(*) FROM page WHERE action = 2"))
    m.pages, m.unshared = r.rows("SELECT sum(pages), sum(unshared) FROM sharing")[0]
    m.saved = 1 - m.pages / m.unshared
    return m


@measure()
def sampled():
    """Samples of one prompt of 19 tokens, of up to 58: the mean lengths of the instructions that the paper samples (section 6.1)."""
    text = "Once upon a time there was a small boat that crossed the wide sea every day, and"
    found = {n: run("--raw", "--best-of", str(n), "--max-tokens", "58", text=text) for n in (2, 4, 6)}
    m = Numbers(prompt=found[2].one("SELECT n_prompt FROM request"), saved={}, end={})
    for n, r in found.items():
        steps = r.rows("SELECT pages, unshared FROM sharing ORDER BY seq")
        for at, few in ((m.saved, steps), (m.end, steps[-(len(steps) // 10):])):
            at[n] = 1 - sum(pages for pages, _ in few) / sum(unshared for _, unshared in few)
    return m


@measure()
def few_pages():
    """What 16 requests on eight slots would have been with 24 pages: the engine's own scheduler over the log."""
    wide, few = (lab.report("whatif", load(8).path, "--pages", n)["changed"] for n in ("512", "24"))
    return Numbers(wide=Numbers(**wide), few=Numbers(**few))


@measure()
def page_sizes():
    """Unused room in the last pages of 8 requests, at its highest, by the size of a page."""
    m = Numbers(waste={})
    for size in (16, 64, 256):
        r = batch(questions(8), "--greedy", "--slots", "8", "--max-tokens", "32", "--page-size", str(size))
        m.waste[size], m.reserved = r.rows("SELECT max(tail_waste_bytes) / 1e6, max(reserve_waste_bytes) / 1e6 FROM step")[0]
    return m


def perplexity(*options):
    path = os.path.join(lab.FOLDER.name, "prose.txt")
    if not os.path.exists(path):
        with open(path, "w", encoding="utf-8") as f:
            f.write(lab.text_of(1100))
    return lab.report("score", path, *options)["perplexity"]


@measure()
def cache_default():
    return Numbers(cache=run("--greedy", "--max-tokens", "2", text="a").one("SELECT value FROM setting WHERE name = 'cache-format'"))


@measure()
def windows():
    """Perplexity of a text of some 1,100 tokens where a token sees less than all before it."""
    m = Numbers(full=perplexity(), window=perplexity("--visible", "window:128"))
    m.sinks, m.stream = (perplexity("--visible", name + ":4+window:124") for name in ("sinks", "stream"))
    m.lost = (m.stream - m.full) / (m.window - m.full)
    return m


@measure()
def patterns():
    """Perplexity of the same text where a token reads a pattern of what is before it, and bytes of the cache that it reads."""
    m = Numbers(full=perplexity(), read={})
    for name, policy in (("dilated", "window:128+dilation:4"), ("strided", "stride:16+window:64"),
                         ("fixed", "block:64+last:16"), ("top", "top:25%")):
        setattr(m, name, perplexity("--visible", policy))
        r = run("--raw", "--greedy", "--max-tokens", "8", "--visible", policy, text=lab.text_of(1024))
        m.read[name] = r.one("SELECT 1.0 * kv_bytes / kv_whole_bytes FROM step ORDER BY step DESC LIMIT 1 OFFSET 1")
    return m


@measure()
def needle():
    """A key at five depths of a text of 900 tokens, asked for at its end: how many are found, by what tokens see."""
    count = {}
    for name, policy in (("full", "full"), ("window", "window:128"), ("sinks", "sinks:4+window:124"), ("h2o", "h2o:25%"),
                         ("stream", "stream:4+window:124"), ("strided", "stride:16+window:64"), ("top", "top:25%")):
        count[name] = lab.report("passkey", "--tokens", "900", "--depths", "5", "--keys", "1", "--seed", "7", "--visible", policy)["found"]
    return Numbers(count=count)


@measure()
def window_pages():
    """Pages that a request reads with a window of 128 at most, and without, after some 512 tokens and 1,024."""
    def used(visible, tokens):
        r = run("--raw", "--greedy", "--max-tokens", "8", "--visible", visible, text=lab.text_of(tokens))
        return r.one("SELECT pages_used FROM step ORDER BY step DESC LIMIT 1 OFFSET 1")

    return Numbers(full=used("full", 1024), window=used("window:128", 1024), full_half=used("full", 512), window_half=used("window:128", 512))


@measure()
def cache_formats():
    """Perplexity and bytes of the cache by its format."""
    m = Numbers(at={})
    for name in ("f32", "f16", "bf16", "e4m3"):
        r = run("--greedy", "--max-tokens", "2", "--cache-format", name, text="Hello")
        m.at[name] = Numbers(ppl=perplexity("--cache-format", name), kv=r.one("SELECT page_bytes / page_size FROM session"))
    return m


def zoo(name, tokens=100):
    """A tiny random model of another architecture, and what its memory groups hold."""
    r = run("--model", os.path.join(ZOO, name + ".gguf"), "--raw", "--temp", "1", "--max-tokens", str(tokens), text="the cat sat on")
    m = Numbers(layers=r.one("SELECT n_layers FROM session"), groups=[Numbers(**dict(x)) for x in r.rows("SELECT * FROM memory")])
    used = r.values("SELECT pages_used FROM step WHERE prefill_rows = 0")
    m.early, m.late, m.steps = used[4], used[-2], len(used)
    m.halves = max(used[:len(used) // 2]), max(used[len(used) // 2:])
    m.weights, m.file = r.rows("SELECT weight_bytes, model_bytes FROM session")[0]
    m.stages = r.values("SELECT stage FROM stage_times")
    m.read = r.one("SELECT avg(bytes) FROM step WHERE prefill_rows = 0")
    return m


@measure()
def other_model(name):
    return zoo(name)


@measure()
def denoising():
    """An answer of 64 tokens of a tiny random LLaDA in 4, 16 and 64 steps: rows computed, and the order of its tokens."""
    m = Numbers(steps={}, rows={})
    for n in (4, 16, 64):
        r = run("--model", os.path.join(ZOO, "llada.gguf"), "--raw", "--greedy", "--max-tokens", "64", "--denoise-steps", str(n),
                text="the cat sat on")
        m.steps[n] = r.one("SELECT count(*) FROM denoise")
        m.rows[n] = r.one("SELECT sum(rows) FROM batch")
        m.tokens = r.one("SELECT sum(fixed) FROM denoise")
    order = r.values("SELECT nth FROM denoised WHERE fixed ORDER BY pos")
    m.back = sum(a > b for a, b in zip(order, order[1:]))
    m.first = r.one("SELECT count(*) FROM denoised WHERE nth = 1")
    m.causal = r.one("SELECT n_prompt FROM request") + m.tokens
    return m


FAMILY = os.path.join(lab.ROOT, "demos/models/family")


def likelihood(model, begin, answer):
    """Log-probabilities of the answer's tokens after the words that it began with."""
    path, told = os.path.join(lab.FOLDER.name, "answer.txt"), []
    for text in (begin, begin + answer):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        told.append(lab.execute(["score", "--json", "--model", model, path], ""))
    return json.loads(told[1])["logp"][len(json.loads(told[0])["logp"]):]


@measure()
def refined():
    """Beginnings of stories held out, gone on with for 64 tokens in 4 to 64 steps by a trained diffusion model, and by the causal one of
    its family, which judges all: nats a token."""
    judge, begins = os.path.join(FAMILY, "multi-head.gguf"), []
    for i in range(16):
        with open(os.path.join(FAMILY, f"held_out/{i:03d}.txt"), encoding="utf-8") as f:
            begins.append(" ".join(f.read().split()[:12]))
    ways = {n: ("--model", os.path.join(FAMILY, "diffusion.gguf"), "--denoise-steps", str(n)) for n in (4, 16, 64)}
    m = Numbers(nats={})
    for way, options in (*ways.items(), ("causal", ("--model", judge))):
        all_of = [likelihood(judge, begin, "".join(line["text"] for line in run(*options, "--raw", "--temp", "0.8", "--seed", str(i), "--max-tokens",
                                                                                 "64", text=begin).lines)) for i, begin in enumerate(begins)]
        m.nats[way] = -sum(map(sum, all_of)) / sum(map(len, all_of))
    return m


@measure()
def activations():
    """The same weights with activations of 8 bits, as the engine's kernels for 4-bit weights have them, and of 32."""
    exact = os.path.join(lab.MODELS, "SmolLM2-135M-F32.gguf")
    if not os.path.exists(exact):
        os.makedirs(lab.MODELS, exist_ok=True)
        subprocess.run([os.path.join(lab.ROOT, "build/tests/dequant"), lab.MODEL, exact + ".new"], check=True)
        os.rename(exact + ".new", exact)
    text = os.path.join(lab.ROOT, "tests/data/score.txt")
    a8, a32 = lab.report("score", text), lab.report("score", text, "--model", exact)
    m = Numbers(a8=a8["perplexity"], a32=a32["perplexity"], more=a8["perplexity"] / a32["perplexity"] - 1)
    m.difference = sum(abs(a - b) for a, b in zip(a8["logp"], a32["logp"])) / len(a8["logp"])
    return m


@measure()
def certificate():
    """cutaway certify --quick, all its cases: its own limit of time leaves some out on a busy machine."""
    c = lab.report("certify", "--quick", "--seconds", "170")
    return Numbers(equal=c["equal"], cases=len(c["cases"]), tokens=c["tokens"], axes=len({x["axis"] for x in c["cases"]}))


@measure()
def reordered():
    """The same kernels free of the order of sums: log-probabilities of a text, and greedy answers, beside those of the fixed order."""
    lab.STACK[-1].add("make free-order")
    subprocess.run(["make", "free-order", "CUDA=0"], cwd=lab.ROOT, stdout=subprocess.DEVNULL, check=True)
    free, text = os.path.join(lab.ROOT, "build-free/cutaway"), os.path.join(lab.ROOT, "tests/data/score.txt")
    told = {program: json.loads(subprocess.run([program, "score", "--json", text], stdout=subprocess.PIPE, check=True).stdout)["logp"]
            for program in (lab.PROGRAM, free)}
    apart = [abs(a - b) for a, b in zip(*told.values())]
    answers = [[subprocess.run([program, "run", "--greedy", "--no-record", "--max-tokens", "64", prompt], stdout=subprocess.PIPE,
                               check=True).stdout for _, prompt in lab.prompts()[:16]] for program in told]
    return Numbers(scored=len(apart), mean=sum(apart) / len(apart), most=max(apart), answers=len(answers[0]),
                   same=sum(a == b for a, b in zip(*answers)))


@measure("times")
def scored():
    """A text that was generated token by token, scored in one pass: probabilities of its tokens both ways."""
    r, path = run("--raw", "--greedy", "--max-tokens", "96", text="The history of the sea"), os.path.join(lab.FOLDER.name, "scored.txt")
    ids = r.values("SELECT id FROM prompt_tokens ORDER BY pos") + r.values("SELECT id FROM token ORDER BY pos")
    p = r.values("SELECT p FROM token ORDER BY pos")
    with open(path, "w", encoding="utf-8") as f:
        f.write("The history of the sea" + "".join(line["text"] for line in r.lines))
    s = lab.report("score", path)
    if s["ids"] != ids:
        raise ValueError("the text has other tokens than were generated")
    m = Numbers(tokens=len(p), steps=r.one("SELECT count(*) FROM step"), ppl=s["perplexity"])
    m.apart = max(abs(math.exp(logp) / one - 1) for logp, one in zip(s["logp"][-len(p):], p))
    return m


@measure()
def e4m3():
    """The cache in e4m3; and of weights rounded to it, with a scale a tensor, the largest over the smallest, which is 2**-9 with
    exponents biased by 7."""
    path = os.path.join(lab.FOLDER.name, "e4m3.gguf")
    lab.report("quantize", "--e4m3", "--group", "tensor", "--format", "f32", lab.MODEL, path)
    m, at = lab.merge(cache_formats(), ratio=0), places_of(path)
    with open(path, "rb") as f:
        for layer in range(8):
            begin, size = at[f"blk.{layer}.ffn_down.weight"]
            f.seek(begin)
            sizes = {abs(x) for x in array.array("f", f.read(size // 4 * 4))} - {0.0}
            m.ratio = max(m.ratio, max(sizes) / min(sizes))
    os.unlink(path)
    m.greatest = m.ratio / 512
    return m


@measure()
def lossy():
    """Answers with the cache in f16 and in e4m3, and the same texts scored under both."""
    c = lab.report("compare", "cache-format=f16", "cache-format=e4m3", "--greedy", "--max-tokens", "32", "--repeat", "1")
    return Numbers(f16=c["a"]["perplexity_of_a"], e4m3=c["b"]["perplexity_of_a"], equal=c["equal_texts"], pairs=c["pairs"])


# Of each lossy setting one value or more, and settings that are exact.
LOSSY = (("visible", ("window:64", "stream:4+window:60", "stride:16+window:32", "top:25%", "h2o:25%")),
         ("cache-format", ("f32", "bf16", "e4m3", "q8", "kivi4", "kivi2")), ("skip-below", ("0.02",)), ("weights", ("8/32", "4/32")),
         ("activations", ("f32", "e4m3", "int8-token", "int8-tensor")), ("tensor-parallel", ("2 --exchange f16",)))
EXACT = (("tensor-parallel", ("2 --exchange q8",)), ("attention", ("heads", "matrix")), ("kv-cache", ("off",)), ("page-size", ("64",)), ("prefill-chunk", ("32",)),
         ("threads", ("1",)), ("spec", ("ngram:4", "eagle", "medusa")))


def each_token(*options):
    """A greedy answer of 24 tokens to a text of some 330, each computed a second time with exact settings."""
    r = run("--raw", "--greedy", "--max-tokens", "24", "--twin", "on", *options, text=lab.text_of(330))
    kl = r.values("SELECT kl FROM price")
    return Numbers(kl=kl, mean=sum(kl) / len(kl), largest=max(kl), told=all("lossy" in line for line in r.lines), hashes=hashes(r))


@measure()
def told_apart():
    """Kullback-Leibler divergences, token by token, under each lossy setting and under exact ones."""
    plain = each_token()
    lossy, exact = ({f"{name} {value}": each_token("--" + name, *value.split()) for name, values in settings for value in values}
                    for settings in (LOSSY, EXACT))
    m = Numbers(settings=len(lossy), exact=len(exact), n=len(plain.kl))
    m.silent = ", ".join(name for name, x in lossy.items() if not (x.mean > 0 and x.told)) or "none"
    m.wrong = ", ".join(name for name, x in exact.items() if x.largest > 0 or x.told or x.hashes != plain.hashes) or "none"
    m.all_told, m.all_exact = m.silent == "none", m.wrong == "none"
    m.table = "; ".join(f"{name} {x.mean:.2g}, {x.largest:.2g}" for name, x in lossy.items())
    return m
