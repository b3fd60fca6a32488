"""Labels as class numbers."""

import numpy as np

from quatgraph.data.labels import encode_labels, encode_numbers


def test_names_are_sorted_by_value_where_all_are_numbers():
    codes, names = encode_labels(["b", "a", "", "b"])
    assert (codes.tolist(), names) == ([1, 0, -1, 1], ["a", "b"])
    assert encode_labels(["10", "9", "b"])[1] == ["10", "9", "b"]
    codes, names = encode_numbers(np.array([10, -1, 9, 10]))
    assert (codes.tolist(), names) == ([2, 0, 1, 2], ["-1", "9", "10"])
