"""Shared code of the answers of classifiers: a table of the items of the training data."""

import csv
import io
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from quatgraph.predictors.predictions import Predictions
from quatgraph.serve.answers.base import Answers, Reply, exact

COLUMNS = ("id", "prediction", "probability", "label", "split")


class ItemAnswers(Answers):
    """A classifier with nodes, graphs or documents of its own."""

    @property
    def predictions(self) -> Predictions:
        """Those of the whole training data, computed once."""
        return self._cache.get("predictions", self.predictor.predict)

    def items(self, filters: Mapping[str, str], offset: int, limit: int) -> Reply:
        rows, total = self._select_rows(filters, offset, limit)
        return {"total": total, "offset": offset, "items": rows}

    def items_csv(self, filters: Mapping[str, str]) -> str:
        rows, _ = self._select_rows(filters, 0, len(self.predictions.ids))
        text = io.StringIO()
        columns = [key for key in COLUMNS if not rows or key in rows[0]]
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def _select_rows(
        self, filters: Mapping[str, str], offset: int, limit: int
    ) -> tuple[list[Reply], int]:
        """Some rows of the table of items, and how many there are.

        Args:
            filters: ``q``, a part of the id; and values of ``prediction``, ``label`` and ``split``.
            offset: Rows to skip.
            limit: Rows to return, at most.
        """
        found = self.predictions
        wanted = filters.get("q", "").casefold()
        columns = {
            "prediction": found.labels,
            "label": found.known_labels or [],
            "split": found.splits or [],
        }
        chosen = [
            place
            for place, name in enumerate(found.ids)
            if wanted in name.casefold()
            and all(
                not (value := filters.get(key)) or (bool(column) and str(column[place]) == value)
                for key, column in columns.items()
            )
        ]
        some = chosen[offset : offset + limit]
        best = found.probabilities[some].amax(dim=1).tolist() if some else []
        rows = [
            {"id": found.ids[place], "probability": exact(p)}
            | {key: column[place] for key, column in columns.items() if column}
            for place, p in zip(some, best, strict=True)
        ]
        return rows, len(chosen)

    def _select(self, places: Sequence[int]) -> Predictions:
        """The predictions of some items of the training data."""
        found = self.predictions
        some = list(places)
        known, splits = found.known_labels, found.splits
        return replace(
            found,
            ids=[found.ids[place] for place in some],
            probabilities=found.probabilities[some],
            known_labels=None if known is None else [known[place] for place in some],
            splits=None if splits is None else [splits[place] for place in some],
        )

    @abstractmethod
    def _ids(self) -> Sequence[str]:
        """The ids of the items, in their order."""
