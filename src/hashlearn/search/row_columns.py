"""What a search keeps of every row beside its code: the string that is its id, its payload.

Columns are arrays in the order of the codes, which is that of the ids. They never change: a change makes others.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search.string_keys import keys_of_new
from hashlearn.stores.arguments import NO_PAYLOAD

NOWHERE = np.empty(0, np.int64)


def found_in(ascending: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where values are in an array that ascends, or would be, and which of them are there."""
    positions = np.searchsorted(ascending, wanted)
    known = positions < len(ascending)
    known[known] = ascending[positions[known]] == wanted[known]
    return positions, known


class Names(NamedTuple):
    """Strings that are ids, ascending.

    Attributes
    ----------
    texts : object array of shape (n,)
    keys : int64 array of shape (n,)
        Ids of the index that stand for the strings; see :mod:`hashlearn.search.string_keys`.
    numbers : int64 array of shape (n,)
        What the vectors of the rows are kept under. Unlike a key, a number stays the same.
    """

    texts: NDArray[Any]
    keys: NDArray[np.int64]
    numbers: NDArray[np.int64]

    @classmethod
    def empty(cls) -> "Names":
        return cls(np.empty(0, object), NOWHERE, NOWHERE)

    def find(self, texts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where strings are, or would be, and which of them are there."""
        return found_in(self.texts, texts)

    def added(self, texts: NDArray[Any]) -> "Names":
        """With strings that are not there yet, in any order; all keys may be others afterwards."""
        if not len(texts):
            return self
        order = np.argsort(texts)
        new = texts[order]
        keys = keys_of_new(self.texts, self.keys, new)
        first = int(self.numbers.max(initial=-1)) + 1
        numbers = (first + np.arange(len(new)))[order]
        places = np.searchsorted(self.texts, new)
        return Names(
            np.insert(self.texts, places, new),
            np.insert(keys.old, places, keys.new),
            np.insert(self.numbers, places, numbers),
        )

    def renumbered(self, positions: NDArray[np.int64], numbers: NDArray[np.int64]) -> "Names":
        """With other numbers for the vectors at these positions."""
        changed = self.numbers.copy()
        changed[positions] = numbers
        return self._replace(numbers=changed)

    def without(self, positions: NDArray[np.int64]) -> "Names":
        return Names(*(np.delete(column, positions) for column in self))

    def of_keys(self, keys: NDArray[np.int64]) -> NDArray[Any]:
        """The strings that keys stand for; None for -1."""
        if not len(self.keys):
            return np.full(keys.shape, None, object)
        positions = np.searchsorted(self.keys, keys)
        texts = self.texts[np.minimum(positions, len(self.keys) - 1)]
        texts[keys < 0] = None
        return texts


class Payloads(NamedTuple):
    """Payloads as JSON texts, in the order of the rows."""

    texts: NDArray[Any]

    @classmethod
    def none(cls, n: int) -> "Payloads":
        return cls(np.full(n, NO_PAYLOAD, object))

    def inserted(self, places: NDArray[np.int64]) -> "Payloads":
        """With rows without payload before these places."""
        return Payloads(np.insert(self.texts, places, NO_PAYLOAD))

    def replaced(self, positions: NDArray[np.int64], texts: list[str]) -> "Payloads":
        changed = self.texts.copy()
        changed[positions] = texts
        return Payloads(changed)

    def without(self, positions: NDArray[np.int64]) -> "Payloads":
        return Payloads(np.delete(self.texts, positions))
