# SPDX-License-Identifier: Apache-2.0
"""temper export --lora: adapters of peft, merged, beside peft's own answers; and those that are refused. Part of ./dev test-examples.

usage: adapters.py TEMPER [unittest arguments]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
import onnxruntime
import peft
import torch
import transformers
from safetensors.torch import save_file

PROGRAM = sys.argv.pop(1)

MODELS = '''
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.wide = torch.nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.first = torch.nn.Linear(8, 6)
        self.second = torch.nn.Linear(6, 8)
        self.last = torch.nn.Linear(6, 8)
        self.last.weight = self.second.weight
    def forward(self, picture):
        x = self.first(torch.relu(self.wide(self.conv(picture))).mean((2, 3)))
        return self.second(x) + 2 * torch.tanh(self.last(x))

def net():
    torch.manual_seed(3)
    return Net().eval(), torch.ones(2, 3, 8, 8)
'''


def gpt2(folder):
    config = transformers.GPT2Config(vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0, architectures=["GPT2LMHeadModel"])
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def adapter(folder, base, **settings):
    """An adapter of peft with random matrices, and the model that peft runs it in."""
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.get_peft_model(transformers.GPT2LMHeadModel.from_pretrained(base), peft.LoraConfig(init_lora_weights=False, **settings)).eval()
        model.save_pretrained(folder)
    return model


class Adapters(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.held.name)
        (cls.folder / "models.py").write_text(MODELS)
        gpt2(cls.folder / "base")

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def export(self, source, lora, *options, code=0, words=()):
        done = subprocess.run([PROGRAM, "export", source, "-o", "m.onnx", "--lora", lora, *options, "--python", sys.executable], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)
        if code:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            return None
        return onnxruntime.InferenceSession(str(self.folder / "m.onnx"), providers=["CPUExecutionProvider"])

    def plain(self, lora, tensors, **settings):
        """A folder as peft writes it, of matrices that the test makes."""
        (self.folder / lora).mkdir(exist_ok=True)
        (self.folder / lora / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "bias": "none", "use_dora": False, "rank_pattern": {}, **settings}))
        save_file({f"base_model.model.{name}": tensor for name, tensor in tensors.items()}, str(self.folder / lora / "adapter_model.safetensors"))

    def pair(self, name, a, b):
        torch.manual_seed(len(name))
        return {f"{name}.lora_A.weight": torch.randn(a), f"{name}.lora_B.weight": torch.randn(b)}

    def test_adapters_of_peft_answer_as_in_peft(self):
        # GPT-2 adds the embedding of each token's type, a token too: the adapter of the table counts there as well.
        given = {"input_ids": torch.arange(16)[None], "attention_mask": torch.tensor([[1] * 12 + [0] * 4]), "token_type_ids": torch.full((1, 16), 3)}
        for name, settings in {"attention": {"r": 4, "lora_alpha": 6, "target_modules": ["c_attn"]}, "all": {"r": 3, "lora_alpha": 8, "use_rslora": True, "target_modules": ["c_attn", "c_proj", "c_fc", "wte"]}}.items():
            with self.subTest(name=name):
                model = adapter(self.folder / name, self.folder / "base", **settings)
                with torch.no_grad():
                    wanted = model(**given).logits.numpy()[:, :12]
                    before = transformers.GPT2LMHeadModel.from_pretrained(self.folder / "base").eval()(**given).logits.numpy()[:, :12]
                session = self.export("hf:base", name, words=[f"adapter {name} merged into"])
                got = session.run(None, {port.name: given[port.name].numpy() for port in session.get_inputs()})[0][:, :12]
                self.assertLess(np.abs(got - wanted).max(), 1e-4)
                self.assertGreater(np.abs(before - wanted).max(), 0.1)  # the adapter does something

    def test_a_model_with_its_past_takes_an_adapter(self):
        model = adapter(self.folder / "past", self.folder / "base", r=2, lora_alpha=2, target_modules=["c_attn"])
        session = self.export("hf:base", "past", "--past")
        given = {port.name: np.zeros((1, 4, 0, 8), np.float32) for port in session.get_inputs()}
        given |= {"input_ids": np.arange(5)[None], "attention_mask": np.ones((1, 5), np.int64), "position_ids": np.arange(5)[None]}
        with torch.no_grad():
            wanted = model(input_ids=torch.arange(5)[None]).logits.numpy()
        self.assertLess(np.abs(session.run(["logits"], given)[0] - wanted).max(), 1e-4)

    def test_layers_of_a_module_of_ones_own(self):
        tensors = {**self.pair("conv", (2, 3, 3, 3), (8, 2, 1, 1)), **self.pair("first", (2, 8), (6, 2)), **self.pair("last", (2, 6), (8, 2))}
        self.plain("own", tensors)
        namespace = {}
        exec(MODELS, namespace)
        module, _ = namespace["net"]()
        with torch.no_grad():
            weight = lambda name: module.get_submodule(name).weight.clone()
            of = lambda name: (tensors[f"{name}.lora_A.weight"], tensors[f"{name}.lora_B.weight"])
            made = {}
            for name in ("first", "last"):  # the second layer shares the last one's weight, and keeps it
                a, b = of(name)
                made[name] = weight(name) + b @ a * 1.5
            a, b = of("conv")
            made["conv"] = weight("conv") + 1.5 * torch.nn.functional.conv2d(a.permute(1, 0, 2, 3), b).permute(1, 0, 2, 3)
            for name, tensor in made.items():
                module.get_submodule(name).weight = torch.nn.Parameter(tensor)
            x = torch.randn(2, 3, 8, 8)
            wanted = module(x).numpy()
        session = self.export("models.py:net", "own", words=["merged into 3 layers"])
        self.assertLess(np.abs(session.run(None, {"picture": x.numpy()})[0] - wanted).max(), 1e-4)

    def test_what_cannot_be_merged_is_refused_by_name(self):
        tensors = self.pair("first", (2, 8), (6, 2))
        for settings, words in (({"use_dora": True}, "DoRA (use_dora)"), ({"bias": "all"}, "bias 'all'"), ({"rank_pattern": {"first": 4}}, "rank_pattern"), ({"alpha_pattern": {"first": 4}}, "alpha_pattern"),
                                ({"modules_to_save": ["head"]}, "modules_to_save"), ({"peft_type": "LOHA"}, "LOHA"), ({"of_another_year": 1}, "of_another_year")):
            self.plain("bad", tensors, **settings)
            self.export("models.py:net", "bad", code=4, words=["--lora", words, "cannot be merged"])
        self.plain("bad", {**tensors, "first.lora_magnitude_vector": torch.ones(6)})
        self.export("models.py:net", "bad", code=4, words=["DoRA"])
        self.plain("bad", self.pair("wide", (2, 4, 3, 3), (8, 2, 1, 1)))
        self.export("models.py:net", "bad", code=4, words=["wide, a convolution in groups"])
        self.plain("bad", {**tensors, "first.base_layer.weight": torch.ones(6, 8)})
        self.export("models.py:net", "bad", code=4, words=["first, whose own weight"])
        subprocess.run([sys.executable, "-c", "import models, torch; torch.jit.script(models.net()[0]).save('s.pt')"], cwd=self.folder, check=True, capture_output=True)
        self.export("s.pt", "bad", "--shape", "picture=1x3x8x8", code=4, words=["merged into modules of PyTorch"])

    def test_damaged_and_foreign_folders_are_one_line(self):
        tensors = self.pair("first", (2, 8), (6, 2))
        self.export("models.py:net", "nowhere", code=3, words=["'nowhere' is no folder"])
        self.plain("bad", self.pair("third", (2, 8), (6, 2)))
        self.export("models.py:net", "bad", code=2, words=["third", "which Net has not"])
        self.plain("bad", self.pair("first", (2, 9), (6, 2)))
        self.export("models.py:net", "bad", code=3, words=["its weight is [6, 8]"])
        self.plain("bad", tensors, r=3)
        self.export("models.py:net", "bad", code=3, words=["not of rank 3"])
        self.plain("bad", tensors, r="two")
        self.export("models.py:net", "bad", code=3, words=["'two'"])
        self.plain("bad", {"first.lora_A.weight": torch.ones(2, 8)})
        self.export("models.py:net", "bad", code=3, words=["one of the two matrices of first"])
        (self.folder / "bad" / "adapter_model.safetensors").write_bytes(b"\x08")
        self.export("models.py:net", "bad", code=3, words=["adapter_model.safetensors"])
        (self.folder / "bad" / "adapter_config.json").write_text("{")
        self.export("models.py:net", "bad", code=3, words=["adapter_config.json"])
        (self.folder / "bad" / "adapter_config.json").unlink()
        self.export("models.py:net", "bad", code=3, words=["has no adapter_config.json"])


if __name__ == "__main__":
    unittest.main()
