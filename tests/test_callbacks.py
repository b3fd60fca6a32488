"""Progress from Python: events, and the loggers that a user brings."""

from pathlib import Path
from typing import Any

import pytest
import reviews

import quatgraph
from quatgraph import callbacks
from quatgraph.callbacks import Event
from quatgraph.training.record import read_records


class Writer:
    """Records the calls of TensorBoard's writer."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.calls.append((tag, scalar_value, global_step))


class Run:
    """Records the calls of a run of W&B."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def log(self, data: dict[str, Any]) -> None:
        self.calls.append(data)


def trained(folder: Path, **options: Any) -> quatgraph.TextPredictor:
    config = reviews.config_of(seeds=2)
    return quatgraph.train_texts(
        reviews.TEXTS, reviews.LABELS, folder, config=config, device="cpu", **options
    )


def test_events_count_epochs_and_then_give_the_curves_of_every_run(tmp_path: Path) -> None:
    events: list[Event] = []
    trained(tmp_path / "m", callback=events.append)
    while_training = [event for event in events if not event.metrics]
    assert [event.epoch for event in while_training] == [1, 2, 3]
    assert {event.total for event in events} == {3}
    assert events[: len(while_training)] == while_training
    records, after = read_records(tmp_path / "m" / "records.jsonl"), events[len(while_training) :]
    assert len({event.title for event in after}) == len(records) == 2
    for record in records:
        (title,) = {e.title for e in after if e.title.endswith(f"seed {record.seed}")}
        own = [event for event in after if event.title == title]
        assert [event.epoch for event in own] == record.curve_epochs
        for name, curve in record.curves.items():
            assert [event.metrics[name] for event in own] == curve


def test_runs_without_curves_have_an_event_at_the_selected_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quatgraph.tasks.job.CURVES", 0)
    events: list[Event] = []
    trained(tmp_path / "m", callback=events.append)
    records = read_records(tmp_path / "m" / "records.jsonl")
    found = [(event.epoch, dict(event.metrics)) for event in events if event.metrics]
    assert found == [(record.best_epoch, record.metrics) for record in records]


def test_loggers_get_scalars_by_run() -> None:
    writer, run = Writer(), Run()
    for log in (callbacks.tensorboard(writer), callbacks.wandb(run)):
        log(Event("a", 1, 2))
        log(Event("a", 1, 2, {"valid/accuracy": 0.5, "valid/loss": 1.5}))
        log(Event("b", 1, 2, {"valid/accuracy": 0.25}))
    assert writer.calls == [
        ("a/valid/accuracy", 0.5, 1),
        ("a/valid/loss", 1.5, 1),
        ("b/valid/accuracy", 0.25, 1),
    ]
    assert run.calls == [
        {"a/valid/accuracy": 0.5, "a/valid/loss": 1.5, "epoch": 1},
        {"b/valid/accuracy": 0.25, "epoch": 1},
    ]


def test_a_bar_is_drawn_only_on_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = trained(tmp_path / "m", progress=True)
    assert capsys.readouterr() == ("", "".join(f"quatgraph: {note}\n" for note in model.notes))
