"""Texts and images as the arguments of a search: checked, encoded, and put into payloads."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_choice, check_number
from hashlearn.features.encoders import Encoder
from hashlearn.features.models import ModelEncoder
from hashlearn.features.own_files import DECODED_SIDE
from hashlearn.features.pictures import as_pictures
from hashlearn.rows.forms import is_missing, rows_of_table
from hashlearn.rows.inputs import as_payloads, as_vectors, payload_of
from hashlearn.search.hybrid import check_weights
from hashlearn.search.question import WAYS, Question
from hashlearn.search.word_query import typed

TEXT_FIELD = "text"
"""The payload field that texts are kept in, unless another one is named."""
_AT_A_TIME = 4096
_IMAGES_AT_A_TIME = 32


def check_texts(name: str, texts: Any) -> list[str]:
    """Texts as a list of strings."""
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__iter__"):
        hint = "; pass one text as [text], a column of a table as table['text']" if isinstance(texts, str) else ""
        raise TypeError(f"{name} must be a list of strings, got {type(texts).__name__}{hint}")
    listed = _as_list(texts)
    for row, text in enumerate(listed):
        if is_missing(text):
            raise TypeError(f"{name} must be strings, got a missing one in place {row}; pass '' there")
        if not isinstance(text, str):
            raise TypeError(f"{name} must be strings, got {type(text).__name__} in place {row}")
        if "\0" in text:
            raise ValueError(f"{name} must be without NUL characters, got one in place {row}")
    return listed


def _as_list(texts: Any) -> list[Any]:
    """The values of a column; those of Arrow as Python objects."""
    values = rows_of_table(texts)
    return list(texts) if values is None else values


def with_texts(payloads: Any, field: str, texts: list[str]) -> list[dict[str, Any]]:
    """Payloads with the text of each row in a field."""
    if payloads is None:
        return [{field: text} for text in texts]
    known = [payload_of(payload) for payload in as_payloads(payloads, len(texts), "texts")]
    twice = next((row for row, payload in enumerate(known) if field in payload), None)
    if twice is not None:
        raise ValueError(f"payloads must not have the field {field!r}, which holds the texts, got it in place {twice}")
    return [{field: text, **payload} for text, payload in zip(texts, known)]


def encoded_texts(encoder: Encoder | None, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of texts."""
    if encoder is None:
        raise ValueError("texts need an encoder to become vectors: pass X, or make the search with encoder=model")
    if encoder.kind == "image":
        raise ValueError(f"texts need an encoder of texts to become vectors, got {encoder.name!r}, which takes images")
    blocks = [encoder.encode(texts[start : start + _AT_A_TIME]) for start in range(0, len(texts), _AT_A_TIME)]
    return np.concatenate(blocks) if blocks else encoder.encode([])


def encoded_images(encoder: Encoder | None, images: Any) -> NDArray[np.float32]:
    """The vectors of images: paths, images of Pillow, or arrays."""
    if encoder is None:
        raise ValueError("images need an encoder to become vectors: make the search with encoder=model")
    if encoder.kind == "text" and encoder.name != ModelEncoder.name:  # a model may take both
        raise ValueError(f"images need an encoder of images to become vectors, got {encoder.name!r}, which takes texts")
    if isinstance(images, (str, bytes, Path)) or not hasattr(images, "__len__"):
        raise TypeError(f"images must be a list of pictures or of paths, got {type(images).__name__}")
    starts = range(0, len(images), _IMAGES_AT_A_TIME)
    parts = (as_pictures(images[start : start + _IMAGES_AT_A_TIME], DECODED_SIDE) for start in starts)
    blocks = [encoder.encode(part) for part in parts]
    return np.concatenate(blocks) if blocks else encoder.encode([])


def way_to_ask(by: str | None, *, has_words: bool, has_vectors: bool) -> str:
    """What a question is asked by: what the caller says, or all that there is."""
    if by is not None:
        check_choice("by", by, WAYS)
    if not has_words and by in ("words", "both"):
        raise ValueError(
            f"by={by!r} needs texts: add rows with texts=[...], or make the search with text_field='a payload field'"
        )
    if not has_vectors and by in ("meaning", "both"):
        raise ValueError(f"by={by!r} needs vectors: pass X beside the text, or make the search with encoder=model")
    if not has_words and not has_vectors:
        raise ValueError("text needs texts or an encoder: add rows with texts=[...], or give the search encoder=model")
    return by or ("both" if has_words and has_vectors else "words" if has_words else "meaning")


class Asked(NamedTuple):
    """A question as the arguments of :meth:`hashlearn.SimilaritySearch.search` put it."""

    X: Any
    text: Any
    by: str | None
    weights: Mapping[str, float] | None
    operators: bool
    like: Any
    unlike: Any
    diversity: float
    column: str | None

    def question(self, encoder: Encoder | None, *, has_words: bool) -> tuple[Question, bool]:
        """The question with vectors and checked arguments, and whether it is one query."""
        diversity = check_number("diversity", self.diversity, low=0, high=1)
        given = getattr(encoder, "weights", None) if self.weights is None else self.weights
        weights = check_weights(given, ("words", "meaning"))
        if self.like is not None or self.unlike is not None:
            if self.X is not None or self.text is not None:
                raise ValueError("like and unlike are a query of their own: pass no X and no text beside them")
            by = way_to_ask(self.by, has_words=has_words, has_vectors=True)
            named = [() if ids is None else _listed_ids(ids) for ids in (self.like, self.unlike)]
            return Question(None, None, None, by, weights, diversity=diversity, like=named[0], unlike=named[1]), True
        if self.text is None:
            queries, was_one_row = as_vectors(self.X, self.column)
            by = way_to_ask("meaning" if self.by is None else self.by, has_words=has_words, has_vectors=True)
            if by != "meaning":
                raise ValueError(f"by={by!r} needs a text to look for")
            return Question(None, queries, None, by, weights, diversity=diversity), was_one_row
        was_one = isinstance(self.text, str)
        takes_texts = encoder is not None and encoder.kind == "text"
        texts = [typed(text) for text in ([self.text] if was_one else _strings(self.text))]
        by = way_to_ask(self.by, has_words=has_words, has_vectors=self.X is not None or takes_texts)
        queries = None
        if by != "words":
            queries = encoded_texts(encoder, texts) if self.X is None else as_vectors(self.X, self.column)[0]
            if len(queries) != len(texts):
                raise ValueError(f"X must have a vector for each of the {len(texts)} texts, got {len(queries)}")
        return Question(texts, queries, None, by, weights, self.operators, diversity), was_one


def _strings(texts: Any) -> list[str]:
    if not hasattr(texts, "__iter__") or isinstance(texts, (bytes, Mapping)):
        raise TypeError(f"text must be a string or a list of strings, got {type(texts).__name__}")
    listed = _as_list(texts)
    others = [type(text).__name__ for text in listed if not isinstance(text, str)]
    if others:
        raise TypeError(f"text must be a string or a list of strings, got {others[0]} among them")
    return listed


def _listed_ids(ids: Any) -> Any:
    return [ids] if isinstance(ids, (str, int, np.integer)) else ids
