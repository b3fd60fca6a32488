"""Trained models that answer questions."""

from pathlib import Path

from torch_geometric.data import Data

from quatgraph.data.node import from_data
from quatgraph.errors import Mistake
from quatgraph.serve.node import NodePredictor
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.job import default_candidates, train_in_folder
from quatgraph.training.bundle import load_bundle
from quatgraph.training.runtime import resolve_device

PREDICTORS: dict[str, type[NodePredictor]] = {"node": NodePredictor}


def load(bundle: Path | str, *, device: str = "auto") -> NodePredictor:
    """Opens a bundle, ready to predict."""
    opened = load_bundle(Path(bundle))
    task = opened.card.get("task")
    if task not in PREDICTORS:
        raise Mistake(f"{bundle} is for the task {task!r}, which this version cannot predict")
    return PREDICTORS[task](opened, resolve_device(device))


def train_nodes(
    data: Data,
    out: Path | str,
    *,
    config: NodeConfig | None = None,
    device: str = "auto",
    resume: bool = False,
) -> NodePredictor:
    """Learns to classify the nodes of a PyG ``Data`` and returns the predictor.

    Args:
        data: With ``y``, ``-1`` where unknown; ``x`` and the masks may be missing.
        out: Folder for the bundle.
        config: Settings; without them a few are tried and validation data decides.
        resume: Whether to go on with a training that ``out`` holds.
    """
    graph = from_data(data)
    candidates = default_candidates(NodeConfig()) if config is None else [config]
    where = resolve_device(device)
    job = train_in_folder(candidates, Path(out), device=where, data=graph, resume=resume)
    return NodePredictor(load_bundle(job.folder), where, graph)


__all__ = ["NodePredictor", "load", "train_nodes"]
