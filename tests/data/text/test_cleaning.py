"""From texts to words, by the rules of the published corpora."""

import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.io import store
from quatgraph.data.text.cleaning import STOP_WORDS, clean, clean_corpus


def unpacked(path: str) -> bytes:
    return lzma.decompress((store.data_root() / "text" / f"{path}.xz").read_bytes())


@pytest.mark.realdata
@pytest.mark.parametrize(
    ("name", "encoding", "options"),
    [("R8", "ascii", {}), ("mr", "latin-1", {"stop_words": False, "min_count": 1})],
)
def test_a_raw_corpus_becomes_the_published_one_byte_for_byte(name, encoding, options):
    raw = unpacked(f"{name}/{name}.raw.txt").decode(encoding).removesuffix("\n").split("\n")
    published = unpacked(f"{name}/{name}.clean.txt")
    assert "\n".join(clean_corpus(raw, **options)).encode() == published


@pytest.mark.realdata
def test_the_stop_words_are_the_published_ones():
    listed = (store.data_root() / "text/stopwords.txt").read_text().split()
    assert len(listed) == len(STOP_WORDS)
    assert set(listed) == STOP_WORDS


def test_there_are_179_stop_words():
    assert len(STOP_WORDS) == 179
    assert {"the", "don", "don't", "wouldn't", "should've", "ma"} <= STOP_WORDS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" \t\n ", ""),
        ("One-two;three.", "one two three"),
        ("it's we've can't they're I'd she'll", "it 's we 've ca n't they 're i 'd she 'll"),
        ("NO, NO! (really?)", r"no , no ! \( really \? \)"),
        ("IT'S", "it's"),  # only lower-case endings are split off
        ("`quoted' 50% of $3", "`quoted' 50 of 3"),
        ("a\u00a0b\u2028c", "a b c"),
        ("caf\u00e9", "caf"),
    ],
)
def test_the_rules(text, words):
    assert clean(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Stra\u00dfe, \u00dcbung.", "stra\u00dfe , \u00fcbung"),
        ("e\u0301te\u0301", "\u00e9t\u00e9"),  # letters and marks apart are taken together
        ("\u041f\u0440\u0438\u0432\u0435\u0442!", "\u043f\u0440\u0438\u0432\u0435\u0442 !"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("don\u2019t \u201cgo\u201d \u2014 \U0001f600_x", "do n't go \U0001f600 x"),
        ("good\U0001f44d\U0001f44d", "good \U0001f44d \U0001f44d"),
        ("I \u2764\ufe0f it", "i \u2764 it"),
    ],
)
def test_letters_of_any_script_and_emoji_stay_with_the_option(text, words):
    assert clean(text, any_letters=True) == words


@given(st.text(st.characters(max_codepoint=127)))
def test_of_plain_english_both_ways_make_the_same(text):
    assert clean(text, any_letters=True) == clean(text)


@given(st.text(), st.booleans())
def test_cleaned_text_is_words_with_one_space_between(text, any_letters):
    words = clean(text, any_letters=any_letters)
    assert words == " ".join(words.split())
    assert words == words.lower()


def test_rare_words_are_counted_before_any_is_left_out():
    texts = ["the cat", "the dog", "a cat"]
    assert clean_corpus(texts, min_count=2) == ["cat", "", "cat"]
    assert clean_corpus(texts, min_count=2, stop_words=False) == ["the cat", "the", "cat"]
    assert clean_corpus(texts, min_count=1) == ["cat", "dog", "cat"]
    assert clean_corpus(texts, min_count=1, stop_words=False) == texts
    assert clean_corpus([]) == []
