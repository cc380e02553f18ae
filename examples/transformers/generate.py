# SPDX-License-Identifier: Apache-2.0
"""A small GPT-2 that is trained here on Temper's own documents, and goes on from a prompt.

    python generate.py --prompt "A plan is"
    python generate.py --steps 2000 --temperature 0.7

Tokenizer and model are made in a folder as transformers saves them; `temper export hf:FOLDER --past` writes it with its past keys
and values, temper.build(cache=...) makes caches of them, and temper.generate is an iterator over tokens. With a folder of yours
(--folder gpt2/) nothing is trained. Without a temperature the tokens must be those that PyTorch chooses.
"""
import argparse
import pathlib
import sys

import tokenizers
import torch
import transformers
from text import DOCUMENTS, export

import temper


def make_tokenizer(folder, texts, vocabulary=512):
    """Byte pairs of the texts; the token that ends a text is 0."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["<end>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def train(folder, steps, length=64, batch=16):
    """A GPT-2 of two layers with 128 channels, by next tokens of random places in the documents."""
    torch.manual_seed(0)
    texts = [path.read_text(encoding="utf-8") for path in DOCUMENTS]
    tokenizer = make_tokenizer(folder, texts)
    tokens = torch.tensor([token for text in texts for token in [*tokenizer.encode(text).ids, 0]])
    config = transformers.GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=256, n_embd=128, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0,
                                     resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, architectures=["GPT2LMHeadModel"])
    model = transformers.GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(steps):
        starts = torch.randint(len(tokens) - length, (batch,))
        rows = torch.stack([tokens[start : start + length] for start in starts])
        loss = model(input_ids=rows, labels=rows).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    model.save_pretrained(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/transformers"))
    parser.add_argument("--folder", type=pathlib.Path, help="a folder of transformers with a tokenizer.json, instead of training")
    parser.add_argument("--prompt", default="A plan is")
    parser.add_argument("--max-tokens", type=int, default=60)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--quick", action="store_true", help="build without measuring")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = args.folder or args.out / "small_gpt2"
    folder.mkdir(parents=True, exist_ok=True)
    if args.folder is None:
        train(folder, args.steps)
    export(f"hf:{folder}", args.out / "generate.onnx", "--past")
    engine = temper.build(args.out / "generate.onnx", cache=128, measure=not args.quick)
    engine.save(args.out / "generate.plan")

    said = temper.generate(engine, args.prompt, tokenizer=folder, max_tokens=args.max_tokens, temperature=args.temperature, top_k=40 if args.temperature else 0)
    print(f"\n{args.prompt}", end="")
    for token in said:
        print(token.text, end="", flush=True)
    print(f"\n\n{len(said.ids)} tokens, the first after {said.first_ms:.1f} ms, {said.tokens_per_second or 0:.0f} a second behind it")

    if args.temperature == 0:
        model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
        with torch.inference_mode():
            ids = torch.tensor([said.prompt_ids])
            wanted = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.max_tokens, do_sample=False, pad_token_id=0)[0, ids.shape[1] :].tolist()
        if said.ids != wanted:
            sys.exit(f"PyTorch chooses other tokens: {wanted} instead of {said.ids}")
        print("PyTorch chooses the same tokens")


if __name__ == "__main__":
    main()
