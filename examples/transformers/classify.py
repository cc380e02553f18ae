# SPDX-License-Identifier: Apache-2.0
"""What is wanted of a speaker in the kitchen: a linear layer on all-MiniLM-L6-v2, trained here in a second, and one ONNX file of both.

    python classify.py
    python classify.py --say "could you dim the lamp a little"

The layer is trained in PyTorch, saved as a state dict, and given to `temper export` with --weights. The sentences to train on and those to
judge by were written for this example.
"""
import argparse
import pathlib
import sys

import numpy as np
import torch
from models import TOPICS, classifier
from text import HERE, Words, answers, export, profiles

import temper

TRAIN = {
    "music": ["play some jazz", "put on the new album", "turn the song up", "skip this track", "what is this tune called", "I want to hear a violin", "play it again", "stop the music please"],
    "timer": ["wake me up at seven", "count down ten minutes", "remind me in half an hour", "set an alarm for tomorrow", "how much time is left", "stop the countdown", "tell me when an hour has passed", "cancel the alarm"],
    "weather": ["will it rain today", "how warm is it outside", "do I need an umbrella", "is there a storm coming", "what is the forecast for Sunday", "how cold will the night be", "is it windy at the coast", "when does the snow stop"],
    "lights": ["turn on the lamp", "make it darker in here", "switch off everything in the hall", "dim the bedroom", "I cannot see, it is too dark", "set the kitchen to a warm white", "turn the ceiling light to half", "lights out"],
    "shopping": ["add milk to the list", "we are out of bread", "order more coffee", "what do I have to buy", "put six eggs on my list", "take butter off the list", "buy a birthday card", "we need soap and sponges"],
}
TEST = {
    "music": ["could we listen to something slower", "louder, I love this chorus", "who sings this"],
    "timer": ["let me know when fifteen minutes are over", "get me up half an hour earlier", "start a stopwatch"],
    "weather": ["is it going to be sunny this afternoon", "what is the temperature in the garden", "will the roads be icy tomorrow"],
    "lights": ["brighten up the living room", "could you turn off the lamp on my desk", "it is so bright in here"],
    "shopping": ["write down two lemons for the supermarket", "there is no toothpaste left, get some", "is cheese on my list already"],
}


def train(module, words):
    """The head alone: the vectors of the encoder stay what they are. Logistic regression with a little weight decay."""
    sentences = [sentence for topic in TOPICS for sentence in TRAIN[topic]]
    labels = torch.tensor([TOPICS.index(topic) for topic in TOPICS for _ in TRAIN[topic]])
    with torch.inference_mode():
        vectors = module.embed(**{name: torch.from_numpy(array) for name, array in words.batch(sentences, 16).items()})
    vectors = vectors.clone()
    optimizer = torch.optim.Adam(module.head.parameters(), lr=0.05, weight_decay=1e-4)
    for _ in range(200):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module.head(vectors), labels)
        loss.backward()
        optimizer.step()
    print(f"trained on {len(sentences)} sentences, loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(".examples/transformers"))
    parser.add_argument("--say", help="a sentence of yours")
    parser.add_argument("--quick", action="store_true", help="build without measuring")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    words, (module, _) = Words(), classifier()
    train(module, words)
    torch.save(module.state_dict(), args.out / "classifier.pth")
    export(f"{HERE / 'models.py'}:classifier", args.out / "classifier.onnx", "--weights", args.out / "classifier.pth", "--dynamic", "batch,sequence")
    engine = temper.build(args.out / "classifier.onnx", profiles=profiles([16]), measure=not args.quick)

    sentences = [sentence for topic in TOPICS for sentence in TEST[topic]]
    topics = [topic for topic in TOPICS for _ in TEST[topic]]
    batches = words.batches(sentences)
    logits = answers(lambda inputs: engine.run(inputs)["logits"], batches, len(TOPICS))
    with torch.inference_mode():
        wanted = answers(lambda inputs: module(**{k: torch.from_numpy(v) for k, v in inputs.items()})["logits"].numpy(), batches, len(TOPICS))
    for sentence, topic, row in zip(sentences, topics, logits):
        said = TOPICS[row.argmax()]
        print(f"  {said:9} {np.exp(row - row.max()).max() / np.exp(row - row.max()).sum():.2f}  {sentence}{'' if said == topic else f'   (it is {topic})'}")
    right = sum(TOPICS[row.argmax()] == topic for row, topic in zip(logits, topics))
    print(f"{right} of {len(topics)} right; logits differ from PyTorch's by up to {np.abs(logits - wanted).max():.1e}")
    if args.say:
        print(f"{args.say}: {TOPICS[engine.run(words.batch([args.say], 16))['logits'][0].argmax()]}")
    if not (logits.argmax(1) == wanted.argmax(1)).all():
        sys.exit("Temper's topics are not PyTorch's")


if __name__ == "__main__":
    main()
