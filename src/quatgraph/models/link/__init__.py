"""Models of triples, one per file."""

from quatgraph.data.link import Triples
from quatgraph.models.link.base import DecoderOptions, GraphModel, LinkModel, LinkOptions
from quatgraph.models.link.compgcn import CompGCN
from quatgraph.models.link.conve import ConvE
from quatgraph.models.link.embeddings import Embeddings
from quatgraph.models.link.phm import PHM
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
    "phm": PHM,
    "conve": ConvE,
    "rescal": RESCAL,
    "tucker": TuckER,
}


def build_model(options: LinkOptions, triples: Triples, *, reciprocal: bool) -> LinkModel:
    """Builds the model of some options for a knowledge graph, whose features it takes if it can."""
    model, sizes = MODELS[options.name], (triples.num_entities, triples.num_relations)
    takes_features = issubclass(model, GraphModel)
    features = {"num_features": len(triples.feature_names)} if takes_features else {}
    return model.from_options(options, *sizes, reciprocal=reciprocal, **features)


__all__ = [
    "MODELS",
    "PHM",
    "RESCAL",
    "RGCN",
    "SACN",
    "CompGCN",
    "ConvE",
    "DecoderOptions",
    "Embeddings",
    "GraphModel",
    "LinkModel",
    "LinkOptions",
    "RelQGNN",
    "SimQGNN",
    "SimRGCN",
    "TuckER",
    "build_model",
]
