"""Text full of numbers, and the lines of its mistakes."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.io import numbers
from quatgraph.data.io.numbers import real_numbers, whole_numbers
from quatgraph.errors import UserError

MANY = st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=5), max_size=12)


@given(MANY, st.sampled_from([" ", ", ", "\t", "  "]), st.sampled_from(["\n", "\r\n"]))
def test_whole_numbers_keep_their_lines_whatever_separates_them(lists, gap, end):
    text = end.join(gap.join(map(str, line)) for line in lists).encode()
    rows = whole_numbers(text, "f")
    assert rows.values.tolist() == [value for line in lists for value in line]
    assert rows.counts.tolist() == [len(line) for line in lists if line]
    assert rows.lines.tolist() == [number for number, line in enumerate(lists, 1) if line]


def test_a_text_read_in_pieces_is_the_same_text(monkeypatch):
    text = b"".join(b"%d -%d,%d\n" % (n, n, n * n) for n in range(500)) + b"7"
    whole = whole_numbers(text, "f"), real_numbers(text, "f")
    monkeypatch.setattr(numbers, "_CHUNK", 50)
    for one, pieces in zip(whole, (whole_numbers(text, "f"), real_numbers(text, "f")), strict=True):
        for key in ("values", "counts", "lines"):
            assert np.array_equal(getattr(one, key), getattr(pieces, key))
    with pytest.raises(UserError, match=r"f line 502 has 'x1'"):
        whole_numbers(text + b"\nx1", "f")
    with pytest.raises(UserError, match=r"f line 503 has '8-'"):
        whole_numbers(text + b"\n9\n8- 1", "f")
    with pytest.raises(UserError, match=r"f line 502 has 'x1'"):
        real_numbers(text + b"\n1.5 x1", "f")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"1 2\n3 a4 5", "line 2 has 'a4'"),
        (b"1 2\n3 1.5", "line 2 has '1.5'"),
        (b"1-2", "line 1 has '1-2'"),
        (b"1 2\n3 -", "line 2 has '-'"),
        (b"-5 -\n1", "line 1 has '-'"),
        (b"--1", "line 1 has '--1'"),
        (b"1\n\xff\xfe", "line 2 has"),
    ],
)
def test_what_is_no_whole_number_is_named_with_its_line(text, words):
    with pytest.raises(UserError, match=f"f {words}"):
        whole_numbers(text, "f")


def test_real_numbers_may_have_a_point_and_an_exponent():
    text = b"1.5, -2e3\n.25 10.\n\n7"
    rows = real_numbers(text, "f")
    assert rows.values.tolist() == [1.5, -2000.0, 0.25, 10.0, 7.0]
    assert rows.counts.tolist() == [2, 2, 1]
    assert rows.lines.tolist() == [1, 2, 4]


@pytest.mark.parametrize("value", [b"nan", b"inf", b"-inf", b"1e39", b"1e400"])
def test_a_real_number_that_is_not_finite_is_refused_with_its_line(value):
    with pytest.raises(UserError, match="f line 4 has a value that is no finite number"):
        real_numbers(b"1 2\n\n3 4\n5 " + value + b"\n6 7", "f")


def test_rows_of_unequal_length_are_no_matrix():
    rows = whole_numbers(b"1 2\n\n3\n4 5", "f")
    with pytest.raises(UserError, match="f line 3 has 1 number where 2 are needed"):
        rows.matrix()
    assert whole_numbers(b"1 2\n3 4", "f").matrix().tolist() == [[1, 2], [3, 4]]
    assert whole_numbers(b"", "f").matrix(2).shape == (0, 2)


def test_threads_that_read_numbers_leave_the_filters_of_warnings_alone():
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        found = list(
            pool.map(lambda _: real_numbers(b"1 2.5\n", "here").values.tolist(), range(500))
        )
    assert found == 500 * [[1, 2.5]]
    assert list(warnings.filters) == before


def test_a_word_that_two_numbers_make_up_for_is_refused():
    with pytest.raises(UserError, match="here line 1 has '1-2'; write numbers only"):
        real_numbers(b"1-2 x", "here")


@pytest.mark.parametrize("text", [b"9007199254740993\x0c5", b"1" + 400 * b"0" + b"\x0c5"])
def test_a_form_feed_separates_no_whole_numbers(text):
    with pytest.raises(UserError, match=r"here line 1 has .*; write numbers only"):
        whole_numbers(text, "here")
