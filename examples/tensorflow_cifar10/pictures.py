# SPDX-License-Identifier: Apache-2.0
"""Pictures of 32x32 in ten classes: CIFAR-10's own files where they are given, otherwise drawn, so that nothing is downloaded."""
import pathlib

import numpy as np

DRAWN = ["disc", "square", "triangle", "cross", "ring", "rows", "columns", "checks", "dots", "slope"]
CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def shape_of(name, random):
    """A mask float32[32,32] in 0..1 of somewhat random place and size."""
    y, x = np.mgrid[0:32, 0:32].astype(np.float32)
    x, y = x - random.uniform(12, 20), y - random.uniform(12, 20)
    size, period = random.uniform(6, 11), random.uniform(5, 9)
    distance = np.hypot(x, y)
    return np.asarray({
        "disc": lambda: distance < size,
        "square": lambda: np.maximum(abs(x), abs(y)) < size,
        "triangle": lambda: (y < size * 0.8) & (y > 2 * abs(x) - size),
        "cross": lambda: (np.minimum(abs(x), abs(y)) < size / 3.5) & (np.maximum(abs(x), abs(y)) < size * 1.2),
        "ring": lambda: abs(distance - size) < size / 4,
        "rows": lambda: np.sin(2 * np.pi * y / period) > 0,
        "columns": lambda: np.sin(2 * np.pi * x / period) > 0,
        "checks": lambda: np.sin(2 * np.pi * x / period) * np.sin(2 * np.pi * y / period) > 0,
        "dots": lambda: np.hypot((x % period) - period / 2, (y % period) - period / 2) < period / 3.5,
        "slope": lambda: np.clip((x * np.cos(size) + y * np.sin(size)) / 30 + 0.5, 0, 1),
    }[name](), np.float32)


def drawn(count, seed):
    """(images uint8[count,32,32,3], labels int64[count])."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(DRAWN), count)
    images = np.empty((count, 32, 32, 3), np.uint8)
    for i, label in enumerate(labels):
        mask = shape_of(DRAWN[label], random)[..., None]
        front, back = random.uniform(0, 255, (2, 3))
        noise = random.normal(0, 25, (32, 32, 3))
        images[i] = np.clip(mask * front + (1 - mask) * back + noise, 0, 255)
    return images, labels


def cifar10(folder, name):
    """A file of CIFAR-10's binary version: records of a label and 3x32x32 bytes."""
    path = pathlib.Path(folder) / name
    records = np.fromfile(path, np.uint8)
    if records.size == 0 or records.size % 3073 or records.reshape(-1, 3073)[:, 0].max() > 9:
        raise SystemExit(f"{path} is no file of CIFAR-10's binary version (records of 3073 bytes)")
    records = records.reshape(-1, 3073)
    return np.ascontiguousarray(records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), records[:, 0].astype(np.int64)


def load(folder, train, test):
    """(names, training images, labels, test images, labels), at most so many of each."""
    if folder is None:
        return (DRAWN, *drawn(train, 1), *drawn(test, 2))
    parts = [cifar10(folder, f"data_batch_{n}.bin") for n in range(1, 6)]
    images, labels = (np.concatenate(list(arrays))[:train] for arrays in zip(*parts))
    test_images, test_labels = (array[:test] for array in cifar10(folder, "test_batch.bin"))
    return CIFAR10, images, labels, test_images, test_labels
