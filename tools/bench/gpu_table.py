#!/usr/bin/env python3
"""What tools/gpu_report.sh measured: the table of docs/performance.md from its bench.jsonl (and ncu-*.csv beside it) with what must be
and what is aimed at; the newest figure alone; or the kernels in a file of ncu.

    gpu_table.py bench.jsonl; gpu_table.py --last bench.jsonl; gpu_table.py --ncu ncu-135M.csv
    gpu_table.py --csv 'NVIDIA H200, commit c23c45e9' bench.jsonl >docs/gpu.csv     which tools/claims reads
"""
import csv
import json
import math
import statistics
import sys

STALL, SELECTED = "smsp__average_warps_issue_stalled_", "smsp__average_warps_issue_stalled_selected_per_issue_active.ratio"
LOCAL = "l1tex__t_requests_pipe_lsu_mem_local_op_{}.sum"  # of spilled registers, mostly
ALL = "135M 1B-Q4_1 1B-F16 1B-Q8_0"
# figure, its name, must, aim, the models whose figures stand side by side; off: not recorded
ROWS = (
    ("read_gb_s", "plain reads of the device's memory, GB/s", "", "", "135M"),
    ("decode_tok_s", "135M Q4_1 decode, recorded; not, tok/s", "2,000", "4,000", "135M 135M-off"),
    ("decode_1k_tok_s", "… 1,024 tokens deep", "", "", "135M 135M-off"),
    ("decode_tok_s", "1B Q4_1; F16; Q8_0 decode, recorded, tok/s", "1,500; 1,000", "3,000; 1,300", "1B-Q4_1 1B-F16 1B-Q8_0"),
    ("decode_tok_s", "… not recorded", "", "", "1B-Q4_1-off 1B-F16-off 1B-Q8_0-off"),
    ("decode_tok_s", "8B Q4_1; F16; Q8_0 decode, recorded, tok/s", "", "", "8B-Q4_1 8B-F16 8B-Q8_0"),
    ("share", "… share of those reads", "50 %; 65 %", "75 %; 85 %", "8B-Q4_1 8B-F16 8B-Q8_0"),
    ("share", "1B Q4_1; F16; Q8_0, likewise", "", "", "1B-Q4_1 1B-F16 1B-Q8_0"),
    ("prefill_tok_s", "prefill 512, 135M; 1B Q4_1; F16; Q8_0, tok/s", "60,000; 20,000", "200,000; 60,000", ALL),
    ("batch64_tok_s", "64 sequences, 135M; 1B Q4_1; F16; Q8_0, total tok/s", "40,000; 12,000", "100,000; 40,000", ALL),
    ("batch16_tok_s", "16 sequences, 135M, recorded; not", "", "", "135M 135M-off"),
    ("prefill_tok_s", "prefill, 135M, not recorded", "", "", "135M-off"),
    ("batch64_tok_s", "64 sequences, 135M, not recorded", "", "", "135M-off"),
    ("record_percent", "recording on against off, %", "5", "1", "135M"),
    ("decode_tok_s", "135M without the fixed order, decode, recorded", "", "", "135M-free"),
    ("prefill_tok_s", "… prefill", "", "", "135M-free"),
    ("attention", "attention, 135M, 10; 1,024 tokens deep, us a layer", "6; 12", "4; 8", "135M 135M-deep"),
)


def value(run):
    """Median of single runs; of a load the rate of its steps, or of its prompts; else what the bench said."""
    if "runs" in run:
        return statistics.median(run["runs"])
    if "load" not in run:
        return run[run["figure"]]
    load = run["load"]["runs"][0]
    if run["figure"] == "prefill_tok_s":
        return load["prompt_tokens"] / load["requests"] / load["ttft_mean_s"]
    return run["slots"] / load["itl_p50_s"]


def show(x, unit=""):
    return "-" if x is None else f"{x:,.0f}{unit}" if abs(x) >= 100 else f"{x:.3g}{unit}"


def last(run):
    more = f" ({show(min(run['runs']))} .. {show(max(run['runs']))})" if "runs" in run else ""
    return f"{run['model']} {run['figure']} {show(value(run))}{more}"


def number(row, name):
    try:
        return float(row[name].replace(",", ""))
    except (KeyError, ValueError, AttributeError):
        return None


def kernels(path):
    """The last launch of each kernel, grid and (by fifths) amount of work. ncu says other things between the rows, and units in the first."""
    with open(path, encoding="utf-8", errors="replace") as f:
        rows = [r for r in csv.DictReader(line for line in f if line.startswith('"')) if r["ID"]]
    work = lambda r: round(5 * math.log(number(r, "smsp__inst_executed.sum") or 1))
    return sorted({(r["Kernel Name"], r["Grid Size"], work(r)): r for r in rows}.values(), key=lambda r: int(r["ID"]))


def show_kernels(path):
    print("kernel                         grid      us regs  warp inst   local  read MB  issues  stalls, cycles an instruction")
    for r in kernels(path) or sys.exit("no launch was profiled"):
        us, read = number(r, "gpu__time_duration.sum"), number(r, "dram__bytes_read.sum")
        local = [number(r, LOCAL.format(op)) for op in ("ld", "st")]
        stalls = sorted(((number(r, k) or 0, k[len(STALL):].split("_per_")[0]) for k in r if k and STALL in k and k != SELECTED), reverse=True)
        print(f"{r['Kernel Name'].split('(')[0][-20:]:<20} {r['Grid Size']:>14} {show(us and us / 1e3):>7}"
              f" {show(number(r, 'launch__registers_per_thread')):>4} {show(number(r, 'smsp__inst_executed.sum')):>10}"
              f" {show(None if None in local else sum(local)):>7} {show(read and read / 1e6):>8}"
              f" {show(number(r, 'smsp__issue_active.avg.pct_of_peak_sustained_active'), ' %'):>7}"
              f"  {', '.join(f'{k} {v:.1f}' for v, k in stalls[:3])}")


def read(path):
    with open(path, encoding="utf-8") as f:
        return {(r["figure"], r["model"]): r for r in map(json.loads, f)}


def figures(machine, path):
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["machine", "model", "figure", "value"])
    rows.writerows([machine, model, figure, f"{value(run):.5g}"] for (figure, model), run in read(path).items())


def table(path):
    runs = read(path)
    known = {key: value(run) for key, run in runs.items()}
    reads = known.get(("read_gb_s", "135M"))
    for (figure, model), run in runs.items():
        if figure == "decode_tok_s" and "runs" in run and reads:
            known["share", model] = value(run) * run["bytes"] / reads / 1e7
    print("\n| figure | must | aim | measured |\n| --- | --- | --- | --- |")
    for figure, name, must, aim, models in ROWS:
        unit = " %" if figure == "share" else ""
        print(f"| {name} | {must} | {aim} | {'; '.join(show(known.get((figure, m)), unit) for m in models.split())} |")


if __name__ == "__main__":
    if sys.argv[1] == "--ncu":
        show_kernels(sys.argv[2])
    elif sys.argv[1] == "--csv":
        figures(*sys.argv[2:])
    elif sys.argv[1] == "--last":
        with open(sys.argv[2], encoding="utf-8") as lines:
            print(last(json.loads(lines.read().splitlines()[-1])))
    else:
        table(sys.argv[1])
