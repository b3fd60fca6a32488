"""Which steps of an epoch are done as one."""

import pytest

from quatgraph.training.batches import WholeData, group_steps


@pytest.mark.parametrize(
    ("shapes", "most", "wanted"),
    [
        ("", 3, []),
        ("a", 3, [(0, 1)]),
        ("aaaaaaab", 3, [(0, 3), (3, 3), (6, 1), (7, 1)]),
        ("aabaa", 2, [(0, 2), (2, 1), (3, 2)]),
        ("aaa", 1, [(0, 1), (1, 1), (2, 1)]),
    ],
)
def test_so_many_of_one_shape_are_done_together_and_the_rest_singly(shapes, most, wanted):
    assert list(group_steps(shapes, most)) == wanted


def test_all_data_is_one_step():
    data = WholeData("graph")
    assert list(group_steps(data.draw(0), data.max_loaded)) == [(0, 1)]
    assert list(data.load(0, 1)) == ["graph"]
