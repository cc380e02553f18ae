# SPDX-License-Identifier: Apache-2.0
"""The three networks of Stable Diffusion 1.5 in the form that `temper export` takes: a function that returns the module and example inputs.

The environment variable DIFFUSION says which: `full` is the published architecture and `small` the same with few channels, both with
random weights from a seed; anything else is a folder as diffusers saves a pipeline (text_encoder/, unet/, vae/), with its weights.
PIXELS is the side of the picture, a multiple of 64.
"""
import dataclasses
import os

import diffusers
import torch
import transformers

transformers.logging.set_verbosity_error()
SEED, TOKENS = 0, 77


@dataclasses.dataclass(frozen=True)
class Sizes:
    channels: tuple = (320, 640, 1280, 1280)         # of the noise predictor, from the largest pixels to the smallest
    decoder: tuple = (128, 256, 512, 512)            # of the picture's decoder
    text: int = 768
    text_layers: int = 12
    text_heads: int = 12
    words: int = 49408
    layers: int = 2


SIZES = {"full": Sizes(), "small": Sizes((32, 64, 64, 64), (32, 32, 64, 64), 64, 2, 4, 1000, 1)}
CHOICE = os.environ.get("DIFFUSION", "small")
PIXELS = int(os.environ.get("PIXELS", "512" if CHOICE == "full" else "128"))
LATENT = PIXELS // 8


def made(kind, part, config):
    """A network from its folder, or with seeded weights."""
    if CHOICE not in SIZES:
        return kind.from_pretrained(os.path.join(CHOICE, part), local_files_only=True).eval()
    torch.manual_seed(SEED)
    return config(SIZES[CHOICE]).eval()


class TextEncoder(torch.nn.Module):
    """Token ids i64 [1,77] -> hidden states f32 [1,77,text]."""

    def __init__(self):
        super().__init__()
        self.model = made(transformers.CLIPTextModel, "text_encoder", lambda s: transformers.CLIPTextModel(transformers.CLIPTextConfig(
            vocab_size=s.words, hidden_size=s.text, intermediate_size=4 * s.text, num_hidden_layers=s.text_layers, num_attention_heads=s.text_heads,
            max_position_embeddings=TOKENS, hidden_act="quick_gelu", projection_dim=s.text, bos_token_id=s.words - 2, eos_token_id=s.words - 1)))

    def forward(self, input_ids):
        return {"states": self.model(input_ids=input_ids).last_hidden_state}


class NoisePredictor(torch.nn.Module):
    """Latents f32 [2,4,h,w], the step i64 [1] and states f32 [2,77,text] -> the noise in the latents, without and with the prompt."""

    def __init__(self):
        super().__init__()
        self.model = made(diffusers.UNet2DConditionModel, "unet", lambda s: diffusers.UNet2DConditionModel(
            sample_size=LATENT, block_out_channels=s.channels, layers_per_block=s.layers, cross_attention_dim=s.text, attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",), up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3))

    def forward(self, sample, timestep, states):
        return {"noise": self.model(sample, timestep, encoder_hidden_states=states, return_dict=False)[0]}


class Decoder(torch.nn.Module):
    """Latents f32 [1,4,h,w] -> a picture f32 [1,3,8h,8w], from -1 to 1."""

    def __init__(self):
        super().__init__()
        self.model = made(diffusers.AutoencoderKL, "vae", lambda s: diffusers.AutoencoderKL(
            block_out_channels=s.decoder, layers_per_block=s.layers, latent_channels=4, sample_size=PIXELS,
            down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4))
        self.model.encoder = self.model.quant_conv = None  # of no use here

    def forward(self, latents):
        return {"picture": self.model.decode(latents / self.model.config.scaling_factor, return_dict=False)[0]}


def text_encoder():
    module = TextEncoder()
    return module, {"input_ids": torch.randint(0, module.model.config.vocab_size, (1, TOKENS))}


def noise_predictor():
    module = NoisePredictor()
    states = torch.randn(2, TOKENS, module.model.config.cross_attention_dim)
    return module, {"sample": torch.randn(2, 4, LATENT, LATENT), "timestep": torch.tensor([999]), "states": states}


def decoder():
    return Decoder(), {"latents": torch.randn(1, 4, LATENT, LATENT)}
