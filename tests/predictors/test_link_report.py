"""Reports on new triples: their ranks, filtered by all known triples and by each other."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from quatgraph.data.link import Triples, load
from quatgraph.errors import UserError
from quatgraph.models.link import SimQGNN
from quatgraph.predictors import LinkPredictor, train_triples
from quatgraph.predictors.queries import parse_triples
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> LinkPredictor:
    train = TrainConfig(epochs=5, lr=0.03, batch_size=256, evaluate_every=5)
    config = LinkConfig(model=SimQGNN.Options(dim_quats=4), train=train)
    folder = tmp_path_factory.mktemp("countries")
    return train_triples(load("countries"), folder, config=config, device="cpu")


def named(triples: Triples, rows: Tensor) -> list[tuple[str, str, str]]:
    ends, kinds = triples.entities, triples.relations
    return [(ends[h], kinds[r], ends[t]) for h, r, t in rows.tolist()]


def test_new_triples_are_ranked_as_the_test_triples_are(
    predictor: LinkPredictor, tmp_path: Path
) -> None:
    graph = predictor.triples
    rows = named(graph, graph.test)
    report, whole = predictor.report(rows), predictor.report()
    assert report.metrics == pytest.approx(whole.metrics)
    assert report.relations.keys() == whole.relations.keys()
    assert report.num_triples == len(rows) == whole.num_triples
    assert {f"test/{name}": value for name, value in report.metrics.items()}.items() <= {
        name: pytest.approx(value) for name, value in predictor.evaluate().items()
    }.items()
    one = predictor.report(rows[:1])
    (expected,) = predictor.predict(rows[:1]).rows()
    ranks = expected["tail_rank"], expected["head_rank"]
    assert one.metrics["mr"] == pytest.approx(sum(ranks) / 2)
    file = tmp_path / "new.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    assert predictor.report(file).metrics == report.metrics


def test_training_data_is_known_in_any_order_and_any_format(
    predictor: LinkPredictor, tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    graph, expected = predictor.triples, predictor.report().to_dict()
    rows = named(graph, torch.cat((graph.test, graph.train, graph.valid)))
    table, objects = tmp_path / "all.tsv", tmp_path / "all.jsonl"
    table.write_text("".join("\t".join(row) + "\n" for row in rows))
    keys = "head", "relation", "tail"
    objects.write_text(
        "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    )
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in ("train", "valid", "test"):
        lines = ["\t".join(row) + "\n" for row in named(graph, getattr(graph, part))]
        (folder / f"{part}.tsv").write_text("".join(lines))
    frame = pandas.DataFrame(rows, columns=keys)
    for data in (table, str(objects), folder, rows, frame, graph):
        assert predictor.adopt(data)
        assert predictor.report(data).to_dict() == expected
    assert predictor.report(iter(rows)).to_dict() == expected
    assert predictor.report(table, part="valid").num_triples == len(graph.valid)
    assert predictor.evaluate(table) == predictor.evaluate()
    for other in (rows[1:], [*rows, ("Peru", "borders", "Atlantis")], named(graph, graph.test)):
        assert not predictor.adopt(other)
        assert predictor.report(other).num_triples == len(set(other) & set(rows))
    (folder / "train.tsv").write_text("Peru\tborders\tChile\n")
    report = predictor.report(folder)
    assert report.metrics == predictor.report(named(graph, graph.test)).metrics
    assert report.notes == [f"the triples that are ranked are those of {folder / 'test.tsv'}"]


@pytest.mark.parametrize("setting", ["header", "columns", "unseen", "entities"])
def test_training_data_is_read_with_the_settings_of_the_training(
    setting: str, tmp_path: Path
) -> None:
    facts = [(f"p{k}", "knows", f"p{(k + 3) % 12}") for k in range(12)]
    data, settings = tmp_path / "facts.csv", {"split_seed": 5}
    lines = [",".join(row) for row in facts]
    if setting == "header":
        lines, settings = ["wer,wie,wen", *lines], {"header": True}
    elif setting == "columns":
        names = {"head": "who", "relation": "how", "tail": "whom"}
        lines, settings = ["1,who,how,whom", *(f"2,{line}" for line in lines)], names
    elif setting == "entities":
        about = tmp_path / "about.csv"
        about.write_text("code,size\np1,3\np2,5\n")
        settings = {"entities": str(about), "entity": "code"}
    data.write_text("\n".join(lines))
    if setting == "unseen":
        data = tmp_path / "parts"
        data.mkdir()
        settings = {"unseen": "drop"}
        (data / "train.csv").write_text("\n".join(lines))
        (data / "test.csv").write_text("p1,knows,p2\np1,knows,nobody\n")
    options = SimQGNN.Options(dim_quats=1)
    config = LinkConfig(
        data=DataConfig(**settings),
        model=options,
        train=TrainConfig(epochs=1),  # type: ignore[arg-type]
    )
    model = train_triples(data, tmp_path / "model", config=config, device="cpu")
    (tmp_path / "about.csv").unlink(missing_ok=True)  # the bundle has its features
    moved = data.rename(tmp_path / f"moved{data.suffix}")
    assert model.adopt(moved)
    assert model.report(moved).to_dict() == model.report().to_dict()


def test_new_triples_are_filtered_by_each_other(predictor: LinkPredictor) -> None:
    """Two new tails of one query do not count as rivals."""
    graph = predictor.triples
    head, relation, known = graph.test[0].tolist()
    taken = set(graph.train[(graph.train[:, 0] == head)][:, 2].tolist()) | {known, head}
    new = next(entity for entity in range(graph.num_entities) if entity not in taken)
    rows = named(graph, torch.tensor([[head, relation, new], [head, relation, known]]))
    both, _ = predictor._rank_new(parse_triples(rows, graph))
    pairs = torch.tensor([[head, relation]])
    query, candidates = predictor.model.combine_vectors(*pairs.unbind(1))
    scores = (query @ candidates.mT)[0]
    wholes = torch.cat((graph.train, graph.valid, graph.test))
    same = (wholes[:, 0] == head) & (wholes[:, 1] == relation)
    rivals = torch.ones(graph.num_entities, dtype=torch.bool)
    rivals[wholes[same][:, 2]] = False
    rivals[new] = False
    ahead = int((scores[rivals] > scores[new]).sum())
    place = parse_triples(rows, graph)[:, 2].tolist().index(new)
    assert abs(int(both.greater[place]) - ahead) <= 1


def test_triples_with_unknown_names_are_left_out_and_those_of_training_are_told(
    predictor: LinkPredictor,
) -> None:
    graph = predictor.triples
    rows = [*named(graph, graph.test[:5]), ("Atlantis", "borders", "Peru"), ("Peru", "eats", "it")]
    rows += [*rows[:2], *named(graph, graph.train[:3])]
    report = predictor.report(rows)
    assert report.num_triples == 8
    assert report.notes == [
        "2 of 12 triples left out: the model does not know 'Atlantis', 'eats', 'it'",
        "2 of 12 triples repeat others; each counts once",
        "3 of 8 triples are training triples, which makes the result look better than it is",
    ]
    with pytest.raises(UserError, match="it does not know 'Atlantis'"):
        predictor.report([("Atlantis", "borders", "Peru")])
    with pytest.raises(UserError, match="query 2: a triple needs a head, a relation and a tail"):
        predictor.report([rows[0], ("Peru", "borders", "?")])
