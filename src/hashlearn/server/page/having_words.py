"""Which items have some words in their names or texts: the text box among the filters."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.server.page.collection import TEXT_FIELD, Collection

MOST_TEXTS = 50_000
"""The largest search whose texts are searched without an index of words."""
_BETWEEN = "\n"


class ItemWords:
    """The names and texts of all items as one text. It is read once, and again after items were added or removed.

    A word matches any part of a name. If the search has an index of words (``text_field``), it must match the beginning
    of a word in a text; otherwise it matches any part of a text.
    """

    def __init__(self, collection: Collection):
        self._collection = collection
        self._kept: tuple[Any, str, NDArray[np.int64]] | None = None

    def having(self, words: str) -> NDArray[np.bool_]:
        """A mask of the items that have all of the words, in the order of the ids."""
        parts = words.lower().split()
        text, starts = self._names()
        found = np.ones(len(starts), bool)
        for part in parts:
            places = [match.start() for match in re.finditer(re.escape(part), text)]
            has = np.zeros(len(starts), bool)
            has[np.searchsorted(starts, places, side="right") - 1] = True
            found &= has
        return found | self._in_texts(words)

    def _in_texts(self, words: str) -> NDArray[np.bool_]:
        """A mask of the items with all of the words in their text, by the index of words."""
        collection = self._collection
        found = np.zeros(len(collection.ids), bool)
        asked = " ".join(f"+{word}*" for word in re.findall(r"\w+", words))
        if collection.search.text_field is None or not asked or not len(found):
            return found
        ids = collection.search.search(None, len(found), text=asked, by="words", operators=True).ids.tolist()
        found[np.searchsorted(collection.ids, [id for id in ids if id not in (None, -1)])] = True
        return found

    def _names(self) -> tuple[str, NDArray[np.int64]]:
        """All names in lower case as one text, and the position of each."""
        moment, kept = self._collection.search.moment, self._kept
        if kept is None or moment is None or kept[0] is not moment:
            names = [_one_line(name) for name in self._read()]
            lengths = np.array([len(name) + len(_BETWEEN) for name in names], np.int64)
            kept = self._kept = moment, _BETWEEN.join(names), np.cumsum(lengths) - lengths
        return kept[1], kept[2]

    def _read(self) -> list[str]:
        collection = self._collection
        ids = collection.ids.tolist()
        names = [str(id) for id in ids]
        if collection.search.text_field is not None or len(ids) > MOST_TEXTS:
            return names
        payloads = collection.search.payloads(collection.ids)
        return [f"{name} {(payload or {}).get(TEXT_FIELD, '')}" for name, payload in zip(names, payloads)]


def _one_line(name: str) -> str:
    return name.lower().replace(_BETWEEN, " ")
