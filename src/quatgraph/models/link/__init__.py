"""Models of triples, one per file."""

from quatgraph.models.link.base import DecoderOptions, LinkModel, LinkOptions
from quatgraph.models.link.compgcn import CompGCN
from quatgraph.models.link.conve import ConvE
from quatgraph.models.link.embeddings import Embeddings
from quatgraph.models.link.relqgnn import RelQGNN
from quatgraph.models.link.rescal import RESCAL
from quatgraph.models.link.rgcn import RGCN
from quatgraph.models.link.sacn import SACN
from quatgraph.models.link.simqgnn import SimQGNN
from quatgraph.models.link.simrgcn import SimRGCN
from quatgraph.models.link.tucker import TuckER

MODELS: dict[str, type[LinkModel]] = {
    "simqgnn": SimQGNN,
    "simrgcn": SimRGCN,
    "relqgnn": RelQGNN,
    "rgcn": RGCN,
    "sacn": SACN,
    "compgcn": CompGCN,
    "embeddings": Embeddings,
    "conve": ConvE,
    "rescal": RESCAL,
    "tucker": TuckER,
}

__all__ = [
    "MODELS",
    "RESCAL",
    "RGCN",
    "SACN",
    "CompGCN",
    "ConvE",
    "DecoderOptions",
    "Embeddings",
    "LinkModel",
    "LinkOptions",
    "RelQGNN",
    "SimQGNN",
    "SimRGCN",
    "TuckER",
]
