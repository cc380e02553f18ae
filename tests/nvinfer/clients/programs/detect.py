#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a detector's engine in the style of 8.x and writes the boxes that remain: `output0` is [1, 4 + classes, anchors] of x, y, width, height
and scores. usage: detect.py ENGINE IMAGE.npy BOXES.npy"""
import sys

import numpy
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

logger = trt.Logger(trt.Logger.ERROR)
trt.init_libnvinfer_plugins(logger, "")
with open(sys.argv[1], "rb") as file:
    engine = trt.Runtime(logger).deserialize_cuda_engine(file.read())
context, stream = engine.create_execution_context(), cuda.Stream()
inputs, outputs, bindings = [], [], []
for binding in engine:  # names
    size = trt.volume(engine.get_binding_shape(binding)) * engine.max_batch_size
    host = cuda.pagelocked_empty(size, trt.nptype(engine.get_binding_dtype(binding)))
    device = cuda.mem_alloc(host.nbytes)
    bindings.append(int(device))
    (inputs if engine.binding_is_input(binding) else outputs).append((host, device))
numpy.copyto(inputs[0][0], numpy.load(sys.argv[2]).ravel())
for host, device in inputs:
    cuda.memcpy_htod_async(device, host, stream)
context.execute_async_v2(bindings, stream.handle)
for host, device in outputs:
    cuda.memcpy_dtoh_async(host, device, stream)
stream.synchronize()

found = outputs[0][0].reshape(engine.get_binding_shape(engine["output0"]))[0].T
scores = found[:, 4:].max(1)
kept = []
for i in numpy.argsort(-scores, kind="stable"):
    if scores[i] < 0.5:
        break
    x, y, w, h = found[i, :4]
    box = numpy.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2])
    for other in kept:
        inside = numpy.clip(numpy.minimum(box[2:], other[2:4]) - numpy.maximum(box[:2], other[:2]), 0, None).prod()
        if inside > 0.45 * (w * h + (other[2:4] - other[:2]).prod() - inside):
            break
    else:
        kept.append(numpy.array([*box, scores[i], found[i, 4:].argmax()]))
numpy.save(sys.argv[3], numpy.array(kept, numpy.float32).reshape(-1, 6))
print(f"{len(kept)} boxes of {len(found)} anchors")
