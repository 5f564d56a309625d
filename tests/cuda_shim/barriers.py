#!/usr/bin/env python3
"""Each barrier of the CUDA kernels is needed, and the tests would notice if it were gone. TAP.

The kernels' suites are run once on the checked shim, and say which places they visited that order
threads or memory: CU_SYNC, CU_SYNC_WARP, cu_copy_wait, cu_arrive, cu_acquire. Then each of these is left
out in turn, alone: some suite that visits it must fail. Minutes of work: `make barriers`. What can be left out unnoticed is either not
tested, or not needed and has to go from the kernel."""
import concurrent.futures
import os
import signal
import subprocess
import sys
import tempfile

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SUITES = ["matmul", "stats", "walk", "attention"]  # the quick ones first
LIMIT = 300  # seconds of a suite; longer says nothing about the barrier


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
    """{place: visits} of those that order."""
    with tempfile.NamedTemporaryFile("r") as f:
        wrong = run(suite, CUTAWAY_SHIM_PLACES=f.name)
        if wrong:
            sys.exit(f"Bail out! test_cuda_{suite} fails with every barrier in its place: {wrong}")
        return {name: (kind, int(visits)) for name, kind, visits in map(str.split, f)}


def without(place, suites):
    """Which suite noticed that the place was left out; '' if none."""
    for suite in suites:
        if run(suite, CUTAWAY_SHIM_LEAVE_OUT=place):
            return suite
    return ""


def main():
    if not os.path.exists("build/tests/libcuda_shim_checked.so"):
        print("1..0 # skip the checked shim is not built")
        return
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        places = {}
        for suite, found in zip(SUITES, pool.map(visited, SUITES)):
            for name, (kind, _) in found.items():
                places.setdefault(name, (kind, []))[1].append(suite)
        names = sorted(places)
        print(f"1..{len(names) + 1}", flush=True)
        tested = pool.map(lambda name: without(name, places[name][1]), names)
        for i, (name, suite) in enumerate(zip(names, tested), 1):
            kind, suites = places[name]
            print(f"ok {i} - {kind} at {name} is missed by test_cuda_{suite}" if suite else
                  f"not ok {i} - {kind} at {name} can be left out: {' '.join(suites)} pass without it", flush=True)
    enough = "ok" if len(names) >= 12 else "not ok"  # a script that finds no places proves nothing
    print(f"{enough} {len(names) + 1} - the suites visit {len(names)} places")


main()
