"""Flat tensors."""

import hashlib

import torch
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.tensors import hash_tensor, select_ranges, sizes_to_ptr


@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.data())
def test_selected_ranges_have_the_items_of_each(sizes, data):
    ptr = sizes_to_ptr(torch.tensor(sizes))
    index = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=8))
    items, selected = select_ranges(ptr, torch.tensor(index, dtype=torch.long))
    expected = [list(range(int(ptr[row]), int(ptr[row + 1]))) for row in index]
    assert items.tolist() == [item for several in expected for item in several]
    assert selected.tolist() == sizes_to_ptr(torch.tensor([len(s) for s in expected])).tolist()


def test_a_digest_depends_on_name_type_shape_and_values():
    ones = torch.ones(2, 3)
    variants = [("a", ones), ("b", ones), ("a", ones.double()), ("a", ones.T), ("a", 2 * ones)]
    digests = set()
    for key, tensor in variants:
        total = hashlib.sha256()
        hash_tensor(total, key, tensor)
        digests.add(total.hexdigest())
    assert len(digests) == len(variants)
