"""Lists of rows around centers, and codes of what a row is beside the center of its list.

With c the center of a row's list, r = x - c its residual, R the residual that its code stands for and q a query::

    ||q - x||^2   =   ||q - c||^2 - 2 (q - c).r + |r|^2
                  ~   ||q - c||^2  +  [ k + 2 c.R ]  -  2 q.R,        k = |r|^2 - 2 E[q - c | r].(r - R)

The first term is one number for each list, the last one needs the products of the query with the words only, and the
bracket is one number for each code, its **correction**. For the negative inner product, all of it is halved and less by
half of |x|^2 and |q|^2, which are known exactly. Cosine is half the squared distance of rows of length one, 1 - cos.

What is to be expected of the queries near a row (:mod:`hashlearn.linalg.abh.near_queries`) is learned from pairs of
rows that are near each other, seen from the center of one of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hashlearn.codes import pack, unpack
from hashlearn.hashers.abh import ABH, PATIENCE
from hashlearn.index.grouped_centers import GroupedCenters, grouped_kmeans
from hashlearn.index.kernels.products import short
from hashlearn.linalg.abh import near_queries
from hashlearn.linalg.abh.near_queries import NearQueries, recall
from hashlearn.linalg.abh.signs import SignSearch
from hashlearn.linalg.abh.words import WordSearch, coefficients_of
from hashlearn.linalg.anchors.kmeans import kmeans
from hashlearn.linalg.anchors.search import AnchorSearch
from hashlearn.linalg.neighbors import nearest_of
from hashlearn.linalg.projections import unit_rows
from hashlearn.rows import RowBlocks, row_slices

METRICS = ("euclidean", "cosine", "dot")

ROWS_PER_LIST = 64
"""Rows for each list, at most, that the centers are learned from."""

CODE_ROWS = 20_000
"""Rows that words and corrections are learned from, at most."""

GROUPED_FROM = 6000
"""Lists from which on their centers are learned and looked for in groups: those of about ten million rows."""

ROUNDS = 10
HELD_OUT = 200
N_NEIGHBORS = 10
PLACES = (10, 100)


class EncodedRows(NamedTuple):
    """Rows as the lists keep them: the list, the packed code and the correction of each."""

    lists: NDArray[np.int32]
    codes: NDArray[np.uint8]
    corrections: NDArray[np.float32]


class Partition:
    """Centers of lists, and the words of the codes of residuals.

    Parameters
    ----------
    metric : {"euclidean", "cosine", "dot"}
    n_bits : int
    arrays : dict of arrays
        ``centers`` (n_lists, d), ``words`` (n_bits or 4 * n_bits, d), ``directions`` (d, r), ``shrinkage`` (r + 1,) and
        ``weights`` (4,), all of type float32; see :class:`~hashlearn.ABH` for the last three. ``groups`` (n_groups,),
        int64, is there where centers are in groups (:mod:`hashlearn.index.grouped_centers`). Words, and centers less
        the ``origin`` (d,) if there is one, are rounded to short numbers (:mod:`hashlearn.index.kernels.products`).
    """

    def __init__(self, metric: str, n_bits: int, arrays: dict[str, NDArray]):
        self.metric, self.n_bits, self.arrays = metric, n_bits, arrays
        self.origin = arrays.get("origin", np.zeros(arrays["centers"].shape[1], np.float32))
        self.offsets, self.words = short(arrays["centers"] - self.origin), short(arrays["words"])
        self.centers = self.origin + self.offsets
        self._lists_of = _nearest_center(self.centers, arrays.get("groups"))
        self._search = _search_of(self.words, n_bits)
        shrinkage = arrays["shrinkage"]
        nothing = np.zeros(self.centers.shape[1], np.float32)
        self._near = NearQueries(nothing, arrays["directions"], shrinkage[:-1], float(shrinkage[-1]))

    def __reduce__(self) -> tuple:
        return Partition, (self.metric, self.n_bits, self.arrays)

    @classmethod
    def learned(
        cls, rows: RowBlocks, n_lists: int, n_bits: int, metric: str, words: str, rng: np.random.RandomState
    ) -> "Partition":
        """Centers by k-means on a sample of rows, words and corrections from the residuals of a smaller one."""
        sample = _seen(rows.draw(max(CODE_ROWS, ROWS_PER_LIST * n_lists), rng).astype(np.float32, copy=False), metric)
        sample = sample[rng.permutation(len(sample))]
        n_lists = min(n_lists, len(sample))
        groups = None
        if n_lists < GROUPED_FROM:
            centers = kmeans(RowBlocks(sample), sample[:n_lists].copy(), ROUNDS, "lists").centers
        else:
            centers, groups = grouped_kmeans(sample, n_lists, ROUNDS, ROWS_PER_LIST)
        sample = sample[:CODE_ROWS].copy()
        labels = _nearest_center(centers, groups)(sample)
        hasher = _Words(n_bits, words=words, random_state=rng).fit(sample - centers[labels])
        centers = centers + hasher.mean_.astype(np.float32)
        labels = _nearest_center(centers, groups)(sample)
        code_words = short(hasher.words_)
        arrays: dict[str, NDArray] = {"centers": centers, "words": code_words}
        arrays |= _learned_corrections(sample, labels, centers, code_words, n_bits)
        if metric != "dot":  # inner products change with the origin
            arrays["origin"] = centers.mean(axis=0)
        if groups is not None:
            arrays["groups"] = groups
        return cls(metric, n_bits, arrays)

    @property
    def n_lists(self) -> int:
        return len(self.centers)

    @property
    def n_features(self) -> int:
        return self.centers.shape[1]

    def seen(self, block: NDArray) -> NDArray[np.float32]:
        """Rows or queries as the method sees them: in single precision, of length one where the angle counts."""
        return _seen(block.astype(np.float32, copy=False), self.metric)

    def encoded(self, block: NDArray) -> EncodedRows:
        """Lists, codes and corrections of rows."""
        X = self.seen(block)
        lists = np.empty(len(X), np.int32)
        codes, corrections = np.empty((len(X), -(-self.n_bits // 8)), np.uint8), np.empty(len(X), np.float32)
        for part in row_slices(len(X), 8 * len(self.words)):
            lists[part] = self._lists_of(X[part])
            residuals = X[part] - self.centers[lists[part]]
            codes[part] = pack(self._search(residuals) > 0)
            corrections[part] = self._corrections(X[part], self.offsets[lists[part]], residuals, codes[part])
        return EncodedRows(lists, codes, corrections)

    def beside_origin(self, block: NDArray) -> NDArray[np.float32]:
        """Rows or queries as the method sees them, less the origin."""
        return self.seen(block) - self.origin

    def nearest_lists(self, block: NDArray) -> NDArray[np.integer]:
        """The list of each row."""
        return self._lists_of(self.seen(block))

    def squared_residuals(self, block: NDArray) -> NDArray[np.float32]:
        """The squared distance of each row to the center of its list."""
        X = self.seen(block)
        residuals = X - self.centers[self._lists_of(X)]
        return np.einsum("ij,ij->i", residuals, residuals)

    def _corrections(self, X: NDArray, offsets: NDArray, residuals: NDArray, codes: NDArray) -> NDArray:
        coefficients = coefficients_of(unpack(codes, self.n_bits), len(self.words), residuals.dtype)
        added = self._near.terms(residuals, coefficients, self.words) @ self.arrays["weights"]
        added += 2 * np.einsum("ij,ij->i", offsets, coefficients @ self.words)
        if self.metric == "dot":
            added += np.einsum("ij,ij->i", offsets, offsets) - np.einsum("ij,ij->i", X, X)
        return added if self.metric == "euclidean" else added / 2

    def levels(self) -> NDArray[np.float32]:
        """What a list adds to all estimates of its codes, besides ``cross`` times the product with its offset."""
        if self.metric == "dot":
            return np.zeros(self.n_lists, np.float32)
        squares = np.einsum("ij,ij->i", self.offsets, self.offsets)
        return squares if self.metric == "euclidean" else squares / 2

    @property
    def cross(self) -> float:
        """What products with queries are multiplied by."""
        return 2.0 if self.metric == "euclidean" else 1.0


class _Words(ABH):
    """ABH without corrections: those of residuals need the centers, too. Without levels: lists keep words alone."""

    def _takes_levels(self, sample: NDArray, mean: NDArray, rng: np.random.RandomState) -> bool:
        return False

    def _learn_correction(self, X: NDArray, rng: np.random.RandomState) -> None:
        pass


def _nearest_center(
    centers: NDArray[np.float32], groups: NDArray[np.int64] | None
) -> Callable[[NDArray[np.float32]], NDArray[np.integer]]:
    """A function that tells the center of each row."""
    if groups is not None:
        return GroupedCenters(centers, groups)
    search = AnchorSearch(centers)
    return lambda X: search.nearest(X)[0][:, 0]


def _seen(block: NDArray[np.float32], metric: str) -> NDArray[np.float32]:
    return unit_rows(block) if metric == "cosine" else block


def _search_of(words: NDArray[np.float32], n_bits: int) -> SignSearch | WordSearch:
    real = np.dtype(np.float32)
    return WordSearch(words, 0, real) if len(words) > n_bits else SignSearch(words, PATIENCE, 0, real)


def _learned_corrections(
    sample: NDArray, labels: NDArray, centers: NDArray, words: NDArray, n_bits: int
) -> dict[str, NDArray]:
    """E[q - c | r] and the weights w: of a few, those with which held-out rows find most of their true neighbors."""
    n, d = sample.shape
    near_centers = centers[labels]
    residuals = sample - near_centers
    geometry = near_queries.MetricGeometry.named("euclidean", np.zeros(d, sample.dtype))
    queries = np.arange(min(HELD_OUT, n))
    truth = nearest_of(sample, queries, min(N_NEIGHBORS, n - 1), geometry)
    rows = truth.ravel()
    seen = np.repeat(sample[queries], truth.shape[1], axis=0) - near_centers[rows]
    near = NearQueries.of_pairs(residuals, rows, seen, geometry.origin)

    coefficients = coefficients_of(_search_of(words, n_bits)(residuals) > 0, len(words), sample.dtype)
    R = coefficients @ words
    levels = np.einsum("ij,ij->i", centers, centers) - 2 * (sample[queries] @ centers.T)
    known = levels[:, labels] + 2 * np.einsum("ij,ij->i", near_centers, R) - 2 * (sample[queries] @ R.T)
    known[np.arange(len(queries)), queries] = np.inf  # a row is not its own neighbor
    terms = near.terms(residuals, coefficients, words)
    places = np.unique(np.minimum(PLACES, n - 1)).tolist()
    candidates = [np.array(start, np.float32) for start in geometry.starts]
    scores = [recall(known + terms @ weights, truth, places) for weights in candidates]
    return {
        "directions": near.directions.astype(np.float32),
        "shrinkage": np.append(near.factors, near.rest).astype(np.float32),
        "weights": candidates[int(np.argmax(scores))],
    }


def word_rows(words: NDArray[np.float32], n_bits: int, n_bytes: int) -> NDArray[np.float32]:
    """The words for all bits of whole bytes: those of bits that codes do not have are zero."""
    per_bit = len(words) // n_bits
    padded = np.zeros((8 * n_bytes * per_bit, words.shape[1]), np.float32)
    padded[: len(words)] = words
    return padded


def encode_block(block: NDArray, first: int, partition: Partition) -> Any:
    """:meth:`Partition.encoded`, as passes over blocks of rows call it."""
    return partition.encoded(block)
