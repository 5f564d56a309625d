#!/usr/bin/env python3
"""Each barrier of the CUDA kernels is needed, and the tests would notice if it were gone. TAP.

    tests/cuda/test_cuda_barriers.py          one place in each file: what every `make test` asks
    tests/cuda/test_cuda_barriers.py --all    every place: `make barriers`
    tests/cuda/test_cuda_barriers.py --table  nothing is run: the count in tests/README.md, from the sources

The kernels' suites are run once on the checked shim, and say which places they visited that order
threads or memory: CU_SYNC (K_MEET of a plain op is one), CU_SYNC_WARP, cu_copy_wait, cu_arrive. Every place in the sources must be
among them. Then each of these is left out in turn, alone: some suite that visits it must fail. What can be left out
unnoticed is either not tested, or not needed and has to go from the kernel."""
import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
SUITES = ["matmul", "sparse", "stats", "step", "plain", "attention"]  # the quick ones first
KINDS = ["CU_SYNC", "CU_SYNC_WARP", "cu_copy_wait", "cu_arrive"]
FOLDERS = ["kernels/cuda", "kernels/op"]
README = "tests/README.md"
LIMIT = 300  # seconds of a suite; longer says nothing about the barrier
n = failed = 0


def ok(good, what):
    global n, failed
    n += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}", flush=True)


def in_sources():
    """{file:line: kind} of every place, as the sources have it; two on a line could not be told apart."""
    places = {}
    for folder, name in [("kernels", "attend.h"), *((folder, name) for folder in FOLDERS for name in sorted(os.listdir(folder)))]:
        if not name.endswith((".cuh", ".cu", ".h")) or name in ("device.cuh", "lanes.cuh", "lanes.h"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), f.read(), flags=re.S)
        for number, line in enumerate(text.splitlines(), 1):
            found = re.findall(rf"\b({'|'.join(KINDS)})\(", line.split("//")[0].replace("K_MEET(", "CU_SYNC("))
            if len(found) > 1:
                sys.exit(f"Bail out! {name}:{number}: two places on a line")
            if found:
                places[f"{name}:{number}"] = found[0]
    return places


def table(places):
    """Markdown: how many of each kind there are in each file."""
    files = sorted({place.split(":")[0] for place in places})
    rows = [["file", *(f"`{kind}`" for kind in KINDS)], ["---"] * (1 + len(KINDS))]
    for name in [*files, None]:
        counts = [sum(k == kind and name in (place.split(":")[0], None) for place, k in places.items())
                  for kind in KINDS]
        rows.append([name or "all", *(str(c) if c else "" for c in counts)])
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def run(suite, **extra):
    """How the suite went: '' well, else the first thing that was wrong. It is stopped there."""
    env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT="TAP", CUTAWAY_SHIM_ONLY="checked", **extra)
    child = subprocess.Popen(["timeout", str(LIMIT), f"build/tests/test_cuda_{suite}"], env=env, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                             start_new_session=True)
    for line in child.stdout:
        if line.startswith("not ok"):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return line.strip()
    status = child.wait()
    if status == 124:
        sys.exit(f"Bail out! test_cuda_{suite} runs longer than {LIMIT} s")
    return f"exit status {status}" if status else ""


def visited(suite):
    """{place: kind} of those that order."""
    with tempfile.NamedTemporaryFile("r") as f:
        wrong = run(suite, CUTAWAY_SHIM_PLACES=f.name)
        if wrong:
            sys.exit(f"Bail out! test_cuda_{suite} fails with every barrier in its place: {wrong}")
        return {name: kind for name, kind, _ in map(str.split, f)}


def without(place, suites):
    """Which suite noticed that the place was left out; '' if none."""
    for suite in suites:
        if run(suite, CUTAWAY_SHIM_LEAVE_OUT=place):
            return suite
    return ""


def one_of_each(places):
    """The last place in each file: the first is most often the one that is missed most."""
    return sorted({place.split(":")[0]: place
                   for place in sorted(places, key=lambda p: int(p.split(":")[1]))}.values())


def main():
    places = in_sources()
    if "--table" in sys.argv:
        print(table(places), end="")
        return 0
    with open(README, encoding="utf-8") as f:
        ok(table(places) in f.read(), f"{README} counts these places (--table prints the lines)")
    if not os.path.exists("build/tests/libcuda_shim_checked.so"):
        print("# the checked shim is not built\n1..1")
        return failed > 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        visitors = {}
        for suite, found in zip(SUITES, pool.map(visited, SUITES)):
            for place in found:
                visitors.setdefault(place, []).append(suite)
        strays = sorted(set(places) ^ set(visitors))
        ok(not strays, f"the suites visit all {len(places)} places of the sources" if not strays else
           "in the sources or visited, not both: " + " ".join(strays))
        names = sorted(set(places) & set(visitors)) if "--all" in sys.argv else one_of_each({p: places[p] for p in visitors if p in places})
        for name, suite in zip(names, pool.map(lambda name: without(name, visitors[name]), names)):
            ok(suite, f"{places[name]} at {name} is missed by test_cuda_{suite}" if suite else
               f"{places[name]} at {name} can be left out: {' '.join(visitors[name])} pass without it")
    print(f"1..{n}")
    return failed > 0


sys.exit(main())
