#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gpu_ultralytics.py [--half | --int8] [--dynamic]: exports a YOLOv8n of drawn weights by Ultralytics as an engine, and compares its boxes
on a noise picture with PyTorch's. Nothing is downloaded."""
import argparse
import os
import tempfile

os.environ.setdefault("YOLO_AUTOINSTALL", "false")
os.environ.setdefault("YOLO_OFFLINE", "true")

import numpy  # noqa: E402
import torch  # noqa: E402
from ultralytics import YOLO  # noqa: E402


def raw(model, x):
    """What the network gives before boxes are chosen: drawn weights have no boxes to choose."""
    y = model(x)
    return (y[0] if isinstance(y, (list, tuple)) else y).float().cpu().numpy()


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
        engine = yolo.export(format="engine", imgsz=320, device=0, simplify=False, half=options.half, int8=options.int8, dynamic=options.dynamic)
        from ultralytics.nn.autobackend import AutoBackend

        x = torch.rand(1, 3, 320, 320, device="cuda")
        expected = raw(YOLO("drawn.pt").model.cuda().float().eval(), x)
        backend = AutoBackend(engine, device=torch.device("cuda:0"), fp16=options.half)
        got = raw(backend, x.half() if backend.fp16 else x)
        again = raw(backend, x.half() if backend.fp16 else x)
    assert got.shape == expected.shape and numpy.array_equal(got, again)
    off = numpy.abs(got - expected).max() / numpy.abs(expected).max()
    print(f"{got.shape}, off by {off:.1e} of the largest output")
    assert off < (1e-2 if options.half or options.int8 else 1e-3)


if __name__ == "__main__":
    main()
