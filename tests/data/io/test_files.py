"""The bytes and the text of a file."""

import gzip
import lzma

import pytest

from quatgraph.data.io.files import read_content, read_text
from quatgraph.errors import UserError


def test_a_byte_order_mark_is_left_out_and_a_missing_file_named(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf12")
    assert read_content(tmp_path / "a") == b"12"
    with pytest.raises(UserError, match="there is no file"):
        read_content(tmp_path / "b")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a\n\nb\xe4h\n", "line 3 is not UTF-8 text; save it as UTF-8"),
        (b"a\nb\0\n", "line 2 holds a NUL byte, so it is no text; remove the byte"),
    ],
)
def test_what_is_no_text_is_refused_with_its_line(content, words, tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_text(file)
    assert str(caught.value) == f"{file} {words}"


def test_packed_files_are_unpacked_and_damaged_ones_refused(tmp_path):
    content = b"\xef\xbb\xbfa\tb\tc\n"
    for name, packed in (("t.tsv", content), ("t.tsv.gz", gzip.compress(content))):
        (tmp_path / name).write_bytes(packed)
        assert read_content(tmp_path / name) == b"a\tb\tc\n"
    (tmp_path / "t.tsv.xz").write_bytes(lzma.compress(content))
    assert read_content(tmp_path / "t.tsv.xz") == b"a\tb\tc\n"
    for name, pack in (("b.gz", gzip.compress), ("b.xz", lzma.compress)):
        for packed in (b"no archive", pack(content)[:-9]):
            (tmp_path / name).write_bytes(packed)
            with pytest.raises(UserError, match=rf"{name} is damaged and cannot be unpacked"):
                read_content(tmp_path / name)
