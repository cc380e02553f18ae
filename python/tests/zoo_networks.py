# SPDX-License-Identifier: Apache-2.0
"""The networks of text and diffusion that `temper zoo` writes are those of transformers and diffusers: the file's weights fit
their modules by name and shape, and Temper answers as PyTorch does. Part of ./dev test-examples.

usage: zoo_networks.py TEMPER [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import torch
from onnx import numpy_helper

PROGRAM = sys.argv.pop(1)


class ZooNetworks(unittest.TestCase):
    def setUp(self):
        self.held = tempfile.TemporaryDirectory()
        self.addCleanup(self.held.cleanup)
        self.folder = pathlib.Path(self.held.name)

    def temper(self, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments), "--quiet"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name):
        self.temper("zoo", name, "-o", f"{name}.onnx")

    def answer(self, name, arrays, attentions):
        """Outputs of Temper by name, of a plan in which so many steps are attentions."""
        given = []
        for index, (key, array) in enumerate(arrays.items()):
            np.save(self.folder / f"in{index}.npy", array)
            given += ["--input", f"{key}=in{index}.npy"]
        shapes = [word for key, array in arrays.items() for word in ("--shapes", f"{key}={'x'.join(map(str, array.shape))}")]
        self.temper("build", f"{name}.onnx", "-o", f"{name}.plan", "--no-measure", *shapes)
        layers = json.loads(self.temper("inspect", f"{name}.plan", "--layers", "--json"))
        self.assertEqual(sum((step.get("tactic") or "").endswith(".attention") for plan in layers["plans"] for segment in plan["segments"] for step in segment["steps"]), attentions)
        self.temper("run", f"{name}.plan", "--top", "0", "--output-dir", "out", *given)
        return {path.stem: np.load(path) for path in (self.folder / "out").glob("*.npy")}

    def fill(self, module, name, missing=()):
        """The weights of the file into the module, all of them, under their names."""
        state = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).astype(np.float32)) for tensor in onnx.load(self.folder / f"{name}.onnx").graph.initializer if "." in tensor.name and not tensor.name.startswith("number")}
        left = module.load_state_dict(state, strict=False)
        self.assertEqual(left.unexpected_keys, [])
        self.assertEqual(sorted(left.missing_keys), sorted(missing))
        return module.eval()

    def assertClose(self, got, want, share=1e-4):
        want = want.numpy()
        self.assertEqual(got.shape, want.shape)
        self.assertGreater(want.std(), 0.01)
        self.assertLess(np.abs(got - want).max(), share * np.abs(want).max())

    def test_bert(self):
        import transformers

        self.write("bert")
        ids, kinds = np.random.default_rng(0).integers(0, 30522, (2, 11)), np.array([[0] * 5 + [1] * 6] * 2)
        mask = np.array([[1] * 11, [1] * 8 + [0] * 3])
        got = self.answer("bert", {"input_ids": ids, "attention_mask": mask, "token_type_ids": kinds}, 12)
        module = self.fill(transformers.BertModel(transformers.BertConfig(attn_implementation="eager")), "bert")
        with torch.inference_mode():
            want = module(*map(torch.from_numpy, (ids, mask, kinds)))
        self.assertClose(got["last_hidden_state"], want.last_hidden_state)
        self.assertClose(got["pooler_output"], want.pooler_output)

    def test_gpt2_reads_its_past_and_generates(self):
        import transformers

        self.write("gpt2")
        module = self.fill(transformers.GPT2LMHeadModel(transformers.GPT2Config()), "gpt2", ["lm_head.weight"])
        module.tie_weights()
        ids = np.random.default_rng(0).integers(0, 50257, (1, 12))
        past = {f"past_key_values.{i}.{what}": np.zeros((1, 12, 0, 64), np.float32) for i in range(12) for what in ("key", "value")}
        logits, before = [], 0
        for part in (ids[:, :8], ids[:, 8:]):
            length = part.shape[1]
            got = self.answer("gpt2", {"input_ids": part, "attention_mask": np.ones((1, before + length), np.int64), "position_ids": np.arange(before, before + length)[None], **past}, 12)
            past, before = {f"past_key_values.{i}.{what}": got[f"present.{i}.{what}"] for i in range(12) for what in ("key", "value")}, before + length
            logits.append(got["logits"])
        with torch.inference_mode():
            self.assertClose(np.concatenate(logits, 1), module(torch.from_numpy(ids)).logits)
        self.temper("build", "gpt2.onnx", "-o", "gpt2.plan", "--cache", "32", "--shapes", "input_ids=1x1:1x16:1x16", "--no-measure")
        said = json.loads(self.temper("generate", "gpt2.plan", "--prompt-ids", ",".join(map(str, ids[0])), "--max-tokens", "16", "--json"))["rows"][0]
        tokens = [*ids[0].tolist(), *said["ids"]]
        with torch.inference_mode():
            rows = module(torch.tensor([tokens])).logits[0, 11:-1]
        self.assertEqual(len(said["ids"]), 16)
        for token, row in zip(said["ids"], rows):
            best = row.topk(2)
            if best.values[0] - best.values[1] > 1e-2:
                self.assertEqual(token, int(best.indices[0]))

    def test_the_noise_predictor_of_stable_diffusion(self):
        self.write("sd15-unet")
        random = np.random.default_rng(0)
        given = {"sample": random.standard_normal((1, 4, 8, 16)).astype(np.float32), "timestep": np.array([981], np.float32), "encoder_hidden_states": random.standard_normal((1, 7, 768)).astype(np.float32)}
        got = self.answer("sd15-unet", given, 32)
        import diffusers

        module = self.fill(diffusers.UNet2DConditionModel(cross_attention_dim=768, attention_head_dim=8), "sd15-unet")
        self.assertEqual(sum(p.numel() for p in module.parameters()), 859_520_964)
        with torch.inference_mode():
            self.assertClose(got["noise"], module(torch.from_numpy(given["sample"]), torch.from_numpy(given["timestep"]), torch.from_numpy(given["encoder_hidden_states"])).sample)


if __name__ == "__main__":
    unittest.main()
