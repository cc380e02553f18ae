# SPDX-License-Identifier: Apache-2.0
"""The architectures that the suite of gpu_suite.py compares, as seeded torch modules: nothing is downloaded.

`temper export benchmarks/architectures.py:bert_base_32` writes bert_base for a batch of 32: a module's name, and the batch.
Modules come from torchvision, timm, transformers and diffusers; what none of them has is written here. One has trained weights, those of a package."""
import dataclasses
import math
import os
import sys
from collections.abc import Callable

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
SEED = 0


@dataclasses.dataclass
class Architecture:
    kind: str                     # transformer, convolution, recurrent: which family of kernels it is about
    make: Callable[[], nn.Module]
    inputs: Callable[[int], dict]  # from the batch to inputs by the names of forward()'s parameters
    large: int = 32               # the batch beside 1
    batches: tuple = ()           # others than (1, large)
    suite: bool = True            # others are measured where they are named
    zoo: str = ""                 # `temper zoo` writes the model, and the module takes its weights

    def all_batches(self):
        return self.batches or (1, self.large)


def image(size, name="x"):
    return lambda batch: {name: torch.randn(batch, 3, size, size)}


def tokens(length, vocabulary, mask=True):
    def make(batch):
        ids = {"input_ids": torch.randint(0, vocabulary, (batch, length))}
        return {**ids, "attention_mask": torch.ones(batch, length, dtype=torch.int64)} if mask else ids
    return make


def vision(name, **settings):
    import torchvision
    return torchvision.models.get_model_builder(name)(weights=None, **settings)


class One(nn.Module):
    """One output of a model that answers several, by name."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return self.model(x)[self.name]


class Text(nn.Module):
    """A text model of transformers: token ids and mask in, hidden states out."""

    def __init__(self, model, name="last_hidden_state"):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, input_ids, attention_mask):
        return getattr(self.model(input_ids=input_ids, attention_mask=attention_mask), self.name)


class Tokens(nn.Module):
    """The same without a mask."""

    def __init__(self, model, name):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, input_ids):
        return getattr(self.model(input_ids=input_ids), self.name)


class Pictures(nn.Module):
    """A model of transformers that takes pictures or spectra as its first argument."""

    def __init__(self, model, name="last_hidden_state"):
        super().__init__()
        self.model, self.name = model, name

    def forward(self, x):
        return getattr(self.model(x), self.name)


def of_transformers(kind, config, wrap, **settings):
    def make():
        import transformers
        transformers.logging.set_verbosity_error()
        return wrap(getattr(transformers, kind)(getattr(transformers, config)(**settings)))
    return make


def of_timm(name):
    import timm
    return timm.create_model(name, exportable=True)


class Norm(nn.Sequential):
    """GroupNorm, SiLU, 3x3."""

    def __init__(self, before, after):
        super().__init__(nn.GroupNorm(32, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1))


class DiffusionBlock(nn.Module):
    """A block of a diffusion model's U-Net: two norm-SiLU-3x3 with a residual, then attention over all pixels."""

    def __init__(self, channels, heads=8):
        super().__init__()
        self.first, self.second = Norm(channels, channels), Norm(channels, channels)
        self.norm, self.heads = nn.GroupNorm(32, channels), heads
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

    def forward(self, x):
        x = x + self.second(self.first(x))
        b, c, h, w = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = self.qkv(y).view(b, h * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, h * w, c)
        return x + self.out(y).transpose(1, 2).view(b, c, h, w)


class ConvNorm(nn.Sequential):
    def __init__(self, before, after, kernel=3, stride=1, act=nn.SiLU):
        super().__init__(nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(after), act())


class Cross(nn.Module):
    """A cross-stage block: half of the channels go through residual pairs, and all parts are joined."""

    def __init__(self, before, after, count):
        super().__init__()
        half = after // 2
        self.into, self.out = ConvNorm(before, after, 1), ConvNorm(after + count * half, after, 1)
        self.pairs = nn.ModuleList(nn.Sequential(ConvNorm(half, half), ConvNorm(half, half)) for _ in range(count))

    def forward(self, x):
        parts = list(self.into(x).chunk(2, 1))
        for pair in self.pairs:
            parts.append(parts[-1] + pair(parts[-1]))
        return self.out(torch.cat(parts, 1))


class Detector(nn.Module):
    """A detector of the one-stage kind: three scales, upsampling and concatenation, a head whose boxes are decoded from
    distributions over 16 distances, without suppression of overlaps."""

    def __init__(self, classes=80, widths=(64, 128, 256, 256)):
        super().__init__()
        a, b, c, d = widths
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2), ConvNorm(32, a, 3, 2), Cross(a, a, 1))
        self.down1 = nn.Sequential(ConvNorm(a, b, 3, 2), Cross(b, b, 2))
        self.down2 = nn.Sequential(ConvNorm(b, c, 3, 2), Cross(c, c, 2))
        self.down3 = nn.Sequential(ConvNorm(c, d, 3, 2), Cross(d, d, 1))
        self.up2, self.up1 = Cross(d + c, c, 1), Cross(c + b, b, 1)
        self.head = nn.ModuleList(nn.Sequential(ConvNorm(n, 64), nn.Conv2d(64, 64 + classes, 1)) for n in (b, c, d))
        self.register_buffer("distances", torch.arange(16.0))
        self.classes = classes

    def forward(self, x):
        up = lambda t: nn.functional.interpolate(t, scale_factor=2.0, mode="nearest")
        x = self.down1(self.stem(x))
        y = self.down2(x)
        z = self.down3(y)
        y = self.up2(torch.cat([up(z), y], 1))
        x = self.up1(torch.cat([up(y), x], 1))
        found = torch.cat([head(t).flatten(2) for head, t in zip(self.head, (x, y, z))], 2)
        boxes, scores = found.split([64, self.classes], 1)
        boxes = boxes.view(boxes.shape[0], 4, 16, boxes.shape[2]).softmax(2)
        return torch.cat([(boxes * self.distances.view(1, 1, 16, 1)).sum(2), scores.sigmoid()], 1)


class UNet(nn.Module):
    """The U-Net of segmentation: four scales, transposed convolutions, joined by concatenation."""

    def __init__(self, width=32):
        super().__init__()
        pair = lambda a, b: nn.Sequential(ConvNorm(a, b, act=nn.ReLU), ConvNorm(b, b, act=nn.ReLU))
        w = [width << i for i in range(5)]
        self.down = nn.ModuleList(pair(a, b) for a, b in zip([3] + w[:-1], w))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(w, w[1:]))
        self.up = nn.ModuleList(pair(2 * a, a) for a in w[:-1])
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for i in reversed(range(4)):
            x = self.up[i](torch.cat([self.grow[i](x), kept[i]], 1))
        return self.out(x)


class Recurrent(nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.cells = getattr(nn, kind)(256, 256, batch_first=True, **settings)

    def forward(self, x):
        return self.cells(x)[0]


class Temporal(nn.Module):
    """A temporal convolutional net: dilated causal 1-D convolutions with residuals."""

    def __init__(self, channels=256, levels=6):
        super().__init__()
        self.levels = nn.ModuleList(
            nn.ModuleList(nn.Conv1d(channels, channels, 3, dilation=1 << i) for _ in range(2)) for i in range(levels))

    def forward(self, x):
        for i, (first, second) in enumerate(self.levels):
            padded = lambda t: nn.functional.pad(t, (2 << i, 0))
            x = x + torch.relu(second(padded(torch.relu(first(padded(x))))))
        return x


class Resampler(nn.Module):
    """Sound at another rate by a windowed sinc in polyphase form, as torchaudio's Resample has it: rates are divided by their
    greatest common divisor, and one strided convolution has a filter for each sample that `old` samples become."""

    def __init__(self, old=3, new=1, zeros=6, rolloff=0.99):
        super().__init__()
        self.old, self.new, rate = old, new, min(old, new) * rolloff
        self.width = math.ceil(zeros * old / rate)
        at = torch.arange(-self.width, self.width + old, dtype=torch.float64) / old - torch.arange(new, dtype=torch.float64)[:, None] / new
        at = (at * rate).clamp(-zeros, zeros)
        filters = torch.sinc(at) * torch.cos(at * math.pi / zeros / 2) ** 2 * rate / old
        self.register_buffer("filters", filters[:, None].float())

    def forward(self, x):
        y = nn.functional.conv1d(nn.functional.pad(x[:, None], (self.width, self.width + self.old)), self.filters, stride=self.old)
        return y.transpose(1, 2).flatten(1)[:, :math.ceil(self.new * x.shape[1] / self.old)]


class Attention(nn.Module):
    """Attention alone, over heads that lie beside each other: cuDNN's where it computes the dtype."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, q, k, v):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        q, k, v = (x.view(x.shape[0], x.shape[1], -1, self.size).transpose(1, 2) for x in (q, k, v))
        if q.is_cuda:
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION, SDPBackend.EFFICIENT_ATTENTION], set_priority=True):
                y = nn.functional.scaled_dot_product_attention(q, k, v)
        else:  # it is exported there
            y = nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).flatten(2)


class Span(nn.Module):
    """A reader's answer: logits of where it starts and ends, [batch, 2, positions]."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        answer = self.model(input_ids=input_ids, attention_mask=attention_mask)
        return torch.stack((answer.start_logits, answer.end_logits), 1)


EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")


class Sentence(nn.Module):
    """all-MiniLM-L6-v2 with its weights (examples/transformers/models.py): one vector for each sentence."""

    def __init__(self):
        super().__init__()
        sys.path.insert(0, os.path.join(EXAMPLES, "transformers"))
        import models
        self.model = models.SentenceEmbedding()

    def forward(self, input_ids, attention_mask):
        return self.model.embed(input_ids, attention_mask)


def sentences(batch, length=64):
    """Sentences of Temper's documents, filled up to the length, as int64 ids and mask."""
    sys.path.insert(0, os.path.join(EXAMPLES, "transformers"))
    import text
    words = text.Words()
    words.tokenizer.enable_truncation(length)
    return {name: torch.from_numpy(array) for name, array in words.batch(text.sentences_of(text.DOCUMENTS, batch), length).items()}


def noise_predictor():
    """Stable Diffusion 1.5's."""
    import diffusers
    blocks = {"down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",), "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3}
    return Noise(diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8, **blocks))


class Noise(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, sample, timestep, encoder_hidden_states):
        return self.model(sample, timestep, encoder_hidden_states=encoder_hidden_states, return_dict=False)[0]


def rows(length, width):
    return lambda batch: {name: torch.randn(batch, length, width) for name in "qkv"}


BERT = dict(vocab_size=30522)
LARGE = dict(vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
SPECTRUM = dict(d_model=512, encoder_layers=6, encoder_attention_heads=8, decoder_layers=1, decoder_attention_heads=8)

ALL = {
    "bert_base": Architecture("transformer", of_transformers("BertModel", "BertConfig", Text, **BERT), tokens(128, 30522), batches=(1, 32, 128)),
    "bert_large": Architecture("transformer", of_transformers("BertModel", "BertConfig", Text, **LARGE), tokens(384, 30522)),
    "distilbert": Architecture("transformer", of_transformers("DistilBertModel", "DistilBertConfig", Text), tokens(128, 30522)),
    "gpt2": Architecture("transformer", of_transformers("GPT2LMHeadModel", "GPT2Config", lambda m: Tokens(m, "logits"), use_cache=False), tokens(128, 50257, mask=False), large=8),
    "t5_encoder": Architecture("transformer", of_transformers("T5EncoderModel", "T5Config", Text, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12), tokens(128, 32128)),
    "whisper_encoder": Architecture("transformer", of_transformers("WhisperModel", "WhisperConfig", lambda m: Pictures(m.encoder), **SPECTRUM),
                                    lambda batch: {"x": torch.randn(batch, 80, 3000)}, large=8),
    "clip_text": Architecture("transformer", of_transformers("CLIPTextModel", "CLIPTextConfig", lambda m: Tokens(m, "last_hidden_state")), tokens(77, 49408, mask=False)),
    "clip_vision": Architecture("transformer", of_transformers("CLIPVisionModel", "CLIPVisionConfig", Pictures), image(224)),
    "vit_b_16": Architecture("transformer", lambda: vision("vit_b_16"), image(224)),
    "swin_t": Architecture("transformer", lambda: vision("swin_t"), image(224)),
    "segformer": Architecture("transformer", of_transformers("SegformerForSemanticSegmentation", "SegformerConfig", lambda m: Pictures(m, "logits")), image(512), large=8),
    "mixer_b16": Architecture("transformer", lambda: of_timm("mixer_b16_224"), image(224)),
    "resnet50": Architecture("convolution", lambda: vision("resnet50"), image(224), large=128),
    "resnext50": Architecture("convolution", lambda: vision("resnext50_32x4d"), image(224)),
    "regnet_y_3_2gf": Architecture("convolution", lambda: vision("regnet_y_3_2gf"), image(224)),
    "densenet121": Architecture("convolution", lambda: vision("densenet121"), image(224)),
    "inception_v3": Architecture("convolution", lambda: vision("inception_v3", aux_logits=False, init_weights=False), image(299)),
    "shufflenet_v2": Architecture("convolution", lambda: vision("shufflenet_v2_x1_0"), image(224), large=128),
    "mobilenet_v3": Architecture("convolution", lambda: vision("mobilenet_v3_large"), image(224), large=128),
    "efficientnet_b0": Architecture("convolution", lambda: vision("efficientnet_b0"), image(224), large=128),
    "convnext_t": Architecture("convolution", lambda: vision("convnext_tiny"), image(224)),
    "deeplabv3": Architecture("convolution", lambda: One(vision("deeplabv3_resnet50", weights_backbone=None), "out"), image(513), large=8),
    "detector": Architecture("convolution", Detector, image(640), large=8),
    "unet": Architecture("convolution", UNet, image(256), large=8),
    "diffusion_blocks": Architecture("convolution", lambda: nn.Sequential(DiffusionBlock(320), DiffusionBlock(320)),
                                     lambda batch: {"input": torch.randn(batch, 320, 64, 64)}, batches=(2, 8)),
    "lstm": Architecture("recurrent", lambda: Recurrent("LSTM", num_layers=2), lambda batch: {"x": torch.randn(batch, 128, 256)}),
    "lstm_both_ways": Architecture("recurrent", lambda: Recurrent("LSTM", num_layers=2, bidirectional=True), lambda batch: {"x": torch.randn(batch, 64, 256)}),
    "gru": Architecture("recurrent", lambda: Recurrent("GRU", num_layers=2), lambda batch: {"x": torch.randn(batch, 128, 256)}),
    "tcn": Architecture("convolution", Temporal, lambda batch: {"x": torch.randn(batch, 256, 1024)}),
    # 32 ms at 48 and 44.1 kHz, to 16 kHz: what stands before a voice detector.
    "resampler": Architecture("convolution", Resampler, lambda batch: {"x": torch.randn(batch, 1536)}, suite=False),
    "resampler_44": Architecture("convolution", lambda: Resampler(441, 160), lambda batch: {"x": torch.randn(batch, 1411)}, suite=False),
    "bert_large_squad": Architecture("transformer", of_transformers("BertForQuestionAnswering", "BertConfig", Span, **LARGE), tokens(384, 30522), suite=False),
    "minilm": Architecture("transformer", Sentence, sentences, batches=(1, 32, 1000), suite=False),
    "sd15_unet": Architecture("convolution", noise_predictor, lambda batch: {"sample": torch.randn(batch, 4, 64, 64), "timestep": torch.full((batch,), 999.0),
                                                                             "encoder_hidden_states": torch.randn(batch, 77, 768)}, batches=(2,), suite=False, zoo="sd15-unet"),
    # Attention alone, by the length and the size of a head.
    "attention_4096_128": Architecture("attention", lambda: Attention(128), rows(4096, 16 * 128), batches=(4,), suite=False),
    "attention_16384_128": Architecture("attention", lambda: Attention(128), rows(16384, 16 * 128), batches=(1,), suite=False),
    "attention_4096_64": Architecture("attention", lambda: Attention(64), rows(4096, 32 * 64), batches=(4,), suite=False),
    "attention_16384_64": Architecture("attention", lambda: Attention(64), rows(16384, 32 * 64), batches=(1,), suite=False),
}
SUITE = [name for name, architecture in ALL.items() if architecture.suite]


def module_of(name):
    """The module with its weights, the same in every process. Batch norms get the statistics of random inputs: with those
    that they begin with, a deep net's answers are chaotic."""
    from temper.export.pytorch import draw_weights
    torch.manual_seed(SEED)
    architecture = ALL[name]
    module = architecture.make().eval()
    draw_weights(module, SEED, [], architecture.inputs(2), statistics=True)
    return module


def take_weights(module, path):
    """Those of a file that `temper zoo` wrote, all of them, under their names, into the module's `model`."""
    import onnx
    from onnx import numpy_helper
    constants = [one for one in onnx.load(path).graph.initializer if "." in one.name and not one.name.startswith("number")]
    module.model.load_state_dict({one.name: torch.tensor(numpy_helper.to_array(one)).float() for one in constants})


def inputs_of(name, batch, seed=SEED):
    torch.manual_seed(seed + batch)
    return ALL[name].inputs(batch)


def __getattr__(wanted):
    """NAME_BATCH: what `temper export` calls, the module and its example inputs."""
    name, _, batch = wanted.rpartition("_")
    if name not in ALL or not batch.isdigit():
        raise AttributeError(f"there is no architecture '{name}' with a batch behind it: {', '.join(ALL)}")
    return lambda: (module_of(name), inputs_of(name, int(batch)))
