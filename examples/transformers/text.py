# SPDX-License-Identifier: Apache-2.0
"""Sentences and their tokens: what the three examples share."""
import pathlib
import re
import subprocess
import sys

import numpy as np
import tokenizers
from models import minilm_folder

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENTS = sorted((HERE / "../../docs").resolve().glob("*.md"))
LENGTHS = (16, 32, 64, 128)  # sentences are padded to the next of these, and each has a plan of its own
BATCH = 32


def run(*command):
    print("$", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True)


def export(source, target, *options):
    run(sys.executable, "-m", "temper", "export", source, "-o", target, *options)


def sentences_of(files, count):
    """The first `count` sentences of Markdown files, without tables and code."""
    found = []
    for file in files:
        text = re.sub(r"```.*?```", "", pathlib.Path(file).read_text(encoding="utf-8"), flags=re.DOTALL)
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "<"))]
        for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
            plain = " ".join(re.sub(r"[*`]|^\s*[-*] ", "", paragraph, flags=re.MULTILINE).split())
            found += [sentence for sentence in re.split(r"(?<=[.:;?!]) ", plain) if len(sentence.split()) >= 4]
    if len(found) < count:
        sys.exit(f"the files have {len(found)} sentences; {count} are wanted")
    return found[:count]


class Words:
    """The tokenizer of all-MiniLM-L6-v2."""

    def __init__(self):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(LENGTHS[-1])

    def batch(self, sentences, length):
        """Token ids and masks, padded to `length`."""
        arrays = {name: np.zeros((len(sentences), length), np.int64) for name in ("input_ids", "attention_mask")}
        for row, encoded in enumerate(self.tokenizer.encode_batch(sentences)):
            arrays["input_ids"][row, : len(encoded.ids)] = encoded.ids
            arrays["attention_mask"][row, : len(encoded.ids)] = 1
        return arrays

    def batches(self, sentences):
        """(rows, inputs) for all sentences: at most BATCH of about one length at a time."""
        lengths = [len(encoded.ids) for encoded in self.tokenizer.encode_batch(sentences)]
        made, shortest = [], 0
        for length in LENGTHS:
            rows = [row for row, size in enumerate(lengths) if shortest < size <= length]
            made += [(part, self.batch([sentences[row] for row in part], length)) for part in (rows[at : at + BATCH] for at in range(0, len(rows), BATCH))]
            shortest = length
        return made


def profiles(lengths=LENGTHS):
    """Shapes for temper.build: one plan for each length, for batches up to BATCH."""
    return [{name: ((1, length), (BATCH, length), (BATCH, length)) for name in ("input_ids", "attention_mask")} for length in lengths]


def answers(function, batches, size):
    """What `function` says of each batch, in the sentences' order; float32[sentences, size]."""
    found = np.zeros((sum(len(rows) for rows, _ in batches), size), np.float32)
    for rows, inputs in batches:
        found[rows] = function(inputs)
    return found
