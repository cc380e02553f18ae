# SPDX-License-Identifier: Apache-2.0
"""Every architecture of a list: exported, built by Temper, and its answers beside the framework's and ONNX Runtime's.

usage: exporters.py --temper build/temper [--document docs/exporters.md] [--quick] [--only WORD] [--least-torchvision 20 --least-keras 5]
The module `temper` must be importable (PYTHONPATH=python), with PyTorch and TensorFlow beside it: ./dev setup frameworks.
Weights are random, nothing is downloaded. Exit code 1 where an answer differs, a model that is not in REFUSED is refused,
or fewer agree than asked. --quick takes the small ones only.
"""
import argparse
import collections
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

SMALL = 96
# name -> short side of the picture, where it is not SMALL; and the ones of --quick.
TORCHVISION = {
    "alexnet": 96, "vgg11_bn": 64, "squeezenet1_0": 96, "squeezenet1_1": 96,
    "resnet18": 96, "resnet34": 96, "resnet50": 96, "resnext50_32x4d": 96, "wide_resnet50_2": 96,
    "densenet121": 96, "googlenet": 96, "inception_v3": 128,
    "mobilenet_v2": 96, "mobilenet_v3_small": 96, "mobilenet_v3_large": 96, "mnasnet0_5": 96, "mnasnet1_0": 96,
    "shufflenet_v2_x0_5": 96, "shufflenet_v2_x1_0": 96, "efficientnet_b0": 96, "efficientnet_b1": 96, "efficientnet_v2_s": 96,
    "regnet_x_400mf": 96, "regnet_y_400mf": 96, "convnext_tiny": 96,
    "vit_b_32": 224, "swin_t": 96, "swin_v2_t": 128, "maxvit_t": 224,
    "fcn_resnet50": 96, "deeplabv3_mobilenet_v3_large": 96, "lraspp_mobilenet_v3_large": 96,
    "ssdlite320_mobilenet_v3_large": 320, "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
    "r3d_18": (4, 64, 64), "raft_small": 128,
}
TIMM = {"resnet10t": 96, "ghostnet_100": 96, "mixer_s32_224": 224, "vit_tiny_patch16_224": 224, "levit_128s": 224, "repvgg_a0": 96, "edgenext_xx_small": 96}
KERAS = {"MobileNet": 96, "MobileNetV2": 96, "MobileNetV3Small": 96, "EfficientNetB0": 96, "EfficientNetV2B0": 96, "ResNet50": 96, "ResNet50V2": 96,
         "DenseNet121": 96, "InceptionV3": 96, "Xception": 96, "NASNetMobile": 224, "ConvNeXtTiny": 96, "VGG16": 64}
FOLDERS = ["bert", "distilbert", "gpt2", "vit"]  # of transformers, small ones that this script makes
QUICK = {"torchvision": ["resnet18", "mobilenet_v2", "squeezenet1_1", "shufflenet_v2_x0_5"], "timm": [], "keras": ["MobileNetV2"], "hf": ["bert"]}
# What is known to be refused, with the words that its message must hold.
REFUSED = {"torchvision:ssdlite320_mobilenet_v3_large": "the condition of If", "torchvision:fasterrcnn_mobilenet_v3_large_320_fpn": "the condition of If",
           "keras:ConvNeXtTiny": "tf2onnx left operations of TensorFlow in the model: Erfc, StatefulPartitionedCall"}


@dataclasses.dataclass
class Row:
    source: str
    shape: str = ""
    how: str = ""
    result: str = ""       # agrees, DIFFERS, refused
    runtime: float = 0     # largest difference of ONNX Runtime
    temper: float = 0      # of Temper
    spread: float = 0      # smallest standard deviation of an output, to see that the check means something
    reason: str = ""
    seconds: float = 0


def specifications(group, names, work):
    """(SOURCE, options) of a group's models."""
    if group == "hf":
        return [(f"hf:{work / name}", {"dynamic": ("batch", "sequence")} if name != "vit" else {}) for name in names]
    found = []
    for name, size in names.items():
        if isinstance(size, tuple):
            dims = (1, 3, *size)
        elif group == "keras":
            dims = (1, size, size, 3)
        else:
            dims = (1, 3, size, size)
        shapes = (("", dims, None),) if not name.startswith("raft") else (("image1", dims, None), ("image2", dims, None))
        found.append((f"{group}:{name}", {"shapes": shapes}))
    return found


def make_folders(names, work):
    """Folders as transformers saves them, of small models with random weights."""
    import torch
    import transformers as t
    torch.manual_seed(0)
    made = {"bert": lambda: t.BertForSequenceClassification(t.BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)),
            "distilbert": lambda: t.DistilBertModel(t.DistilBertConfig(vocab_size=500, dim=64, n_layers=2, n_heads=4, hidden_dim=128)),
            "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=4)),
            "vit": lambda: t.ViTForImageClassification(t.ViTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64))}
    for name in names:
        made[name]().save_pretrained(work / name)


def one(spec, options, program, work):
    from temper.export import check, quiet, source
    from temper.export.errors import ExportError
    from temper.export.spec import Options
    row, start = Row(re.sub(r"hf:.*/", "hf:", spec)), time.monotonic()
    path = work / "m.onnx"
    try:
        chosen = Options(**options)
        with quiet.quiet():
            made = source.load(spec, chosen)
            row.shape = ", ".join("x".join(map(str, p.shape)) for p in made.inputs)
            row.how = made.write(path, chosen)
        report = check.check(path, made, 0, *check.TOLERANCE, program, lambda line: print("   ", line, file=sys.stderr))
        for d in report.differences:
            which = "temper" if d.engine.startswith("Temper") else "runtime"
            setattr(row, which, max(getattr(row, which), d.largest))
        row.spread = min((d.spread for d in report.differences), default=0)
        wrong = [d for d in report.differences if not d.ok]
        if report.refusals:
            row.result, row.reason = "refused", "; ".join(r.replace(f"{path}: ", "") for r in report.refusals)
        elif wrong:
            row.result, row.reason = "DIFFERS", "; ".join(f"{d.output}: {d.engine}, {d.beyond} elements, up to {d.largest:.3g} {d.note}" for d in wrong)
        elif row.spread < 1e-3:
            row.result, row.reason = "DIFFERS", f"the outputs hardly vary (standard deviation {row.spread:.2g}): the comparison would say nothing"
        else:
            row.result = "agrees"
    except ExportError as error:
        row.result, row.reason = "refused", str(error)
    row.seconds = time.monotonic() - start
    return row


def run_group(group, names, program):
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        if group == "hf":
            make_folders(names, work)
        for spec, options in specifications(group, names, work):
            print(json.dumps(dataclasses.asdict(one(spec, options, program, work))), flush=True)


def table(rows):
    lines = ["| source | input | written by | ONNX Runtime | Temper | result |", "|---|---|---|---|---|---|"]
    for r in rows:
        numbers = f"{r.runtime:.1e} | {r.temper:.1e}" if r.result != "refused" else " | "
        how = re.sub(r", as .*", " (torch.export could not)", r.how.replace(" exporter of ", ", "))
        lines.append(f"| `{r.source}` | {r.shape} | {how} | {numbers} | {r.result}{': ' + r.reason.replace('|', '/')[:300] if r.reason else ''} |")
    return "\n".join(lines)


def summary(rows):
    counts = collections.defaultdict(collections.Counter)
    for r in rows:
        counts[r.source.split(":")[0]][r.result] += 1
    lines = ["| from | tried | agree | differ | refused |", "|---|---|---|---|---|"]
    for group, c in counts.items():
        lines.append(f"| {group} | {c.total()} | {c['agrees']} | {c['DIFFERS']} | {c['refused']} |")
    return "\n".join(lines)


def write_document(path, rows):
    text = path.read_text()
    head, rest = text.split("<!-- table -->", 1)
    tail = rest.split("<!-- end of table -->", 1)[1]
    path.write_text(f"{head}<!-- table -->\n{summary(rows)}\n\n{table(rows)}\n<!-- end of table -->{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--temper", required=True)
    parser.add_argument("--document", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--least-torchvision", type=int, default=0)
    parser.add_argument("--least-keras", type=int, default=0)
    parser.add_argument("--group", help=argparse.SUPPRESS)
    args = parser.parse_args()
    groups = {"torchvision": TORCHVISION, "timm": TIMM, "keras": KERAS, "hf": FOLDERS}
    for group, names in groups.items():
        kept = [n for n in names if args.only in f"{group}:{n}" and (not args.quick or n in QUICK[group])]
        groups[group] = {n: names[n] for n in kept} if isinstance(names, dict) else kept
    if args.group:
        return run_group(args.group, groups[args.group], args.temper)
    rows = []
    for group, names in groups.items():  # a process each: PyTorch and TensorFlow do not meet, and a crash loses one group
        if not names:
            continue
        command = [sys.executable, __file__, "--group", group, "--temper", args.temper, "--only", args.only] + ["--quick"] * args.quick
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            done = []
            for line in process.stdout:
                row = Row(**json.loads(line))
                done.append(row)
                print(f"{row.source:44} {row.result:8} {row.seconds:5.1f} s  ONNX Runtime {row.runtime:.1e}  Temper {row.temper:.1e}  {row.reason}", flush=True)
        rows += done
        if process.returncode:
            rows.append(Row(f"{group}:{list(names)[len(done)] if len(done) < len(names) else '?'}", result="DIFFERS", reason=f"the process ended with {process.returncode}"))
            print(rows[-1].source, rows[-1].reason)
    bad = [r for r in rows if r.result == "DIFFERS"]
    for row in (r for r in rows if r.result == "refused"):
        if REFUSED.get(row.source, "\0") not in row.reason:
            bad.append(row)
    print(summary(rows))
    for group, least in (("torchvision", args.least_torchvision), ("keras", args.least_keras)):
        agree = sum(r.result == "agrees" and r.source.startswith(group + ":") for r in rows)
        if agree < least:
            bad.append(Row(group, reason=f"{agree} agree, at least {least} are asked for"))
    for row in bad:
        print(f"FAILED {row.source}: {row.result} {row.reason}")
    if args.document and not args.only and not args.quick:
        write_document(args.document, rows)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
