"""What is searched for: an item, a text, a picture or a vector; and how an address names it."""

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from hashlearn.features.decoder import shared_decoder
from hashlearn.features.pictures import THUMBNAIL_SIDE, thumbnail
from hashlearn.server.features import Features
from hashlearn.server.page.collection import Collection, Item

POSTED_KEPT = 256
_LONGEST_TEXT = 2000
_LONGEST_VECTOR_TEXT = 1 << 20


class Query(NamedTuple):
    """A query, ready to be searched.

    Attributes
    ----------
    code : packed code, shape (n_bytes,)
    vector : array of shape (n_features,), or None: of an item where the search keeps no vectors
    title : str
    parameters : dict
        What names it in an address.
    item : Item or None
        The item that it is, which is left out of its own neighbors.
    token : str or None
        Of a picture that was posted.
    """

    code: NDArray[np.uint8]
    vector: NDArray | None
    title: str
    parameters: dict[str, str]
    item: Item | None = None
    token: str | None = None


class Posted(NamedTuple):
    """What somebody sent to be searched for."""

    vector: NDArray
    title: str
    picture: bytes | None = None


class PostedQueries:
    """The latest pictures and vectors that people sent, in memory, by a digest of their content."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Posted] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, posted: Posted) -> str:
        """Keep it, and return the token that names it."""
        token = hashlib.sha256(np.ascontiguousarray(posted.vector).tobytes() + posted.title.encode()).hexdigest()[:24]
        with self._lock:
            self._kept[token] = posted
            while len(self._kept) > POSTED_KEPT:
                self._kept.popitem(last=False)
        return token

    def find(self, token: str) -> Posted | None:
        with self._lock:
            return self._kept.get(token)


def address(path: str, *groups: Mapping[str, Any], **parameters: Any) -> str:
    """A path with what is not None of the parameters; a list is a parameter that is given several times."""
    everything = {name: value for group in (*groups, parameters) for name, value in group.items()}
    given = {name: value for name, value in everything.items() if value is not None}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def posted_picture(content: bytes, name: str, features: Features | None) -> Posted:
    """A picture that somebody sent, as a query; a ValueError of one line where it cannot be read."""
    if features is None:
        raise ValueError("this collection has no encoder of images")
    vector = features.encode_images([content])[0]
    return Posted(vector, name[:80] or "picture", thumbnail(shared_decoder().decode(content, THUMBNAIL_SIDE)))


def posted_vector(text: str, n_features: int) -> Posted:
    """Numbers that somebody pasted, between commas or spaces.

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


def typed_query(parameters: Mapping[str, str]) -> dict[str, str] | None:
    """What somebody typed into the form, as it is named in an address; None where nothing was typed."""
    for field, name in (("find_id", "id"), ("find_text", "text")):
        if (parameters.get(field) or "").strip():
            return {name: parameters[field].strip()[:_LONGEST_TEXT]}
    return None


def query_of(
    parameters: Mapping[str, str], collection: Collection, features: Features | None, posted: PostedQueries
) -> Query | None:
    """The query that an address names, or None where it names none.

    Raises
    ------
    ValueError
        One line: an unknown id, a text where the collection has no encoder of texts, a posted query that is forgotten.
    """
    if parameters.get("id"):
        return _of_item(parameters["id"], collection)
    if (parameters.get("text") or "").strip():
        return _of_text(parameters["text"].strip()[:_LONGEST_TEXT], collection, features)
    if parameters.get("query"):
        return _of_posted(parameters["query"], collection, posted)
    return None


def _of_item(text: str, collection: Collection) -> Query:
    key = collection.id_of(text)
    (record,) = collection.search.get([key])
    (item,) = collection.items([key])
    return Query(record.code, record.vector, f"item {key}", {"id": str(key)}, item)


def _of_text(text: str, collection: Collection, features: Features | None) -> Query:
    if features is None:
        raise ValueError("this collection has no encoder of texts")
    vector = features.encode_texts([text])[0]
    return Query(_code_of(vector, collection), vector, text, {"text": text})


def _of_posted(token: str, collection: Collection, posted: PostedQueries) -> Query:
    found = posted.find(token)
    if found is None:
        raise ValueError("this picture or vector is no longer kept here; send it again")
    has_picture = token if found.picture is not None else None
    return Query(_code_of(found.vector, collection), found.vector, found.title, {"query": token}, token=has_picture)


def _code_of(vector: NDArray, collection: Collection) -> NDArray[np.uint8]:
    return collection.search.hasher.transform(collection.unit(np.asarray(vector)[None]))[0]
