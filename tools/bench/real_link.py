#!/usr/bin/env python3
"""What `--link` says of a network, held against one: two ranks of MPI in network namespaces of their own, joined by a link of a rate and a
latency, beside two ranks that are threads with --link. As root, with MPI (make mpi).

    tools/bench/real_link.py [RATE_MBIT [LATENCY_MS [TOKENS]]]      100, 1 and 40

The link is a veth pair slowed by `tc netem`, where the kernel has that; elsewhere a pair of TUN devices, between which this script
holds each packet back. Each direction has the rate and the latency. Prints milliseconds a decoded token (the median of the
recording's steps), bytes and exchanges. It is no test: on a machine of few cores the link competes with the ranks for them."""
import collections
import fcntl
import multiprocessing
import os
import select
import shlex
import sqlite3
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "cutaway")
ADDRESS = ("10.77.0.1", "10.77.0.2")
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
ECHO = """import socket
s = socket.create_server(("", 7000)); c = s.accept()[0]; c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
while d := c.recv(2000): c.send(d)"""
PING = """import socket, statistics, sys, time
c = socket.create_connection((sys.argv[1], 7000)); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def once():
    t = time.monotonic(); c.send(b"x" * 1000); n = 0
    while n < 1000: n += len(c.recv(2000))
    return (time.monotonic() - t) * 1e3
print(statistics.median(once() for _ in range(100)))"""
NAMES = [f"cutaway{os.getpid()}{side}" for side in "ab"]


def do(command, check=True):
    return subprocess.run(shlex.split(command), check=check, capture_output=not check).returncode == 0


def netem(mbit, ms):
    """Whether there is such a link now."""
    do(f"ip -n {NAMES[0]} link add link0 type veth peer name link0 netns {NAMES[1]}")
    if not all(do(f"tc -n {name} qdisc add dev link0 root netem rate {mbit}mbit delay {ms}ms", check=False) for name in NAMES):
        do(f"ip -n {NAMES[0]} link del link0")
        return False
    return True


def tun(name):
    """A TUN device that is then in that namespace; what is sent there is read here."""
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode()[:15], IFF_TUN | IFF_NO_PI))
    do(f"ip link set {name[:15]} netns {name}")
    do(f"ip -n {name} link set {name[:15]} name link0")
    return fd


def carry(source, sink, mbit, ms):
    """Packets one after the other at the rate, each after the latency."""
    waiting, free = collections.deque(), 0.0
    while True:
        due = waiting[0][0] - time.monotonic() if waiting else 1
        if due <= 0:
            os.write(sink, waiting.popleft()[1])
        elif due < 3e-5 or select.select([source], [], [], due - 2e-5)[0]:
            if select.select([source], [], [], 0)[0]:
                packet = os.read(source, 1 << 16)
                free = max(free, time.monotonic()) + len(packet) * 8 / mbit / 1e6
                waiting.append((free + ms / 1e3, packet))


def join(mbit, ms):
    for name in NAMES:
        do(f"ip netns add {name}")
    has_netem = netem(mbit, ms)
    fds = [] if has_netem else [tun(name) for name in NAMES]
    for name, own, other in zip(NAMES, ADDRESS, ADDRESS[::-1]):
        do(f"ip -n {name} addr add {own} peer {other} dev link0")
        do(f"ip -n {name} link set link0 up")
        do(f"ip -n {name} link set lo up")
    for source, sink in (fds, fds[::-1]) if fds else ():
        multiprocessing.Process(target=carry, args=(source, sink, mbit, ms), daemon=True).start()
    return "veth and tc netem" if has_netem else "TUN devices, and packets held back by this script"


def round_trip():
    """Of 1,000 bytes by TCP, in ms: the median of 100."""
    inside = [["ip", "netns", "exec", name, sys.executable, "-c"] for name in NAMES]
    with subprocess.Popen([*inside[1], ECHO]):
        time.sleep(1)
        return float(subprocess.run([*inside[0], PING, ADDRESS[1]], stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(name, command, folder):
    record = os.path.join(folder, name + ".db")
    done = subprocess.run([*command, "--record", record], capture_output=True, text=True, check=False, timeout=300,
                          env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    if done.returncode:
        raise SystemExit(f"{name}: {done.stdout}{done.stderr}")
    with sqlite3.connect(record) as db:
        steps = [row[0] / 1e6 for row in db.execute("SELECT ns FROM step WHERE prefill_rows = 0")]
        bits = db.execute("SELECT group_concat(hash) FROM token").fetchone()[0]
        sent, exchanges = db.execute("SELECT avg(sent), avg(exchanges) FROM traffic JOIN step USING (step) "
                                     "WHERE rank = 0 AND prefill_rows = 0").fetchone() or (0, 0)
    some = statistics.quantiles(steps, n=10)
    print(f"{name:10} {statistics.median(steps):7.1f} ms a token ({some[0]:.1f} .. {some[8]:.1f}), "
          f"{1000 / statistics.median(steps):.2f} tok/s, {sent or 0:.0f} bytes and {exchanges or 0:.0f} exchanges a token")
    return bits


def main():
    mbit, ms, tokens = (float(a) if a else b for a, b in zip(sys.argv[1:] + [""] * 3, (100, 1, 40)))
    run = [PROGRAM, "run", "--raw", "--greedy", "--threads", "1", "--max-tokens", str(int(tokens))]
    prompt = "The capital of France is"
    with tempfile.TemporaryDirectory(prefix="cutaway-link-") as folder:
        agent = os.path.join(folder, "agent")
        with open(agent, "w", encoding="utf-8") as f:  # in place of ssh: HOST COMMAND …
            f.write(f'#!/bin/sh\nshift\nexec ip netns exec {NAMES[1]} unshare --uts sh -c "hostname {NAMES[1]}; $*"\n')
        os.chmod(agent, 0o700)
        only = "10.77.0.0/24"
        mpi = ["ip", "netns", "exec", NAMES[0], "mpirun", "--host", ",".join(a + ":1" for a in ADDRESS), "-n", "2", "--mca",
               "plm_rsh_agent", agent, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", only, "--mca",
               "oob_tcp_if_include", only]
        try:
            print(f"{mbit:g} Mbit/s and {ms:g} ms each way: {join(mbit, ms)}")
            print(f"1,000 bytes by TCP, there and back: {round_trip():.2f} ms; as --link counts: {2 * (ms + 8 / mbit):.2f} ms")
            bits = [measure("threads", [*run, "--tensor-parallel", "2", prompt], folder),
                    measure("--link", [*run, "--tensor-parallel", "2", "--link", f"{mbit:g}mbit,{ms:g}ms", prompt], folder),
                    measure("real", [*mpi, *run, prompt], folder)]
        finally:
            for child in multiprocessing.active_children():
                child.kill()
            for name in NAMES:
                do(f"ip netns del {name}", check=False)
        print("the same bits" if len(set(bits)) == 1 else "OTHER BITS")
        return len(set(bits)) != 1


if __name__ == "__main__":
    sys.exit(main())
