# SPDX-License-Identifier: Apache-2.0
"""A picture from a prompt by Stable Diffusion 1.5, beside PyTorch's from the same noise.

    python run.py                                            the architecture with few channels, random weights: noise-like pictures
    python run.py --size full --pixels 256 --steps 10        the published sizes
    python run.py --size stable-diffusion-v1-5/ --prompt "a lighthouse at dawn" --steps 20

Text encoder, noise predictor and decoder are ONNX files and engines; the noise predictor is split in two (temper.split): what depends on
the prompt alone, which runs once, and the rest, which each step runs. The steps (DDIM or Euler's) and the guidance are a loop over arrays,
which stay in the GPU's memory where the engines are a GPU's. Needs torch, transformers and diffusers (./dev setup examples). Files go to
.examples/diffusion (--out).
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import time
import zlib

import numpy as np
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
TRAINED = 1000  # steps that the noise was divided into while the network was trained


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/diffusion"))
    parser.add_argument("--size", default="small", help="small, full, or a folder as diffusers saves a pipeline")
    parser.add_argument("--pixels", type=int, default=128, help="side of the picture, a multiple of 64")
    parser.add_argument("--prompt", default="a lighthouse at dawn")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--scheduler", default="ddim", choices=("ddim", "euler"), help="how the noise goes from step to step")
    parser.add_argument("--guidance", type=float, default=7.5, help="how much more the prompt counts than no prompt")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--precision", default="fp32", help="fp32 or bf16; on a GPU fp16")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--quick", action="store_true", help="build without measuring")
    parser.add_argument("--no-torch", action="store_true", help="do not compare with PyTorch")
    parser.add_argument("--warm", type=int, default=0, help="pictures that are made before the one that is timed")
    args = parser.parse_args()
    if args.pixels < 64 or args.pixels % 64 or args.steps < 1 or args.warm < 0:
        parser.error("--pixels is a multiple of 64, --steps at least 1, --warm at least 0")
    return args


def tokens_of(args, words):
    """Ids i64 [1,77] of a prompt: by the tokenizer of the folder; for random weights, which know no words, each word has any id."""
    if args.size in ("small", "full"):
        ids = [zlib.crc32(word.encode()) % (words - 2) for word in args.prompt.split()][:75] if args.prompt else []
        begin, end = words - 2, words - 1
        return lambda text: np.array([[begin, *(ids if text else []), *[end] * (76 - (len(ids) if text else 0))]], np.int64)
    import transformers
    tokenizer = transformers.CLIPTokenizer.from_pretrained(os.path.join(args.size, "tokenizer"), local_files_only=True)
    return lambda text: tokenizer(text, padding="max_length", max_length=77, truncation=True, return_tensors="np").input_ids.astype(np.int64)


def kept_shares():
    """By step, which share of a picture's variance is left beside the noise: those that Stable Diffusion was trained with."""
    return np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, TRAINED, dtype=np.float64) ** 2)


def ddim(predict, latents, steps, guidance):
    """Song et al. 2020 without noise of its own: from each step's estimate of the picture to the noise level of the next one. predict(latents
    [1,4,h,w], step) -> the noise without and with the prompt. Arrays are NumPy's or tensors of PyTorch."""
    kept = kept_shares().tolist()
    stride = TRAINED // steps
    for step in (np.arange(steps)[::-1] * stride + 1).tolist():
        without, with_prompt = predict(latents, step)
        noise = without + guidance * (with_prompt - without)
        now, then = kept[step], kept[step - stride] if step >= stride else kept[0]
        picture = (latents - math.sqrt(1 - now) * noise) / math.sqrt(now)
        latents = math.sqrt(then) * picture + math.sqrt(1 - then) * noise
    return latents


def euler(predict, latents, steps, guidance):
    """Euler's method for dx/dsigma = noise (Karras et al. 2022, without noise of its own), where x is the picture with noise of the standard
    deviation sigma. The network takes x / sqrt(sigma^2 + 1), of variance 1. Steps are as far apart as DDIM's; the last one ends at sigma 0."""
    kept = kept_shares()
    stride = TRAINED // steps
    at = np.arange(steps)[::-1] * stride + 1
    sigmas = np.append(np.sqrt((1 - kept[at]) / kept[at]), 0).tolist()
    x = latents * math.sqrt(sigmas[0] ** 2 + 1)
    for step, sigma, then in zip(at.tolist(), sigmas[:-1], sigmas[1:]):
        without, with_prompt = predict(x / math.sqrt(sigma**2 + 1), step)
        x = x + (then - sigma) * (without + guidance * (with_prompt - without))
    return x


SCHEDULERS = {"ddim": ddim, "euler": euler}


def pixels_of(picture):
    """[1,3,h,w] from -1 to 1 -> uint8 [h,w,3]."""
    return np.round(255 * np.clip(picture[0].transpose(1, 2, 0) / 2 + 0.5, 0, 1)).astype(np.uint8)


def predictor_of(engine, kept):
    """predict() of the schedulers by the engine of a step. `kept`: what depends on the prompt alone, in the GPU's memory or in the host's. On a
    GPU a step is put in the order of PyTorch's stream, and nothing waits for it: the host has sent all steps before the first has ended."""
    if isinstance(next(iter(kept.values())), np.ndarray):
        return lambda x, step: np.split(engine.run({"sample": np.concatenate([x, x]), "timestep": np.array([step]), **kept})["noise"], 2)
    import torch
    arrays = {}  # which lie at the same places from step to step, so that the engine reads and writes them there

    def predict(x, step):
        if not arrays:
            sample = torch.empty(2, *x.shape[1:], device=x.device)
            arrays.update(inputs={"sample": sample, "timestep": torch.empty(1, dtype=torch.int64, device=x.device), **kept}, noise=torch.empty_like(sample))
        torch.cat([x, x], out=arrays["inputs"]["sample"])
        arrays["inputs"]["timestep"].fill_(step)
        engine.run(arrays["inputs"], {"noise": arrays["noise"]}, stream=torch.cuda.current_stream().cuda_stream)
        return arrays["noise"].split(1)

    return predict


def picture_of(args, engines, tokens, latents):
    """The picture as NumPy's array, and the seconds that its parts took."""
    seconds, last = {}, [time.perf_counter()]

    def took(part):
        seconds[part] = time.perf_counter() - last[0]
        last[0] += seconds[part]

    states = np.concatenate([engines["text_encoder"].run(tokens(text))["states"] for text in ("", args.prompt)])
    if args.device != "cpu":
        import torch
        states, latents = torch.from_numpy(states).to(args.device), torch.from_numpy(latents).to(args.device)
    kept = engines["prompt"].run({"states": states})
    if args.device != "cpu":
        kept = {name: torch.from_dlpack(value) for name, value in kept.items()}
    took("text")
    latents = SCHEDULERS[args.scheduler](predictor_of(engines["step"], kept), latents, args.steps, args.guidance)
    if args.device != "cpu":
        latents = latents.cpu().numpy()
    took("steps")
    picture = engines["decoder"].run(latents)["picture"]
    took("decoder")
    return picture, seconds


def by_temper(args, latents):
    import temper
    engines = {}
    parts = {"text_encoder": [], "noise_predictor": ["prompt", "step"], "decoder": []}
    for name, made in parts.items():
        model = args.out / f"{name}.onnx"
        command = [sys.executable, "-m", "temper", "export", f"{HERE / 'models.py'}:{name}", "-o", str(model), *(["--no-check"] if args.size != "small" else [])]
        print("$", *command, flush=True)
        subprocess.run(command, check=True)
        if made:
            between = temper.split(model, "states", *(args.out / f"{part}.onnx" for part in made))
            print(f"{len(between)} values of the noise predictor are computed once a prompt", flush=True)
        for part in made or [name]:
            start = time.perf_counter()
            engines[part] = temper.build(args.out / f"{part}.onnx", precision=args.precision, device=args.device, measure=not args.quick)
            print(f"{part}: built in {time.perf_counter() - start:.0f} s", flush=True)
    import models
    tokens = tokens_of(args, models.SIZES[args.size].words if args.size in models.SIZES else 0)
    for _ in range(args.warm):
        picture_of(args, engines, tokens, latents)
    return picture_of(args, engines, tokens, latents)


def scheduler_of(name, steps):
    """diffusers' own, of the same noise levels and steps."""
    import diffusers
    levels = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
    if name == "euler":
        scheduler = diffusers.EulerDiscreteScheduler(**levels, timestep_spacing="leading")
    else:
        scheduler = diffusers.DDIMScheduler(**levels, clip_sample=False, set_alpha_to_one=False)
    scheduler.set_timesteps(steps)
    return scheduler


def by_torch(args, latents):
    """The same modules, and diffusers' own schedulers."""
    import models
    import torch
    encoder, predictor, decoder = (make()[0] for make in (models.text_encoder, models.noise_predictor, models.decoder))
    tokens = tokens_of(args, models.SIZES[args.size].words if args.size in models.SIZES else 0)
    scheduler = scheduler_of(args.scheduler, args.steps)
    seconds = {}
    with torch.inference_mode():
        start = time.perf_counter()
        states = torch.cat([encoder(torch.from_numpy(tokens(text)))["states"] for text in ("", args.prompt)])
        seconds["text"] = time.perf_counter() - start
        x = torch.from_numpy(latents) * scheduler.init_noise_sigma
        for step in scheduler.timesteps:
            scaled = scheduler.scale_model_input(x, step)
            without, with_prompt = predictor(torch.cat([scaled, scaled]), step[None], states)["noise"].chunk(2)
            x = scheduler.step(without + args.guidance * (with_prompt - without), step, x).prev_sample
        seconds["steps"] = time.perf_counter() - start - seconds["text"]
        picture = decoder(x)["picture"].numpy()
        seconds["decoder"] = time.perf_counter() - start - seconds["text"] - seconds["steps"]
    return picture, seconds


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ.update(DIFFUSION=args.size, PIXELS=str(args.pixels))
    noise = np.random.default_rng(args.seed).standard_normal((1, 4, args.pixels // 8, args.pixels // 8)).astype(np.float32)
    picture, seconds = by_temper(args, noise)
    Image.fromarray(pixels_of(picture)).save(args.out / "temper.png")
    said = lambda name, s: (f"{name}: {sum(s.values()):.3f} s: text {s['text']:.3f} s, {args.steps} {args.scheduler} steps {s['steps']:.3f} s, "
                            f"picture {s['decoder']:.3f} s")
    print(f"{said('Temper ' + args.precision, seconds)}; {args.out / 'temper.png'}", flush=True)
    if args.no_torch:
        return
    wanted, seconds = by_torch(args, noise)
    Image.fromarray(pixels_of(wanted)).save(args.out / "pytorch.png")
    error = np.mean((pixels_of(picture).astype(np.float64) - pixels_of(wanted)) ** 2)
    psnr = 10 * math.log10(255**2 / error) if error else math.inf
    print(f"{said('PyTorch fp32', seconds)}; PSNR of Temper's picture to it: {psnr:.1f} dB, pixels' standard deviation {pixels_of(wanted).std():.1f}")
    if args.precision == "fp32" and not psnr >= 40:
        sys.exit(f"the pictures differ: {psnr:.1f} dB is below 40")


if __name__ == "__main__":
    main()
