# SPDX-License-Identifier: Apache-2.0
"""Keras models on TensorFlow: keras.applications, files, and functions that return one."""
import pathlib

import numpy as np

from .errors import BAD_FILE, NOT_SUPPORTED, USAGE, ExportError, first_line, need
from .quiet import quiet
from .source import open_axes, resolve_shapes
from .tensorflow_models import PIP, FunctionSource, open_or_ask, tensorflow


def keras_on_tensorflow():
    tensorflow()
    with quiet():
        keras = need(["keras", *PIP], "keras")
    if keras.backend.backend() != "tensorflow":
        raise ExportError(NOT_SUPPORTED, f"Keras runs on {keras.backend.backend()} here; its models are written as ONNX through TensorFlow: set KERAS_BACKEND=tensorflow")
    return keras


def load_weights(model, options, file_needed=True):
    path = pathlib.Path(options.weights)
    if not path.is_file():
        raise ExportError(BAD_FILE, f"--weights {path} does not exist")
    try:
        with quiet():
            model.load_weights(str(path))
    except Exception as error:
        raise ExportError(BAD_FILE, f"--weights {path} does not fit this model: {first_line(error)}") from error


def from_applications(name, options):
    keras = keras_on_tensorflow()
    names = sorted(n for n, f in vars(keras.applications).items() if callable(f) and n[0].isupper())
    if name not in names:
        import difflib
        near = difflib.get_close_matches(name, names, 4)
        raise ExportError(USAGE, f"keras.applications has no '{name}'; " + (f"did you mean {', '.join(near)}?" if near else f"it has {', '.join(names)}"))
    keras.utils.set_random_seed(options.seed)
    size = next((d[1:] for _, d, _ in options.shapes if len(d) == 4), None)
    imagenet = options.weights == "imagenet"
    try:
        with quiet():
            model = getattr(keras.applications, name)(weights="imagenet" if imagenet else None, input_shape=size, classifier_activation="softmax" if imagenet else None)
    except Exception as error:
        raise ExportError(USAGE, f"keras could not make {name}: {first_line(error)}") from error
    description = f"keras {name}"
    if imagenet:
        description += ", weights imagenet"
    elif options.weights:
        load_weights(model, options)
        description += f", weights of {pathlib.Path(options.weights).name}"
    else:
        draw_statistics(keras, model, options.seed)
        description += f", random weights (seed {options.seed}), logits"
    return make(keras, model, description, options)


def draw_statistics(keras, model, seed):
    """Biases that are not zero, batch norm that was taken from one random batch: why, says pytorch.draw_weights."""
    def layers(of):
        for layer in of.layers:
            yield layer
            if hasattr(layer, "layers"):
                yield from layers(layer)

    random = np.random.default_rng(seed)
    for layer in layers(model):
        for weight in layer.trainable_weights:
            value = np.asarray(weight)
            if value.size > 1 and value.min() == value.max() and abs(value.min()) < 0.01:
                weight.assign((random.standard_normal(value.shape) * 0.02 if value.min() == 0 else random.uniform(0.1, 0.3, value.shape)).astype(value.dtype))
    norms = [n for n in layers(model) if isinstance(n, keras.layers.BatchNormalization)]
    if not norms:
        return
    momenta = [n.momentum for n in norms]
    for norm in norms:
        norm.momentum = 0.0
        if norm.gamma is not None:
            norm.gamma.assign(random.uniform(0.4, 0.6, norm.gamma.shape).astype("float32"))
        if norm.beta is not None:
            norm.beta.assign(random.uniform(0, 1, norm.beta.shape).astype("float32"))
    with quiet():
        model([random.standard_normal((16, *(s or 224 for s in i.shape[1:]))).astype("float32") for i in model.inputs][0], training=True)
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum


def from_file(path, options):
    keras = keras_on_tensorflow()
    try:
        with quiet():
            model = keras.saving.load_model(str(path), compile=False)
    except Exception as error:
        raise ExportError(BAD_FILE, f"'{path}' is no Keras model that Keras {keras.__version__} can load: {first_line(error)}") from error
    if options.weights:
        load_weights(model, options)
    return make(keras, model, f"Keras model {path.name}", options)


def from_model(model, spec, options):
    keras = keras_on_tensorflow()
    if options.weights:
        load_weights(model, options)
    return make(keras, model, f"{spec}, the weights that it made", options)


def make(keras, model, description, options):
    if not getattr(model, "inputs", None):
        raise ExportError(USAGE, "the Keras model was never built, so its inputs are not known; call it once, or give it an Input layer")
    known = [(t.name.split(":")[0], open_or_ask(t.name, list(t.shape), options, "the model"), np.dtype(t.dtype), 2) for t in model.inputs]
    if len(known) == 1:
        known = [("image" if len(known[0][1]) == 4 else "input", *known[0][1:])]
    inputs = resolve_shapes(known, options)
    last = keras.config.image_data_format() == "channels_last"
    for port in inputs:
        port.symbols = open_axes(port.shape, options.dynamic, channels_last=last)

    def function(*tensors):
        return model(tensors[0] if len(tensors) == 1 else list(tensors), training=False)

    return FunctionSource(function, inputs, description, options, framework=f"Keras {keras.__version__}")
