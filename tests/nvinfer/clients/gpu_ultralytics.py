#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_ultralytics.py [--half | --int8] [--dynamic]: exports a YOLOv8n of drawn weights by Ultralytics as an engine, and compares its boxes
on a noise picture with PyTorch's. Nothing is downloaded."""
import argparse
import os
import pathlib
import tempfile

os.environ.setdefault("YOLO_AUTOINSTALL", "false")
os.environ.setdefault("YOLO_OFFLINE", "true")

import numpy  # noqa: E402
import torch  # noqa: E402
from ultralytics import YOLO  # noqa: E402


def raw(model, x):
    """What the network gives before boxes are chosen: drawn weights have no boxes to choose."""
    with torch.no_grad():
        y = model(x)
    return (y[0] if isinstance(y, (list, tuple)) else y).float().cpu().numpy()


def pictures():
    """data.yaml of 16 drawn pictures, which INT8 is calibrated on."""
    import cv2

    random = numpy.random.default_rng(0)
    for part in ("images", "labels"):
        pathlib.Path(f"data/{part}").mkdir(parents=True)
    for i in range(16):
        small = random.integers(0, 255, (12, 12, 3), dtype="uint8")
        cv2.imwrite(f"data/images/{i}.jpg", cv2.resize(small, (320, 320), interpolation=cv2.INTER_CUBIC))
        pathlib.Path(f"data/labels/{i}.txt").write_text("0 0.5 0.5 0.4 0.4\n")
    names = "".join(f"  {i}: kind{i}\n" for i in range(80))
    pathlib.Path("data.yaml").write_text(f"path: {os.getcwd()}/data\ntrain: images\nval: images\nnames:\n{names}")
    return {"data": "data.yaml", "batch": 4}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("half", "int8", "dynamic"):
        parser.add_argument(f"--{flag}", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        yolo = YOLO("yolov8n.yaml")
        yolo.save("drawn.pt")
        yolo = YOLO("drawn.pt")
        engine = yolo.export(format="engine", imgsz=320, device=0, simplify=False, half=options.half, int8=options.int8, dynamic=options.dynamic,
                             **(pictures() if options.int8 else {}))  # fmt: skip
        from ultralytics.nn.autobackend import AutoBackend

        x = torch.rand(4 if options.int8 else 1, 3, 320, 320, device="cuda")  # an engine in INT8 takes the batch of its calibration
        expected = raw(YOLO("drawn.pt").model.cuda().float().eval(), x)
        backend = AutoBackend(engine, device=torch.device("cuda:0"), fp16=options.half)
        got = raw(backend, x.half() if backend.fp16 else x)
        again = raw(backend, x.half() if backend.fp16 else x)
    assert got.shape == expected.shape and numpy.array_equal(got, again)
    off = numpy.abs(got - expected).max() / numpy.abs(expected).max()
    recorded = getattr(getattr(backend, "backend", backend), "graph", None) is not None
    print(f"{got.shape}, off by {off:.1e} of the largest output; {'replayed from a CUDA graph' if recorded else 'without a CUDA graph'}")
    assert off < (0.1 if options.int8 else 1e-2)  # TF32 is on where FP16 is not, as it is in TensorRT


if __name__ == "__main__":
    main()
