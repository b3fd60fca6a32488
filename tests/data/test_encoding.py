"""Columns of a table as features."""

import json

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from quatgraph.data.encoding import Column, Encoding, encode
from quatgraph.data.io.frame import Frame
from quatgraph.errors import UserError


def frame_of(delimiter: str = ",", **columns: list) -> Frame:
    """A table from a text file, or from memory without a delimiter."""
    return Frame("t", columns, "t line {}".format, delimiter)


def test_numbers_stay_as_they_are_and_need_no_note():
    made = encode(frame_of(a=["1", "-2.5"], b=["0", "1e3"]), ["a", "b"])
    assert made.x.tolist() == [[1, 0], [-2.5, 1000]]
    assert made.x.dtype == np.float32
    assert made.encoding.feature_names == ["a", "b"]
    assert made.notes == []


def test_categories_are_those_of_scikit_learn():
    words = ["red", "blue", "red", "green", "blue", "red"]
    made = encode(frame_of(c=words), ["c"])
    theirs = OneHotEncoder(sparse_output=False).fit(np.array(words)[:, None])
    assert made.x.tolist() == theirs.transform(np.array(words)[:, None]).tolist()
    assert made.encoding.feature_names == [f"c={word}" for word in theirs.categories_[0]]
    assert made.notes == ["t: text columns are one-hot encoded: 'c' (3 categories)"]


@pytest.mark.parametrize("marker", ["", "NA", "n/a", "NaN", "null", "?", "-"])
def test_missing_numbers_become_the_median_as_in_scikit_learn(marker):
    cells = ["1", marker, "7", "3", marker, "100"]
    made = encode(frame_of(a=cells), ["a"])
    values = np.array([[1.0], [np.nan], [7], [3], [np.nan], [100]])
    assert made.x.tolist() == SimpleImputer(strategy="median").fit_transform(values).tolist()
    assert made.notes == ["t: missing numbers become the median of their column: 'a' (2 rows)"]
    typed = encode(frame_of("", a=[1, None, 7, 3.0, float("nan"), 100]), ["a"])
    assert typed.x.tolist() == made.x.tolist()
    array = encode(frame_of("", a=values[:, 0]), ["a"])
    assert array.x.tolist() == made.x.tolist()


def test_missing_categories_become_zeros():
    made = encode(frame_of(c=["x", "", "y", "x"]), ["c"])
    assert made.x.tolist() == [[1, 0], [0, 0], [0, 1], [1, 0]]
    assert "t: missing categories become zeros: 'c' (1 row)" in made.notes


@pytest.mark.parametrize(("yes", "no"), [("true", "false"), ("True", "FALSE"), ("yes", "No")])
def test_booleans_are_one_feature(yes, no):
    made = encode(frame_of(b=[yes, no, "", yes]), ["b"])
    assert made.x.tolist() == [[1], [0], [1], [1]]
    assert made.encoding.columns == (Column("b", "boolean", median=1.0),)
    again = encode(frame_of("", b=[True, False, None, 1]), ["b"], made.encoding)
    assert again.x.tolist() == made.x.tolist()
    with pytest.raises(UserError, match="t line 1 has 'maybe' in column 'b'; write true or false"):
        encode(frame_of(b=["yes", "maybe"]), ["b"], made.encoding)


def test_decimal_commas_and_thousands_are_found_column_by_column():
    columns = {"a": ["1,5", "2"], "b": ["1.234,5", "7"], "c": ["3.5", "4"], "d": ["x", "x"]}
    made = encode(frame_of(";", **columns), list("abc"))
    assert made.x.tolist() == [[1.5, 1234.5, 3.5], [2, 7, 4]]
    assert made.notes == ["t: numbers are read with decimal commas: 'a', 'b'"]
    made = encode(frame_of(",", a=["1,234", "5"]), ["a"])
    assert made.x.tolist() == [[1234], [5]]
    assert made.notes == ["t: numbers are read with thousands separators: 'a'"]


def test_a_text_column_with_nearly_as_many_values_as_nodes_is_left_out():
    names = [f"name {k}" for k in range(40)]
    made = encode(frame_of(n=names, c=["x", "y"] * 20), ["n", "c"])
    assert made.encoding.feature_names == ["c=x", "c=y"]
    assert made.notes[-1] == (
        "t: text columns with too many different values are left out: 'n' (40 in 40 rows)"
    )
    few = [f"name {k % 20}" for k in range(40)]
    assert encode(frame_of(n=few), ["n"]).x.shape == (40, 20)


def test_the_rarest_of_very_many_categories_become_zeros():
    words = [f"w{k}" for k in range(150) for _ in range(3 if k < 100 else 2)]
    made = encode(frame_of(c=words), ["c"])
    assert made.x.shape == (400, 100)
    assert made.x[:300].sum() == 300
    assert not made.x[300:].any()
    assert made.notes == [
        "t: text columns are one-hot encoded: 'c' (150 categories, the 50 rarest as zeros)"
    ]


def test_an_empty_column_is_left_out():
    made = encode(frame_of(a=["", "NA"], b=["1", "2"]), ["a", "b"])
    assert made.x.tolist() == [[1], [2]]
    assert made.notes == ["t: empty columns are left out: 'a'"]
    assert encode(frame_of("", a=[None, None]), ["a"]).x.shape == (2, 0)


def test_many_columns_give_one_note():
    made = encode(frame_of(**{f"c{k}": ["x", "y"] for k in range(8)}), [f"c{k}" for k in range(8)])
    (note,) = made.notes
    assert note.endswith("'c4' (2 categories) and 3 more")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1", "2", "big"], "t line 2 has 'big' in column 'a'; write a number in plain digits"),
        (["1", "2", "inf"], "t line 2 has 'inf' in column 'a'; write a finite number"),
        (["1", "", "1e39"], "t line 2 has '1e39' in column 'a'; write a finite number"),
        (["0.5", "1,5", "2"], "t line 1 has '1,5' in column 'a'; write a number in plain"),
    ],
)
def test_a_column_of_numbers_refuses_anything_else_with_its_place(cells, words):
    with pytest.raises(UserError, match=words):
        encode(frame_of(a=cells), ["a"])


def test_numbers_in_memory_must_be_finite_in_float32():
    for bad in (np.inf, 1e39):
        with pytest.raises(
            UserError, match=r"t line 1 has .* in column 'a'; write a finite number"
        ):
            encode(frame_of("", a=np.array([1, bad])), ["a"])


def test_what_was_learned_is_applied_to_a_new_table():
    columns = {
        "age": ["10", "", "30"],
        "price": ["1,5", "2,5", "3"],
        "colour": ["red", "blue", "red"],
        "open": ["yes", "no", "yes"],
    }
    learned = encode(frame_of(";", **columns), list(columns)).encoding
    encoding = Encoding.from_dict(json.loads(json.dumps(learned.to_dict())))
    assert encoding == learned
    new = frame_of(
        ",",
        open=["", "false"],
        extra=["z", "z"],
        colour=["mauve", "blue"],
        price=["1,234", "2"],
        age=["", "1"],
    )
    made = encode(new, [], encoding)
    names = ["age", "price", "colour=blue", "colour=red", "open"]
    assert made.encoding.feature_names == names
    expected = [[20, 1.234, 0, 0, 1], [1, 2, 1, 0, 0]]
    np.testing.assert_allclose(made.x, expected, rtol=1e-6)
    assert made.notes == [
        "t: missing numbers become the median of their column: 'age' (1 row), 'open' (1 row)",
        "t: categories that the training data lacks become zeros: 'colour' ('mauve' in 1 row)",
        "t: numbers are read with decimal commas: 'price'",
    ]


def test_a_column_of_one_category_in_new_data_keeps_its_place():
    learned = encode(frame_of(c=["x", "y", "y"]), ["c"]).encoding
    assert encode(frame_of(c=["y"]), [], learned).x.tolist() == [[0, 1]]
    assert encode(frame_of("", c=[1.0]), [], learned).x.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"columns": [{}]},
        {"columns": [{"name": 1}]},
        {"columns": [{"name": "a", "kind": "odd"}]},
        {"columns": [{"name": "a", "style": "odd"}]},
        {"columns": [{"name": "a", "median": "x"}]},
        {"columns": [{"name": "a", "other": 1}]},
        {"columns": [3]},
        {"columns": 3},
    ],
)
def test_a_damaged_encoding_is_refused(values):
    with pytest.raises(UserError, match="the stored encoding of columns is damaged"):
        Encoding.from_dict(values)


def test_an_encoding_is_learned_from_some_rows_and_applied_to_all():
    columns = {"a": ["1", "", "5", "100"], "c": ["x", "x", "y", "z"], "d": ["", "", "", "w"]}
    made = encode(frame_of(**columns), list("acd"), learn_from=[0, 1, 2])
    assert made.encoding.feature_names == ["a", "c=x", "c=y"]
    assert made.x.tolist() == [[1, 1, 0], [3, 1, 0], [5, 0, 1], [100, 0, 0]]
    assert made.notes == [
        "t: text columns are one-hot encoded: 'c' (2 categories)",
        "t: missing numbers become the median of their column: 'a' (1 row)",
        "t: categories that the training data lacks become zeros: 'c' ('z' in 1 row)",
        "t: empty columns are left out: 'd'",
    ]


def test_rare_categories_of_the_rows_learned_from_are_not_called_unknown():
    words = [f"w{k}" for k in range(101)] * 2 + ["w0"]
    made = encode(frame_of(c=[*words, "new"]), ["c"], learn_from=range(len(words)))
    assert made.notes == [
        "t: text columns are one-hot encoded: 'c' (101 categories, the 1 rarest as zeros)",
        "t: categories that the training data lacks become zeros: 'c' ('new' in 1 row)",
    ]
