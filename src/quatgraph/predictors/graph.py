"""Asks a trained graph classifier: which class has each graph, and how sure is it?"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.data import graph as source
from quatgraph.data.graph import AnyGraphs, Graphs
from quatgraph.data.labels import missing_labels
from quatgraph.errors import Mistake
from quatgraph.models.graph import MODELS
from quatgraph.predictors.predictions import (
    Predictions,
    class_probabilities,
    positions,
    refuse_changed,
    refuse_moved,
    refuse_not_finite,
    without_empty_parts,
)
from quatgraph.tasks.graph.batches import Collection, assemble
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.graph.evaluation import (
    build_chunks,
    compute_metrics,
    evaluation_chunks,
    max_nodes_per_chunk,
    needs_entries,
)
from quatgraph.tasks.graph.features import NodeFeatures
from quatgraph.tasks.graph.problem import (
    build_collection,
    load_graphs,
    prepare,
    split_indices,
)
from quatgraph.training.bundle import Bundle
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.runtime import total_memory

NEVER_SEEN = {
    "tags": "training never saw the tag {}: such a node counts as one without a tag",
    "degrees": "training never saw a node of degree {}: the nearest degree it saw is taken",
}


class GraphPredictor:
    """A graph classifier out of a bundle: the models of all folds, whose answers are averaged.

    Example:
        A bundle answers for the graphs it was trained on, or for new ones::

            quatgraph.load("my-model").predict()
            quatgraph.load("my-model").predict("new.jsonl")
    """

    def __init__(self, bundle: Bundle, device: torch.device, graphs: Graphs | None = None) -> None:
        self.card = bundle.card
        self.device = device
        self.config = configs.build(GraphConfig, self.card["config"])
        self.features = NodeFeatures.from_dict(self.card["features"])

        builds = [partial(self._built, bundle, m) for m in range(len(self.card["split"]))]
        self.models = Ensemble(builds, self.card["seed"]).to(device).eval()
        self._graphs = graphs

    def predict(
        self, graphs: "AnyGraphs | None" = None, *, ids: Sequence[str] | None = None
    ) -> Predictions:
        """Classifies graphs.

        Args:
            graphs: A path in one of the formats of training data, PyG graphs, or a collection; the
                graphs the model was trained on unless given.
            ids: Graphs to answer for; all unless given.
        """
        asked = self._training_graphs() if graphs is None else self._new_graphs(graphs)
        if ids is not None:
            asked = asked.select(positions(ids, asked.graph_ids, "there is no graph {}"))
        if not len(asked):
            return Predictions([], self.card["labels"], torch.empty(0, len(self.card["labels"])))
        self._refuse_huge(asked)
        whole = build_collection(asked, self.config.model, self.features, self.device)
        probabilities = self._probabilities(whole)
        refuse_not_finite(
            probabilities,
            asked.graph_ids.__getitem__,
            lambda row: self.features.explain_overflow(asked.select([row])),
        )
        notes = [*(asked.notes if graphs is not None else ()), *self._notes(asked)]
        return Predictions(asked.graph_ids, self.card["labels"], probabilities, notes)

    def evaluate(self, graphs: "AnyGraphs | None" = None) -> dict[str, float]:
        """The bundle's metrics, computed again from its weights and the training data: of each
        fold's model on its own part, the mean over the folds.

        A model that was trained without validation data has none of it.

        Args:
            graphs: Where the training data is now, if it was moved or was in memory.
        """
        if graphs is not None:
            given = source.from_any(graphs, missing=missing_labels(self.config.data.missing))
            refuse_changed(given, self.card, "file or folder")
            self._graphs = given
        problem = prepare(self._training_graphs(), self.config, self.device)
        parts = [split_indices(problem, self.config, split) for split in self.card["split"]]
        chunks = build_chunks(problem.collection, self.config, parts)
        with torch.no_grad():
            metrics = compute_metrics(self.models, problem.collection, chunks)
        return without_empty_parts({name: float(each.mean()) for name, each in metrics.items()})

    @torch.no_grad()
    def _probabilities(self, whole: Collection) -> Tensor:
        """Of all graphs, the mean over the models, on the CPU, ``(G, C)``."""
        found = torch.empty(len(whole.labels), len(self.card["labels"]))
        members = self.models.num_members
        every = [torch.arange(len(whole.labels))] * members
        room = max_nodes_per_chunk(members, self.config, self.device)
        for chunk in evaluation_chunks(
            whole, {"asked": every}, room, expanded=needs_entries(self.config)
        ):
            batch = assemble(whole, chunk.graphs, chunk.capacity)
            logits = batch.through(self.models, batch.features)
            found[chunk.graphs[0].cpu()] = class_probabilities(logits).mean(dim=0).cpu()
        return found

    def _built(self, bundle: Bundle, member: int) -> nn.Module:
        options, classes = self.config.model, len(self.card["labels"])
        made = MODELS[options.name].from_options(options, self.card["num_features"], classes)
        made.load_state_dict({name: value[member] for name, value in bundle.tensors.items()})
        return made

    def _training_graphs(self) -> Graphs:
        if self._graphs is None:
            source_of = self.config.data
            if not source_of.name and not source_of.path:
                raise Mistake("the model was trained on graphs in memory: give the graphs again")
            refuse_moved(source_of.path)
            self._graphs = load_graphs(source_of)
        refuse_changed(self._graphs, self.card, "file or folder")
        return self._graphs

    def _new_graphs(self, graphs: AnyGraphs) -> Graphs:
        read = source.from_any(graphs, labels_needed=False)
        tagged = self.features.kind == "tags" and self.features.names != ("0",)
        if tagged and not read.tagged:
            raise Mistake(
                "the graphs have no tags of nodes, but the model was trained with "
                f"{len(self.features.names)}; give graphs like those it was trained on"
            )
        return read

    def _refuse_huge(self, graphs: Graphs) -> None:
        """Checks that what the layers hold of the largest graph fits into memory."""
        sizes, model = graphs.node_ptr.diff(), self.config.model
        place = int(sizes.argmax())
        numbers = int(sizes[place]) * model.width * (model.num_layers + 4)
        numbers *= self.models.num_members
        if 4 * numbers > total_memory(self.device):
            raise Mistake(
                f"graph {graphs.graph_ids[place]!r} has {int(sizes[place]):,} nodes, which do not "
                "fit into memory; leave the graph out"
            )

    def _notes(self, graphs: Graphs) -> list[str]:
        unknown = self.features.unknown(graphs)
        if not unknown:
            return []
        shown = [repr(name) if self.features.kind == "tags" else name for name in unknown[:5]]
        more = f" and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else ""
        return [NEVER_SEEN[self.features.kind].format(", ".join(shown) + more)]
