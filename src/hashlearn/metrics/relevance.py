"""What counts as a right answer: a shared class, a shared label, or being a true neighbor.

A relevance is a 0/1 matrix of shape (n_queries, n_database) that is never built: metrics ask for blocks of it.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hashlearn.codes import as_words, pack


class Relevance(ABC):
    """Which database items are right answers to which queries.

    Attributes
    ----------
    shape : tuple of int
        (n_queries, n_database).
    """

    shape: tuple[int, int]

    @abstractmethod
    def block(self, queries: slice, items: slice) -> NDArray[np.bool_]:
        """Relevance of the database rows ``items`` to the query rows ``queries``, dense."""


class SharedClass(Relevance):
    """Relevant if the class is the same; ``query_classes`` and ``classes`` are 1-D and comparable by ``==``."""

    def __init__(self, query_classes: NDArray, classes: NDArray):
        self.query_classes = query_classes
        self.classes = classes
        self.shape = (len(query_classes), len(classes))

    def block(self, queries: slice, items: slice) -> NDArray[np.bool_]:
        return self.query_classes[queries, None] == self.classes[None, items]


class SharedLabel(Relevance):
    """Relevant if at least one label is shared; labels are 0/1 matrices of shape (n, n_labels).

    An item without any label is relevant to nothing.
    """

    def __init__(self, query_labels: NDArray, labels: NDArray):
        self.query_words = as_words(pack(query_labels))
        self.words = as_words(pack(labels))
        self.shape = (len(query_labels), len(labels))

    def block(self, queries: slice, items: slice) -> NDArray[np.bool_]:
        left, right = self.query_words[queries], self.words[items]
        shared = (left[:, 0, None] & right[None, :, 0]) != 0
        for word in range(1, left.shape[1]):
            shared |= (left[:, word, None] & right[None, :, word]) != 0
        return shared


class TrueNeighbor(Relevance):
    """Relevant if the database row is among the listed neighbors of the query.

    Parameters
    ----------
    neighbors : array-like of int, shape (n_queries, k)
        Database rows, in any order, none twice in a row of the array.
    n_database : int
    """

    def __init__(self, neighbors: ArrayLike, n_database: int):
        self.neighbors = _check_neighbors(neighbors, n_database)
        self.shape = (len(self.neighbors), n_database)

    def block(self, queries: slice, items: slice) -> NDArray[np.bool_]:
        start, stop, _ = items.indices(self.shape[1])
        rows = self.neighbors[queries]
        inside = (rows >= start) & (rows < stop)
        relevant = np.zeros((len(rows), stop - start), np.bool_)
        relevant[np.nonzero(inside)[0], rows[inside] - start] = True
        return relevant


def relevance_of_labels(query_labels: ArrayLike, labels: ArrayLike) -> Relevance:
    """Relevance by labels: the same class, or at least one label in common.

    Parameters
    ----------
    query_labels, labels : array-like of shape (n,) or (n, n_labels)
        One class per item (numbers or strings), or a 0/1 matrix with a column per label. A matrix of one column is read
        as classes.

    Examples
    --------
    >>> relevance_of_labels([7, 3], [3, 3, 7]).block(slice(None), slice(None)).astype(int)
    array([[0, 0, 1],
           [1, 1, 0]])
    """
    left = label_array(query_labels, "query_labels")
    right = label_array(labels, "labels")
    if left.ndim != right.ndim or left.shape[1:] != right.shape[1:]:
        raise ValueError(
            f"query_labels and labels must both be classes of shape (n,) or 0/1 matrices with the same columns, "
            f"got shapes {np.shape(query_labels)} and {np.shape(labels)}"
        )
    if left.ndim == 2:
        return SharedLabel(left, right)
    if (left.dtype.kind in "US") != (right.dtype.kind in "US"):
        raise TypeError(
            f"query_labels and labels must both be numbers or both strings, got {left.dtype} and {right.dtype}"
        )
    _, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    numbers = numbers.astype(np.int32)
    return SharedClass(numbers[: len(left)], numbers[len(left) :])


def label_array(labels: ArrayLike, name: str) -> NDArray:
    """Labels as classes of shape (n,), or as a matrix of truth values with a column for each label."""
    if isinstance(labels, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be masked; fill it with {name}.filled(value)")
    array = np.asarray(labels)
    if array.dtype == np.object_ and array.ndim == 1 and all(isinstance(label, str) for label in array):
        array = array.astype(np.str_)
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise ValueError(f"{name} must have shape (n,) or (n, n_labels) and not be empty, got shape {array.shape}")
    if array.dtype.kind not in "biufUS":
        raise TypeError(f"{name} must be numbers or strings, got dtype {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must not contain NaN or infinity")
    if array.ndim == 1 or array.shape[1] == 1:
        return array.reshape(-1)
    if array.dtype.kind in "US" or not np.all((array == 0) | (array == 1)):
        raise ValueError(f"{name} of shape {array.shape} must be a 0/1 matrix with a column per label")
    return array != 0


def _check_neighbors(neighbors: ArrayLike, n_database: int) -> NDArray[np.int64]:
    array = np.asarray(neighbors)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"neighbors must have shape (n_queries, k) and not be empty, got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise TypeError(f"neighbors must be row numbers of the database, got dtype {array.dtype}")
    if array.min() < 0 or array.max() >= n_database:
        raise ValueError(
            f"neighbors must be row numbers from 0 to {n_database - 1}, got {array.min()} to {array.max()}"
        )
    if np.any(np.diff(np.sort(array, axis=1), axis=1) == 0):
        raise ValueError("neighbors must not name a database row twice for one query")
    return array.astype(np.int64)
