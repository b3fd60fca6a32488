"""Commands that query a link model: predict and evaluate."""

import csv
import io
import json
from pathlib import Path

import portfolios
import pytest
import torch
from commands import assert_user_error, call, change_card

from quatgraph import config as configs
from quatgraph.data.link import load
from quatgraph.models.link import SimQGNN
from quatgraph.predictors import train_nodes, train_triples
from quatgraph.tasks.link.config import LinkConfig, TrainConfig
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.config import TrainConfig as NodeTrainConfig


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("countries")
    config = LinkConfig(
        model=SimQGNN.Options(dim_quats=4), train=TrainConfig(epochs=2, loss="softmax", lr=0.03)
    )
    train_triples(load("countries"), folder, config=config, device="cpu")
    return str(folder)


def predict(*arguments: str) -> str:
    result = call("predict", *arguments, "--device", "cpu")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


QUERY = "--head", "Australia", "--relation", "capital"


def test_a_single_question_is_answered_by_a_table(model: str) -> None:
    lines = predict(model, *QUERY, "--top", "3").splitlines()
    assert lines[0].split() == ["rank", "tail", "score", "known"]
    assert len(lines) == 7
    assert lines[4] == ""
    assert lines[5] == "rank: filtered, other known triples do not count; ties averaged"
    assert lines[6].startswith("score: the tail's; a whole triple has the mean of its tail's and, ")
    rows = map(json.loads, predict(model, *QUERY, "--top", "3", "--json").splitlines())
    end = lines[0].index("score") + len("score")
    for line, row in zip(lines[1:4], rows, strict=True):
        assert line.startswith(f"{row['rank']:>4}  {row['tail']} ")
        assert line[:end].endswith(f" {row['score']}")
        assert line[end:].strip() == row["known"]


def test_scores_of_several_models_are_explained(tmp_path: Path) -> None:
    (whole, *_), _ = portfolios.link(tmp_path)
    table = predict(str(whole), "--head", "person 1", "--relation", "works in", "--top", "2")
    legend = "; each the weighted mean of 2 models' log-softmax over all entities"
    assert table.splitlines()[-1].endswith(legend)


def test_heads_are_asked_for_by_a_tail(model: str) -> None:
    table = predict(model, "--tail", "Canberra", "--relation", "capital")
    assert table.split("\n")[0].split() == ["rank", "head", "score", "known"]
    assert table.count("\n") == 11 + 3
    assert "score: the head's; " in table


def test_a_triple_is_judged(model: str) -> None:
    table = predict(model, *QUERY, "--tail", "Canberra").splitlines()
    assert table[0].split() == ["tail_rank", "head_rank", "score", "known"]
    assert table[1].split()[-1] == "train"
    assert table[-1] == "score: the mean of its tail's and, by the inverse relation, its head's"


def test_the_score_of_a_triple_is_explained_as_it_is(model: str) -> None:
    """The mean of what its ends have as answers, each to a question of its own."""
    triple = {"head": "Australia", "relation": "capital", "tail": "Canberra"}

    def score(*ends: str) -> float:
        asked = [word for end in ends for word in (f"--{end}", triple[end])]
        rows = predict(model, *asked, "--top", "2000", "--json").splitlines()
        (found,) = (
            row["score"]
            for row in map(json.loads, rows)
            if all(row[end] == name for end, name in triple.items())
        )
        return found

    tail, head = score("head", "relation"), score("relation", "tail")
    assert tail != head
    assert score("head", "relation", "tail") == pytest.approx((tail + head) / 2, rel=1e-4)


def test_a_model_that_learned_tails_alone_scores_a_triple_by_its_tail(tmp_path: Path) -> None:
    (tmp_path / "facts.tsv").write_text("a\tr\tb\nb\tr\tc\nc\tr\ta\n")
    config = configs.build(LinkConfig, {"data": {"reciprocal": False}, "train": {"epochs": 1}})
    train_triples(tmp_path / "facts.tsv", tmp_path / "m", config=config, device="cpu")
    table = predict(f"{tmp_path}/m", "--head", "a", "--relation", "r", "--tail", "b")
    assert table.endswith("\nscore: its tail's\n")


def test_new_answers_are_those_that_no_part_has(model: str) -> None:
    question = ["--head", "Peru", "--relation", "borders", "--json"]
    every, new = (
        [json.loads(line) for line in predict(model, *question, *more).splitlines()]
        for more in (["--top", "2000"], ["--top", "4", "--new"])
    )
    assert new == [row for row in every if row["known"] == ""][:4]
    assert len(new) < len(every) == load("countries").num_entities


def test_a_table_of_questions_is_answered_as_csv(model: str, tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text("Peru\tborders\t?\n?\tcapital\tCanberra\nPeru\tborders\tChile\n")
    rows = list(csv.DictReader(io.StringIO(predict(model, str(file), "--top", "2"))))
    assert [row["predicted"] for row in rows] == ["tail", "tail", "head", "head", "both"]
    assert list(rows[0]) == [
        "predicted", "head", "relation", "tail", "score", "rank", "tail_rank", "head_rank", "known"
    ]  # fmt: skip
    assert [row["rank"] == "" for row in rows] == [False] * 4 + [True]
    assert [row["tail_rank"] == "" for row in rows] == [True] * 4 + [False]


def test_answers_go_to_a_file_as_csv(model: str, tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    assert predict(model, *QUERY, "--out", str(out)) == f"10 predictions in {out}\n"
    rows = list(csv.DictReader(io.StringIO(out.read_text())))
    assert {row["head"] for row in rows} == {"Australia"}


def test_nothing_new_is_nothing_printed(tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("a\tr\ta\na\tr\tb\nb\tr\ta\nb\tr\tb\n")
    config = LinkConfig(model=SimQGNN.Options(dim_quats=1), train=TrainConfig(epochs=1))
    train_triples(tmp_path / "all.tsv", tmp_path / "m", config=config, device="cpu")
    assert predict(f"{tmp_path}/m", "--head", "a", "--relation", "r", "--new") == ""


def test_missing_triples_are_ranked_by_probability(model: str, tmp_path: Path) -> None:
    asked = "--missing", "--relation", "borders", "--relation", "capital", "--top", "20"
    rows = list(csv.DictReader(io.StringIO(predict(model, *asked))))
    assert list(rows[0]) == ["head", "relation", "tail", "probability", "score"]
    assert len(rows) == 20
    assert {row["relation"] for row in rows} <= {"borders", "capital"}
    probabilities = [float(row["probability"]) for row in rows]
    assert probabilities == sorted(probabilities, reverse=True)
    predict(model, "--missing", "--out", str(tmp_path / "all.csv"))
    assert len((tmp_path / "all.csv").read_text().splitlines()) == 1001


def test_support_is_shown_in_words(model: str) -> None:
    lines = predict(model, *QUERY, "--top", "2", "--explain").splitlines()
    (row, _) = map(
        json.loads, predict(model, *QUERY, "--top", "2", "--explain", "--json").splitlines()
    )
    strongest = max(row["support"], key=row["support"].get)
    assert lines[4].startswith(f"{row['tail']}: {strongest} ({row['support'][strongest]:.2f})")
    assert lines[-1].startswith("support: how much the score of a known triple rises")
    rows = predict(model, "--missing", "--relation", "capital", "--top", "1", "--explain")
    assert rows.splitlines()[0].endswith(",support")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--missing", "--top", "0"], "top must be at least 1, got 0"),
        (["--missing", "--relation", "capitol"], "did you mean 'capital'?"),
        (
            ["--missing", "--head", "Peru"],
            "--missing does not go with --head; it takes --relation, ",
        ),
        (["--missing", "--new"], "--missing does not go with --new; it takes --relation, --top, "),
        (["--missing", "queries.tsv"], "--missing takes no data: leave out 'queries.tsv'"),
        ([*QUERY, "--relation", "borders"], "give --relation once; several are for --missing"),
        ([], "give a query, such as --head Abakan --relation 'large city in', or a file"),
        (["--head", "Autralia", "--relation", "capital"], "did you mean 'Australia'?"),
        (["--head", "Australia", "--relation", "capitol"], "did you mean 'capital'?"),
        (["--head", "Australia", "--relation", "z"], "relations are, for instance, 'borders', "),
        (["--head", "Peru", "--tail", "Chile"], "the relation is missing; choose from 'borders'"),
        (["--relation", "capital"], "head and tail are both missing"),
        ([*QUERY, "--top", "0"], "top must be at least 1, got 0"),
        (
            [*QUERY, "--node", "Peru"],
            "--node is an option for node models, but the model is for the task 'link'",
        ),
        (["nowhere.tsv"], "there is no file nowhere.tsv"),
        (["nowhere.tsv", *QUERY], "give a single query or a file of queries, not both"),
    ],
)
def test_a_question_that_cannot_be_answered_is_a_mistake(
    model: str, arguments: list[str], words: str
) -> None:
    assert_user_error(call("predict", model, *arguments), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Peru\tborders\n", "line 1 has 2 columns where 3 are needed"),
        (b"Peru,borders,?,x\n", "line 1 has 4 columns where 3 are needed"),
        (b"", "has no queries"),
        (b"Per\xfa\tborders\t?\n", "line 1 is not UTF-8 text"),
        (b"Peru\tborders\t?\nPeruu\tborders\t?\n", "line 2: there is no entity 'Peruu'; did you"),
    ],
)
def test_a_table_that_cannot_be_read_is_a_mistake(
    model: str, tmp_path: Path, content: bytes, words: str
) -> None:
    file = tmp_path / "queries.tsv"
    file.write_bytes(content)
    assert_user_error(call("predict", model, str(file)), str(file), words)


def test_evaluating_gives_the_recorded_metrics(model: str) -> None:
    result = call("evaluate", model, "--json")
    assert result.exit_code == 0
    rows = {row["metric"]: row for row in map(json.loads, result.stdout.splitlines())}
    card = json.loads((Path(model) / "card.json").read_text())
    assert rows.keys() == card["metrics"].keys() - {"valid/merit"}
    for row in rows.values():
        assert row["computed"] == pytest.approx(row["recorded"], rel=1e-4)
    assert_user_error(call("evaluate", model, "countries"), "there is no file")


@pytest.mark.parametrize(("factor", "code"), [(1.004, 0), (1.02, 1)])
def test_a_mean_rank_is_compared_by_its_size(
    model: str, tmp_path: Path, factor: float, code: int
) -> None:
    for name in ("card.json", "model.safetensors"):
        (tmp_path / name).write_bytes((Path(model) / name).read_bytes())
    metrics = json.loads((tmp_path / "card.json").read_text())["metrics"]
    change_card(tmp_path, metrics=metrics | {"test/mr": metrics["test/mr"] * factor})
    assert call("evaluate", str(tmp_path)).exit_code == code


def test_new_triples_are_ranked(model: str, tmp_path: Path) -> None:
    graph = load("countries")
    rows = [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.test]
    rows.append(("Atlantis", "borders", "Peru"))
    file = tmp_path / "new.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    result = call("evaluate", model, str(file))
    assert result.exit_code == 0
    assert result.stderr == (
        "quatgraph: 1 of 213 triples left out: the model does not know 'Atlantis'\n"
    )
    card = json.loads((Path(model) / "card.json").read_text())
    lines = dict(line.rsplit(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["triples"] == "212"
    assert float(lines["MRR"]) == pytest.approx(card["metrics"]["test/mrr"], abs=1e-4)
    report = json.loads(call("evaluate", model, str(file), "--json").stdout)
    assert report["metrics"]["hits@10"] == pytest.approx(card["metrics"]["test/hits@10"], rel=1e-4)
    new = call("evaluate", model, str(file), "--by-relation")
    assert new.stdout == call("evaluate", model, "--by-relation").stdout


def test_a_model_of_rdf_ranks_and_predicts_rdf(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    rows = [f"<u:p{k}> <u:r{k % 2}> <u:p{(k + 3) % 20}> .\n" for k in range(20)]
    facts, new, trained = tmp_path / "facts.nt", tmp_path / "new.nt", tmp_path / "m"
    facts.write_text("".join(rows))
    config = LinkConfig(model=SimQGNN.Options(dim_quats=1), train=TrainConfig(epochs=1))
    train_triples(facts, trained, config=config, device="cpu")
    new.write_text("".join(rows[:5]))
    report = json.loads(call("evaluate", str(trained), str(new), "--json").stdout)
    assert report["num_triples"] == 5
    answers = [json.loads(line) for line in predict(str(trained), str(new), "--json").splitlines()]
    assert [row["head"] for row in answers] == [f"u:p{k}" for k in range(5)]
    assert (
        call("evaluate", str(trained), str(facts)).stdout == call("evaluate", str(trained)).stdout
    )


def test_training_triples_give_the_report_on_the_test_triples(tmp_path: Path) -> None:
    facts, trained = tmp_path / "facts.tsv", str(tmp_path / "m")
    facts.write_text("".join(f"p{k}\tr{k % 2}\tp{(k + 3) % 20}\n" for k in range(20)))
    config = LinkConfig(model=SimQGNN.Options(dim_quats=1), train=TrainConfig(epochs=1))
    train_triples(facts, trained, config=config, device="cpu")
    for options in ([], ["--json"], ["--by-relation"]):
        own, given = (
            call("evaluate", trained, *options),
            call("evaluate", trained, str(facts), *options),
        )
        assert (given.exit_code, given.stdout, given.stderr) == (0, own.stdout, "")
    assert len(predict(trained, str(facts)).splitlines()) == 21


def test_relations_are_shown_by_how_often_they_are_asked_for(model: str) -> None:
    result = call("evaluate", model, "--by-relation")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["relation", "triples", "mrr", "hits@10"]
    result = call("evaluate", model, "--by-relation", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    counts = [row["triples"] for row in rows]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) == len(load("countries").test)
    for line, row in zip(lines[1:], rows, strict=True):
        shown = f"{row['mrr']:.4f}", f"{row['hits@10']:.4f}"
        assert line.startswith(row["relation"])
        assert line.split()[-3:] == [str(row["triples"]), *shown]


def test_options_of_triples_are_refused_by_other_models(tmp_path: Path) -> None:
    from torch_geometric.data import Data

    ring = torch.stack((torch.arange(12), torch.arange(12).roll(1)))
    data = Data(edge_index=ring, y=torch.arange(12) % 2, num_nodes=12)
    config = NodeConfig(train=NodeTrainConfig(epochs=1))
    train_nodes(data, tmp_path, config=config, device="cpu")
    for option in (
        ["--head", "x"],
        ["--relation", "x"],
        ["--tail", "x"],
        ["--top", "1"],
        ["--new"],
    ):
        result = call("predict", str(tmp_path), *option)
        assert_user_error(
            result, f"{option[0]} is an option for link models", "for the task 'node'"
        )
    for option, tasks in (("--missing", "link"), ("--explain", "graph, link and text")):
        result = call("predict", str(tmp_path), option)
        assert_user_error(
            result, f"{option} is an option for {tasks} models", "for the task 'node'"
        )
    result = call("evaluate", str(tmp_path), "--by-relation")
    assert_user_error(result, "--by-relation is an option for link models", "for the task 'node'")
