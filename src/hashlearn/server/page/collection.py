"""The parts of a search that the page shows: items with texts, fields and pictures, and a sample for statistics."""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.search import SimilaritySearch
from hashlearn.server.page.pictures import Pictures

SAMPLE_SIZE = 20_000
"""Items that statistics are computed from, at most. Their vectors take 40 MB at 512 dimensions."""

TEXT_FIELD = "text"
_LONGEST_TEXT = 400
_LONGEST_WHOLE_TEXT = 20_000
_MOST_FIELDS = 100


class Item(NamedTuple):
    """An item, ready to be shown.

    Attributes
    ----------
    id : int or str
    text : str or None
        Its text; a long one is cut.
    fields : list of (name, value)
        The other fields of its payload.
    picture : (width, height) or None
        The size of its picture; None if it has no picture.
    code : packed code
    """

    id: Any
    text: str | None
    fields: list[tuple[str, str]]
    picture: tuple[int, int] | None
    code: NDArray[np.uint8]

    @property
    def name(self) -> str:
        """The name that is shown: for a file, the last part of its path."""
        return str(self.id).rpartition("/")[2]


class ItemSample(NamedTuple):
    """Some items of a large collection, or all items of a small one.

    Attributes
    ----------
    ids : array of shape (n,)
    codes : packed codes of shape (n, ...)
    vectors : array of shape (n, n_features), or None where the search keeps none
    n_items : int
        The number of items in the whole collection.
    """

    ids: NDArray
    codes: NDArray[np.uint8]
    vectors: NDArray[np.float32] | None
    n_items: int


class Collection:
    """A search, with the pictures of its items.

    Parameters
    ----------
    search : SimilaritySearch
        A payload is a dict of fields; the field ``text`` is shown as the text of the item.
    title : str
    pictures : Pictures or None
    notes : list of str
        Remarks about the collection, such as skipped files.
    """

    def __init__(
        self, search: SimilaritySearch, title: str, pictures: Pictures | None = None, notes: Sequence[str] = ()
    ):
        self.search, self.title, self.pictures, self.notes = search, title, pictures, list(notes)
        self._sample: ItemSample | None = None
        self._ids: tuple[Any, NDArray] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.search)

    @property
    def n_bits(self) -> int:
        return self.search.n_bits

    @property
    def keeps_vectors(self) -> bool:
        return self.search.keep_vectors is not None

    @property
    def ids(self) -> NDArray:
        """All ids, ascending; kept until items are added or removed."""
        moment, kept = self.search.moment, self._ids
        if kept is None or moment is None or kept[0] is not moment:
            kept = self._ids = moment, self.search.ids
        return kept[1]

    def id_of(self, text: str) -> Any:
        """The id that a text in an address stands for, or a ValueError."""
        for candidate in (text, int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None):
            if candidate is not None and candidate in self.search:
                return candidate
        raise ValueError(f"there is no item {text[:80]!r}")

    def items(self, ids: Sequence[Any]) -> list[Item]:
        """The items with these ids, in their order, without removed ones."""
        found = {record.id: record for record in self.search.get(ids)}
        return [self._item(found[key]) for key in ids if key in found]

    def whole_text(self, key: Any) -> str | None:
        """The whole text of one item."""
        (payload,) = self.search.payloads([key])
        text = payload.get(TEXT_FIELD) if isinstance(payload, dict) else None
        return None if text is None else _cut(str(text), _LONGEST_WHOLE_TEXT)

    def random_ids(self, n: int, random_state: int | None = None) -> list[Any]:
        """Ids of some items."""
        ids = self.ids
        chosen = np.random.default_rng(random_state).choice(len(ids), min(n, len(ids)), replace=False)
        return ids[chosen].tolist()

    def codes(self) -> NDArray[np.uint8]:
        """The codes of all items, in the order of their ids."""
        return self.search.codes()

    def sample(self) -> ItemSample:
        """A sample; a new one is drawn after items were added or removed."""
        with self._lock:
            if self._sample is None or self._sample.n_items != len(self.search):
                self._sample = self._drawn()
            return self._sample

    def unit(self, vectors: NDArray) -> NDArray:
        """Vectors as the hasher gets them: for the cosine metric, of length one."""
        if self.search.metric != "cosine":
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)

    def _drawn(self) -> ItemSample:
        ids = self.ids
        n = len(ids)
        if n > SAMPLE_SIZE:
            ids = ids[np.sort(np.random.default_rng(0).choice(n, SAMPLE_SIZE, replace=False))]
        records = self.search.get(ids.tolist())
        codes = np.stack([record.code for record in records])
        vectors = None
        if self.keeps_vectors:
            vectors = self.unit(np.array([record.vector for record in records], np.float32))
        kept = np.array([record.id for record in records], ids.dtype)
        return ItemSample(kept, codes, vectors, n)

    def _item(self, record: Any) -> Item:
        payload = record.payload if isinstance(record.payload, dict) else {}
        text = payload.get(TEXT_FIELD)
        fields = [(str(name), str(value)[:80]) for name, value in payload.items() if name != TEXT_FIELD]
        shown = None if text is None else _cut(str(text))
        picture = None
        if self.pictures is not None and record.id in self.pictures:
            picture = self.pictures.size(record.id)
        return Item(record.id, shown, fields[:_MOST_FIELDS], picture, record.code)


def _cut(text: str, longest: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0] + " …"
