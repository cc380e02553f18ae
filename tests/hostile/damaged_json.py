# SPDX-License-Identifier: Apache-2.0
"""Every kind of JSON that is read, with one value of another type, of another size, missing, or there twice: it is read, refused
in a line, or done again. TEMPER_HOSTILE=1: every value, not a few drawn ones. A list of words behind the script damages only files
that have one of them in their name."""
import json
import random
import sys

from harness import LONG, Cases
from wire import FLOAT, model, node, tensor, value

STRANGE = ["-1e400", "1e400", "1e308", "-1", "0", "9223372036854775808", "-9223372036854775809", "1.5", "null", "true", '""', '"\\ud800"',
           '"x\\u001b[2J\\u009b"', "[]", "{}", "[[]]", '{"a":1}', "[" * 100000]
MARK = "\ue000"


def places(json_value, path=()):
    yield path
    items = json_value.items() if isinstance(json_value, dict) else enumerate(json_value) if isinstance(json_value, list) else ()
    for key, inner in list(items)[:12]:
        yield from places(inner, (*path, key))


def mutants(text):
    source = json.loads(text)
    for path in places(source):
        if not path:
            continue
        copy = json.loads(text)
        owner = copy
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = MARK
        marked = json.dumps(copy)
        for strange in STRANGE:
            yield path, marked.replace(json.dumps(MARK), strange, 1)
        if isinstance(owner, dict):
            yield path, marked.replace(json.dumps(MARK), f"1, {json.dumps(path[-1])}: 2", 1)  # twice
        del owner[path[-1]]
        yield path, json.dumps(copy)
    for cut in range(0, len(text), max(1, len(text) // 10)):
        yield "cut", text[:cut]


def main():
    cases = Cases()
    weight = tensor("w", [8, 3], FLOAT, bytes(range(96)))
    cases.write("m.onnx", model([node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])], [value("x", ["n", 8])], [value("y", ["n", 3])], [weight]))
    cases.write("m.csv", "".join(",".join(str((i * 37 + k * 11) % 17 / 9) for k in range(8)) + "\n" for i in range(40)))
    quick, brief = ["--no-timing-cache", "--quick"], ["--duration", "50ms"]
    for command in (["build", "m.onnx", "-o", "m.plan", *quick], ["bench", "m.plan", "--json", "result.json", "--iterations", "2", "--warmup", "1"],
                    ["calibrate", "m.onnx", "--data", "m.csv", "-o", "ranges.json", "--method", "minmax"],
                    ["explain", "m.plan", "-o", "explain.json", *brief], ["build", "m.onnx", "-o", "t.plan", "--quick", "--timing-cache", "timings.json"]):
        made = cases.run(*command)
        cases.expect(made.code == 0, made, "what is to be damaged could not be made")
    profile = cases.run("profile", "m.plan", "--json", *brief)
    cases.write("profile.json", profile.out)
    study = ["study", "m.onnx", "--data", "m.csv", "-o", "study", "--precision", "fp32,int8", "--method", "minmax", "--duration", "100ms", "--quick"]
    done = cases.run(*study)
    print(done)
    reads = {
        "result.json": [["gate", "{}", "--baseline", "result.json.good"], ["compare", "{}", "result.json.good"], ["report", "{}", "-o", "page.html"]],
        "ranges.json": [["build", "m.onnx", "-o", "q.plan", "--precision", "int8", "--calibration", "{}", "--no-measure"]],
        "explain.json": [["report", "{}", "-o", "page.html"]],
        "profile.json": [["report", "{}", "-o", "page.html"]],
        "timings.json": [["build", "m.onnx", "-o", "t.plan", "--quick", "--timing-cache", "{}"]],
    }
    steps = sorted((cases.folder / "study" / "steps").glob("*.json")) if done.code in (0, 1) else []
    for step in steps:
        name = str(step.relative_to(cases.folder))
        reads[name] = [study]
    rng = random.Random(1)
    wanted = sys.argv[3:]
    for name, commands in reads.items():
        if wanted and not any(word in name for word in wanted):
            continue
        good = (cases.folder / name).read_text()
        cases.write(name + ".good", good)
        all_of_it = list(mutants(good))
        few = 2 if name.startswith("study") else 14
        chosen = all_of_it if LONG else [all_of_it[i] for i in sorted(rng.sample(range(len(all_of_it)), min(few, len(all_of_it))))]
        huge = [m for m in all_of_it if "-1e400" in m[1]]
        for path, text in chosen + ([] if LONG else rng.sample(huge, 1) if huge else []):
            for command in commands:
                cases.write(name, text)
                outcome = cases.run(*(c.replace("{}", name) for c in command))
                cases.documented(outcome)
                if name.startswith("study/"):
                    # What does not say that it is a step may be somebody's: it is not replaced.
                    ours = '"temper.step/' in text or not text
                    cases.expect(outcome.code == (done.code if ours else 2), outcome, f"{name} at {path} was not done again")
        cases.write(name, good)
    cases.finish()


main()
