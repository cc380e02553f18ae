# SPDX-License-Identifier: Apache-2.0
"""Every kind of source and every option once, on small models, with PyTorch and TensorFlow. Part of ./dev test-examples.

usage: exporter_sources.py TEMPER [unittest arguments]
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import onnxruntime

PROGRAM = sys.argv.pop(1)

MODELS = '''
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)
    def forward(self, picture):
        return self.head(torch.relu(self.norm(self.conv(picture))).mean((2, 3)))

class Two(torch.nn.Module):
    def forward(self, a, b):
        return {"sum": a + b, "product": a * b}

class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(11, 6)
    def forward(self, input_ids):
        return {"embedding": self.table(input_ids).mean(1)}

def words():
    return Words(), {"input_ids": torch.arange(10).reshape(2, 5)}

def net():
    torch.manual_seed(3)
    return Net().eval()

def with_example():
    return net(), torch.ones(2, 3, 16, 16)

def two():
    return Two(), {"a": torch.ones(2, 3), "b": torch.ones(2, 3)}

def wrong():
    return Net().eval(), torch.ones(1, 4, 16, 16)

def complex_numbers():
    class Fft(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.eig(x)[0].abs()
    return Fft(), torch.eye(4)

def keras_model():
    import keras
    keras.utils.set_random_seed(3)
    return keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, activation="relu"), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(5)])
'''

# A pipeline's networks in small, as diffusers saves them. The predictor of `xl` takes what SDXL's and a distilled one take more.
NETWORKS = '''
import diffusers, torch, transformers
torch.manual_seed(0)
size = dict(sample_size=16, block_out_channels=(32, 64), layers_per_block=1)
text = dict(down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=24, attention_head_dim=8)
diffusers.UNet2DConditionModel(**size, **text).save_pretrained("sd/unet")
diffusers.UNet2DConditionModel(**size, **text, addition_embed_type="text_time", addition_time_embed_dim=8, projection_class_embeddings_input_dim=20 + 6 * 8, time_cond_proj_dim=12).save_pretrained("sd/xl")
diffusers.UNet2DConditionModel(**size, **text, num_class_embeds=5).save_pretrained("sd/classes")
diffusers.UNet2DModel(**size, down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D")).save_pretrained("sd/unconditional")
diffusers.AutoencoderKL(**size, latent_channels=4, down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, scaling_factor=0.25, shift_factor=0.5).save_pretrained("sd/vae")
transformers.CLIPTextModel(transformers.CLIPTextConfig(vocab_size=100, hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, bos_token_id=98, eos_token_id=99)).save_pretrained("sd/text_encoder")
'''


class Sources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.held = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.held.name)
        (cls.folder / "models.py").write_text(MODELS)

    @classmethod
    def tearDownClass(cls):
        cls.held.cleanup()

    def make(self, text):
        subprocess.run([sys.executable, "-c", "import models\n" + text], cwd=self.folder, check=True, capture_output=True)

    def temper(self, *arguments):
        return subprocess.run([PROGRAM, *arguments, "--python", sys.executable], cwd=self.folder, capture_output=True, text=True)

    def export(self, source, *options, code=0, words=(), engines=2):
        done = self.temper("export", source, "-o", "m.onnx", *options)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stdout + done.stderr)
        if code:
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            return None
        self.assertIn("Temper", done.stdout)
        self.assertGreaterEqual(done.stdout.count(": ok"), engines, done.stdout)
        return onnx.load(self.folder / "m.onnx")

    def dims(self, model):
        return [[d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in model.graph.input]

    def test_a_function_with_its_example_inputs(self):
        model = self.export("models.py:with_example")
        self.assertEqual(self.dims(model), [[2, 3, 16, 16]])
        self.assertEqual([i.name for i in model.graph.input], ["picture"])

    def test_a_function_needs_shapes_or_examples(self):
        self.export("models.py:net", code=2, words=["--shape picture="])
        self.export("models.py:net", "--shape", "1x3x20x20")

    def test_several_inputs_and_outputs_have_their_names(self):
        model = self.export("models.py:two", engines=4)
        self.assertEqual([o.name for o in model.graph.output], ["sum", "product"])
        self.assertEqual([i.name for i in model.graph.input], ["a", "b"])

    def test_an_output_may_have_the_name_of_a_value_within_and_sequences_are_opened(self):
        model = self.export("models.py:words", "--dynamic", "batch,sequence", engines=4, words=["input_ids int64[3,6]"])
        self.assertEqual(self.dims(model), [["batch", "sequence"]])
        self.assertEqual([o.name for o in model.graph.output], ["embedding"])
        self.assertEqual(len({o for node in model.graph.node for o in node.output}), sum(len(node.output) for node in model.graph.node))

    def test_axes_are_opened_and_tried_at_a_second_size(self):
        model = self.export("models.py:with_example", "--dynamic", "batch,height,width", engines=4, words=["picture float32[3,3,48,48]"])
        self.assertEqual(self.dims(model), [["batch", 3, "height", "width"]])
        self.export("models.py:two", "--dynamic", "height", code=2, words=["no input has such an axis"])

    def test_batch_opset_and_exporter(self):
        for exporter, opset in (("export", 18), ("torchscript", 16)):
            model = self.export("models.py:with_example", "--batch", "4", "--opset", str(opset), "--exporter", exporter)
            self.assertEqual(self.dims(model), [[4, 3, 16, 16]])
            self.assertEqual(model.opset_import[0].version, opset)

    def test_half(self):
        model = self.export("models.py:with_example", "--half", words=["rtol 0.01"])
        self.assertEqual(model.graph.input[0].type.tensor_type.elem_type, onnx.TensorProto.FLOAT16)
        self.export("models.py:keras_model", "--half", code=4, words=["--half is for PyTorch"])

    def test_a_state_dict(self):
        self.make("import torch; torch.save({'state_dict': models.net().state_dict()}, 'w.pth'); torch.save({'x': torch.ones(1)}, 'other.pth')")
        self.export("models.py:with_example", "--weights", "w.pth", words=["weights of w.pth"])
        self.export("models.py:with_example", "--weights", "other.pth", code=3, words=["does not fit this model"])
        self.export("models.py:with_example", "--weights", "none.pth", code=3, words=["does not exist"])
        self.export("w.pth", code=3, words=["holds weights only"])

    def test_a_torchscript_archive(self):
        self.make("import torch; torch.jit.script(models.net()).save('s.pt')")
        self.export("s.pt", code=2, words=["--shape picture="])
        self.export("s.pt", "--shape", "picture=1x3x16x16", "--dynamic", "batch", engines=4, words=["TorchScript exporter"])

    def test_an_archive_of_torch_export(self):
        self.make("import torch; torch.export.save(torch.export.export(models.net(), (torch.ones(1, 3, 16, 16),)), 'e.pt2')")
        self.export("e.pt2", words=["torch.export archive e.pt2"])
        self.export("e.pt2", "--batch", "2", code=2, words=["carries its shapes"])

    def test_files_of_keras(self):
        self.make("m = models.keras_model(); m.save('k.keras'); m.save('k.h5'); m.save_weights('k.weights.h5')")
        for file in ("k.keras", "k.h5"):
            model = self.export(file, "--dynamic", "batch", engines=4)
            self.assertEqual(self.dims(model), [["batch", 16, 16, 3]])
        self.export("models.py:keras_model", "--weights", "k.weights.h5")

    def test_a_saved_model_and_its_tflite(self):
        self.make("m = models.keras_model(); m.export('sm')\nimport tensorflow as tf\nopen('m.tflite', 'wb').write(tf.lite.TFLiteConverter.from_saved_model('sm').convert())")
        self.export("sm", "--batch", "2", words=["signature serving_default"])
        self.export("m.tflite", words=["LiteRT"])
        self.export("m.tflite", "--dynamic", "batch", code=2, words=["carries its shapes"])

    def networks(self):
        if not (self.folder / "sd").exists():
            self.make(NETWORKS)

    def answer(self, model, code):
        """The exported model's answer to seeded numbers, and that of `code`, which sees them as tensors of diffusers' own network."""
        random = np.random.default_rng(4)
        given = {i.name: np.full(d, 7) if i.type.tensor_type.elem_type == onnx.TensorProto.INT64 else random.standard_normal(d).astype(np.float32) for i, d in zip(model.graph.input, self.dims(model))}
        np.savez(self.folder / "given.npz", **given)
        self.make(f"import diffusers, numpy, torch\ng = {{n: torch.from_numpy(a) for n, a in numpy.load('given.npz').items()}}\nwith torch.no_grad():\n    numpy.save('want.npy', ({code})[0].numpy())")
        got = onnxruntime.InferenceSession(str(self.folder / "m.onnx"), providers=["CPUExecutionProvider"]).run(None, given)
        self.assertEqual(len(got), 1)
        return got[0], np.load(self.folder / "want.npy")

    def test_noise_predictors_of_diffusers_have_the_inputs_of_their_config(self):
        self.networks()
        model = self.export("hf:sd/unet", "--batch", "2", words=["diffusers UNet2DConditionModel of unet"])
        self.assertEqual([(i.name, d) for i, d in zip(model.graph.input, self.dims(model))], [("sample", [2, 4, 16, 16]), ("timestep", [2]), ("encoder_hidden_states", [2, 77, 24])])
        self.assertEqual([o.name for o in model.graph.output], ["out_sample"])
        got, want = self.answer(model, "diffusers.UNet2DConditionModel.from_pretrained('sd/unet')(**g, return_dict=False)")
        self.assertLess(np.abs(got - want).max(), 1e-4)
        self.assertGreater(want.std(), 0.1)
        model = self.export("hf:sd/unconditional", words=["diffusers UNet2DModel of unconditional"])
        self.assertEqual([(i.name, d) for i, d in zip(model.graph.input, self.dims(model))], [("sample", [1, 3, 16, 16]), ("timestep", [1])])

    def test_a_noise_predictor_gets_the_conditions_of_sdxl_by_name(self):
        self.networks()
        model = self.export("hf:sd/xl")
        self.assertEqual([(i.name, d) for i, d in zip(model.graph.input, self.dims(model))][2:], [("encoder_hidden_states", [1, 77, 24]), ("timestep_cond", [1, 12]), ("text_embeds", [1, 20]), ("time_ids", [1, 6])])
        got, want = self.answer(model, "diffusers.UNet2DConditionModel.from_pretrained('sd/xl')(g['sample'], g['timestep'], g['encoder_hidden_states'], timestep_cond=g['timestep_cond'], "
                                       "added_cond_kwargs={n: g[n] for n in ('text_embeds', 'time_ids')}, return_dict=False)")
        self.assertLess(np.abs(got - want).max(), 1e-4)

    def test_weights_that_a_folder_of_diffusers_has_in_16_bits_alone_are_read(self):
        self.networks()
        self.make("import diffusers, torch; diffusers.AutoencoderKL.from_pretrained('sd/vae', torch_dtype=torch.float16).save_pretrained('halves', variant='fp16')")
        model = self.export("hf:halves")
        got, want = self.answer(model, "diffusers.AutoencoderKL.from_pretrained('halves', variant='fp16').decode(g['latents'] / 0.25 + 0.5, return_dict=False)")
        self.assertLess(np.abs(got - want).max(), 1e-4)

    def test_axes_and_shapes_of_a_noise_predictor(self):
        self.networks()
        model = self.export("hf:sd/unet", "--dynamic", "batch,height,width,sequence", "--shape", "sample=1x4x8x24", engines=4, words=["sample float32[2,4,40,56], timestep int64[2], encoder_hidden_states float32[2,78,24]"])
        self.assertEqual(self.dims(model), [["batch", 4, "height", "width"], ["batch"], ["batch", "sequence", 24]])

    def test_the_decoder_of_an_autoencoder_takes_latents_as_a_scheduler_leaves_them(self):
        self.networks()
        model = self.export("hf:sd/vae", "--dynamic", "batch", engines=4)
        self.assertEqual([(i.name, d) for i, d in zip(model.graph.input, self.dims(model))], [("latents", ["batch", 4, 8, 8])])
        model = self.export("hf:sd/vae", "--batch", "2")
        self.assertEqual([o.name for o in model.graph.output], ["picture"])
        got, want = self.answer(model, "diffusers.AutoencoderKL.from_pretrained('sd/vae').decode(g['latents'] / 0.25 + 0.5, return_dict=False)")
        self.assertEqual(got.shape, (2, 3, 16, 16))
        self.assertLess(np.abs(got - want).max(), 1e-4)

    def test_the_text_encoder_of_a_pipeline_is_one_of_transformers(self):
        self.networks()
        model = self.export("hf:sd/text_encoder", "--shape", "input_ids=1x77", "--shape", "attention_mask=1x77", engines=4, words=["transformers CLIPTextModel"])
        self.assertEqual(self.dims(model), [[1, 77], [1, 77]])

    def test_what_a_folder_of_diffusers_cannot_be_exported_with_is_refused_by_name(self):
        self.networks()
        self.export("hf:sd/classes", code=4, words=["UNet2DConditionModel with num_class_embeds 5"])
        self.export("hf:sd/unet", "--past", code=4, words=["--past: UNet2DConditionModel"])
        self.export("hf:sd/unet", "--weights", "w.pth", code=2, words=["carries its own"])
        self.make("import json, shutil; from safetensors.torch import load_file, save_file\n"
                  "shutil.copytree('sd/vae', 'lacking'); file = 'lacking/diffusion_pytorch_model.safetensors'; held = load_file(file); del held['decoder.conv_in.bias']; save_file(held, file, {'format': 'pt'})\n"
                  "for folder, source, changes in (('normal', 'vae', {'latents_mean': [0.0] * 4, 'latents_std': [2.0] * 4}), ('sizeless', 'unet', {'sample_size': None})):\n"
                  "    shutil.copytree(f'sd/{source}', folder); file = f'{folder}/config.json'; config = json.load(open(file)); config.update(changes); json.dump(config, open(file, 'w'))")
        self.export("hf:lacking", code=3, words=["lack 1 of AutoencoderKL: decoder.conv_in.bias"])
        self.export("hf:normal", code=4, words=["AutoencoderKL with latents_mean"])
        self.export("hf:sizeless", code=2, words=["gives no sample_size", "--shape sample=1x4x64x64"])
        self.assertEqual(self.dims(self.export("hf:sizeless", "--shape", "sample=1x4x16x16"))[0], [1, 4, 16, 16])

    def test_a_damaged_file_is_one_line(self):
        (self.folder / "bad").mkdir(exist_ok=True)
        for name in ("b.pt", "b.pt2", "b.keras", "b.h5", "b.tflite", "bad/saved_model.pb"):
            (self.folder / name).write_bytes(b"not a model")
            self.export("bad" if name.startswith("bad/") else name, code=3, words=["'" + ("bad" if name.startswith("bad/") else name) + "'"])

    def test_a_picture_of_the_wrong_shape_is_one_line(self):
        self.export("models.py:wrong", code=2, words=["the model refuses picture float32[1, 4, 16, 16]"])

    def test_what_pytorch_cannot_write_is_refused_with_its_reason(self):
        self.export("models.py:complex_numbers", code=4, words=["PyTorch could not write this model as ONNX", "torchscript:"])

    def test_verify_finds_a_file_that_was_not_made_from_its_source(self):
        self.export("models.py:with_example")
        self.assertEqual(self.temper("verify", "m.onnx", "--source", "models.py:with_example").returncode, 0)
        model = onnx.load(self.folder / "m.onnx")
        for tensor in model.graph.initializer:
            if tensor.name == "head.bias":
                tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) + np.float32(0.01), tensor.name))
        onnx.save(model, self.folder / "m.onnx")
        done = self.temper("verify", "m.onnx", "--source", "models.py:with_example")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("DIFFERS"), 2, done.stdout)


if __name__ == "__main__":
    unittest.main()
