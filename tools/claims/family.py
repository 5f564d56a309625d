"""Measurements of the family: small models of equal numbers, text and steps, which differ in how they mix positions alone
(docs/family.md, `make family`). Those named recall-… have two layers and were trained on nothing but associative recall."""
import os
import random
import statistics
import struct

import lab
from lab import Numbers, Range, batch, measure, run
from steps import DECODE, stage

FOLDER = os.environ.get("CUTAWAY_FAMILY", os.path.join(lab.ROOT, "demos/models/family"))
NAMES = ("multi-head", "grouped", "single", "latent", "shared", "window", "one-global", "mamba2", "based", "jamba", "experts")
KEYS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
VALUES = "0123456789!#$%&()*+,-/:;<=>?@[]^_{|}~"
LETTERS = [a + b for a in KEYS[:26] for b in KEYS[:26]]  # keys of which there are many
ASKED_OF = {"recall": KEYS, "many": LETTERS}  # names in pairs, by task
PAIRS, MANY, DEPTHS, ASKED = (4, 8, 16, 32), (4, 16, 64, 256), (64, 1024, 8192), 256
DELAYS = 16, 64, 256, 1024  # dots between a sign and the question for it
DEEP, SLOTS, ANSWER = 512, 16, 96  # of the batch: tokens of a prompt, requests, tokens of an answer


def path(name):
    return os.path.join(FOLDER, name + ".gguf")


@measure()
def stories(name, file=None):
    """Log-probabilities of stories that no training read, a list of each."""
    folder = os.path.join(FOLDER, "held_out")
    return [lab.report("score", "--model", file or path(name), os.path.join(folder, text))["logp"] for text in sorted(os.listdir(folder))]


def loss(name, file=None):
    """Nats a token of them."""
    each = stories(name, file)
    return -sum(map(sum, each)) / sum(map(len, each))


def episode(pairs, draw, names):
    """What tools/train/family/recall.py trains: a point, pairs of a name and a sign, then the names in another order, each to
    be followed by its sign. Gives what stands before each sign that is asked, and the sign."""
    keys = draw.sample(names, pairs)
    value = {key: draw.choice(VALUES) for key in keys}
    text = "." + "".join(key + value[key] for key in keys)
    for key in draw.sample(keys, pairs):
        yield text + key, value[key]
        text += key + value[key]


@measure()
def recall(name, pairs, *options, task="recall"):
    """Share of the signs that come as the likeliest token, with options of `run`. task: recall, or many."""
    draw, name = random.Random(pairs), "single" if name == "grouped" else name  # they have two heads
    asked = [question for _ in range(ASKED // pairs) for question in episode(pairs, draw, ASKED_OF[task])]
    r = batch([text for text, _ in asked], "--model", path(f"{task}-{name}"), "--raw", "--greedy", "--max-tokens", "1", "--slots", "16", *options)
    return sum(line["text"] == asked[line["line"] - 1][1] for line in r.lines) / len(asked)


@measure()
def delay(name, dots):
    """Share of the signs that come again so many dots later, as the likeliest token (recall.py, delay)."""
    r = batch([value + "." * dots + "?" for value in VALUES], "--model", path("delay-" + name), "--raw", "--greedy", "--max-tokens", "1",
              "--slots", "4")
    return sum(line["text"] == VALUES[line["line"] - 1] for line in r.lines) / len(VALUES)


@measure()
def delays(name):
    return {dots: delay(name, dots) for dots in DELAYS}


@measure()
def kept(name):
    """Bytes that each position takes, and those of a request however long it is: a window's, and states."""
    rows = run("--model", path(name), "--raw", "--greedy", "--max-tokens", "2", text=" the").rows("SELECT * FROM memory")
    each = [(r["kind"], r["page_bytes"] // r["page_size"], r) for r in rows]
    return Numbers(token=sum(n for kind, n, _ in each if kind == 0),
                   fixed=sum(n * r["window"] if kind == 1 else r["page_bytes"] for kind, n, r in each if kind != 0))


@measure()
def score_in_eight():
    """Recall of 32 pairs by multi-head attention: what its products read in 32 bits, in 8 by blocks and by tokens; weights of 8 bits."""
    at = {a: recall("multi-head", 32, "--activations", a) for a in ("f32", "int8-block", "int8-token")}
    return Numbers(at=at, least=min(at["int8-block"], at["int8-token"]))


def numbers(name):
    """That the file has."""
    return run("--model", path(name), "--raw", "--greedy", "--max-tokens", "2", text=" the").one("SELECT params FROM session")


def words(n):
    """So many tokens, of which each is a word."""
    return " the" * n


@measure()
def decode(name, deep):
    """Milliseconds of a token after so many, by one thread: two wait longer for each other than these models compute."""
    r = run("--model", path(name), "--raw", "--greedy", "--threads", "1", "--ctx", "16384", "--max-tokens", "33",
            "--no-prefix-cache", text=words(deep))
    return Range([ns / 1e6 for ns in r.values("SELECT ns FROM token")[1:]])


def room(name):
    """Bytes of a request of the batch."""
    return kept(name).token * (DEEP + ANSWER) + kept(name).fixed


@measure("tok_s")
def throughput(name):
    """16 requests in the memory that a quarter of them takes with multi-head attention: how many run at once, and tokens a second.
    What they say is drawn nearly evenly, so that few end early; steps count in which three quarters of those that fit run."""
    fit = max(1, min(SLOTS, SLOTS // 4 * room("multi-head") // room(name)))
    r = batch([words(DEEP)] * SLOTS, "--model", path(name), "--raw", "--temp", "2", "--threads", "1", "--ctx", "1024", "--pages", "1024",
              "--max-tokens", str(ANSWER), "--no-prefix-cache", "--slots", str(fit))
    speed = r.values("SELECT rows * 1e9 / ns FROM step WHERE prefill_rows = 0 AND 4 * rows >= 3 * ?", fit)
    return Numbers(fit=fit, tok_s=statistics.median(speed))


@measure()
def seeds(name):
    """Losses of all trainings of this member, by seed: docs/family.csv has what `make family` found."""
    return [float(row["loss"]) for row in lab.table("docs/family.csv", "make family") if row["name"] == name]


@measure()
def noise():
    """What a difference must exceed to say something, and in words: the widest spread of a member's losses over its seeds; where
    none was trained twice, two standard errors of the difference of two members over the stories."""
    spread = [max(x) - min(x) for x in map(seeds, NAMES) if len(x) > 1]
    if spread:
        return max(spread), "seeds differ by"
    apart = [(sum(b) - sum(a)) / len(a) for a, b in zip(stories("multi-head"), stories("single"))]
    return 2 * statistics.stdev(apart) / len(apart)**0.5, "one seed; two standard errors over stories are"


@measure()
def member(name):
    """Its loss is the mean over seeds; that of the shipped file, which is of the first, is measured again."""
    m = Numbers(loss=statistics.mean(seeds(name)), pairs={n: recall(name, n) for n in PAIRS})
    if abs(loss(name) - seeds(name)[0]) > 0.002:
        raise ValueError(f"docs/family.csv is of another file than {path(name)}, whose loss is {loss(name):.4f}")
    m.token, m.fixed = kept(name).token, kept(name).fixed
    return m


@measure()
def family(*names):
    """Members by name with multi-head attention, and what is noise among them."""
    m = Numbers(at={name: member(name) for name in ("multi-head", *names)})
    m.noise, m.doubt = noise()
    return m


def after(name, letter, text):
    return run("--model", path(name), "--raw", "--greedy", "--max-tokens", "1", text=letter + text)


@measure()
def reach(name):
    """From how many tokens before one can still be told, by halving: a text's first letter, which is a token of its own, is changed,
    and the hash of the logits after the last token is compared."""
    text, near, far = "the fox and the owl " * 40, 1, 700
    while far - near > 1:
        half = (near + far) // 2
        a, b = (after(name, letter, text[:half]).values("SELECT hash FROM token") for letter in "AB")
        near, far = (half, far) if a != b else (near, half)
    r = after(name, "A", text[:near])
    m = Numbers(layers=r.one("SELECT n_layers FROM session"), far=r.one("SELECT n_prompt FROM request") - 1,
                window=min(w for w in r.values("SELECT window FROM memory") if w > 0))
    m.most = m.layers * (m.window - 1)
    m.share = m.far / m.most
    return m


@measure()
def own_heads():
    """Operations a byte of attention when decoding, of a model whose heads have their own keys and values, by sequences at once."""
    m = {}
    for n in (1, 16):
        r = batch([words(600)] * n, "--model", path("multi-head"), "--raw", "--greedy", "--slots", str(n), "--max-tokens", "24", "--no-prefix-cache",
                  "--ctx", "1024", "--pages", "1024", "--policy", "prefill-first")
        ops, moved = (stage(r, "attention", column, f"{DECODE} AND rows = {n}") for column in ("ops", "bytes"))
        m[n] = ops / moved
    return m


@measure()
def shipped():
    """Bits a weight of a file that was not quantised, as its training wrote it."""
    return Numbers(bits=8 * os.path.getsize(path("stories-f16")) / numbers("stories-f16"))


@measure()
def deeper(*names):
    """Milliseconds of a token 8,192 deep."""
    return Numbers(far={name: decode(name, 8192) for name in names})


@measure()
def groups():
    """Four heads of keys and values, two, one."""
    m = family("grouped", "single")
    many, one = m.at["multi-head"], m.at["single"]
    each = {name: [b - a for a, b in zip(seeds("multi-head"), seeds(name))] for name in ("grouped", "single")}  # of the same seed
    m.dearer = {name: statistics.mean(x) for name, x in each.items()}
    m.error = {name: statistics.stdev(x) / len(x)**0.5 for name, x in each.items()}
    m.seeds = len(each["grouped"])
    m.degrades, m.forgets = one.loss - many.loss, many.pairs[32] - one.pairs[32]
    return m


@measure()
def experts():
    """What a token reads of the experts, and how even they are used."""
    r = run("--model", path("experts"), "--raw", "--greedy", "--watch-layers", "on", "--max-tokens", "200", text="Once upon a time")
    last = r.rows("SELECT * FROM experts ORDER BY step DESC LIMIT 1")[0]
    loads = struct.unpack(f"<{len(last['load']) // 2}H", last["load"])
    m = lab.merge(family("experts"), read=last["read"], whole=last["whole"])
    even = 65535 * last["used"] / last["experts"]
    m.busiest, m.least = max(loads) / even, min(loads) / even
    return m


@measure()
def full_layers():
    """How much the best of models without full attention recalls less than the worst with some, of most pairs."""
    without, some = ("window", "mamba2", "based"), ("one-global", "jamba")
    m = family(*without, *some)
    m.many = {name: {n: recall(name, n, task="many") for n in MANY} for name in ("multi-head", *without, *some)}
    m.kept = {name: kept("many-" + name) for name in m.many}
    m.text = min(m.at[name].loss for name in without) - min(m.at[name].loss for name in some)
    m.needs = min(m.many[name][MANY[-1]] for name in some) - max(m.many[name][MANY[-1]] for name in without)
    return m


@measure()
def later(*names):
    """Members that were trained on a tenth of the others' tokens, and those they are compared with."""
    rows = {r["name"]: r for r in lab.table("docs/family_more.csv", "tools/train/family/more.py build/repair/stories.json build/more docs/family_more.csv")}
    m = Numbers(loss={name: float(rows[name]["loss"]) for name in names})
    m.token = {name: int(rows[name]["token_bytes"]) for name in names}
    m.fixed = {name: int(rows[name]["request_bytes"]) for name in names}
    return m


def of_down(r):
    """Nanoseconds of the last matrices in a decode step, the median."""
    return statistics.median(r.values(f"SELECT k.ns FROM kernel_stages k JOIN step s USING (step) WHERE k.stage = 'down' AND {DECODE}"))


@measure("ms")
def relu():
    """Inner values that are exactly 0 after ReLU; without their columns: bytes and time of the last matrix, and whether a bit differs."""
    off, on = (run("--model", path("relu"), "--raw", "--greedy", "--max-tokens", "96", "--attention-every", "1", "--skip-zeros", way,
                   text="Once upon a time") for way in ("off", "on"))
    m = Numbers(zero=1 - on.one("SELECT avg(share) FROM near_zero_values WHERE what = 'kept'"))
    m.read = stage(on, "down", "bytes") / stage(off, "down", "bytes")
    m.ms = of_down(on) / of_down(off)
    m.equal = off.values("SELECT hash FROM token") == on.values("SELECT hash FROM token")
    return m


NEW = ("mamba2", "based", "jamba")  # whose mixers are not attention alone; the other members are forms of attention


@measure()
def potential():
    """Which new architectures are better than multi-head attention in loss and memory, and in recall too."""
    m = family(*NEW)
    old, held = m.at["multi-head"], {name: x.token * 8192 + x.fixed for name, x in m.at.items()}
    better = [name for name in NEW if m.at[name].loss < old.loss - m.noise and held[name] < held["multi-head"]]
    keep = [name for name in better if m.at[name].pairs[32] > old.pairs[32] - 0.05]
    m.n, m.some, m.better = len(NEW), len(keep), ", ".join(keep) or "none"
    m.forget = ", ".join(name for name in better if name not in keep) or "none"
    return m
