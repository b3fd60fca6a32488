"""Mistakes in a person's texts: one sentence with file and line, exit code 2."""

from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call
from reviews import REVIEWS, config_of, options, vector_file, written
from typer.testing import CliRunner

from quatgraph.cli import app
from quatgraph.predictors import train_texts

TRAIN = ["train", "text", *options(), "--device", "cpu", "--out", "m", "--data"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    texts, labels = zip(*REVIEWS, strict=True)
    train_texts(list(texts), list(labels), folder, config=config_of(), device="cpu")
    return str(folder)


def assert_refused(data: str, *words: str, more: tuple[str, ...] = ()) -> None:
    assert_user_error(call(*TRAIN, data, *more), *words)
    assert not Path("m", "card.json").exists()


TABLES: dict[str, tuple[bytes, tuple[str, ...], list[str]]] = {
    "no column of texts": (
        b"a,b,c\nx,y,z\n",
        (),
        ["mine.csv has no column 'text', its columns are 'a', 'b', 'c'", "--set data.text=NAME"],
    ),
    "no column of labels": (
        b"text,b,c\nx,y,z\n",
        (),
        ["no column 'label', its columns are 'text', 'b', 'c'", "--set data.label=NAME"],
    ),
    "a column of another name": (
        b"review,stars,by\nx,y,z\n",
        ("--set", "data.text=reviews"),
        ["mine.csv has no column 'reviews'; did you mean 'review'?"],
    ),
    "two columns of texts": (
        b"text,Text,label\nx,y,z\n",
        (),
        ["mine.csv has the columns 'text', 'Text', which differ in letter case alone"],
    ),
    "nothing": (b"", (), ["mine.csv is empty; write a line of column names"]),
    "no rows": (b"text,label\n", (), ["mine.csv lists no documents; give each a line"]),
    "no labels": (b"text,label\nx,\ny,\n", (), ["no document in", "has a label; label every one"]),
    "one label": (
        b"text,label\nx,a\ny,a\n",
        (),
        ["have the label 'a'; training needs at least two"],
    ),
    "other bytes": (
        b"text,label\ngood,a\nb\xe9d,b\n",
        (),
        ["mine.csv line 3 is not UTF-8 text; save it as UTF-8"],
    ),
    "a NUL byte": (b"text,label\ngood,a\nb\0d,b\n", (), ["mine.csv line 3 holds a NUL byte"]),
    "rows of other lengths": (
        b"text,label\ngood,a\nbad\n",
        (),
        ["mine.csv line 3 has 1 cells but the first line has 2"],
    ),
    "texts without words": (
        b"text,label\n" + b"...,a\n--,b\n" * 6,
        (),
        ["no document in", "has a word left: check the text column"],
    ),
    "an unknown part": (
        b"text,label,split\ngood,a,trian\n",
        (),
        ["mine.csv line 2 has the unknown split 'trian'", "did you mean 'train'?"],
    ),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_mistake_in_a_table_is_told(case: str, tmp_path: Path) -> None:
    content, more, words = TABLES[case]
    (tmp_path / "mine.csv").write_bytes(content)
    assert_refused("mine.csv", *words, more=more)


def test_a_label_seen_once_is_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.csv", [*REVIEWS, ("A fine film", "priase")])
    words = (
        "the label 'priase' has a single document in",
        "correct the label, or leave the class out with --set data.missing=priase",
    )
    assert_refused("mine.csv", *words)


def test_words_that_are_all_too_rare_are_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.csv")
    more = ("--set", "data.min_count=1000")
    assert_refused("mine.csv", "has a word left", "data.min_count", more=more)


VECTORS = {
    "rows of different lengths": ("film 1 2 3 4\nstory 1 2 3\n", "line 2 has 3 numbers where 4"),
    "no number": ("film 1 2 x 4\n", "line 1 must have 4 numbers: 'x' is not a number"),
    "no finite number": ("film 1 2 nan 4\n", "the vector of 'film' in"),
    "nothing": ("", "is empty; write a word and its numbers per line"),
}


@pytest.mark.parametrize("case", VECTORS)
def test_a_mistake_in_word_vectors_is_told(case: str, tmp_path: Path) -> None:
    content, words = VECTORS[case]
    written(tmp_path / "mine.csv")
    (tmp_path / "vectors.txt").write_text(content)
    assert_refused("mine.csv", "vectors.txt", words, more=("--vectors", "vectors.txt"))


def test_vectors_that_are_no_quaternions_are_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.csv")
    vector_file(tmp_path / "five.txt", ["film"], dimensions=5)
    words = "of 5 numbers cannot be split into four equal parts", "pad the vectors with zeros to 8"
    assert_refused("mine.csv", *words, more=("--vectors", "five.txt"))
    assert not Path("m").exists()
    real = ("--vectors", "five.txt", "--set", "model.name=texting")
    assert call(*TRAIN, "mine.csv", *real).exit_code == 0


def test_vectors_of_other_words_are_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.csv")
    vector_file(tmp_path / "spanish.txt", ["perro", "gato"])
    words = "none of the 22 words of the texts has a vector in", "spanish.txt: take vectors of"
    assert_refused("mine.csv", *words, more=("--vectors", "spanish.txt"))
    assert not Path("m").exists()


def test_vectors_that_are_not_there_or_not_asked_for_are_told(tmp_path: Path) -> None:
    written(tmp_path / "mine.csv")
    words = "there is no file", "name a file of word vectors", "glove-100d"
    assert_refused("mine.csv", *words, more=("--vectors", "glov.txt"))
    result = call("train", "node", "--data", "mine.csv", "--vectors", "glove-100d")
    assert_user_error(result, "--vectors is an option of the task text, not of node")
    result = call(*TRAIN, "mine.csv", "--directed")
    assert_user_error(result, "--directed is an option of the task node, not of text")


def test_a_folder_without_sub_folders_is_told(tmp_path: Path) -> None:
    (tmp_path / "mails").mkdir()
    assert_refused("mails", "mails has no sub-folders with texts")
    (tmp_path / "mails" / "a.txt").write_text("a text")
    assert_refused("mails", "put the texts of each label into a sub-folder")
    (tmp_path / "mails" / "ham").mkdir()
    (tmp_path / "mails" / "ham" / "b.txt").write_bytes(b"one\nb\xe9d\n")
    assert_refused("mails", str(Path("ham", "b.txt")), "line 2 is not UTF-8 text")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*TRAIN, "nowhere.csv"], "nowhere.csv; the task text reads a .csv or .tsv file"),
        ([*TRAIN, "plain.txt"], "plain.txt has no labels; write a .csv file with the columns"),
        ([*TRAIN, "book.pdf"], "book.pdf is not text data: the task text reads a .csv or .tsv"),
        (["data", "stats", "mrr"], "there is no dataset 'mrr'; did you mean 'mr'?"),
        (["train", "text/mrr-textqgnn"], "did you mean 'text/mr-textqgnn'?"),
        (["train", "text"], "no data given; use `quatgraph train text --data PATH`"),
    ],
)
def test_data_that_is_not_there_is_told(arguments: list[str], words: str, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("a text\n")
    (tmp_path / "book.pdf").write_text("a text\n")
    assert_user_error(call(*arguments), words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([""], "there is no text to classify; give at least one word"),
        (["  "], "there is no text to classify; give at least one word"),
        (["b\udce9d"], "is not UTF-8 text"),
        (["nowhere.csv"], "there is no file or folder nowhere.csv; the task text reads"),
        (["nowhere.TXT"], "there is no file or folder nowhere.TXT; the task text reads"),
        (["latin.csv"], "latin.csv line 2 is not UTF-8 text"),
        (["three.csv"], "its columns are 'a', 'b', 'c'; rename one of them\n"),
        (["a film", "latin.csv"], "'latin.csv' is not a text: give one file, -, or texts"),
        (["a film", "-"], "'-' is not a text"),
        ([], "the model was trained on data in memory: pass the texts"),
        (["a film", "--document", "b film"], "there is no document 'b film'; did you mean 'a film"),
        (["a film", "--vectors", "v.txt"], "the model learned its own word vectors"),
        (["a film", "--top", "3"], "--top is an option for link models, but"),
        (["a film", "--node", "x"], "--node is an option for node models, but"),
        (["a film", "--graph", "x"], "--graph is an option for graph models, but"),
    ],
)
def test_a_question_that_cannot_be_answered_is_told(
    model: str, arguments: list[str], words: str, tmp_path: Path
) -> None:
    (tmp_path / "latin.csv").write_bytes(b"text\nb\xe9d\n")
    (tmp_path / "three.csv").write_text("a,b,c\nx,y,z\n")
    assert_user_error(call("predict", model, *arguments), words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "standard input is empty; write one text per line"),
        (b"\n \r\n", "standard input is empty; write one text per line"),
        (b"good\nb\xe9d\n", "standard input line 2 is not UTF-8 text"),
        (b"good\nb\0d\n", "standard input line 2 holds a NUL byte"),
    ],
)
def test_standard_input_that_is_no_text_is_told(model: str, content: bytes, words: str) -> None:
    result: Any = CliRunner().invoke(app, ["predict", model, "-"], input=content)
    assert_user_error(result, words)


def test_models_of_other_tasks_take_one_path_and_no_options_of_texts(tmp_path: Path) -> None:
    lines = [f"n{k},{'ab'[k % 2]},{k}" for k in range(12)]
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "nodes.csv").write_text("id,label,x\n" + "\n".join(lines))
    (tmp_path / "g" / "edges.csv").write_text("n0,n1\nn1,n2\n")
    short = ["--set", "train.epochs=1", "--device", "cpu", "--out", "m"]
    assert call("train", "node", "--data", "g", *short).exit_code == 0
    assert_user_error(call("predict", "m", "g", "h"), "takes one path of new data: leave out 'h'")
    for option in ("vectors", "document"):
        result = call("predict", "m", f"--{option}", "x")
        assert_user_error(
            result, f"--{option} is an option for text models, but the model is for the task 'node'"
        )
