"""How graph classification trains: independence of members, their epochs, their memory."""

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from on_cpu import train_in_folder
from rings import collection, config_of, outcome_of
from torch import Tensor
from torch.nn import functional as F

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data.graph import Graphs
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS
from quatgraph.tasks.ensembles import group_by_shape
from quatgraph.tasks.graph import GRAPH, batches, evaluation
from quatgraph.tasks.graph import task as running
from quatgraph.tasks.graph.evaluation import max_nodes_per_chunk
from quatgraph.tasks.graph.problem import Problem, split_indices
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.task import Member
from quatgraph.training.bundle import load_bundle
from quatgraph.training.ensemble import Ensemble
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    return collection(tmp_path)


def test_a_config_is_run_on_every_fold_with_every_seed(graphs: Graphs) -> None:
    pairs = [(m.split, m.seed) for m in GRAPH.members(config_of(seeds=2), graphs)]
    assert pairs == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


@pytest.fixture
def same_draws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches that depend on a member's own graphs alone: one after the other, and again."""

    def in_turn(random: Tensor, counts: Tensor, wanted: Tensor) -> Tensor:
        steps, _, size = random.shape
        turn = torch.arange(steps * size).view(steps, 1, size)
        return turn % counts[None, :, None]

    monkeypatch.setattr(batches, "_sample_distinct", in_turn)
    monkeypatch.setattr(batches.TrainingBatches, "_match_sizes", lambda self, graphs, epoch: graphs)


def in_double(problem: Problem) -> Problem:
    whole = problem.collection
    x = whole.features
    return dataclasses.replace(
        problem,
        collection=dataclasses.replace(
            whole,
            features=x.with_weight(x.weight.double()) if isinstance(x, Codes) else x.double(),
            adjacency=whole.adjacency.with_weight(whole.adjacency.weight.double()),
            pool=whole.pool.with_weight(whole.pool.weight.double()),
        ),
    )


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", MODELS)
def test_a_member_among_others_equals_the_same_member_alone(graphs: Graphs, name: str) -> None:
    same = {"model.name": name, "train.epochs": 3}
    configurations = [config_of(**same), config_of(**same, **{"train.lr": 0.005})]
    members = [Member(c, split, seed) for c in configurations for split, seed in ((0, 3), (2, 4))]
    problem = in_double(GRAPH.prepare(graphs, configurations[0], CPU))
    ensemble = GRAPH.train(members, problem, GRAPH.plan(members))
    for index, member in enumerate(members):
        alone = GRAPH.train([member], problem, GRAPH.plan([member]))
        for key, curve in alone.curves.items():
            torch.testing.assert_close(ensemble.curves[key][:, index], curve[:, 0])
        for key, weight in alone.weights.items():
            torch.testing.assert_close(ensemble.weights[key][index], weight[0])
    assert not torch.equal(ensemble.curves["test/loss"][:, 0], ensemble.curves["test/loss"][:, 1])


def by_themselves(problem: Problem, graphs: Graphs, places: Tensor) -> tuple[Tensor, Any, Any]:
    """What a model takes for some graphs, put together without batches."""
    some = graphs.select(places)
    x = F.one_hot(some.tags, problem.num_features).float()
    adjacency = Adjacency.from_edge_index(some.edge_index, some.num_nodes, self_loops=True)
    owner = torch.arange(len(some)).repeat_interleave(some.node_ptr.diff())
    nodes = torch.arange(some.num_nodes)
    return x, adjacency, Adjacency.from_entries(owner, nodes, None, (len(some), some.num_nodes))


@pytest.mark.usefixtures("same_draws")
@pytest.mark.parametrize(
    ("name", "by_class"), [("qgnn", None), ("gcn", None), ("gin", None), ("qgnn", [3.0, 0.5])]
)
def test_a_member_learns_from_the_training_graphs_of_its_fold_and_is_measured_on_its_others(
    graphs: Graphs, name: str, by_class: list[float] | None
) -> None:
    settings = {"model.name": name, "train.epochs": 2, "train.select": "last"}
    if by_class:  # torch weighs what is smoothed differently
        settings |= {"train.class_weights": "chain:3,ring:0.5", "train.smoothing": 0.0}
    config = config_of(**settings, **{"train.weight_decay": 0.01})
    outcome = outcome_of([Member(config, split, 7) for split in range(3)], graphs)
    problem = outcome.problem
    for index, member in enumerate(outcome.members):
        # The same by hand: torch's own Adam, clipping and loss on the graphs of each step.
        torch.manual_seed(7)
        model = GRAPH.build(config, problem).train()
        adam = torch.optim.Adam(
            model.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay
        )
        parts = split_indices(problem, config, member.split)
        steps = math.ceil((len(parts["train"]) + len(parts["valid"])) / 8)
        for _ in range(2):
            for step in range(steps):
                turn = torch.arange(8 * step, 8 * step + 8) % len(parts["train"])
                places = parts["train"][turn]
                logits = model(*by_themselves(problem, graphs, places))
                # Two classes: what torch smooths over both, the wrong one gets alone.
                smoothing = 2 * config.train.smoothing
                weight = torch.tensor(by_class) if by_class else None
                loss = F.cross_entropy(
                    logits, graphs.y[places], weight=weight, label_smoothing=smoothing
                )
                adam.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), config.train.clip)
                adam.step()
        for key, weight in model.named_parameters():
            kept = outcome.fit.weights[key][index]
            torch.testing.assert_close(kept, weight.detach(), rtol=1e-3, atol=1e-4)
        model.eval()
        for part in ("valid", "test"):
            with torch.no_grad():
                logits = model(*by_themselves(problem, graphs, parts[part]))
            labels, found = graphs.y[parts[part]], outcome.records[index].metrics
            right = (logits.argmax(dim=1) == labels).float().mean()
            assert found[f"{part}/accuracy"] == pytest.approx(float(right))
            loss = F.cross_entropy(logits, labels)
            assert found[f"{part}/loss"] == pytest.approx(float(loss), rel=1e-3)


def test_evaluating_in_chunks_gives_the_same_metrics(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = GRAPH.members(config_of(), graphs)
    whole = outcome_of(members, graphs)
    monkeypatch.setattr(running, "max_nodes_per_chunk", lambda *_: 9)
    parts = outcome_of(members, graphs)
    for key, values in whole.fit.metrics.items():
        torch.testing.assert_close(parts.fit.metrics[key], values)


def test_paper_and_honest_members_train_together_and_keep_their_own_epochs(
    graphs: Graphs,
) -> None:
    honest = config_of(**{"train.epochs": 6})
    paper = config_of(
        **{"train.epochs": 6, "protocol": "paper", "data.validation": 0, "train.select": "last"}
    )
    members = [*GRAPH.members(honest, graphs), *GRAPH.members(paper, graphs)]
    assert len(group_by_shape(GRAPH, members)) == 1
    outcome = outcome_of(members, graphs).with_curves()
    for record in outcome.records:
        measured = record.curves["valid/accuracy"]
        if record.protocol == "paper":
            assert record.best_epoch == 6
            assert all(math.isnan(value) for value in measured)
        else:
            # The best accuracy, and where several epochs reach it, the lowest loss.
            scores = [(a, -b) for a, b in zip(measured, record.curves["valid/loss"], strict=True)]
            assert record.best_epoch == 1 + scores.index(max(scores))
        kept = record.curves["test/accuracy"][record.best_epoch - 1]
        assert record.metrics["test/accuracy"] == pytest.approx(kept, rel=1e-3)
    assert {r.best_epoch for r in outcome.records if r.protocol == "honest"} != {6}
    # What the weights of a bundle give is what its record says.
    parts = split_indices(outcome.problem, honest, 1)
    model = GRAPH.build(honest, outcome.problem).eval()
    weights = bundle_of(GRAPH, [(outcome, 1, 1)], graphs).select_tensors("members.0")
    model.load_state_dict(weights)
    with torch.no_grad():
        logits = model(*by_themselves(outcome.problem, graphs, parts["valid"]))
    right = (logits.argmax(dim=1) == graphs.y[parts["valid"]]).float().mean()
    assert outcome.records[1].metrics["valid/accuracy"] == pytest.approx(float(right))


def test_the_curve_that_the_rules_of_the_paper_choose_from_is_always_kept(graphs: Graphs) -> None:
    blind = {"protocol": "paper", "data.validation": 0, "train.select": "last"}
    for config, kept in ((config_of(**blind), {"test/accuracy": 4}), (config_of(), {})):
        (record, *_) = outcome_of(GRAPH.members(config, graphs), graphs).records
        assert {name: len(curve) for name, curve in record.curves.items()} == kept


@pytest.mark.parametrize(
    "chosen",
    [
        {"model.dropout": 0.3, "model.pooled_dropout": 0.3},
        {"model.name": "wl"},
    ],
    ids=["qgnn", "wl"],
)
def test_a_resumed_training_equals_the_uninterrupted_one_bit_for_bit(
    chosen: dict[str, Any], graphs: Graphs, tmp_path: Path
) -> None:
    candidates = [config_of(**chosen, **{"train.lr": lr}) for lr in (0.01, 0.02)]

    def trained(name: str, **others: Any) -> list[Any]:
        job = train_in_folder(GRAPH, candidates, tmp_path / name, data=graphs, **others)
        return [(r.split, r.config_digest, r.best_epoch, r.metrics, r.curves) for r in job.records]

    whole = trained("whole")
    for done in (1, 2, 3):
        with pytest.raises(Paused, match=f"stopped after {done} of 4 epochs"):
            trained("parts", resume=done > 1, deadline=Deadline(0))
    assert trained("parts", resume=True) == whole
    first, second = (load_bundle(tmp_path / name) for name in ("whole", "parts"))
    assert first.card["sha256"] == second.card["sha256"]


def test_the_same_runs_give_the_same_numbers_and_other_seeds_others(graphs: Graphs) -> None:
    first, again = (outcome_of(GRAPH.members(config_of(), graphs), graphs) for _ in range(2))
    assert [r.metrics for r in first.records] == [r.metrics for r in again.records]
    other = outcome_of([Member(config_of(), split, 1) for split in range(3)], graphs)
    assert [r.metrics for r in other.records] != [r.metrics for r in first.records]


def test_fewer_members_fit_at_once_the_more_each_holds(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of()
    problem = GRAPH.prepare(graphs, config, CPU)
    plenty = GRAPH.max_members(problem, config)
    wide = config_of(**{"model.hidden_quats": 64})
    assert 1 <= GRAPH.max_members(problem, wide) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 3_000_000)
    assert 1 <= GRAPH.max_members(problem, config) < plenty


def test_a_graph_far_larger_than_memory_is_named(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "total_memory", lambda device: 10_000)
    config = config_of()
    with pytest.raises(UserError, match="graph 'ring-4' has 7 nodes, and a batch with it does not"):
        GRAPH.max_members(GRAPH.prepare(graphs, config, CPU), config)
    for name in ("diffpool", "iegn", "ppgn"):
        config = config_of(**{"model.name": name})
        with pytest.raises(UserError, match="models without dense batches are qgnn, gcn"):
            GRAPH.max_members(GRAPH.prepare(graphs, config, CPU), config)


def test_fewer_nodes_are_evaluated_at_once_the_more_members_there_are() -> None:
    few, many = (max_nodes_per_chunk(members, config_of(), CPU) for members in (1, 100))
    assert many * 100 <= few
    assert max_nodes_per_chunk(10**9, config_of(), CPU) == 1


def test_members_that_drop_out_have_four_masks_whoever_comes_first(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    plain = running.four_copies
    monkeypatch.setattr(running, "four_copies", lambda x: (seen.append(True), plain(x))[1])
    rates = [config_of(**{"model.dropout": rate, "train.epochs": 1}) for rate in (0.0, 0.5)]
    outcome_of([Member(config, 0, 0) for config in rates], graphs)
    assert seen


@pytest.mark.parametrize(("dims", "room"), [(1, 30), (2, 100)])
def test_each_graph_of_a_dense_chunk_takes_the_space_of_its_largest(
    dims: int, room: int, graphs: Graphs
) -> None:
    problem = GRAPH.prepare(graphs, config_of(), CPU)
    sizes, everything = problem.collection.num_nodes, torch.arange(len(graphs))
    chunks = evaluation.build_chunks(
        problem.collection, [{"test": everything}], ("test",), room, dense=dims
    )
    assert sorted(torch.cat([c.graphs[0] for c in chunks]).tolist()) == everything.tolist()
    for chunk in chunks:
        assert chunk.capacity.largest == int(sizes[chunk.graphs[0]].max())
        assert chunk.capacity.largest**dims * chunk.graphs.size(1) <= room


@pytest.mark.parametrize(
    ("name", "option"), [("diffpool", "model.penalty"), ("capsgnn", "model.reconstruction")]
)
def test_what_a_model_adds_to_its_loss_is_learned(name: str, option: str, graphs: Graphs) -> None:
    logits = []
    for weight in (0.0, 0.0, 1.0):
        values = {"model.name": name, option: weight, "train.epochs": 1}
        members = [Member(config_of(**values), 0, 0)]
        problem = GRAPH.prepare(graphs, members[0].config, CPU)
        (outputs,) = GRAPH.train(members, problem, GRAPH.plan(members)).outputs
        logits.append(outputs["test/logits"])
    assert torch.equal(logits[0], logits[1])
    assert not torch.equal(logits[0], logits[2])


def test_a_model_with_losses_of_its_own_learns_those_of_the_labels(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(**{"model.name": "capsgnn", "train.epochs": 1, "train.smoothing": 0.2})
    problem = GRAPH.prepare(graphs, config, CPU)
    members, found = [Member(config, 0, 0)], []

    def fit(ensemble: Ensemble, optimizer: Any, **options: Any) -> NoReturn:
        ensemble.train()
        options["batches"].draw(0)
        (indices,) = options["batches"].load(0)
        batch = batches.assemble(problem.collection, indices.graphs, indices.capacity)
        losses = batch.through(ensemble, batch.features, last=False)[0]
        found.append(options["loss"](indices)[0])
        own = torch.stack([one[label] for one, label in zip(losses, batch.labels[0], strict=True)])
        found.append((0.8 * own + 0.2 * (losses.sum(dim=1) - own)).mean())
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        GRAPH.train(members, problem, GRAPH.plan(members))
    torch.testing.assert_close(*found)


def test_a_test_graph_beyond_measure_is_not_seen_in_the_validation_loss(graphs: Graphs) -> None:
    config = config_of()
    problem = GRAPH.prepare(graphs, config, CPU)
    parts = split_indices(problem, config, 0)
    chunks = evaluation.build_chunks(problem.collection, [parts], ("valid", "test"), 1000)
    ensemble = Ensemble([lambda: GRAPH.build(config, problem)], [0]).eval()
    before = evaluation.compute_metrics(ensemble, problem.collection, chunks)

    def through(batch: batches.Batch, model: Ensemble, x: Codes | Tensor) -> Tensor:
        logits = original(batch, model, x)
        (chunk,) = chunks
        return torch.where(chunk.parts["test"][..., None] > 0, torch.inf, logits)

    original = batches.Batch.through
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches.Batch, "through", through)
        after = evaluation.compute_metrics(ensemble, problem.collection, chunks)
    assert after["test/loss"].isnan()
    assert torch.equal(after["valid/loss"], before["valid/loss"])
