"""Tables of text."""

import pytest

from quatgraph.data.io.table import read_table
from quatgraph.errors import UserError


@pytest.mark.parametrize("mark", [",", "\t", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_are_separated_by_the_mark_of_the_first_line(mark, end, tmp_path):
    file = tmp_path / "t.csv"
    text = end.join(mark.join(row) for row in (["a", "b"], [" 1", "2 "], ["x:y", "z"]))
    file.write_bytes(text.encode())
    assert read_table(file).columns == [["a", "1", "x:y"], ["b", "2", "z"]]


def test_a_byte_order_mark_and_blank_lines_are_left_out(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(b"\xef\xbb\xbfid\n\n\xc3\xa9\n\n")
    table = read_table(file)
    assert table.columns == [["id", "\u00e9"]]
    assert table.at(1) == f"{file} line 3"


def test_quoted_cells_may_hold_separators_and_line_breaks(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('a,b\n"1,\n2",x\nlast,y\n')
    table = read_table(file)
    assert table.columns[0] == ["a", "1,\n2", "last"]
    assert table.at(2).endswith("line 4")


def test_an_empty_file_has_no_columns(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("\n\n")
    assert len(read_table(file)) == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b\n1,2\n3\n", "line 3 has 1 cells but the first line has 2"),
        (b"a,b\n1,2\n\xff,3\n", "line 3 is not UTF-8"),
        ("a,b\n".encode("utf-16"), "line 1 is not UTF-8"),
        (b"a,b\n1,\0\n", "line 2 holds a NUL byte"),
        (b'a,b\n"1,2\n', "not valid CSV"),
        (b'a,b\n"1"2,2\n', "line 2 is not valid CSV"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(content, words, tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes(content)
    with pytest.raises(UserError, match=words) as caught:
        read_table(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"there is no file .*t\.csv"):
        read_table(tmp_path / "t.csv")
