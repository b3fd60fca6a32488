"""Models of triples, one per file."""

from typing import Any

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.models.link.base import (
    DecoderOptions,
    GraphModel,
    LinkModel,
    LinkOptions,
    TableOptions,
)
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
from quatgraph.ops import Shards

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


def build_model(
    options: LinkOptions, triples: Triples, *, reciprocal: bool, shards: Shards | None = None
) -> LinkModel:
    """Builds the model of some options for a knowledge graph, whose features it takes if it can;
    with ``shards`` only this rank's part of it."""
    model, sizes = MODELS[options.name], (triples.num_entities, triples.num_relations)
    others: dict[str, Any] = {"reciprocal": reciprocal}
    if issubclass(model, GraphModel):
        others["num_features"] = len(triples.feature_names)
    if shards:
        check_shardable(options)
        assert isinstance(options, TableOptions)
        others["tables"] = options.tables._replace(shards=shards)
    return model.from_options(options, *sizes, **others)


def check_shardable(options: LinkOptions) -> None:
    """Refuses a model whose entities ranks cannot share out."""
    if not MODELS[options.name].shardable:
        able = ", ".join(name for name, model in MODELS.items() if model.shardable)
        raise UserError(
            f"the entities of the model {options.name} cannot be sharded over ranks: choose one of "
            f"{able} (--set model.name=...), or train it without torchrun"
        )


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
    "check_shardable",
]
