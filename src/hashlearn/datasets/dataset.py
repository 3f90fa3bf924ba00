"""A dataset: features, labels, and the rows that are queries."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Records:
    """The content of the files, before the split.

    Attributes
    ----------
    features : ndarray of shape (n, d)
    labels : ndarray of shape (n,) or (n, n_classes), or None
    images : ndarray of shape (n, height, width[, 3]), or None
    label_names : tuple of str
    query : ndarray of row numbers, or None where the files give no split
    rows : ndarray of row numbers to which the dataset is restricted, or None for all
    neighbors : ndarray of shape (n_queries, k), or None
    """

    features: Any
    labels: NDArray | None = None
    images: NDArray | None = None
    label_names: tuple[str, ...] = ()
    query: NDArray | None = None
    rows: NDArray | None = None
    neighbors: NDArray | None = None


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of features with their labels; some rows are queries, all others are the database and the training set.

    Attributes
    ----------
    name : str
    features : ndarray or CSR array of shape (n, d)
        In the type of the source (bytes, half floats, a memory-mapped file).
    labels : ndarray of shape (n,) or (n, n_classes), or None
        A class number per row, or a 0/1 matrix where a row has several labels.
    query : ndarray of shape (n_queries,), int64
        Row numbers of the queries.
    images : ndarray of shape (n, height, width) or (n, height, width, 3), uint8, or None
    label_names : tuple of str
        Names of the classes, if the source has them.
    neighbors : ndarray of shape (n_queries, k), or None
        The true nearest neighbors, if the file has them (ann-benchmarks), as row numbers of :attr:`database`.
    source : str
        The file or folder it was read from.

    Notes
    -----
    ``database`` and the other parts are views if the queries are the last rows, as in .mat and ann-benchmarks files.
    Otherwise every access makes a copy: keep the result in a variable.
    """

    name: str
    features: NDArray
    labels: NDArray | None
    query: NDArray[np.int64]
    images: NDArray | None = None
    label_names: tuple[str, ...] = ()
    neighbors: NDArray | None = None
    source: str = ""

    def __post_init__(self) -> None:
        n = self.features.shape[0]
        for name in ("labels", "images"):
            part = getattr(self, name)
            if part is not None and len(part) != n:
                raise ValueError(f"{name} must have a row for each of the {n} rows of features, got {len(part)}")
        query = np.asarray(self.query)
        if query.ndim != 1 or query.dtype.kind not in "ui":
            raise ValueError(f"query must be a list of row numbers, got {query.dtype} of shape {query.shape}")
        query = query.astype(np.int64)
        if not 0 < len(query) < n or query.min() < 0 or query.max() >= n or len(np.unique(query)) != len(query):
            raise ValueError(f"query must be distinct row numbers below {n}, at least one and not all of them")
        object.__setattr__(self, "query", query)

    def __len__(self) -> int:
        return self.features.shape[0]

    def __repr__(self) -> str:
        labels = (
            "no labels" if self.labels is None else f"{self.n_classes} classes" + ", several a row" * self.multilabel
        )
        return (
            f"<Dataset {self.name}: {len(self)} x {self.features.shape[1]} {self.features.dtype}, {labels}, "
            f"{len(self.query)} queries>"
        )

    @property
    def multilabel(self) -> bool:
        """Whether a row may have several labels."""
        return self.labels is not None and self.labels.ndim == 2

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 without labels."""
        if self.labels is None:
            return 0
        return self.labels.shape[1] if self.multilabel else len(np.unique(self.labels))

    @property
    def database_rows(self) -> NDArray[np.int64]:
        """Row numbers of the database: all rows that are not queries, in order."""
        inside = np.ones(len(self), bool)
        inside[self.query] = False
        return np.flatnonzero(inside)

    @property
    def database(self) -> NDArray:
        """Features of the database, which is also the training set, shape (n - n_queries, d)."""
        return self._database(self.features)

    @property
    def queries(self) -> NDArray:
        """Features of the queries, shape (n_queries, d)."""
        return self._queries(self.features)

    @property
    def database_labels(self) -> NDArray | None:
        """Labels of the database."""
        return None if self.labels is None else self._database(self.labels)

    @property
    def query_labels(self) -> NDArray | None:
        """Labels of the queries."""
        return None if self.labels is None else self._queries(self.labels)

    def _database(self, rows: NDArray) -> NDArray:
        return rows[: -len(self.query)] if self._queries_are_last else rows[self.database_rows]

    def _queries(self, rows: NDArray) -> NDArray:
        return rows[-len(self.query) :] if self._queries_are_last else rows[self.query]

    @property
    def _queries_are_last(self) -> bool:
        return np.array_equal(self.query, np.arange(len(self) - len(self.query), len(self)))
