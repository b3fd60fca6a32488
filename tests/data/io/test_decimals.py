"""Decimal commas and thousands separators."""

import locale

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.io.decimals import looks_numeric, number_style, to_plain_numbers


@pytest.mark.parametrize(
    ("cells", "delimiter", "style"),
    [
        (["1", "2.5", "-3e4"], ",", "plain"),
        (["1.234", "5.678"], ";", "plain"),
        (["1,5", "2"], ";", "comma"),
        (["1,5", "2"], ",", "comma"),
        (["1.234,5", "1.234"], ";", "comma"),
        (["1 234,5"], ";", "comma"),
        (["1\u202f234,5", "1\u00a0234"], "\t", "comma"),
        (["1,234", "12"], ";", "comma"),
        (["1,234", "12"], ",", "grouped"),
        (["1,234", "12.5"], ";", "grouped"),
        (["1,234,567.25"], "\t", "grouped"),
        (["1'234.5"], ";", "grouped"),
        (["0.5", "1,5"], ";", None),
        (["1,2,3"], ";", None),
        (["1,234.567,8"], ";", None),
        (["12.34,5"], ";", None),
        (["\uff11,5"], ";", None),
        (["1_0"], ",", None),
    ],
)
def test_a_column_has_the_style_that_fits_all_its_cells(cells, delimiter, style):
    assert number_style(cells, delimiter) == style


def test_the_style_of_the_training_data_decides_what_may_be_either():
    assert number_style(["1,234"], ",", known="comma") == "comma"
    assert number_style(["1,234"], ";", known="grouped") == "grouped"
    assert number_style(["1.5"], ",", known="comma") == "plain"
    assert number_style(["1.234"], ",", known="comma") == "plain"
    assert number_style(["1.234"], ";", known="comma") == "comma"
    assert number_style(["1,5"], ";", known="plain") == "comma"


@given(st.floats(-1e12, 1e12), st.integers(0, 4))
def test_what_a_spreadsheet_writes_is_read_back(number, digits):
    english = f"{number:,.{digits}f}"
    german = english.translate(str.maketrans(",.", ".,"))
    swiss = english.replace(",", "\u2019")
    for cell, style in ((english, "grouped"), (german, "comma"), (swiss, "grouped")):
        (plain,) = to_plain_numbers([cell], style)
        assert float(plain) == locale.atof(f"{number:.{digits}f}")
        assert number_style([cell, "1,5" if style == "comma" else "1,000.5"]) == style


def test_half_a_column_of_numbers_looks_numeric():
    assert looks_numeric(["1", "1,5", "x"])
    assert looks_numeric(["1", "x"])
    assert not looks_numeric(["1", "x", "y"])
