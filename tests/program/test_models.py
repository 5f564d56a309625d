#!/usr/bin/env python3
"""docs/models.md against the program: every family is there once, each file of tests/data/zoo is under its own family, and
what the page says is refused is refused, and nothing else. TAP; Python's standard library alone."""
import glob
import os
import re
import struct
import subprocess
import sys

from tap import PROGRAM, ROOT, check, finish

ZOO = os.path.join(ROOT, "tests", "data", "zoo")
GROUPS = {  # of settings, by the page's last table
    "diffusion": {"visible stream:4+window:32", "visible top:25%", "visible window:32", "visible h2o:32", "cache-format kivi4",
                  "activations int8-tensor", "spec skip", "spec ngram:3", "twin on"},
    "encoder": {"visible stream:4+window:32", "visible top:25%", "visible window:32", "visible h2o:32", "cache-format kivi4",
                "spec skip", "twin on", "activations int8-tensor"},
    "experts": {"weights 4/32", "activations int8-tensor"},
    "latent": {"visible stream:4+window:32", "visible top:25%", "cache-format q8", "cache-format kivi4"},
    "no keys": {"visible stream:4+window:32", "visible top:25%", "visible window:32", "visible h2o:32", "cache-format q8",
                "cache-format kivi4"},
    "states": {"spec skip", "twin on"},
    "stream": {"visible stream:4+window:32"},
}
TRIED = sorted(set.union(*GROUPS.values()) | {"spec ngram:3", "kv-cache off"})


def tables():
    """Lists of rows, each a list of cells, by the heading above them."""
    found, heading = {}, None
    with open(os.path.join(ROOT, "docs", "models.md"), encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                heading = line[3:].strip()
            elif line.startswith("|"):
                found.setdefault(heading, []).append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return {heading: rows[2:] for heading, rows in found.items()}


def families():
    """Names by arch_x, of those in the table of families."""
    names = {}
    for path in glob.glob(os.path.join(ROOT, "engine", "arch", "*.c")):
        with open(path, encoding="utf-8") as f:
            names.update(re.findall(r'^const struct arch (arch_\w+) = \{\s*(?:\.name = )?"([^"]+)"', f.read(), re.M))
    with open(os.path.join(ROOT, "engine", "arch", "table.c"), encoding="utf-8") as f:
        return [names.get(arch, arch) for arch in re.findall(r"&(arch_\w+)", f.read())]


def architecture(path):
    with open(path, "rb") as f:
        head = f.read(4096)
    at = head.index(b"general.architecture") + len(b"general.architecture") + 4
    (n,) = struct.unpack("<Q", head[at:at + 8])
    return head[at + 8:at + 8 + n].decode()


def is_refused(path, setting):
    """In words that are no crash."""
    name, value = setting.split(" ")
    done = subprocess.run([PROGRAM, "run", "--model", path, "--no-record", "--raw", "--greedy", "--max-tokens", "2",
                           "--" + name, value, "the cat"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
    if done.returncode not in (0, 2, 3, 4) or (done.returncode and not done.stderr.startswith(b"cutaway: ")):
        raise RuntimeError(f"{path} {setting}: status {done.returncode}, {done.stderr.decode('utf-8', 'replace')}")
    return done.returncode != 0


def said(cell, is_expert_file):
    """Settings that a cell names; 'experts, if it has some' counts for files with experts."""
    groups = [g for g in cell.split(", ") if g and g != "if it has some"]
    if "if it has some" in cell and not is_expert_file:
        groups.remove("experts")
    return set().union(*(GROUPS[g] for g in groups))


def main():
    page = tables()
    rows = page["Families"]
    check("each family is on the page once", sorted(r[0] for r in rows) == sorted(families()),
          set(families()) ^ {r[0] for r in rows})
    check("each group is explained once", [r[0] for r in page["Not with it"]] == sorted(GROUPS), page["Not with it"])
    files = {os.path.basename(p)[:-5]: p for p in glob.glob(ZOO + "/*.gguf")}
    named = [(name, r) for r in rows for name in r[5].split(";")[0].split(", ") if not name.startswith("none")]
    check("each file of the zoo is named once", sorted(n for n, _ in named) == sorted(files),
          set(files) ^ {n for n, _ in named})
    for name, row in sorted(named):
        if name not in files:
            continue
        with open(files[name], "rb") as f:
            experts = b".expert_count" in f.read(16384)
        refused = {s for s in TRIED if is_refused(files[name], s)}
        check(f"{name} is of {row[0]}, and is refused what its row says",
              architecture(files[name]) == row[0] and refused == said(row[4], experts),
              f"{architecture(files[name])}: {sorted(refused ^ said(row[4], experts))}")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
