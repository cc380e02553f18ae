#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two ends of text recognition for ./dev demo; what is between them is `temper run`.

usage: demo_ocr.py model                     prints the path of PP-OCRv4's recognition model
       demo_ocr.py draw TEXT FOLDER          FOLDER/line.png, a picture of TEXT, and FOLDER/line.npy, the model's input
       demo_ocr.py decode MODEL OUTPUT.npy   prints the text that the model's output says
"""
import importlib.util
import pathlib
import sys

import numpy as np
import onnx
from PIL import Image, ImageDraw, ImageFont

HEIGHT = 48  # of the model's input


def model():
    package = pathlib.Path(importlib.util.find_spec("rapidocr_onnxruntime").origin).parent
    return package / "models" / "ch_PP-OCRv4_rec_infer.onnx"


def draw(text, folder):
    font = ImageFont.load_default(size=40)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (right - left + 24, bottom - top + 20), (250, 248, 240))
    ImageDraw.Draw(picture).text((12 - left, 10 - top), text, fill=(30, 30, 60), font=font)
    picture.save(folder / "line.png")
    width = round(picture.width * HEIGHT / picture.height)
    pixels = np.asarray(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)[..., ::-1]  # BGR
    np.save(folder / "line.npy", np.ascontiguousarray((pixels / 255 - 0.5).transpose(2, 0, 1)[None] / 0.5))


def decode(model_path, output):
    """Greedy CTC: the likeliest class of each column, repetitions merged, blanks (class 0) dropped."""
    metadata = {entry.key: entry.value for entry in onnx.load(model_path).metadata_props}
    characters = ["", *metadata["character"].splitlines(), " "]
    classes = np.load(output)[0].argmax(-1)
    kept = [c for i, c in enumerate(classes) if c != 0 and (i == 0 or c != classes[i - 1])]
    return "".join(characters[c] for c in kept)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["model"]:
            print(model())
        case ["draw", text, folder]:
            draw(text, pathlib.Path(folder))
        case ["decode", path, output]:
            print(decode(path, output).strip())
        case _:
            sys.exit(__doc__)
