# SPDX-License-Identifier: Apache-2.0
"""The verbs `export` and `verify` of python -m temper."""
import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile

from . import quiet as quietness
from .errors import BAD_FILE, CHECK_FAILED, MACHINE, USAGE, ExportError, first_line
from .spec import DYNAMIC, KINDS, Options, require_packages

EXIT_CODES = """exit codes: 0 done; 1 the answers disagree; 2 wrong usage; 3 a file is missing, damaged or not what it should be;
4 not supported, or a framework is not installed; 5 the machine failed"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        verb = self.prog.split()[1:]
        raise ExportError(USAGE, f"{verb[0] + ': ' if verb else ''}{message}; see {self.prog} --help")


def whole(least, most=2**31 - 1):
    def parse(text):
        if not re.fullmatch(r"\d+", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} to {most}")
        return int(text)
    return parse


def shape(text):
    """NAME=1x3x224x224:int64, the name and the type left out where they may be."""
    match = re.fullmatch(r"(?:([^=]+)=)?(\d+(?:x\d+)*|scalar)(?::(\w+))?", text)
    if not match or (match[2] != "scalar" and any(int(d) < 1 for d in match[2].split("x"))):
        raise argparse.ArgumentTypeError(f"'{text}' is not a shape; write 1x3x224x224, NAME=1x3x224x224 or NAME=1x16:int64")
    return (match[1] or "", () if match[2] == "scalar" else tuple(map(int, match[2].split("x"))), match[3])


def dynamic(text):
    words = tuple(text.split(","))
    for word in words:
        if word not in DYNAMIC:
            raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(DYNAMIC)}")
    return words


def tolerance(text):
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(f"'{text}' is not a tolerance, like 1e-3")
    return value


def add_source_options(parser):
    parser.add_argument("--batch", type=whole(1), metavar="N", help="size of the first axis (1)")
    parser.add_argument("--dynamic", type=dynamic, default=(), metavar="AXES", help="axes that stay open: batch, height, width, sequence; separated by commas")
    parser.add_argument("--shape", type=shape, action="append", default=[], metavar="[NAME=]SHAPE[:TYPE]", help="shape of an input, e.g. 1x3x224x224 or ids=1x16:int64")
    parser.add_argument("--weights", metavar="FILE|NAME", help="a state dict or weights file; or a name that the library downloads: torchvision's (DEFAULT, IMAGENET1K_V1), "
                        "'pretrained' of timm, 'imagenet' of Keras. Without: random ones, nothing is downloaded")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="seed of random weights and of the inputs of the check (0)")
    parser.add_argument("--half", action="store_true", help="PyTorch modules: weights, inputs and outputs in fp16")
    parser.add_argument("--past", action="store_true", help="language models of transformers: with past keys and values as inputs and outputs, from which `temper build --cache` makes caches")
    parser.add_argument("--lora", metavar="FOLDER", help="PyTorch modules: a LoRA adapter that peft saved, merged into the weights")
    parser.add_argument("--rtol", type=tolerance, help="relative tolerance of the check (1e-3; with --half 1e-2)")
    parser.add_argument("--atol", type=tolerance, help="absolute tolerance of the check (1e-4; with --half 1e-2)")
    parser.add_argument("--temper", metavar="PROGRAM", help="check with this program of Temper instead of the Python module")
    parser.add_argument("--json", action="store_true", help="print the check as JSON")
    parser.add_argument("--quiet", action="store_true", help="only warnings and failures")
    parser.add_argument("-v", "--verbose", action="store_true", help="show what the framework says, and tracebacks")


def parser():
    top = Parser(prog="temper", description="Models of PyTorch, Keras and TensorFlow as ONNX, checked against the framework they come from.")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    export = verbs.add_parser("export", help="a model of PyTorch, Keras or TensorFlow as ONNX", formatter_class=argparse.RawDescriptionHelpFormatter,
                              description="A model of PyTorch, Keras or TensorFlow as ONNX. Then the framework, ONNX Runtime and Temper answer the\n"
                              f"same inputs, and the differences are printed.\n\nSOURCE is one of\n{KINDS}", epilog=EXIT_CODES)
    export.add_argument("source", metavar="SOURCE")
    export.add_argument("-o", "--output", required=True, metavar="FILE.onnx", help="the ONNX file to write")
    export.add_argument("--opset", type=whole(7, 30), metavar="N", help="opset of the ONNX file; without it the framework's own choice")
    export.add_argument("--exporter", choices=("auto", "export", "torchscript"), default="auto", help="exporter of PyTorch: torch.export (tried first), or TorchScript")
    export.add_argument("--no-check", action="store_true", help="write the file only")
    export.add_argument("--force", action="store_true", help="replace a file that temper export did not write; never one that is read")
    verify = verbs.add_parser("verify", help="an ONNX file beside the model it was exported from", formatter_class=argparse.RawDescriptionHelpFormatter,
                              description=f"An ONNX file beside the model it was exported from, with the options that it was exported with.\n\nSPEC is one of\n{KINDS}", epilog=EXIT_CODES)
    verify.add_argument("model", metavar="MODEL.onnx")
    verify.add_argument("--source", required=True, metavar="SPEC")
    for verb in (export, verify):
        add_source_options(verb)
    return top


def options_of(args):
    return Options(args.batch, args.dynamic, tuple(args.shape), args.weights, args.seed, args.half, getattr(args, "opset", None), getattr(args, "exporter", "auto"), args.past, args.lora)


def load(args):
    require_packages(args.source)
    from .source import load as load_source
    with quietness.quiet():
        return load_source(args.source, options_of(args))


def tolerances(args):
    from .check import HALF_TOLERANCE, TOLERANCE
    rtol, atol = HALF_TOLERANCE if args.half else TOLERANCE
    return (rtol if args.rtol is None else args.rtol), (atol if args.atol is None else args.atol)


def stamp(path, source, args):
    """What the file was made from, in the model itself."""
    import onnx
    model = onnx.load(str(path), load_external_data=False)
    facts = {"temper.source": args.source, "temper.description": source.description, "temper.framework": source.framework, "temper.seed": str(args.seed)}
    # What else the module was made with, for `temper versus`.
    for name in ("weights", "lora"):
        if getattr(args, name) is not None:
            facts[f"temper.{name}"] = getattr(args, name)
    for name in ("half", "past"):
        if getattr(args, name):
            facts[f"temper.{name}"] = "true"
    onnx.helper.set_model_props(model, {**{p.key: p.value for p in model.metadata_props}, **facts})
    onnx.save(model, str(path))


def is_ours(path):
    """Whether temper export wrote this file."""
    import onnx
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception:  # of protobuf, by whatever name: no model
        return False
    return model.producer_name == "temper" or any(p.key.startswith("temper.") for p in model.metadata_props)


def files_of(args):
    """What an export reads, as far as the command line names it: files, and folders with all in them."""
    whole = args.source.split(":", 1)
    for name in (args.source, whole[0], whole[-1], args.weights or "", args.lora or ""):
        path = pathlib.Path(name)
        if not name or not path.exists():
            continue
        yield path
        if path.is_dir():
            yield from (found for found in path.rglob("*") if found.is_file())


def check_target(target, args):
    """No output replaces an input, and only --force replaces what temper export did not write."""
    if not target.exists():
        return
    if not target.is_file():
        raise ExportError(USAGE, f"-o '{target}': it is not a regular file")
    if any(path.exists() and path.samefile(target) for path in files_of(args)):
        raise ExportError(USAGE, f"-o '{target}' is one of the files to read; name another one to write")
    if not args.force and target.stat().st_size and not is_ours(target):
        raise ExportError(USAGE, f"-o '{target}' is a file that temper export did not write; name another file to write, or force it (--force)")


def export(args, say):
    target = pathlib.Path(args.output)
    if target.suffix != ".onnx":
        raise ExportError(USAGE, f"-o {target}: the name must end in .onnx")
    if not target.parent.is_dir():
        raise ExportError(USAGE, f"-o {target}: the folder {target.parent} does not exist")
    target = target.resolve()  # a link stays, and what it leads to is replaced
    check_target(target, args)
    source = load(args)
    wanted = {"batch", "height", "width", "sequence"} & set(args.dynamic)
    missing = wanted - {s for p in source.inputs for s in p.symbols.values()}
    if missing:
        raise ExportError(USAGE, f"--dynamic {','.join(sorted(missing))}: no input has such an axis ({', '.join(f'{p.name} {list(p.shape)}' for p in source.inputs)})")
    say(f"{source.description}: {source.framework}")
    with tempfile.TemporaryDirectory(prefix=".temper-", dir=target.parent) as folder:  # an export that fails leaves an older file as it was
        made = pathlib.Path(folder) / target.name
        with quietness.quiet():
            how = source.write(made, options_of(args))
            stamp(made, source, args)
        parts = [path for path in sorted(made.parent.iterdir()) if path != made]  # weights of a model above 2 GB
        for part in parts:
            if not args.force and not target.exists() and target.with_name(part.name).exists():
                raise ExportError(USAGE, f"the weights would replace '{target.with_name(part.name)}', which is no part of a model here; name another file to write, or force it (--force)")
        for part in (*parts, made):  # the model after its data
            there = target.with_name(part.name)
            if there.exists():
                shutil.copymode(there, part)
            os.replace(part, there)
    size = target.stat().st_size
    for part in parts:
        say(f"{target.with_name(part.name)}: its weights, {target.with_name(part.name).stat().st_size / 1e6:.1f} MB")
    say(f"{target}: {how}, {size / 1e6:.1f} MB" if size >= 1e5 else f"{target}: {how}, {size} bytes")
    if args.no_check:
        return 0
    return checked(target, source, args, say)


def verify(args, say):
    target = pathlib.Path(args.model)
    if not target.is_file():
        raise ExportError(BAD_FILE, f"'{target}' does not exist")
    source = load(args)
    say(f"{source.description}: {source.framework}")
    return checked(target, source, args, say)


def checked(target, source, args, say):
    from .check import check
    rtol, atol = tolerances(args)
    report = check(target, source, args.seed, rtol, atol, args.temper, say)
    if args.json:
        print(report.json())
    elif args.quiet and not report.ok:
        for difference in report.differences:
            if not difference.ok:
                print(f"{difference.output}: {difference.engine} differs from {report.framework} by up to {difference.largest:.3g}")
        print(*report.refusals, sep="\n", end="")
    return 0 if report.ok else CHECK_FAILED


def main(arguments):
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        args = parser().parse_args(arguments)
        quietness.loud = args.verbose

        def say(line):
            if not args.quiet or line.lstrip().startswith("warning"):
                print(line, file=sys.stderr if args.json else sys.stdout, flush=True)

        return (export if args.verb == "export" else verify)(args, say)
    except ExportError as error:
        if verbose and error.__cause__ is not None:
            import traceback
            traceback.print_exception(error.__cause__)
        print(f"temper: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except (OSError, MemoryError) as error:
        print(f"temper: {first_line(error)}", file=sys.stderr)
        return MACHINE
