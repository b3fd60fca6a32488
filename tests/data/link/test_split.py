"""Parts that are drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.link.parts import Part, Parts
from quatgraph.data.link.split import draw_parts, spare_triples

graphs = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)),
    min_size=1,
    max_size=60,
    unique=True,
)


def as_parts(triples: np.ndarray) -> Parts:
    part = Part("f", triples, np.arange(1, len(triples) + 1))
    return Parts({"train": part}, [f"e{n}" for n in range(7)], [f"r{n}" for n in range(3)])


@given(graphs, st.integers(0, 5))
def test_nothing_in_valid_and_test_is_new_and_nothing_is_lost(rows, seed):
    triples = np.array(rows)
    parts = draw_parts(as_parts(triples), seed)
    drawn = {key: part.triples for key, part in parts.by_name.items()}
    train = drawn["train"]
    together = np.concatenate(list(drawn.values()))
    assert sorted(map(tuple, together.tolist())) == sorted(rows)
    assert set(train[:, [0, 2]].flat) == set(triples[:, [0, 2]].flat)
    assert set(train[:, 1]) == set(triples[:, 1])
    for part in parts.by_name.values():
        assert np.array_equal(triples[part.lines - 1], part.triples)
        assert (np.diff(part.lines) > 0).all()
    spare = len(spare_triples(triples, seed))
    share = max(1, int(len(rows) * 0.05 + 0.5))
    assert len(drawn["valid"]) == min(share, -(-spare // 2))
    assert len(drawn["test"]) == min(share, spare // 2)


@given(graphs, st.integers(0, 5))
def test_all_spare_triples_may_go_together(rows, seed):
    triples = np.array(rows)
    left = np.delete(triples, spare_triples(triples, seed), axis=0)
    assert set(left[:, [0, 2]].flat) == set(triples[:, [0, 2]].flat)
    assert set(left[:, 1]) == set(triples[:, 1])


def test_a_large_graph_gives_its_share_and_another_seed_another_one():
    random = np.random.default_rng(0)
    triples = np.unique(random.integers(0, [7, 3, 7], size=(2000, 3)), axis=0)
    parts = [draw_parts(as_parts(triples), seed) for seed in (0, 0, 1)]
    share = int(len(triples) * 0.05 + 0.5)
    sizes = [len(parts[0].by_name[key]) for key in ("train", "valid", "test")]
    assert sizes == [len(triples) - 2 * share, share, share]
    first, again, other = (part.by_name["test"].lines.tolist() for part in parts)
    assert first == again != other
    assert parts[0].notes == [
        f"of the triples of f {share} for valid and {share} for test were put aside, by seed 0"
    ]


@pytest.mark.parametrize("missing", [(), ("valid",), ("test",)])
def test_only_what_is_missing_is_drawn(missing):
    whole = as_parts(np.array([[0, 0, 1], [1, 0, 0], [0, 1, 1], [1, 1, 0], [1, 1, 1]]))
    train = whole.by_name["train"]
    given_parts = {key: train for key in ("train", "valid", "test") if key not in missing}
    drawn = draw_parts(Parts(given_parts, whole.entities, whole.relations), 0)
    assert len(drawn.by_name["train"]) == 5 - len(missing)
    for key in {"valid", "test"} - set(missing):
        assert drawn.by_name[key] is train
