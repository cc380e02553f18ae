# SPDX-License-Identifier: Apache-2.0
"""What SOURCE means, and the interface that every framework is seen through."""
import dataclasses
import importlib.util
import pathlib
import re
import sys
import zipfile

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line
from .spec import Options  # noqa: F401

@dataclasses.dataclass
class Input:
    """An input of a model. symbols: axis -> name, of the axes that stay open. below: one more than the largest whole number."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    symbols: dict[int, str] = dataclasses.field(default_factory=dict)
    below: int = 2
    value: np.ndarray | None = None  # what the model's author gave as an example


class Source:
    """A loaded model. A framework's class sets these and has run() and write()."""

    framework = ""    # "PyTorch 2.15.0"
    description = ""  # "torchvision resnet18, random weights (seed 0)"
    inputs: list[Input]
    takes_adapters = False  # --lora was heeded

    def run(self, arrays):
        """The framework's own answer: {input name: array} -> [(output name, array)], in the order of the ONNX outputs."""
        raise NotImplementedError

    def write(self, path, options):
        """Writes ONNX to `path`; returns a line that says how. Throws ExportError where the framework refuses."""
        raise NotImplementedError

    def fill(self, seed, sizes=None):
        """Seeded inputs; `sizes` (symbol -> size) for the open axes. Normal numbers, whole ones from 0 to `below`, masks of ones."""
        arrays = {}
        for index, port in enumerate(self.inputs):
            shape = tuple((sizes or {}).get(port.symbols.get(axis), size) for axis, size in enumerate(port.shape))
            random = np.random.default_rng([seed, index])
            if port.value is not None and shape == port.shape:
                arrays[port.name] = port.value
            elif port.dtype == np.bool_:
                arrays[port.name] = random.integers(0, 2, shape).astype(bool)
            elif np.issubdtype(port.dtype, np.integer):
                ones = "mask" in port.name
                arrays[port.name] = np.ones(shape, port.dtype) if ones else random.integers(0, max(1, port.below), shape).astype(port.dtype)
            else:
                arrays[port.name] = random.standard_normal(shape).astype(port.dtype)
        return arrays


def open_axes(shape, dynamic, channels_last=False, text=False):
    """Which axes of an input the words of --dynamic open."""
    symbols = {}
    if "batch" in dynamic and shape:
        symbols[0] = "batch"
    rows = 1 if channels_last else len(shape) - 2
    if len(shape) >= 4 and not text:
        if "height" in dynamic:
            symbols[rows] = "height"
        if "width" in dynamic:
            symbols[rows + 1] = "width"
    if "sequence" in dynamic and len(shape) >= 2 and text:
        symbols[1] = "sequence"
    return symbols


def resolve_shapes(known, options):
    """--shape and --batch over the inputs [(name, shape, dtype, below)]. An unknown name of --shape is refused."""
    names = [name for name, *_ in known]
    given = {}
    for name, dims, dtype in options.shapes:
        if not name:
            if len(known) != 1:
                raise ExportError(USAGE, f"--shape {'x'.join(map(str, dims))}: the model has the inputs {', '.join(names)}; write NAME=SHAPE")
            name = names[0]
        if name not in names:
            raise ExportError(USAGE, f"--shape {name}: the model has no such input; it has {', '.join(names)}")
        given[name] = (dims, dtype)
    ports = []
    for name, shape, dtype, below in known:
        dims, wanted = given.get(name, (shape, None))
        if options.batch and dims and not (name in given):
            dims = (options.batch, *dims[1:])
        if options.batch and name in given and dims and dims[0] != options.batch:
            raise ExportError(USAGE, f"--batch {options.batch} and --shape {name}={'x'.join(map(str, dims))} contradict each other")
        try:
            dtype = np.dtype(wanted) if wanted else np.dtype(dtype)
        except TypeError as error:
            raise ExportError(USAGE, f"--shape {name}: '{wanted}' is no element type; write float32, float16, int64, int32, uint8 or bool") from error
        ports.append(Input(name, tuple(dims), dtype, below=below))
    return ports


def load_callable(spec):
    """FILE.py:NAME -> what the function returns: (model, example inputs or None)."""
    file, _, name = spec.rpartition(":")
    path = pathlib.Path(file)
    if not path.is_file():
        raise ExportError(BAD_FILE, f"'{file}' does not exist")
    module_spec = importlib.util.spec_from_file_location(f"temper_source_{path.stem}", path)
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[module_spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))  # its neighbours can be imported
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        from .errors import pip_line
        if isinstance(error, ModuleNotFoundError) and error.name:
            raise ExportError(NOT_SUPPORTED, f"'{file}' needs {error.name}, which is not installed for {sys.executable}; install it with: {pip_line([error.name.split('.')[0]])}") from error
        raise ExportError(BAD_FILE, f"'{file}' ended with {first_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = [n for n, f in vars(module).items() if callable(f) and not n.startswith("_") and getattr(f, "__module__", "") == module_spec.name]
        raise ExportError(USAGE, f"'{file}' has no function '{name}'; it has {', '.join(functions) or 'none'}")
    try:
        made = function()
    except Exception as error:
        raise ExportError(BAD_FILE, f"{name}() of '{file}' ended with {first_line(error)}") from error
    return made if isinstance(made, tuple) and len(made) == 2 else (made, None)


def load(spec, options):
    """SOURCE -> Source. Frameworks are imported only here, each where it is needed."""
    source = load_any(spec, options)
    if options.lora is not None and not source.takes_adapters:
        raise ExportError(NOT_SUPPORTED, f"--lora: adapters are merged into modules of PyTorch; '{spec}' is an archive, or a model of another framework")
    return source


def load_any(spec, options):
    prefix, colon, rest = spec.partition(":")
    if colon and prefix in ("torchvision", "timm", "hf", "keras"):
        if not rest:
            raise ExportError(USAGE, f"'{spec}' lacks a name; write {prefix}:{'FOLDER' if prefix == 'hf' else 'NAME'}")
        if prefix == "keras":
            from . import keras_models
            return keras_models.from_applications(rest, options)
        from . import pytorch
        return getattr(pytorch, f"from_{prefix}")(rest, options)
    if re.search(r"\.py:\w+$", spec):
        return from_python(spec, options)
    path = pathlib.Path(spec)
    if spec.endswith(".py"):
        raise ExportError(USAGE, f"'{spec}' needs the function that returns the model; write {spec}:NAME")
    if not path.exists():
        raise ExportError(BAD_FILE if "." in path.name or "/" in spec else USAGE, f"'{spec}' does not exist, and is none of torchvision:NAME, timm:NAME, keras:NAME, hf:FOLDER, FILE.py:CALLABLE")
    if path.is_dir():
        if (path / "saved_model.pb").exists():
            from . import tensorflow_models
            return tensorflow_models.from_saved_model(path, options)
        hint = f"; for a folder of transformers or diffusers write hf:{spec}" if (path / "config.json").exists() else ""
        raise ExportError(BAD_FILE, f"'{spec}' is a folder without saved_model.pb{hint}")
    suffix = path.suffix.lower()
    if suffix in (".keras", ".h5"):
        from . import keras_models
        return keras_models.from_file(path, options)
    if suffix == ".tflite":
        from . import tensorflow_models
        return tensorflow_models.from_tflite(path, options)
    if suffix in (".pt", ".pth", ".pt2"):
        from . import pytorch
        # torch.export writes .pt2, but any name is allowed: the archive says what it is.
        exported = suffix == ".pt2" or (zipfile.is_zipfile(path) and any(n.endswith(("archive_format", "serialized_exported_program.json")) for n in zipfile.ZipFile(path).namelist()))
        return (pytorch.from_exported if exported else pytorch.from_torchscript)(path, options)
    if suffix == ".onnx":
        raise ExportError(USAGE, f"'{spec}' is ONNX already; build it with: temper build {spec} -o {path.with_suffix('.plan')}")
    raise ExportError(USAGE, f"'{spec}' is no kind of source that is known (by its ending): .py:CALLABLE, .pt, .pth, .pt2, .keras, .h5, .tflite, a SavedModel folder")


def from_python(spec, options):
    model, examples = load_callable(spec)
    kinds = [c.__module__.split(".")[0] + "." + c.__name__ for c in type(model).__mro__]
    if "torch.Module" in kinds:
        from . import pytorch
        return pytorch.from_module(model, examples, spec, options)
    if any(k.startswith("keras.") for k in kinds):
        from . import keras_models
        return keras_models.from_model(model, spec, options)
    raise ExportError(USAGE, f"{spec} returned {type(model).__name__}, which is neither a torch.nn.Module nor a Keras model")
