# SPDX-License-Identifier: Apache-2.0
"""Says from when to when somebody speaks in a WAV file, by a voice detector that is run on one chunk after the other.

    python detect.py detector.onnx recording.wav
    python detect.py silero_vad.onnx recording.wav --context 64

The model is one with silero's inputs (input, state, sr) and outputs (output, stateN), such as model.py makes. Its state stays in
the session: a chunk goes in, a probability comes out. silero's models from version 5 on want the last samples of the chunk
before in front of each chunk: 64 of them, 32 at 8 kHz.
"""
import argparse
import sys
import wave

import numpy as np

import temper


def samples_of(path):
    """The first channel as numbers from -1 to 1, and their rate."""
    with wave.open(path) as file:
        if file.getsampwidth() != 2:
            raise SystemExit(f"{path}: samples of 16 bits are read, not of {8 * file.getsampwidth()}")
        numbers = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        return numbers[:, 0].astype(np.float32) / 32768, file.getframerate()


def probabilities(engine, samples, rate, context=0):
    """One number for each chunk of 32 ms; the end that fills no chunk is filled with silence."""
    chunk = rate * 32 // 1000
    samples = np.pad(samples, (context, -len(samples) % chunk))
    session = engine.session(state={"state": "stateN"})
    window = np.empty((1, context + chunk), np.float32)
    heard = []
    for begin in range(0, len(samples) - context, chunk):
        window[0] = samples[begin:begin + context + chunk]
        heard.append(session.run({"input": window, "sr": np.array(rate)})["output"].item())
    return np.array(heard)


def stretches(heard, seconds, on=0.5, off=0.35):
    """Pairs of times: from where a probability reaches `on` to where one falls below `off`."""
    found, begin = [], None
    for i, probability in enumerate([*heard, 0.0]):
        if begin is None and probability >= on:
            begin = i
        elif begin is not None and probability < off:
            found.append((begin * seconds, i * seconds))
            begin = None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="an ONNX model, which is built first, or a plan")
    parser.add_argument("recording", help="a WAV file of 16-bit samples, at 8 or 16 kHz")
    parser.add_argument("--context", type=int, default=0)
    args = parser.parse_args()
    samples, rate = samples_of(args.recording)
    if rate not in (8000, 16000):
        raise SystemExit(f"{args.recording}: the detector hears 8 or 16 kHz, not {rate} Hz")
    if args.model.endswith(".plan"):
        engine = temper.load(args.model)
    else:
        width = args.context + rate * 32 // 1000
        state = next(port.shape for port in temper.Graph.from_onnx(args.model).inputs if port.name == "state")
        fixed = tuple(dim if isinstance(dim, int) else 1 for dim in state)
        engine = temper.build(args.model, shapes={"input": (1, width), "state": fixed}, threads=1)
    for begin, end in stretches(probabilities(engine, samples, rate, args.context), 0.032):
        print(f"{begin:.2f} s to {end:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
