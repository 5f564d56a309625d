#!/usr/bin/env python3
"""tools/train/repair.py: its losses against plain numpy, its grid against the file that `cutaway quantize` writes, its files
against what was trained. On tiny random models. Needs the trainers' environment (tools/train/setup.sh); skipped without. TAP."""
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time

from tap import PROGRAM, ROOT, check, finish, skip

PYTHON = os.path.join(os.environ.get("VENV", os.path.join(ROOT, "build/train/venv")), "bin/python")
sys.path.insert(0, os.path.join(ROOT, "tools/train"))
TMP = tempfile.TemporaryDirectory(prefix="cutaway-repair-")


def at(name):
    return os.path.join(TMP.name, name)


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def plain(s, t, labels, temperature, hard, reverse):
    """Loss and its gradient by s, as Hinton et al. 2015 have them, in float64."""
    n, one, ps, pt = len(s), np.eye(s.shape[1])[labels], softmax(s / temperature), softmax(t / temperature)
    loss = -hard * np.log((softmax(s) * one).sum(-1)).mean()
    gradient = hard * (softmax(s) - one) / n
    if reverse:
        each = (ps * np.log(ps / pt)).sum(-1, keepdims=True)
        soft, by = each.mean(), ps * (np.log(ps / pt) - each) / temperature
    else:
        soft, by = (pt * np.log(pt / ps)).sum(-1).mean(), (ps - pt) / temperature
    return loss + (1 - hard) * temperature ** 2 * soft, gradient + (1 - hard) * temperature ** 2 * by / n


def test_losses():
    draw = np.random.default_rng(1)
    s, t, labels = 3 * draw.normal(size=(7, 50)), 3 * draw.normal(size=(7, 50)), draw.integers(0, 50, 7)
    for temperature, hard, reverse in ((1, 0, False), (1, 1, False), (4, 0.1, False), (2, 0.5, False), (1, 0, True), (3, 0.2, True)):
        x = torch.tensor(s, requires_grad=True)
        loss = losses.student_loss(x, torch.tensor(t), torch.tensor(labels), temperature, hard, reverse)
        loss.backward()
        wanted, gradient = plain(s, t, labels, temperature, hard, reverse)
        gap = max(abs(loss.item() - wanted) / wanted, np.abs(x.grad.numpy() - gradient).max() / np.abs(gradient).max())
        check(f"loss and gradient are numpy's: temperature {temperature}, labels {hard}, {'reverse' if reverse else 'forward'}",
              gap < 1e-10, gap)


def test_grid():
    for bits, zero_point in ((2, False), (3, False), (4, False), (2, True), (5, True)):
        subprocess.run([PROGRAM, "quantize", "--bits", str(bits), "--group", "32", "--format", "f32",
                        *["--zero-point"] * zero_point, at("f32.gguf"), at(f"{bits}{zero_point}.gguf")], check=True,
                       stdout=subprocess.DEVNULL)
        exact, rounded = (target.read_gguf(at(f))[1] for f in ("f32.gguf", f"{bits}{zero_point}.gguf"))
        names = [n for n in exact if n.startswith("blk.") and exact[n].dim() == 2]
        equal = all(torch.equal(narrow.on_grid(exact[n], bits, 32, zero_point), rounded[n]) for n in names)
        check(f"{bits} bits{' with a zero point' * zero_point}: the trained values are the file's, bit for bit",
              len(names) == 14 and equal)
    subprocess.run([PROGRAM, "quantize", "--e4m3", "--group", "row", "--format", "f32", at("f32.gguf"), at("e4m3.gguf")], check=True,
                   stdout=subprocess.DEVNULL)
    exact, rounded = (target.read_gguf(at(f))[1] for f in ("f32.gguf", "e4m3.gguf"))
    fp8 = {n: (scale := (p.abs().amax(-1, keepdim=True) / 448).half().float()) * (p / scale).to(torch.float8_e4m3fn).float()
           for n, p in exact.items() if n.startswith("blk.") and p.dim() == 2}
    check("e4m3 weights are torch's float8_e4m3fn, bit for bit", len(fp8) == 14 and all(torch.equal(rounded[n], p) for n, p in fp8.items()))
    w = torch.randn(4, 64, requires_grad=True)
    (narrow.StraightThrough.apply(w, 3, 32, False) * 2).sum().backward()
    check("rounding passes the gradient on", bool((w.grad == 2).all()))


def train(name, *options, begin="f32.gguf", wait=True):
    process = subprocess.Popen([PYTHON, os.path.join(ROOT, "tools/train/repair.py"), at(begin), at("teacher.gguf"),
                                at("stories.json"), at(name), "--batch", "1", *options], stdout=subprocess.PIPE)
    if wait:
        process.communicate()
    return process


def score(name):
    told = subprocess.run([PROGRAM, "score", "--json", "--model", at(name), "--twin", at("teacher.gguf"), at("text")],
                          stdout=subprocess.PIPE, check=True)
    return json.loads(told.stdout)["mean_kl"]


def test_training():
    train("before.gguf", "--steps", "0")
    check("a training of no steps changes nothing that the engine sees", score("before.gguf") == score("f32.gguf"))
    train("whole.gguf", "--steps", "60")
    before, after = score("before.gguf"), score("whole.gguf")
    check("a training brings the student nearer to its teacher, says the engine", 0 < after < before, (before, after))
    os.mkdir(at("stopped"))
    process = train("stopped/whole.gguf", "--steps", "60", wait=False)
    while process.poll() is None and not os.path.exists(at("stopped/whole.ckpt")):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    check("a killed training leaves no file of that name", not os.path.exists(at("stopped/whole.gguf")))
    train("stopped/whole.gguf", "--steps", "60")
    with open(at("whole.gguf"), "rb") as one, open(at("stopped/whole.gguf"), "rb") as other:
        check("and goes on to the same bytes", one.read() == other.read())


def test_narrow():
    train("adapters.gguf", "--steps", "2", "--rank", "2")
    with open(at("adapters.json")) as file:
        trained = json.load(file)["trained"]
    exact, merged = (target.read_gguf(at(f))[1] for f in ("f32.gguf", "adapters.gguf"))
    check("of an adapter of rank 2 so many numbers are trained", trained == sum(
        2 * sum(p.shape) for n, p in exact.items() if n.startswith("blk.") and p.dim() == 2), trained)
    ranks = [torch.linalg.matrix_rank(merged[n] - exact[n], rtol=1e-3).item() for n in exact if n.endswith("ffn_up.weight")]
    check("the file has the matrices with their adapters", ranks == [2, 2], ranks)
    check("and all else as it was", all(torch.equal(exact[n], merged[n]) for n in exact if exact[n].dim() == 1 or
                                        not n.startswith("blk.")))
    masked = {n: p * (torch.arange(p.shape[-1]) % 4 < 2) if n.endswith("attn_q.weight") else p for n, p in exact.items()}
    model_file.write(at("masked.gguf"), at("f32.gguf"), masked)
    train("repaired.gguf", "--steps", "2", begin="masked.gguf")
    after = target.read_gguf(at("repaired.gguf"))[1]
    check("zeros of a pruned file stay zeros, and no others are made", all(
        torch.equal(after[n] == 0, masked[n] == 0) for n in masked if n.endswith("attn_q.weight")))


def recorded(name, query):
    db = sqlite3.connect(f"file:{at(name)}?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_recorded():
    train("told.gguf", "--steps", "30", "--record", at("told.db"))
    with open(at("told.csv")) as file:
        lines = [line.split(",") for line in file.read().split()[1:]]
    steps = recorded("told.db", "SELECT nth, loss, kl, gradient, held, tokens FROM trained")
    means = [[sum(s[column] for s in steps[at:at + 10]) / 10 for column in (1, 2)] for at in (0, 10, 20)]
    check("a training tells the losses of its table", len(steps) == 30 and all(
        abs(m - float(x)) < 1e-4 for mean, line in zip(means, lines) for m, x in zip(mean, line[1:3])), (means, lines))
    check("tokens, gradients, and sometimes the loss of what is held out", all(s[3] > 0 and s[5] == 192 * s[0] for s in steps) and
          [s[0] for s in steps if s[4]] == [25], steps)
    (params, weights, gradients, optimizer), = recorded("told.db", "SELECT params, weight_bytes, gradient_bytes, optimizer_bytes "
                                                        "FROM training")
    check("Adam keeps two numbers for each that is trained", weights == gradients == 4 * params and
          0 <= optimizer - 8 * params < 4 * 100, (params, weights, gradients, optimizer))


def calibration(text, length=256, most=32):
    """The sequences that `quantize --calibrate` takes of a text."""
    out = subprocess.run([PROGRAM, "tokenize", "--plain", "--model", at("f32.gguf")], input=text.encode(), capture_output=True, check=True)
    ids = [int(i) for i in out.stdout.split()]
    n = min(len(ids) // length, most)
    return torch.tensor([ids[(len(ids) - length) * i // max(n - 1, 1):][:length] for i in range(n)])


def test_layer_errors():
    """What `quantize --record` tells of layers, against the same layers in torch."""
    text = "the quick brown fox jumps over the lazy dog, and the cat sat on the mat. " * 300
    with open(at("calibrate"), "w") as file:
        file.write(text)
    grid = ("--bits", "3", "--group", "32", "--format", "f32")
    for method, more in (("rtn", ()), ("gptq", ("--calibrate", at("calibrate"), "--record", at("gptq.db")))):
        subprocess.run([PROGRAM, "quantize", *grid, "--method", method, *more, at("f32.gguf"), at(f"{method}.gguf")], check=True,
                       stdout=subprocess.DEVNULL)
    exact, near, best = (target.Target(at(f"{name}.gguf")) for name in ("f32", "rtn", "gptq"))
    ids = calibration(text)
    x, table = exact.embed[ids], target.rope_table(exact.c, ids.shape[1])
    for layer, told in enumerate(recorded("gptq.db", "SELECT nearest, error FROM changed ORDER BY step")):
        whole = exact.blocks[layer](x, table)
        found = [((m.blocks[layer](x, table) - whole).square().sum() / (whole - x).square().sum()).item() for m in (near, best)]
        check(f"layer {layer}: errors of the nearest and of GPTQ are torch's", all(abs(t / f - 1) < 1e-3 for t, f in zip(told, found)),
              (told, found))
        x = best.blocks[layer](x, table)


def test_heads():
    """Medusa-2's losses against plain numpy, and what learns when."""
    options = [at("f32.gguf"), at("stories.json"), at("medusa"), "--joint", "--heads", "2", "--ffn", "32", "--steps", "4", "--warm", "2"]
    sys.argv = ["joint.py", *options]
    training = joint.Training(joint.options())
    torch.manual_seed(7)
    for p in training.heads.downs:
        p.data.normal_(0, 0.1)
    ids = torch.randint(0, 512, (2, 40))
    first, of_heads = training.losses(ids)
    get = lambda p: p.detach().double().numpy()
    norm = lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + training.exact.c.eps) * w
    h, head = get(training.model.features(ids)), get(training.model.head)

    def loss(y, weight, ahead):
        p = softmax(norm(y[:, :-ahead], weight) @ head.T)
        return -np.log(np.take_along_axis(p, ids[:, ahead:, None].numpy(), -1)).mean()

    wanted = [loss(h, get(training.model.norm), 1)]
    for i in range(2):
        n, heads = norm(h, get(training.heads.norms[i])), training.heads
        gate = n @ get(heads.gates[i]).T
        y = h + (gate / (1 + np.exp(-gate)) * (n @ get(heads.ups[i]).T)) @ get(heads.downs[i]).T
        wanted.append(loss(y, get(heads.output_norms[i]), 2 + i))
    gaps = [abs(a.item() / b - 1) for a, b in zip([first, *of_heads], wanted)]
    check("Medusa-2's losses are numpy's", max(gaps) < 1e-5, gaps)
    begun = [p.detach().clone() for p in training.model.parameters()]
    same = []
    for _ in range(4):
        training.one()
        same.append(all(torch.equal(a, b) for a, b in zip(begun, training.model.parameters())))
    check("the model learns when the heads have begun", same == [True, True, False, False], same)


def test_own_text():
    model = repair.Student(at("f32.gguf"))
    ids = torch.arange(20, 30)[None]
    out = repair.written(model, ids, 40, torch.Generator().manual_seed(3))
    draw, again = torch.Generator().manual_seed(3), ids
    with torch.no_grad():
        while again.shape[1] < 40:
            p = model(again)[:, -1].softmax(-1)
            again = torch.cat([again, torch.multinomial(p, 1, generator=draw)], 1)
    check("text that a student writes is what it writes without a cache", torch.equal(out, again), (out, again))


def main():
    for name, more in (("f32", ["--seed", "1"]), ("teacher", ["--seed", "2"])):
        subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), "--type", "F32", "--embd-type", "F32", *more,
                        at(f"{name}.gguf")], check=True)
    draw = random.Random(1)
    with open(at("stories.json"), "w") as file:
        json.dump({name: [[draw.randrange(512) for _ in range(300)] for _ in range(4)] for name in ("seen", "held_out")}, file)
    with open(at("text"), "w") as file:
        file.write("The quick brown fox jumps over the lazy dog, and then it sleeps. " * 4)
    test_losses()
    test_grid()
    test_training()
    test_narrow()
    test_recorded()
    test_layer_errors()
    test_heads()
    test_own_text()
    return finish()


if __name__ == "__main__":
    try:
        import numpy as np
        import torch
        import joint
        import losses
        import model_file
        import narrow
        import repair
        import target
    except ImportError:
        if os.path.exists(PYTHON) and os.path.realpath(sys.prefix) != os.path.realpath(os.path.dirname(os.path.dirname(PYTHON))):
            os.execv(PYTHON, [PYTHON, *sys.argv])
        skip("repair", "no torch: tools/train/setup.sh")
        sys.exit(finish())
    torch.set_num_threads(1)
    sys.exit(main())
