"""Rows of triples in memory: names and whole numbers are read, all else is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import quatgraph
from quatgraph.data.link import from_names
from quatgraph.errors import UserError

FACTS: list[list[Any]] = [["a", "knows", "b"], ["b", "knows", "c"], ["c", "knows", "a"]]
NUMBERS = [[0, 7, 1], [1, 7, 10], [10, 7, 0]]


class NAType:
    """Compares like that of pandas: to neither true nor false."""

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), "", "  ", NAType()])
@pytest.mark.parametrize(("column", "role"), [(0, "head"), (1, "relation"), (2, "tail")])
def test_a_missing_cell_is_refused_by_its_row(missing: Any, column: int, role: str) -> None:
    rows = [[*row] for row in FACTS]
    rows[1][column] = missing
    with pytest.raises(UserError) as refused:
        from_names(rows)
    assert str(refused.value) == (f"triple 2 has no {role}; fill it in or leave the triple out")


@pytest.mark.parametrize(
    "rows",
    [
        NUMBERS,
        np.array(NUMBERS),
        torch.tensor(NUMBERS),
        list(np.array(NUMBERS, dtype=np.int32)),
        list(torch.tensor(NUMBERS)),
        [[torch.tensor(cell) for cell in row] for row in NUMBERS],
        (tuple(row) for row in NUMBERS),
    ],
)
def test_whole_numbers_are_names(rows: Any) -> None:
    triples = from_names(rows)
    assert (triples.entities, triples.relations) == (["0", "1", "10"], ["7"])


@pytest.mark.parametrize(
    ("cell", "kind"), [(0.5, "float"), (b"a", "bytes"), (True, "bool"), (["a"], "list")]
)
def test_a_cell_of_another_type_is_refused(cell: Any, kind: str) -> None:
    with pytest.raises(
        UserError, match=f"^triple 4 has a tail of type {kind}; give text or a whole"
    ):
        from_names([*FACTS, ["a", "knows", cell]])


@pytest.mark.parametrize("rows", [None, 5, {"a": 1}, b"abc", object()])
def test_what_is_no_list_of_rows_is_refused(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^triples must be rows of head, relation and tail, or a pa"
    ):
        quatgraph.train_triples(rows, tmp_path / "model")


@pytest.mark.parametrize("row", [1, None, "abc", {"a", "b", "c"}, ("a", "b"), torch.tensor(3)])
def test_a_row_of_another_form_is_refused(row: Any) -> None:
    with pytest.raises(UserError, match=r"^triple 1 is .*; give head, relation and tail of each"):
        from_names([row])
