"""Several ranked lists as one, and lists that do not repeat themselves.

Lists are joined by reciprocal rank (G. Cormack, C. Clarke, S. Buettcher, SIGIR 2009): the row at rank r of list i gets
``w_i / (C + r)``; the best has rank 1. The sum is scaled so that a row that is first in all lists has the score 1.

Rows unlike each other are chosen by maximal marginal relevance (J. Carbonell and J. Goldstein, SIGIR 1998): the next
row is the one with the largest ``(1 - diversity) relevance - diversity max similarity to a row chosen before``.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.checks import check_number
from hashlearn.deadline import check_deadline

C = 60
"""The larger it is, the less ranks count; the value of the paper."""


class JoinedLists(NamedTuple):
    """Places, the best first, ties by the lower place; their scores, and what each list has given to them."""

    places: NDArray[np.int64]
    scores: NDArray[np.float32]
    parts: dict[str, NDArray[np.float32]]


def check_weights(weights: Mapping[str, float] | None, names: tuple[str, ...]) -> dict[str, float]:
    """A weight for each list; 1 for those that are not named."""
    given = {} if weights is None else weights
    if not isinstance(given, Mapping) or not set(given) <= set(names):
        raise ValueError(f"weights must be a dict with {' and '.join(map(repr, names))}, got {given!r:.80}")
    checked = {name: check_number(f"the weight of {name!r}", given.get(name, 1.0), low=0) for name in names}
    if not any(checked.values()):
        raise ValueError("weights must not all be 0")
    return checked


def join_ranks(lists: Mapping[str, NDArray[np.int64]], weights: Mapping[str, float], n: int) -> JoinedLists:
    """The best n places of several lists, each the best first and without a place twice.

    Examples
    --------
    >>> joined = join_ranks({"words": np.array([7, 3]), "meaning": np.array([3, 9])}, {"words": 1, "meaning": 1}, 2)
    >>> joined.places.tolist(), {name: [f"{p:.3f}" for p in part] for name, part in joined.parts.items()}
    ([3, 7], {'words': ['0.492', '0.500'], 'meaning': ['0.500', '0.000']})
    """
    places = np.unique(np.concatenate([np.empty(0, np.int64), *lists.values()]))
    total = sum(weights.values())
    parts = {}
    for name, listed in lists.items():
        part = np.zeros(len(places))
        ranks = np.arange(1, len(listed) + 1)
        part[np.searchsorted(places, listed)] = weights[name] / total * (C + 1) / (C + ranks)
        parts[name] = part
    scores = sum(parts.values(), np.zeros(len(places)))
    order = np.lexsort((places, -scores))[:n]
    return JoinedLists(
        places[order],
        scores[order].astype(np.float32),
        {name: p[order].astype(np.float32) for name, p in parts.items()},
    )


def unlike_each_other(
    relevance: NDArray[np.floating], vectors: NDArray[np.floating], n: int, diversity: float
) -> NDArray[np.int64]:
    """Positions of the n rows that are chosen, in their order.

    Parameters
    ----------
    relevance : array of shape (m,)
        From 0 to 1, of rows in the order of a list.
    vectors : array of shape (m, n_features)
        Of these rows, of length 1. The similarity of two is their inner product, put between 0 and 1.
    n : int
        How many.
    diversity : float
        0 keeps the order of the relevance, 1 looks at the similarities alone.
    """
    chosen: list[int] = []
    nearest = np.zeros(len(relevance))
    left = np.ones(len(relevance), bool)
    for _ in range(min(n, len(relevance))):
        worth = np.where(left, (1 - diversity) * relevance - diversity * nearest, -np.inf)
        best = int(np.argmax(worth))
        chosen.append(best)
        left[best] = False
        nearest = np.maximum(nearest, (1 + vectors @ vectors[best]) / 2)
        check_deadline()
    return np.array(chosen, np.int64)
