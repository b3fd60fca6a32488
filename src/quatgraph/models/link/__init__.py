"""Models of triples, one per file."""

from quatgraph.models.link.base import DecoderOptions, LinkModel, LinkOptions
from quatgraph.models.link.embeddings import Embeddings
from quatgraph.models.link.simqgnn import SimQGNN
from quatgraph.models.link.simrgcn import SimRGCN

MODELS: dict[str, type[LinkModel]] = {
    "simqgnn": SimQGNN,
    "simrgcn": SimRGCN,
    "embeddings": Embeddings,
}

__all__ = [
    "MODELS",
    "DecoderOptions",
    "Embeddings",
    "LinkModel",
    "LinkOptions",
    "SimQGNN",
    "SimRGCN",
]
