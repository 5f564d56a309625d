#!/usr/bin/env python3
"""The whole program on the CUDA back end, its kernels on the shim (tests/cuda/shim): the same tokens and
the same hashes of logits as on the CPU, in each way to run a step, on the fast and on the checked build; and
what a device does that runs out of memory, faults, or goes away. TAP, the standard library."""
import json
import os
import pty
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../program"))
from tap import sample

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
FAST, CHECKED = "build/tests/libcuda_shim.so", "build/tests/libcuda_shim_checked.so"
if os.environ.get("CUTAWAY_SHIM_ONLY") == "fast":
    CHECKED = FAST
FORMATS = [line.split() for line in subprocess.check_output(["build/tests/mktiny", "--types"], text=True).splitlines()]
REAL = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
n = failed = 0


def ok(good, what, why=""):
    global n, failed
    n += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {n} - {what}")
    for line in [] if good else str(why).splitlines()[-12:]:
        print("#", line)
    sys.stdout.flush()


def cutaway(*args, library=FAST, **env):
    """(exit status, output, errors)"""
    done = subprocess.run(["./cutaway", *args], env=dict(os.environ, CUTAWAY_CUDA_DRIVER=library, **env), text=True,
                          errors="replace", stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


def answer(model, backend, *more, tokens=12, prompt="Hello there, you", **env):
    return cutaway("run", "--json", "--greedy", "--backend", backend, "--model", model, "--max-tokens", str(tokens), *more,
                   prompt, **env)


def tiny(folder, name, *options):
    path = os.path.join(folder, name + ".gguf")
    subprocess.run(["build/tests/mktiny", *options, path], check=True, stdout=subprocess.DEVNULL)
    return path


def test_equal(model, what, ways, *options, **more):
    status, expected, errors = answer(model, "cpu", *options, **more)
    ok(status == 0 and expected.count('"hash"') >= 2, f"{what}: the CPU answers", errors)
    for mode, library, seed in ways:
        status, out, errors = answer(model, "cuda", "--cuda-mode", mode, *options, library=library, CUTAWAY_SHIM_SEED=str(seed),
                                     **more)
        build = "checked" if library == CHECKED else "fast"
        ok(status == 0 and out == expected, f"{what}: {mode}, {build} build, seed {seed}: every hash is the CPU's",
           errors or f"{out}\nexpected\n{expected}")


def test_models(folder):
    types = [("Q4_1", []), ("Q8_0", ["--tied", "0"]), ("F16", ["--bias", "--arch", "qwen2", "--pre", "qwen2"]),
             ("IQ4_NL", ["--kv-heads", "1"]), ("Q4_K", ["--dim", "256", "--ffn", "256"]),
             ("Q6_K", ["--dim", "256", "--ffn", "256"])]
    for i, (kind, options) in enumerate(sample(types, 3)):
        model = tiny(folder, kind, "--type", kind, *options)
        test_equal(model, kind, [("graph", FAST, i), ("launches", FAST, 7), (("graph", "launches")[i % 2], CHECKED, i)], tokens=6)


def test_grids(model):
    """The bits do not depend on how many blocks there are."""
    expected = answer(model, "cpu")[1]
    for processors in ("1", "7"):
        out = answer(model, "cuda", CUTAWAY_SHIM_MULTIPROCESSORS=processors)[1]
        ok(out == expected, f"{processors} multiprocessors: every hash is the CPU's", out)


ZOO = ("deepseek2", "deepseek3", "t5", "llada", "dream")
WAYS = ("--cache-format=q8", "--cache-format=kivi4", "--cache-format=kivi2", "--visible=top:96", "--visible=h2o:96",
        "--visible=stream:4+window:60", "--visible=stride:32+window:32", "--attention=heads", "--attention=matrix")


def test_ways(folder):
    """What attends in no usual way: latent attention, an encoder, rows that see later ones; keys that are codes, chosen, or
    kept; matrices of scores. The tokens and the hashes of a CPU."""
    model = tiny(folder, "ways", "--type", "Q8_0", "--ctx", "1024")
    cases = [(f"tests/data/zoo/{name}.gguf", (), "abcdefgh ijklmnop 12345") for name in ZOO]
    cases += [(model, (way,), "It was the best of times, it was the worst of times. " * 6) for way in WAYS]
    cases += [("tests/data/zoo/deepseek2.gguf", ("--attention=matrix", "--cache-format=e4m3"), "abcdefgh ijklmnop 12345")]
    for i, (path, more, prompt) in enumerate(sample(cases, 4)):
        args = ("run", "--json", "--raw", "--greedy", "--no-record", "--model", path, "--max-tokens", "4", *more)
        status, expected, errors = cutaway(*args, "--backend", "cpu", prompt)
        what = " ".join((os.path.basename(path), *more))
        ok(status == 0 and expected.count('"hash"') >= 2, f"{what}: the CPU answers", errors)
        for mode, library in (("graph", FAST), ("launches", CHECKED)):
            status, out, errors = cutaway(*args, "--backend", "cuda", "--cuda-mode", mode, prompt, library=library,
                                          CUTAWAY_SHIM_SEED=str(i), CUTAWAY_SHIM_MULTIPROCESSORS="2")
            ok(status == 0 and out == expected, f"{what}: {mode}: every hash is the CPU's", errors or f"{out}\nexpected\n{expected}")


def test_searches(folder, model):
    """The same answers and scores, which come of whole rows and of integer masses; recorded there, verified on a CPU."""
    record = os.path.join(folder, "search.db")
    for i, option in enumerate(("--beam=3", "--best-of=4", "--mcts=6,2,4")):
        args = ("run", "--json", "--model", model, "--max-tokens", "8", "--temp", "0.9", option)
        expected = cutaway(*args, "--no-record", "--backend", "cpu", "Once")
        ok(expected[0] == 0 and expected[1].count('"score"') >= 3, f"{option}: the CPU answers", expected[2])
        status, out, errors = cutaway(*args, "--record", record, "--backend", "cuda", "--cuda-mode",
                                      ("graph", "launches")[i % 2], "Once", library=(FAST, CHECKED)[i == 0])
        ok(status == 0 and out == expected[1], f"{option} on the device: the CPU's answers and scores", errors + out)
        status, out, errors = cutaway("verify", "--backend", "cpu", "--model", model, record)
        ok(status == 0 and "all equal" in out, f"{option}: its recording is verified on a CPU", errors + out)
        os.unlink(record)


def test_failures(model):
    """Errors are said, in words that name the device, with an exit status, and nobody crashes."""
    cases = [("out of device memory", 5, {"CUTAWAY_SHIM_FAIL": "cuMemAlloc_v2:2=2"}, "has no room"),
             ("a small device", 5, {"CUTAWAY_SHIM_MEMORY": "200000"}, "has no room"),
             ("out of pinned memory", 5, {"CUTAWAY_SHIM_FAIL": "cuMemHostAlloc:1=2"}, "pinned"),
             ("a kernel faults", None, {"CUTAWAY_SHIM_FAIL": "cuStreamSynchronize:9=719!"}, "given up"),
             ("the device goes away", None, {"CUTAWAY_SHIM_FAIL": "cuMemcpyHtoDAsync_v2:6=999!"}, "given up"),
             ("no GPU", 6, {"CUTAWAY_SHIM_DEVICES": "0"}, "no GPU"),
             ("an old GPU", 6, {"CUTAWAY_SHIM_CAPABILITY": "75"}, "below 8.0"),
             ("an old driver", 6, {"CUTAWAY_SHIM_VERSION": "11040"}, "11.4")]
    for what, expected, env, words in cases:
        status, _, errors = answer(model, "cuda", **env)
        good = (status == expected if expected else 0 < status < 100) and words in errors
        ok(good, f"{what}: exit status and words", f"exit status {status}: {errors}")
    for call in (1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 28):  # whatever fails, at whatever moment: no crash
        for name in ("cuMemAlloc_v2", "cuStreamSynchronize"):
            status, _, errors = answer(model, "cuda", tokens=2, CUTAWAY_SHIM_FAIL=f"{name}:{call}=2")
            if status not in (0, 5, 6):
                ok(False, f"{name} fails at call {call}", f"exit status {status}: {errors}")
                return
    ok(True, "allocations and waits that fail at any moment end in an error, none in a crash")


def test_user(folder, model):
    """What somebody sees who asks for a GPU: which devices there are, or what is wrong and what to do about it."""
    text = os.path.join(folder, "text.so")
    with open(text, "w", encoding="ascii") as f:
        f.write("no library\n" * 100)
    status, out, errors = cutaway("devices", CUTAWAY_SHIM_DEVICES="2")
    ok(status == 0 and out.count("shim on the CPU") == 2 and out.count(" yes") == 2, "two devices are listed", out + errors)
    status, out, _ = cutaway("devices", "--json", CUTAWAY_SHIM_CAPABILITY="75")
    ok(status == 0 and not json.loads(out)["devices"][0]["usable"] and "below 8.0" in out, "one that is too old is listed, with the reason", out)
    expected = answer(model, "cpu", tokens=2)[1]
    status, out, errors = answer(model, "cuda", "--device", "1", tokens=2, CUTAWAY_SHIM_DEVICES="2")
    ok(status == 0 and out == expected, "the second device answers", errors)
    none, busy = "use --backend cpu", "another program has the GPU"
    cases = [  # what is wrong, library, environment, words in each of: devices, --backend cuda; whether auto goes on
        ("no driver", "/nowhere/libcuda.so.1", {}, ["no CUDA driver", "NVIDIA's driver", none]),
        ("a driver that is no library", text, {}, ["no CUDA driver", none]),
        ("a library that is no driver", "libm.so.6", {}, ["is no CUDA driver", "cuInit", none]),
        ("an old driver", FAST, {"CUTAWAY_SHIM_VERSION": "11040"}, ["11.4", "12.0", "update", none]),
        ("no GPU", FAST, {"CUTAWAY_SHIM_DEVICES": "0"}, ["13.0 finds no GPU", "nvidia-smi", none]),
        ("a driver that does not start", FAST, {"CUTAWAY_SHIM_FAIL": "cuInit:1=999"}, ["999", "nvidia-smi", none]),
        ("a driver of another version than its kernel module", FAST, {"CUTAWAY_SHIM_FAIL": "cuInit:1=803"},
         ["803", "restart the machine", none]),
        ("GPUs that cannot be counted", FAST, {"CUTAWAY_SHIM_FAIL": "cuDeviceGetCount:1=999"}, ["nvidia-smi|finds no GPU"]),
        ("a GPU that is too old", FAST, {"CUTAWAY_SHIM_CAPABILITY": "75"}, ["below 8.0"]),
        ("a GPU that another has", FAST, {"CUTAWAY_SHIM_FAIL": "cuDevicePrimaryCtxRetain:1=46"}, [busy + "|yes"]),
        ("a GPU whose memory another has", FAST, {"CUTAWAY_SHIM_FAIL": "cuDevicePrimaryCtxRetain:1=2"}, ["no memory left|yes"]),
        ("a GPU that the build has no kernels for", FAST, {"CUTAWAY_SHIM_FAIL": "cuModuleLoadData:1=209"},
         ["CUDA_ARCHS=90|yes"])]
    for what, library, env, words in cases:
        said = lambda text: all(any(w in text for w in word.split("|")) for word in words)
        status, out, errors = cutaway("devices", library=library, **env)
        ok(status == 0 and said(out) and not errors, f"{what}: devices says so", out + errors)
        status, out, errors = answer(model, "cuda", tokens=2, library=library, **env)
        ok(status in (5, 6) and said(errors) and "--backend cpu" in errors and not out and errors.count("\n") == 1,
           f"{what}: --backend cuda says so in a line", f"exit status {status}: {errors}")
        status, out, errors = answer(model, "auto", tokens=2, library=library, **env)
        ok(status == 0 and out == expected and said(errors) and "computing on the CPU" in errors,
           f"{what}: --backend auto says so and goes on", f"exit status {status}: {errors}")
    for backend, device, words in (("cuda", "2", "2 are there"), ("auto", "2", "2 are there"), ("cpu", "1", "a GPU's")):
        status, out, errors = answer(model, backend, "--device", device, CUTAWAY_SHIM_DEVICES="2")
        ok(status == 2 and words in errors and not out, f"--backend {backend} --device {device} of two", errors)


def test_recorded(folder):
    """Each format in each way of running, recorded: the recording is whole, and the CPU computes the same hashes."""
    for i, (kind, block) in enumerate(sample(FORMATS, 5)):
        wide = ["--dim", "256", "--ffn", "256"] if block == "256" else []
        model = tiny(folder, "recorded-" + kind, "--type", kind, "--layers", "1", *wide)
        for j, mode in enumerate(("graph", "launches")):
            file = os.path.join(folder, f"{kind}-{mode}.db")
            status, out, errors = cutaway("run", "--raw", "--temp", "0.8", "--seed", "4", "--backend", "cuda", "--cuda-mode", mode,
                                          "--model", model, "--max-tokens", "5", "--spec", "ngram:2,1,3", "--record", file,
                                          "abcabcabcabc", library=CHECKED if i % 2 == j else FAST, CUTAWAY_SHIM_SEED=str(i * j),
                                          CUTAWAY_SHIM_MULTIPROCESSORS="2")
            ok(status == 0, f"{kind}, {mode}, recorded", errors)
            status, out, errors = cutaway("verify", "--backend", "cpu", "--model", model, file)
            ok(status == 0 and "equal" in out, f"{kind}, {mode}: the recording verifies on the CPU", out + errors)


def chat(folder, model, file, plan):
    """(exit status, all that came to the screen) of a chat of two questions, in which the plan's call fails."""
    env = dict(os.environ, CUTAWAY_CUDA_DRIVER=FAST, CUTAWAY_SHIM_FAIL=plan, CUTAWAY_SHIM_MULTIPROCESSORS="1", HOME=folder,
               XDG_DATA_HOME=folder, XDG_STATE_HOME=folder, XDG_CACHE_HOME=folder, TERM="xterm-256color", LC_ALL="C.UTF-8")
    pid, screen = pty.fork()
    if not pid:
        os.execve("./cutaway", ["cutaway", "chat", "--backend", "cuda", "--model", model, "--max-tokens", "12", "--record", file], env)
    out = b""
    for keys in (b"", b"hello there\r", b"and again\r", b"/quit\r"):
        try:
            if keys:
                os.write(screen, keys)
            begin = last = time.monotonic()  # of an answer, and when something came last: still for 4 s, it has ended
            since = len(out)  # a clock ticks once it has failed
            while time.monotonic() < (begin + 120 if keys == b"/quit\r" else min(begin + 120, last + 4)) and not (
                    keys != b"/quit\r" and (b"given up" in out[since:] or b"refused" in out[since:])):
                if select.select([screen], [], [], 0.1)[0]:
                    out += os.read(screen, 65536)
                    last = time.monotonic()
        except OSError:  # it has ended
            break
    else:
        os.kill(pid, signal.SIGKILL)
    pid, status = os.waitpid(pid, 0)
    os.close(screen)
    return os.waitstatus_to_exitcode(status), out.decode("utf-8", "replace")


def test_chat(folder, model):
    """A device that is lost when it is opened, in the first answer or in the second: said on the screen, the chat saved."""
    low, opening = 0, 4096  # the waits of opening, the known answers among them, and of two tokens
    while opening - low > 1:
        middle = (low + opening) // 2
        fails = answer(model, "cuda", tokens=2, CUTAWAY_SHIM_FAIL=f"cuStreamSynchronize:{middle}=719!")[0]
        low, opening = (middle, opening) if fails else (low, middle)
    in_chat = 0
    for call in sample((40, opening + 3, opening + 16), 2):
        file = os.path.join(folder, f"chat-{call}.db")
        status, screen = chat(folder, model, file, f"cuStreamSynchronize:{call}=719!")
        if not os.path.exists(file):
            ok(status == 6 and "given up" in screen, f"a device lost at wait {call}, in front of the chat", f"{status}: {screen[-800:]}")
            continue
        db = sqlite3.connect(file)
        failed_ones = db.execute("select count(*) from finish where reason = 6").fetchone()[0]
        mode = db.execute("pragma journal_mode").fetchone()[0]
        drawn = db.execute("select count(*) from token").fetchone()[0]
        db.close()
        in_chat += failed_ones > 0
        ok("given up" in screen and mode == "delete" and failed_ones and not os.path.exists(file + "-wal"),
           f"a device lost at wait {call}, in the chat: said, and the recording closed", f"{status}, {mode}, {failed_ones}")
        status, out, errors = cutaway("verify", "--backend", "cpu", "--model", model, file)
        if drawn:
            ok(status == 0 and "all equal" in out, "what was answered before is saved, and verifies", out + errors)
        else:
            ok(status == 0 and "nothing was drawn" in out and "all equal" not in out, "nothing was answered before, and verify says so",
               f"{status}: " + out + errors)
    ok(in_chat, "some device was lost while it answered")


def barriers(name):
    """Places of a file's barriers."""
    with open("kernels/cuda/" + name, encoding="utf-8") as f:
        return [f"{name}:{i}" for i, line in enumerate(f, 1) if "CU_SYNC();" in line]


def test_kernel_faults(model):
    """A kernel that is wrong, on the checked build: a real fault in the middle of a session, found when it is waited for."""
    if CHECKED == FAST:
        print("# a kernel that is wrong: the checked build is not run here")
        return
    for place in [barriers("matmul_few.cuh")[0], barriers("stats.cuh")[-1]]:
        status, _, errors = answer(model, "cuda", tokens=4, library=CHECKED, CUTAWAY_SHIM_LEAVE_OUT=place)
        ok(status == 6 and ("a race between" in errors or "nobody wrote" in errors) and "given up" in errors and "--backend cpu" in errors,
           f"without the barrier at {place} the device is given up", f"exit status {status}: {errors}")


def launches(model, tokens, folder):
    """Kernels that were launched for an answer, those of opening among them."""
    file = os.path.join(folder, "calls")
    status, _, errors = answer(model, "cuda", "--no-record", "--cuda-mode", "launches", tokens=tokens, prompt="Hello",
                               CUTAWAY_SHIM_CALLS=file, CUTAWAY_SHIM_MULTIPROCESSORS="1")
    if status:
        ok(False, "an answer to count", errors)
        return 0
    with open(file, encoding="ascii") as f:
        return int(dict(map(str.split, f))["cuLaunchKernelEx"])


def test_counts(folder):
    """What docs/performance.md counts of a decoded token: stages, each a kernel, and bytes of weights."""
    for ffn in (128, 4096):
        models = [tiny(folder, f"count-{ffn}-{layers}", "--ffn", str(ffn), "--layers", str(layers), "--heads", "2", "--kv-heads", "1")
                  for layers in (1, 3)]
        one, three = (launches(model, 3, folder) - launches(model, 2, folder) for model in models)
        ok(one == 5 + 4 and three == 3 * 5 + 4, f"5 stages a layer and 4 beside, where SwiGLU has {ffn} values", (one, three))
    shapes = {"135M": (576, 30, 192, 1536, 49152), "1B": (2048, 16, 512, 8192, 128256), "8B": (4096, 32, 1024, 14336, 128256)}
    bits = {"Q4_1": 5.0, "Q8_0": 8.5, "F16": 16.0}
    rows = 0
    with open("docs/performance.md", encoding="utf-8") as f:
        for line in f:
            cells = line.split("|")
            words = cells[1].split() if len(cells) > 4 else []
            if len(words) != 2 or words[0] not in shapes or words[1] not in bits or "GB" not in cells[2]:
                continue
            dim, layers, kv, ffn, vocab = shapes[words[0]]
            head = bits["Q8_0"] if words[0] == "135M" else bits[words[1]]
            gb = (layers * (2 * dim * dim + 2 * dim * kv + 3 * dim * ffn) * bits[words[1]] + vocab * dim * head) / 8e9
            stages = 5 * layers + 4
            rows += 1
            ok(abs(float(cells[2].split()[0]) / gb - 1) < 0.015 and int(cells[3]) == stages,
               f"the table's {' '.join(words)}: {gb:.3f} GB, {stages} stages", line)
    ok(rows == 7, "all rows of the table are checked", rows)


def test_real():
    if not os.path.exists(REAL):
        print("# no real model here: make model")
        return
    test_equal(REAL, "SmolLM2 135M", [("graph", FAST, 0)], "--raw", tokens=2, prompt="The capital of France is")


def main():
    if not all(os.path.exists(library) for library in (FAST, CHECKED)):
        print("1..0 # skip the shim is not built")
        return 0
    wanted = sys.argv[1:]  # parts by name; all without any
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_DATA_HOME"] = folder  # of recordings
        model = tiny(folder, "small")
        for name, part in {"models": lambda: test_models(folder), "grids": lambda: test_grids(model), "ways": lambda: test_ways(folder),
                           "searches": lambda: test_searches(folder, model), "failures": lambda: test_failures(model), "user": lambda: test_user(folder, model),
                           "chat": lambda: test_chat(folder, model),
                           "faults": lambda: test_kernel_faults(model), "recorded": lambda: test_recorded(folder), "counts": lambda: test_counts(folder),
                           "real": test_real}.items():
            if not wanted or name in wanted:
                part()
    print(f"1..{n}")
    return failed > 0


sys.exit(main())
