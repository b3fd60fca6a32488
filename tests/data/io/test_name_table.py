"""Tables of names."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.io import name_table as module
from quatgraph.data.io.name_table import NameTable
from quatgraph.errors import UserError

NAMES = ("head", "relation", "tail")


def rows_of(content: bytes) -> list[list[str]]:
    """All rows, whatever the pieces."""
    found = []
    for columns, _ in NameTable.parse(content, "here", NAMES).chunks():
        found += zip(*columns, strict=True)
    return [list(row) for row in found]


def lines_of(content: bytes) -> list[int]:
    return [
        line
        for _, lines in NameTable.parse(content, "f", NAMES).chunks()
        for line in lines.tolist()
    ]


@pytest.mark.parametrize("mark", ["\t", ",", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", ["", "end", "blank"])
def test_columns_are_separated_by_tabs_commas_or_semicolons(mark, end, last):
    rows = [["a", "is", "é"], ["b c", "is", "a"]]
    text = end.join(mark.join(row) for row in rows) + {"": "", "end": end, "blank": 3 * end}[last]
    assert rows_of(text.encode()) == rows


def test_a_tab_in_the_first_line_makes_commas_letters():
    assert rows_of(b"Paris, Texas, USA\tis in\tUSA\n") == [["Paris, Texas, USA", "is in", "USA"]]


def test_blank_lines_are_left_out_and_lines_counted():
    content = b"\n\na\tb\tc\n\n  \nd\te\tf\n"
    assert rows_of(content) == [["a", "b", "c"], ["d", "e", "f"]]
    assert lines_of(content) == [3, 6]
    quoted = b'\na,b,"c"\n\n \nd,e,f\n'
    assert rows_of(quoted) == [["a", "b", "c"], ["d", "e", "f"]]
    assert lines_of(quoted) == [2, 5]


def test_quotes_between_commas_are_those_of_csv():
    content = b'"Paris, Texas",is in,"the ""Lone Star"" state"\na, "b; c", d\n'
    first, second = rows_of(content)
    assert first == ["Paris, Texas", "is in", 'the "Lone Star" state']
    assert second == ["a", "b; c", "d"]


def test_quotes_between_tabs_are_letters_unless_they_hold_a_whole_cell():
    content = b'"Weird Al" Yankovic\tis\t"a ""musician"""\n"Paris"\t"\tsay "hi"\n'
    first, second = rows_of(content)
    assert first == ['"Weird Al" Yankovic', "is", 'a "musician"']
    assert second == ["Paris", '"', 'say "hi"']


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
@given(
    st.lists(st.lists(st.text('ab" ,é', max_size=9), min_size=3, max_size=3), min_size=1),
    st.sampled_from(",;"),
)
def test_what_csv_writes_is_read_back(chunk, rows, mark):
    text = io.StringIO()
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows([["h", "r", "t"], *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        patch.setattr(module, "_ROWS", chunk)
        found = rows_of(text.getvalue().encode())
    assert found[1:] == [[cell.strip() for cell in row] for row in rows]


@pytest.mark.parametrize("chunk", [1, 5, 1 << 20])
@given(st.lists(st.lists(st.text("abé ", max_size=9), min_size=3, max_size=3), min_size=1))
def test_pieces_of_any_size_make_the_same_table(chunk, rows):
    text = "".join("\t".join(row) + "\n" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", chunk)
        assert rows_of(text.encode()) == [[cell.strip() for cell in row] for row in rows]
        assert lines_of(text.encode()) == list(range(1, len(rows) + 1))


def test_the_first_line_can_be_looked_at_and_left_out():
    table = NameTable.parse(b'\n"h",r,t\na,b,"c"\n', "here", NAMES)
    assert table.first_row() == ["h", "r", "t"]
    ((columns, lines),) = table.skip_first().chunks()
    assert columns == [["a"], ["b"], ["c"]]
    assert lines.tolist() == [3]
    empty = NameTable.parse(b"\n\n", "here", NAMES)
    assert empty.first_row() == []
    assert list(empty.chunks()) == list(empty.skip_first().chunks()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\tc\nd\te\n", "line 2 has 2 columns where 3 are needed; write head, relation, tail"),
        (b"a\tb\tc\n\nd\te\tf\tg", "line 3 has 4 columns where 3 are needed; .* by tabs"),
        (b"a,b,c,d\n", "line 1 has 4 columns where 3 are needed; .* by commas"),
        (b"a b c\n", "line 1 has 1 column where 3 are needed; .* by tabs"),
        (b'"a",b,c\n"d",e\n', "line 2 has 2 columns"),
        (b"a\tb\tc\nd\te\t\xff\n", "line 2 is not UTF-8 text"),
        (b'"a",b,c\nd,e,\xff\n', "line 2 is not UTF-8 text"),
        ("a\tb\tc\n".encode("utf-16-le"), "line 1 is not UTF-8 text"),
        (b'a,b,c\nd,"e,f\ng,h,i\n', "line 2 is not valid CSV .*; correct its quotes"),
        (b'a,b,c\nd,"e"x,f\n', "line 2 is not valid CSV"),
        (b'a,b,c\nd,e,"f\ng"\nh,i,j\n', "line 2 has a quoted name that goes on in the next line"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(content, message):
    with pytest.raises(UserError, match=f"here {message}"):
        rows_of(content)
