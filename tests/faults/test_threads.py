"""Eight threads get from one predictor the answers that one thread gets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import karate
import pytest
import reviews
import rings
import torch
from on_cpu import train_in_folder

import quatgraph
from quatgraph.models.link import SimQGNN
from quatgraph.predictors import Predictor
from quatgraph.tasks import TASKS
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig

THREADS, CALLS = 8, 40
CPU = torch.device("cpu")


def node(folder: Path) -> tuple[Path, list[Callable[[Predictor], Any]]]:
    config = karate.config_of(**{"train.epochs": 20})
    model = train_in_folder(TASKS["node"], [config], folder / "model").folder
    return model, [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(nodes=["1", "34"]),
        lambda predictor: predictor.evaluate(),
    ]


def graph(folder: Path) -> tuple[Path, list[Callable[[Predictor], Any]]]:
    path = rings.written(folder / "rings.jsonl", rings.lines())
    config = rings.config_of(**{"data.path": str(path), "train.epochs": 20})
    model = train_in_folder(TASKS["graph"], [config], folder / "model").folder
    few = rings.written(folder / "few.jsonl", rings.lines()[:3])
    return model, [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(few),
        lambda predictor: predictor.evaluate(),
    ]


def link(folder: Path) -> tuple[Path, list[Callable[[Predictor], Any]]]:
    config = LinkConfig(
        data=DataConfig(name="countries"),
        model=SimQGNN.Options(dim_quats=4),
        train=TrainConfig(epochs=5, lr=0.03, batch_size=256, loss="softmax", evaluate_every=5),
    )
    model = train_in_folder(TASKS["link"], [config], folder / "model").folder
    return model, [
        lambda predictor: predictor.predict(head="Australia", relation="capital"),
        lambda predictor: predictor.predict([("Peru", "borders", "?"), ("?", "borders", "Peru")]),
        lambda predictor: predictor.predict([("Peru", "borders", "Chile")]),
    ]


def text(folder: Path) -> tuple[Path, list[Callable[[Predictor], Any]]]:
    path = reviews.written(folder / "reviews.csv")
    config = reviews.config_of(**{"data.path": str(path), "train.epochs": 5})
    model = train_in_folder(TASKS["text"], [config], folder / "model").folder
    return model, [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(reviews.TEXTS[0], explain=True),
        lambda predictor: predictor.evaluate(),
    ]


def shown(answer: Any) -> Any:
    return answer if isinstance(answer, dict) else list(answer.rows())


@pytest.mark.parametrize("make", [node, graph, link, text], ids=lambda make: make.__name__)
def test_eight_threads_get_the_answers_of_one(make, tmp_path):
    model, queries = make(tmp_path)
    expected = [shown(query(quatgraph.load(model, device="cpu"))) for query in queries]
    shared = quatgraph.load(model, device="cpu")  # fresh, so that threads meet what it caches

    def ask(thread: int) -> list[int]:
        torch.set_num_threads(1)  # each thread has a number of its own
        places = [(thread + call) % len(queries) for call in range(CALLS)]
        return [place for place in places if shown(queries[place](shared)) != expected[place]]

    with ThreadPoolExecutor(THREADS) as pool:
        wrong = list(pool.map(ask, range(THREADS)))
    assert wrong == [[]] * THREADS
