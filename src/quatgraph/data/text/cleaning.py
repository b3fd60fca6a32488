"""Splits raw text into words separated by spaces.

The rules are those of the published corpora, which are English; an option preserves letters of
other scripts.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from string import ascii_letters, digits

_WITHOUT_NOT = """
a about above after again against ain all am an and any are as at be because been before being below
between both but by can d did do does doing down during each few for from further had has have
having he her here hers herself him himself his how i if in into is it it's its itself just ll m ma
me more most my myself no nor not now o of off on once only or other our ours ourselves out over own
re s same she she's should should've so some such t than that that'll the their theirs them
themselves then there these they this those through to too under until up ve very was we were what
when where which while who whom why will with y you you'd you'll you're you've your yours yourself
yourselves
"""
_BEFORE_NOT = """
aren couldn didn doesn don hadn hasn haven isn mightn mustn needn shan shouldn wasn weren won wouldn
"""
STOP_WORDS = frozenset(
    (
        *_WITHOUT_NOT.split(),
        *_BEFORE_NOT.split(),
        *(f"{word}'t" for word in _BEFORE_NOT.split()),
    )
)
"""The 179 English words that the published corpora leave out."""

_SPACE = ord(" ")
_SPACED = {mark: f" {mark} " for mark in ",!"} | {mark: f" \\{mark} " for mark in "()?"}
_CLITIC = re.compile("'s|'ve|n't|'re|'d|'ll")


class _AnyLetters(dict[int, int | str | None]):
    """Translates characters: letters, marks and digits of any script stay, symbols such as emoji
    become words, others become spaces."""

    def __missing__(self, code: int) -> int | str | None:
        character = chr(code)
        kind = unicodedata.category(character)
        symbol = f" {character} " if kind == "So" else _SPACE
        self[code] = code if kind[0] in "LMN" else symbol
        return self[code]


_PLAIN = {ord(letter): ord(letter) for letter in f"{ascii_letters}{digits}(),!?'`"}
_ENGLISH = defaultdict(lambda: _SPACE, _PLAIN)
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)
_ANY_LETTERS = _AnyLetters(
    {
        **_PLAIN,
        ord("\N{RIGHT SINGLE QUOTATION MARK}"): ord("'"),
        **dict.fromkeys(_VARIATION_SELECTORS),
    }
)


def clean(text: str, *, any_letters: bool = False) -> str:
    """Lower-case words and punctuation, separated by single spaces.

    Args:
        any_letters: Whether letters outside A-Z and emoji stay; the published corpora replace them
            by spaces.

    Example:
        >>> clean("They didn't come (the rain's fault), did they?")
        "they did n't come \\\\( the rain 's fault \\\\) , did they \\\\?"
        >>> clean("Jalape\\xf1o!"), clean("Jalape\\xf1o!", any_letters=True)
        ('jalape o !', 'jalape\\xf1o !')
    """
    if any_letters:
        text = unicodedata.normalize("NFC", text).translate(_ANY_LETTERS)
    else:
        text = text.translate(_ENGLISH)
    text = _CLITIC.sub(r" \g<0>", text)
    for mark, spaced in _SPACED.items():
        text = text.replace(mark, spaced)
    return " ".join(text.split()).lower()


def clean_corpus(
    texts: Iterable[str],
    *,
    stop_words: bool = True,
    min_count: int = 5,
    any_letters: bool = False,
) -> list[str]:
    """Cleans the documents of a corpus and removes stop words and rare words.

    The defaults give the published corpora except MR, which has every word.

    Args:
        stop_words: Whether to remove :data:`STOP_WORDS`.
        min_count: Minimum number of occurrences of a word in all documents.

    Example:
        >>> clean_corpus(["The cat sat.", "A cat ran."], min_count=2)
        ['cat', 'cat']
    """
    cleaned = [clean(text, any_letters=any_letters) for text in texts]
    removed = set(STOP_WORDS) if stop_words else set()
    if min_count > 1:
        counts = Counter(chain.from_iterable(map(str.split, cleaned)))
        removed.update(word for word, count in counts.items() if count < min_count)
    if not removed:
        return cleaned
    return [" ".join(word for word in text.split() if word not in removed) for text in cleaned]
