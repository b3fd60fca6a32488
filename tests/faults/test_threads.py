"""Eight threads get from one predictor the predictions that one thread gets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import portfolios
import pytest
import reviews
import rings
import torch

import quatgraph

THREADS, CALLS = 8, 40
QUERIES: dict[str, list[Callable[[Any], Any]]] = {
    "node": [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(nodes=["n1", "n20"]),
        lambda predictor: predictor.evaluate(),
    ],
    "graph": [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(ids=[line["id"] for line in rings.lines()[:3]]),
        lambda predictor: predictor.evaluate(),
    ],
    "link": [
        lambda predictor: predictor.predict(head="person 1", relation="works in"),
        lambda predictor: predictor.predict([("city 1", "knows", "?"), ("?", "knows", "city 1")]),
        lambda predictor: predictor.predict([("person 1", "knows", "person 6")]),
        lambda predictor: predictor.evaluate(),
    ],
    "text": [
        lambda predictor: predictor.predict(),
        lambda predictor: predictor.predict(reviews.TEXTS[0], explain=True),
        lambda predictor: predictor.evaluate(),
    ],
}


def rows_of(found: Any) -> Any:
    return found if isinstance(found, dict) else list(found.rows())


@pytest.mark.parametrize(
    "task",
    [pytest.param(t, marks=pytest.mark.slow if t in ("graph", "text") else ()) for t in QUERIES],
)
def test_eight_threads_get_the_predictions_of_one(task: str, tmp_path: Path) -> None:
    (several, single, *_), _ = getattr(portfolios, task)(tmp_path / "data")
    queries = QUERIES[task]
    for model in (single, several):
        expected = [rows_of(query(quatgraph.load(model, device="cpu"))) for query in queries]
        shared = quatgraph.load(model, device="cpu")  # fresh, so that threads meet what it caches

        def differing(thread: int) -> list[int]:
            torch.set_num_threads(1)  # each thread has a number of its own
            places = [(thread + call) % len(queries) for call in range(CALLS)]
            found = ((place, rows_of(queries[place](shared))) for place in places)  # noqa: B023
            return [place for place, rows in found if rows != expected[place]]  # noqa: B023

        with ThreadPoolExecutor(THREADS) as pool:
            assert list(pool.map(differing, range(THREADS))) == [[]] * THREADS
