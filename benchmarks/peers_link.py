"""DistMult compared with PyKEEN: a training epoch, and filtered ranks of the same vectors."""

import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from statistics import median
from typing import Any

import torch

from benchmarks.measure import measure
from quatgraph import config as configs
from quatgraph.data.link import Triples
from quatgraph.presets import preset
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import rank_part, summarize_ranks
from quatgraph.tasks.runs import run
from quatgraph.training.context import Context

PRESET = "link/codex-s-distmult"
SAME = (
    *("data.reciprocal=false", "model.dropout=0", "model.norm=false"),
    *("train.loss=bce", "train.smoothing=0", "train.floor=none", "train.clip=none"),
    *("train.lr=0.01", "train.batch_size=1024", "train.select=last"),
)
"""Equal settings: tails only, mean binary cross-entropy over all entities, Adam."""
EPOCHS = 3
CPU = torch.device("cpu")


def rows() -> Iterator[dict[str, Any]]:
    values = configs.override(preset(PRESET), [*SAME, f"train.epochs={EPOCHS}"])
    config = configs.build(LinkConfig, values)
    triples = LINK.load(config)
    width, batch = 4 * config.model.dim_quats, config.train.batch_size
    case = f"DistMult, {config.data.name}, {width} wide"
    yield from _beside(
        {"case": case, "work": f"training epoch, batches of {batch:,}"},
        _epoch(config, triples),
        _their_epoch(config, triples),
    )
    yield from _beside(
        {"case": case, "work": "filtered ranks of valid triples, both sides"},
        *_ranked(config, triples),
    )


def _beside(
    row: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    for variant, timed in (("quatgraph", ours), ("PyKEEN", theirs)):
        yield row | {"variant": variant, **timed, "ratio": round(timed["ms"] / ours["ms"], 2)}


def _epoch(config: LinkConfig, triples: Triples) -> dict[str, Any]:
    (outcome,) = run(LINK, LINK.members(config, triples), triples, Context(CPU))
    return {"ms": round(1e3 * outcome.fit.seconds / config.train.epochs, 3)}


def epochs_of_models(width: int, batch_size: int) -> Iterator[dict[str, Any]]:
    """A training epoch of our models and of PyKEEN's with the same name and width, by binary
    cross-entropy over all entities; with inverse relations, which PyKEEN's R-GCN does not train."""
    for title, (ours, theirs, options) in MODELS.items():
        values = {
            "data": {"name": "codex-s", "reciprocal": theirs != "RGCN"},
            "model": ours | {"dim_quats": width // 4},
            "train": {"epochs": 2, "batch_size": batch_size, "loss": "bce", "select": "last"},
        }
        config = configs.build(LinkConfig, values | {"train": values["train"] | {"patience": None}})
        triples = LINK.load(config)
        factory = _factory(triples, inverse=config.data.reciprocal)
        kind = getattr(import_module("pykeen.models"), theirs)
        loss = import_module("pykeen.losses").BCEWithLogitsLoss()
        model = kind(triples_factory=factory, loss=loss, random_seed=0, **options(width))
        yield from _beside(
            {
                "case": f"{title}, codex-s, {width} wide",
                "work": f"epoch, batches of {batch_size:,}",
            },
            _epoch(config, triples),
            _time_epochs(model, factory, config),
        )


MODELS: dict[str, tuple[dict[str, Any], str, Callable[[int], dict[str, Any]]]] = {
    "ConvE": (
        {"name": "conve", "height": 8},
        "ConvE",
        lambda width: {
            "embedding_dim": width,
            "embedding_height": 8,
            "embedding_width": width // 8,
        },
    ),
    "TuckER": (
        {"name": "tucker"},
        "TuckER",
        lambda width: {"embedding_dim": width, "relation_dim": width},
    ),
    "CompGCN, product": (
        {"name": "compgcn", "composition": "mult"},
        "CompGCN",
        lambda width: {
            "embedding_dim": width,
            "encoder_kwargs": {"num_layers": 1, "layer_kwargs": {"composition": "multiplication"}},
        },
    ),
    "R-GCN": (
        {"name": "rgcn", "num_layers": 1},
        "RGCN",
        lambda width: {
            "embedding_dim": width,
            "num_layers": 1,
            "interaction": "distmult",
            "decomposition": "bases",
            "decomposition_kwargs": {"num_bases": 5},
        },
    ),
}
"""By title: our model, and PyKEEN's with its options by width."""


def _their_epoch(config: LinkConfig, triples: Triples) -> dict[str, Any]:
    factory = _factory(triples)
    return _time_epochs(_their_model(config, factory), factory, config)


def _time_epochs(model: Any, factory: Any, config: LinkConfig) -> dict[str, Any]:
    """The median of the epochs after the first."""
    times: list[float] = []
    base = import_module("pykeen.training.callbacks").TrainingCallback
    ends = {"post_epoch": lambda *_, **others: times.append(time.perf_counter())}
    loop = import_module("pykeen.training").LCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adam(model.parameters(), lr=config.train.lr),
    )
    loop.train(
        triples_factory=factory,
        num_epochs=config.train.epochs,
        batch_size=config.train.batch_size,
        use_tqdm=False,
        pin_memory=False,
        callbacks=type("Clock", (base,), ends)(),
    )
    return {"ms": round(1e3 * median(after - before for before, after in pairwise(times)), 3)}


def _ranked(config: LinkConfig, triples: Triples) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ranks with the same vectors, so both find the same MRR. Each chooses its own chunk size."""
    problem = LINK.prepare(triples, config, CPU)
    model = LINK.build(config, problem).eval()
    ours = measure(lambda: rank_part(model, problem, "valid"), CPU, repeats=5)
    ours["mrr"] = round(
        summarize_ranks(rank_part(model, problem, "valid"), "valid")["valid/mrr"], 5
    )

    peer = _their_model(config, _factory(triples)).eval()
    known = model.state_dict()
    with torch.no_grad():
        next(peer.entity_representations.parameters()).copy_(known["entities"])
        next(peer.relation_representations.parameters()).copy_(known["decoder.relations"])
    evaluator = import_module("pykeen.evaluation").RankBasedEvaluator
    found: list[Any] = []

    def evaluate() -> None:
        found[:] = [
            evaluator().evaluate(
                peer,
                mapped_triples=triples.valid,
                additional_filter_triples=[triples.train, triples.test],
                use_tqdm=False,
            )
        ]

    timed = measure(evaluate, CPU, repeats=5)
    timed["mrr"] = round(found[0].get_metric("both.realistic.inverse_harmonic_mean_rank"), 5)
    return ours, timed


def _factory(triples: Triples, inverse: bool = False) -> Any:
    return import_module("pykeen.triples").CoreTriplesFactory(
        mapped_triples=triples.train,
        num_entities=len(triples.entities),
        num_relations=len(triples.relations),
        create_inverse_triples=inverse,
    )


def _their_model(config: LinkConfig, factory: Any) -> Any:
    """Without unit vectors and penalty, which ours does not have."""
    return import_module("pykeen.models").DistMult(
        triples_factory=factory,
        embedding_dim=4 * config.model.dim_quats,
        entity_constrainer=None,
        regularizer=None,
        loss=import_module("pykeen.losses").BCEWithLogitsLoss(),
        random_seed=0,
    )
