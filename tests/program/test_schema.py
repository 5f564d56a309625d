#!/usr/bin/env python3
"""JSON schemas as grammars. The suite of json-schema.org: no instance that it calls invalid is allowed, and of the valid ones most
are. Random schemas: what is drawn from the grammar is valid for the jsonschema package. Both are fetched once, into
build/jsonschema; without a network it is skipped. TAP."""
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile

from tap import ROOT, check, finish, sample, skip

WALK = os.environ.get("GRAMMAR_WALK") or os.path.join(ROOT, "build/tests/grammar_walk")
FOLDER = os.path.join(ROOT, "build/jsonschema")
PYTHON = os.path.join(FOLDER, "bin/python3")
SUITE = os.path.join(FOLDER, "suite/draft2020-12")
VERSION = "4.23.0"
BUILDS = ["hatchling", "hatch-vcs", "hatch-fancy-pypi-readme"]  # what pip asks the source archive with
FORMS = [dict(separators=(",", ":")), dict(separators=(",", ": ")), dict(), dict(indent=2), dict(indent="\t"), dict(ensure_ascii=False)]
# Shares of the suite's required tests that were reached: of schemas that are taken, of their valid instances that are allowed.
SCHEMAS, VALID = 0.62, 0.92

REFERENCE = r"""
import json, sys
from jsonschema import Draft202012Validator

def refuse(word):
    raise ValueError(word)

for line in sys.stdin:
    ask = json.loads(line)
    schema, told = json.loads(ask["schema"]), []
    Draft202012Validator.check_schema(schema)
    of = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for text in ask["texts"]:
        try:
            why = next(of.iter_errors(json.loads(text, parse_constant=refuse)), None)
            told.append(why and str(why.message)[:200])
        except ValueError as e:
            told.append("no JSON: " + str(e))
    print(json.dumps(told), flush=True)
"""


def install():
    """jsonschema and the suite in its source archive. Why not, or nothing."""
    if os.path.exists(os.path.join(FOLDER, ".whole-" + VERSION)):
        return ""
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [os.path.join(FOLDER, "bin/pip"), "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", FOLDER], pip + ["install", "jsonschema[format-nongpl]==" + VERSION, *BUILDS],
                    pip + ["download", "--no-deps", "--no-build-isolation", "--no-binary", "jsonschema", "--dest", FOLDER,
                           "jsonschema==" + VERSION]):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            return f"{os.path.basename(command[0])}: {(done.stdout.strip() or 'failed').splitlines()[-1]}"
    top = f"jsonschema-{VERSION}/json/tests/"
    with tarfile.open(os.path.join(FOLDER, f"jsonschema-{VERSION}.tar.gz")) as archive:
        for member in archive.getmembers():
            if member.name.startswith(top + "draft2020-12/") and member.isfile():
                to = os.path.join(FOLDER, "suite", member.name[len(top):])
                os.makedirs(os.path.dirname(to), exist_ok=True)
                with open(to, "wb") as out:
                    out.write(archive.extractfile(member).read())
    open(os.path.join(FOLDER, ".whole-" + VERSION), "w").close()
    return ""


def through(command, asks):
    lines = "".join(json.dumps(ask) + "\n" for ask in asks)
    out = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in out.split("\n") if line]


# ---- the suite ----


def forms(instance):
    return sorted({json.dumps(instance, **form) for form in FORMS})


def test_suite():
    groups = []
    for path in sorted(glob.glob(SUITE + "/*.json")):
        with open(path, encoding="utf-8") as file:
            groups += [(os.path.basename(path), group) for group in json.load(file)]
    asks = [{"schema": json.dumps(g["schema"]), "accept": [t for test in g["tests"] for t in forms(test["data"])]} for _, g in groups]
    told = through([WALK], asks)
    wrong, valid, allowed, refused, failed = [], 0, 0, 0, []
    for (name, group), answer in zip(groups, told):
        if "error" in answer:
            refused += 1
            if not answer["error"].startswith(("schema: ", "no text satisfies")):
                failed.append(f"{name}: {group['description']}: {answer['error']}")
            continue
        accepts = iter(answer["accept"])
        for test in group["tests"]:
            got = [next(accepts) for _ in forms(test["data"])]
            valid += test["valid"]
            allowed += test["valid"] and all(got)
            if not test["valid"] and any(got):
                wrong.append(f"{name}: {group['description']}: {test['description']}: {json.dumps(group['schema'])[:300]}")
            if test["valid"] and not all(got) and os.environ.get("SCHEMA_TELL"):
                print("# not allowed:", name, group["description"], "/", test["description"], json.dumps(test["data"])[:100])
        if answer.get("failed"):
            failed.append(f"{name}: {group['description']}: {answer['failed']}")
    taken = len(groups) - refused
    if os.environ.get("SCHEMA_TELL"):
        for (name, group), answer in zip(groups, told):
            if "error" in answer:
                print("# refused:", name, group["description"], "/", answer["error"])
    print(f"# {taken} of {len(groups)} schemas are taken, the others refused; of these {allowed} of {valid} valid instances allowed")
    check(f"suite: an answer to each of {len(groups)} schemas", len(told) == len(groups) > 300)
    check("suite: no invalid instance is allowed", not wrong, "\n".join(wrong))
    check("suite: what is refused is refused as a schema, and none is too ambiguous", not failed, "\n".join(failed))
    check(f"suite: at least {SCHEMAS:.0%} of the schemas are taken, and {VALID:.0%} of the valid instances",
          taken >= SCHEMAS * len(groups) and allowed >= VALID * valid, f"{taken / len(groups):.3f} {allowed / max(valid, 1):.3f}")


# ---- random schemas ----

WORDS = ["a", "b", "ab", "name", "street", "größe", "月", "a\"b", "x\\y", "tab\t", "", "😀", "id", "value", "n/m", "t~"]
PATTERNS = ["^[a-z]{2,4}$", "a+b", "^(x|yz)*$", "\\d\\d$", "^[^a-c\"]", "é|\\\\", "^[A-F0-9]{3}(-[0-9])?$"]
FORMATS = ["date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "hostname", "uri"]


class Maker:
    """Schemas at random, of the keywords that are supported."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.defs = {}

    def number(self):
        r = self.r
        return r.choice([0, 1, -1, 5, 10, 99, 100, -7, 12345, r.randint(-1000, 1000), r.randint(-10**12, 10**12),
                         round(r.uniform(-10, 10), r.randint(1, 6)), 0.1, -0.25, 2.5, 1e-7, 99.99])

    def value(self, depth=2):
        r = self.r
        kinds = [lambda: None, lambda: r.choice([True, False]), self.number, lambda: r.choice(WORDS)]
        if depth:
            kinds += [lambda: [self.value(depth - 1) for _ in range(r.randint(0, 3))],
                      lambda: {r.choice(WORDS): self.value(depth - 1) for _ in range(r.randint(0, 2))}]
        return r.choice(kinds)()

    def two(self, s, low, high, least, most):
        a, b = sorted((self.r.randint(least, most), self.r.randint(least, most)))
        if self.r.random() < 0.5:
            s[low] = a
        if self.r.random() < 0.5:
            s[high] = b

    def string(self, s, _):
        which = self.r.random()
        if which < 0.25:
            s["pattern"] = self.r.choice(PATTERNS)
        elif which < 0.5:
            s["format"] = self.r.choice(FORMATS)
        else:
            self.two(s, "minLength", "maxLength", 0, 6)

    def numbers(self, s, _):
        a, b = sorted((self.number(), self.number()))
        if self.r.random() < 0.6:
            s[self.r.choice(["minimum", "exclusiveMinimum"])] = a
        if self.r.random() < 0.6:
            s[self.r.choice(["maximum", "exclusiveMaximum"])] = b
        if self.r.random() < 0.15:
            s["multipleOf"] = self.r.choice([1, 2, 3, 5, 7, 10, 60, 128, 1000])

    def array(self, s, depth):
        if self.r.random() < 0.4:
            s["prefixItems"] = [self.schema(depth - 1) for _ in range(self.r.randint(1, 3))]
        if self.r.random() < 0.7:
            s["items"] = self.schema(depth - 1)
        if self.r.random() < 0.2:
            s["unevaluatedItems"] = self.r.choice([False, self.schema(depth - 1)])
        self.two(s, "minItems", "maxItems", 0, 4)
        if s.get("maxItems", 2) < 2 and self.r.random() < 0.5:
            s["uniqueItems"] = True

    def object(self, s, depth):
        r = self.r
        names = r.sample(WORDS, r.randint(0, 5))
        if names or r.random() < 0.5:
            s["properties"] = {name: self.schema(depth - 1) for name in names}
        if r.random() < 0.7:
            s["required"] = r.sample(names, r.randint(0, len(names))) + r.choice([[], [], ["more"]])
        if r.random() < 0.6:
            s["additionalProperties"] = r.choice([False, False, True, self.schema(depth - 1)])
        if r.random() < 0.15:
            s["patternProperties"] = {r.choice(["^x-", "^[0-9]+$", ".*"]): self.schema(depth - 1)}
        if not names and r.random() < 0.2:
            s["propertyNames"] = self.schema(0)
        if r.random() < 0.1:
            s["unevaluatedProperties"] = r.choice([False, self.schema(depth - 1)])
        if r.random() < 0.3:
            self.two(s, "minProperties", "maxProperties", 0, 5)

    def typed(self, depth):
        kinds = {"string": self.string, "integer": self.numbers, "number": self.numbers, "boolean": None, "null": None}
        if depth > 0:
            kinds.update({"object": self.object, "array": self.array})
        some = self.r.sample(sorted(kinds), self.r.choice([1, 1, 1, 2]))
        s = {}
        for kind in some:
            if kinds[kind]:
                kinds[kind](s, depth)
        if self.r.random() < 0.9:
            s["type"] = some[0] if len(some) == 1 else some
        return s

    def one_of(self, depth):
        if self.r.random() < 0.5:
            return [{"type": kind} for kind in self.r.sample(["string", "integer", "null", "array", "boolean"], 2)]
        return [{"type": "object", "properties": {"kind": {"const": i}, "v": self.schema(depth - 1)}, "required": ["kind"]} for i in range(2)]

    def schema(self, depth):
        r = self.r
        which = r.random()
        if which < 0.05:
            return r.choice([True, True, {}, False])
        if which < 0.12:
            return {"enum": [self.value() for _ in range(r.randint(1, 5))]}
        if which < 0.16:
            return {"const": self.value(), "title": "one"}
        if which < 0.24 and depth > 0:
            return {"anyOf": [self.schema(depth - 1) for _ in range(r.randint(1, 3))]}
        if which < 0.28 and depth > 0:
            return {"oneOf": self.one_of(depth)}
        if which < 0.34 and depth > 0:
            return {**self.typed(depth), "allOf": [self.typed(depth), self.schema(depth - 1)]}
        if which < 0.38 and depth > 0:
            return {**self.typed(depth), "anyOf": [self.typed(depth), self.typed(depth - 1)]}
        if which < 0.42:
            return {**self.typed(depth), "enum": [self.value() for _ in range(8)]}
        if which < 0.50:
            name = r.choice(["d0", "d~1", "d/2"])
            self.defs.setdefault(name, None)
            return {"$ref": "#/$defs/" + name.replace("~", "~0").replace("/", "~1")}
        return self.typed(depth)

    def without_unevaluated(self, x):
        """jsonschema 4.23 takes what additionalProperties with a schema has evaluated for not evaluated."""
        if isinstance(x, dict):
            return {key: self.without_unevaluated(v) for key, v in x.items() if key != "unevaluatedProperties"}
        return [self.without_unevaluated(v) for v in x] if isinstance(x, list) else x

    def document(self):
        s = self.schema(3)
        if not isinstance(s, dict):
            return s
        done = {}
        while set(self.defs) - set(done):
            for name in sorted(set(self.defs) - set(done)):
                # what refers to itself may end
                done[name] = {"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"of": self.schema(1)}}]}
        s = {**s, "$defs": done} if done else s
        return self.without_unevaluated(s) if '"additionalProperties": {' in json.dumps(s) else s


def test_random():
    n = len(sample(range(1000), 300))
    asks = [{"schema": json.dumps(Maker(seed).document(), ensure_ascii=seed % 2 == 0), "accept": [], "samples": 10, "seed": seed} for seed in range(n)]
    told = through([WALK], asks)
    taken = [(ask["schema"], answer) for ask, answer in zip(asks, told) if "error" not in answer]
    unknown = [f"{answer['error']}: {ask['schema'][:300]}" for ask, answer in zip(asks, told)
               if "error" in answer and not answer["error"].startswith(("schema: ", "no text satisfies"))]
    failed = [f"{schema}: {answer['failed']}" for schema, answer in taken if "failed" in answer]
    valid = through([PYTHON, "-c", REFERENCE], [{"schema": schema, "texts": [t for t in answer["samples"] if t]} for schema, answer in taken])
    wrong = [f"{why}\n  {schema}\n  {text}" for (schema, answer), whys in zip(taken, valid)
             for text, why in zip([t for t in answer["samples"] if t], whys) if why]
    texts = sum(len(whys) for whys in valid)
    print(f"# {len(taken)} of {n} random schemas are taken; {texts} texts of theirs, {sum(len(a['samples']) for _, a in taken)} asked for")
    if os.environ.get("SCHEMA_TELL"):
        for ask, answer in zip(asks, told):
            if "error" in answer:
                print("# refused:", answer["error"])
    check(f"random: an answer to each of {n} schemas, most of them taken", len(told) == n and len(taken) > n / 2)
    check("random: what is refused is refused as a schema", not unknown, "\n".join(unknown))
    check("random: no grammar is too ambiguous", not failed, "\n".join(failed))
    check(f"random: {texts} texts are valid", len(valid) == len(taken) and texts > 9.9 * len(taken) and not wrong, "\n".join(wrong))


# ---- bounds of numbers: allowed is what is valid, no more and no less ----


def decimals(r, around):
    """Numbers as a schema with such bounds may have them written: near the bounds, and others."""
    for _ in range(30):
        near = round(r.choice(around) + r.choice([0, 0, 1, -1, 0.1, -0.1, 0.01, -0.001, r.uniform(-20, 20)]), r.choice([0, 1, 2, 3, 6]))
        text = f"{near:.{r.choice([0, 1, 2, 3, 6])}f}"
        yield text.lstrip("-") if not float(text) else text


def test_bounds():
    asks = []
    for seed in range(len(sample(range(2000), 500))):
        maker = Maker(seed)
        r, schema = maker.r, {"type": maker.r.choice(["integer", "number"])}
        a, b = sorted(r.choice([maker.number(), round(r.uniform(-200, 200), r.randint(0, 4)), r.randint(-10**6, 10**6)]) for _ in range(2))
        if r.random() < 0.8:
            schema[r.choice(["minimum", "exclusiveMinimum"])] = a
        if r.random() < 0.8:
            schema[r.choice(["maximum", "exclusiveMaximum"])] = b
        texts = sorted({text for text in decimals(r, [a, b]) if sum(c.isdigit() for c in text) <= 15})
        if schema["type"] == "integer":
            texts = [text for text in texts if "." not in text]
        asks.append({"schema": json.dumps(schema), "texts": texts, "accept": texts})
    told, valid = through([WALK], asks), through([PYTHON, "-c", REFERENCE], asks)
    wrong, n = [], 0
    for ask, ours, whys in zip(asks, told, valid):
        if "error" in ours:
            wrong += [f"{ask['schema']}: {ours['error']}"] if not all(whys) else []
            continue
        n += len(whys)
        wrong += [f"{ask['schema']}: {text}" for text, a, why in zip(ask["texts"], ours["accept"], whys) if a != (why is None)]
    check(f"bounds: {n} numbers are allowed if and only if they are valid", n > 1000 and not wrong, "\n".join(wrong))


def main():
    why = install()
    if why:
        skip("JSON schemas against their suite and the jsonschema package", why)
        return finish()
    test_suite()
    test_random()
    test_bounds()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
