"""Queries of the page (an item, several items, a text, a picture or a vector), and their form in an address."""

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_number
from hashlearn.features.decoder import shared_decoder
from hashlearn.features.pictures import THUMBNAIL_SIDE, thumbnail
from hashlearn.search.question import WAYS
from hashlearn.server.features import Features
from hashlearn.server.page.collection import Collection, Item

POSTED_KEPT = 256
MOST_EXAMPLES = 50
_AWAY = 0.5
"""How far a query moves away from the items that results should be unlike."""
_LONGEST_TEXT = 2000
_LONGEST_VECTOR_TEXT = 1 << 20


class PageQuery(NamedTuple):
    """A query, ready to be searched.

    Attributes
    ----------
    code : packed code, shape (n_bytes,), or None: of words where there is no encoder of texts
    vector : array of shape (n_features,), or None: of an item where the search keeps no vectors
    title : str
    parameters : dict
        Its parameters in an address.
    items : list of Item
        The items that it is made of; they are left out of its neighbors.
    token : str or None
        The name of a posted picture.
    words : str
        Its text; the words are marked in the results.
    n_avoided : int
        The number of items, at the end of ``items``, that results should be unlike.
    by : "words", "meaning", "both" or None
        What its text is compared by; None is all that there is.
    diversity : float
        From 0 to 1: how much results should differ from each other.
    """

    code: NDArray[np.uint8] | None
    vector: NDArray | None
    title: str
    parameters: dict[str, Any]
    items: tuple[Item, ...] = ()
    token: str | None = None
    words: str = ""
    n_avoided: int = 0
    by: str | None = None
    diversity: float = 0.0

    @property
    def item(self) -> Item | None:
        """The item, if the query is a single item; otherwise None."""
        return self.items[0] if len(self.items) == 1 else None


class Posted(NamedTuple):
    """A picture or a vector that somebody sent as a query."""

    vector: NDArray
    title: str
    picture: bytes | None = None


class PostedQueries:
    """The latest posted pictures and vectors, in memory, by a digest of their content."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Posted] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, posted: Posted) -> str:
        """Keep a posted query, and return its token."""
        token = hashlib.sha256(np.ascontiguousarray(posted.vector).tobytes() + posted.title.encode()).hexdigest()[:24]
        with self._lock:
            self._kept[token] = posted
            while len(self._kept) > POSTED_KEPT:
                self._kept.popitem(last=False)
        return token

    def find(self, token: str) -> Posted | None:
        with self._lock:
            return self._kept.get(token)


def posted_picture(content: bytes, name: str, features: Features | None) -> Posted:
    """A posted picture as a query; a ValueError of one line if it cannot be read."""
    if features is None:
        raise ValueError("this collection has no encoder of images")
    vector = features.encode_images([content])[0]
    return Posted(vector, name[:80] or "picture", thumbnail(shared_decoder().decode(content, THUMBNAIL_SIDE)))


def posted_vector(text: str, n_features: int) -> Posted:
    """A vector from pasted numbers, between commas or spaces.

    >>> posted_vector("[1, 2.5e0 3]", 3).vector
    array([1. , 2.5, 3. ], dtype=float32)
    """
    parts = [part for part in re.split(r"[\s,;\[\]()]+", text[:_LONGEST_VECTOR_TEXT]) if part]
    try:
        vector = np.array([float(part) for part in parts], np.float32)
    except ValueError:
        raise ValueError("vector must be numbers between commas or spaces") from None
    if len(vector) != n_features:
        raise ValueError(f"vector must have {n_features} numbers, got {len(vector)}")
    if not np.isfinite(vector).all():
        raise ValueError("vector must be finite, got NaN or infinity")
    return Posted(vector, f"a vector of {n_features} numbers")


def typed_query(parameters: Mapping[str, str], collection: Collection, takes: str | None) -> dict[str, str] | None:
    """The parameters for a typed text in an address; None for an empty text.

    The text is an id, a text to search for, or words to find in names.
    """
    typed = (parameters.get("find") or "").strip()[:_LONGEST_TEXT]
    if not typed:
        return None
    try:
        return {"id": str(collection.id_of(typed))}
    except ValueError:
        in_memory = collection.search.store is None
        return {"text" if takes == "text" else "words" if in_memory else "id": typed}


def query_of(
    parameters: Any, collection: Collection, features: Features | None, posted: PostedQueries
) -> PageQuery | None:
    """The query of an address, or None if the address has no query.

    Raises
    ------
    ValueError
        One line: an unknown id, a text without an encoder of texts, or a posted query that is no longer kept.
    """
    query = _named_query(parameters, collection, features, posted)
    if query is None:
        return None
    by, diversity = parameters.get("by") or None, _share(parameters.get("diversity") or "0", "diversity")
    if by is not None:
        check_choice("by", by[:40], WAYS)
        if not query.words:
            raise ValueError("by is for a text, got another query")
    named = {**query.parameters, "by": by, "diversity": diversity or None}
    return query._replace(parameters=named, by=by, diversity=diversity)


def _named_query(
    parameters: Any, collection: Collection, features: Features | None, posted: PostedQueries
) -> PageQuery | None:
    if parameters.get("id"):
        return _of_item(parameters["id"], collection)
    if (parameters.get("text") or "").strip():
        return _of_text(parameters["text"].strip()[:_LONGEST_TEXT], collection, features)
    if parameters.get("query"):
        return _of_posted(parameters["query"], collection, posted)
    if parameters.get("like"):
        return _of_examples(parameters.getlist("like"), parameters.getlist("unlike"), collection)
    return None


def _share(text: str, name: str) -> float:
    try:
        return check_number(name, float(text), low=0, high=1)
    except ValueError:
        raise ValueError(f"{name} must be from 0 to 1, got {text[:40]!r}") from None


def _of_item(text: str, collection: Collection) -> PageQuery:
    key = collection.id_of(text)
    (record,) = collection.search.get([key])
    (item,) = collection.items([key])
    return PageQuery(record.code, _known_vector(record, collection), item.name, {"id": str(key)}, (item,))


def _of_text(text: str, collection: Collection, features: Features | None) -> PageQuery:
    """A text as a query: by its words if the search has texts, and by its vector if there is an encoder."""
    if features is None and collection.search.text_field is not None:
        return PageQuery(None, None, f"“{text}”", {"text": text}, words=text)
    if features is None:
        raise ValueError("this collection has no encoder of texts")
    vector = features.encode_texts([text])[0]
    return PageQuery(_code_of(vector, collection), vector, f"“{text}”", {"text": text}, words=text)


def _of_examples(like: list[str], unlike: list[str], collection: Collection) -> PageQuery:
    """More like these, less like those: the mean of the first, moved away from the mean of the others."""
    if len(like) + len(unlike) > MOST_EXAMPLES:
        raise ValueError(f"like and unlike must name at most {MOST_EXAMPLES} items, got {len(like) + len(unlike)}")
    keys = [collection.id_of(text) for text in (*like, *unlike)]
    vectors = [_known_vector(record, collection) for record in collection.search.get(keys)]
    if any(vector is None for vector in vectors):
        raise ValueError("several items cannot be searched for together here: the search keeps no vectors")
    units = collection.unit(np.array(vectors, np.float32))
    vector = units[: len(like)].mean(axis=0)
    if unlike:
        vector = vector + _AWAY * (vector - units[len(like) :].mean(axis=0))
    items = tuple(collection.items(keys))
    title = ", ".join(item.name for item in items[: len(like)])
    if unlike:
        title += " and less like " + ", ".join(item.name for item in items[len(like) :])
    named = {"like": like, "unlike": unlike or None}
    return PageQuery(_code_of(vector, collection), vector, title, named, items, n_avoided=len(unlike))


def _known_vector(record: Any, collection: Collection) -> NDArray | None:
    """The vector of a row: the kept one, or the one that its code stands for if the hasher can compute it."""
    hasher = collection.search.hasher
    if record.vector is None and collection.search.query == "real" and hasattr(hasher, "decode"):
        return hasher.decode(record.code[None])[0]
    return record.vector


def _of_posted(token: str, collection: Collection, posted: PostedQueries) -> PageQuery:
    found = posted.find(token)
    if found is None:
        raise ValueError("this picture or vector is no longer kept here; send it again")
    has_picture = token if found.picture is not None else None
    return PageQuery(_code_of(found.vector, collection), found.vector, found.title, {"query": token}, token=has_picture)


def _code_of(vector: NDArray, collection: Collection) -> NDArray[np.uint8]:
    return collection.search.hasher.transform(collection.unit(np.asarray(vector)[None]))[0]
