# SPDX-License-Identifier: Apache-2.0
"""usage: silero_beside_onnxruntime.py TEMPER MODELS

silero's voice detectors, which hear a stream chunk by chunk and keep a state, give the same numbers in Temper, by
--state, as in ONNX Runtime, which is handed the state, at both sampling rates. MODELS is the folder that `./dev setup models`
makes; without it, 77.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

CHUNKS = 40


def stream(rate, width, random):
    """Pieces of noise that swells and fades, of tones and of silence."""
    time = np.arange(CHUNKS * width) / rate
    swell = np.clip(np.sin(2 * np.pi * time * 1.5), 0, 1)
    sound = swell * (0.2 * np.sin(2 * np.pi * 180 * time) + 0.1 * np.sin(2 * np.pi * 720 * time) + 0.05 * random.standard_normal(time.size))
    return sound.astype(np.float32).reshape(CHUNKS, width)


def check(temper, path, rate, folder):
    random = np.random.default_rng(rate)
    chunk, context = (512, 64) if rate == 16000 else (256, 32)
    chunks = stream(rate, chunk, random)
    before = np.concatenate([np.zeros((1, context), np.float32), chunks[:-1, -context:]])
    chunks = np.concatenate([before, chunks], axis=1)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    state, want = np.zeros((2, 1, 128), np.float32), []
    for piece in chunks:
        output, state = session.run(["output", "stateN"], {"input": piece[None], "state": state, "sr": np.array(rate)})
        want.append(output[0])
    np.save(folder / "chunks.npy", chunks)
    np.save(folder / "rate.npy", np.array(rate))
    np.save(folder / "state.npy", np.zeros((2, 1, 128), np.float32))
    subprocess.run([temper, "run", path, "--input", f"input={folder}/chunks.npy", "--input", f"sr={folder}/rate.npy", "--state", "state=stateN", "--output-dir",
                    folder / "out", "--force", "--quiet", "--no-measure", "--threads", "1"], check=True)
    heard, last = np.load(folder / "out/output.npy"), np.load(folder / "out/stateN.npy")
    far, far_state = np.abs(heard - np.array(want)).max(), np.abs(last - state).max()
    print(f"{path.name} at {rate} Hz: {CHUNKS} chunks, probabilities {heard.min():.3f} to {heard.max():.3f}, differences {far:.1e}, of the state {far_state:.1e}")
    assert heard.shape == (CHUNKS, 1) and far <= 1e-4 and far_state <= 1e-3 * np.abs(state).max()
    timed = subprocess.run([temper, "bench", path, "--input", f"sr={folder}/rate.npy", "--input", f"input={folder}/chunks.npy", "--batch", "1", "--state",
                            "state=stateN", "--input", f"state={folder}/state.npy", "--no-measure", "--threads", "1", "--warmup", "1",
                            "--iterations", "5", "--quiet"], capture_output=True, text=True)
    assert timed.returncode == 0, timed.stderr


def main():
    temper, models = sys.argv[1], pathlib.Path(sys.argv[2])
    found = sorted(models.glob("silero-vad==*/silero_vad/data/silero_vad.onnx")) if models.is_dir() else []
    if not found:
        print(f"{models} has no models of silero-vad: ./dev setup models")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for rate in (16000, 8000):
            check(temper, found[0], rate, pathlib.Path(folder))


main()
