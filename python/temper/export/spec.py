# SPDX-License-Identifier: Apache-2.0
"""What may be said on the command line, and which packages it takes. Needs nothing but Python itself."""
import dataclasses
import importlib.util
import pathlib
import sys

from .errors import NOT_SUPPORTED, USAGE, ExportError, pip_line, read_object

KINDS = """  torchvision:NAME   a model of torchvision              timm:NAME    a model of timm
  keras:NAME         one of keras.applications
  hf:FOLDER          a local folder of transformers, or of one network of a pipeline of diffusers (hf:FOLDER/unet)
  FILE.py:CALLABLE   returns a torch.nn.Module or a Keras model, or (model, example inputs)
  FILE.pt, .pth      a TorchScript archive               FILE.pt2     an archive of torch.export
  FILE.keras, .h5    a Keras model                       FOLDER       a TensorFlow SavedModel
  FILE.tflite        a TensorFlow Lite model"""

DYNAMIC = ("batch", "height", "width", "sequence")


@dataclasses.dataclass
class Options:
    """Shared by export and verify. shapes: (name or '', dims, dtype or None) in the order given."""

    batch: int | None = None
    dynamic: tuple[str, ...] = ()
    shapes: tuple[tuple[str, tuple[int, ...], str | None], ...] = ()
    weights: str | None = None
    seed: int = 0
    half: bool = False
    opset: int | None = None
    exporter: str = "auto"
    past: bool = False
    lora: str | None = None


ALWAYS = {"numpy": "numpy", "onnx": "onnx", "onnxruntime": "onnxruntime"}
TORCH = {"torch": "torch", "onnxscript": "onnxscript"}
TENSORFLOW = {"tensorflow": "tensorflow-cpu", "tf2onnx": "tf2onnx"}
PACKAGES = {"torchvision": {**TORCH, "torchvision": "torchvision"}, "timm": {**TORCH, "timm": "timm"}, "hf": {**TORCH, "transformers": "transformers"},
            "keras": TENSORFLOW, ".pt": TORCH, ".pth": TORCH, ".pt2": TORCH, ".keras": TENSORFLOW, ".h5": TENSORFLOW,
            ".tflite": {**TENSORFLOW, "ai_edge_litert": "ai-edge-litert"}}

DIFFUSERS = {**TORCH, "diffusers": "diffusers"}
DIFFUSION = ("UNet2DConditionModel", "UNet2DModel", "AutoencoderKL")  # the classes of diffusers that are exported
OWN_MODULE = "A FILE.py:CALLABLE that returns the module and its example inputs works"


def diffusion_class(folder):
    """The class of diffusers that FOLDER of hf:FOLDER holds, one of DIFFUSION; None where it is none of diffusers'.
    A whole pipeline and other classes are refused."""
    path = pathlib.Path(folder)
    if (path / "model_index.json").is_file():
        refuse_pipeline(path)
    if not (path / "config.json").is_file():
        return None
    kind = read_object(path / "config.json").get("_class_name")
    if kind is not None and kind not in DIFFUSION:
        raise ExportError(NOT_SUPPORTED, f"{path / 'config.json'} names {kind} of diffusers; "
                                         f"{', '.join(DIFFUSION)} are exported. {OWN_MODULE}")
    return kind


def refuse_pipeline(path):
    """A pipeline is several networks and a program around them: says which of its folders can be exported."""
    index = read_object(path / "model_index.json")
    parts, others = [], []
    for name, made in index.items():
        if not isinstance(made, list) or len(made) != 2 or not (path / name / "config.json").is_file():
            continue  # settings; tokenizers and schedulers are no networks
        library, kind = made
        if library == "transformers" or (library == "diffusers" and kind in DIFFUSION):
            parts.append(f"hf:{path / name}")
        else:
            others.append(f"{name} ({kind})")
    known = f"export its parts, each by itself: {', '.join(parts)}" if parts else "none of its parts can be exported"
    left = f"; not exported: {', '.join(others)}" if others else ""
    raise ExportError(USAGE, f"'{path}' is a whole pipeline of diffusers ({index.get('_class_name')}); {known}{left}")


def require_packages(spec):
    """Throws ExportError with one pip line for all that SOURCE takes and this interpreter lacks."""
    path = pathlib.Path(spec)
    kind = spec.partition(":")[0] if ":" in spec else path.suffix.lower()
    modules = dict(PACKAGES.get(kind, {}))
    if kind == "hf" and diffusion_class(spec.partition(":")[2]) is not None:
        modules = dict(DIFFUSERS)
    if path.is_dir() and (path / "saved_model.pb").exists():
        modules = dict(TENSORFLOW)
    modules.update(ALWAYS)
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        raise ExportError(NOT_SUPPORTED, f"{spec} needs {', '.join(missing)}, not installed for {sys.executable}; install with: {pip_line([modules[m] for m in missing])}")
