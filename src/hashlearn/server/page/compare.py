"""Other methods and lengths on the same vectors, for the view Compare."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import hamming_distances
from hashlearn.hashers.registry import METHODS, method_named
from hashlearn.metrics.neighbors import true_neighbors
from hashlearn.progress import track
from hashlearn.server.page.collection import Collection, Item, ItemSample

LENGTHS = (16, 32, 64, 128)
TRAINED_ON = 5000
"""Vectors that a method learns from, at most."""
MOST = 4


class MethodChoice(NamedTuple):
    """A method and a length."""

    method: str
    n_bits: int

    @property
    def key(self) -> str:
        return f"{self.method}:{self.n_bits}"

    @property
    def name(self) -> str:
        return f"{self.method.upper()}, {self.n_bits} bits"


class Coded(NamedTuple):
    """The codes of the sample for one choice; ``problem`` says why there are no codes."""

    choice: MethodChoice
    hasher: Any
    codes: NDArray[np.uint8] | None
    problem: str | None = None


class ComparedColumn(NamedTuple):
    """The results of one choice.

    Attributes
    ----------
    name : str
    rows : list of (Item, distance as text, whether it is a true neighbor)
    recall : float or None
        None for exact search by the vectors.
    problem : str or None
    """

    name: str
    rows: list[tuple[Item, str, bool]]
    recall: float | None
    problem: str | None = None


def choice_of(text: str) -> MethodChoice:
    """``itq:64`` as a choice, or a ValueError of one line."""
    name, _, length = text.partition(":")
    if name.lower() not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name[:40]!r}")
    if not length.isdecimal() or int(length) not in LENGTHS:
        raise ValueError(f"bits must be one of {', '.join(map(str, LENGTHS))}, got {length[:40]!r}")
    return MethodChoice(name.lower(), int(length))


def coded(sample: ItemSample, choices: Sequence[MethodChoice]) -> list[Coded]:
    """Learn each choice from the sample, and encode the sample; reports progress."""
    vectors = sample.vectors
    if vectors is None:
        raise ValueError("other methods cannot be learned here: the search keeps no vectors")
    trained_on = vectors
    if len(vectors) > TRAINED_ON:
        trained_on = vectors[np.sort(np.random.default_rng(0).choice(len(vectors), TRAINED_ON, replace=False))]
    return [_coded(choice, trained_on, vectors) for choice in track(choices, "methods")]


def _coded(choice: MethodChoice, trained_on: NDArray, vectors: NDArray) -> Coded:
    hasher = method_named(choice.method)(n_bits=choice.n_bits, random_state=0)
    try:
        hasher.fit(trained_on)
        return Coded(choice, hasher, hasher.transform(vectors))
    except ValueError as error:
        return Coded(choice, None, None, str(error).partition("\n")[0])


def columns(
    collection: Collection, sample: ItemSample, coded: Sequence[Coded], query: Any, k: int
) -> list[ComparedColumn]:
    """The nearest items of the sample by the vectors and by each choice, side by side."""
    vector = collection.unit(np.asarray(query.vector, np.float32)[None])
    own = np.flatnonzero(np.isin(sample.ids, [item.id for item in query.items]))
    assert sample.vectors is not None  # otherwise no choice would have codes
    truth = true_neighbors(sample.vectors, vector, min(k + len(own), len(sample.ids)))[0]
    truth = truth[~np.isin(truth, own)][:k]
    lengths = np.linalg.norm(sample.vectors[truth] - vector, axis=1)
    return [
        _column(collection, sample, "by vectors", truth, [f"{length:.3g}" for length in lengths], truth, None),
        *(_answered(collection, sample, each, vector, own, truth, k) for each in coded),
    ]


def _answered(
    collection: Collection,
    sample: ItemSample,
    coded: Coded,
    vector: NDArray,
    own: NDArray[np.int64],
    truth: NDArray[np.int64],
    k: int,
) -> ComparedColumn:
    if coded.codes is None:
        return ComparedColumn(coded.choice.name, [], None, coded.problem)
    distances = hamming_distances(coded.hasher.transform(vector), coded.codes, coded.choice.n_bits)[0]
    distances[own] = coded.choice.n_bits + 1
    nearest = np.argsort(distances, kind="stable")[: len(truth)]
    recall = float(np.isin(truth, nearest).mean()) if len(truth) else 0.0
    return _column(collection, sample, coded.choice.name, nearest, [str(d) for d in distances[nearest]], truth, recall)


def _column(
    collection: Collection,
    sample: ItemSample,
    name: str,
    rows: NDArray[np.int64],
    shown: list[str],
    truth: NDArray[np.int64],
    recall: float | None,
) -> ComparedColumn:
    known = {item.id: item for item in collection.items(sample.ids[rows].tolist())}
    true = set(truth.tolist())
    listed = [
        (known[key], distance, row in true)
        for row, key, distance in zip(rows.tolist(), sample.ids[rows].tolist(), shown)
        if key in known
    ]
    return ComparedColumn(name, listed, recall)
