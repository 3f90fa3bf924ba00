"""A question of words, of meaning, or of both, answered from a snapshot."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_integer
from hashlearn.codes.packing import unpack
from hashlearn.codes.results import NO_ID, Neighbors
from hashlearn.search.hybrid import join_ranks, unlike_each_other
from hashlearn.search.nearest import Options, nearest, nearest_to_codes
from hashlearn.search.word_query import parse_words

if TYPE_CHECKING:
    from hashlearn.search.snapshot import Snapshot

WAYS = ("words", "meaning", "both")
_LEAST_DEPTH = 100
"""Rows of each list that are joined, and of which those unlike each other are chosen."""
_UNLIKE = 0.5
"""What the mean of the rows to avoid weighs against the mean of those to be like."""


class Question(NamedTuple):
    """What is looked for. ``texts`` are asked by their words, ``X`` (or ``codes``) by the codes; an entry each a query.

    Attributes
    ----------
    by : "words", "meaning" or "both"
    weights : dict
        Of "words" and "meaning".
    operators : bool
        Whether texts have operators (:mod:`hashlearn.search.word_query`).
    diversity : float
        From 0 to 1 (:mod:`hashlearn.search.hybrid`).
    like, unlike : lists of ids
        Rows to be like, and rows to avoid; they are no answer. Without ``like``, None.
    """

    texts: list[str] | None
    X: Any
    codes: NDArray[np.uint8] | None
    by: str
    weights: Mapping[str, float]
    operators: bool = False
    diversity: float = 0.0
    like: Any = None
    unlike: Any = ()

    @property
    def n(self) -> int:
        for asked in (self.texts, self.X, self.codes):
            if asked is not None:
                return len(asked)
        return 0


class Answer(NamedTuple):
    """Neighbors by place, and what words and meaning have given to their scores."""

    found: Neighbors
    parts: dict[str, NDArray[np.float32]]


def answer(snapshot: "Snapshot", question: Question, k: int, options: Options) -> Answer:
    """The k best rows of each query.

    Distances are those of the vectors or codes where only these were asked; minus the score of the words where only the
    words were; otherwise 1 minus the joined score.
    """
    k = check_integer("k", k, low=1)
    if options.expand and question.by == "words":
        raise ValueError("expand must be None for a search by words: it makes a vector's query from its neighborhood")
    depth = k if question.by != "both" and not question.diversity else max(k, options.candidates or 0, _LEAST_DEPTH)
    mask = _mask(snapshot, question, options)
    within = options._replace(filter=None, subset=None)
    ranked: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float32]]]] = {}
    if question.by != "meaning":
        ranked["words"] = _by_words(snapshot, question, depth, mask)
    if question.by != "words":
        ranked["meaning"] = _by_meaning(snapshot, question, depth, within, mask)
    found = Neighbors(np.full((question.n, k), np.inf, np.float32), np.full((question.n, k), NO_ID, np.int64))
    parts = {name: np.zeros((question.n, k), np.float32) for name in ranked}
    for q in range(question.n):
        if question.by == "both":
            joined = join_ranks({name: lists[q][0] for name, lists in ranked.items()}, question.weights, depth)
            places, distances, own = joined.places, 1 - joined.scores, joined.parts
        else:
            places, distances = ranked[question.by][q]
            own = {question.by: -distances if question.by == "words" else np.ones(len(places), np.float32)}
        if question.diversity and len(places):
            kept = _varied(snapshot, places, distances, k, question.diversity)
        else:
            kept = np.arange(min(k, len(places)))
        found.distances[q, : len(kept)], found.ids[q, : len(kept)] = distances[kept], places[kept]
        for name, part in own.items():
            parts[name][q, : len(kept)] = part[kept]
    return Answer(found, parts)


def _mask(snapshot: "Snapshot", question: Question, options: Options) -> NDArray[np.bool_] | None:
    """The places that are looked at; None for all."""
    mask = snapshot.chosen(options.filter, options.subset)
    if question.like is None and mask is None and len(snapshot) == snapshot.n_places:
        return None
    alive = np.zeros(snapshot.n_places, bool)
    alive[snapshot.places] = True
    if question.like is not None:
        for named in (question.like, question.unlike):
            alive[snapshot.find_all(named)] = False
    return alive if mask is None else alive & mask


def _by_words(snapshot: "Snapshot", question: Question, depth: int, mask: Any) -> Any:
    words, lists = snapshot.columns.words, []
    for text in question.texts or ():
        query = parse_words(text, operators=question.operators)
        best = words.best(query, depth, snapshot.n_places, mask)
        lists.append((best.places, -best.scores))
    return lists


def _by_meaning(snapshot: "Snapshot", question: Question, depth: int, options: Options, mask: Any) -> Any:
    if question.codes is not None and not options.expand:
        found = nearest_to_codes(snapshot, question.codes, depth, mask, options.n_jobs)
    else:
        found = nearest(snapshot, question.X, depth, options, mask)
    there = found.ids >= 0
    if question.texts is not None and question.X is not None and snapshot.hasher.metric == "cosine":
        # The encoder knows no word of the text: all rows are equally near.
        there &= np.asarray(question.X).any(axis=1, keepdims=True)
    distances = found.distances.astype(np.float32)
    return [(ids[has], own[has]) for ids, own, has in zip(found.ids, distances, there)]


def _varied(
    snapshot: "Snapshot", places: NDArray[np.int64], distances: NDArray[np.float32], k: int, diversity: float
) -> NDArray[np.int64]:
    """Positions of k places unlike each other."""
    spread = float(distances.max() - distances.min())
    relevance = 1 - (distances - distances.min()) / (spread or 1.0)
    if snapshot.vectors is not None:
        vectors = snapshot.vectors_at(places)
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    else:
        n_bits = snapshot.hasher.n_bits
        vectors = (2.0 * unpack(snapshot.index.codes(places), n_bits) - 1) / np.sqrt(n_bits)
    return unlike_each_other(relevance, vectors, k, diversity)


class Example(NamedTuple):
    """What rows to be like, and rows to avoid, are as a query: a vector, or the code where no vectors are kept."""

    X: NDArray[np.float32] | None
    codes: NDArray[np.uint8] | None


def example(snapshot: "Snapshot", like: Any, unlike: Any) -> Example:
    """The mean of the rows to be like, away from the mean of the rows to avoid (J. Rocchio, 1971)."""
    liked, avoided = snapshot.find_all(like, "like"), snapshot.find_all(unlike, "unlike")
    if not len(liked):
        raise ValueError("like must have at least one id, got none")
    if snapshot.vectors is not None:
        return Example(_away(_scaled(snapshot, liked), _scaled(snapshot, avoided))[None].astype(np.float32), None)
    if snapshot.hasher.query != "code":
        raise ValueError("like needs kept vectors where real queries are compared with codes: keep_vectors='float16'")
    n_bits = snapshot.hasher.n_bits
    signs = [2.0 * unpack(snapshot.index.codes(rows), n_bits) - 1 for rows in (liked, avoided)]
    return Example(None, np.packbits(_away(*signs) > 0)[None])


def _scaled(snapshot: "Snapshot", places: NDArray[np.int64]) -> NDArray[np.floating]:
    vectors = snapshot.vectors_at(places) if len(places) else np.empty((0, snapshot.vectors.n_features), np.float32)
    if snapshot.hasher.metric != "cosine":
        return vectors
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _away(liked: NDArray[np.floating], avoided: NDArray[np.floating]) -> NDArray[np.floating]:
    mean = liked.mean(axis=0)
    return mean if not len(avoided) else mean + _UNLIKE * (mean - avoided.mean(axis=0))
