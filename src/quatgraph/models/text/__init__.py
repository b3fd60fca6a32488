"""Text classifiers, one per file."""

from quatgraph.models.text.base import TextModel, TextOptions
from quatgraph.models.text.bilstm import BiLSTM
from quatgraph.models.text.fasttext import FastText
from quatgraph.models.text.gated_gnn import GatedGNN
from quatgraph.models.text.textgcn import TextGCN
from quatgraph.models.text.texting import TextING
from quatgraph.models.text.textqgnn import TextQGNN
from quatgraph.models.text.textsgc import TextSGC
from quatgraph.models.text.tfidf import TfIdf

MODELS: dict[str, type[TextModel]] = {
    "textqgnn": TextQGNN,
    "texting": TextING,
    "fasttext": FastText,
    "bilstm": BiLSTM,
    "tfidf": TfIdf,
    "gated-gnn": GatedGNN,
    "textgcn": TextGCN,
    "textsgc": TextSGC,
}

__all__ = [
    "MODELS",
    "BiLSTM",
    "FastText",
    "GatedGNN",
    "TextGCN",
    "TextING",
    "TextModel",
    "TextOptions",
    "TextQGNN",
    "TextSGC",
    "TfIdf",
]
