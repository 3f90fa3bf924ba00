"""Queries made from their neighborhoods: the scores of a query, averaged with those of its nearest rows.

By meaning, a query and the rows around it say more together than the query alone. The scores f of a hasher, its
``decision_function``, are divided by their mean sizes, one for each bit, and cut by tanh, so that no row and no bit
outweighs the others. The mean of f over the query and its nearest rows is compared with all codes as a real query.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes.results import NO_ID

if TYPE_CHECKING:
    from hashlearn.search.snapshot import Snapshot

_SAMPLE = 1000
"""Rows, evenly spaced, that the mean sizes are of."""
_LEAST_SIZE = 1e-9


def check_expands(rows: "Snapshot", rerank: Any) -> None:
    """Raise ValueError where queries of a search cannot be made from their neighborhoods."""
    if rows.hasher.has_weights:
        raise ValueError("expand must be None for a hasher that ranks by neighborhood, such as ABH: take JPSH or SAH")
    if rows.vectors is None and len(rows):
        raise ValueError("expand needs vectors to find neighbors by; make the search with keep_vectors='float16'")
    if rerank is not None:
        raise ValueError("expand and rerank cannot both be given: the result is ordered by the expanded query")


def mean_sizes(rows: "Snapshot") -> NDArray[np.float32]:
    """The mean absolute score of each bit, of the rows of the search: it is the same for every query."""
    places = rows.places
    if not len(places):
        return np.ones(rows.hasher.n_bits, np.float32)
    chosen = np.unique(np.linspace(0, len(places) - 1, min(_SAMPLE, len(places))).astype(np.int64))
    sizes = np.abs(rows.hasher.weights(rows.vectors_at(places[chosen]))).mean(axis=0)
    return np.maximum(sizes, _LEAST_SIZE)


def expanded_weights(rows: "Snapshot", X: Any, near: NDArray[np.int64]) -> NDArray[np.float32]:
    """Weights for the bits of codes (:meth:`MetricHasher.weights`) of queries with the rows at the places ``near``.

    A place of -1 is no row: the mean is of those that are there.
    """
    totals = _cut(rows, X)
    queries, columns = np.nonzero(near != NO_ID)
    if len(queries):
        places, which = np.unique(near[queries, columns], return_inverse=True)
        np.add.at(totals, queries, _cut(rows, rows.vectors_at(places))[which])
    return totals / (1 + np.bincount(queries, minlength=len(totals))).astype(np.float32)[:, None]


def _cut(rows: "Snapshot", X: Any) -> NDArray[np.float32]:
    return np.tanh(rows.hasher.weights(X) / rows.mean_sizes)
