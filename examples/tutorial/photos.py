#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures for the tutorial: parts of scikit-learn's two photographs, at several scales.

usage: photos.py FOLDER [FOLDER...]     24 pictures in each, no two alike
"""
import pathlib
import sys

import numpy
import sklearn.datasets
from PIL import Image

photographs = [Image.fromarray(picture) for picture in sklearn.datasets.load_sample_images().images]
rng = numpy.random.default_rng(0)
for i, folder in enumerate(pathlib.Path(name) for name in sys.argv[1:] for _ in range(24)):
    folder.mkdir(parents=True, exist_ok=True)
    photograph = photographs[i % 2]
    side = int(rng.integers(256, 420))
    left, top = int(rng.integers(0, photograph.width - side)), int(rng.integers(0, photograph.height - side))
    photograph.crop((left, top, left + side, top + side)).save(folder / f"{i:03}.jpg", quality=95)
