# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime on the CPU as tests hold Temper against it."""
import pathlib
import platform

import onnxruntime


def session(model, threads=0, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    """`model`: a file or its bytes. Products of bytes are exact: on CPUs with AVX2 and no VNNI they would saturate at 16 bits
    (kOrtSessionOptionsAvx2PrecisionMode in onnxruntime_session_options_config_keys.h)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = level
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"])


def unsaturated(weights):
    """Weights of bytes for ONNX Runtime's own ops, whose products that option leaves as they are: halved where they saturate."""
    exact = platform.machine() != "x86_64" or "vnni" in pathlib.Path("/proc/cpuinfo").read_text()
    return weights if exact else weights // 2
