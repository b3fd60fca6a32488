"""Finds names by prefix and by similarity, among a million within milliseconds."""

from bisect import bisect_left
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

BUCKETS = 1 << 16
"""Buckets of trigrams, by their bytes."""
LOOKED_AT = 200_000
"""Places in the lists of trigrams that a search counts, the rarest trigrams first."""
COMPARED = 64
"""Names that share most trigrams with a query, which are then compared letter by letter."""
MIN_RATIO = 0.5
"""The least similarity of a name that is found."""


class NameIndex:
    """An index of sorted names, to search by prefix, and of their trigrams, to search by
    similarity.

    Letter case is ignored.

    Args:
        ids: The id of each name.
        labels: The labels to search.

    Example:
        >>> index = NameIndex(["a", "b", "c"], ["Peru", "Perth", "Chile"])
        >>> [found["label"] for found in index.search("per", 10)]
        ['Perth', 'Peru']
        >>> [found["label"] for found in index.search("chlie", 10)]
        ['Chile']
    """

    def __init__(self, ids: Sequence[str], labels: Sequence[str]) -> None:
        self.ids, self.labels = ids, labels
        folded = [label.casefold() for label in labels]
        self._order = sorted(range(len(folded)), key=folded.__getitem__)
        self._sorted = [folded[place] for place in self._order]
        self._ptr, self._places = _list_trigrams(folded)

    def search(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The names that start with a query, in order, and then those that resemble it most."""
        wanted = query.strip().casefold()
        first = bisect_left(self._sorted, wanted)
        found = []
        some = slice(first, first + limit)
        for name, place in zip(self._sorted[some], self._order[some], strict=True):
            if not name.startswith(wanted):
                break
            found.append(place)
        if len(found) < limit and wanted:
            found += [place for place in self._resembling(wanted) if place not in found]
        return [
            {"id": self.ids[p], "label": self.labels[p], "name": self.name(p)}
            for p in found[:limit]
        ]

    def name(self, place: int) -> str:
        """What a query takes: the label, or the id if others have the same label."""
        label = self.labels[place]
        folded = label.casefold()
        after = bisect_left(self._sorted, folded) + 1
        alone = after == len(self._sorted) or self._sorted[after] != folded
        return label if alone else self.ids[place]

    def _resembling(self, wanted: str) -> list[int]:
        """The places of similar names, the most similar first."""
        buckets = np.unique(_trigrams(np.frombuffer(_encode(wanted), np.uint8))).astype(np.int64)
        sizes = self._ptr[buckets + 1] - self._ptr[buckets]
        counted, lists = 0, list[NDArray[np.int32]]()
        for place in np.argsort(sizes, kind="stable").tolist():
            start = int(self._ptr[buckets[place]])
            counted += int(sizes[place])
            if counted > LOOKED_AT and lists:
                break
            lists.append(self._places[start : start + min(int(sizes[place]), LOOKED_AT)])
        if not lists:
            return []
        places, shared = np.unique(np.concatenate(lists), return_counts=True)
        if len(places) > COMPARED:
            best = np.argpartition(-shared, COMPARED)[:COMPARED]
            places = places[best]
        compare, rated = SequenceMatcher(b=wanted), []
        for place in places.tolist():
            name = self.labels[place].casefold()
            compare.set_seq1(name)
            ratio = 1.0 if wanted in name else compare.ratio()
            if ratio >= MIN_RATIO:
                rated.append((-ratio, len(name), place))
        return [place for *_, place in sorted(rated)]


def _list_trigrams(names: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each bucket of trigrams the names that have one, as offsets and places."""
    encoded = [_encode(name) for name in names]
    sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
    text = np.frombuffer(b"".join(encoded), np.uint8)
    bucket = _trigrams(text)
    owner = np.repeat(np.arange(len(names), dtype=np.int32), sizes)[: len(bucket)]
    # A trigram that begins in the last two bytes of a name goes on in the next name.
    ends = np.cumsum(sizes)
    within = np.ones(len(bucket), bool)
    for back in (1, 2):
        last = ends - back
        within[last[(last >= 0) & (last < len(bucket))]] = False
    bucket, owner = bucket[within], owner[within]
    order = np.argsort(bucket, kind="stable")
    ptr = np.concatenate(([0], np.cumsum(np.bincount(bucket, minlength=BUCKETS))))
    return ptr, owner[order]


def _encode(name: str) -> bytes:
    """A name between spaces, so that its first and last letters make trigrams too."""
    return f" {name} ".encode("utf-8", "replace")


def _trigrams(text: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The buckets of all trigrams of a text."""
    wide = text.astype(np.uint32)
    first, second, third = wide[:-2], wide[1:-1], wide[2:]
    mixed = first * np.uint32(40_503) + second * np.uint32(2_897) + third * np.uint32(131)
    return (mixed ^ (mixed >> np.uint32(16))).astype(np.uint16)
