# SPDX-License-Identifier: Apache-2.0
"""From Keras to Temper: train, export, quantize, classify in Python and in C++, compare with TFLite, measure, report.

usage: run.py [--out DIR] [--cifar DIR] [--batch 1,32] [--warmup 10 --iterations 100]

Everything lands in DIR: the SavedModel, ONNX, ranges, plans, TFLite files, pictures.csv, answers.csv, result.json, report.html.
The pictures are drawn (ten kinds of shapes); --cifar names a folder with CIFAR-10's binary files, which are used in their place.
"""
import argparse
import csv
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import keras  # noqa: E402
import numpy as np  # noqa: E402
import pictures  # noqa: E402
import tensorflow as tf  # noqa: E402
from ai_edge_litert.interpreter import Interpreter  # noqa: E402

import temper  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/tensorflow_cifar10"))
    parser.add_argument("--cifar", help="a folder with data_batch_1.bin … test_batch.bin")
    parser.add_argument("--train", type=int, default=8000, help="pictures to train with, at most")
    parser.add_argument("--test", type=int, default=1000, help="pictures to judge by, at most")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--precision", type=lambda text: text.split(","), help="fp32,bf16,int8; on a GPU fp32,fp16,int8")
    parser.add_argument("--batch", type=numbers, default=[1, 32])
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--temper", default="temper", help="the program, for `temper report`")
    parser.add_argument("--rows", type=pathlib.Path, help="the C++ program of examples/cpp/rows.cc; without it C++ is left out, and said so")
    return parser.parse_args()


def step(text):
    print(f"\n== {text}", flush=True)


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True)


def scaled(images):
    return images.astype(np.float32) / 255


# ---- training and exporting ----------------------------------------------------------------------------------------

def network():
    layers = keras.layers

    def convolution(filters):
        return [layers.Conv2D(filters, 3, padding="same", use_bias=False), layers.BatchNormalization(momentum=0.9), layers.ReLU()]

    return keras.Sequential([
        keras.Input((32, 32, 3), name="image"), *convolution(32), *convolution(32), layers.MaxPooling2D(),
        *convolution(64), *convolution(64), layers.MaxPooling2D(), *convolution(128), layers.GlobalAveragePooling2D(),
        layers.Dense(10, name="logits")])  # fmt: skip


def train(args, images, labels):
    keras.utils.set_random_seed(1)
    model = network()
    model.compile(keras.optimizers.Adam(2e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    model.fit(scaled(images), labels, batch_size=64, epochs=args.epochs, verbose=2)
    model.export(args.out / "saved_model", verbose=False)
    return model


# ---- the engines, each a function of a batch -----------------------------------------------------------------------

def temper_engines(args, images):
    """{precision: engine}, each for every batch size that is asked for."""
    model, engines = args.out / "cifar.onnx", {}
    ranges = temper.calibrate(model, (scaled(images[i : i + 50]) for i in range(0, min(500, len(images)), 50)))
    ranges.save(args.out / "ranges.json")
    largest = (max(args.batch), 32, 32, 3)
    for precision in args.precision:
        try:
            engines[precision] = temper.build(model, precision=precision, device=args.device, calibration=ranges if precision == "int8" else None,
                                              shapes=((1, 32, 32, 3), largest, largest))
        except temper.Error as error:
            if error.kind != "unsupported":
                raise
            print(f"{precision}: left out: {error}")
            continue
        engines[precision].save(args.out / f"cifar-{precision}.plan")
    return engines


def tflite_files(args, images):
    """FP32, and INT8 with the same pictures to calibrate on."""
    def convert(quantized):
        converter = tf.lite.TFLiteConverter.from_saved_model(str(args.out / "saved_model"))
        if quantized:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([scaled(images[i : i + 1])] for i in range(min(200, len(images))))
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        return converter.convert()

    paths = {}
    for precision in ("fp32", "int8"):
        paths[precision] = args.out / f"cifar-{precision}.tflite"
        paths[precision].write_bytes(convert(precision == "int8"))
    return paths


def tflite_function(path, batch, threads):
    interpreter = Interpreter(str(path), num_threads=threads)
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (batch, 32, 32, 3))
    interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]

    def call(x):
        interpreter.set_tensor(index, x)
        interpreter.invoke()
        return interpreter.get_tensor(output)

    return call


def engine_function(engine):
    return lambda x: next(iter(engine.run(x).values()))


def all_classes(call, images, batch):
    """Classes of all pictures; the last batch is filled up, as an application would."""
    classes = []
    for first in range(0, len(images), batch):
        part = scaled(images[first : first + batch])
        filled = np.concatenate([part, np.zeros((batch - len(part), 32, 32, 3), np.float32)])
        classes.append(call(filled).argmax(-1)[: len(part)])
    return np.concatenate(classes)


# ---- tables --------------------------------------------------------------------------------------------------------

def wilson(right, count):
    """The 95 % interval of a share (Wilson 1927)."""
    z, share = 1.96, right / count
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * np.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return middle - half, middle + half


def judge(labels, keras_classes, answers):
    print(f"{'engine':28}{'accuracy':>10}  95 % interval     {'as Keras':>9}")
    for name, classes in answers.items():
        low, high = wilson((classes == labels).sum(), len(labels))
        print(f"{name:28}{(classes == labels).mean():10.2%}  {low:.2%} to {high:.2%}  {(classes == keras_classes).mean():9.2%}")


def in_cpp(args, images, engines):
    """The same plan in C++, from a table and into one. Returns its classes."""
    table, answers = args.out / "pictures.csv", args.out / "answers.csv"
    np.savetxt(table, scaled(images).reshape(len(images), -1), delimiter=",", fmt="%.8g")
    run(args.rows, args.out / "cifar-fp32.plan", table, answers, max(args.batch))
    with open(answers, newline="") as file:
        return np.array([int(row["class"]) for row in csv.DictReader(file)])


def measure(args, engines, model, tflite):
    results, counts = [], dict(warmup=args.warmup, iterations=args.iterations)
    threads = next(iter(engines.values())).threads
    onnx = args.out / "cifar.onnx"
    for batch in args.batch:
        x = np.random.default_rng(0).random((batch, 32, 32, 3), np.float32)
        own = [temper.bench(engine, x, name="Temper", **counts) for engine in engines.values()]
        if args.device == "cpu":
            of = dict(batch=batch, threads=threads, model=onnx, **counts)
            graph = tf.function(lambda t: model(t, training=False)).get_concrete_function(tf.TensorSpec(x.shape))
            tensor = tf.constant(x)
            own.append(temper.bench(lambda: graph(tensor), name="Keras (tf.function)", precision="fp32", **of))
            for precision, path in tflite.items():
                call = tflite_function(path, batch, threads)
                own.append(temper.bench(lambda call=call: call(x), name="TFLite", precision=precision, **of))
        results += own
        temper.save_results(args.out / "result.json", results)
    print(f"{'engine':22}{'precision':>10}{'batch':>7}{'median ms':>11}  95 % interval       {'pictures/s':>11}")
    for r in results:
        interval = f"{r.median_low_ms:.4f} to {r.median_high_ms:.4f}" if r.median_low_ms else "n/a"
        print(f"{r.model:22}{r.precision:>10}{r.batch:7}{r.median_ms:11.4f}  {interval:20}{r.throughput_per_s:10.0f}")


def main():
    args = arguments()
    args.precision = args.precision or (["fp32", "bf16", "int8"] if args.device == "cpu" else ["fp32", "fp16", "int8"])
    args.out.mkdir(parents=True, exist_ok=True)
    names, images, labels, test_images, test_labels = pictures.load(args.cifar, args.train, args.test)
    step(f"Train on {len(images)} pictures: {', '.join(names)}")
    model = train(args, images, labels)
    step("SavedModel to ONNX, checked against TensorFlow")
    run(sys.executable, "-m", "temper", "export", args.out / "saved_model", "-o", args.out / "cifar.onnx", "--dynamic", "batch")
    step("Engines of Temper, files of TFLite")
    engines, tflite = temper_engines(args, images), tflite_files(args, images)
    threads = next(iter(engines.values())).threads
    step("One picture, then many in batches")
    answer = engine_function(engines["fp32"])(scaled(test_images[:1]))[0]
    print(f"the first test picture is of {names[test_labels[0]]!r}; read as {names[int(answer.argmax())]!r}")
    batch = max(args.batch)
    keras_classes = model.predict(scaled(test_images), batch_size=batch, verbose=0).argmax(-1)
    answers = {"Keras": keras_classes}
    answers |= {f"Temper {p}, batch {batch}": all_classes(engine_function(e), test_images, batch) for p, e in engines.items()}
    answers["Temper fp32, batch 1"] = all_classes(engine_function(engines["fp32"]), test_images, 1)
    answers |= {f"TFLite {p}": all_classes(tflite_function(path, batch, threads), test_images, batch) for p, path in tflite.items()}
    if args.rows:
        answers["Temper fp32 in C++"] = in_cpp(args, test_images, engines)
    else:
        print("--rows was not given: C++ is left out")
    judge(test_labels, keras_classes, answers)
    for name, classes in answers.items():
        if "fp32" in name and (classes != keras_classes).any():
            sys.exit(f"{name} gives other classes than Keras")
    step(f"Measured, {args.warmup} warm-up runs, {args.iterations} timed")
    measure(args, engines, model, tflite)
    step("Report")
    run(args.temper, "report", args.out / "result.json", "-o", args.out / "report.html")
    print(f"\nopen {args.out / 'report.html'}")


if __name__ == "__main__":
    main()
