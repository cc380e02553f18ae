# SPDX-License-Identifier: Apache-2.0
"""Models of PyTorch, Keras and TensorFlow as ONNX, checked against the framework they come from.

python -m temper export SOURCE -o m.onnx       or        temper export SOURCE -o m.onnx
"""
