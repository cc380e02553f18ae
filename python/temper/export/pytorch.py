# SPDX-License-Identifier: Apache-2.0
"""PyTorch: modules of torchvision, timm, transformers and of the user's own, TorchScript and torch.export archives."""
import contextlib
import inspect
import io
import itertools
import logging
import pathlib
import warnings

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line, need
from .lora import merge
from .source import Source, open_axes, resolve_shapes
from .spec import diffusion_class

PIP = ["torch", "onnx", "onnxscript"]
# Video models and optical flow see other things than one picture.
VISION_SIZES = {"inception_v3": (299, 299), "raft": (128, 128), "swin3d": (8, 112, 112), "mvit": (16, 224, 224), "s3d": (16, 112, 112),
                "r3d": (8, 112, 112), "mc3": (8, 112, 112), "r2plus1d": (8, 112, 112)}
DETECTORS = ("fasterrcnn", "fcos", "maskrcnn", "keypointrcnn", "retinanet", "ssd")


def flatten(value, name="output"):
    """Tensors of a module's answer in the exporters' order, with names: those of a dict's keys, else output_0, output_1, ..."""
    torch = need(PIP, "torch")
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    if value is None:
        return []
    if hasattr(value, "items"):
        base = "" if name == "output" else name + "_"
        return [pair for key, part in value.items() for pair in flatten(part, f"{base}{key}")]
    if isinstance(value, (tuple, list)):
        if len(value) == 1 and name == "output":
            return flatten(value[0], name)
        return [pair for index, part in enumerate(value) for pair in flatten(part, f"{name}_{index}")]
    if isinstance(value, (int, float, bool)):
        return []
    raise ExportError(NOT_SUPPORTED, f"the model returns a {type(value).__name__}; tensors, tuples, lists and dicts of them can be exported")


def draw_weights(module, seed, arguments, keywords, statistics):
    """Makes random weights worth comparing. A model whose head starts as zero, or whose batch-norm statistics were never
    taken, answers zero or a constant whatever its layers do. And a deep one with the scales and shifts that batch norm starts
    with is chaotic: a change of 1e-7 in the input moves the output by 1e-4, so that no two libraries agree."""
    torch = need(PIP, "torch")
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.is_floating_point() or parameter.numel() < 2:
                continue
            least, most = parameter.min().item(), parameter.max().item()
            if least == most == 0:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.02)
            elif least == most and abs(least) < 0.01:  # a layer scale of 1e-6 hides its whole branch
                parameter.copy_(torch.rand(parameter.shape, generator=generator) * 0.2 + 0.1)
        norms = [m for m in module.modules() if statistics and isinstance(m, torch.nn.modules.batchnorm._BatchNorm) and m.track_running_stats]
        momenta = [m.momentum for m in norms]
        for norm in norms:
            if norm.affine:  # mostly above zero, where an activation is close to linear
                norm.weight.copy_(0.4 + 0.2 * torch.rand(norm.weight.shape, generator=generator))
                norm.bias.copy_(torch.rand(norm.bias.shape, generator=generator))
            norm.reset_running_stats()
            norm.momentum = None  # the statistics of the one batch themselves
            norm.train()
        try:
            if norms:
                def more(x):  # where a picture has shrunk to one pixel, the samples alone are the variance: few give channels near zero
                    count = 16 if x.numel() <= 3 * 256 * 256 * max(1, x.shape[0]) else 4
                    return torch.randn((count, *x.shape[1:]), generator=generator) if x.is_floating_point() and x.ndim else x
                module(*[more(x) for x in arguments], **{k: more(x) for k, x in keywords.items()})
        finally:
            for norm, momentum in zip(norms, momenta):
                norm.momentum = momentum
                norm.eval()


class PyTorchSource(Source):
    """A module that runs: an nn.Module, a ScriptModule or an ExportedProgram's. keywords: inputs go by name, not by place."""

    def __init__(self, module, inputs, description, options, kind="module", keywords=False, program=None):
        torch = need(PIP, "torch")
        self.torch, self.module, self.inputs, self.description = torch, module, inputs, description
        self.kind, self.keywords, self.program = kind, keywords, program
        self.named = None  # so many parameters have names, and the others are *arguments
        self.framework = f"PyTorch {torch.__version__}"
        if options.half:
            if kind != "module":
                raise ExportError(NOT_SUPPORTED, f"--half: an archive has its types fixed; convert the module before it is saved")
            self.module.half()
            for port in inputs:
                if port.dtype == np.float32:
                    port.dtype = np.dtype(np.float16)
                    port.value = None if port.value is None else port.value.astype(np.float16)

    def tensors(self, arrays):
        return [self.torch.from_numpy(np.array(arrays[port.name], order="C")) for port in self.inputs]

    def call(self, tensors):
        if self.keywords:
            return self.module(**{port.name: tensor for port, tensor in zip(self.inputs, tensors)})
        return self.module(*tensors)

    def run(self, arrays):
        with self.torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answer = self.call(self.tensors(arrays))
            except Exception as error:
                shapes = ", ".join(f"{port.name} {arrays[port.name].dtype}{list(arrays[port.name].shape)}" for port in self.inputs)
                raise ExportError(USAGE, f"the model refuses {shapes} ({first_line(error)}); --shape and --batch set other sizes") from error
        return [(name, t.detach().to(self.torch.float32 if t.dtype == self.torch.bfloat16 else t.dtype).numpy()) for name, t in flatten(answer)]

    def write(self, path, options):
        sizes = {"batch": 2} if any("batch" in p.symbols.values() for p in self.inputs) else {}  # an axis of 1 would be taken as fixed
        arrays = self.fill(options.seed, sizes)
        outputs = [name for name, _ in self.run(arrays)]
        tensors = self.tensors(arrays)
        names = dict(input_names=[p.name for p in self.inputs], output_names=outputs)
        ways = {"export": self.by_export, "torchscript": self.by_torchscript}
        if options.exporter != "auto":
            order = [options.exporter]
        else:
            order = ["torchscript"] if self.kind == "script" else ["export"] if self.kind == "exported" else ["export", "torchscript"]
        refusals = []
        for way in order:
            said = io.StringIO()
            level = logging.root.manager.disable
            logging.disable(logging.WARNING)
            try:
                with warnings.catch_warnings(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), self.torch.no_grad():
                    warnings.simplefilter("ignore")
                    opset = ways[way](path, tensors, names, options)
                break
            except ExportError:
                raise
            except Exception as error:
                refusals.append(f"{way}: {reason(error)}")
            finally:
                logging.disable(level)
        else:
            raise ExportError(NOT_SUPPORTED, "PyTorch could not write this model as ONNX: " + "; ".join(refusals))
        exporter = {"export": "torch.export", "torchscript": "TorchScript"}[way]
        after = f", as {refusals[0][:300]}" if refusals else ""
        return f"{exporter} exporter of {self.framework}, opset {opset}{after}"

    def by_export(self, path, tensors, names, options):
        need(PIP, "onnxscript")
        if self.kind == "script":
            raise ExportError(NOT_SUPPORTED, "a TorchScript archive can only be written by --exporter torchscript")
        kwargs = dict(names, dynamo=True, verbose=False, opset_version=options.opset)
        if self.kind == "exported":
            return save(self.torch.onnx.export(self.program, (), **kwargs), path)
        args, keywords = ((), {p.name: t for p, t in zip(self.inputs, tensors)}) if self.keywords else (tuple(tensors), None)
        if any(p.symbols for p in self.inputs):
            each = [p.symbols for p in self.inputs]
            if self.keywords:
                kwargs["dynamic_shapes"] = {p.name: p.symbols for p in self.inputs}
            else:  # those of *arguments are a tuple of their own
                kwargs["dynamic_shapes"] = tuple(each) if self.named is None else (*each[: self.named], tuple(each[self.named :]))
        return save(self.torch.onnx.export(self.module, args, kwargs=keywords, **kwargs), path)

    def by_torchscript(self, path, tensors, names, options):
        if self.kind == "exported":
            raise ExportError(NOT_SUPPORTED, "an archive of torch.export can only be written by --exporter export")
        axes = {p.name: p.symbols for p in self.inputs if p.symbols}
        args = tuple(tensors) if not self.keywords else ({p.name: t for p, t in zip(self.inputs, tensors)},)
        self.torch.onnx.export(self.module, args, str(path), dynamo=False, dynamic_axes=axes or None,
                               opset_version=options.opset or 17, **names)
        return written_opset(path)


def save(program, path):
    """Writes what torch.onnx.export made; returns its opset. The exporter gives inputs and outputs their names last, and a value
    within that has one of these already ("embedding", of the op of that name) keeps it: it gets another one here."""
    graph = program.model.graph
    ports = {id(value) for value in (*graph.inputs, *graph.outputs)}
    inner = [value for node in graph.all_nodes() for value in node.outputs] + list(graph.initializers.values())
    taken = {value.name for value in (*graph.inputs, *graph.outputs)}
    used = taken | {value.name for value in inner}
    for value in inner:
        if id(value) not in ports and value.name in taken:
            value.name = next(name for name in (f"{value.name}_{n}" for n in itertools.count(1)) if name not in used)
            used.add(value.name)
    program.save(str(path), external_data=False)
    return written_opset(path)


def reason(error):
    """PyTorch wraps the cause in a page of advice: the innermost exception says it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


def written_opset(path):
    import onnx
    model = onnx.load(str(path), load_external_data=False)
    return next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))


def parameters_of(module):
    """Names of forward()'s parameters that have no default; None where they cannot be told apart (*args)."""
    try:
        signature = inspect.signature(module.forward)
    except (TypeError, ValueError):
        return None
    if any(p.kind == p.VAR_POSITIONAL for p in signature.parameters.values()):
        return None
    return [n for n, p in signature.parameters.items() if p.default is p.empty and p.kind != p.VAR_KEYWORD]


def load_state(module, path):
    torch = need(PIP, "torch")
    if path.suffix == ".safetensors":
        state = need(["safetensors"], "safetensors.torch").load_file(str(path))
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise ExportError(BAD_FILE, f"--weights {path}: {first_line(error)}") from error
    for key in ("state_dict", "model", "model_state_dict"):
        if isinstance(state, dict) and isinstance(state.get(key), dict):
            state = state[key]
    if not isinstance(state, dict) or not all(hasattr(v, "shape") or v is None for v in state.values()):
        raise ExportError(BAD_FILE, f"--weights {path} holds no state dict (name -> tensor)")
    if all(k.startswith("module.") for k in state):  # saved from DataParallel
        state = {k.removeprefix("module."): v for k, v in state.items()}
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise ExportError(BAD_FILE, f"--weights {path} does not fit this model: {' '.join(str(error).split())[:400]}") from error


def finish(module, known, options, description, weights, examples=None, keywords=False, text=False, random=False, statistics=True, adapted=None):
    """Shapes, weights from a file, random ones made worth comparing -> PyTorchSource. adapted: the part that an adapter was trained on, where not all."""
    if weights is not None:
        load_state(module, weights)
        description += f", weights of {weights.name}"
    module.eval()
    inputs = resolve_shapes(known, options)
    for port in inputs:
        port.symbols = open_axes(port.shape, options.dynamic, text=text)
        if examples and tuple(examples[port.name].shape) == port.shape and examples[port.name].dtype == port.dtype:
            port.value = examples[port.name]
    if random and weights is None:
        description += f", random weights (seed {options.seed})"
        probe = Source()
        probe.inputs = inputs
        torch = need(PIP, "torch")
        arrays = [torch.from_numpy(np.array(a)) for a in probe.fill(options.seed).values()]
        arguments, named = ([], dict(zip([p.name for p in inputs], arrays))) if keywords else (arrays, {})
        try:
            draw_weights(module, options.seed, arguments, named, statistics)
        except ExportError:
            raise
        except Exception as error:
            raise ExportError(USAGE, f"the model refuses its inputs ({first_line(error)}); --shape and --batch set other sizes") from error
    if options.lora is not None:  # behind all that decides on the weights
        description += merge(module if adapted is None else adapted, options.lora)
    source = PyTorchSource(module, inputs, description, options, keywords=keywords)
    source.takes_adapters = True
    return source


def weights_file(options):
    """--weights as a file, where it is one."""
    if options.weights is None:
        return None
    path = pathlib.Path(options.weights)
    if path.is_file():
        return path
    if path.suffix in (".pth", ".pt", ".safetensors", ".bin") or "/" in options.weights:
        raise ExportError(BAD_FILE, f"--weights {options.weights} does not exist")
    return None


def from_torchvision(name, options):
    torch, torchvision = need(["torch", "torchvision", "onnx", "onnxscript"], "torch", "torchvision")
    if name not in torchvision.models.list_models():
        import difflib
        near = difflib.get_close_matches(name, torchvision.models.list_models(), 4)
        raise ExportError(USAGE, f"torchvision {torchvision.__version__} has no model '{name}'" + (f"; did you mean {', '.join(near)}?" if near else "; torchvision.models.list_models() names all"))
    file, tag = weights_file(options), None
    if options.weights and file is None:
        tag = options.weights
        known = [w.name for w in torchvision.models.get_model_weights(name)]
        if tag != "DEFAULT" and tag not in known:
            raise ExportError(USAGE, f"--weights {tag} is no file, and torchvision's weights of {name} are {', '.join(known)}")
    torch.manual_seed(options.seed)
    settings = {}
    builder = torchvision.models.get_model_builder(name)
    accepted = inspect.signature(builder).parameters
    if "weights_backbone" in accepted:
        settings["weights_backbone"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = builder(weights=tag, **settings)
        except Exception as error:
            raise ExportError(BAD_FILE, f"torchvision could not make {name}: {first_line(error)}") from error
    base = name.split("/")[-1]
    size = next((s for prefix, s in VISION_SIZES.items() if base.startswith(prefix)), (224, 224))
    known = [("image", (options.batch or 1, 3, *size), np.float32, 2)]
    if base.startswith("raft"):
        known = [("image1", known[0][1], np.float32, 2), ("image2", known[0][1], np.float32, 2)]
    description = f"torchvision {name}" + (f", weights {tag}" if tag else "")
    if base.startswith(DETECTORS):
        known = [("image", (1, 3, 320, 320), np.float32, 2)]
        module = detector(module)
    # A detector sees one picture, of which a statistic of single pixels cannot be taken.
    return finish(module, known, options, description, file, random=not options.weights, statistics=not base.startswith(DETECTORS))


def detector(module):
    """A detector takes a list of pictures and returns a list of dicts: here one picture, and its dict."""
    torch = need(PIP, "torch")

    class OnePicture(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.detector = module

        def forward(self, image):
            return self.detector([image[0]])[0]

    return OnePicture()


def from_timm(name, options):
    torch, timm = need(["torch", "timm", "onnx", "onnxscript"], "torch", "timm")
    if not timm.is_model(name):
        near = timm.list_models(f"*{name.split('.')[0]}*")[:4]
        raise ExportError(USAGE, f"timm {timm.__version__} has no model '{name}'" + (f"; did you mean {', '.join(near)}?" if near else "; timm.list_models() names all"))
    file = weights_file(options)
    pretrained = options.weights == "pretrained"
    if options.weights and file is None and not pretrained:
        raise ExportError(USAGE, f"--weights {options.weights} is no file; write 'pretrained' for timm to download them")
    torch.manual_seed(options.seed)
    try:
        module = timm.create_model(name, pretrained=pretrained, exportable=True)
    except Exception as error:
        raise ExportError(BAD_FILE, f"timm could not make {name}: {first_line(error)}") from error
    size = module.pretrained_cfg.get("input_size", (3, 224, 224)) if getattr(module, "pretrained_cfg", None) else (3, 224, 224)
    known = [("image", (options.batch or 1, *size), np.float32, 2)]
    return finish(module, known, options, f"timm {name}" + (", pretrained" if pretrained else ""), file, random=not options.weights)


def from_hf(folder, options):
    path = pathlib.Path(folder)
    kind = diffusion_class(path)
    if kind is not None:
        from . import diffusers_models
        return diffusers_models.from_folder(path, kind, options)
    if not (path / "config.json").is_file():
        raise ExportError(BAD_FILE, f"'{folder}' is no folder with a config.json; hf:FOLDER takes "
                                    "a local folder of transformers, or of one network of diffusers")
    torch, transformers = need(["torch", "transformers", "onnx", "onnxscript"], "torch", "transformers")
    transformers.logging.set_verbosity_error()
    if options.weights:
        raise ExportError(USAGE, "--weights: a transformers folder carries its own")
    try:
        config = transformers.AutoConfig.from_pretrained(path, local_files_only=True)
    except Exception as error:
        raise ExportError(BAD_FILE, f"{path / 'config.json'}: {first_line(error)}") from error
    made = (config.architectures or [None])[0]
    kind = getattr(transformers, made, None) if made else transformers.AutoModel
    if kind is None:
        raise ExportError(NOT_SUPPORTED, f"{path / 'config.json'} names the architecture {made}, which transformers {transformers.__version__} has not")
    if getattr(config, "use_cache", None):
        config.use_cache = False
    torch.manual_seed(options.seed)
    held = sorted(p.name for p in path.iterdir() if p.suffix in (".safetensors", ".bin") and not p.name.startswith("training"))
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            if held:
                module = kind.from_pretrained(path, config=config, local_files_only=True, attn_implementation="eager", dtype=torch.float32)
            else:
                config._attn_implementation = "eager"
                module = kind(config) if made else kind.from_config(config)
    except Exception as error:
        raise ExportError(BAD_FILE, f"transformers could not load '{folder}': {first_line(error)}") from error
    accepted = list(inspect.signature(module.forward).parameters)
    if options.past:
        return from_hf_with_past(module, config, accepted, path, options, not held)
    batch, vocabulary = options.batch or 1, getattr(config, "vocab_size", None)
    text = "input_ids" in accepted and vocabulary is not None
    known = []
    if text:
        length = min(16, getattr(config, "max_position_embeddings", None) or 16)
        known += [("input_ids", (batch, length), np.int64, vocabulary), ("attention_mask", (batch, length), np.int64, 2)]
        if "token_type_ids" in accepted:
            known.append(("token_type_ids", (batch, length), np.int64, getattr(config, "type_vocab_size", 1) or 1))
        if "decoder_input_ids" in accepted:
            known.append(("decoder_input_ids", (batch, length), np.int64, vocabulary))
        known = [k for k in known if k[0] in accepted]
    if "pixel_values" in accepted:
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", 224) or 224
        known.append(("pixel_values", (batch, getattr(vision, "num_channels", 3), *(size if isinstance(size, (list, tuple)) else (size, size))), np.float32, 2))
    if not known:
        raise ExportError(NOT_SUPPORTED, f"{type(module).__name__} takes {', '.join(accepted[:4])}; text (input_ids) and pictures (pixel_values) are known. A FILE.py:CALLABLE that returns the module and its example inputs works")
    return finish(module, known, options, f"transformers {type(module).__name__} of {path.name}", None, keywords=True, text=text, random=not held)


def from_hf_with_past(module, config, accepted, path, options, random):
    """A language model that reads past keys and values and gives them back, longer: what a cache is made of."""
    torch = need(PIP, "torch")
    from transformers.cache_utils import DynamicCache, DynamicLayer

    name = type(module).__name__
    missing = [n for n in ("input_ids", "attention_mask", "position_ids", "past_key_values") if n not in accepted]
    if missing:
        raise ExportError(NOT_SUPPORTED, f"--past: {name} takes no {', '.join(missing)}")
    module.eval()
    with torch.no_grad():
        made = module(input_ids=torch.zeros(1, 1, dtype=torch.int64), use_cache=True, past_key_values=DynamicCache())
    layers = getattr(getattr(made, "past_key_values", None), "layers", None)
    if not hasattr(made, "logits") or not layers or any(type(layer) is not DynamicLayer for layer in layers):
        raise ExportError(NOT_SUPPORTED, f"--past: {name} gives no logits, or keeps other things than all keys and values of the past")
    sizes = [(tuple(layer.keys.shape), tuple(layer.values.shape)) for layer in layers]

    class WithPast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = module

        def forward(self, input_ids, attention_mask, position_ids, *past):
            cache = DynamicCache()
            for keys, values in zip(past[0::2], past[1::2]):
                layer = DynamicLayer()
                layer.lazy_initialization(keys, values)
                layer.keys, layer.values = keys, values
                cache.layers.append(layer)
            answer = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
            outputs = {"logits": answer.logits}
            for index, layer in enumerate(answer.past_key_values.layers):
                outputs[f"present.{index}.key"], outputs[f"present.{index}.value"] = layer.keys, layer.values
            return outputs

    batch, length, before = options.batch or 1, 3, 4
    vocabulary = getattr(config, "vocab_size", None) or made.logits.shape[-1]
    known = [("input_ids", (batch, length), np.int64, vocabulary), ("attention_mask", (batch, before + length), np.int64, 2),
             ("position_ids", (batch, length), np.int64, getattr(config, "max_position_embeddings", None) or 16)]
    for index, pair in enumerate(sizes):
        known += [(f"past_key_values.{index}.{what}", (batch, shape[1], before, shape[3]), np.float32, 2) for what, shape in zip(("key", "value"), pair)]
    if options.shapes or options.dynamic:
        raise ExportError(USAGE, "--past opens the axes of batch, sequence and past itself: leave --shape and --dynamic out")
    source = finish(WithPast(), known, options, f"transformers {name} of {path.name}, with past keys and values", None, random=random, adapted=module)
    source.named = 3
    for port in source.inputs:
        port.symbols = {0: "batch", 2: "past"} if port.name.startswith("past") else {0: "batch", 1: "past + sequence" if port.name == "attention_mask" else "sequence"}
    return source


def array_of(value, where):
    torch = need(PIP, "torch")
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic, int, float)):
        return np.asarray(value)
    raise ExportError(USAGE, f"{where}: example inputs are tensors or arrays, not {type(value).__name__}")


def from_module(module, examples, spec, options):
    """A module of the user's own. examples: a tensor, a tuple of them, or a dict by the names of forward()'s parameters."""
    torch = need(PIP, "torch")
    names, keywords = parameters_of(module), False
    if examples is not None:
        if isinstance(examples, dict):
            named, keywords = {k: array_of(v, spec) for k, v in examples.items()}, True
        else:
            listed = examples if isinstance(examples, (tuple, list)) else (examples,)
            labels = list(inspect.signature(module.forward).parameters)[:len(listed)] if names is not None else []
            labels += [f"input_{i}" for i in range(len(labels), len(listed))]
            named = {label: array_of(v, spec) for label, v in zip(labels, listed)}
        known = [(n, tuple(v.shape), v.dtype, int(v.max()) + 1 if np.issubdtype(v.dtype, np.integer) and v.size else 2) for n, v in named.items()]
    else:
        named = None
        given = [s for s in options.shapes]
        if not given:
            raise ExportError(USAGE, f"{spec} gives no example inputs: say the shapes ({' '.join(f'--shape {n}=1x3x224x224' for n in names or ['x'])}), or return (model, example inputs)")
        names = names if names is not None else [n or "x" for n, *_ in given]
        unknown = [n for n in names if len(names) > 1 and n not in [g for g, *_ in given]]
        if unknown:
            raise ExportError(USAGE, f"--shape is missing for {', '.join(unknown)}: forward() takes {', '.join(names)}")
        known = [(n, (), np.float32, 2) for n in names]
    description = f"{spec}, the weights that it made"
    text = any(name == "input_ids" for name, *_ in known)  # --dynamic sequence is for these
    source = finish(module, known, options, description if not options.weights else spec, weights_file_needed(options), examples=named, keywords=keywords, text=text)
    return source


def weights_file_needed(options):
    file = weights_file(options)
    if options.weights and file is None:
        raise ExportError(BAD_FILE, f"--weights {options.weights} does not exist")
    return file


def from_torchscript(path, options):
    torch = need(PIP, "torch")
    if options.weights:
        raise ExportError(USAGE, "--weights: a TorchScript archive carries its own")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = torch.jit.load(str(path), map_location="cpu").eval()
        except Exception as error:
            try:
                torch.load(path, map_location="cpu", weights_only=True)
            except Exception:
                raise ExportError(BAD_FILE, f"'{path}' is no TorchScript archive: {first_line(error)}") from error
            raise ExportError(BAD_FILE, f"'{path}' holds weights only: name the architecture as the source and this file with --weights, e.g. torchvision:resnet18 --weights {path}") from error
    names = [a.name for a in module.forward.schema.arguments[1:] if not a.has_default_value()]
    missing = [n for n in names if n not in [s[0] for s in options.shapes] and not (len(names) == 1 and options.shapes)]
    if missing:
        raise ExportError(USAGE, f"'{path}' does not say the shapes of its inputs; add {' '.join(f'--shape {n}=1x3x224x224' for n in missing)} (other types as --shape ids=1x16:int64)")
    return make_archive(module, [(n, (), np.float32, 2) for n in names], f"TorchScript archive {path.name}", options, "script")


def make_archive(module, known, description, options, kind, program=None):
    inputs = resolve_shapes(known, options)
    for port in inputs:
        port.symbols = open_axes(port.shape, options.dynamic)
    return PyTorchSource(module, inputs, description, options, kind, program=program)


def from_exported(path, options):
    torch = need(PIP, "torch")
    for flag, value in (("--weights", options.weights), ("--batch", options.batch), ("--shape", options.shapes), ("--dynamic", options.dynamic)):
        if value:
            raise ExportError(USAGE, f"{flag}: an archive of torch.export carries its shapes and weights; export the module anew with others")
    try:
        program = torch.export.load(str(path))
    except Exception as error:
        raise ExportError(BAD_FILE, f"'{path}' is no archive of torch.export: {first_line(error)}") from error
    if program.example_inputs is None:
        raise ExportError(NOT_SUPPORTED, f"'{path}' was saved without its example inputs")
    args, kwargs = program.example_inputs
    names = list(program.graph_signature.user_inputs)
    values = [array_of(v, str(path)) for v in (*args, *kwargs.values())]
    if len(names) != len(values) or kwargs:
        raise ExportError(NOT_SUPPORTED, f"'{path}' takes nested or named inputs; plain tensors can be exported")
    source = make_archive(program.module(), [(n, v.shape, v.dtype, 2) for n, v in zip(names, values)], f"torch.export archive {path.name}", options, "exported", program)
    for port, value in zip(source.inputs, values):
        port.below = int(value.max()) + 1 if np.issubdtype(value.dtype, np.integer) and value.size else 2
        node = next(n for n in program.graph.nodes if n.op == "placeholder" and n.name == port.name)
        port.symbols = {axis: str(size) for axis, size in enumerate(node.meta["val"].shape) if not isinstance(size, int)}
    return source
