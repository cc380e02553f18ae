#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits of the installed scikit-learn, split by a fixed seed.

usage: digits_data.py FOLDER     writes FOLDER/digits_test.npz: image f32[599,1,8,8] in 0..1, labels i64[599]
"""
import importlib.util
import pathlib
import sys

import numpy as np

SPLIT_SEED = 20240607


def sklearn_folder():
    """Of scikit-learn's data. Importing it takes a second and more, and nothing of it but files is wanted."""
    found = importlib.util.find_spec("sklearn")
    if found is None:
        raise ModuleNotFoundError("there is no scikit-learn for this Python", name="sklearn")
    return pathlib.Path(found.submodule_search_locations[0]) / "datasets"


def load_digits():
    """(images f64[1797,8,8] in 0..16, labels i64[1797]), as sklearn.datasets.load_digits gives them."""
    rows = np.loadtxt(sklearn_folder() / "data/digits.csv.gz", delimiter=",")
    return rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)


def load():
    """(train images, train labels, test images, test labels); images are f32[n,1,8,8] in 0..1, a third is held out."""
    images, labels = load_digits()
    images = (images / 16.0).astype(np.float32)[:, None]
    order = np.random.Generator(np.random.PCG64(SPLIT_SEED)).permutation(len(labels))
    held_out, rest = np.split(order, [len(order) // 3])
    return images[rest], labels[rest], images[held_out], labels[held_out]


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    _, _, images, labels = load()
    np.savez(folder / "digits_test.npz", image=images, labels=labels)
    print(folder / "digits_test.npz")
