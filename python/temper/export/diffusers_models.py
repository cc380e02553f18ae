# SPDX-License-Identifier: Apache-2.0
"""Diffusers: a network of a pipeline, from the folder that diffusers saved it in."""
import contextlib
import io

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line, need
from .pytorch import finish
from .spec import OWN_MODULE

PIP = ["torch", "diffusers", "onnx", "onnxscript"]
TOKENS = 77     # of a prompt, in CLIP: no config of a noise predictor says it
STEPS = 1000    # of the training; the scheduler's config has the number
TIME_IDS = 6    # of SDXL's base: two sizes and a corner


def from_folder(path, kind, options):
    """kind: the class that config.json names, one of spec.DIFFUSION."""
    torch, diffusers = need(PIP, "torch", "diffusers")
    if options.weights:
        raise ExportError(USAGE, "--weights: a folder of diffusers carries its own")
    if options.past:
        raise ExportError(NOT_SUPPORTED, f"--past: {kind} has no past keys and values")
    diffusers.logging.set_verbosity_error()
    network, random = loaded(getattr(diffusers, kind), path, options)
    if kind == "AutoencoderKL":
        module, known = decoder(network, path, options)
    else:
        module, known = noise_predictor(network, kind, path, options)
    source = finish(module, known, options, f"diffusers {kind} of {path.name}", None, random=random, adapted=network)
    if len(known) > 2:
        source.named = 2  # sample and timestep; the rest are *conditions
    if "sequence" in options.dynamic:
        for port in source.inputs:
            if port.name == "encoder_hidden_states":
                port.symbols[1] = "sequence"
    return source


def loaded(kind, path, options):
    """(the network, whether its weights are random, as the folder has none).
    diffusers makes up what a file lacks, with a warning: refused here."""
    torch = need(PIP, "torch")
    held = [p.name for p in path.iterdir() if p.suffix in (".safetensors", ".bin")]
    # Many folders have the weights in 16 bits alone: diffusers wants to be told.
    variant = "fp16" if held and all(".fp16" in name for name in held) else None
    torch.manual_seed(options.seed)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            if not held:
                return kind.from_config(kind.load_config(path, local_files_only=True)), True
            network, report = kind.from_pretrained(path, local_files_only=True, variant=variant,
                                                   torch_dtype=torch.float32, output_loading_info=True)
    except Exception as error:
        raise ExportError(BAD_FILE, f"diffusers could not load '{path}': {first_line(error)}") from error
    missing = sorted(report["missing_keys"])
    if missing:
        names = ", ".join(missing[:3] + ["..."] * (len(missing) > 3))
        raise ExportError(BAD_FILE, f"the weights in '{path}' lack {len(missing)} of {kind.__name__}: {names}")
    return network, False


def pixels(network, path, name, options):
    """(height, width) of the config's sample_size."""
    size = network.config.sample_size
    if size is None:
        if name not in [given for given, *_ in options.shapes]:
            channels = network.config.latent_channels if name == "latents" else network.config.in_channels
            raise ExportError(USAGE, f"{path / 'config.json'} gives no sample_size; "
                                     f"say the shape: --shape {name}=1x{channels}x64x64")
        return 1, 1  # --shape replaces it
    return tuple(size) if isinstance(size, (list, tuple)) else (size, size)


def refuse_settings(network, path, names):
    """Settings with which a network takes more inputs, or answers otherwise, than what is exported."""
    for name in names:
        value = getattr(network.config, name, None)
        if value is not None:
            raise ExportError(NOT_SUPPORTED, f"{path / 'config.json'}: {type(network).__name__} with {name} {value!r} "
                                             f"is not exported. {OWN_MODULE}")


def noise_predictor(network, kind, path, options):
    """Inputs as the arguments are named: sample, timestep, and encoder_hidden_states and more where the config asks."""
    torch = need(PIP, "torch")
    config, batch = network.config, options.batch or 1
    refuse_settings(network, path, ("class_embed_type", "num_class_embeds"))
    known = [("sample", (batch, config.in_channels, *pixels(network, path, "sample", options)), np.float32, 2),
             ("timestep", (batch,), np.int64, STEPS)]
    if kind == "UNet2DConditionModel":
        refuse_settings(network, path, ("encoder_hid_dim", "encoder_hid_dim_type"))
        width = config.cross_attention_dim
        if isinstance(width, (list, tuple)):
            if len(set(width)) > 1:
                raise ExportError(NOT_SUPPORTED, f"{path / 'config.json'}: cross_attention_dim {list(width)} "
                                                 "is not exported; one width of all blocks is")
            width = width[0]
        known.append(("encoder_hidden_states", (batch, TOKENS, width), np.float32, 2))
        if config.time_cond_proj_dim is not None:
            known.append(("timestep_cond", (batch, config.time_cond_proj_dim), np.float32, 2))
        if config.addition_embed_type == "text_time":
            text = config.projection_class_embeddings_input_dim - TIME_IDS * config.addition_time_embed_dim
            known += [("text_embeds", (batch, text), np.float32, 2), ("time_ids", (batch, TIME_IDS), np.float32, 2)]
        else:
            refuse_settings(network, path, ("addition_embed_type",))
    conditions = [name for name, *_ in known[2:]]

    class NoisePredictor(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = network

        def forward(self, sample, timestep, *given):
            named = dict(zip(conditions, given))
            added = {name: named.pop(name) for name in ("text_embeds", "time_ids") if name in named}
            if added:
                named["added_cond_kwargs"] = added
            # The class calls it sample, as its input. The scheduler's config says what it predicts: noise or else.
            return {"out_sample": self.model(sample, timestep, **named, return_dict=False)[0]}

    class Unconditional(torch.nn.Module):  # without *given, of which torch.export wants a name where there is none
        def __init__(self):
            super().__init__()
            self.model = network

        def forward(self, sample, timestep):
            return {"out_sample": self.model(sample, timestep, return_dict=False)[0]}

    return NoisePredictor() if conditions else Unconditional(), known


def decoder(network, path, options):
    """latents, as a scheduler leaves them -> picture, from -1 to 1."""
    torch = need(PIP, "torch")
    refuse_settings(network, path, ("latents_mean", "latents_std"))
    config = network.config
    shrunk = 2 ** (len(config.block_out_channels) - 1)
    size = [max(1, side // shrunk) for side in pixels(network, path, "latents", options)]
    network.encoder = network.quant_conv = None  # of no use here

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = network

        def forward(self, latents):
            scaled = latents / config.scaling_factor
            if config.shift_factor is not None:
                scaled = scaled + config.shift_factor
            return {"picture": self.model.decode(scaled, return_dict=False)[0]}

    return Decoder(), [("latents", (options.batch or 1, config.latent_channels, *size), np.float32, 2)]
