"""Measurements of speculation, searches and the draws."""
import math
import os
import statistics
import struct
from collections import Counter

import lab
from lab import Numbers, Range, batch, measure, run
from recorded import decoding
from steps import DECODE, shapes

FIRST = "SELECT count(*), coalesce(sum(kept), 0) FROM (SELECT max(verdict = 0) AS kept FROM draft WHERE depth = 1 " \
        "GROUP BY step, request HAVING max(verdict <> 2))"


# Their trees are as large as the measured cost of rows allows, so that what is accepted is of the machine, too.
ADAPTIVE = "eagle", "medusa", "draft"
KINDS, GROUNDED = "demos/kinds.txt", "demos/grounded.txt"


def some_prompts(of_each=3, texts=KINDS):
    """[(kind, prompt)]: the first of each kind in a file."""
    seen = Counter()
    for kind, prompt in lab.prompts(texts):
        seen[kind] += 1
        if seen[kind] <= of_each:
            yield kind, prompt


def likely(r):
    """Log-probability of a greedy answer, by the model that gave it."""
    return sum(math.log(line["p"]) for line in r.lines)


@measure("guessing serial most fastest guess_ms")
def drafter(name, texts=KINDS):
    """Nine prompts of three kinds, each plainly and with the drafter, by turns."""
    if name in ADAPTIVE:
        lab.STACK[-1].timed |= {"tokens", "tokens_of", "accepted", "nodes"}
    speeds, tokens, steps = {}, Counter(), Counter()
    m = Numbers(name=name, equal=0, better=0, n=0, first=[0, 0], node_rows=0, verify_steps=0, kernel_ns=0, drafter_ns=0, ns=0)
    for again, (kind, prompt) in enumerate(some_prompts(texts=texts)):
        options = ("--greedy", "--max-tokens", "48")
        sides = [options, (*options, "--spec", name)]
        if again % 2:
            drafted, plain = run(*sides[1], text=prompt), run(*sides[0], text=prompt, again=name)
        else:
            plain, drafted = run(*sides[0], text=prompt, again=name), run(*sides[1], text=prompt)
        m.n, m.equal = m.n + 1, m.equal + (plain.lines == drafted.lines)
        m.better += plain.lines != drafted.lines and likely(drafted) > likely(plain)
        (t0, _, ns0), (t, s, ns) = decoding(plain.db), decoding(drafted.db)
        speeds.setdefault(kind, []).append(ns0 / t0 * t / ns)
        tokens[kind], steps[kind] = tokens[kind] + t, steps[kind] + s
        m.first = [a + b for a, b in zip(m.first, drafted.rows(FIRST)[0])]
        sums = drafted.rows("SELECT coalesce(sum(draft_rows), 0), coalesce(sum(draft_rows > 0), 0), sum(kernel_ns), "
                            "sum(drafters_ns), sum(ns) FROM step WHERE prefill_rows = 0")[0]
        for field, x in zip(("node_rows", "verify_steps", "kernel_ns", "drafter_ns", "ns"), sums):
            setattr(m, field, getattr(m, field) + x)
    m.speed = Range([x for values in speeds.values() for x in values])
    m.kind = {kind: Range(values) for kind, values in speeds.items()}
    m.tokens = sum(tokens.values()) / sum(steps.values())
    m.tokens_of = {kind: tokens[kind] / steps[kind] for kind in tokens}
    m.accepted, m.nodes = m.first[1] / max(1, m.first[0]), m.node_rows / max(1, m.verify_steps)
    m.guess_ms = m.drafter_ns / 1e6 / max(1, m.verify_steps)
    m.guessing, m.serial = m.drafter_ns / m.ns, (m.kernel_ns + m.drafter_ns) / m.ns
    m.fastest = max(m.kind, key=lambda k: m.kind[k].median)
    m.most = m.kind[m.fastest]
    return m


@measure("table")
def repeating():
    """N-grams of the text on chats and code, and on what repeats its input: edits, summaries, questions about documents, and
    conversations whose answers come back. The model decides how much it repeats: `seen` has the share of 3-grams."""
    free, given = (drafter("ngram:4", texts) for texts in (KINDS, GROUNDED))
    m = Numbers(kind={**free.kind, **given.kind}, tokens_of={**free.tokens_of, **given.tokens_of})
    m.equal, m.n = free.equal + given.equal, free.n + given.n
    m.seen = {**overlap().at, **overlap(GROUNDED).at}
    m.best = max(m.tokens_of, key=m.tokens_of.get)
    m.most, m.tokens, m.other = m.kind[m.best], m.tokens_of[m.best], max(x for name, x in m.tokens_of.items() if name != m.best)
    m.table = "; ".join(f"{name} {m.kind[name]:.2f} times, {m.tokens_of[name]:.2f} tokens a step, 3-grams that repeat {m.seen[name]:.0%}"
                        for name in m.kind)
    return m


SPECULATORS = ("ngram:4", "jacobi", "lookahead", "eagle", "medusa", "draft")


@measure("best peak")
def drafters():
    """All of them: what differs from plain decoding, and the fastest."""
    at = {name: drafter(name) for name in SPECULATORS}
    best = max(at.values(), key=lambda d: d.speed.median)
    peak = max(at.values(), key=lambda d: d.most.median)
    return Numbers(at=at, answers=sum(d.n for d in at.values()), equal=sum(d.equal for d in at.values()),
                   better=sum(d.better for d in at.values()), best=best, peak=peak)


@measure()
def chain(guesses):
    """EAGLE as a chain: acceptance a, and tokens a step by E = (1 - a^(g+1)) / (1 - a)."""
    depth, tokens, steps = {}, 0, 0
    for _, prompt in some_prompts():
        r = run("--greedy", "--max-tokens", "48", "--spec", f"eagle:{guesses},{guesses},1", text=prompt)
        for at, tried, kept in r.rows("SELECT depth, sum(verdict <> 2), sum(verdict = 0) FROM draft GROUP BY depth"):
            depth[at] = [a + b for a, b in zip(depth.get(at, [0, 0]), (tried, kept))]
        t, s = r.rows("SELECT sum(tokens), count(*) FROM step WHERE prefill_rows = 0 AND draft_rows = ?", guesses)[0]
        tokens, steps = tokens + (t or 0), steps + s
    tried, kept = (sum(x[i] for x in depth.values()) for i in (0, 1))
    m = Numbers(a=kept / tried, tokens=tokens / steps)
    m.formula = (1 - m.a**(guesses + 1)) / (1 - m.a)
    return m


AHEAD = "SELECT count(*), coalesce(sum(came = 0), 0) FROM ahead WHERE nodes > 0"
TURNS = ("--spec", "draft:2,2,12")
BESIDE = (("--threads", "1", "--spec", "beside:2,2,12"), ("--threads", "1", *TURNS), ("--threads", "2", *TURNS), ("--threads", "2"))


def fastest(runs):
    """Nanoseconds of runs with the same steps: each step's fastest, summed. Others on the machine only add time."""
    return sum(map(min, zip(*(r.values("SELECT ns FROM step WHERE prefill_rows = 0 ORDER BY step") for r in runs))))


@measure()
def beside():
    """A draft model beside verification, a thread each, against the same in turns, and against plain decoding, thrice each."""
    m, ratios, sums, speeds = Numbers(n=0, equal=0), [], Counter(), {}
    for kind, prompt in some_prompts(2):
        rounds = [[run("--greedy", "--max-tokens", "48", *way, text=prompt, again=("beside", n)) for way in BESIDE] for n in range(3)]
        runs = rounds[0]
        m.n, m.equal = m.n + 1, m.equal + all(x.lines == runs[0].lines for x in runs)
        ns = [fastest(same) for same in zip(*rounds)]
        ratios.append([x / ns[0] for x in ns[1:]])
        speeds.setdefault(kind, []).append([1e9 * decoding(runs[0].db)[0] / x for x in ns])
        sums.update(dict(zip(("blocks", "used", "first", "right"), (*runs[0].rows(AHEAD)[0], *runs[0].rows(FIRST)[0]))))
    m.speeds = {kind: [round(statistics.mean(x)) for x in zip(*values)] for kind, values in speeds.items()}
    m.a, m.used = sums["right"] / sums["first"], sums["used"] / sums["blocks"]
    m.one, m.two, m.plain = (Range(x) for x in zip(*ratios))
    return m


@measure()
def trees():
    """EAGLE's trees of up to eight guesses, each worth one in a hundred: guesses for the same place, those kept that were not the
    likeliest of theirs, and tokens of the model where none was right."""
    m = Numbers(n=0, equal=0, steps=0, nodes=0, places=0, several=0, kept=0, second=0, corrected=0)
    for _, prompt in some_prompts(1):
        options = ("--greedy", "--max-tokens", "48")
        plain, r = run(*options, text=prompt), run(*options, "--spec", "eagle:3,8,1", text=prompt)
        m.n, m.equal = m.n + 1, m.equal + (plain.lines == r.lines)
        places = {}
        for step, parent, q, verdict in r.rows("SELECT step, parent, q, verdict FROM draft ORDER BY step, parent, q DESC"):
            places.setdefault((step, parent), []).append(verdict == 0)
        m.steps, m.nodes = m.steps + len({step for step, _ in places}), m.nodes + sum(map(len, places.values()))
        m.places, m.several = m.places + len(places), m.several + sum(len(x) > 1 for x in places.values())
        m.kept, m.second = m.kept + sum(map(sum, places.values())), m.second + sum(any(x[1:]) for x in places.values())
        m.corrected += r.one("SELECT count(*) FROM token JOIN code ON list = 'source' AND value = source WHERE name = 'corrected'")
    m.nodes /= m.steps
    return m


@measure()
def unseen():
    """EAGLE with the matrix that reads the model's features made 0, and as it is, in chains of three: tokens a step."""
    source, path = os.path.join(lab.ROOT, "demos/models/eagle.gguf"), os.path.join(lab.FOLDER.name, "unseen.gguf")
    with open(source, "rb") as f:
        data = bytearray(f.read())
    begin, size = places_of(source)["fc.hidden.weight"]
    data[begin:begin + size] = bytes(size)
    with open(path, "wb") as f:
        f.write(data)
    m = Numbers()
    for name, file in (("seen", source), ("blind", path)):
        tokens = steps = 0
        for _, prompt in some_prompts():
            r = run("--greedy", "--max-tokens", "48", "--spec", f"eagle:{file},3,3,1", text=prompt)
            t, s = r.rows("SELECT sum(tokens), count(*) FROM step WHERE prefill_rows = 0")[0]
            tokens, steps = tokens + t, steps + s
        setattr(m, name, tokens / steps)
    return m


@measure()
def lengths():
    """A draft model four ahead: how many of the four were kept, step by step, and how many of them plain decoding has."""
    kept, given, m = Counter(), [], Numbers(valid=0, tokens=0, other=0)
    for _, prompt in some_prompts(1):
        options = ("--greedy", "--max-tokens", "48")
        r = run(*options, "--spec", "draft:4,4,1", text=prompt)
        kept.update(r.values("SELECT accepted FROM step WHERE prefill_rows = 0 AND draft_rows = 4"))
        given += r.values("SELECT tokens FROM step WHERE prefill_rows = 0")
        ids, plain = (x.values("SELECT id FROM token ORDER BY pos") for x in (r, run(*options, text=prompt)))
        begin, guesses = r.one("SELECT min(pos) FROM token"), {}
        for step, pos, guess, verdict in r.rows("SELECT step, pos, id, verdict FROM draft ORDER BY step, nth"):
            guesses.setdefault(step, []).append((pos - begin, guess, verdict == 0))
        m.other += sum(sum(kept for _, _, kept in g) != len(os.path.commonprefix([[guess for _, guess, _ in g], plain[g[0][0]:]]))
                       for g in guesses.values())
        m.valid, m.tokens = m.valid + sum(a == b for a, b in zip(ids, plain)), m.tokens + len(plain)
    m.kept, m.steps, m.least, m.most = {n: kept[n] for n in range(5)}, sum(kept.values()), min(given), max(given)
    m.decoded = len(given)
    return m


@measure()
def itself():
    """The model drafts for itself."""
    r = run("--greedy", "--max-tokens", "32", "--spec", f"draft:{lab.MODEL},3,3,0", text=lab.prompts()[0][1])
    return Numbers(rejected=r.one("SELECT sum(rejected) FROM step"), accepted=r.one("SELECT sum(accepted) FROM step"))


@measure("guess verify gain ratio plain")
def guessed_and_rejected():
    """Steps of a chain of three from a draft model whose last guesses were rejected: its time, and that of plain steps."""
    sums, plain = Counter(), []
    for _, prompt in some_prompts():
        r = run("--greedy", "--max-tokens", "48", "--spec", "draft:3,3,1", text=prompt)
        ours = r.rows("SELECT accepted, tokens, drafters_ns, ns - drafters_ns FROM step "
                      "WHERE prefill_rows = 0 AND draft_rows = 3 AND rejected > 0")
        for kept, tokens, guess, rest in ours:
            sums.update({(kept, "n"): 1, (kept, "tokens"): tokens, (kept, "guess"): guess / 1e6, (kept, "verify"): rest / 1e6})
        p = run("--greedy", "--max-tokens", "48", text=prompt, again="draft")
        plain += p.values(f"SELECT ns / 1e6 FROM step WHERE {DECODE}")
    m = Numbers(plain=statistics.median(plain), at={}, ratio=0)
    for kept in range(3):
        if n := sums[kept, "n"]:
            x = m.at[kept] = Numbers(n=n, guess=sums[kept, "guess"] / n, verify=sums[kept, "verify"] / n, tokens=sums[kept, "tokens"] / n)
            x.gain = x.tokens * m.plain / (x.guess + x.verify)
            m.ratio = max(m.ratio, (x.guess + x.verify) / m.plain)
    return m


@measure()
def window():
    """Lookahead's pool: n-grams that the model made itself, and those of the text; first guesses kept, and those of them that the text
    before did not have after the same token."""
    own = text = kept = alone = 0
    for _, prompt in some_prompts(1):
        r = run("--greedy", "--max-tokens", "48", "--spec", "lookahead", text=prompt)
        for blob, gram, mine in r.rows("SELECT entered, gram, own FROM window WHERE entered NOT NULL"):
            own, text = own + mine, text + len(blob) // (4 * gram) - mine
        ids = r.values("SELECT id FROM prompt_tokens ORDER BY pos")
        first = r.one("SELECT min(pos) FROM token") - len(ids)
        ids += r.values("SELECT id FROM token ORDER BY pos")
        for pos, guess in r.rows("SELECT pos, id FROM draft WHERE depth = 1 AND verdict = 0"):
            before = ids[:pos - first]
            kept, alone = kept + 1, alone + ((before[-1], guess) not in zip(before, before[1:]))
    return Numbers(own=own, text=text, kept=kept, alone=alone)


@measure()
def overlap(texts=KINDS):
    """Share of an answer's tokens that follow, in the text before them, the same two tokens as they do now."""
    found = Counter()
    for kind, prompt in some_prompts(texts=texts):
        r = run("--greedy", "--max-tokens", "48", text=prompt, again="jacobi")
        ids = [x[0] for x in r.rows("SELECT id FROM prompt_tokens ORDER BY pos")]
        begin = len(ids)
        ids += [line["id"] for line in r.lines]
        grams = [tuple(ids[i:i + 3]) for i in range(len(ids) - 2)]
        found[kind, "all"] += len(ids) - begin
        found[kind, "seen"] += sum(grams[i - 2] in grams[:i - 2] for i in range(begin, len(ids)))
    return Numbers(at={kind: found[kind, "seen"] / found[kind, "all"] for kind, what in list(found) if what == "all"})


@measure()
def search(*option):
    """A search beside one plain sample: tokens of all branches a second; rows of a step, and what it costs; pages with and without
    sharing."""
    rates, costs, rows, pages, unshared, branches = [], [], [], 0, 0, 0
    mean = "SELECT avg({}) FROM step WHERE prefill_rows = 0"
    count = "SELECT count(*) * 1e9 / (SELECT sum(ns) FROM step) FROM token WHERE source <> 6"
    for _, prompt in some_prompts(1):
        options = ("--max-tokens", "48")
        plain, tree = run(*options, text=prompt), run(*options, *option, text=prompt)
        rates.append(tree.one(count) / plain.one(count))
        costs.append(tree.one(mean.format("ns")) / plain.one(mean.format("ns")))
        rows.append(tree.one(mean.format("rows")))
        sums = tree.rows("SELECT sum(pages), sum(unshared), max(members) FROM sharing")[0]
        pages, unshared, branches = pages + sums[0], unshared + sums[1], max(branches, sums[2])
    return Numbers(speed=Range(rates), cost=Range(costs), rows=sum(rows) / len(rows), saved=1 - pages / unshared, branches=branches)


def tally(lines, *options):
    model, other = (lab.random_model(f"tiny-{seed}", "--seed", seed) for seed in "12")
    drafts = ("--spec", f"draft:{other},2,2,0", "--rule", "rejection") if options else ()
    r = batch(["the cat"] * lines, "--model", model, "--raw", "--temp", "1.5", "--top-p", "1", "--top-k", "12", "--max-tokens", "3",
              "--slots", "16", *drafts)
    rejected = r.one("SELECT sum(rejected) FROM step")
    least = r.one("SELECT min(n) FROM (SELECT count(t.seq) AS n FROM batch b JOIN step s USING (step) LEFT JOIN token t ON t.step = b.step "
                  "AND t.request = b.request WHERE s.prefill_rows = 0 GROUP BY b.step, b.request)")
    return Counter(line["ids"][1] for line in r.lines), rejected, least


@measure()
def same_law():
    """The second token of 2,000 answers of a tiny model, plainly and by modified rejection of another one's drafts: chi-square of
    the two counts; least tokens of a row of a step with drafts."""
    (plain, _, _), (drafted, rejected, least) = tally(2000), tally(2000, "drafts")
    ids = [i for i in {*plain, *drafted} if plain[i] + drafted[i] >= 10]
    chi = sum((plain[i] - drafted[i])**2 / (plain[i] + drafted[i]) for i in ids)
    free = len(ids) - 1
    return Numbers(chi=chi, free=free, least=least, limit=free + 3.1 * (2 * free)**0.5, rejected=rejected)  # beyond it: one in a thousand


@measure()
def softness():
    """How many tokens make up 90 % of the first token's distribution, at three temperatures."""
    def survivors(t):
        r = run("--temp", str(t), "--top-p", "0.9", "--max-tokens", "1", text="Tell me a story.")
        return r.one("SELECT survivors FROM token")

    return Numbers(low=survivors(0.5), one=survivors(1), high=survivors(2))


def tensors(path):
    """Dimensions of the tensors of a GGUF file, by name, and where their data begins in the file."""
    size = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of a value, by its type
    with open(path, "rb") as f:
        def number(how):
            return struct.unpack("<" + how, f.read(struct.calcsize(how)))[0]

        def text():
            return f.read(number("Q")).decode()

        def skip(kind):
            if kind == 9:
                kind, n = number("I"), number("Q")
                return [skip(kind) for _ in range(n)]
            return text() if kind == 8 else f.read(size[kind])

        n, keys = struct.unpack("<8xQQ", f.read(24))
        for _ in range(keys):
            text(), skip(number("I"))
        found, offset = {}, {}
        for _ in range(n):
            name = text()
            found[name] = [number("Q") for _ in range(number("I"))]
            offset[name] = struct.unpack("<4xQ", f.read(12))[0]
        return found, {name: (f.tell() + 31) // 32 * 32 + at for name, at in offset.items()}


def places_of(path):
    """Where the data of each tensor begins in a GGUF file, and bytes up to the next."""
    _, at = tensors(path)
    ends = sorted([*at.values(), os.path.getsize(path)])
    return {name: (begin, ends[ends.index(begin) + 1] - begin) for name, begin in at.items()}


@measure()
def files():
    """Bytes of the shipped drafters and of their own keys and values, which are 16 bits as the model's are, beside the model's."""
    path, model = {n: os.path.join(lab.ROOT, f"demos/models/{n}.gguf") for n in ("eagle", "medusa", "draft")}, shapes()
    m = Numbers(at={n: os.path.getsize(p) / 1e6 for n, p in path.items()}, model=os.path.getsize(lab.MODEL) / 1e6)
    m.ctx, m.kv_model, m.full_model = model.ctx, model.kv_token, model.kv_token * model.ctx / 1e6
    m.kv = {n: 2 * sum(shape[1] for name, shape in tensors(p)[0].items() if name.endswith(("attn_k.weight", "attn_v.weight")))
            for n, p in path.items()}
    m.full = {n: m.kv[n] * m.ctx / 1e6 for n in path}
    m.most = max((m.at[n] + m.full[n]) / (m.model + m.full_model) for n in path)
    return m
