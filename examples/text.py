"""Classify texts: train on short texts of five subjects, then ask for new ones."""

import tempfile

import quatgraph
from quatgraph.data.text import load
from quatgraph.models.text import TextQGNN
from quatgraph.tasks.text.config import TextConfig, TrainConfig

# The built-in sample; a list of texts with a list of labels, or the path of a table, does as well.
texts = load("snippets")

# Without a config a few settings are tried, which takes longer.
config = TextConfig(
    model=TextQGNN.Options(steps=1, dropout=0.8), train=TrainConfig(epochs=20, lr=0.01)
)

with tempfile.TemporaryDirectory() as folder:
    predictor = quatgraph.train_texts(texts, None, folder + "/model", config=config, device="cpu")
    print(f"test accuracy {predictor.card['metrics']['test/accuracy']:.3f}, by chance 0.200")

    answer = predictor.predict(
        ["Simmer the sauce until it thickens.", "They scored in extra time."]
    )
    for row, weights in zip(answer.rows(), answer.attention or [], strict=True):
        words = ", ".join(f"{word} {weight:.2f}" for word, weight in list(weights.items())[:3])
        print(f"{row['text']}\n  {row['prediction']} ({row['probability']:.2f})", end="")
        print(f"; it attends to {words}")
    for note in answer.notes:
        print(f"({note})")
