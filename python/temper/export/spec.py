# SPDX-License-Identifier: Apache-2.0
"""What may be said on the command line, and which packages it takes. Needs nothing but Python itself."""
import dataclasses
import importlib.util
import pathlib
import sys

from .errors import NOT_SUPPORTED, ExportError, pip_line

KINDS = """  torchvision:NAME   a model of torchvision              timm:NAME    a model of timm
  keras:NAME         one of keras.applications           hf:FOLDER    a local folder of transformers
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


def require_packages(spec):
    """Throws ExportError with one pip line for all that SOURCE takes and this interpreter lacks."""
    path = pathlib.Path(spec)
    kind = spec.partition(":")[0] if ":" in spec else path.suffix.lower()
    modules = dict(PACKAGES.get(kind, {}))
    if path.is_dir() and (path / "saved_model.pb").exists():
        modules = dict(TENSORFLOW)
    modules.update(ALWAYS)
    missing = [m for m in modules if importlib.util.find_spec(m) is None]
    if missing:
        raise ExportError(NOT_SUPPORTED, f"{spec} needs {', '.join(missing)}, not installed for {sys.executable}; install with: {pip_line([modules[m] for m in missing])}")
