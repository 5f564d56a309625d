"""Measurements of requests that arrive over time: `cutaway load --counted` and `cutaway simulate`, whose figures are the same on every
machine, and a server of this machine."""
import csv
import os
import subprocess

import lab
from lab import Numbers, batch, measure, merge
from steps import questions

A100 = os.path.join(lab.ROOT, "tools/claims/a100.cost")
SHORT = ("--scale", "0.3", "--ctx", "2048", "--pages", "512")


def counted(*options):
    """Runs of a load by counted time."""
    return [Numbers(**run) for run in lab.report("load", "--counted", *options)["runs"]]


def simulated(*options):
    """A simulated load: its run, and what the fleet did."""
    found = lab.report("simulate", *options)
    return Numbers(**{**found, **found["runs"][0]})


def requests(name, *options):
    """The requests of a load by counted time, as rows."""
    path = os.path.join(lab.FOLDER.name, name)
    counted(*options, "--table", path)
    with open(path, encoding="utf-8") as f:
        return list(csv.DictReader(f))


def at(values, share):
    return sorted(values)[int(share * len(values))]


@measure()
def lengths_of_load():
    """Chats: tokens of prompts and answers, a histogram, and what rectangles of eight would have."""
    options = ("--kind", "chat", "--requests", "4000", "--rate", "0.5", "--ctx", "8192")
    rows, run = requests("lengths.csv", *options), counted(*options)[0]
    answers, prompts = ([int(row[name]) for row in rows] for name in ("generated", "prompt"))
    bins = [sum(low <= n < 2 * low for n in answers) / len(answers) for low in (32, 64, 128, 256, 512)]
    m = Numbers(answers=[at(answers, share) for share in (0.1, 0.5, 0.9)], prompts=[at(prompts, share) for share in (0.1, 0.5, 0.9)],
                below=sum(n < 32 for n in answers) / len(answers), bins=bins, padding=1 - run.used_tokens / run.padded_tokens,
                filled=run.used_tokens / run.reserved_tokens, in_pages=run.used_tokens / run.paged_tokens)
    m.filled_2k = (short := counted(*options[:-1], "2048")[0]).used_tokens / short.reserved_tokens
    m.histogram = ", ".join(f"from {32 << i}: {share:.0%}" for i, share in enumerate(bins))
    return m


def place(taken, need, room):
    """First fit: where `need` tokens lie between the sections {begin: length} of a room, or None; and all tokens that are free."""
    at_, free, found = 0, 0, None
    for begin, length in [*sorted(taken.items()), (room, 0)]:
        free, found = free + begin - at_, at_ if found is None and begin - at_ >= need else found
        at_ = begin + length
    return found, free


@measure()
def contiguous():
    """Chats in contiguous sections of their whole length from when they came to when they ended, in rooms of a third to all of the most
    tokens that were there at once. Who finds no place is not kept."""
    rows = requests("sections.csv", "--kind", "chat", "--requests", "4000", "--rate", "3", *SHORT)
    need = {row["request"]: int(row["prompt"]) + int(row["generated"]) for row in rows}
    events = sorted([(float(row["arrived_s"]), 1, row["request"]) for row in rows] + [(float(row["ended_s"]), 0, row["request"]) for row in rows])
    there = most = 0
    for _, comes, request in events:
        there += need[request] if comes else -need[request]
        most = max(most, there)
    m = Numbers(requests=len(rows), rooms=[most // 3, most // 2, most], share=[], free=[])
    for room in m.rooms:
        taken, where, spare = {}, {}, []
        for _, comes, request in events:
            begin, free = place(taken, need[request], room)
            if not comes:
                taken.pop(where.pop(request, None), None)
            elif begin is not None:
                taken[begin], where[request] = need[request], begin
            elif free >= need[request]:
                spare.append(free / need[request])
        m.share.append(len(spare) / len(rows))
        m.free.append(sum(spare) / max(1, len(spare)))
    return m


@measure()
def static_arrivals():
    """Chats, three a second, by the step and by the batch; and few of them, for whom nobody need wait."""
    options = ("--kind", "chat", "--requests", "2000", *SHORT)
    flow, static = counted(*options, "--rate", "3", "--policies", "fcfs,static")
    early = counted(*options, "--rate", "1", "--policies", "fcfs,static")

    def fill(rate):
        came = sorted(float(row["arrived_s"]) for row in requests(f"early-{rate}.csv", *options, "--rate", rate))
        return at([came[i + 7] - came[i] for i in range(0, len(came) - 7, 8)], 0.5)

    return Numbers(flow=flow, static=static, few=early[0], few_static=early[1], fill=fill("1"), fill_3=fill("3"), slower=static.e2e_p50_s / flow.e2e_p50_s,
                   later=early[1].ttft_p50_s / early[0].ttft_p50_s)


@measure()
def pauses():
    """Chats and long edits: whole prompts first, and in chunks beside the newest tokens."""
    first, mixed = counted("--kind", "chat,edit", "--requests", "1500", "--rate", "1", *SHORT, "--policies", "prefill-first,fcfs")
    return Numbers(first=first, mixed=mixed)


RATIOS = ("0.3", "1", "2", "4")


ORDER = "SELECT n FROM (SELECT seq, 1 AS n FROM admit UNION SELECT seq, -1 FROM finish UNION SELECT seq, 0 FROM step) ORDER BY seq"


def joined(ratio):
    """Of 32 questions on eight slots: [(how many came at a time, how many ran then)] by text-generation-inference's ratio."""
    r = batch(questions(32), "--greedy", "--slots", "8", "--max-tokens", "48", "--no-prefix-cache", "--policy", "tgi",
              "--max-waiting-tokens", "100000", "--waiting-served-ratio", ratio)
    found, came, ran = [], 0, 0
    for n in r.values(ORDER):
        came, ran = came + (n > 0), ran + (n < 0) * n
        if n == 0:
            found += [(came, ran)] if came and ran else []
            came, ran = 0, ran + came
    return found


@measure()
def served_ratios():
    """text-generation-inference's ratio alone (the limit of tokens out of reach), and with its limit of 20."""
    def under(limit, rate="3"):
        options = ("--kind", "chat", "--requests", "2000", "--rate", rate, *SHORT, "--policy", "tgi", "--max-waiting-tokens", limit)
        return [counted(*options, "--waiting-served-ratio", ratio)[0] for ratio in RATIOS]

    alone, limited, crowd = under("100000"), under("20"), under("100000", "8")
    waits, gaps = [r.ttft_p50_s for r in alone], [r.itl_p99_s for r in alone]
    m = Numbers(alone=alone, limited=limited, later=waits == sorted(waits) and waits[-1] > 1.5 * waits[0])
    at = {ratio: joined(ratio) for ratio in RATIOS}
    m.obeyed = at[RATIOS[0]] != [] and all(came >= int(ran * float(ratio)) for ratio, found in at.items() for came, ran in found)
    m.full = any(ran == 8 for found in at.values() for _, ran in found)
    m.joined = "; ".join(f"{ratio}: {len(found)}, " + (f"{max(ran for _, ran in found)}, {min(c / r for c, r in found):.2f}" if found
                                                        else "none ran") for ratio, found in at.items())
    m.longest = ", ".join(f"{r.queue_max} ({r.running_max} running)" for r in alone)
    m.crowd = ", ".join(f"{r.queue_max} ({r.running_max} running)" for r in crowd)
    m.limits = all(r.queue_max <= float(ratio) * r.running_max for r, ratio in zip(alone + crowd, RATIOS * 2))
    m.table = "; ".join(f"{ratio}: {r.ttft_p50_s:.2f} s and {r.ttft_p99_s:.1f} s, {1e3 * gap:.0f} ms"
                        for ratio, r, gap in zip(RATIOS, alone, gaps))
    return m


@measure()
def engines():
    """The load of Anyscale's comparison on predicted prices of an A100 with 13 billion weights."""
    path = os.path.join(lab.FOLDER.name, "trace.csv")
    script = os.path.join(lab.ROOT, "tools/bench/trace.py")
    with open(path, "wb") as f:
        subprocess.run([script], check=True, stdout=f)
    lab.STACK[-1].add("tools/bench/trace.py > trace.csv")

    def run(*more):
        return simulated("--cost", A100, "--arrivals", "trace:" + path, "--requests", "0", "--ctx", "2048", "--budget", "1024",
                         "--prefill-chunk", "512", *more)

    m = Numbers(one=run("--slots", "1"), static=run("--slots", "8", "--policy", "static", "--pages", "1000"),
                flow=run("--slots", "8", "--pages", "1000"), paged=run("--slots", "64", "--pages", "1000"))
    m.over_one, m.over_static = m.paged.tokens_s / m.one.tokens_s, m.paged.tokens_s / m.static.tokens_s
    m.lower = m.paged.e2e_p50_s < m.static.e2e_p50_s
    return m


@measure()
def classes():
    """Chats that someone reads and an application's batch, more than there is room for: waits for the first token by class."""
    m = Numbers()
    for policy in ("fcfs", "priority", "fair"):
        rows = requests(policy + ".csv", "--kind", "chat,system", "--requests", "1500", "--rate", "6.5", *SHORT, "--policy", policy)
        waits = [[], []]
        for row in rows:
            waits[int(row["user"]) >= 8].append(float(row["first_s"]) - float(row["arrived_s"]))
        setattr(m, policy, Numbers(chat=at(waits[0], 0.5), batch=at(waits[1], 0.5), chat99=at(waits[0], 0.99)))
    return m


@measure()
def served():
    """A server of this machine, asked by 8 users over HTTP."""
    env = {**os.environ, **lab.HOME}
    server = subprocess.Popen([lab.PROGRAM, "serve", "--port", "0", "--model", lab.MODEL, "--slots", "4"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=env, cwd=lab.ROOT)
    try:
        url = server.stdout.readline().decode().split()[-1]
        options = ("--users", "8", "--requests", "24", "--kind", "chat", "--scale", "0.1")
        found = lab.json.loads(lab.execute(["load", "--url", url, *options, "--json"], ""))["runs"][0]
        lab.STACK[-1].add("cutaway load --url http://127.0.0.1:8080/v1 " + " ".join(options))
    finally:
        server.terminate()
        server.wait(120)
        server.stdout.close()
    return Numbers(answered=found["requests"] - found["failed"], requests=found["requests"], waiting=found["queue_max"])


@measure()
def apart():
    """Chats and edits on four simulated A100s: each for both phases, and two for each phase."""
    options = ("--cost", A100, "--kind", "chat,edit", "--ctx", "4096", "--pages", "1000", "--slots", "64", "--router", "least-loaded",
               "--rate", "8", "--requests", "4000", "--seed", "5", "--slo", "ttft=1s,itl=50ms")
    split = ("--replicas", "2", "--prefill-ranks", "1", "--budget", "2048", "--prefill-chunk", "0", "--bandwidth")
    m = Numbers(both=simulated(*options, "--replicas", "4", "--budget", "256", "--prefill-chunk", "128"),
                fast=simulated(*options, *split, "300"), middle=simulated(*options, *split, "100"),
                slow=simulated(*options, *split, "25"))
    for r in (m.both, m.fast, m.middle, m.slow):
        r.within = r.good / r.requests
    return m


@measure()
def rates():
    """The curve of latency and throughput of chats."""
    found = lab.report("load", "--counted", "--kind", "chat", "--requests", "2000", "--rate", "0.5,1,2,4,8", *SHORT)
    runs = [Numbers(**run) for run in found["runs"]]
    curve = "; ".join(f"{r.rate:g} a second {r.tokens_s:.0f} tok/s, {r.e2e_p50_s:.2f} s" for r in runs)
    return Numbers(runs=runs, curve=curve, knee=found["knees"][0]["load"])


@measure()
def routed():
    """One simulated replica, and four with four times the load."""
    options = ("--scale", "0.5", "--ctx", "2048", "--seed", "3", "--requests", "4000")
    one = simulated(*options, "--rate", "2", "--live", "8")
    m = Numbers(one=one, by={router: simulated(*options, "--rate", "8", "--live", "32", "--replicas", "4", "--router", router)
                             for router in ("round-robin", "least-loaded", "prefix")})
    full_one = simulated(*options, "--rate", "40", "--live", "8")
    full = simulated(*options, "--rate", "160", "--live", "32", "--replicas", "4", "--router", "prefix")
    m.capacity = full.tokens_s / full_one.tokens_s
    for r in (one, *m.by.values()):
        r.cached = r.cached_tokens / r.prompt_tokens
    return m


@measure()
def budgets():
    """Chats and edits by the rows of a step and the chunk of a prompt."""
    found = {n: counted("--kind", "chat,edit", "--requests", "1500", "--rate", "1", *SHORT, "--budget", n, "--prefill-chunk", chunk)[0]
             for n, chunk in (("64", "32"), ("256", "128"), ("2048", "0"))}
    return Numbers(small=found["64"], middle=found["256"], large=found["2048"])


@measure()
def padded():
    """Questions about documents and an application's prompts, as rectangles of eight and as they are."""
    r = counted("--kind", "document,system", "--requests", "2000", "--rate", "1", "--scale", "0.3", "--ctx", "2048")[0]
    return merge(r, padding=1 - r.used_tokens / r.padded_tokens, cached=r.cached_tokens / r.prompt_tokens)
