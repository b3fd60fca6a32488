"""Table 4: what it prints without records, what its presets train, what validation data chooses."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import run
from recorded import recorded

from quatgraph import config as configs
from quatgraph import presets
from quatgraph.presets import names
from quatgraph.reproduce import run as running
from quatgraph.reproduce import table as tables
from quatgraph.reproduce.render import cells, render
from quatgraph.reproduce.run import read_results, run_missing, search
from quatgraph.reproduce.table import Table, cell, load_table
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.training.context import Context
from tools.searches import expand_search, read_searches

CPU = Context(torch.device("cpu"))
TABLE = load_table("text")


def test_a_table_without_records_has_the_papers_numbers_and_its_note() -> None:
    lines = render(TABLE, []).splitlines()
    assert len(lines) == 2 + 4 * 9 + 2
    transductive = "| mr | TextGCN (transductive) | 76.74 ± 0.20 | not run |  | not run |  |  |  |"
    assert transductive in lines
    assert "| ohsumed | TextQGNN | 69.93 ± 0.31 | not run |  | not run |  |  |  |" in lines
    assert "| r8 | TextING, random vectors |  | not run |  | not run |  |  |  |" in lines
    assert lines[-2:] == ["", TABLE.note]
    assert render(TABLE, [], skip_missing=True).splitlines()[2:] == ["", TABLE.note]
    assert len(list(cells(TABLE, []))) == 4 * 9 * 2


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few texts that a word tells apart; they have no validation part."""
    path = tmp_path_factory.mktemp("texts") / "pets.tsv"
    rows = [
        f"a {'cat' if n % 2 else 'dog'} of {n % 7} years\t{n % 2}\t{('train', 'test')[n % 4 > 2]}"
        for n in range(40)
    ]
    path.write_text("\n".join(["text\tlabel\tsplit", *rows]))
    return path


@pytest.mark.parametrize("name", names("text"))
def test_every_preset_trains(name: str, texts: Path) -> None:
    own = ["data.name=''", f"data.path={texts}", "train.epochs=1"]
    values = configs.override(presets.preset(name), own)
    if values["data"].get("vectors", "none") != "none":
        values = configs.override(values, ["data.vectors=none", "data.dimensions=100"])
    config = configs.build(TextConfig, values)
    corpus = TEXT.load(config)
    (outcome,) = run(TEXT, TEXT.members(config, corpus), corpus)
    (record,) = outcome.records
    assert 0 <= record.metrics["test/accuracy"] <= 1
    assert record.best_epoch == 1


@pytest.mark.parametrize("dataset", TABLE.rows)
@pytest.mark.parametrize("method", ["textqgnn", "texting"])
def test_the_search_on_record_is_that_of_the_lists(dataset: str, method: str) -> None:
    records = recorded()
    found = {r.config_digest for r in tables.select_runs(TABLE, records, dataset, method, "honest")}
    lists = presets.protocols("text")["grid"]
    name = f"text/{dataset}-{method}"
    grid = configs.expand_grid(presets.preset(name), lists)
    later = [one for search in read_searches().values() for one in expand_search(search, name)]
    tried, listed = (
        {configs.digest(configs.build(TextConfig, one).identity()) for one in made}
        for made in (grid, [*grid, *later])
    )
    assert tried <= found <= listed


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table of the built-in sample, runs of one short epoch, a search through four."""
    small = ("train.epochs=1", "train.batch_size=600", "model.hidden_quats=1", "data.dimensions=4")

    def short(name: str, protocol: presets.Protocol = "paper") -> dict[str, Any]:
        return configs.override(presets.preset(name, protocol), small)

    for module in (running, tables):
        monkeypatch.setattr(module, "preset", short)
    grid = {"train.lr": [0.01, 0.02], "model.hidden_quats": [1, 2]}
    monkeypatch.setattr(running, "protocols", lambda task: {"searched": ["paper"], "grid": grid})
    return dataclasses.replace(TABLE, rows=["snippets"], columns=["textqgnn"], seeds=3)


def test_what_validation_data_chose_gets_the_seeds_it_lacks(table: Table, tmp_path: Path) -> None:
    found = search("text/snippets-textqgnn", tmp_path, CPU)
    tried = [run for part in found for run in part]
    assert [(r.method, r.protocol, r.seed) for r in tried] == [("textqgnn", "paper", 0)] * 4
    best = max(tried, key=lambda r: r.metrics["valid/accuracy"])
    for _ in run_missing(table, tmp_path, CPU):
        pass
    records = read_results(tmp_path)
    honest = cell(table, records, "snippets", "textqgnn", "honest")
    assert (honest.runs, honest.configs) == (3, 4)
    mine = [r.metrics["test/accuracy"] for r in records if r.config_digest == best.config_digest]
    assert honest.mean == pytest.approx(sum(mine) / 3)
    assert cell(table, records, "snippets", "textqgnn", "paper").runs == 3
    assert list(run_missing(table, tmp_path, CPU)) == []
