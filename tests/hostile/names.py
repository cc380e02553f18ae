# SPDX-License-Identifier: Apache-2.0
"""Names of ESC, BEL, carriage returns, line breaks, 8-bit controls, characters that turn the direction of text, and bytes that are no
UTF-8: every verb that prints names prints text, and its JSON is JSON."""
import json
import os
import re
import struct
import unicodedata

from harness import Cases
from wire import FLOAT, INT64, model, node, tensor, value

HOSTILE = "\x1b[2J\x07\rPASSED\n\x9b31m\u202etxt\u2066\u200f\x7f\udcff\udc9b"  # the last two: bytes that are no UTF-8


def text_of(content):
    """What a terminal may be shown."""
    text = content.decode("utf-8")  # or it is none
    for c in text:
        if (ord(c) < 0x20 and c != "\n") or 0x7f <= ord(c) < 0xa0 or unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI") or c in "\u200e\u200f\u2028\u2029":
            raise ValueError(f"it holds {c!r}")
    return text


def main():
    cases = Cases()
    n = lambda name: name + HOSTILE
    weight = tensor(n("w"), [8, 3], FLOAT, struct.pack("<24f", *(i / 7 - 1 for i in range(24))))
    nodes = [node("MatMul", [n("x"), n("w")], [n("m")], name=n("matmul")), node("Relu", [n("m")], [n("r")], name=n("relu")),
             node("TopK", [n("r"), "k"], [n("v"), n("i")], name=n("topk"), axis=1)]
    content = model(nodes, [value(n("x"), [n("batch"), 8]), ], [value(n("r"), [n("batch"), 3]), value(n("i"), [n("batch"), 2], INT64)],
                    [weight, tensor("k", [1], INT64, struct.pack("<q", 2))], producer=n("producer"))
    cases.write("m.onnx", content)
    cases.write("m.csv", "".join(",".join(str((i * 37 + k * 11) % 17 / 9) for k in range(8)) + "\n" for i in range(20)))
    os.makedirs(cases.folder / "pictures")
    quick = ["--no-timing-cache", "--quick"]
    short, brief = ["--iterations", "2", "--warmup", "1"], ["--duration", "50ms"]
    wanted = [
        ["inspect", "m.onnx"],
        ["inspect", "m.onnx", "--passes", "on"],
        ["build", "m.onnx", "-o", "m.plan", *quick],
        ["build", "m.onnx", "-o", "v.plan", "-v", *quick],
        ["inspect", "m.plan"],
        ["inspect", "m.plan", "--layers"],
        ["inspect", "m.plan", "--graph"],
        ["inspect", "m.plan", "--json", "--layers", "--graph"],
        ["inspect", "m.plan", "--why", "relu"],
        ["run", "m.onnx", "--no-measure"],
        ["run", "m.plan", "--json"],
        ["run", "m.plan", "--output-dir", "outputs"],
        ["run", "m.plan", "--input", "m.csv"],
        ["run", "m.onnx", "--shapes", "y=1x8", "--no-measure"],
        ["verify", "m.onnx", "--no-measure"],
        ["verify", "m.onnx", "--nodes", "--no-measure"],
        ["verify", "m.onnx", "--nodes", "--json", "--no-measure"],
        ["profile", "m.plan", *brief],
        ["profile", "m.plan", "--json", *brief],
        ["explain", "m.plan", "-o", "m.explain.json", *brief],
        ["explain", "m.plan", "--json", *brief],
        ["bench", "m.plan", "--json", "m.json", *short],
        ["compare", "m.json", "m.json"],
        ["compare", "m.json", "m.json", "--json"],
        ["report", "m.json", "m.explain.json", "-o", "page.html"],
        ["calibrate", "m.onnx", "--data", "m.csv", "-o", "ranges.json", "--method", "minmax"],
        ["calibrate", "m.onnx", "--data", "m.csv", "-o", "ranges2.json", "--method", "minmax", "--json"],
        ["calibrate", "m.onnx", "--data", "m.csv", "--cache", "cache.txt"],
        ["build", "m.onnx", "-o", "q.plan", "--precision", "int8", "--calibration", "ranges.json", "--no-measure"],
        ["evaluate", "m.plan", "--data", "m.csv", "--reference", "m.onnx"],
        ["evaluate", "m.plan", "--data", "pictures"],
    ]
    cases.write("hostile.cache", ("TRT-8501-EntropyCalibration2\n" + "".join(f"t{i}{HOSTILE}".replace("\n", "") + ": 3c010a14\n" for i in range(3))).encode("utf-8", "surrogateescape"))
    wanted += [["calibrate", "m.onnx", "--lint", "hostile.cache"], ["calibrate", "m.onnx", "--lint", "hostile.cache", "--json"],
               ["calibrate", "m.onnx", "--from-cache", "hostile.cache", "-o", "r3.json"], ["run", "m" + HOSTILE.replace("\n", "") + ".onnx"], ["no verb" + HOSTILE]]
    codes = {}
    for command in wanted:
        command = [c.encode("utf-8", "surrogateescape") for c in command]
        outcome = cases.run(*command)
        outcome.command = [c.decode("utf-8", "replace") for c in command]
        cases.expect(outcome.code in range(6), outcome, "not a documented exit code")
        codes.setdefault(outcome.code, []).append(outcome.command[0])
        for stream, content in (("output", outcome.out), ("errors", outcome.err)):
            try:
                text_of(content)
            except ValueError as error:
                cases.expect(False, outcome, f"its {stream}: {error}")
            # A line break in a name would begin a line of the attacker's.
            cases.expect(not re.search(rb"^\s*(\xef\xbf\xbd|31m)", content, re.M), outcome, f"a name breaks the lines of its {stream}")
        if b"--json" in command and b"bench" not in command and outcome.code == 0:
            try:
                json.loads(outcome.out)
            except ValueError as error:
                cases.expect(False, outcome, f"its JSON is none ({error})")
    for file in cases.folder.glob("*.json"):
        try:
            json.loads(text_of(file.read_bytes()))
        except ValueError as error:
            cases.failures.append(f"{file.name}: {error}")
            print(cases.failures[-1])
    print({code: sorted(set(verbs)) for code, verbs in codes.items()})
    # The test is one of what verbs print: most of them must come to print it.
    if len(codes.get(0, [])) < 25:
        cases.failures.append("too few of the commands work")
        print(cases.failures[-1])
    cases.finish()


main()
