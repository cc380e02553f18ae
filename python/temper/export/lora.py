# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters in PEFT's folder format, merged into the weights of a PyTorch module: W + B A alpha / r."""
import pathlib
import re

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line, need, read_object

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
# What a configuration may hold without changing what the merged weights are: where the matrices come from and how they were trained.
HARMLESS = {"auto_mapping", "base_model_name_or_path", "bias", "corda_config", "ensure_weight_tying", "eva_config", "exclude_modules",
            "fan_in_fan_out", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform", "loftq_config", "lora_alpha", "lora_dropout",
            "lora_ga_config", "megatron_core", "peft_type", "peft_version", "qalora_group_size", "r", "revision", "runtime_config", "target_modules", "task_type",
            "use_rslora", "velora_config"}
# Ways to begin the training that leave the model's own weights alone. The others (PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA) take a part out of
# them, which is missing from what the adapter alone says.
STARTS = (None, True, False, "gaussian", "eva", "orthogonal")
# What other settings are called where people read of them.
NAMES = {"use_dora": "DoRA", "rank_pattern": "ranks that differ by layer", "alpha_pattern": "alphas that differ by layer", "modules_to_save": "layers that were trained whole",
         "layer_replication": "replicated layers", "lora_bias": "biases of the adapter", "use_qalora": "QALoRA", "trainable_token_indices": "tokens that were trained",
         "target_parameters": "bare parameters as targets", "alora_invocation_tokens": "an adapter that some tokens switch on"}
KEY = re.compile(r"base_model\.model\.(.+)\.lora_(embedding_)?([AB])(?:\.default)?(?:\.weight)?")

BASE = re.compile(r"base_model\.model\.(.+)\.base_layer\.weight")


def refuse(what):
    raise ExportError(NOT_SUPPORTED, f"--lora: {what} cannot be merged; merge it with peft (merge_and_unload), save the model and export that")


def read_config(folder):
    """The factor alpha / r. Everything in the configuration that would change the result otherwise is refused by name."""
    path = folder / CONFIG
    if not path.is_file():
        raise ExportError(BAD_FILE, f"--lora: '{folder}' has no {CONFIG}; it must be a folder that peft saved an adapter in")
    config = read_object(path, "--lora: ", "no settings")
    if config.get("peft_type") != "LORA":
        refuse(f"an adapter of the type {config.get('peft_type')}")
    if config.get("bias") not in (None, "none"):
        refuse(f"bias '{config['bias']}' (biases that were trained)")
    if config.get("init_lora_weights") not in STARTS:
        refuse(f"an adapter that changed the model's own weights when its training began (init_lora_weights: {config['init_lora_weights']})")
    for name, value in config.items():
        if name not in HARMLESS and value not in (None, False, [], {}, ""):
            refuse(f"{NAMES.get(name, 'a setting that is not known')} ({name})")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1 or not isinstance(alpha, (int, float)) or isinstance(alpha, bool):
        raise ExportError(BAD_FILE, f"--lora: {path} needs r (a whole number above 0) and lora_alpha; it has {rank!r} and {alpha!r}")
    return rank, alpha / (rank**0.5 if config.get("use_rslora") else rank)


def read_matrices(folder):
    """{path of a module: {"A": tensor, "B": tensor}} in f32; with "W" where the weight that they were trained beside is there, too."""
    path = folder / WEIGHTS
    if not path.is_file():
        older = folder / "adapter_model.bin"
        if older.is_file():
            refuse(f"{older.name} (a pickle; peft saves {WEIGHTS})")
        raise ExportError(BAD_FILE, f"--lora: '{folder}' has no {WEIGHTS}")
    try:
        state = need(["safetensors"], "safetensors.torch").load_file(str(path))
    except ExportError:
        raise
    except Exception as error:  # of the library, of several types
        raise ExportError(BAD_FILE, f"--lora: {path}: {first_line(error)}") from error
    found = {}
    for key, tensor in state.items():
        match = KEY.fullmatch(key)
        base = BASE.fullmatch(key)
        if base:  # of embeddings peft saves all
            found.setdefault(base[1], {})["W"] = tensor.float()
            continue
        if not match:
            if ".lora_magnitude_vector" in key:
                refuse(f"DoRA ({key})")
            refuse(f"the tensor {key}")
        found.setdefault(match[1], {})[match[3]] = tensor.float()
    if not found:
        raise ExportError(BAD_FILE, f"--lora: {path} holds no matrices")
    for name, pair in found.items():
        if not {"A", "B"} <= set(pair):
            raise ExportError(BAD_FILE, f"--lora: {path} has one of the two matrices of {name}")
    return found


def difference(module, name, a, b, rank):
    """What is added to module.weight, without the factor."""
    torch = need(["torch"], "torch")
    kind = type(module).__name__
    if isinstance(module, torch.nn.Linear):
        fits, made = a.ndim == b.ndim == 2, lambda: b @ a
    elif isinstance(module, torch.nn.Embedding) or kind == "Conv1D":  # transformers' Conv1D keeps its weight as [in, out]
        fits, made = a.ndim == b.ndim == 2, lambda: (b @ a).T
    elif isinstance(module, torch.nn.Conv2d):
        if module.groups != 1:
            refuse(f"{name}, a convolution in groups,")
        fits, made = a.ndim == b.ndim == 4 and tuple(b.shape[2:]) == (1, 1), lambda: torch.einsum("or,rihw->oihw", b[:, :, 0, 0], a)
    else:
        refuse(f"{name}, a layer of the type {kind},")
    if not fits or a.shape[0] != rank or b.shape[1] != rank:
        raise ExportError(BAD_FILE, f"--lora: the matrices of {name}, {list(a.shape)} and {list(b.shape)}, are not of rank {rank}")
    whole = made()
    if whole.shape != module.weight.shape:
        raise ExportError(BAD_FILE, f"--lora: the matrices of {name} make {list(whole.shape)}, its weight is {list(module.weight.shape)}: the adapter is of another model")
    return whole


def merge(module, folder):
    """Merges the adapter of `folder` into `module`, whose parts it names; returns words for the description."""
    torch = need(["torch"], "torch")
    folder = pathlib.Path(folder)
    if not folder.is_dir():
        raise ExportError(BAD_FILE, f"--lora: '{folder}' is no folder")
    rank, factor = read_config(folder)
    matrices = read_matrices(folder)
    parts = dict(module.named_modules())
    missing = [name for name in matrices if name not in parts]
    if missing:
        raise ExportError(USAGE, f"--lora: the adapter is for {', '.join(missing[:3])}{', ...' if missing[3:] else ''}, which {type(module).__name__} has not: it was trained on another class or module")
    for name, pair in matrices.items():
        part = parts[name]
        added = difference(part, name, pair["A"], pair["B"], rank)
        if "W" in pair and not torch.equal(pair["W"], part.weight.float()):
            refuse(f"{name}, whose own weight in {WEIGHTS} is another one than the model's,")
        with torch.no_grad():  # a new parameter: one that is shared (an output layer with the embedding) changes here alone
            part.weight = torch.nn.Parameter((part.weight.float() + factor * added).to(part.weight.dtype), requires_grad=False)
    return f", adapter {folder.name} merged into {len(matrices)} layers"
