#!/usr/bin/env python3
"""`cutaway quantize`, `curve` and `prune` from outside: what they say, files they refuse, a run that is killed, and that the
result is used and named. Runs on tiny random models. TAP; Python's standard library alone."""
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

from tap import PROGRAM, ROOT, check, finish

TMP = tempfile.TemporaryDirectory(prefix="cutaway-quantize-")
ENV = {**os.environ, **{name: TMP.name for name in ("HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}}


def at(name):
    return os.path.join(TMP.name, name)


def make(name, *args):
    subprocess.run([os.path.join(ROOT, "build/tests/mktiny"), *args, at(name)], check=True)


def cutaway(*args):
    """(exit status, output, errors)."""
    done = subprocess.run([PROGRAM, *args], capture_output=True, cwd=TMP.name, env=ENV, stdin=subprocess.DEVNULL,
                          check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def score(model, *args):
    return json.loads(cutaway("score", "--json", "--model", at(model), *args, at("text"))[1])


def digest(name):
    with open(at(name), "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def test_result():
    status, out, err = cutaway("quantize", "--format", "Q8_0", "f32.gguf", "q8.gguf")
    check("a file is quantised, and what was done is told", status == 0 and not err and "8.5 bits each" in out and
          "already quantised" not in out, out + err)
    check("nothing is left beside it", not os.path.exists(at("q8.gguf.partial")))
    close, far = score("q8.gguf"), score("f32.gguf")
    gap = sum(abs(a - b) for a, b in zip(close["logp"], far["logp"])) / len(far["logp"])
    check("its log-probabilities are near those of the source", 0 < gap < 0.1, gap)
    status, out, err = cutaway("quantize", "--json", "--format", "q4_0", "q8.gguf", "q4.gguf")
    told = json.loads(out)
    check("--json: sizes, bits, error, source", status == 0 and told["bits_a_weight"] == 4.5 and
          told["bytes"] == os.path.getsize(at("q4.gguf")) and told["source_bytes"] == os.path.getsize(at("q8.gguf")) and
          0.01 < told["relative_error"] < 0.2 and told["from_quantised"] and told["source"] == "Q8_0", out + err)
    name = score("q4.gguf")["model"]
    check("an already quantised source is named where the file is used", name == "q4 Q4_0 from Q8_0", name)
    check("score says it in words, too", name in cutaway("score", "--model", at("q4.gguf"), at("text"))[1])
    cert = cutaway("certify", "--quick", "--seconds", "1", "--json", "--model", at("q4.gguf"))[1]
    check("and a certificate", name in cert, cert)


def test_refusals():
    def refused(what, status, words, *args):
        before = sorted(os.listdir(TMP.name))
        got, out, err = cutaway("quantize", *args)
        check(what, got == status and words in err and not out and sorted(os.listdir(TMP.name)) == before, err)

    refused("a format that does not exist", 2, "no such format", "--format", "q9_9", "f32.gguf", "x.gguf")
    refused("rows that no block divides", 2, "--else", "--format", "q6_k", "f32.gguf", "x.gguf")
    refused("the source itself", 2, "the source itself", "f32.gguf", "f32.gguf")
    refused("a result that is there", 2, "there already", "f32.gguf", "q8.gguf")
    refused("nothing to round", 2, "no matrix", "--keep", "weight", "f32.gguf", "x.gguf")
    refused("a source that is not there", 4, "nowhere", "nowhere.gguf", "x.gguf")
    refused("a folder that is not there", 4, "No such file", "f32.gguf", "nowhere/x.gguf")
    refused("one operand", 2, "IN OUT", "f32.gguf")


def test_kill():
    make("large.gguf", "--dim", "512", "--ffn", "2048", "--layers", "2", "--vocab", "2000", "--type", "F16", "--repeat")
    with open(os.devnull, "wb") as null:
        child = subprocess.Popen([PROGRAM, "quantize", "--format", "q5_k", "large.gguf", "large-q.gguf"], cwd=TMP.name,
                                 env=ENV, stdout=null, stderr=null)
        partial, least = at("large-q.gguf.partial"), os.path.getsize(at("large.gguf")) // 8
        while child.poll() is None and (not os.path.exists(partial) or os.path.getsize(partial) < least):
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
    check("a killed run leaves no file under the final name", not os.path.exists(at("large-q.gguf")) and
          os.path.exists(partial), os.listdir(TMP.name))
    with open(partial, "r+b") as f:  # what a bad disk or a careless copy does to it
        f.seek(os.path.getsize(partial) * 3 // 4)
        f.write(os.urandom(64))
    status, out, err = cutaway("quantize", "--json", "--format", "q5_k", "large.gguf", "large-q.gguf")
    check("the next one goes on from it", status == 0 and json.loads(out)["resumed"] > 0, out + err)
    check("nothing is left beside the file", not [name for name in os.listdir(TMP.name) if ".partial" in name], os.listdir(TMP.name))
    cutaway("quantize", "--threads", "3", "--format", "q5_k", "large.gguf", "again.gguf")
    check("though it was damaged meanwhile, the file is that of an undisturbed run with other threads", digest("large-q.gguf") == digest("again.gguf"))


def quantise(name, *args, source="f32.gguf"):
    status, out, err = cutaway("quantize", "--json", *args, source, name)
    check(f"quantize {' '.join(args)}", status == 0 and not err, err)
    return json.loads(out) if status == 0 else {}


def distance(name):
    """Mean |difference of log-probability| from the source."""
    ours, exact = score(name)["logp"], score("f32.gguf")["logp"]
    return sum(abs(a - b) for a, b in zip(ours, exact)) / len(exact)


def test_grids():
    told = quantise("g3.gguf", "--bits", "3", "--group", "32")
    check("bits are counted with the scales, not in the file", told["bits_a_weight"] == 3.5 and told["kept"] == 1, told)
    check("the name has the grid", score("g3.gguf")["model"] == "g3 3-bit/32 rtn", score("g3.gguf")["model"])
    told = quantise("g3z.gguf", "--bits", "3", "--group", "32", "--zero-point")
    check("a zero point costs its bits", abs(told["bits_a_weight"] - (3 + 19 / 32)) < 1e-5, told)
    told = quantise("nf4d.gguf", "--nf4", "--group", "64", "--double-quant")
    check("scales of scales are counted", 4.125 < told["bits_a_weight"] < 4.15, told)
    told = quantise("fp8.gguf", "--e4m3", "--group", "row")
    check("8-bit floats: 8 bits and a scale a row, and the name", 8 < told["bits_a_weight"] < 8.3 and
          score("fp8.gguf")["model"] == "fp8 e4m3/row rtn", (told, score("fp8.gguf")["model"]))
    errors = [quantise(f"g{group}.gguf", "--bits", "4", "--group", group)["relative_error"]
              for group in ("tensor", "row", "48", "32")]
    check("smaller groups lose less", errors == sorted(errors, reverse=True), errors)
    errors = [quantise(f"b{bits}.gguf", "--bits", str(bits), "--format", "f32")["relative_error"] for bits in range(2, 9)]
    check("so do more bits, by half each", all(b < 0.6 * a for a, b in zip(errors, errors[1:])), errors)


def test_methods():
    text = ("--calibrate", os.path.join(ROOT, "demos/texts/readme.txt"))
    quantise("rtn.gguf", "--bits", "3", "--group", "32")
    quantise("gptq.gguf", "--bits", "3", "--group", "32", "--method", "gptq", *text)
    quantise("order.gguf", "--bits", "3", "--group", "32", "--method", "gptq", "--act-order", *text)
    far = {name: distance(name + ".gguf") for name in ("rtn", "gptq", "order")}
    check("GPTQ's logits are nearer to the source's, in either order", far["gptq"] < 0.9 * far["rtn"] and
          far["order"] < 0.9 * far["rtn"], far)
    quantise("smooth.gguf", "--format", "f32", "--method", "smoothquant", *text)
    check("factors of columns change no logits but by rounding", distance("smooth.gguf") < 0.001 and
          digest("smooth.gguf") != digest("f32.gguf"), distance("smooth.gguf"))
    quantise("awq.gguf", "--format", "q8_0", "--method", "awq", *text)
    check("nor do AWQ's, in values and inner columns", distance("awq.gguf") < 0.1, distance("awq.gguf"))
    told = quantise("int8.gguf", "--method", "llm.int8", *text)
    check("LLM.int8() counts what stays in f16", told["outliers"] > 0 and abs(
        told["bits_a_weight"] - (8 + 16 * 1024 / told["weights"] + 8 * told["outliers"] / told["weights"])) < 1e-4, told)
    grid = ("--bits", "3", "--group", "32")
    told = quantise("salient.gguf", *grid, "--method", "salient", "--apart", "0.05", *text)
    check("columns of the largest inputs stay, are counted, and bring the logits nearer", told["outliers"] > 0 and abs(
        told["bits_a_weight"] - (3.5 + 13 * told["outliers"] / told["weights"])) < 1e-4 and
        distance("salient.gguf") < far["rtn"], (told, distance("salient.gguf"), far))
    quantise("none.gguf", *grid, "--method", "salient", "--apart", "0", *text)
    check("with none of them it is the nearest, in values", distance("none.gguf") == far["rtn"], (distance("none.gguf"), far))
    quantise("all.gguf", *grid, "--method", "salient", "--apart", "1", *text)
    check("with all of them 16 bits", distance("all.gguf") < 0.01 * far["rtn"], distance("all.gguf"))
    told = quantise("own.gguf", "--method", "gptq", "--seed", "5")
    check("without a text the model writes one", told["calibration_tokens"] == 8192, told)


def test_resumed_method():
    args = ("--method", "gptq", "--calibrate", os.path.join(ROOT, "demos/texts/readme.txt"))
    quantise("whole.gguf", *args)
    room = os.path.getsize(at("whole.gguf")) - 20000
    subprocess.run([PROGRAM, "quantize", *args, "f32.gguf", "part.gguf"], cwd=TMP.name, env=ENV, capture_output=True, check=False,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)))  # as a full disk, in the last layer
    told = quantise("part.gguf", *args)
    check("a calibrated run goes on after the layers that are there", told["resumed"] > 1 and
          digest("part.gguf") == digest("whole.gguf"), told)


def test_words():
    def refused(words, *args):
        status, out, err = cutaway("quantize", *args, "f32.gguf", "x.gguf")
        check(f"quantize {' '.join(args)} is refused", status == 2 and words in err and not out, err)

    refused("needed: give a longer one", "--method", "gptq", "--calibrate", at("text"))
    refused("rtn reads no text", "--calibrate", at("text"))
    refused("is for a grid", "--group", "32")
    refused("kept as f16 or f32", "--bits", "4", "--format", "q8_0")
    refused("no zero point", "--nf4", "--zero-point")
    refused("e4m3 has 8 bits", "--e4m3", "--bits", "4")
    refused("groups of columns, as 64", "--bits", "4", "--group", "row", "--double-quant")
    refused("a number of columns", "--bits", "4", "--group", "many")
    refused("a grid of its own", "--method", "llm.int8", "--bits", "4")
    refused("leaves columns of a grid", "--method", "salient")
    refused("is for salient", "--method", "rtn", "--apart", "0.1")
    refused("is possible", "--method", "magic")
    refused("--bits", "--bits", "9")


def test_curve():
    """`cutaway curve` of the same model."""
    before = sorted(os.listdir(TMP.name))
    status, out, err = cutaway("curve", "--bits", "8,2", "--methods", "rtn", "--formats", "q8_0", "--svg", "c.svg", "--csv",
                               "c.csv", "f32.gguf", at("text"))
    rows = [line.split() for line in out.splitlines() if line.startswith("rtn ")]
    check("a curve: a line a point, a chart", status == 0 and not err and [r[1] for r in rows] == ["Q8_0", "8-bit/128", "2-bit/128"]
          and "bits a weight" in out, out + err)
    check("fewer bits cost more, and only a file's format has a speed", float(rows[1][3]) < float(rows[2][3]) and
          rows[1][-2] == "-" and float(rows[0][-2]) > 0, rows)
    check("as a picture and a table", sorted(set(os.listdir(TMP.name)) - set(before)) == ["c.csv", "c.svg"] and
          open(at("c.csv"), encoding="ascii").read().count("\n") == 4 and "</svg>" in open(at("c.svg"), encoding="utf-8").read())
    told = json.loads(cutaway("curve", "--json", "--bits", "off", "--formats", "q4_0", "f32.gguf", at("text"))[1])
    check("--json", [p["form"] for p in told["points"]] == ["Q4_0"] and told["points"][0]["mean_kl"] > 0, told)
    for words, args in (("2 to 8", ("--bits", "9")), ("2 to 8", ("--bits", "4.5")), ("no such format", ("--formats", "q9")), ("awq", ("--methods", "magic")),
                        ("no points", ("--bits", "off", "--formats", "off")), ("row or tensor", ("--group", "many"))):
        status, out, err = cutaway("curve", *args, "f32.gguf", at("text"))
        check(f"curve {' '.join(args)} is refused", status == 2 and words in err and not out, err)


def test_prune():
    text = ("--calibrate", os.path.join(ROOT, "demos/texts/readme.txt"))

    def prune(name, *args):
        status, out, err = cutaway("prune", "--json", *args, "f32.gguf", name)
        check(f"prune {' '.join(args)}", status == 0 and not err, err)
        return json.loads(out)

    told = prune("p-mag.gguf", "--method", "magnitude", "--pattern", "2:4", "--format", "q8_0")
    # a row of 32 weights: 2 bytes of scale and 32 codes; 16 codes and 4 bytes of places; 16 codes and 16 * 2 bits
    check("zeros are counted, and what they would save", told["gone"] >= told["weights"] / 2 and told["weights"] * 34 // 32 ==
          told["dense_bytes"] and told["weights"] * 22 // 32 == told["pattern_bytes"] and told["mask_bytes"] <=
          told["weights"] * 22 // 32, told)
    prune("p-wanda.gguf", *text)
    prune("p-magnitude.gguf", "--method", "magnitude")
    # (which is nearer to the source is noise in a model of random numbers; tests/data/pruned.py has the choices themselves)
    check("Wanda goes by more than the size", digest("p-wanda.gguf") != digest("p-magnitude.gguf") and 0 < distance("p-wanda.gguf"))
    names = {"p-wanda.gguf": "p-wanda F32 pruned wanda 50%"}
    for method, args, what in (("layers", ("--remove", "1"), "1 of 2 layers"), ("heads", ("--remove", "2"), "2 of 4 heads"),
                               ("kv-heads", (), "1 of 2 kv-heads"),
                               ("channels", ("--remove", "32", "--unit", "32"), "32 of 128 channels by 32")):
        told = prune(f"p-{method}.gguf", "--method", method, *args, *text)
        names[f"p-{method}.gguf"] = f"p-{method} F32 pruned {what}"
        check(f"without some {method} the file is smaller, by what is told", told["bytes"] == os.path.getsize(
            at(f"p-{method}.gguf")) and abs(told["source_bytes"] - told["bytes"] - 4 * told["gone"]) < 2000, told)
    shown = {name: score(name)["model"] for name in names}
    check("what was pruned is named where the file is used", shown == names, shown)
    cutaway("prune", "--method", "magnitude", "--sparsity", "0.1", "p-layers.gguf", "p-twice.gguf")
    check("twice, too", score("p-twice.gguf")["model"].endswith("F32 pruned 1 of 2 layers, magnitude 10%"))
    check("and after quantising", cutaway("quantize", "p-layers.gguf", "p-q.gguf")[0] == 0 and
          score("p-q.gguf")["model"] == "p-q Q4_0 pruned 1 of 2 layers", score("p-q.gguf")["model"])
    for words, args in (("are possible", ("--method", "magic")), ("--sparsity", ("--sparsity", "2")),
                        ("two ways", ("--sparsity", "0.3", "--pattern", "2:4")), ("N:M", ("--pattern", "half")),
                        ("is for layers", ("--remove", "2")), ("has --remove", ("--method", "layers", "--sparsity", "0.3")),
                        ("is for channels", ("--unit", "8")), ("no text", ("--method", "magnitude", *text)),
                        ("no such format", ("--format", "q9")), ("so that one is left", ("--method", "layers", "--remove", "2")),
                        ("needed: give a longer one", ("--calibrate", at("text")))):
        status, out, err = cutaway("prune", *args, "f32.gguf", "x.gguf")
        check(f"prune {' '.join(args[:3])} is refused", status == 2 and words in err and not out, err)


def main():
    make("f32.gguf", "--type", "F32", "--embd-type", "F32")
    with open(at("text"), "w", encoding="ascii") as f:
        f.write("The quick brown fox jumps over the lazy dog, and then it sleeps.")
    test_result()
    test_refusals()
    test_kill()
    test_grids()
    test_methods()
    test_resumed_method()
    test_words()
    test_curve()
    test_prune()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
