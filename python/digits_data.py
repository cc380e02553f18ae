#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The handwritten digits of the installed scikit-learn, split by a fixed seed.

usage: digits_data.py FOLDER     writes FOLDER/digits_test.npz: image f32[599,1,8,8] in 0..1, labels i64[599]
"""
import pathlib
import sys

import numpy as np
from sklearn.datasets import load_digits

SPLIT_SEED = 20240607


def load():
    """(train images, train labels, test images, test labels); images are f32[n,1,8,8] in 0..1, a third is held out."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
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
