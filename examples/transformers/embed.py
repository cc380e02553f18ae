# SPDX-License-Identifier: Apache-2.0
"""Sentence embeddings by all-MiniLM-L6-v2 with its real weights, in FP32, BF16 and INT8, beside PyTorch.

    python embed.py                        the sentences of Temper's own documents
    python embed.py --text notes.md --count 200 --query "How do I get INT8?"

Says the cosine of every precision's vectors to PyTorch's, sentences a second, and which sentences are nearest to a question.
"""
import argparse
import pathlib
import sys
import time

import numpy as np
import torch
from models import embedding
from text import DOCUMENTS, HERE, LENGTHS, Words, answers, export, profiles, sentences_of

import temper

# The least cosine of a sentence's vector to PyTorch's.
LEAST = {"fp32": 0.9999, "bf16": 0.999, "fp16": 0.999, "int8": 0.99}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/transformers"))
    parser.add_argument("--text", nargs="+", default=DOCUMENTS, help="Markdown or text files")
    parser.add_argument("--count", type=int, default=1000, help="sentences")
    parser.add_argument("--query", default="Which numbers change when a model computes in eight bits?")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--precision", type=lambda text: text.split(","), help="fp32,bf16,int8; on a GPU fp32,fp16,int8")
    parser.add_argument("--quick", action="store_true", help="build without measuring: for looking at answers, not at speed")
    return parser.parse_args()


def timed(function, batches, passes, size=384):
    """The vectors of all sentences, and the time of the fastest pass over them."""
    best = float("inf")
    for _ in range(passes):
        start = time.perf_counter()
        found = answers(function, batches, size)
        best = min(best, time.perf_counter() - start)
    return found, best


def eight_bits(args, model, words, sentences):
    """Ranges of 64 of the sentences, by which wide channels are evened out, and a scale for each token, computed as it comes: with one scale for all of
    a tensor the vectors of a few sentences would be too far."""
    some = [sentence for sentence in sentences if len(words.tokenizer.encode(sentence).ids) <= 64]
    some = some[:: max(1, len(some) // 64)][:64]
    np.savez(args.out / "some.npz", **words.batch(some, 64))
    return {"calibration": temper.calibrate(model, args.out / "some.npz"), "activation_scales": "token"}


def main():
    args = arguments()
    args.precision = args.precision or (["fp32", "bf16", "int8"] if args.device == "cpu" else ["fp32", "fp16", "int8"])
    args.out.mkdir(parents=True, exist_ok=True)
    model = args.out / "minilm.onnx"
    export(f"{HERE / 'models.py'}:embedding", model, "--dynamic", "batch,sequence")
    sentences = sentences_of(args.text, args.count)
    words = Words()
    batches = words.batches(sentences)
    used = [length for length in LENGTHS if any(inputs["input_ids"].shape[1] == length for _, inputs in batches)]

    passes = 1 if args.quick else 3
    module, _ = embedding()
    with torch.inference_mode():
        wanted, seconds = timed(lambda inputs: module(**{k: torch.from_numpy(v) for k, v in inputs.items()})["embedding"].numpy(), batches, passes)
    print(f"{'PyTorch':12}{len(sentences) / seconds:8.0f} sentences/s")
    failed = []
    for precision in args.precision:
        settings = {}
        if precision == "int8":
            settings = eight_bits(args, model, words, sentences)
        engine = temper.build(model, precision=precision, profiles=profiles(used), device=args.device, measure=not args.quick, **settings)
        engine.save(args.out / f"minilm-{precision}.plan")
        found, seconds = timed(lambda inputs: engine.run(inputs)["embedding"], batches, passes)
        cosines = (found * wanted).sum(1) / np.linalg.norm(found, axis=1)
        print(f"{'Temper ' + precision:12}{len(sentences) / seconds:8.0f} sentences/s, cosine to PyTorch's: mean {cosines.mean():.6f}, least {cosines.min():.6f}", flush=True)
        if not cosines.min() >= LEAST[precision]:
            failed.append(f"{precision}: a cosine of {cosines.min():.6f} is below {LEAST[precision]}")
        if precision == "fp32":
            question = engine.run(words.batch([args.query], used[0] if len(words.tokenizer.encode(args.query).ids) <= used[0] else used[-1]))["embedding"][0]
            print(f"\nnearest to '{args.query}'")
            for row in np.argsort(-(found @ question))[:3]:
                print(f"  {found[row] @ question:.3f}  {sentences[row]}")
            print(flush=True)
    if failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
